"""Branches and loops: `If`, `Scan` and `Loop` over closed graphs.

`Scan` takes two thirds of the time of `Loop`, but ONNX Runtime's needs at least one step, and
states that keep their shapes. Where that is not certain the program is built with `Scan` all the
same, and marked: `engine.py` builds it anew with `Loop` when a call fails. The constants of a body
are read from the graph around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from backplane.core.graph import Graph
from backplane.core.spec import Spec
from backplane.engines.base import Engine, Lowering
from backplane.engines.onnxruntime.builder import (
    Body,
    Scope,
    Size,
    Symbol,
    current,
    nested,
    node,
    nodes,
    number,
)
from backplane.engines.onnxruntime.shaping import constant_of, flip
from backplane.engines.onnxruntime.sizes import reshape, size

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
    branches = {"then_branch": engine.callable(then), "else_branch": engine.callable(orelse)}

    def lower(predicate: Symbol, *operands: Symbol) -> list[Symbol]:
        bodies = {}
        for key, run in branches.items():
            with nested() as scope:
                bodies[key] = Body(scope, [], scope.outputs(run(*operands)))
        return nodes("If", [predicate], [t.spec.dtype for t in then.outputs], **bodies)

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


def scan(
    engine: Engine,
    specs: Specs,
    *,
    body: Graph,
    carry: int,
    xs: int,
    reverse: bool,
    length: int | None,
) -> Lowering:
    """Build a loop over the first axis of xs that stacks what each step gives."""
    step = engine.callable(body)
    takes, gives = [t.spec for t in body.inputs], [t.spec for t in body.outputs]
    widened = any(a.shape != b.shape for a, b in zip(specs[:carry], takes, strict=False))
    varying = not all(spec.is_static for spec in takes[:carry])

    def lower(*operands: Symbol) -> list[Symbol]:
        state, rows = operands[:carry], operands[carry : carry + xs]
        consts = operands[carry + xs :]
        count: Size = size(rows[0], 0) if rows else length or 0
        root = current().root
        if root.loops == "Loop" or widened or count == 0:
            if not varying and isinstance(count, int) and count:
                return _scan(step, state, rows, consts, takes, gives, count, reverse)
            return _loop(step, state, rows, consts, takes, gives, count, reverse)
        root.unsure |= varying or not isinstance(count, int)
        return _scan(step, state, rows, consts, takes, gives, count, reverse)

    return lower


def _scan(
    step: Step,
    state: Sequence[Symbol],
    rows: Sequence[Symbol],
    consts: Sequence[Symbol],
    takes: Specs,
    gives: Specs,
    count: Size,
    reverse: bool,
) -> list[Symbol]:
    carry, xs = len(state), len(rows)
    with nested() as scope:
        inputs = _symbols(scope, takes[: carry + xs])
        results = step(*inputs, *consts)
        # Something must say how many steps there are.
        idle = [] if rows else [Symbol(scope.name(), "bool", ())]
        each = _body(scope, inputs + idle, results, gives)
    if not rows:
        rows = [constant_of([count], 0, "bool")]
    ys = len(gives) - carry
    return nodes(
        "Scan",
        [*state, *rows],
        _dtypes(gives),
        body=each,
        num_scan_inputs=len(rows),
        scan_input_directions=(int(reverse),) * len(rows),
        scan_output_directions=(int(reverse),) * ys,
    )


def _loop(
    step: Step,
    state: Sequence[Symbol],
    rows: Sequence[Symbol],
    consts: Sequence[Symbol],
    takes: Specs,
    gives: Specs,
    count: Size,
    reverse: bool,
) -> list[Symbol]:
    carry = len(state)
    times = number(count, "int64") if isinstance(count, int) else reshape(count, ())
    with nested() as scope:
        inputs = _symbols(scope, [Spec((), "int64"), _FLAG, *takes[:carry]])
        at = inputs[0]
        if reverse:
            at = node("Sub", node("Sub", times, number(1, "int64")), at)
        each = [node("Gather", x, at, axis=0, shape=(x.shape or ())[1:]) for x in rows]
        results = step(*inputs[2:], *each, *consts)
        made = _body(scope, inputs, [inputs[1], *results], [_FLAG, *gives])
    listed = nodes("Loop", [times, None, *state], _dtypes(gives), body=made)
    ys = listed[carry:]
    if reverse:
        stacked = [Spec((None, *spec.shape), spec.dtype) for spec in gives[carry:]]
        ys = [flip(y.known(spec), axes=(0,)) for y, spec in zip(ys, stacked, strict=True)]
    return [*listed[:carry], *ys]
