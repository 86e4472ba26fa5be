"""The call rule of Keras' backend functions, and what turns their arguments into tensors.

A function is written once, over tensors of a graph:

    @op
    def add(x1, x2):
        return ew.add(*alike(x1, x2))

How a call of it runs depends on its arguments and on where it stands:

- Inside another such function it just runs: tensors of a graph come in and go out.
- If an argument is symbolic (`keras3.tensor.Tensor`), or a step is being traced (`tracing`), it
  builds graph, and its results are symbolic.
- Otherwise it is traced once for the shapes, dtypes and parameters, and runs at once on the engine.
  The results are tensors of the engine's library. Engines that only compile (`eager_engine`) leave
  this to NumPy. The types of the arguments settle how such calls run, as for K's functions
  (`settled.py`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar, overload

import numpy as np

from backplane import engines
from backplane.backend._args import entries_of
from backplane.backend._settled import SETTLED_LIMIT
from backplane.backend._trace import run_now
from backplane.backend._trees import map_leaves
from backplane.core import context, graph
from backplane.core.tracebacks import hide
from backplane.engines.base import Engine
from backplane.keras3.introduction import INTRODUCED, introduce
from backplane.keras3.naming import keras_name, name_function
from backplane.keras3.settings import keeps_float64, settings
from backplane.keras3.settled import Rule, is_variable
from backplane.keras3.tensor import Tensor
from backplane.ops.lift import as_tensor, cast_to

F = TypeVar("F", bound=Callable[..., Any])

OUTSIDE, TRACING, INSIDE = 0, 1, 2
"""The place of a call: in the user's code, in the user's code while a step is traced, or inside
another function of the backend."""

_where: ContextVar[int] = ContextVar("where a call of keras3 stands", default=OUTSIDE)

_PLAIN = (bool, int, float, str)


def eager_engine() -> Engine:
    """The engine on which calls outside of steps run: the one in force, or NumPy's if that one only
    compiles programs.
    """
    engine = engines.current()
    if "eager" not in engine.capabilities:
        engine = engines.get("numpy")
    if engine.library not in INTRODUCED:
        introduce(engine)
    return engine


# --- where calls stand ----------------------------------------------------------------------------


def is_tracing() -> bool:
    """Whether a step is being traced, or shapes are being found out."""
    return _where.get() == TRACING


@contextmanager
def tracing() -> Iterator[None]:
    """Context manager: inside, every call builds graph, also one without any symbolic argument."""
    with context.assigned(_where, TRACING), context.changed(mode=None, bound=None):
        yield


def users(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that the user gave (a branch, the body of a loop), to be called from inside of a
    function of the backend: it gets symbolic tensors, and gives tensors of the graph back.
    """

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        with tracing():
            result = function(*wrapped(args), **wrapped(kwargs))
        return unwrapped(result)

    return called


class NoSymbolicFormError(TypeError):
    """A function that only runs on values was called with a symbolic tensor. It is made from a
    message alone, as Keras does where it adds the name of the layer.
    """

    @classmethod
    def of(cls, name: str, reason: str) -> NoSymbolicFormError:
        """The error of the function `keras.ops.name`."""
        return cls(
            f"keras.ops.{name} has no symbolic form: {reason}. Call it on values, outside of "
            "models and steps"
        )


# --- the decorator --------------------------------------------------------------------------------


