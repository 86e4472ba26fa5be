"""Branches and loops: `If`, `Scan` and `Loop` over closed graphs.

`Scan` takes two thirds of the time of `Loop`, but ONNX Runtime's needs at least one step, and
states that keep their shapes. Where that is not certain the program is built with `Scan` all the
same, and marked: `engine.py` builds it anew with `Loop` when a call fails. The constants of a body
are read from the graph around it. Graphs that call users' functions are run by `hosted.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from backplane.core.graph import Graph
from backplane.core.spec import Spec
from backplane.engines.base import Engine
from backplane.engines.onnxruntime.builder import (
    Body,
    Scope,
    Size,
    Symbol,
    chosen,
    current_scope,
    ints,
    nested,
    node,
    nodes,
    number,
    vector,
)
from backplane.engines.onnxruntime.hosted import or_hosted
from backplane.engines.onnxruntime.shaping import constant_of, flip
from backplane.engines.onnxruntime.sizes import as_scalar_of_int64
from backplane.engines.programs import Scanning
from backplane.engines.table import Lowering, Table

Specs = Sequence[Spec]
Step = Callable[..., Sequence[Symbol]]


def _dtypes(specs: Specs) -> list[str]:
    return [spec.dtype for spec in specs]


def _symbols(scope: Scope, specs: Specs) -> list[Symbol]:
    return [Symbol(scope.name(), spec.dtype, spec.shape) for spec in specs]


def _body(scope: Scope, inputs: list[Symbol], results: Sequence[Symbol], specs: Specs) -> Body:
    known = [x.known(spec) for x, spec in zip(results, specs, strict=True)]
    return Body(scope, inputs, scope.outputs(known))


def cond(engine: Engine, specs: Specs, *, then: Graph, orelse: Graph) -> Lowering:
    """Build a branch: only the one taken runs."""
    branches = engine.callable(then), engine.callable(orelse)
    dtypes = [t.spec.dtype for t in then.outputs]

    def lower(predicate: Symbol, *operands: Symbol) -> list[Symbol]:
        return chosen(predicate, dtypes, *[partial(run, *operands) for run in branches])

    return lower


def while_loop(engine: Engine, specs: Specs, *, test: Graph, body: Graph, carry: int) -> Lowering:
    """Build a loop that runs while `test` holds."""
    keep_on, step = engine.callable(test), engine.callable(body)
    carried = [t.spec for t in body.inputs[:carry]]

    def lower(*operands: Symbol) -> list[Symbol]:
        state, consts = operands[:carry], operands[carry:]
        with nested() as scope:
            inputs = _symbols(scope, [Spec((), "int64"), _FLAG, *carried])
            results = step(*inputs[2:], *consts)
            again = keep_on(*results, *consts)[0]
            each = _body(scope, inputs, [again, *results], [_FLAG, *carried])
        begin = keep_on(*state, *consts)[0]
        return nodes("Loop", [None, begin, *state], _dtypes(carried), body=each)

    return lower


_FLAG = Spec((), "bool")


class _Steps(NamedTuple):
    """A scan, what runs a step, and how many steps there are."""

    loop: Scanning
    run: Step
    times: Size

    @property
    def gives(self) -> Specs:
        """The specs of what a step gives."""
        return [t.spec for t in self.loop.body.outputs]


def scan(engine: Engine, specs: Specs, **given: Any) -> Lowering:
    """Build a loop over the first axis of xs that stacks what each step gives."""
    loop = Scanning(**given)
    step, carried = engine.callable(loop.body), loop.carried
    widened = any(a.shape != b.shape for a, b in zip(specs, carried, strict=False))
    varying = not all(spec.is_static for spec in carried)

    def lower(*operands: Symbol) -> list[Symbol]:
        state, rows, consts = loop.parts(operands)
        count: Size = rows[0].size(0) if rows else loop.length or 0
        steps = _Steps(loop, step, count)
        root = current_scope().root
        certain = not varying and isinstance(count, int) and count > 0
        if certain or not (root.loops == "Loop" or widened or count == 0):
            root.unsure |= not certain
            return _as_scan(steps, state, rows, consts)
        return _as_loop(steps, state, rows, consts)

    return lower


Symbols = Sequence[Symbol]


def _as_scan(steps: _Steps, state: Symbols, rows: Symbols, consts: Symbols) -> list[Symbol]:
    carry, gives = len(state), steps.gives
    with nested() as scope:
        takes = steps.loop.body.inputs[: carry + len(rows)]
        inputs = _symbols(scope, [t.spec for t in takes])
        results = steps.run(*inputs, *consts)
        # Something must say how many steps there are.
        idle = [] if rows else [Symbol(scope.name(), "bool", ())]
        each = _body(scope, inputs + idle, results, gives)
    if not rows:
        rows = [constant_of([steps.times], 0, "bool")]
    way = int(steps.loop.reverse)
    return nodes(
        "Scan",
        [*state, *rows],
        _dtypes(gives),
        body=each,
        num_scan_inputs=len(rows),
        scan_input_directions=(way,) * len(rows),
        scan_output_directions=(way,) * (len(gives) - carry),
    )


def _as_loop(steps: _Steps, state: Symbols, rows: Symbols, consts: Symbols) -> list[Symbol]:
    carry = len(state)
    times = as_scalar_of_int64(steps.times)
    with nested() as scope:
        inputs = _symbols(scope, [Spec((), "int64"), _FLAG, *steps.loop.carried])
        at = inputs[0]
        if steps.loop.reverse:
            at = node("Sub", node("Sub", times, number(1, "int64")), at)
        each = [node("Gather", x, at, axis=0, shape=(x.shape or ())[1:]) for x in rows]
        results = steps.run(*inputs[2:], *each, *consts)
        made = _body(scope, inputs, [inputs[1], *results], [_FLAG, *steps.gives])
    listed = nodes("Loop", [times, None, *state], _dtypes(steps.gives), body=made)
    stacked = [Spec((None, *spec.shape), spec.dtype) for spec in steps.loop.stacked]
    ys = [y.known(spec) for y, spec in zip(listed[carry:], stacked, strict=True)]
    if steps.loop.reverse:
        ys = [flip(y, axes=(0,)) for y in ys]
    if not all(spec.is_static for spec in steps.loop.stacked) and rows:
        ys = _with_sizes(steps, ys, state, rows, consts)
    return [*listed[:carry], *ys]


def _with_sizes(
    steps: _Steps, ys: Symbols, state: Symbols, rows: Symbols, consts: Symbols
) -> list[Symbol]:
    """The stacks, with sizes from a step on zeros: without steps ONNX Runtime takes 0."""
    none = node("Equal", vector([steps.times]), ints(0))

    def of_a_step() -> list[Symbol]:
        zeros = [constant_of(x.sizes[1:], 0, x.dtype) for x in rows]
        results = steps.run(*state, *zeros, *consts)[len(state) :]
        pairs = zip(results, steps.loop.stacked, strict=True)
        return [node("Shape", y, shape=(len(spec.shape),)) for y, spec in pairs]

    def of_stacks() -> list[Symbol]:
        return [node("Shape", y, shape=(y.rank - 1,), start=1) for y in ys]

    inner = chosen(none, ["int64"] * len(ys), of_a_step, of_stacks)
    first = vector([steps.times])
    return [
        node("Reshape", y, node("Concat", first, n, axis=0), shape=y.shape, allowzero=1)
        for y, n in zip(ys, inner, strict=True)
    ]


def lowerings(engine: Engine) -> Table:
    """The table of control flow, whose graphs `engine` turns into functions."""
    builds: dict[str, Lowering] = {"cond": cond, "while_loop": while_loop, "scan": scan}
    made = {name: or_hosted(name, build, engine) for name, build in builds.items()}
    return Table({"builds": True}, **made)
