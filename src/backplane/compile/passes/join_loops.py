"""Joins loops: one node in the place of a loop whose steps are those of an LSTM.

It comes after `prune`: a loop whose gates somebody reads, as gradients do, stays a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from backplane.compile.fuse.readers import serves
from backplane.core.context import changed
from backplane.core.graph import Graph, Tensor, rewrite, substitute, toposort
from backplane.core.primitive import OUTPUT, Primitive
from backplane.engines.base import Engine
from backplane.ops.control import scan_
from backplane.ops.creation import full
from backplane.ops.elementwise import add, mul, sigmoid, tanh
from backplane.ops.indexing import ALL
from backplane.ops.indexing import slice as slice_
from backplane.ops.linear import matmul
from backplane.ops.recurrence import lstm
from backplane.ops.shaping import concat, reshape


def join_loops(outputs: Sequence[Tensor], engine: Engine) -> list[Tensor]:
    """`outputs`, with `lstm` in the place of the loops that it computes, if `engine` has a lowering
    for them.
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


class _Term(NamedTuple):
    """Columns of a term of a gate's sum, from `start` on."""

    node: Tensor
    start: int


def _joined(scan: Tensor, engine: Engine) -> list[Tensor] | None:
    """The results of a scan, computed by `lstm`; None if it does something else."""
    body: Graph = scan.params["body"]
    carry, xs = scan.params["carry"], scan.params["xs"]
    if (carry, xs, scan.params["reverse"], scan.params["length"]) != (2, 1, False, None):
        return None
    for h in (0, 1):
        weights = weights_of(body, h)
        if weights is not None and all(t is body.outputs[h] for t in body.outputs[2:]):
            outside = dict(zip(body.inputs[3:], scan.inputs[3:], strict=True))
            weights = substitute(weights, outside)
            node = lstm(scan.inputs[2], scan.inputs[h], scan.inputs[1 - h], *weights)
            if not serves(engine.table.get(lstm.name), node[0].inputs[0]):
                return None
            ys, *states = node
            return [states[h], states[1 - h], *[ys for _ in body.outputs[2:]]]
    return None


def weights_of(body: Graph, h: int) -> list[Tensor] | None:
    """The kernel, the recurrent kernel and the bias of the LSTM whose step `body` is, as it sees
    them, if state `h` is h; None if it is another step.
    """
    gates = _gates(body, h)
    return None if gates is None else _weights(body, gates, h)


def _gates(body: Graph, h: int) -> list[Tensor] | None:
    """The arguments of the functions of the gates i, f, g and o, if state `h` is h."""
    before, new_h, new_c = body.inputs[1 - h], body.outputs[h], body.outputs[1 - h]
    output = _pair(new_h, mul, lambda a, b: a.op is sigmoid and b.op is tanh)
    if output is None or output[1].inputs[0] is not new_c:
        return None
    parts = _pair(new_c, add, lambda a, b: before in a.inputs)
    if parts is None:
        return None
    forget = _pair(parts[0], mul, lambda a, b: a.op is sigmoid and b is before)
    new = _pair(parts[1], mul, lambda a, b: a.op is sigmoid and b.op is tanh)
    if forget is None or new is None:
        return None
    return [t.inputs[0] for t in (new[0], forget[0], new[1], output[0])]


def _pair(
    t: Tensor, op: Primitive[Tensor], fits: Callable[[Tensor, Tensor], bool]
) -> tuple[Tensor, Tensor] | None:
    """The operands of a commutative operation, in the order that fits."""
    if t.op is op:
        a, b = t.inputs
        for pair in ((a, b), (b, a)):
            if fits(*pair):
                return pair
    return None


def _weights(body: Graph, gates: Sequence[Tensor], h: int) -> list[Tensor] | None:
    """The kernel, the recurrent kernel and the bias of all gates."""
    units = body.inputs[h].spec.shape[-1]
    if units is None:
        return None
    found: list[list[_Term]] = [[], [], []]
    for gate in gates:
        terms = _terms(gate, 0)
        if gate.spec.shape[-1] != units or terms is None:
            return None
        for node, start in terms:
            matrix = _factor(node, body.inputs[2], body.inputs[h])
            found[2 if matrix is None else matrix[0]].append(
                _Term(node if matrix is None else matrix[1], start)
            )
    kernel, recurrent, bias = found
    if (len(kernel), len(recurrent)) != (4, 4) or len(bias) not in (0, 4):
        return None
    if not all(_is_outside(t.node, body) for terms in found for t in terms):
        return None
    if not all(_is_vector(t.node) for t in bias):
        return None
    joined = [_columns(terms, units) for terms in found[: 2 + bool(bias)]]
    if bias:
        return [*joined[:2], reshape(joined[2], shape=(4 * units,))]
    return [*joined, full(shape=(4 * units,), value=0, dtype=joined[0].spec.dtype)]


def _terms(t: Tensor, start: int) -> list[_Term] | None:
    """The terms of the sum that `t` is, whose columns are read from `start` on."""
    size = t.spec.shape[-1]
    if t.op is slice_:
        *others, (first, _, step) = t.params["slices"]
        if any(part != ALL for part in others) or step != 1 or len(t.inputs) > 1:
            return None
        return _terms(t.inputs[0], start + (first or 0)) if (first or 0) >= 0 else None
    if t.op is not add:
        return [_Term(t, start)]
    found: list[_Term] = []
    for x in t.inputs:
        terms = _terms(x, start) if x.spec.shape[-1:] == (size,) else None
        if terms is None:
            return None
        found += terms
    return found


def _factor(t: Tensor, row: Tensor, state: Tensor) -> tuple[int, Tensor] | None:
    """The matrix that the row (0) or the state (1) is multiplied by."""
    if t.op is not matmul or t.params["transpose_x"] or t.params["transpose_y"]:
        return None
    x, matrix = t.inputs
    if x not in (row, state) or matrix.ndim != 2:
        return None
    return int(x is state), matrix


def _is_outside(t: Tensor, body: Graph) -> bool:
    """Whether all steps compute the same `t`, without doing anything besides."""
    order = toposort([t])
    pure = all(x.op is None or not (x.op.effect or x.op.varies) for x in order)
    return pure and not {*body.inputs[:3]}.intersection(order)


def _is_vector(t: Tensor) -> bool:
    return t.spec.shape[-1] is not None and {1}.issuperset(t.spec.shape[:-1])


def _columns(terms: Sequence[_Term], units: int) -> Tensor:
    """The columns of the four gates side by side."""
    first = terms[0].node
    in_order = [_Term(first, n * units) for n in range(4)]
    if list(terms) == in_order and first.spec.shape[-1] == 4 * units:
        return first
    parts = [
        slice_(t, slices=(*[ALL] * (t.ndim - 1), (start, start + units, 1))) for t, start in terms
    ]
    return concat(*parts, axis=first.ndim - 1)
