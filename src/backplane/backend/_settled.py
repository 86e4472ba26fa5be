"""Writes what calls with arguments of certain types do: a few lines of Python that find the
program for the shapes, dtypes and plain arguments, and run it (`_call.py` shows them).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from backplane.backend._trace import PLAIN, keep, table, traced_for
from backplane.compile import source_map
from backplane.core.source import Source
from backplane.engines.base import Engine

Call = Callable[..., Any]

SETTLED_LIMIT = 256
"""Combinations of types that are kept for one function."""


def by_items(settle: Callable[[tuple[Any, ...], dict[str, Any]], Call]) -> Call:
    """A settled call for lists or tuples: the types of their items choose what `settle` gives."""
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
            chosen = settled[kinds] = settle(args, kwargs)
        return chosen(*args, **kwargs)

    return choose


class Writer:
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
