"""Joins loops: one node in the place of a loop whose steps are those of an LSTM or of a GRU.

For a loop of an LSTM and the loop of its gradient there are two kernels, of which the first keeps
what the second reads. They are looked for while both loops are as `ops.control` has built them. So
the gradient is recognized by building it once more: the scan that the rule gives for the forward
scan has the same body and the same operands. Other loops whose gates somebody reads stay loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from backplane.compile.cache_key import graph_key
from backplane.compile.fuse.loops import loop_of
from backplane.compile.fuse.readers import serves
from backplane.compile.passes.prune import prune
from backplane.core.context import changed
from backplane.core.graph import Graph, Placeholder, Results, Tensor, rewrite, substitute, toposort
from backplane.core.primitive import OUTPUT, outputs_of
from backplane.core.sizes import assuming
from backplane.engines.base import Engine
from backplane.ops.autodiff import gradients
from backplane.ops.control import scan_
from backplane.ops.elementwise import add
from backplane.ops.recurrence import gru, lstm, lstm_grad, lstm_saving
from backplane.ops.shaping import zeros_like

STATES, ROW, WEIGHTS = 2, 2, 3
"""The number of states of an LSTM's step, the place of its row, and of its weights."""


def join_loops(outputs: Sequence[Tensor], engine: Engine, *, training: bool) -> list[Tensor]:
    """`outputs`, with the primitive of a recurrent layer in the place of the loops that it
    computes, if `engine` has a lowering for them. `training`: also of loops with their gradients.
    """
    if {op.name for op in (gru, lstm, lstm_saving)}.isdisjoint(engine.table):
        return list(outputs)
    if training:
        forward, backward = _joinable(outputs, engine)
        made: dict[Tensor, _Made] = {}

        def with_gradient(node: Tensor, inputs: Sequence[Tensor]) -> Results | None:
            if node in forward:
                made[node], results = _forward(forward[node], inputs)
                return results
            gradient = backward.get(node)
            return gradient and _backward(
                forward[gradient.scan], gradient, made[gradient.scan], inputs
            )

        if backward:
            outputs = _replaced(outputs, with_gradient)
    return _replaced(prune(outputs), lambda node, inputs: _joined(node, inputs, engine))


def _replaced(
    outputs: Sequence[Tensor], results_of: Callable[[Tensor, Sequence[Tensor]], Results | None]
) -> list[Tensor]:
    """`outputs`, with other results of the loops for which there are any."""

    def rule(node: Tensor, inputs: tuple[Tensor, ...]) -> Results | None:
        if node.op is not scan_:
            return None
        with changed(line=node.where):
            return results_of(node, inputs)

    return rewrite(outputs, rule, keep_specs=True)


def _joined(scan: Tensor, inputs: Sequence[Tensor], engine: Engine) -> Results | None:
    """The results of a loop, computed by a primitive; None if there is none for it."""
    loop = loop_of(scan, engine)
    body: Graph = scan.params["body"]
    carry = scan.params["carry"]
    if loop is None or any(t is not body.outputs[loop.states[0]] for t in body.outputs[carry:]):
        return None
    outside = dict(zip(body.inputs[carry + 1 :], inputs[carry + 1 :], strict=True))
    weights = substitute(loop.weights, outside)
    starts = [inputs[i] for i in loop.states]
    ys, *states = loop.op(inputs[carry], *starts, *weights, **loop.params)
    if not serves(engine, ys.inputs[0]):
        return None
    stacks = dict.fromkeys(range(carry, len(body.outputs)), ys)
    return {**dict(zip(loop.states, states, strict=True)), **stacks}


# --- what is joined -------------------------------------------------------------------------------


class _Loop(NamedTuple):
    """A loop whose step is an LSTM's: which state is h, and the weights as its body sees them."""

    body: Graph
    h: int
    weights: list[Tensor]

    def stacks(self) -> list[int]:
        """The results that are the stack of all h."""
        outputs = self.body.outputs
        return [j for j in range(STATES, len(outputs)) if outputs[j] is outputs[self.h]]


class _Gradient(NamedTuple):
    """The gradient of a loop, and which result of that has a gradient beside the last states."""

    scan: Tensor
    stack: int | None


class _Made(NamedTuple):
    """A loop's replacement: what its body sees from outside, the kernel's operands, its results."""

    outside: dict[Tensor, Tensor]
    operands: list[Tensor]
    results: list[Tensor]


def _joinable(
    outputs: Sequence[Tensor], engine: Engine
) -> tuple[dict[Tensor, _Loop], dict[Tensor, _Gradient]]:
    """The loops to be joined, and the loops that are their gradients."""
    order = toposort(outputs)
    scans = [node for node in order if node.op is scan_]
    loops = {node: loop for node in scans if (loop := _loop(node, engine)) is not None}
    backward: dict[Tensor, _Gradient] = {}
    for node in scans:
        if node.params["reverse"]:
            sources = dict.fromkeys([t.inputs[0] for t in node.inputs if t.op is OUTPUT])
            for source in sources:
                if source in loops and (gradient := _gradient(node, source, loops[source])):
                    backward[node] = gradient
    # Whoever else reads what a step computes on its way needs the loop.
    reads = [(None, t) for t in outputs] + [(node, t) for node in order for t in node.inputs]
    needed = {
        t.inputs[0]
        for reader, t in reads
        if _is_inside(t, loops, backward)
        and not (reader in backward and backward[reader].scan is t.inputs[0])
    }
    backward = {
        node: gradient
        for node, gradient in backward.items()
        if node not in needed and gradient.scan not in needed
    }
    kept = {gradient.scan for gradient in backward.values()}
    return {node: loop for node, loop in loops.items() if node in kept}, backward


