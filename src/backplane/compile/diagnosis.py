"""Finds out why a program failed, from the shapes that it was given.

Each engine has words of its own for operands that do not fit, and some do not even name the user's
operation. So after a failure, the sizes that were fed are carried through the graph. The first node
whose spec rule refuses them tells what is wrong, in the same words on every engine: those in which
it would have refused them while the graph was built, had the sizes been known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from backplane.core.context import Where
from backplane.core.graph import Graph, Tensor, toposort
from backplane.core.primitive import OUTPUT, Primitive
from backplane.core.sizes import origin
from backplane.core.spec import Spec
from backplane.ops.branches import cond_
from backplane.ops.control import scan_, while_loop_, wider
from backplane.ops.indexing import slice as take_slice
from backplane.ops.shaping import squeeze

Specs = dict[Tensor, Any]
"""The spec of each tensor, or a tuple of specs for a node with several results."""


class Conflict(NamedTuple):
    """A node whose operands do not fit, and what its spec rule says about them."""

    node: Tensor
    error: Exception
    certain: bool = True
    """Whether no engine can go on. Some can where a step changes the size of a loop's state, or
    where the operation stands in a branch that does not run."""

    def explains(self, failed: Where | None) -> bool:
        """Whether it is why a program failed at a line, or at an unknown one."""
        body = self.node.params.get("body")
        lines = {t.where for t in (self.node, *toposort(body.outputs if body else ()))}
        return self.certain or failed is None or failed in lines


def conflict(outputs: Sequence[Tensor], given: Mapping[Tensor, Spec]) -> Conflict | None:
    """The first node on the way to `outputs` whose operands do not fit, given the specs of leaves.

    Sizes that depend on values stay unknown, so None does not mean that all shapes fit. What does
    not fit in a branch may not have run, so it only counts if nothing else is wrong.
    """
    return _walk(toposort(outputs, stop=given), dict(given))


def _walk(order: Sequence[Tensor], known: Specs) -> Conflict | None:
    possible: Conflict | None = None
    for node in order:
        if node in known:
            continue
        if node.op is None:
            known[node] = node.spec
            continue
        try:
            inner, spec = _inferred(node, known)
        except (ValueError, TypeError) as error:
            return Conflict(node, _beyond(node, known) or error)
        if inner is not None and inner.certain:
            return inner
        possible = possible or inner
        known[node] = spec
    return possible


def _beyond(node: Tensor, known: Specs) -> IndexError | None:
    """The error for an element that is picked along an axis and is not there."""
    picked = node.inputs[0] if node.op is squeeze else node
    if picked.op is not take_slice:
        return None
    shape = known[picked.inputs[0]].shape
    for axis in node.params["axes"]:
        size, (start, _, step) = shape[axis], picked.params["slices"][axis]
        if size is not None and step == 1 and known[picked].shape[axis] == 0:
            return IndexError(f"index {start} is out of range for axis {axis} of size {size}")
    return None


def _inferred(node: Tensor, known: Specs) -> tuple[Conflict | None, Any]:
    """The conflict inside the node, or the spec of its result."""
    assert node.op is not None
    specs = [known[t] for t in node.inputs]
    rule, params = node.op.infer_rule, node.params
    if node.op is OUTPUT:
        return None, rule(*specs, **params)
    if node.op.multiple:
        several = tuple(rule(*specs, **params))
        holder = _HOLDERS.get(node.op)
        return holder(node, specs, several) if holder else (None, several)
    spec = _filled(node, rule(*specs, **params), known)
    if None in params.get("shape", ()) and node.op.host is not None and None not in spec.shape:
        # Sizes that were operands are known now, so the rule can check all of them.
        rule(*specs[: node.op.host], **{**params, "shape": spec.shape})
    return None, spec


def _filled(node: Tensor, spec: Spec, known: Specs) -> Spec:
    """`spec`, with unknown sizes filled in where they come from an axis whose size was found."""
    if None not in spec.shape:
        return spec
    shape = list(spec.shape)
    for i, size in enumerate(shape):
        if size is None and node.spec.shape[i] is None:
            source, axis = origin(node, i)
            if source in known:
                shape[i] = known[source].shape[axis]
    return spec._replace(shape=tuple(shape))


# --- loops: their first step; and branches --------------------------------------------------------


def _scan(node: Tensor, specs: list[Spec], results: tuple[Spec, ...]) -> tuple[Any, Any]:
    body: Graph = node.params["body"]
    carry, xs = node.params["carry"], node.params["xs"]
    first = [
        spec.with_shape(spec.shape[1:]) if carry <= i < carry + xs else spec
        for i, spec in enumerate(specs)
    ]
    if node.params["length"] == 0 or any(s.shape[0] == 0 for s in specs[carry : carry + xs]):
        return None, results
    inner, ends = _step(body, first)
    if inner is not None or ends[:carry] != first[:carry]:
        return inner or _change(node, first, ends), results
    rows = [
        Spec((stack.shape[0], *row.shape), row.dtype)
        for stack, row in zip(results[carry:], ends[carry:], strict=True)
    ]
    return None, (*ends[:carry], *rows)


def _change(node: Tensor, first: Sequence[Spec], ends: Sequence[Spec]) -> Conflict | None:
    """The first state whose size a step changes, in the words of a loop of known sizes."""
    for i in range(node.params["carry"]):
        try:
            wider(first[i], ends[i], i)
        except ValueError as error:
            return Conflict(node, ValueError(f"scan: {error}"), certain=False)
    return None


def _while(node: Tensor, specs: list[Spec], results: tuple[Spec, ...]) -> tuple[Any, Any]:
    # The test always runs. Whether the body runs depends on values.
    inner, _ = _step(node.params["test"], specs)
    return inner, results


def _cond(node: Tensor, specs: list[Spec], results: tuple[Spec, ...]) -> tuple[Any, Any]:
    for graph in (node.params["then"], node.params["orelse"]):
        inner, _ = _step(graph, specs[1:])
        if inner is not None:
            return inner._replace(certain=False), results
    return None, results


def _step(body: Graph, specs: Sequence[Spec]) -> tuple[Conflict | None, list[Any]]:
    """The conflict in a run of `body` on operands of these specs, or the specs that it returns."""
    known: Specs = dict(zip(body.inputs, specs, strict=True))
    inner = _walk(toposort(body.outputs, stop=body.inputs), known)
    return inner, [] if inner else [known[t] for t in body.outputs]


_HOLDERS: dict[Primitive[Any], Any] = {scan_: _scan, while_loop_: _while, cond_: _cond}
