"""Functions written as Python text: compiled programs, their calls, plans of eager calls.

    source = Source("program", size=len)
    with source.block("def program(a0):"):
        source.line(f"t0 = {source.bind(np.tanh, 'tanh')}(a0)", mark=node)
        source.line("return t0")
    program = source.function("program")

The text is registered with `linecache` as long as the function exists, so tracebacks and debuggers
show it.
"""

from __future__ import annotations

import itertools
import keyword
import linecache
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from types import CodeType, FunctionType
from typing import Any
from weakref import ref

_count = itertools.count()
_marks: dict[str, tuple[dict[int, Any], Any]] = {}
"""By file: the marks of its lines, and the weak references that end this entry."""


class Source:
    """The text of a module that is being written, and the objects that it names."""

    def __init__(self, title: str, **names: Any) -> None:
        self.title = title
        self.names: dict[str, Any] = names
        """The global names of the text."""
        self.lines: list[str] = []
        self._margin = ""
        self._bound: dict[int, str] = {}
        self.marks: dict[int, Any] = {}
        """The marks of lines, by their numbers."""
        self._helpers: list[tuple[int, int]] = []
        """The places of the helpers among the lines."""

    def line(self, text: str, mark: object = None) -> None:
        """Add a line at the present margin. `marked` finds the `mark` of its number."""
        self.lines.append(self._margin + text)
        if mark is not None:
            self.marks[len(self.lines)] = mark

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Context manager: add the line `head`, and indent what is written inside."""
        self.line(head)
        before, self._margin = self._margin, self._margin + "    "
        try:
            yield
        finally:
            self._margin = before

    @contextmanager
    def helper(self) -> Iterator[None]:
        """Context manager: what is written inside is one function, without functions in it, which
        others call. Helpers come last. Those that differ in their names alone are compiled once.
        """
        start = len(self.lines)
        yield
        self._helpers.append((start, len(self.lines)))

    def bind(self, thing: object, stem: str) -> str:
        """The global name of `thing`, the same at each call: `stem`, if that is not taken."""
        name = self._bound.get(id(thing))
        if name is None:
            name = self._bound[id(thing)] = self.define(thing, stem)
        return name

    def define(self, thing: object, stem: str) -> str:
        """A global name of its own for `thing`."""
        stem = "".join([c if c.isalnum() else "_" for c in stem])
        name = f"{stem}_" if keyword.iskeyword(stem) else stem
        if name in self.names:
            name = f"{stem}_{len(self.names)}"
        self.names[name] = thing
        return name

    @property
    def text(self) -> str:
        """All lines written so far."""
        return "\n".join(self.lines) + "\n"

    def function(self, name: str) -> Callable[..., Any]:
        """Run the text, and return the function called `name` that it defines."""
        filename, text = f"<backplane {self.title} {next(_count)}>", self.text
        first = self._helpers[0][0] if self._helpers else len(self.lines)
        exec(_compiled("\n".join(self.lines[:first]), filename), self.names)
        self._define_helpers(filename)
        # A function refers to its module: if the module referred to it, both would stay, with all
        # that the text names, until Python looks for cycles.
        function: Callable[..., Any] = self.names.pop(name)
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        # What is called when the function goes is C: Python would run handlers of signals in a
        # finalizer, and drop what they raise.
        gone = [ref(function, partial(known.pop, filename)) for known in (_marks, linecache.cache)]
        _marks[filename] = self.marks, gone
        return function

    def _define_helpers(self, filename: str) -> None:
        """Let each helper be compiled when it is first called: many serve sizes that never come."""
        for start, end in self._helpers:
            head, *body = self.lines[start:end]
            name, _, parameters = head.removeprefix("def ").partition("(")
            text = "\n".join([f"def helper({parameters}", *body])
            self.names[name] = partial(_first, self.names, name, text, filename, start + 1)


def _first(names: dict[str, Any], name: str, text: str, file: str, line: int, *args: Any) -> Any:
    """The first call of a helper, which makes it. Its text is compiled once for all that have it.
    The numbers of its lines count from `line`, so that tracebacks show the helper itself.
    """
    code = next(c for c in _code(text).co_consts if isinstance(c, CodeType))
    code = code.replace(co_name=name, co_qualname=name, co_firstlineno=line)
    names[name] = made = FunctionType(_in_file(code, file), names)
    return made(*args)


SHORT, MOST_KEPT = 8_000, 256
"""The length, in characters, up to which a text's code is kept, and the number of kept texts."""


def _compiled(text: str, filename: str) -> CodeType:
    """The code of a text. That of short ones is kept: equal programs have calls of equal text."""
    if len(text) > SHORT:
        return compile(text, filename, "exec")
    return _in_file(_code(text), filename)


@lru_cache(maxsize=MOST_KEPT)
def _code(text: str) -> CodeType:
    return compile(text, "<backplane>", "exec")


def _in_file(code: CodeType, filename: str) -> CodeType:
    """The code, and that of the functions in it, as if it came from this file."""
    inner = [_in_file(c, filename) if isinstance(c, CodeType) else c for c in code.co_consts]
    return code.replace(co_filename=filename, co_consts=tuple(inner))


def marked(filename: str, line: int) -> Any:
    """The mark of a line that a `Source` wrote; None for all other lines and files."""
    return _marks[filename][0].get(line) if filename in _marks else None
