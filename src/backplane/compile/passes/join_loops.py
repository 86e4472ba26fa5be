"""Joins loops: one node in the place of a loop whose steps are those of an LSTM or of a GRU.

It comes after `prune`: a loop whose gates somebody reads, as gradients do, stays a loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from backplane.compile.fuse.loops import loop_of
from backplane.compile.fuse.readers import serves
from backplane.core.context import changed
from backplane.core.graph import Graph, Tensor, rewrite, substitute
from backplane.core.primitive import OUTPUT
from backplane.engines.base import Engine
from backplane.ops.control import scan_


def join_loops(outputs: Sequence[Tensor], engine: Engine) -> list[Tensor]:
    """`outputs`, with the primitive of a recurrent layer in the place of the loops that it
    computes, if `engine` has a lowering for them.
    """
    joined: dict[Tensor, list[Tensor]] = {}

    def rule(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
        if node.op is OUTPUT and inputs[0] in joined:
            index: int = node.params["index"]
            return joined[inputs[0]][index]
        if node.op is not scan_:
            return None
        plain = Tensor(scan_, inputs, node.params, node.spec, node.where)
        with changed(line=node.where):
            found = _joined(plain, engine)
        if found is None:
            return None
        joined[plain] = found
        return plain  # It stands for the results.

    return rewrite(outputs, rule, keep_specs=True)


def _joined(scan: Tensor, engine: Engine) -> list[Tensor] | None:
    """The results of a scan, computed by a primitive; None if there is none for it."""
    loop = loop_of(scan, engine)
    body: Graph = scan.params["body"]
    carry, inputs = scan.params["carry"], scan.inputs
    if loop is None or any(t is not body.outputs[loop.states[0]] for t in body.outputs[carry:]):
        return None
    outside = dict(zip(body.inputs[carry + 1 :], inputs[carry + 1 :], strict=True))
    weights = substitute(loop.weights, outside)
    starts = [inputs[i] for i in loop.states]
    ys, *states = loop.op(inputs[carry], *starts, *weights, **loop.params)
    if not serves(engine.table.get(loop.op.name), ys.inputs[0]):
        return None
    last = dict(zip(loop.states, states, strict=True))
    return [*[last[i] for i in range(carry)], *[ys for _ in body.outputs[carry:]]]