def _is_inside(t: Tensor, loops: dict[Tensor, _Loop], backward: dict[Tensor, _Gradient]) -> bool:
    """Whether `t` is a result of one of the loops that no kernel gives."""
    if t.op is not OUTPUT:
        return False
    scan, index = t.inputs[0], t.params["index"]
    if scan in loops:
        return index >= STATES and index not in loops[scan].stacks()
    return scan in backward and index >= len(backward[scan].scan.inputs)


def _loop(scan: Tensor, engine: Engine) -> _Loop | None:
    """The facts about a scan that the kernels for an LSTM need; None if they do not serve."""
    loop = loop_of(scan, engine)
    if loop is None or loop.op is not lstm:
        return None
    body, weights, h = scan.params["body"], loop.weights, loop.states[0]
    operands = [Placeholder(t.spec) for t in (scan.inputs[ROW], *_states(body.inputs, h))]
    operands += [Placeholder(t.spec) for t in weights]
    forward = lstm_saving(*operands)
    backward = lstm_grad(*forward[:3], *operands, *forward)
    made = [forward[0].inputs[0], backward[0].inputs[0]]
    alike = all(t.spec.dtype == weights[0].spec.dtype for t in scan.inputs)
    fits = alike and all(serves(engine, t) for t in made)
    return _Loop(body, h, weights) if fits else None


def _states(tensors: Sequence[Tensor], h: int) -> tuple[Tensor, Tensor]:
    """The states `h` and `c`, from the two states in the order of the loop."""
    return tensors[h], tensors[1 - h]


def _gradient(node: Tensor, scan: Tensor, loop: _Loop) -> _Gradient | None:
    """The parts of `node`, if it is the gradient of `scan`."""
    for stack in (*loop.stacks(), None):
        rule = _by_rule(scan, stack)
        free = rule.params["carry"] + (stack is not None)
        known = zip(node.inputs[free:], rule.inputs[free:], strict=False)
        if (
            len(node.inputs) == len(rule.inputs)
            and all(node.params[key] == rule.params[key] for key in ("carry", "xs"))
            and all(_are_same(a, b) for a, b in known)
            and graph_key(node.params["body"]) == graph_key(rule.params["body"])
        ):
            return _Gradient(scan, stack)
    return None


def _by_rule(scan: Tensor, stack: int | None) -> Tensor:
    """The scan that the rule gives as the gradient of the last states and of one stack."""
    results = outputs_of(scan)
    used = (*range(STATES), stack)
    seeds = [Placeholder(t.spec) if i in used else None for i, t in enumerate(results)]
    with assuming(()):
        cotangent = scan_.cotangents(seeds, results, scan, [True for _ in scan.inputs])[ROW]
    assert cotangent is not None
    return cotangent.inputs[0]


def _are_same(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors are one, or the same result of one node."""
    both = a.op is OUTPUT and b.op is OUTPUT
    return a is b or (both and (a.inputs, a.params) == (b.inputs, b.params))


# --- what takes their place -----------------------------------------------------------------------


def _forward(loop: _Loop, inputs: Sequence[Tensor]) -> tuple[_Made, dict[int, Tensor]]:
    """The kernel on the operands of a loop, and the results of the loop."""
    outside = dict(zip(loop.body.inputs[WEIGHTS:], inputs[WEIGHTS:], strict=True))
    operands = [inputs[ROW], *_states(inputs, loop.h), *substitute(loop.weights, outside)]
    ys, *others = lstm_saving(*operands)
    results = dict(enumerate(_states(others, loop.h)))
    results |= dict.fromkeys(loop.stacks(), ys)
    return _Made(outside, operands, [ys, *others]), results


def _backward(
    loop: _Loop, gradient: _Gradient, made: _Made, inputs: Sequence[Tensor]
) -> dict[int, Tensor]:
    """The results of the loop that is a gradient, by the kernel."""
    starts = len(made.outside) + STATES
    ys = made.results[0]
    g_ys = zeros_like(ys) if gradient.stack is None else inputs[starts]
    dx, *states, by_kernel, by_recurrent, by_bias = lstm_grad(
        g_ys, *_states(inputs, loop.h), *made.operands, *made.results
    )
    results = dict(enumerate(_states(states, loop.h)))
    slopes = gradients(loop.weights, [*made.outside], [by_kernel, by_recurrent, by_bias])
    for i, slope in enumerate(slopes, STATES):
        total = inputs[i]
        results[i] = total if slope is None else add(total, *substitute([slope], made.outside))
    results[starts] = dx
    return results
