"""The call rule of K: each function is defined once, for tensors and native values alike.

A K function is written for symbolic tensors. If at least one argument is symbolic, the function
just runs, and builds a graph. If there are only native tensors or arrays, it is traced once for
their shapes and dtypes, and the emitted program runs at once on their engine (`_trace.py`). Beside
a native tensor, variables and symbolic tensors that can be computed (constants, random numbers, and
what is made of these) count as their values.

The types of the arguments decide what a call does, and looking at the arguments one by one takes
longer than a small operation. So the first call with certain types settles it for all later ones
(`_settle`). If an argument is symbolic, later calls go to the function itself. For arrays and
native tensors they go to a few lines of Python, written for these types, which find the program for
the shapes and run it:

    def settled(_0, *, axis):
        try:
            _key = (_0.shape, _0.dtype, axis)
            _program = _find(_key)
        except TypeError:
            return _general(_0, axis=axis)
        if _program is None:
            return _other(_key, lambda: [_0], (_0,), {"axis": axis})
        try:
            return _program(_0)[0]
        except Exception as _error:
            _explain(_error, _engine, _program)
            raise

Some programs need no more than that, because they have one result, no constants of their own, and
depend on no settings. They are kept apart from the other traces. If there are functions, dicts or
nested lists among the arguments, `_general` looks at the arguments of each call.
"""

from __future__ import annotations

import functools
import inspect
import keyword
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from backplane import engines
from backplane.backend import _adapters, _dynamo
from backplane.backend._args import FLAGS
from backplane.backend._errors import EXPLAINED, explain
from backplane.backend._trace import PLAIN, keep, run_now, runs_at_once, table, traced_for
from backplane.backend._trees import map_leaves
from backplane.compile import source_map
from backplane.core import context
from backplane.core.context import DEFAULT_MODE, mode
from backplane.core.graph import Placeholder, Tensor, toposort
from backplane.core.source import Source
from backplane.core.variable import Variable
from backplane.engines.base import Engine

__all__ = ["OLD_SPELLINGS", "api", "creates", "is_closed", "unconverted"]

F = TypeVar("F", bound=Callable[..., Any])
Call = Callable[..., Any]

OLD_SPELLINGS: list[Callable[[str, Any, Any], dict[str, Any] | None]] = []
"""One function, put here by `_keras1`: gives a call that failed as keyword arguments of today if it
is spelled as Keras 1 spelled it; else None."""


class _Found:
    """What the arguments of a call contain."""

    __slots__ = ("adapter", "arrays", "natives", "symbolic", "variables")

    def __init__(self, values: Iterable[Any] = ()) -> None:
        self.adapter: Any = None
        self.symbolic: list[Tensor] = []
        self.variables = False
        self.arrays = False
        self.natives: list[Any] = []
        for value in values:
            self.look(value)

    def look(self, value: object) -> None:
        if isinstance(value, Tensor):
            if isinstance(value, Variable):
                self.variables = True
            else:
                self.symbolic.append(value)
        elif isinstance(value, np.ndarray | np.floating):
            # NumPy turns arrays without axes into scalars. Whole numbers among them may also be
            # axes and counts.
            self.arrays = True
            if value.dtype == object:  # It is a shape, and some sizes are tensors.
                self.look(value.tolist())
        elif isinstance(value, list | tuple):
            for item in value:
                self.look(item)
        elif isinstance(value, dict):
            for item in value.values():
                self.look(item)
        elif value is None or type(value) in PLAIN:
            return
        elif engines.engine_of(value) is not None:
            self.natives.append(value)
        else:
            self.adapter = _adapters.adapter_of(value) or self.adapter

    def engine(self, name: str) -> Engine:
        """The one engine to which all native tensors belong; the current engine if there
        are none.
        """
        found = {engine for value in self.natives if (engine := engines.engine_of(value))}
        if len(found) > 1:
            listed = " and ".join(sorted(e.name for e in found))
            raise TypeError(
                f"K.{name}: got tensors of different engines ({listed}): convert one of them"
            )
        return found.pop() if found else engines.current()


