"""Rewrites of whole graphs before emission: few, linear in the graph, never needed for correctness.

One sweep from inputs to outputs rebuilds the graph: constants are folded, branches on known
predicates are taken, what changes nothing is dropped, equal nodes become one. Nodes that nothing
needs fall away because the sweep starts from the outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from backplane.compile.structure import params_key
from backplane.core.context import set_inherited
from backplane.core.graph import Constant, Graph, Placeholder, Tensor, constant, rebuild, toposort
from backplane.core.primitive import OUTPUT
from backplane.core.shapes import product
from backplane.core.trace import call
from backplane.engines import get
from backplane.engines.base import Engine, Entry

FOLD_LIMIT = 64
"""Largest number of elements of a constant computed at compile time."""

UNREAD = constant(0)
"""Stands for an operand that the engine's lowering does not read."""


def simplify(
    outputs: Sequence[Tensor],
    replace: dict[Tensor, Tensor] | None = None,
    *,
    keep_stops: bool = False,
    lowered: bool = False,
) -> list[Tensor]:
    """Equal `outputs`, computed with less. `replace` substitutes leaves on the way (the learning
    phase by a number); `keep_stops` keeps `stop_gradient` for an engine's own tape. A `lowered`
    graph has operands without meaning (`UNREAD`): its specs are kept, not inferred again.
    """
    new: dict[Tensor, Tensor] = dict(replace or {})
    seen: dict[Hashable, Tensor] = {}
    for node in toposort(outputs):
        if node in new:
            continue
        if node.op is None:
            new[node] = _shared_constant(node, seen)
            continue
        inputs = tuple([new[t] for t in node.inputs])
        shorter = _shorter(node, inputs, keep_stops)
        if shorter is None:
            same = all(map(_is, inputs, node.inputs))
            shorter = node if same else rebuild(node, inputs, keep_spec=lowered)
            if not node.op.effect:
                shorter = seen.setdefault(_node_key(shorter), shorter)
        new[node] = shorter
    return [new[t] for t in outputs]


def _is(a: Any, b: Any) -> bool:
    return a is b


def _node_key(node: Tensor) -> Hashable:
    assert node.op is not None
    return (node.op, node.inputs, params_key(node.params))


def _shared_constant(node: Tensor, seen: dict[Hashable, Tensor]) -> Tensor:
    if isinstance(node, Constant) and isinstance(node.value, np.ndarray) and node.value.ndim == 0:
        return seen.setdefault((node.spec.dtype, bytes(node.value.data)), node)
    return node


def _shorter(node: Tensor, inputs: tuple[Tensor, ...], keep_stops: bool) -> Tensor | None:
    """A tensor that is already there and equals `node` on `inputs`, if one is found."""
    op = node.op
    assert op is not None
    if op is OUTPUT:
        return _chosen(node, inputs[0])
    if inputs and not op.effect and all(isinstance(t, Constant) for t in inputs):
        folded = _fold(node, inputs)
        if folded is not None:
            return folded
    rule = RULES.get(op.name)
    if rule is None or (keep_stops and op.name == "stop_gradient"):
        return None
    return rule(node, inputs)


