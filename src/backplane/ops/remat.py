"""Rematerialization: gradients compute inner tensors again, in place of keeping them."""

from __future__ import annotations

from collections.abc import Sequence

from backplane.core import trace
from backplane.core.graph import Graph, Tensor, nested, rebuild, rewrite, toposort
from backplane.core.primitive import primitive
from backplane.core.sizes import tie_all
from backplane.core.spec import Spec, is_float
from backplane.core.traits import Cotangents, Memory, Precision, like_first
from backplane.ops.autodiff import gradients
from backplane.ops.effects import identity
from backplane.ops.native import stateful_native


@primitive(precision=Precision.FOLLOWS, memory=Memory.VIEW, axes=like_first)
def barrier(x: Spec, *after: Spec) -> Spec:
    """The first operand, once the others have been computed. What is computed from it is not merged
    with what is computed from the operand, and not before the others.
    """
    return x


barrier.vjps(lambda g, y, x, *after: g)


@primitive(multiple=True, memory=Memory.ANY)
def remat_(*operands: Spec, body: Graph) -> list[Spec]:
    """The first operands, which are what `body` computes from the others. Their gradient computes
    the body again.
    """
    return list(operands[: len(body.outputs)])


remat_.decompose(lambda *operands, body: [identity(t) for t in operands[: len(body.outputs)]])


@remat_.vjp
def _(g: Cotangents, y: list[Tensor], *operands: Tensor, body: Graph) -> Cotangents:
    reached = [gj for gj in g if gj is not None]
    # Sizes may be numbers of the host, and cost no memory.
    again = [
        barrier(t, *reached) if t.ndim or is_float(t.spec.dtype) else t
        for t in operands[len(y) :]
    ]  # fmt: skip
    results = rewrite(
        [t for t, gj in zip(body.outputs, g, strict=True) if gj is not None],
        _again,
        replace=dict(zip(body.inputs, again, strict=True)),
    )
    return [None] * len(y) + gradients(results, again, reached, stop=again)


def _again(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
    """The node as a part of the gradient. An effect does not happen twice."""
    if node.op is None:
        return None
    if node.op.effect:
        return inputs[0]
    copy = rebuild(node, inputs)
    copy.where = node.where and node.where.of_gradient()
    return copy


def rematerialized(outputs: Sequence[Tensor], mark: int) -> list[Tensor]:
    """`outputs`, whose gradient computes again what was built after the serial number `mark`.
    ValueError if a library's function with an effect is part of it.
    """
    body, captured, keys = trace.close(outputs, [], mark, lazy=True)
    for node in nested(toposort(body.outputs)):
        if node.op is stateful_native:
            raise ValueError(
                f"{node.params['function'].name} draws random numbers or has an effect, so it "
                "cannot be computed again for the gradient"
            )
    results = remat_(*outputs, *captured, *keys, body=body)
    tie_all(results, outputs)
    return results
