"""Functions of single elements made functions of whole tensors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

__all__ = ["vectorize"]


def vectorize(
    pyfunc: Callable[..., Any], *, excluded: Collection[Any] | None = None,
    signature: str | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """A function that calls another one for each element of its arguments, which are broadcast, and
    puts the results together. With a `signature` such as "(n),(n)->()", not for elements but for
    slices along the last axes. Arguments that are `excluded`, by position or name, are handed on.
    """
    from keras.src.backend.common.backend_utils import vectorize_impl

    return vectorize_impl(pyfunc, _over_first_axis, excluded=excluded, signature=signature)


def _over_first_axis(
    function: Callable[..., Any], in_axes: Sequence[int | None]
) -> Callable[..., Any]:
    """`function` for each slice of those arguments whose entry in `in_axes` is not None."""
    from backplane.keras3.ops.core import vectorized_map

    def called(*args: Any) -> Any:
        def once(slices: list[Any]) -> Any:
            left = iter(slices)
            return function(
                *[a if i is None else next(left) for a, i in zip(args, in_axes, strict=True)]
            )

        return vectorized_map(
            once, [a for a, i in zip(args, in_axes, strict=True) if i is not None]
        )

    return called