def _fold(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
    """The value of a small node that has only constants as inputs."""
    assert node.op is not None
    if node.op.multiple or not node.spec.is_static:
        return None
    small = (product(node.spec.shape) or 0) <= FOLD_LIMIT
    engine = get("numpy")
    if (
        not small
        or node.op.name not in engine.table
        or any(isinstance(v, Graph) for v in node.params.values())
    ):
        return None
    values = [t.value for t in inputs]  # type: ignore[attr-defined]
    if not all(isinstance(v, np.ndarray) and v.size <= FOLD_LIMIT for v in values):
        return None
    entry = engine.table[node.op.name]
    with np.errstate(all="ignore"):
        result = call_entry(entry, [t.spec for t in inputs], node.params)(*values)
    return constant(np.asarray(result), node.spec.dtype)


def call_entry(entry: Entry, specs: Sequence[Any], params: Any) -> Callable[..., Any]:
    """The lowering of a table entry as a function of the operands alone."""
    if entry.builds:
        return entry.function(specs, **params)  # type: ignore[no-any-return]
    if params:
        return lambda *values: entry.function(*values, **params)
    return entry.function


def _known(t: Tensor) -> Any:
    """The Python value of a constant scalar, else None."""
    if isinstance(t, Constant) and isinstance(t.value, np.ndarray) and t.value.ndim == 0:
        return t.value[()]
    return None


def _where(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
    condition = _known(inputs[0])
    if condition is None:
        return None
    branch = inputs[1] if condition else inputs[2]
    return branch if branch.spec == node.spec else None


def _chosen(node: Tensor, source: Tensor) -> Tensor | None:
    """The result of a `cond` whose predicate is known."""
    if source.op is None or source.op.name != "cond":
        return None
    condition = _known(source.inputs[0])
    if condition is None:
        return None
    graph = source.params["then" if condition else "orelse"]
    index = node.params["index"]
    return simplify(call(Graph(graph.inputs, [graph.outputs[index]]), *source.inputs[1:]))[0]


def _first(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
    return inputs[0]


def _unchanged(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
    """For shape operations on static shapes that leave the shape as it is."""
    x = inputs[0]
    return x if x.spec == node.spec and x.spec.is_static else None


def _same_dtype(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
    return inputs[0] if inputs[0].spec.dtype == node.spec.dtype else None


def _neutral(
    value: int, sides: tuple[int, ...]
) -> Callable[[Tensor, tuple[Tensor, ...]], Tensor | None]:
    """For `x + 0`, `x * 1`, …: the other operand, if the result has its spec."""

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
    return (
        t.op is not None
        and t.op.name == "full"
        and t.params["value"] == value
        and node.spec.is_static
    )


def _scalar(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
    """A single filled element is a constant."""
    return None if node.spec.shape else constant(node.params["value"], node.spec.dtype)


def _sum_of_zeros(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
    """Zeros, without those that are summed: so recurrent layers make their initial states."""
    (x,) = inputs
    if x.op is None or x.op.name != "full" or x.params["value"] != 0:
        return None
    axes, keepdims = node.params["axes"], node.params["keepdims"]
    dims, shape, given = [], [], iter(x.inputs)
    for axis, n in enumerate(x.params["shape"]):
        size = next(given) if n is None else None
        if axis not in axes:
            shape.append(n)
            dims += [] if size is None else [size]
        elif keepdims:
            shape.append(1)
    if not shape:
        return constant(0, node.spec.dtype)
    params = {"shape": tuple(shape), "value": 0, "dtype": node.spec.dtype}
    return Tensor(x.op, tuple(dims), params, node.spec, node.where)


_plus_zero = _neutral(0, (0, 1))

SLICES = ("slice_grad", "add")
"""Gradients of slices, and sums of them."""


def _sum(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
    other = _plus_zero(node, inputs)
    if other is not None or not all(t.op is not None and t.op.name in SLICES for t in inputs):
        return other
    # Not imported at the top: few graphs hold such sums.
    from backplane.compile.joining import joined

    return joined(node, inputs)


RULES: dict[str, Callable[[Tensor, tuple[Tensor, ...]], Tensor | None]] = {
    "where": _where,
    "full": _scalar,
    "identity": _first,
    "stop_gradient": _first,
    "cast": _same_dtype,
    "reshape": _unchanged,
    "broadcast_to": _unchanged,
    "sum_to": _unchanged,
    "add": _sum,
    "sum": _sum_of_zeros,
    "sub": _neutral(0, (1,)),
    "mul": _neutral(1, (0, 1)),
    "div": _neutral(1, (1,)),
}


def lower(outputs: Sequence[Tensor], engine: Engine) -> list[Tensor]:
    """Replace primitives that `engine` has no lowering for, or none that fits (`Entry.unless`), by
    their decompositions, and operands that its lowerings do not read by `UNREAD`.

    Raises:
        NotImplementedError: names the primitive and the engine, where there is no decomposition.
    """
    new: dict[Tensor, Tensor] = {}
    for node in toposort(outputs):
        if node.op is None:
            new[node] = node
            continue
        inputs = tuple([new[t] for t in node.inputs])
        entry = engine.table.get(node.op.name)
        if node.op is OUTPUT and isinstance(inputs[0], _Results):
            new[node] = inputs[0].results[node.params["index"]]
        elif _serves(entry, node) or node.op is OUTPUT or node.op.name == "dim":
            if entry is not None and entry.reads is not None:
                inputs = tuple([t if i in entry.reads else UNREAD for i, t in enumerate(inputs)])
            same = all(map(_is, inputs, node.inputs))
            new[node] = node if same else rebuild_as(node, inputs)
        else:
            new[node] = _decomposed(node, inputs, engine)
    return [new[t] for t in outputs]


def _serves(entry: Entry | None, node: Tensor) -> bool:
    """Whether the lowering is there, and takes operands like these."""
    if entry is None or entry.unless is None:
        return entry is not None
    return not entry.unless([t.spec for t in node.inputs], **node.params)


def rebuild_as(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor:
    """The node on other inputs, its spec kept."""
    return rebuild(node, inputs, keep_spec=True)


class _Results(Tensor):
    """Stands for a decomposed node with several results."""

    __slots__ = ("results",)
    results: list[Tensor]


def _decomposed(node: Tensor, inputs: tuple[Tensor, ...], engine: Engine) -> Tensor:
    op = node.op
    assert op is not None
    if op.decomposition is None:
        raise NotImplementedError(
            f"the engine {engine.name!r} has no lowering for the primitive {op.name!r}, which "
            f"has no "
            f"decomposition either (built at {node.where})"
        )
    fresh = [Placeholder(t.spec) if t.op is not None else t for t in inputs]
    before = set_inherited(node.where)
    try:
        results = op.decomposition(*fresh, **node.params)
    finally:
        set_inherited(before)
    listed = list(results) if op.multiple else [results]
    mapping = {p: t for p, t in zip(fresh, inputs, strict=True) if p is not t}
    listed = _graft(lower(listed, engine), mapping)
    if not op.multiple:
        return listed[0]
    bundle = _Results(None, (), {}, node.spec, node.where)
    bundle.results = listed
    return bundle


def _graft(outputs: Sequence[Tensor], mapping: dict[Tensor, Tensor]) -> list[Tensor]:
    """`outputs` with placeholders replaced, specs kept (an inferred one may know less)."""
    new = dict(mapping)
    for node in toposort(outputs):
        if node not in new:
            inputs = tuple([new[t] for t in node.inputs])
            same = all(map(_is, inputs, node.inputs))
            new[node] = node if same else rebuild_as(node, inputs)
    return [new[t] for t in outputs]
