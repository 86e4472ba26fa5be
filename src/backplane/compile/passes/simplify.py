"""Constant folding, common subexpression elimination and dead code elimination, in linear time.

One sweep from inputs to outputs rebuilds the graph. It folds constants, takes branches whose
predicate is known, drops nodes that change nothing, and merges equal nodes (common subexpressions).
Dead code falls away, because only what the outputs need is visited.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from backplane.compile.cache_key import params_key
from backplane.compile.constants import fold
from backplane.compile.passes.peephole import concat_of_slices
from backplane.core.graph import Constant, Results, Tensor, constant, is_scalar, rebuild, rewrite
from backplane.core.primitive import Primitive
from backplane.core.sizes import same_shape
from backplane.core.trace import call
from backplane.ops import elementwise as ew
from backplane.ops import reduction, shaping
from backplane.ops.branches import cond_
from backplane.ops.creation import dims_and_shape, filled, full
from backplane.ops.effects import branch, identity, stop_gradient
from backplane.ops.picking import names_one, place
from backplane.ops.remat import remat_


def simplify(
    outputs: Sequence[Tensor],
    replace: Mapping[Tensor, Tensor] | None = None,
    *,
    keep_stops: bool = False,
    lowered: bool = False,
) -> list[Tensor]:
    """Equal `outputs` from fewer nodes. `replace` replaces leaves on the way, such as the learning
    phase by a number. `keep_stops` keeps `stop_gradient` for an engine's own tape. A `lowered`
    graph has operands without meaning (`UNREAD`), so its specs are kept and not inferred again.
    """
    seen: dict[Hashable, Tensor] = {}

    def simpler(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | Results:
        if node.op is None:
            if not is_scalar(node):
                return node
            return seen.setdefault((node.spec.dtype, node.value.tobytes()), node)
        shorter = _shorter(node, inputs, keep_stops)
        if shorter is None:
            shorter = node if inputs == node.inputs else rebuild(node, inputs, keep_spec=lowered)
            if not node.op.effect:
                key = node.op, shorter.inputs, params_key(shorter.params)
                shorter = seen.setdefault(key, shorter)
        return shorter

    return rewrite(outputs, simpler, replace=replace)


def _shorter(node: Tensor, inputs: tuple[Tensor, ...], keep_stops: bool) -> Tensor | Results | None:
    """A tensor that already exists and equals `node` on `inputs`, or several that equal its
    results; None if none is found.
    """
    op = node.op
    assert op is not None
    if inputs and isinstance(inputs[0], Constant) and (folded := fold(node, inputs)) is not None:
        return folded
    rule = RULES.get(op)
    if rule is None or (keep_stops and op is stop_gradient):
        return None
    return rule(node, inputs)


def _known(t: Tensor) -> Any:
    """The Python value of a constant scalar, else None."""
    return t.value[()] if is_scalar(t) else None


def _where(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
    condition = _known(inputs[0])
    if condition is None:
        return None
    branch = inputs[1] if condition else inputs[2]
    return branch if branch.spec == node.spec else None


def _chosen(node: Tensor, inputs: tuple[Tensor, ...]) -> Results | None:
    """The results of a `cond`, if its predicate is known."""
    condition = _known(inputs[0])
    if condition is None:
        return None
    graph = node.params["then" if condition else "orelse"]
    return dict(enumerate(simplify(call(graph, *inputs[1:]))))


def _first(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
    return inputs[0]


def _unchanged(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
    """The operand of a shape operation that leaves the shape as it is."""
    x = inputs[0]
    return x if x.spec == node.spec and same_shape(x, node) else None


def _neutral(
    value: int, sides: tuple[int, ...]
) -> Callable[[Tensor, tuple[Tensor, ...]], Tensor | None]:
    """The other operand of `x + 0`, `x * 1`, …, if the result has its spec."""

    def rule(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
        for side in sides:
            other = inputs[1 - side]
            if other.spec == node.spec and _is_filled_with(inputs[side], value, node):
                return other
        return None

    return rule


def _is_filled_with(t: Tensor, value: int, node: Tensor) -> bool:
    known = _known(t)
    if known is not None:
        return bool(known == value)
    return t.op is full and t.params["value"] == value and node.spec.is_static


def _scalar(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
    """A constant in the place of a single filled element."""
    return None if node.spec.shape else constant(node.params["value"], node.spec.dtype)


def _sum_of_zeros(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
    """Zeros for a sum of zeros: recurrent layers make their initial states by such sums."""
    (x,) = inputs
    axes, keepdims = node.params["axes"], node.params["keepdims"]
    if x.op is place and axes == (x.params["axis"],):
        return _sum_of_placed(x, keepdims)
    if x.op is not full or x.params["value"] != 0:
        return None
    sizes = enumerate(filled(x.params["shape"], x.inputs))
    kept = [1 if axis in axes else n for axis, n in sizes if keepdims or axis not in axes]
    if not kept:
        return constant(0, node.spec.dtype)
    dims, shape = dims_and_shape(kept)
    params = {"shape": shape, "value": 0, "dtype": node.spec.dtype}
    return Tensor(x.op, tuple(dims), params, node.spec, node.where)


def _sum_of_placed(x: Tensor, keepdims: bool) -> Tensor:
    """The operand that `place` has put between zeros. Gradients of crossentropies add it up."""
    g, labels = x.inputs
    result = ew.where(names_one(labels, x.params["size"]), g, ew.zero(g))
    return result if keepdims else shaping.squeeze(result, axes=(x.params["axis"],))


_plus_zero = _neutral(0, (0, 1))


def _sum(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
    other = _plus_zero(node, inputs)
    return concat_of_slices(node, inputs) if other is None else other


RULES: dict[Primitive[Any], Callable[[Tensor, tuple[Tensor, ...]], Tensor | Results | None]] = {
    ew.where: _where,
    cond_: _chosen,
    remat_: lambda node, inputs: dict(enumerate(inputs[: len(node.params["body"].outputs)])),
    full: _scalar,
    identity: _first,
    branch: _first,
    stop_gradient: _first,
    ew.cast: lambda t, inputs: inputs[0] if inputs[0].spec.dtype == t.spec.dtype else None,
    shaping.reshape: _unchanged,
    shaping.broadcast_to: _unchanged,
    shaping.sum_to: _unchanged,
    ew.add: _sum,
    reduction.sum: _sum_of_zeros,
    ew.sub: _neutral(0, (1,)),
    ew.mul: _neutral(1, (0, 1)),
    ew.div: _neutral(1, (1,)),
}
