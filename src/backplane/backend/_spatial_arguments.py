"""Arguments of the functions on images, sequences and volumes: data formats, ranks, windows."""

from __future__ import annotations

from backplane import config
from backplane.backend._args import as_sizes
from backplane.backend.types import Sizes
from backplane.core.graph import Tensor
from backplane.ops.axes import moved


def is_first(data_format: str | None) -> bool:
    """Whether channels come first in a `data_format`; None stands for the configured one.
    ValueError for anything else.
    """
    try:
        return config.normalize_data_format(data_format) == "channels_first"
    except (TypeError, ValueError):
        raise ValueError(
            f'data_format must be "channels_first" or "channels_last", got {data_format!r}'
        ) from None


def check_rank(what: str, x: Tensor, rank: int) -> Tensor:
    """The argument `what`, which must have this rank; the ValueError for another one names it."""
    if x.ndim != rank:
        raise ValueError(f"{what} must have {rank} axes, got shape {x.spec.shape}")
    return x


def known_shape(what: str, x: Tensor, rank: int) -> tuple[int, ...]:
    """The shape of the argument `what`, which must have this rank, and no unknown size."""
    check_rank(what, x, rank)
    sizes = tuple([n for n in x.spec.shape if n is not None])
    if len(sizes) != rank:
        raise ValueError(f"all sizes of {what} must be known, got shape {x.spec.shape}")
    return sizes


def as_steps(what: str, value: Sizes, count: int) -> tuple[int, ...]:
    """`count` positive ints from one int or `count` of them: strides, dilation rates, sizes of
    windows. The ValueError or TypeError names `what`.
    """
    steps = as_sizes(value, count, what)
    if any(not 1 <= n < 2**31 for n in steps):
        raise ValueError(f"{what} must be at least 1 and below 2**31, got {value!r}")
    return steps


def as_padding(padding: object, *more: str) -> str:
    """A padding mode: `"valid"`, `"same"` or one of `more`, in lower case as in classic Keras."""
    accepted = ("valid", "same", *more)
    if isinstance(padding, str) and padding in accepted:
        return padding
    listed = ", ".join(f'"{p}"' for p in accepted)
    raise ValueError(f"padding must be one of {listed}, got {padding!r}")


def to_last(x: Tensor, first: bool) -> Tensor:
    """`x` with its channels last; `first` says whether they come first."""
    return moved(x, 1, x.ndim - 1) if first else x


def from_last(x: Tensor, first: bool) -> Tensor:
    """The inverse of `to_last`."""
    return moved(x, x.ndim - 1, 1) if first else x
