"""Primitives that pass a value on and do something beside."""

from __future__ import annotations

from backplane.core.primitive import primitive
from backplane.core.sizes import follow, like_first
from backplane.core.spec import Spec


@primitive
def identity(x: Spec) -> Spec:
    """The operand itself, as a tensor of its own."""
    return x


@primitive
def stop_gradient(x: Spec) -> Spec:
    """The operand, which no gradient reaches through it, an engine's own tape included."""
    return x


@primitive(name="print", effect=True)
def print_(x: Spec, *, message: str) -> Spec:
    """The operand; message and value go to stdout when it is computed."""
    return x


@primitive
def check_windows(x: Spec, *, sizes: tuple[int, ...]) -> Spec:
    """The operand, once it is sure that each axis has at least as many elements as `sizes` says:
    that a window fits, where an axis is so long as is only known when the program runs.
    """
    for axis, (n, size) in enumerate(zip(x.shape, sizes, strict=True)):
        if n is not None and n < size:
            raise ValueError(
                f"the window does not fit: it needs {size} elements along axis {axis} of a tensor "
                f"of shape {x.shape}"
            )
    return x


identity.vjps(lambda g, y, x: g)
check_windows.vjps(lambda g, y, x, *, sizes: g)
print_.vjps(lambda g, y, x, *, message: g)
follow(like_first, identity, stop_gradient, check_windows, print_)
