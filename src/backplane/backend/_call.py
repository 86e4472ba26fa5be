"""The call rule of K: one definition of each function serves tensors and native values.

A K function is written symbolically. Called with any symbolic tensor it just runs, and builds
graph. Called with native tensors or arrays only, it is traced once for their shapes and dtypes, and
the emitted program runs at once on their engine; the trace is kept for the next call of the same
kind. Beside a native tensor, variables and symbolic tensors that can be computed (constants, random
numbers, what is made of them) count as their values.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeGuard, TypeVar

import numpy as np

from backplane import engines
from backplane.backend import _foreign, _keras1
from backplane.compile.program import compiled, explain
from backplane.core.graph import Constant, KeySource, Placeholder, Tensor, constant, toposort
from backplane.core.registry import PRIMITIVES
from backplane.core.spec import Spec, is_float
from backplane.core.variable import Variable
from backplane.engines.base import Engine

F = TypeVar("F", bound=Callable[..., Any])

MODES = ("auto", "symbolic", "eager")
_mode: ContextVar[str | None] = ContextVar("backplane_mode", default=None)
_outside = ["auto"]


def mode() -> str:
    """How calls without symbolic tensors behave: "auto" (native tensors and arrays run at once),
    "symbolic" (everything builds graph) or "eager" (variables and constants run at once too).
    """
    return _mode.get() or _outside[0]


def default_mode(name: str) -> Callable[[], None]:
    """Calls outside of `mode_of` behave as `name` says, until the returned function is called."""
    before, _outside[0] = _outside[0], name

    def undo() -> None:
        _outside[0] = before

    return undo


@contextmanager
def mode_of(name: str) -> Iterator[None]:
    """Calls inside behave as `name` says (see `mode`)."""
    token = _mode.set(name)
    try:
        yield
    finally:
        _mode.reset(token)


class _Found:
    """What the arguments of a call hold."""

    __slots__ = ("arrays", "natives", "server", "symbolic", "variables")

    def __init__(self) -> None:
        self.server: Any = None
        self.symbolic: list[Tensor] = []
        self.variables = False
        self.arrays = False
        self.natives: list[Any] = []

    def look(self, value: Any) -> None:
        if isinstance(value, Tensor):
            if isinstance(value, Variable):
                self.variables = True
            else:
                self.symbolic.append(value)
        elif isinstance(value, np.ndarray | np.floating):
            # NumPy makes scalars of arrays without axes. Whole ones may also be axes and counts.
            self.arrays = True
        elif isinstance(value, list | tuple):
            for item in value:
                self.look(item)
        elif isinstance(value, dict):
            for item in value.values():
                self.look(item)
        elif value is None or type(value) in _PLAIN:
            return
        elif engines.engine_of(value) is not None:
            self.natives.append(value)
        else:
            self.server = _foreign.server_of(value) or self.server


_PLAIN = frozenset((int, float, bool, str))


def api(function: F) -> F:
    """Decorator of K functions on tensors: applies the call rule, and names the function in errors
    of the primitives and argument helpers below it.
    """

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            how = _mode.get() or _outside[0]
            if how == "symbolic":
                return function(*args, **kwargs)
            found = _Found()
            look = found.look
            for value in args:
                look(value)
            for value in kwargs.values():
                look(value)
            if found.server is not None:
                return found.server.call(wrapper, args, kwargs)
            if _runs(found, how):
                engine = _engine_for(found.natives, function.__name__)
                return run_now(function, args, kwargs, engine)
            return function(*args, **kwargs)
        except (TypeError, ValueError) as error:
            call = _keras1.modern(function.__name__, args, kwargs)
            if call is None:
                _name_function(error, function.__name__)
                raise
        return wrapper(**call)

    return wrapper  # type: ignore[return-value]


def _runs(found: _Found, how: str) -> bool:
    """Whether a call with such arguments computes at once."""
    if found.natives:
        return not found.symbolic or is_closed(found.symbolic)
    if found.symbolic or (found.variables and how != "eager"):
        return False
    return found.arrays or how == "eager"


def is_closed(tensors: list[Tensor]) -> bool:
    """Whether tensors can be computed as they are: none needs a placeholder to be fed."""
    return not any(isinstance(t, Placeholder) and t.default is None for t in toposort(tensors))


def _name_function(error: Exception, name: str) -> None:
    """Let the message of an error start with `K.name: ` instead of the name of a primitive, unless
    it names a K function already, or was raised by somebody else's code that K called.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    ours = trace is not None and trace.tb_frame.f_code.co_filename.startswith(_PACKAGE)
    if ours and len(error.args) == 1 and not str(error).startswith("K."):
        inner, colon, text = str(error).partition(": ")
        error.args = (f"K.{name}: {text if colon and inner in PRIMITIVES else error}",)