def api(function: F) -> F:
    """Decorator for K functions of tensors. It applies the call rule, and puts the name of the
    function into errors of the primitives and helpers below it.
    """
    settled: dict[Any, Call] = {}
    find, current = settled.get, context.current
    engines.DEFAULT_CHANGED.append(settled.clear)

    @functools.wraps(function)
    def wrapper(*args: object, **kwargs: object) -> Any:
        try:
            now = current()
            if kwargs:
                kinds = (
                    now.mode or DEFAULT_MODE[0], now.engine,
                    *map(type, args), *kwargs, *map(type, kwargs.values()),
                )  # fmt: skip
            else:
                kinds = (now.mode or DEFAULT_MODE[0], now.engine, *map(type, args))
            call = find(kinds)
            if call is None:
                if len(settled) >= SETTLED_LIMIT:
                    settled.clear()
                call = settled[kinds] = _settle(function, general, mode(), args, kwargs)
            return call(*args, **kwargs)
        except EXPLAINED as error:
            fits = isinstance(error, TypeError | ValueError)
            modern = OLD_SPELLINGS[0](function.__name__, args, kwargs) if fits else None
            if modern is None:
                explain(error, function, args, kwargs)
                raise
        return wrapper(**modern)

    general = _general(function, wrapper)
    _dynamo.visible(function, wrapper)
    return wrapper  # type: ignore[return-value]


SETTLED_LIMIT = 256
"""Combinations of types that are kept for one function."""


def unconverted(function: F) -> F:
    """`function`, marked so that TensorFlow's AutoGraph calls it as it is.

    AutoGraph rewrites the source of every function that a `tf.function` calls. It cannot parse all
    of ours, and warns. This is the mark of `tf.autograph.experimental.do_not_convert`.
    """
    function.autograph_info__ = {}  # type: ignore[attr-defined]
    return function


def _general(function: Call, wrapper: Call) -> Call:
    """The call rule for any arguments: each call looks at everything that they contain."""

    def call(*args: object, **kwargs: object) -> Any:
        found = _Found((*args, *kwargs.values()))
        if found.natives:
            args, kwargs = map_leaves(_adapters.LIFT[0], bound_values((args, kwargs)))
            found = _Found((*args, *kwargs.values()))
        if found.adapter is not None:
            return found.adapter.call(wrapper, args, kwargs)
        if _runs(found, mode()):
            return run_now(function, args, kwargs, found.engine(function.__name__))
        return function(*args, **kwargs)

    return call


def bound_values(tree: object) -> Any:
    """`tree`; inside of a function of an engine's library (`core.native`), with the values that its
    tensors have there.
    """
    bound = context.current().bound
    if bound is None:
        return tree
    return map_leaves(lambda v: bound[v] if isinstance(v, Tensor) else v, tree)


def look(values: Iterable[Any], name: str) -> tuple[bool, Engine]:
    """Whether a call of `K.name` with these arguments computes at once, and on which engine."""
    found = _Found(values)
    return _runs(found, mode()), found.engine(name)


def _runs(found: _Found, how: str) -> bool:
    """Whether a call with such arguments computes at once."""
    if found.natives:
        return not found.symbolic or is_closed(found.symbolic)
    if found.symbolic or (found.variables and how != "eager"):
        return False
    return found.arrays or how == "eager"


def is_closed(tensors: list[Tensor]) -> bool:
    """Whether tensors can be computed as they are, because none needs a placeholder that must be
    fed.
    """
    return not any(isinstance(t, Placeholder) and t.default is None for t in toposort(tensors))


