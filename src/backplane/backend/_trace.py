"""Runs K functions at once, by traces for shapes and dtypes of arguments, which are kept."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from backplane import config, engines
from backplane.backend._trees import map_leaves
from backplane.compile.source_map import explain
from backplane.core import context
from backplane.core.graph import (
    ArrayInput,
    Constant,
    KeySource,
    Placeholder,
    Tensor,
    constant,
    is_array,
    toposort,
)
from backplane.core.registry import native_spec
from backplane.core.sparse import SparseTensor
from backplane.core.spec import Spec, is_float
from backplane.core.variable import Variable, lent
from backplane.engines.base import Engine
from backplane.ops.lift import checked

PLAIN = frozenset((int, float, bool, str))
"""Types of arguments that are no tensors and stand in keys as they are; None is another."""


class Trace:
    """A traced call: its program, and how the results are put together."""

    __slots__ = (
        "constants", "foreign", "keys", "program", "result", "settings", "single", "variables",
    )  # fmt: skip
    program: Callable[..., tuple[Any, ...]]
    constants: list[Any]
    keys: list[KeySource]
    variables: list[Variable]
    foreign: bool
    """Whether it holds native values that were no arguments."""
    settings: tuple[tuple[Callable[[], Any], Any], ...]
    """The settings that the function asked for, and what they were."""
    result: Any
    single: bool
    """Whether the result is the program's only one."""

    @property
    def reusable(self) -> bool:
        """Whether another call with such arguments may run the trace."""
        return not (self.keys or self.variables or self.foreign)

    @property
    def simple(self) -> bool:
        """Whether the program, called on the tensors among the arguments, has the result of the
        call as its only one, whatever the settings are.
        """
        return self.reusable and self.single and not self.constants and not self.settings

    def holds(self) -> bool:
        """Whether the settings that the function asked for still have the same values."""
        return all(read() == value for read, value in self.settings)

    def __call__(self, engine: Engine, leaves: list[Any]) -> Any:
        if self.keys:
            leaves = [*leaves, *map(engine.key, self.keys)]
        borrowed: list[Any] = []
        if self.variables:
            borrowed = lent(self.variables, engine)
            leaves = [*leaves, *borrowed]
        try:
            values = self.program(*leaves, *self.constants)
        except Exception as error:
            explain(error, engine, self.program)
            raise
        if borrowed:
            values = tuple([engine.apart(value, borrowed) for value in values])
        return self.filled(values)

    def filled(self, values: tuple[Any, ...]) -> Any:
        """The value that the function returns, made from the results of the program."""
        return values[0] if self.single else fill(self.result, values)


