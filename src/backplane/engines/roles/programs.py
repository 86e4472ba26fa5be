"""The programs of an engine: what they may hold, how they are compiled, and their errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from backplane.core.graph import Graph, KeySource
from backplane.core.hooks import HOOKS
from backplane.engines.programs import Blocks, Function, Program
from backplane.engines.roles.values import Values
from backplane.engines.table import Table, Value


class Limited:
    """The role of limits: what programs must not hold, and what the library's errors mean."""

    missing_dtypes: ClassVar[frozenset[str]] = frozenset()
    """Dtypes that the library does not compute in: programs with them are refused."""
    largest_size: ClassVar[int] = 2**63 - 1
    """The largest size of an axis."""
    index_errors: ClassVar[tuple[type[Exception], ...]] = (IndexError,)
    """The errors that `gather` raises for an index out of range."""
    shortage: ClassVar[str] = "out of memory"
    """A pattern that the library's errors match when there is too little memory."""

    def bad_numbers(self, error: BaseException) -> tuple[bool, bool]:
        """Whether a failing `check_numerics` found NaN, and infinity, according to its error."""
        kinds = (re.search(r"\bha[sd] (Inf and NaN|Inf|NaN)", str(error)) or ("", ""))[1]
        return "NaN" in kinds, "Inf" in kinds


class Programs(Values):
    """The role of programs: what their text calls, and what compiles it."""

    capabilities: ClassVar[frozenset[str]] = frozenset()
    """Any of: `host_shapes` (sizes are ints while a program runs or is traced), `unsigned`
    (arithmetic of uint16 … uint64), `eager` (lowerings run on values at once), `out` (values are
    NumPy arrays, and lowerings write to an array that they are given), `blocks` (large arrays are
    computed in blocks, by the functions of `Engine.blocks`; programs that the library does not
    compile write over what they have made, by lowerings that take `out`), `steps` (loops run in
    Python, over lowerings that take `out`), `static` (a program is compiled anew for each set of
    input shapes), `once` (a computation that runs once need not be compiled as a whole),
    `unchecked` (an index out of range does not stop a program: `gather` gives NaN), `fuses` (the
    compiler computes element-wise operations together with the large result that they follow, so
    they cost nothing), `lazy` (a program builds a graph of the library, which chooses the order),
    `mesh` (programs run over several devices, by `Engine.on_mesh`), `freezes` (programs have a form
    in which variables are constants, by `Engine.repeated`)."""
    table: Table
    around: ClassVar[tuple[Callable[[], Any], Callable[[Any], Any], Any] | None] = None
    """The function that reads a state of the process, the one that sets it, and the state in which
    programs run. An emitted program does that in its own text, because one more function around a
    small program would slow it down."""

    def constant(self, value: Any, dtype: str | None = None) -> Value:
        """The value of a constant inside a program, an array; or, with a dtype, that of a result of
        host computations with sizes, an int or a small array. By default `from_numpy` makes it.
        """
        return self.from_numpy(np.asarray(value, dtype))

    def key(self, source: KeySource) -> Value:
        """The next key of a source; in a trace, a key that is drawn anew at each run."""
        return self.from_numpy(source.draw())

    def has_kernels(self, options: Mapping[str, Any]) -> bool:
        """Whether such programs may call lowerings of loops. Else the loops are written out."""
        return True

    def blocks(self) -> Blocks:
        """The functions that loops over blocks of large arrays call (capability `blocks`)."""
        raise NotImplementedError

    def compile(self, program: Program) -> Function:
        """Turn an emitted program into the callable that `K.function` runs. It takes and returns
        native values. The default is the emitted function itself.
        """
        return program.function

    def repeated(self, run: Function) -> Function:
        """A compiled program as one function calls it again and again. An engine may have another
        form of it for inputs that stay the same (capability `freezes`). By default it is `run`.
        """
        return run

    def eager(self, program: Program) -> Function:
        """The callable that runs a program at once on users' native values. Their tape or tracer
        must see every step. By default it is the emitted function itself.
        """
        return program.function

    def callable(self, graph: Graph) -> Function:
        """A function over engine values that evaluates a closed graph, such as a loop's body."""
        return HOOKS["callable_of"](graph, self)
