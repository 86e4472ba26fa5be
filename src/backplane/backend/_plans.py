"""What a call of a K function does, settled once for the types of its arguments.

A small operation takes less time than looking at its arguments one by one in a loop. So the types
of all arguments, known at the first call, choose a *plan*: the function itself where any argument
is symbolic; for arrays and native tensors a few lines of Python, written for these types, that find
the trace for their shapes and run it:

    def plan(_0, *, axis):
        try:
            _key = (_0.shape, _0.dtype, axis)
            _program = _find(_key)
        except TypeError:
            return _general(_0, axis=axis)
        if _program is None:
            return _other(_key, [_0], (_0,), {"axis": axis})
        try:
            return _program(_0)[0]
        except Exception as _error:
            _explain(_error, _engine, _program)
            raise

Programs that need no more than that, because they have one result, no constants of their own and
depend on no settings, are kept apart from the other traces.

Everything else, such as functions, dicts and nests of lists among the arguments, is left to the
general way, which looks at the arguments of each call.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable
from typing import Any

import numpy as np

from backplane import engines
from backplane.backend._foreign import server_among
from backplane.backend._trace import PLAIN, keep, runs_at_once, table, traced_for
from backplane.compile.source_map import explain
from backplane.core.graph import Tensor
from backplane.core.source import Source
from backplane.core.variable import Variable
from backplane.engines.base import Engine

Call = Callable[..., Any]

NONE = type(None)


def plan(
    function: Call, general: Call, mode: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Call:
    """What calls like this one do: calls in this mode, with the present engine in force, with as
    many arguments of the same types, and keywords of the same names.
    """
    if mode == "symbolic":
        return function
    if not all(_is_keyword(name) for name in kwargs):
        return general
    if any(type(v) in (list, tuple) for v in (*args, *kwargs.values())):
        return _by_items(function, general, mode)
    return _for_types(function, general, mode, args, kwargs)


def _is_keyword(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("_")


def _by_items(function: Call, general: Call, mode: str) -> Call:
    """A plan for calls with lists or tuples: the types of their items choose among others."""
    plans: dict[Any, Call] = {}

    def choose(*args: Any, **kwargs: Any) -> Any:
        kinds = tuple(
            [
                tuple(map(type, v)) if type(v) is list or type(v) is tuple else None
                for v in (args if not kwargs else (*args, *kwargs.values()))
            ]
        )
        chosen = plans.get(kinds)
        if chosen is None:
            if len(plans) >= PLAN_LIMIT:
                plans.clear()
            chosen = plans[kinds] = _for_types(function, general, mode, args, kwargs)
        return chosen(*args, **kwargs)

    return choose


PLAN_LIMIT = 256
"""Plans kept for one function."""


def _for_types(
    function: Call, general: Call, mode: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Call:
    values: list[Any] = []
    for v in (*args, *kwargs.values()):
        values += v if type(v) in (list, tuple) else [v]
    if any(type(v) in (list, tuple, dict) for v in values) or server_among(values) is not None:
        return general
    owners = {e for v in values if (e := engines.engine_of(v)) is not None}
    tensors = [v for v in values if isinstance(v, Tensor)]
    if tensors:
        variables = all(isinstance(v, Variable) for v in tensors)
        return general if owners or (variables and mode == "eager") else function
    arrays = any(isinstance(v, np.ndarray | np.floating) for v in values)
    if len(owners) > 1 or not (owners or arrays):
        return general
    engine = owners.pop() if owners else engines.current()
    if _may_be_symbolic(engine, values):
        return general
    return _Writer(function, general, engine).written(args, kwargs) or general


def _may_be_symbolic(engine: Engine, values: list[Any]) -> bool:
    """Whether a call on these values may be part of a graph of the engine's own."""
    return not runs_at_once(engine) and any(engine.owns(v) for v in values)


class _Writer:
    """Writes the lines of one plan."""

    def __init__(self, function: Call, general: Call, engine: Engine) -> None:
        self.function = function
        self.engine = engine
        self.key: list[str] = []
        self.leaves: list[str] = []
        self.unpacked: list[str] = []
        traces, programs = table(), table()

        def other(key: Any, leaves: list[Any], args: Any, kwargs: Any) -> Any:
            trace = traces.get(key)
            if trace is not None and trace.holds():
                return trace(engine, leaves)
            if any(map(_is_foreign, (*args, *kwargs.values()))):
                return general(*args, **kwargs)
            trace, leaves = traced_for(function, args, kwargs, engine)
            if trace.simple:
                keep(programs, key, trace.program)
            elif trace.reusable:
                keep(traces, key, trace)
            return trace(engine, leaves)

        self.source = Source(
            "plan", _find=programs.get, _other=other, _general=general, _engine=engine,
            _explain=explain, _spec_of=engine.spec_of, _from_numpy=engine.from_numpy,
        )  # fmt: skip

    def written(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        """The plan; None if there is an argument that it cannot deal with."""
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
        with source.block(f"def plan({parameters}):"):
            for line in self.unpacked:
                source.line(line)
            with source.block("try:"):
                source.line(f"_key = ({', '.join(self.key)},)")
                source.line("_program = _find(_key)")
            with source.block("except TypeError:"):
                source.line(f"return _general({', '.join([*positions, *keywords])})")
            with source.block("if _program is None:"):
                source.line(f"return _other(_key, [{leaves}], ({given}), {{{pairs}}})")
            with source.block("try:"):
                source.line(f"return _program({leaves})[0]")
            with source.block("except Exception as _error:"):
                source.line("_explain(_error, _engine, _program)")
                source.line("raise")
        return source.function("plan")

    def _take(self, name: str, value: Any) -> bool:
        """Make one argument part of the key and, if it is a tensor, a leaf."""
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
        elif kind in PLAIN or kind is NONE or kind is type or issubclass(kind, _SCALARS):
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
"""Items of a list that a plan names one by one."""


def _is_foreign(value: Any) -> bool:
    """Whether `value` is, or holds, an array that must be converted before any use."""
    if type(value) is list or type(value) is tuple:
        return any(map(_is_foreign, value))
    return type(value) is np.ndarray and (value.dtype == object or not value.dtype.isnative)
