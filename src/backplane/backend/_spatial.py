"""What convolution, pooling, padding and resizing share: data formats, ranks, the errors of K."""

from __future__ import annotations

from typing import Any

from backplane import config
from backplane.backend._args import as_sizes
from backplane.core.graph import Tensor
from backplane.core.primitive import Primitive
from backplane.core.registry import primitive

__all__ = ["as_padding", "as_steps", "build", "check_rank", "from_last", "is_first", "to_last"]


def is_first(name: str, data_format: Any) -> bool:
    """Whether channels come first in a `data_format`, None being the default one.

    Raises:
        ValueError: names the K function, for anything that is no data format.
    """
    try:
        return config.normalize_data_format(data_format) == "channels_first"
    except (TypeError, ValueError):
        raise ValueError(
            f'K.{name}: data_format must be "channels_first" or "channels_last", '
            f"got {data_format!r}"
        ) from None


def check_rank(name: str, what: str, x: Tensor, *ranks: int) -> None:
    """ValueError names the K function and the argument `what` if its rank is none of `ranks`."""
    if x.ndim not in ranks:
        accepted = " or ".join(map(str, ranks))
        raise ValueError(f"K.{name}: {what} must have {accepted} axes, got shape {x.spec.shape}")


def as_steps(name: str, what: str, value: Any, count: int) -> tuple[int, ...]:
    """`count` positive ints from one int or as many: strides, dilation rates, window sizes.

    Raises:
        ValueError: names the K function and the argument `what`, as does the TypeError for others.
    """
    steps = as_sizes(value, count, f"K.{name}: {what}")
    if any(n < 1 for n in steps):
        raise ValueError(f"K.{name}: {what} must be at least 1, got {value!r}")
    return steps


def as_padding(name: str, padding: Any, *more: str) -> str:
    """A padding mode: `"valid"`, `"same"` or one of `more`, in lower case as in classic Keras."""
    accepted = ("valid", "same", *more)
    if isinstance(padding, str) and padding in accepted:
        return padding
    listed = ", ".join(f'"{p}"' for p in accepted)
    raise ValueError(f"K.{name}: padding must be one of {listed}, got {padding!r}")


def to_last(x: Tensor, first: bool) -> Tensor:
    """`x` with its channels last; `first` says whether they come first."""
    if not first:
        return x
    moved: Tensor = primitive("transpose")(x, perm=(0, *range(2, x.ndim), 1))
    return moved


def from_last(x: Tensor, first: bool) -> Tensor:
    """`to_last` undone."""
    if not first:
        return x
    moved: Tensor = primitive("transpose")(x, perm=(0, x.ndim - 1, *range(1, x.ndim - 1)))
    return moved


def build(name: str, op: Primitive[Any], *operands: Tensor, **params: Any) -> Any:
    """A node of `op`; what its spec rule objects to is said in the name of the K function."""
    try:
        return op(*operands, **params)
    except (TypeError, ValueError) as error:
        text = str(error).removeprefix(f"{op.name}: ")
        raise type(error)(f"K.{name}: {text}") from None
