"""New values of variables, computed in the memory of the old ones.

A program is a function from old to new values; computed literally, each step of an optimizer is one
more pass over memory that is not in the cache. Here a large variable lives in a `tf.Variable`, and
the chain of arithmetic that ends in its new value runs as one kernel of XLA, which writes it in
place. That happens after everything else in the program has succeeded, and cannot fail itself, so
that a failing call still changes nothing. TensorFlow copies a value that somebody still reads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from backplane.core.spec import Spec
from backplane.engines.fast import applies
from backplane.engines.kernels import limit
from backplane.engines.programs import Function, Program, writing
from backplane.engines.table import Value, element_count
from backplane.engines.tensorflow.indexing import Rows
from backplane.engines.tensorflow.library import raw, tf

LARGE = 1 << 16
"""Elements from which on a variable is kept in place."""

SCOPE = "updates"
"""The scope of the names of kernels that write new values."""

LONGEST = 64
"""The most operations in a chain. No step of an optimizer is longer."""

ARITHMETIC = frozenset(
    ("AddV2", "Sub", "Mul", "RealDiv", "Neg", "Abs", "Sqrt", "Square", "Maximum", "Minimum")
)
"""Operations that XLA computes to the last bit as TensorFlow's kernels do, except a product to
which something is added."""

_ARGUMENTS = ("x", "y")
_DTYPES = frozenset(("float32", "float64"))


Places = Mapping[int, int]
"""The inputs of a program that live in variables, with the outputs that are their new values."""


def in_place(program: Program) -> Places:
    """The variables that a program keeps in place."""
    if not applies("tensorflow.updates"):
        return {}
    pairs = sorted(program.state.items(), key=lambda pair: pair[1])
    same = [(i, o) for i, o in pairs if program.inputs[i] == program.outputs[o]]
    return {i: o for i, o in same if _is_large(program.inputs[i])}


def _is_large(spec: Spec) -> bool:
    return element_count(spec) >= LARGE


def kept(value: Value) -> Value:
    """A large value in a variable, in memory of TensorFlow's allocator: that of the first new value
    is taken from there, and what a tensor shares with NumPy would be of no use to later ones.
    """
    if isinstance(value, tf.Variable) or value.shape.num_elements() < LARGE:
        return value
    with tf.init_scope():
        return tf.Variable(raw.DeepCopy(x=value), trainable=False)


def content(value: Value) -> Value:
    """The tensor that a value is, or that a variable holds."""
    if isinstance(value, tf.Variable):
        return raw.ReadVariableOp(resource=value.handle, dtype=value.dtype)
    return value


Making = Callable[[Collection[int]], Function]
"""Gives a program that takes handles of variables at these places, and does not return what it
writes to them."""


def keeping(make: Making, program: Program, places: Places) -> Function:
    """The program as a function of values.

    A large variable that another program keeps in place is read at once; a table, of which only
    rows are needed, by its handle.
    """
    maybe = [i for i, x in enumerate(program.inputs) if _is_large(x) and i not in places]
    usual = make(places)
    if not places and not maybe:
        return usual
    made: dict[frozenset[int], Function] = {frozenset(): usual}
    new = list(places.values())
    others = [o for o in range(len(program.outputs)) if o not in new]
    order = sorted(range(len(program.outputs)), key=[*new, *others].__getitem__)

    def call(*inputs: Value) -> tuple[Value, ...]:
        values = list(inputs)
        tables = []
        for i in maybe:
            x = values[i]
            if i in program.tables and isinstance(x, tf.Variable):
                values[i] = x.handle
                tables.append(i)
            else:
                values[i] = content(x)
        run = made.get(frozenset(tables))
        if run is None:
            run = made[frozenset(tables)] = make([*places, *tables])
        held = [kept(values[i]) for i in places]
        for i, x in zip(places, held, strict=True):
            values[i] = x.handle
        results = (*held, *run(*values))
        return tuple([results[i] for i in order])

    return writing(call, places.values())


# --- programs over handles ------------------------------------------------------------------------


class State(NamedTuple):
    """A variable inside a program: where it lives, its value before, and its value after."""

    handle: Value
    old: Value
    new: Value


def _read(handle: Value, spec: Spec) -> Value:
    value = raw.ReadVariableOp(resource=handle, dtype=spec.dtype)
    return value if tf.executing_eagerly() else tf.ensure_shape(value, spec.shape)


def _run(
    program: Program, places: Places, handles: Collection[int], inputs: Sequence[Value]
) -> tuple[Any, Any]:
    """The states and the other results of a program over handles."""
    values = list(inputs)
    for i in handles:
        values[i] = (Rows if i in program.tables else _read)(inputs[i], program.inputs[i])
    results = program.function(*values)
    written = set(places.values())
    states = [State(inputs[i], values[i], results[o]) for i, o in places.items()]
    return states, tuple([x for o, x in enumerate(results) if o not in written])


def stepwise(program: Program, places: Places, handles: Collection[int]) -> Function:
    """The program over handles, operation by operation."""

    def run(*inputs: Value) -> tuple[Value, ...]:
        states, results = _run(program, places, handles, inputs)
        for s in states:
            if isinstance(s.new, Rows):
                s.new.checks()
        for s in states:
            _replace(s)
        return results

    return run if handles else program.function


def _replace(state: State) -> None:
    if isinstance(state.new, Rows):
        state.new.write()
    else:
        raw.AssignVariableOp(resource=state.handle, value=state.new)


def traced(program: Program, places: Places, handles: Collection[int], fuse: bool) -> Function:
    """The program over handles, to be traced; `fuse` compiles the chains behind new values."""

    def run(*inputs: Value) -> tuple[Value, ...]:
        states, results = _run(program, places, handles, inputs)
        _write(states, results, tf.compat.v1.get_default_graph(), fuse)
        return results

    return run if handles else program.function


def _write(states: Sequence[State], others: Sequence[Value], graph: Any, fuse: bool) -> None:
    """Write all new values, when everything that may fail has been computed."""
    chains = _chains(states, graph) if fuse else []
    fused = {i for chain in chains for i in chain.states}
    before = [x for chain in chains for x in chain.inputs]
    for i, s in enumerate(states):
        if i not in fused:
            before += s.new.checks() if isinstance(s.new, Rows) else [s.new]
    effects = [op for op in graph.get_operations() if op.op_def.is_stateful]
    with tf.control_dependencies([*before, *others, *effects]):
        for i, s in enumerate(states):
            if i not in fused:
                _replace(s)
        for chain in chains:
            first = states[chain.states[0]].new
            kernel = _kernel(chain.steps, chain.results, first.dtype, tuple(first.shape))
            with tf.name_scope(SCOPE):
                kernel([states[i].handle for i in chain.states], chain.inputs)


# --- chains --------------------------------------------------------------------------------------

Operand = tuple[str, Any]
"""`("old", i)` of the chain's variables, `("input", i)`, `("step", i)` or `("number", value)`."""