def creates(function: F) -> F:
    """Decorator for K functions that make tensors from shapes and numbers. Arrays among their
    arguments are parameters, so they build a graph. In eager mode, or if there is a native tensor
    among the arguments, they run at once.
    """

    @functools.wraps(function)
    def wrapper(*args: object, **kwargs: object) -> Any:
        try:
            how = mode()
            if how == "symbolic":
                return function(*args, **kwargs)
            found = _Found((*args, *kwargs.values()))
            if found.adapter is not None:
                return found.adapter.call(wrapper, args, kwargs)
            if found.symbolic or not (found.natives or how == "eager"):
                return function(*args, **kwargs)
            engine = found.engine(function.__name__)
            return run_now(function, args, kwargs, engine, arrays=False)
        except EXPLAINED as error:
            fits = isinstance(error, TypeError | ValueError)
            modern = OLD_SPELLINGS[0](function.__name__, args, kwargs) if fits else None
            if modern is None:
                explain(error, function, args, kwargs)
                raise
        return wrapper(**modern)

    return wrapper  # type: ignore[return-value]


# --- settled by types -----------------------------------------------------------------------------


def _settle(
    function: Call, general: Call, mode: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Call:
    """What calls like this one do: calls in the same mode and on the same engine, with as many
    arguments of the same types, and keywords of the same names.
    """
    _check_flags(function, args, kwargs)
    if mode == "symbolic":
        return function
    if context.WATCHING:
        return general
    if not all(_is_keyword(name) for name in kwargs):
        return general
    if any(type(v) in (list, tuple) for v in (*args, *kwargs.values())):
        return _by_items(function, general, mode)
    return _for_types(function, general, mode, args, kwargs)


def _check_flags(function: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """TypeError if an argument that says yes or no has another type: `"no"` would mean yes. Types
    are looked at once, like all that is settled by them.
    """
    flags = [name for name, kind in function.__annotations__.items() if kind == "bool"]
    if flags:
        named = inspect.unwrap(function).__code__.co_varnames
        given = dict(zip(named, args, strict=False)) | kwargs
        for name in flags:
            if not isinstance(given.get(name), FLAGS):
                raise TypeError(f"{name} must be True or False, got {given[name]!r}")


def _is_keyword(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("_")


def _by_items(function: Call, general: Call, mode: str) -> Call:
    """What calls with lists or tuples do: the types of the items choose among what was settled."""
    settled: dict[Any, Call] = {}

    def choose(*args: object, **kwargs: object) -> Any:
        kinds = tuple(
            [
                tuple(map(type, v)) if type(v) is list or type(v) is tuple else None
                for v in (args if not kwargs else (*args, *kwargs.values()))
            ]
        )
        chosen = settled.get(kinds)
        if chosen is None:
            if len(settled) >= SETTLED_LIMIT:
                settled.clear()
            chosen = settled[kinds] = _for_types(function, general, mode, args, kwargs)
        return chosen(*args, **kwargs)

    return choose


def _for_types(
    function: Call, general: Call, mode: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Call:
    values: list[Any] = []
    for v in (*args, *kwargs.values()):
        values += v if type(v) in (list, tuple) else [v]
    if any(type(v) in (list, tuple, dict) for v in values):
        return general
    found = _Found(values)
    if found.adapter is not None:
        return general
    if found.symbolic or found.variables:
        computes = found.natives or (not found.symbolic and mode == "eager")
        return general if computes else function
    if len({engines.engine_of(v) for v in found.natives}) > 1 or not (
        found.natives or found.arrays
    ):
        return general
    engine = found.engine(function.__name__)
    if not runs_at_once(engine) and any(engine.owns(v) for v in values):
        return general  # The call may be part of a graph of the engine's own.
    return _Writer(function, general, engine).written(args, kwargs) or general


class _Writer:
    """Writes what a call with arguments of certain types does."""

    def __init__(self, function: Call, general: Call, engine: Engine) -> None:
        self.function = function
        self.engine = engine
        self.key: list[str] = []
        self.leaves: list[str] = []
        self.unpacked: list[str] = []
        traces, programs = table(), table()

        def other(key: Any, converted: Callable[[], list[Any]], args: Any, kwargs: Any) -> Any:
            trace = traces.get(key)
            if trace is not None and trace.holds():
                return trace(engine, converted())
            if engine.is_tracing() or any(map(_needs_conversion, (*args, *kwargs.values()))):
                return general(*args, **kwargs)
            trace, leaves = traced_for(function, args, kwargs, engine)
            if trace.simple:
                keep(programs, key, trace.program)
            elif trace.reusable:
                keep(traces, key, trace)
            return trace(engine, leaves)

        self.source = Source(
            "call", _find=programs.get, _other=other, _general=general, _engine=engine,
            _explain=source_map.explain, _spec_of=engine.spec_of, _from_numpy=engine.from_numpy,
        )  # fmt: skip

    def written(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        """The function; None if there is an argument that it cannot handle."""
        positions = [f"_{i}" for i in range(len(args))]
        for name, value in zip((*positions, *kwargs), (*args, *kwargs.values()), strict=True):
            if not self._take(name, value):
                return None
        parameters = ", ".join([*positions, *(["*", *kwargs] if kwargs else [])])
        keywords = [f"{name}={name}" for name in kwargs]
        pairs = ", ".join(f"{name!r}: {name}" for name in kwargs)
        given = "".join(f"{position}, " for position in positions)
        leaves = ", ".join(self.leaves)
        source = self.source
        with source.block(f"def settled({parameters}):"):
            for line in self.unpacked:
                source.line(line)
            with source.block("try:"):
                source.line(f"_key = ({', '.join(self.key)},)")
                source.line("_program = _find(_key)")
            with source.block("except TypeError:"):
                source.line(f"return _general({', '.join([*positions, *keywords])})")
            with source.block("if _program is None:"):
                source.line(f"return _other(_key, lambda: [{leaves}], ({given}), {{{pairs}}})")
            with source.block("try:"):
                source.line(f"return _program({leaves})[0]")
            with source.block("except Exception as _error:"):
                source.line("_explain(_error, _engine, _program)")
                source.line("raise")
        return source.function("settled")

    def _take(self, name: str, value: Any) -> bool:
        """Make one argument part of the key. If it is a tensor, make it a leaf."""
        if type(value) not in (list, tuple):
            return self._take_item(name, value)
        if len(value) > MOST_ITEMS:
            return False
        items = [f"{name}_{i}" for i in range(len(value))]
        if items:
            self.unpacked.append(f"{', '.join(items)}, = {name}")
        return all(self._take_item(n, v) for n, v in zip(items, value, strict=True))

    def _take_item(self, name: str, value: Any) -> bool:
        kind = type(value)
        if kind is float:
            self.key.append(f"{name} or repr({name})")  # 0.0 and -0.0 are equal
        elif kind in PLAIN or value is None or kind is type or issubclass(kind, _SCALARS):
            self.key.append(name)
        elif kind is np.ndarray:
            self.key.append(f"{name}.shape, {name}.dtype")
            self.leaves.append(name if self.engine.holds_arrays else f"_from_numpy({name})")
        elif self.engine.owns(value) and not isinstance(value, np.ndarray):
            parts = self.engine.signature(kind) or ("_spec_of({x})",)
            self.key += [part.format(x=name) for part in parts]
            self.leaves.append(name)
        else:
            return False
        return True


_SCALARS = (np.integer, np.bool_)

MOST_ITEMS = 32
"""Items of a list that are named one by one."""


def _needs_conversion(value: object) -> bool:
    """Whether `value` is, or holds, an array that must be converted before any use."""
    if type(value) is list or type(value) is tuple:
        return any(map(_needs_conversion, value))
    return type(value) is np.ndarray and (value.dtype == object or not value.dtype.isnative)
