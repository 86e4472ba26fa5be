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
from backplane.backend._errors import explain
from backplane.backend._settled import SETTLED_LIMIT, Writer, by_items
from backplane.backend._trace import PLAIN, run_now, runs_at_once
from backplane.backend._trees import map_leaves
from backplane.core import context
from backplane.core.context import DEFAULT_MODE, mode
from backplane.core.graph import Placeholder, Tensor, toposort
from backplane.core.hooks import HOOKS
from backplane.core.tracebacks import hide
from backplane.core.variable import Variable
from backplane.engines.base import Engine

__all__ = ["api", "creates", "is_closed", "unconverted"]

F = TypeVar("F", bound=Callable[..., Any])
Call = Callable[..., Any]


class _Found:
    """The contents of a call's arguments."""

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
        """The one engine to which all native tensors belong, or else the current one."""
        owners = {engine for value in self.natives if (engine := engines.engine_of(value))}
        if len(owners) > 1:
            listed = " and ".join(sorted(e.name for e in owners))
            raise TypeError(
                f"K.{name}: got tensors of different engines ({listed}): convert one of them"
            )
        return owners.pop() if owners else engines.current()


def api(function: F) -> F:
    """Decorator for K functions of tensors: applies the call rule, and names them in errors."""
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
        except Exception as error:
            fits = isinstance(error, TypeError | ValueError)
            modern = HOOKS["modern"](function.__name__, args, kwargs) if fits else None
            if modern is None:
                explain(error, function, args, kwargs)
                hide(error)
                raise
        return wrapper(**modern)

    general = _general(function, wrapper)
    _dynamo.visible(function, wrapper)
    return wrapper  # type: ignore[return-value]


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
        contents = _Found((*args, *kwargs.values()))
        if contents.natives:
            args, kwargs = map_leaves(HOOKS["lifted"], bound_values((args, kwargs)))
            contents = _Found((*args, *kwargs.values()))
        if contents.adapter is not None:
            return contents.adapter.call(wrapper, args, kwargs)
        if _runs(contents, mode()):
            return run_now(function, args, kwargs, contents.engine(function.__name__))
        return function(*args, **kwargs)

    return call


def bound_values(tree: object) -> Any:
    """`tree`, with the values that its tensors have inside of a native function, if in one."""
    bound = context.current().bound
    if bound is None:
        return tree
    return map_leaves(lambda v: bound[v] if isinstance(v, Tensor) else v, tree)


def look(values: Iterable[Any], name: str) -> tuple[bool, Engine]:
    """Whether a call of `K.name` with these arguments computes at once, and on which engine."""
    contents = _Found(values)
    return _runs(contents, mode()), contents.engine(name)


def _runs(contents: _Found, how: str) -> bool:
    """Whether a call with such arguments computes at once."""
    if contents.natives:
        return not contents.symbolic or is_closed(contents.symbolic)
    if contents.symbolic or (contents.variables and how != "eager"):
        return False
    return contents.arrays or how == "eager"


def is_closed(tensors: list[Tensor]) -> bool:
    """Whether tensors can be computed as they are: none needs a placeholder that must be fed."""
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
            contents = _Found((*args, *kwargs.values()))
            if contents.adapter is not None:
                return contents.adapter.call(wrapper, args, kwargs)
            if contents.symbolic or not (contents.natives or how == "eager"):
                return function(*args, **kwargs)
            engine = contents.engine(function.__name__)
            return run_now(function, args, kwargs, engine, arrays=False)
        except Exception as error:
            fits = isinstance(error, TypeError | ValueError)
            modern = HOOKS["modern"](function.__name__, args, kwargs) if fits else None
            if modern is None:
                explain(error, function, args, kwargs)
                hide(error)
                raise
        return wrapper(**modern)

    return wrapper  # type: ignore[return-value]


# --- settled by types -----------------------------------------------------------------------------


def _settle(
    function: Call, general: Call, mode: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Call:
    """Settle calls in one mode and engine, with arguments of these types and names."""
    _check_flags(function, args, kwargs)
    if mode == "symbolic":
        return function
    if context.WATCHING:
        return general
    if not all(n.isidentifier() and not keyword.iskeyword(n) and n[0] != "_" for n in kwargs):
        return general
    if any(type(v) in (list, tuple) for v in (*args, *kwargs.values())):
        return by_items(functools.partial(_for_types, function, general, mode))
    return _for_types(function, general, mode, args, kwargs)


def _check_flags(function: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """TypeError if a flag is no bool: `"no"` would mean yes. Types are looked at once."""
    flags = [name for name, kind in function.__annotations__.items() if kind == "bool"]
    if flags:
        named = inspect.unwrap(function).__code__.co_varnames
        given = dict(zip(named, args, strict=False)) | kwargs
        for name in flags:
            if not isinstance(given.get(name), FLAGS):
                raise TypeError(f"{name} must be True or False, got {given[name]!r}")


def _for_types(
    function: Call, general: Call, mode: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Call:
    values: list[Any] = []
    for v in (*args, *kwargs.values()):
        values += v if type(v) in (list, tuple) else [v]
    if any(type(v) in (list, tuple, dict) for v in values):
        return general
    contents = _Found(values)
    if contents.adapter is not None:
        return general
    if contents.symbolic or contents.variables:
        computes = contents.natives or (not contents.symbolic and mode == "eager")
        return general if computes else function
    if len({engines.engine_of(v) for v in contents.natives}) > 1 or not (
        contents.natives or contents.arrays
    ):
        return general
    engine = contents.engine(function.__name__)
    if not runs_at_once(engine) and any(engine.owns(v) for v in values):
        return general  # The call may be part of a graph of the engine's own.
    return Writer(function, general, engine).written(args, kwargs) or general