class Slot:
    """The place of a native value in a tree of arguments, or of an output in a result."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


class ArraySpec(NamedTuple):
    """The spec of a NumPy array, on an engine whose own tensors are not NumPy arrays."""

    spec: Spec


TRACE_LIMIT = 4096
_tables: list[dict[Any, Any]] = []
_count = [0]


def table() -> dict[Any, Any]:
    """A new table of traces. When all tables together hold too many traces, all are emptied."""
    made: dict[Any, Any] = {}
    _tables.append(made)
    return made


def keep(traces: dict[Any, Any], key: object, trace: object) -> None:
    """Put a trace in a table."""
    if _count[0] >= TRACE_LIMIT:
        _count[0] = 0
        for kept in _tables:
            kept.clear()
    _count[0] += 1
    traces[key] = trace


_traces: dict[Any, Trace] = table()


class Arguments:
    """A tree of arguments, with slots for its native tensors, variables and `arrays`; their values,
    and the specs of these.
    """

    def __init__(self, tree: object, engine: Engine, arrays: bool = True) -> None:
        self.engine, self.arrays = engine, arrays
        self.leaves: list[Any] = []
        self.specs: list[Spec | ArraySpec] = []
        self.borrowed: list[Any] = []
        """The values of variables, which are among the leaves too."""
        self.slots = self._abstract(tree)

    def _abstract(self, value: Any) -> Any:
        kind, engine = type(value), self.engine
        if kind in PLAIN or value is None:
            return value
        if kind is tuple or kind is list:
            return kind([self._abstract(v) for v in value])
        if kind is SparseTensor:
            return kind(*[self._abstract(v) for v in value])
        if kind is dict:
            return {k: self._abstract(v) for k, v in value.items()}
        if isinstance(value, Tensor):
            if isinstance(value, Variable):
                value = value.lent(engine)
                self.borrowed.append(value)
            elif is_array(value) and is_float(value.spec.dtype):
                # A whole number may be an axis or a size, which must be known while the call is
                # traced.
                value = engine.from_numpy(value.value)
            else:
                return value
        elif isinstance(value, np.ndarray):
            if value.dtype == object and any(map(engine.owns, value.flat)):
                # It is a shape, and some sizes are tensors of the engine.
                return self._abstract(value.tolist())
            return self._abstract_array(value) if self.arrays else value
        elif isinstance(value, np.integer | np.bool_) or not engine.owns(value):
            return value
        else:
            known = engine.known_sizes(value)
            if known is not None:
                return constant(known)
        return self._slot(value, native_spec(engine, value))

    def _abstract_array(self, value: np.ndarray) -> Any:
        if value.dtype == object:
            value = np.array(value.tolist())
        checked(value, value)
        known = self.engine.known_sizes(value)
        if known is not None:
            return constant(known)
        native = self.engine.from_numpy(value)
        spec = self.engine.spec_of(native)
        return self._slot(native, spec if self.engine.holds_arrays else ArraySpec(spec))

    def _slot(self, value: Any, spec: Spec | ArraySpec) -> Slot:
        self.leaves.append(value)
        self.specs.append(spec)
        return Slot(len(self.leaves) - 1)


def run_now(
    function: Callable[..., Any],
    args: object,
    kwargs: object,
    engine: Engine,
    arrays: bool = True,
    also: Hashable = None,
) -> Any:
    """Run a K function on native values: the values of `engine`, variables, and `arrays`, unless
    arrays are parameters of the function. What it does may depend on `also`, beside its arguments.
    """
    given = Arguments((args, kwargs), engine, arrays)
    result = _found(function, given, also)(engine, given.leaves)
    if not given.borrowed:
        return result
    # Who writes to a result must not write to a variable.
    return map_leaves(lambda value: engine.apart(value, given.borrowed), result)


def _found(function: Callable[..., Any], given: Arguments, also: Hashable) -> Trace:
    engine, watching = given.engine, context.watcher()
    if watching is not None and runs_at_once(engine) and not engine.is_tracing():
        return trace(function, given.slots, given.specs, engine, True, watching)
    try:
        return _trace_of(function, given, also)
    except ValueError:  # Perhaps it needs sizes that the library leaves unknown.
        known = given.specs
        given.specs = [
            s if isinstance(s, ArraySpec) else engine.present_spec(x)
            for s, x in zip(known, given.leaves, strict=True)
        ]
        if given.specs == known:
            raise
        return _trace_of(function, given, also)


def _trace_of(function: Callable[..., Any], given: Arguments, also: Hashable) -> Trace:
    """The trace of a call that was kept, or a new one."""
    engine = given.engine
    at_once = runs_at_once(engine) or any(map(engine.is_symbolic, given.leaves))
    key: Any = None
    known = None
    try:
        key = (function, engine, at_once, also, tuple(given.specs), hashable(given.slots))
        known = _traces.get(key)
    except TypeError:
        key = None
    if known is None or not known.holds():
        known = trace(function, given.slots, given.specs, engine, at_once)
        if key is not None and known.reusable:
            keep(_traces, key, known)
    return known


def traced_for(
    function: Callable[..., Any], args: object, kwargs: object, engine: Engine
) -> tuple[Trace, list[Any]]:
    """A new trace for arguments that contain no symbolic value of the engine, and the values to run
    it on.
    """
    given = Arguments((args, kwargs), engine)
    made = trace(function, given.slots, given.specs, engine, runs_at_once(engine))
    return made, given.leaves


def hashable(value: Any) -> Any:
    """A key for plain arguments. Types count (1 and 1.0 differ, and so do 0.0 and -0.0), and lists
    become tuples. TypeError for functions, because variables around them may change between calls,
    and for unhashable values.
    """
    kind = type(value)
    if (callable(value) and kind is not type) or isinstance(value, Tensor):
        raise TypeError
    if kind is Slot:
        return (Slot, value.index)
    if kind is tuple or kind is list or kind is SparseTensor:
        return (kind, *[hashable(v) for v in value])
    if kind is dict:
        return (dict, *[(k, hashable(v)) for k, v in value.items()])
    if kind is float and not value:
        return (kind, repr(value))
    return (kind, value)


def trace(
    function: Callable[..., Any],
    shape_of_call: Any,
    specs: Sequence[Spec | ArraySpec],
    engine: Engine,
    at_once: bool,
    watching: Any = None,
) -> Trace:
    """Trace a K function for inputs of `specs`. `shape_of_call`, its arguments and keyword
    arguments, has slots for them. Who is `watching` runs the program.
    """
    inputs = [ArrayInput(s.spec) if isinstance(s, ArraySpec) else Placeholder(s) for s in specs]
    args, kwargs = fill(shape_of_call, inputs)
    with (
        context.changed(mode="symbolic", bound=None),
        engines.use(engine.name),
        config.watched() as settings,
    ):
        result = function(*args, **kwargs)
    outputs: list[Tensor] = []

    def slot(value: object) -> Any:
        if not isinstance(value, Tensor):
            return value
        outputs.append(value)
        return Slot(len(outputs) - 1)

    made = Trace()
    made.settings = tuple(settings.items())
    made.result = map_leaves(slot, result)
    made.single = type(made.result) is Slot
    order = toposort(outputs, stop=inputs)
    made.keys = [t for t in order if isinstance(t, KeySource)]
    made.variables = [t for t in order if isinstance(t, Variable)]
    made.foreign = any(isinstance(t, Constant) and not is_array(t) for t in order)
    unfed = [t for t in order if isinstance(t, Placeholder) and t not in inputs]
    replace = _defaults(unfed, function.__name__)
    taken = [*inputs, *made.keys, *made.variables]
    if watching is not None:
        made.program, made.constants = watching.program(engine, taken, outputs, replace), []
        return made
    from backplane.compile.program import Request, compiled  # Here: the compiler is a fourth of K.

    options = () if at_once else NATIVE
    request = Request(engine, taken, outputs, replace=replace, eager=at_once, options=options)
    made.program, made.constants, *_ = compiled(request)
    return made


def _defaults(unfed: Sequence[Placeholder], name: str) -> dict[Tensor, Tensor]:
    """The defaults of placeholders that a call of K's function `name` does not feed. ValueError if
    one has none.
    """
    for t in unfed:
        if t.default is None:
            raise ValueError(f"K.{name}: {t!r} has no value: it is a placeholder")
    return {t: constant(t.default, t.spec.dtype) for t in unfed}


NATIVE = (("native", True),)
"""The option of a program whose results go to the user as tensors of the engine, not as arrays."""


def runs_at_once(engine: Engine) -> bool:
    """Whether emitted Python computes on this engine's values without being compiled."""
    return "eager" in engine.capabilities


def fill(tree: Any, given: Any) -> Any:
    """A tree with its slots filled."""
    return map_leaves(lambda v: given[v.index] if type(v) is Slot else v, tree)
