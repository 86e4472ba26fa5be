"""Primitives that pass a value on and do something besides, and updates of variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from backplane.core.context import current, user_line
from backplane.core.graph import Tensor
from backplane.core.mesh import Layout
from backplane.core.primitive import moving, primitive
from backplane.core.spec import FLOAT, Spec, check_dtype
from backplane.core.traits import Cotangents, Memory, Stacked, like_first, whole_time
from backplane.core.variable import Variable


def _stack_of_first(node: Tensor, operands: Sequence[Stacked]) -> Tensor:
    assert node.op is not None
    return node.op(operands[0].tensor)


_passing = moving(Memory.VIEW, like_first, elementwise=True, on_host=True, stacks=_stack_of_first)


@_passing
def identity(x: Spec) -> Spec:
    """The operand itself, as a tensor of its own."""
    return x


@_passing
def stop_gradient(x: Spec) -> Spec:
    """The operand, but no gradient passes through to it, not even on an engine's own tape."""
    return x


@_passing
def branch(x: Spec) -> Spec:
    """An operand that a switch may choose: the operand itself. The gradient through it is 0, and
    not NaN, in elements that were not chosen (`ops.switches`).
    """
    return x


@primitive(name="print", effect=True, memory=Memory.VIEW, axes=like_first)
def print_(x: Spec, *, message: str, style: tuple[Any, ...]) -> Spec:
    """The operand. The message and its value go to stdout when it is computed, in a style: how many
    elements to show at the ends of an axis, the format of a number, and whether to print what can
    be said about all elements instead.
    """
    return x


@primitive(effect=True, memory=Memory.VIEW, axes=like_first)
def check_numerics(x: Spec, *, message: str) -> Spec:
    """The operand, after a check that none of its elements is NaN or infinite. If one is, the
    program fails with the message.
    """
    check_dtype("check_numerics", "x", x.dtype, FLOAT)
    return x


@moving(Memory.VIEW, like_first)
def check_windows(x: Spec, *, sizes: tuple[int, ...]) -> Spec:
    """The operand, after a check that each axis has at least as many elements as `sizes` says. So a
    window is known to fit along axes whose size is only known when the program runs.
    """
    for axis, (n, size) in enumerate(zip(x.shape, sizes, strict=True)):
        if n is not None and n < size:
            raise ValueError(
                f"the window does not fit: it needs {size} elements along axis {axis} of a tensor "
                f"of shape {x.shape}"
            )
    return x


@moving(Memory.VIEW, like_first, stacks=whole_time("layout", ()))
def shard(x: Spec, *, layout: Layout) -> Spec:
    """The operand, which lies on a mesh of devices in that layout. Its gradient lies so too.
    Without a mesh it is the operand itself.
    """
    return x


shard.vjps(lambda g, y, x, *, layout: shard(g, layout=layout))
shard.decompose(lambda x, *, layout: identity(x))


# --- sparse matrices: tensors whose spec says `sparse` --------------------------------------------
# Most functions get a sparse operand through `lift.as_tensor`, which puts `to_dense` before them.
# So only these primitives, `identity` and products ever meet one. They decompose to `identity`:
# what `compile.sparse` does not put into compressed rows is dense.


@primitive(memory=Memory.VIEW, linear=(0,), axes=like_first)
def to_dense(x: Spec) -> Spec:
    """The elements of a sparse matrix as a dense one."""
    return Spec(x.shape, x.dtype)


@primitive(memory=Memory.VIEW, linear=(0,), axes=like_first)
def to_sparse(x: Spec) -> Spec:
    """The elements of a dense matrix as a sparse one."""
    if len(x.shape) != 2:
        raise ValueError(f"to_sparse: x must have 2 axes, got shape {x.shape}")
    return Spec(x.shape, x.dtype, sparse=True)


for _op in (identity, branch, print_, check_numerics, check_windows, to_dense, to_sparse):
    _op.vjps(lambda g, y, x, **params: g)
branch.decompose(lambda x: identity(x))
to_dense.decompose(lambda x: identity(x))
to_sparse.decompose(lambda x: identity(x))


Rule = Callable[[Cotangents], Cotangents]


@primitive(multiple=True, memory=Memory.ANY)
def with_gradient(*operands: Spec, rule: Rule, results: int) -> list[Spec]:
    """The first operands, as many as there are `results`. Their gradient is what `rule` makes of
    their cotangents, for the other operands, and not that of what they were computed by.
    """
    return list(operands[:results])


with_gradient.decompose(lambda *operands, rule, results: [identity(t) for t in operands[:results]])


@with_gradient.vjp
def _(
    g: Cotangents,
    y: list[Tensor],
    *operands: Tensor,
    rule: Rule,
    results: int,
) -> Cotangents:
    cotangent = rule(g)
    if len(cotangent) != len(operands) - results:
        raise ValueError(
            f"with_gradient: the rule gives {len(cotangent)} cotangents for "
            f"{len(operands) - results} operands"
        )
    return [*[None] * results, *cotangent]


# --- updates of variables -------------------------------------------------------------------------


class Update(Tensor):
    """The new value of `variable`. A program that has an update among its outputs or updates writes
    the value to the variable.
    """

    __slots__ = ("variable",)

    def __init__(self, variable: Variable, value: Tensor) -> None:
        inputs = (current().updated.get(value, value),)
        super().__init__(identity, inputs, {}, value.spec, user_line(), variable.name)
        self.variable = variable
