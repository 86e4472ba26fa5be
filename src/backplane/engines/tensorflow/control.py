"""Branches and loops: `tf.cond` and `tf.while_loop`, over closed graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple

from backplane.core.context import assigned
from backplane.core.graph import Graph, toposort
from backplane.core.spec import Spec
from backplane.engines.base import Engine
from backplane.engines.programs import Function, Scanning
from backplane.engines.table import Lowering, Table, Value
from backplane.engines.tensorflow.constants import hold_constants, ints, sizes_of, vector
from backplane.engines.tensorflow.library import raw, tf

Specs = Sequence[Spec]


class Traced(NamedTuple):
    """The kind of the program that is traced (`own_program`)."""

    own: bool = True
    few_rows: bool = False
    for_xla: bool = False
    checked: bool = False


_THEIRS = Traced(own=False)
_TRACED: ContextVar[Traced] = ContextVar("backplane_tensorflow_program", default=_THEIRS)

EMPTY_STACK = "empty list"
"""In the message of the error of a loop that would stack no rows of unknown shape, and of a kernel
that would get no elements."""

MANY_ROWS = "more rows than the kernel takes"
"""In the message of the error of a program for few rows."""


def own_program(
    few_rows: bool = False, for_xla: bool = False, checked: bool = False
) -> AbstractContextManager[None]:
    """Context manager: what is traced inside is a program of ours. No tape goes back through it. It
    may fail with `EMPTY_STACK` where a loop makes no step, and then runs once more without a trace.

    With `few_rows` it may fail with `MANY_ROWS`, and another program then runs in its place.
    `for_xla` says that XLA compiles it. If it is `checked`, kernels that fail without elements fail
    with `EMPTY_STACK`.
    """
    return assigned(_TRACED, Traced(True, few_rows, for_xla, checked))


def not_empty(x: Value) -> Value:
    """`x` itself, in a program that is checked once it is sure that it has elements."""
    if not _TRACED.get().checked or x.shape.is_fully_defined():
        return x
    with tf.control_dependencies([raw.Assert(condition=tf.size(x) > 0, data=[EMPTY_STACK])]):
        return raw.Identity(input=x)


def takes_few_rows() -> bool:
    """Whether the program that is traced now may fail with `MANY_ROWS`. The graphs of its branches,
    loops and functions may not: nobody looks for checks in them.
    """
    if not _TRACED.get().few_rows:
        return False
    outer = tf.compat.v1.get_default_graph().outer_graph
    return not getattr(outer, "building_function", False)


def in_own_program() -> bool:
    """Whether what is traced now is a program of ours."""
    return _TRACED.get().own


def held(function: Function) -> Function:
    """The function to trace; in programs of ours, small constants become nodes of its graph."""

    def traced(*operands: Value) -> Any:
        if in_own_program() and not tf.executing_eagerly():
            hold_constants()
        return function(*operands)

    return traced


def lowerings(engine: Engine) -> Table:
    """The table of control flow, whose graphs `engine` turns into functions."""
    builders: dict[str, Lowering] = {"cond": _cond, "while_loop": _while_loop, "scan": _scan}
    return Table({"builds": True}, **{name: partial(b, engine) for name, b in builders.items()})


def _cond(engine: Engine, specs: Specs, *, then: Graph, orelse: Graph) -> Lowering:
    """Build a branch: only the one taken runs."""
    if_true, if_false = engine.callable(then), engine.callable(orelse)

    def lower(predicate: Value, *operands: Value) -> list[Value]:
        branches = [held(partial(branch, *operands)) for branch in (if_true, if_false)]
        return list(tf.cond(predicate, *branches))

    return lower


def _while_loop(engine: Engine, specs: Specs, *, test: Graph, body: Graph, carry: int) -> Lowering:
    """Build a loop that runs while `test` holds."""
    keep_on, step = engine.callable(test), engine.callable(body)
    carried = [t.spec for t in body.inputs[:carry]]

    def lower(*operands: Value) -> list[Value]:
        state, consts = operands[:carry], operands[carry:]
        return list(
            tf.while_loop(
                held(lambda *state: keep_on(*state, *consts)[0]),
                held(lambda *state: _promise(step(*state, *consts), carried)),
                state,
                shape_invariants=_invariants(carried),
            )
        )

    return lower


def _scan(engine: Engine, specs: Specs, **given: Any) -> Lowering:
    """Build a loop over the first axis of xs that stacks what each step gives."""
    scan = Scanning(**given)
    step, carry, reverse = engine.callable(scan.body), scan.carry, scan.reverse
    carried, stacked = scan.carried, scan.stacked
    static = all(spec.is_static for spec in stacked)

    def lower(*operands: Value) -> list[Value]:
        state, rows, consts = scan.parts(operands)
        count: Value = sizes_of(rows[0])[0] if rows else scan.length

        def bound(*given: Value) -> tuple[Value, ...]:
            return step(*given, *consts)

        def empty() -> list[Value]:
            return _no_rows(bound(*state, *_zero_rows(rows))[carry:])

        def filled() -> list[Value]:
            return [sink.stack() for sink in sinks]

        if isinstance(count, int) and count == 0:
            return [*state, *empty()]
        read = _reader(rows, count)
        together = _together(scan.body)
        several = together > 1 and (not isinstance(count, int) or count > 1)
        one = _traced_once(bound, scan, rows) if several else bound

        def advance(
            size: int, i: Value, state: Sequence[Value], sinks: Sequence[Value]
        ) -> tuple[Value, Sequence[Value], Sequence[Value]]:
            """`size` steps."""
            first = count - size - i if reverse else i
            elements = read(first, size)
            for n in reversed(range(size)) if reverse else range(size):
                results = one(*state, *[each[n] for each in elements])
                state = _promise(results[:carry], carried)
                made = zip(sinks, results[carry:], strict=True)
                sinks = [sink.write(first + n, y) for sink, y in made]
            return i + size, state, sinks

        last, sinks = _repeat(advance, together, count, state, carried, stacked)
        if isinstance(count, int) or static or in_own_program():
            return [*last, *filled()]
        return [*last, *tf.cond(count > 0, filled, empty)]

    return lower


def _traced_once(step: Function, scan: Scanning, rows: Sequence[Value]) -> Function:
    """A step as a function of TensorFlow, of which each call is one operation. TensorFlow puts a
    copy in its place: Python makes an operation in 0.2 ms, and to copy one takes a fifth.
    """
    if tf.executing_eagerly():
        return step
    given = [tf.TensorSpec(spec.shape, spec.dtype) for spec in scan.carried]
    given += [tf.TensorSpec(x.shape[1:], x.dtype) for x in rows]
    traced: Function = tf.function(held(step), autograph=False).get_concrete_function(*given)
    return traced


TOGETHER = 4
"""Steps in each turn of a loop. For every value that goes from turn to turn the executor has four
nodes more to run. A training step of an LSTM and a GRU of 64 units takes 0.91 of the time with 4
steps in a turn, and so does a prediction. With 8 they take as long, but the graph is larger."""

LONGEST = 128
"""Operations up to which a step is short: the gradients of an LSTM with a mask are 78. The graph of
longer ones would be large."""


def _together(body: Graph) -> int:
    """Steps in each turn of a loop: several if they are short, in a program of ours. XLA would
    compile each of them, and fails at the loss of CTC where a second loop makes the last steps.
    """
    order = toposort(body.outputs)
    nests = any(isinstance(x, Graph) for t in order for x in t.params.values())
    several = in_own_program() and not _TRACED.get().for_xla and len(order) <= LONGEST and not nests
    return TOGETHER if several else 1


def _repeat(
    advance: Function, together: int, count: Value, state: Sequence[Value], carried: Specs,
    stacked: Specs,
) -> tuple[Sequence[Value], Sequence[Value]]:  # fmt: skip
    """The last state, and one array of rows per result of a step."""
    sinks = [tf.TensorArray(y.dtype, size=count, element_shape=y.shape) for y in stacked]
    invariants = tf.TensorShape(()), _invariants(carried), [tf.TensorShape(None)] * len(sinks)
    loop: Any = ints(0), tuple(state), sinks

    def turns(size: int, loop: Any) -> Any:
        return tf.while_loop(
            lambda i, *_: i < count - (size - 1),
            held(partial(advance, size)),
            loop,
            shape_invariants=invariants,
        )

    if together == 1 or not isinstance(count, int) or count >= together:
        loop = turns(together, loop)
    if together > 1:
        if not isinstance(count, int):
            loop = turns(1, loop)
        elif rest := count % together:
            loop = advance(rest, count - rest, *loop[1:])
    return loop[1], loop[2]


def _zero_rows(sequences: Sequence[Value]) -> list[Value]:
    """A row of zeros for each sequence: a step on them tells what is unknown of its results."""
    return [tf.zeros(vector(sizes_of(x)[1:]), x.dtype) for x in sequences]


def _no_rows(ys: Sequence[Value]) -> list[Value]:
    return [tf.zeros(vector((0, *sizes_of(y))), y.dtype) for y in ys]


def _reader(rows: Sequence[Value], count: Value) -> Callable[[Value, int], list[Any]]:
    """A function that reads some rows of each sequence, one where a tape may go back."""
    if not in_own_program():
        arrays = [
            tf.TensorArray(x.dtype, size=count, element_shape=x.shape[1:]).unstack(x) for x in rows
        ]
        return lambda at, size: [[array.read(at)] for array in arrays]

    def read(at: Value, size: int) -> list[Any]:
        # A slice of the first axis shares memory. But its gradient has the size of all rows.
        bounds = {"begin": vector((at,)), "end": vector((at + size,)), "strides": ints((1,))}
        if size == 1:
            return [[raw.StridedSlice(input=x, **bounds, shrink_axis_mask=1)] for x in rows]
        return [raw.Unpack(value=raw.StridedSlice(input=x, **bounds), num=size) for x in rows]

    return read


def _invariants(specs: Specs) -> tuple[Value, ...]:
    return tuple(tf.TensorShape(spec.shape) for spec in specs)


def _promise(values: Sequence[Value], specs: Specs) -> tuple[Value, ...]:
    """The values with the shapes that the graph knows, which tracing may have lost."""
    for value, spec in zip(values, specs, strict=True):
        value.set_shape(spec.shape)
    return tuple(values)