@overload
def op(function: F) -> F: ...
@overload
def op(
    *, eager_only: str = "", static: Sequence[str] = (), exact: bool = False
) -> Callable[[F], F]: ...
def op(
    function: Callable[..., Any] | None = None,
    *,
    eager_only: str = "",
    static: Sequence[str] = (),
    exact: bool = False,
) -> Any:
    """Decorator for functions of Keras' backend. It applies the call rule.

    Args:
        function: The function, over tensors of a graph.
        eager_only: Why the function cannot be part of a graph, if so: its result has a shape that
            depends on values. The words follow "it has no symbolic form: ".
        static: Names of parameters that are known while a graph is built, such as axes and shapes.
            Arrays and tensors of an engine in their place become plain numbers and lists.
        exact: Whether values of 64 bits are taken as they are. Other functions take 32 bits of
            them, as Keras does on JAX and on NumPy (`narrowed`).
    """
    if function is None:
        return functools.partial(op, eager_only=eager_only, static=static, exact=exact)
    positions = _positions(function, static)
    body = _inside(function)
    on_values = body if exact else _narrowing(body)

    def build(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if eager_only:
            raise NoSymbolicFormError.of(function.__name__, eager_only)
        args, kwargs = map_leaves(_lifted if exact else _lifted_narrow, (args, kwargs))
        return wrapped(body(*args, **kwargs))

    def general(*args: Any, **kwargs: Any) -> Any:
        if positions:
            args, kwargs = _known(args, kwargs, positions)
        found = _Arguments(args, kwargs)
        if found.symbolic or _where.get() == TRACING:
            return build(found.args, found.kwargs)
        return run_now(on_values, found.args, found.kwargs, eager_engine(), also=settings())

    return _settling(function, on_values, general, positions)


def _inside(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, which other functions of the backend then call as it is. Its errors name it."""
    name = keras_name(function)

    @functools.wraps(function)
    def body(*args: Any, **kwargs: Any) -> Any:
        with context.assigned(_where, INSIDE):
            try:
                return function(*args, **kwargs)
            except (TypeError, ValueError, IndexError) as error:
                name_function(error, name)
                raise

    return body


def _narrowing(body: Callable[..., Any]) -> Callable[..., Any]:
    """`body` on arguments of at most 32 bits (`narrowed`)."""

    @functools.wraps(body)
    def at_once(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = map_leaves(narrowed, (args, kwargs))
        return body(*args, **kwargs)

    return at_once


def _settling(
    function: Callable[..., Any],
    on_values: Callable[..., Any],
    general: Callable[..., Any],
    positions: dict[Any, str],
) -> Callable[..., Any]:
    """The function that users call. Where a call stands and the types of its arguments settle which
    way it takes: `function` itself, the `general` one, or one that a `Rule` finds.
    """
    name = keras_name(function)
    settled: dict[Any, Callable[..., Any]] = {}
    find, current = settled.get, context.current
    engines.DEFAULT_CHANGED.append(settled.clear)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        where = _where.get()
        if where == INSIDE:
            return function(*args, **kwargs)
        if where == TRACING:
            return general(*args, **kwargs)
        kinds: Any = current().engine, *settings(), *map(type, args)
        if kwargs:
            kinds = *kinds, *kwargs, *map(type, kwargs.values())
        chosen = find(kinds)
        if chosen is None:
            if len(settled) >= SETTLED_LIMIT:
                settled.clear()
            rule = Rule(on_values, general, call, positions)
            chosen = settled[kinds] = rule.settled(eager_engine(), args, kwargs)
        try:
            return chosen(*args, **kwargs)
        except Exception as error:
            if isinstance(error, IndexError):
                name_function(error, name)
            hide(error)
            raise

    return call


def _positions(function: Callable[..., Any], static: Sequence[str]) -> dict[Any, str]:
    """The parameters in `static`, by position and by name."""
    names = list(inspect.signature(function).parameters)
    return {key: name for name in static for key in (names.index(name), name)}


def _known(args: Any, kwargs: Any, positions: dict[Any, str]) -> tuple[Any, Any]:
    args = [plain(v) if i in positions else v for i, v in enumerate(args)]
    return tuple(args), {k: plain(v) if k in positions else v for k, v in kwargs.items()}


def plain(value: Any) -> Any:
    """Arrays and tensors of an engine as Python's numbers and lists, and shapes of other libraries
    (`tf.TensorShape`) as tuples; anything else as it is.
    """
    kind = type(value)
    if kind in _PLAIN or value is None:
        return value
    if kind in (list, tuple):
        return kind([plain(v) for v in value])
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Tensor | graph.Tensor):
        return value
    if is_variable(value):
        return plain(value.value)
    engine = engines.engine_of(value)
    return entries_of(value, "shape") if engine is None else engine.to_numpy(value).tolist()


class _Arguments:
    """The arguments of a call, with variables of Keras replaced by their values, and tensors of
    foreign engines by arrays; and whether there is a symbolic one.
    """

    __slots__ = ("args", "engine", "kwargs", "symbolic")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.symbolic = False
        self.engine = eager_engine()
        self.args = tuple([self.taken(v) for v in args])
        self.kwargs = {k: self.taken(v) for k, v in kwargs.items()} if kwargs else kwargs

    def taken(self, value: Any) -> Any:
        """One argument."""
        kind = type(value)
        if kind in _PLAIN or value is None:
            return value
        if kind is Tensor:
            self.symbolic = True
            return value.core
        if kind is list or kind is tuple:
            return kind([self.taken(v) for v in value])
        if kind is dict:
            return {k: self.taken(v) for k, v in value.items()}
        if isinstance(value, graph.Tensor):
            self.symbolic = True
            return value
        if is_variable(value):
            return self.taken(value.value)
        if isinstance(value, np.ndarray | np.generic):
            return value
        if not self.engine.owns(value) and (other := engines.engine_of(value)) is not None:
            return other.to_numpy(value)
        return value


def _lifted(value: Any) -> Any:
    """Arrays and tensors of an engine as constants of a graph; anything else as it is."""
    if type(value) in _PLAIN or value is None or isinstance(value, graph.Tensor):
        return value
    if isinstance(value, np.ndarray | np.floating | np.bool_):
        return as_tensor(value)
    return value if engines.engine_of(value) is None else as_tensor(value)


def _lifted_narrow(value: Any) -> Any:
    """The same, but what becomes a constant has no 64 bits."""
    return value if isinstance(value, graph.Tensor) else narrowed(_lifted(value))


NARROWED = {"float64": "float32", "int64": "int32"}
"""The dtypes that Keras on JAX and on NumPy gives values of 64 bits."""


def narrowed(value: Any) -> Any:
    """A tensor of a graph that stands for a value of 64 bits as one of 32 bits; anything else as it
    is. Where float64 is kept, all bits are wanted.
    """
    if not isinstance(value, graph.Tensor) or keeps_float64():
        return value
    dtype = NARROWED.get(value.spec.dtype)
    return value if dtype is None else cast_to(value, dtype)


def wrapped(result: Any) -> Any:
    """A result with its tensors of a graph in the form that Keras sees."""
    if isinstance(result, graph.Tensor):
        return Tensor(result)
    return map_leaves(lambda v: Tensor(v) if isinstance(v, graph.Tensor) else v, result)


def unwrapped(result: Any) -> Any:
    """The inverse of `wrapped`. Variables of Keras become their values."""

    def core(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.core
        return core(value.value) if is_variable(value) else value

    return map_leaves(core, result)