_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def creates(function: F) -> F:
    """Decorator of K functions that make tensors from shapes and numbers: they build graph, arrays
    among their arguments are parameters; in eager mode, and if a native tensor is among their
    arguments, they run at once.
    """

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            how = _mode.get() or _outside[0]
            if how == "symbolic":
                return function(*args, **kwargs)
            found = _Found()
            for value in (*args, *kwargs.values()):
                found.look(value)
            if found.server is not None:
                return found.server.call(wrapper, args, kwargs)
            if found.symbolic or not (found.natives or how == "eager"):
                return function(*args, **kwargs)
            engine = _engine_for(found.natives, function.__name__)
            return run_now(function, args, kwargs, engine, arrays=False)
        except (TypeError, ValueError):
            call = _keras1.modern(function.__name__, args, kwargs)
            if call is None:
                raise
        return wrapper(**call)

    return wrapper  # type: ignore[return-value]


def _engine_for(natives: list[Any], name: str) -> Engine:
    """The one engine that all native tensors belong to; the current one if there are none."""
    found = {engines.engine_of(value) for value in natives}
    if not found:
        return engines.current()
    if len(found) > 1:
        listed = " and ".join(sorted(e.name for e in found if e is not None))
        raise TypeError(
            f"K.{name}: got tensors of different engines ({listed}): convert one of them"
        )
    engine = found.pop()
    assert engine is not None
    return engine


# --- tracing and running at once
# --------------------------------------------------------------------


class _Trace:
    """A traced call: the program, and how its results are put together."""

    __slots__ = ("constants", "keys", "program", "result", "reusable", "variables")
    program: Callable[..., tuple[Any, ...]]
    constants: list[Any]
    keys: list[KeySource]
    variables: list[Variable]
    result: Any
    reusable: bool

    def __call__(self, engine: Engine, leaves: list[Any]) -> Any:
        if self.keys:
            leaves = [*leaves, *map(engine.key, self.keys)]
        if self.variables:
            leaves = [*leaves, *[engine.lend(v.read(engine)) for v in self.variables]]
        try:
            values = self.program(*leaves, *self.constants)
        except Exception as error:
            explain(error, engine)
            raise
        if type(self.result) is _Slot:
            return values[self.result.index]
        return _fill(self.result, values)


