"""Primitives that pass a value on and do something beside."""

from __future__ import annotations

from collections.abc import Sequence

from backplane.core.graph import Tensor
from backplane.core.primitive import primitive
from backplane.core.spec import Spec
from backplane.core.traits import Memory, Stacked, like_first


def _stack_of_first(node: Tensor, operands: Sequence[Stacked]) -> Tensor:
    assert node.op is not None
    stacked: Tensor = node.op(operands[0].tensor)
    return stacked


@primitive(
    memory=Memory.VIEW, elementwise=True, on_host=True, linear=(0,), axes=like_first,
    stacks=_stack_of_first,
)  # fmt: skip
def identity(x: Spec) -> Spec:
    """The operand itself, as a tensor of its own."""
    return x


@primitive(
    memory=Memory.VIEW, elementwise=True, on_host=True, linear=(0,), axes=like_first,
    stacks=_stack_of_first,
)  # fmt: skip
def stop_gradient(x: Spec) -> Spec:
    """The operand, which no gradient reaches through it, an engine's own tape included."""
    return x


@primitive(name="print", effect=True, memory=Memory.VIEW, axes=like_first)
def print_(x: Spec, *, message: str) -> Spec:
    """The operand; message and value go to stdout when it is computed."""
    return x


@primitive(memory=Memory.VIEW, linear=(0,), axes=like_first)
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