class Chain(NamedTuple):
    """Arithmetic that ends in the new values of some variables of one shape."""

    states: list[int]
    inputs: list[Value]
    steps: tuple[tuple[str, tuple[Operand, ...]], ...]
    results: tuple[Operand, ...]


def _chains(states: Sequence[State], graph: Any) -> list[Chain]:
    """The chains that are worth a kernel. Variables whose chains have a step in common share it."""
    position = {op: i for i, op in enumerate(graph.get_operations())}
    groups: list[tuple[set[Any], list[int]]] = []
    for i, s in enumerate(states):
        steps, members = _steps(s.new), [i]
        if not steps:
            continue
        for group in [g for g in groups if not g[0].isdisjoint(steps)]:
            groups.remove(group)
            steps, members = steps | group[0], [*group[1], *members]
        groups.append((steps, members))
    chains = []
    for steps, members in groups:
        work = len(steps) * math.prod(states[members[0]].new.shape)
        least = limit("tensorflow.updates", states[members[0]].new.dtype.name)
        if work >= least and len(steps) <= LONGEST:
            chains.append(_chain(states, sorted(members), sorted(steps, key=position.__getitem__)))
    return chains


def _steps(new: Value) -> set[Any]:
    """The operations of the chain behind a new value."""
    refs: set[Any] = set()
    if isinstance(new, Rows) or new.dtype.name not in _DTYPES:
        return refs
    waiting = [new]
    while waiting and len(refs) <= LONGEST:
        x = waiting.pop()
        if x.op in refs or x.op.type not in ARITHMETIC or x.shape.as_list() != new.shape.as_list():
            continue
        refs.add(x.op)
        waiting.extend(x.op.inputs)
    return refs


def _chain(states: Sequence[State], members: list[int], order: Sequence[Any]) -> Chain:
    known: dict[Any, Operand] = {states[i].old.ref(): ("old", k) for k, i in enumerate(members)}
    known |= {op.outputs[0].ref(): ("step", k) for k, op in enumerate(order)}
    inputs: list[Value] = []

    def operand(x: Value) -> Operand:
        position = known.get(x.ref())
        if position is None:
            number = tf.get_static_value(x) if x.shape.rank == 0 else None
            position = ("number", float(number)) if number is not None else ("input", len(inputs))
            known[x.ref()] = position
            if number is None:
                inputs.append(x)
        return position

    steps = tuple([(op.type, tuple([operand(x) for x in op.inputs])) for op in order])
    return Chain(members, inputs, steps, tuple([known[states[i].new.ref()] for i in members]))


@lru_cache(maxsize=256)
def _kernel(
    steps: tuple[tuple[str, tuple[Operand, ...]], ...],
    results: tuple[Operand, ...],
    dtype: Any,
    shape: tuple[int, ...],
) -> Any:
    """A chain compiled by XLA, as a function of the variables' handles and its inputs."""

    def run(handles: list[Value], inputs: list[Value]) -> None:
        old = [_read(handle, Spec(shape, dtype.name)) for handle in handles]
        made: dict[str, list[Value]] = {"old": old, "input": inputs, "step": []}

        def value(kind: str, which: Any) -> Value:
            return tf.constant(which, dtype) if kind == "number" else made[kind][which]

        for name, operands in steps:
            values = [value(*each) for each in operands]
            operation = getattr(raw, name)
            made["step"].append(operation(**dict(zip(_ARGUMENTS, values, strict=False))))
        for handle, result in zip(handles, results, strict=True):
            raw.AssignVariableOp(resource=handle, value=value(*result))

    return tf.function(run, jit_compile=True, autograph=False)