class _Slot:
    """Stands for a native value in a nest of arguments, or for an output in a result."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


_traces: dict[Any, _Trace] = {}
TRACE_LIMIT = 4096


def run_now(
    function: Callable[..., Any], args: Any, kwargs: Any, engine: Engine, arrays: bool = True
) -> Any:
    """Run a K function on native values: the values of `engine`, variables and, unless they are
    parameters of the function, `arrays`.
    """
    leaves: list[Any] = []
    specs: list[Any] = []
    shape_of_call = (
        _abstract(args, engine, leaves, specs, arrays),
        _abstract(kwargs, engine, leaves, specs, arrays),
    )
    at_once = runs_at_once(engine) or any(map(engine.is_symbolic, leaves))
    key: Any = None
    trace = None
    try:
        key = (function, engine.name, at_once, tuple(specs), _hashable(shape_of_call))
        trace = _traces.get(key)
    except TypeError:
        key = None
    if trace is None:
        trace = _trace(function, shape_of_call, specs, engine, at_once)
        if key is not None and trace.reusable:
            if len(_traces) >= TRACE_LIMIT:
                _traces.clear()
            _traces[key] = trace
    return trace(engine, leaves)


def _abstract(
    value: Any, engine: Engine, leaves: list[Any], specs: list[Spec], arrays: bool
) -> Any:
    """`value` with its native tensors, variables and `arrays` taken out into `leaves`."""
    kind = type(value)
    if kind in _PLAIN or value is None:
        return value
    if kind is tuple or kind is list:
        return kind([_abstract(v, engine, leaves, specs, arrays) for v in value])
    if kind is dict:
        return {k: _abstract(v, engine, leaves, specs, arrays) for k, v in value.items()}
    if isinstance(value, Tensor):
        if isinstance(value, Variable):
            value = engine.lend(value.read(engine))
        elif _is_array(value) and is_float(value.spec.dtype):
            # A whole number may be an axis or a size, which is read while the call is traced.
            value = engine.from_numpy(value.value)
        else:
            return value
    elif isinstance(value, np.ndarray):
        if not arrays:
            return value
        if value.dtype == object:
            value = np.array(value.tolist())
        if value.dtype.kind not in "biuf" and value.dtype.name != "bfloat16":
            raise TypeError(f"expected numbers, got an array of dtype {value.dtype}")
        value = engine.from_numpy(value)
    elif isinstance(value, np.integer | np.bool_) or not engine.owns(value):
        return value
    leaves.append(value)
    specs.append(engine.spec_of(value))
    return _Slot(len(leaves) - 1)


def _is_array(value: Any) -> TypeGuard[Constant]:
    return isinstance(value, Constant) and isinstance(value.value, np.ndarray)


def _hashable(value: Any) -> Any:
    """A key for the plain arguments: types count (1 and 1.0 differ), lists become tuples.

    Raises:
        TypeError: for functions, whose surroundings may change between calls, and unhashable
            values.
    """
    kind = type(value)
    if (callable(value) and kind is not type) or isinstance(value, Tensor):
        raise TypeError
    if kind is _Slot:
        return (_Slot, value.index)
    if kind is tuple or kind is list:
        return (kind, *[_hashable(v) for v in value])
    if kind is dict:
        return (dict, *[(k, _hashable(v)) for k, v in value.items()])
    return (kind, value)


def _trace(
    function: Callable[..., Any],
    shape_of_call: Any,
    specs: list[Spec],
    engine: Engine,
    at_once: bool,
) -> _Trace:
    inputs = [Placeholder(spec) for spec in specs]
    args, kwargs = _fill(shape_of_call, inputs)
    with mode_of("symbolic"), engines.use(engine.name):
        result = function(*args, **kwargs)
    outputs: list[Tensor] = []
    trace = _Trace()
    trace.result = _take_outputs(result, outputs)
    order = toposort(outputs, stop=inputs)
    trace.keys = [t for t in order if isinstance(t, KeySource)]
    trace.variables = [t for t in order if isinstance(t, Variable)]
    foreign = any(isinstance(t, Constant) and not _is_array(t) for t in order)
    trace.reusable = not (trace.keys or trace.variables or foreign)
    replace: dict[Tensor, Tensor] = {}
    for t in order:
        if isinstance(t, Placeholder) and t not in inputs:
            if t.default is None:
                raise ValueError(f"K.{function.__name__}: {t!r} has no value: it is a placeholder")
            replace[t] = constant(t.default, t.spec.dtype)
    trace.program, trace.constants = compiled(
        engine, [*inputs, *trace.keys, *trace.variables], outputs, replace=replace,
        eager=at_once, options=() if at_once else NATIVE,
    )  # fmt: skip
    return trace


NATIVE = (("native", True),)
"""The option of a program whose results go to the user as tensors of the engine, not as arrays."""


def runs_at_once(engine: Engine) -> bool:
    """Whether emitted Python computes by itself on this engine's values, without being compiled."""
    return "eager" in engine.capabilities


def _fill(value: Any, given: Any) -> Any:
    kind = type(value)
    if kind is _Slot:
        return given[value.index]
    if kind is tuple or kind is list:
        return kind([_fill(v, given) for v in value])
    if kind is dict:
        return {k: _fill(v, given) for k, v in value.items()}
    return value


def _take_outputs(value: Any, outputs: list[Tensor]) -> Any:
    kind = type(value)
    if isinstance(value, Tensor):
        outputs.append(value)
        return _Slot(len(outputs) - 1)
    if kind is tuple or kind is list:
        return kind([_take_outputs(v, outputs) for v in value])
    if kind is dict:
        return {k: _take_outputs(v, outputs) for k, v in value.items()}
    return value
