"""The interface of an engine: a table of lowerings (`engines.table`), conversions, a compile hook,
and its capabilities.

An engine module defines one subclass of `Engine` and exports an instance as `ENGINE`. The names of
the primitives, their operands and parameters are listed in `docs/primitives.md`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from backplane.core.atomic import Calls, at_once
from backplane.core.graph import Graph, KeySource, Tensor
from backplane.core.mesh import Layout, Mesh
from backplane.core.native import SIZES, Native
from backplane.core.sparse import SparseTensor
from backplane.core.spec import Spec
from backplane.core.variable import Block
from backplane.engines.programs import Function, Program
from backplane.engines.table import NOTHING, Ints, Lowering, Table, Value

Read = Callable[[Sequence[slice]], np.ndarray]
"""Reads the part of a value that a slice for each axis gives."""


class Blocks(NamedTuple):
    """The functions that the text of a chain of element-wise operations calls besides lowerings
    (`compile.codegen.tiling`).
    """

    empty: Callable[[tuple[int, ...], str], Value]
    """An array of a shape and dtype, of any content."""
    recycler: Callable[[], Any]
    """An object whose function `empty` gives arrays again that nobody refers to any more."""
    flat: Callable[..., Sequence[Value]]
    """The arrays as vectors if all of them are contiguous, else as they are."""
    size: Callable[[Value], int]
    rows: Callable[[Value, int], int]
    """The number of rows of an array that make a block of so many elements: at least one."""
    reduced: Mapping[str, Callable[[Value], Value]]
    """Reductions of all elements, by primitive; `mean` adds up."""
    combined: Callable[[str, Sequence[Value], Value, str], Value]
    """The reduction `name` of an array from those of its blocks, for a dtype."""


class Engine:
    """The base of all engines. Only importing an engine's module may import its library."""

    name: ClassVar[str]
    """Canonical name, as in `known_engines`."""
    library: ClassVar[str]
    """The top-level module of the library, used to recognise its values without importing it."""
    native_types: ClassVar[tuple[type, ...]]
    """The classes of the library's tensors."""
    hashable: ClassVar[tuple[str, ...]] = ()
    """The results of `signature` for all types."""
    capabilities: ClassVar[frozenset[str]] = frozenset()
    """Any of: `host_shapes` (sizes are ints while a program runs or is traced), `unsigned`
    (arithmetic of uint16 … uint64), `eager` (lowerings run on values at once), `out` (values are
    NumPy arrays, and lowerings write to an array that they are given), `blocks` (large arrays are
    computed in blocks, by the functions of `Engine.blocks`), `steps` (loops run in Python, by
    `Engine.steps`, over lowerings that take `out`), `static` (a program is compiled anew for each
    set of input shapes), `once` (a computation that runs once need not be compiled as a whole),
    `unchecked` (an index out of range does not stop a program: `gather` gives NaN), `fuses` (the
    compiler computes element-wise operations together with the large result that they follow, so
    they cost nothing), `lazy` (a program builds a graph of the library, which chooses the order),
    `mesh` (programs run over several devices, by `Engine.on_mesh`), `freezes` (programs have a form
    in which variables are constants, by `Engine.repeated`)."""
    missing_dtypes: ClassVar[frozenset[str]] = frozenset()
    """Dtypes that the library does not compute in: programs with them are refused."""
    index_errors: ClassVar[tuple[type[Exception], ...]] = (IndexError,)
    """The errors that `gather` raises for an index out of range."""
    shortage: ClassVar[str] = "out of memory"
    """A pattern that the library's errors match when there is too little memory."""
    largest_size: ClassVar[int] = 2**63 - 1
    """The largest size of an axis."""
    first_size = staticmethod(len)
    """Gives the size of the first axis of a value that a program is fed."""
    takes_arrays: ClassVar[bool] = False
    """Whether compiled programs take NumPy arrays as they are, so that `feed` returns its argument.
    """
    gives_arrays: ClassVar[bool] = False
    """Whether results with axes are NumPy arrays, so that `fetch` returns its argument."""
    feeds_at_once: ClassVar[tuple[str, Callable[[np.ndarray], Value]] | None] = None
    """A condition over `{x}`, and a function of the library. If an array of the right dtype meets
    the condition, the function feeds it, as `feed` would. That saves one call of Python."""
    around: ClassVar[tuple[Callable[[], Any], Callable[[Any], Any], Any] | None] = None
    """The function that reads a state of the process, the one that sets it, and the state in which
    programs run. An emitted program does that in its own text, because one more function around a
    small program would slow it down."""
    names_dtypes: ClassVar[bool] = True
    """Whether a dtype of the library tells its name, as `str(dtype)` or `dtype.name`."""
    holds_arrays: ClassVar[bool] = False
    """Whether arrays of native byte order are values as they are, so that `from_numpy` returns its
    argument."""
    writes_over: ClassVar[bool] = False
    """Whether programs may write new values of variables over the old ones, or take their memory.
    Then nobody may read the variables meanwhile."""
    table: Table
    device: str | None = None
    """The device that programs run on; None for the engine itself (`on_device`)."""
    mesh: Mesh | None = None
    """The mesh of devices that programs run over; None for the engine itself (`on_mesh`)."""

    # --- values ---------------------------------------------------------------------------------

    def owns(self, value: object) -> bool:
        """Whether `value` is a tensor of this engine."""
        return isinstance(value, self.native_types)

    def spec_of(self, value: Value) -> Spec:
        """The shape and the name of the dtype of a native value. A size that is unknown while the
        library traces is None.
        """
        raise NotImplementedError

    def present_spec(self, value: Value) -> Spec:
        """The spec with the sizes of the moment, where `spec_of` leaves sizes open that the library
        could keep open while it traces.
        """
        return self.spec_of(value)

    def signature(self, kind: type) -> tuple[str, ...]:
        """Expressions over `{x}` with hashable values. They are equal for two values of exactly
        this type only if these have the same spec, and tell that quickly. If there are none,
        `spec_of` serves.
        """
        return self.hashable

    def is_symbolic(self, value: Value) -> bool:
        """Whether `value` stands for a value that is computed later, on an engine without `eager`.
        Calls on it add to the library's own graph.
        """
        return False

    def is_tracing(self) -> bool:
        """Whether the library is tracing a function at the moment, to run it later or many
        times.
        """
        return False

    def traced_sizes(self, value: Value) -> np.ndarray | None:
        """The sizes of a value that the library traces, on an engine whose traces accept no
        computed number as a size; None everywhere else.
        """
        return None

    def known_sizes(self, value: Value) -> np.ndarray | None:
        """The numbers of an array or native value that may be a shape, while such an engine
        (`traced_sizes`) traces; None everywhere else.
        """
        return None

    def from_numpy(self, array: np.ndarray, dtype: str | None = None) -> Value:
        """A native value with the array's content, cast to `dtype`. If the engine may later write
        to the value, it does not share the array's memory.
        """
        raise NotImplementedError

    def key(self, source: KeySource) -> Value:
        """The next key of a source. While the library traces a program that is to run many times,
        it is a key that is drawn anew at each run.
        """
        return self.from_numpy(source.draw())

    def to_numpy(self, value: Value) -> np.ndarray:
        """The content as a NumPy array that the caller may keep."""
        raise NotImplementedError

    def constant(self, array: np.ndarray) -> Value:
        """The value of a constant inside a program. By default `from_numpy` makes it."""
        return self.from_numpy(array)

    def from_host(self, value: Any, dtype: str) -> Value:
        """A result of host computations with sizes, an int or a small array, as a value inside a
        program.
        """
        return self.constant(np.asarray(value, dtype))

    def feed(self, array: np.ndarray) -> Value:
        """The value that a compiled program takes for an input, given an array of exactly the right
        dtype. By default `from_numpy` makes it. The program reads it only during the call, so the
        memory may be shared. Engines whose programs take NumPy arrays return the array as it is.
        """
        return self.from_numpy(array)

    def fetch(self, value: Value) -> np.ndarray:
        """A result of a compiled program as a NumPy array. The array may share memory with the
        result, which nobody else uses.
        """
        return self.to_numpy(value)

    def fetching(self, spec: Spec) -> Callable[[Value], np.ndarray]:
        """The function that fetches results of this spec: the library's own one, if it does for all
        of them what `fetch` does.
        """
        return self.fetch

    def detached(self, value: Value) -> Value:
        """A user's value as a compiled program takes it: the library's tape does not follow it."""
        return value

    def lend(self, value: Value) -> Value:
        """A variable's value as users may keep it: a copy, if programs reuse its memory."""
        return value

    def apart(self, value: Value, borrowed: Sequence[Value]) -> Value:
        """A result as users may write to it: a copy, if it has the memory of the values of
        variables. Here: for libraries whose values nobody writes to.
        """
        return value

    def copied(self, value: Value) -> Value:
        """A value in memory of its own, if users can write to values of the library. Here: for
        libraries whose values nobody writes to.
        """
        return value

    def holds(self, dtype: str) -> bool:
        """Whether the library itself keeps values of that dtype as they are, at the moment."""
        return True

    def has_value(self, value: Value) -> bool:
        """Whether the numbers of `value` are known now. Those of a value with which the library
        traces a function are not.
        """
        return not self.is_symbolic(value)

    def is_variable(self, value: Value) -> bool:
        """Whether `value` is a variable of the library, which `assign` can change."""
        return False

    def assign(self, variable: Value, value: Value) -> Value:
        """Give a variable of the library a new value, as the library does it: at once, or as a part
        of what it traces. Returns what the library returns for the update.
        """
        raise NotImplementedError

    def current(self, value: Value) -> Value:
        """The present value of a variable: normally the value itself. If a program took its memory
        for the new value, and an interrupt kept that from being stored, it is the new value.
        """
        return value

    def wait(self, values: Sequence[Value]) -> None:
        """Return when `values` are computed. Engines that compute while Python goes on, and read
        fed arrays meanwhile, need this.
        """

    def yield_to(self, kind: type) -> None:
        """Let operators of the library's values leave operands of a class to the operators of that
        class, as Python's data model has it. Most libraries do so by themselves.
        """

    def bad_numbers(self, error: BaseException) -> tuple[bool, bool]:
        """Whether there was NaN, and whether there was an infinite number, according to the error
        that a failing `check_numerics` raised.
        """
        found = (re.search(r"\bha[sd] (Inf and NaN|Inf|NaN)", str(error)) or ("", ""))[1]
        return "NaN" in found, "Inf" in found

    def devices(self) -> list[str]:
        """The devices that the library can compute on, such as `cpu:0` or `gpu:1`; accelerators
        come first.
        """
        return ["cpu:0"]

    def on_device(self, name: str) -> Engine:
        """The engine whose programs run on one of its devices: the same object for the same name.
        If there is no other device, it is this engine.

        Such an engine has `device` set. It is the key of values that are there, so variables move
        when a program on the device first reads them.

        Raises:
            ValueError: if there is no such device.
        """
        known = self.devices()
        if name not in known:
            raise ValueError(
                f"the engine {self.name!r} has no device {name!r}; there are {', '.join(known)}"
            )
        if len(known) == 1:
            return self
        engines: dict[str, Engine] = self.__dict__.setdefault("_on_device", {})
        if name not in engines:
            engines[name] = self.with_device(name)
        return engines[name]

    def with_device(self, name: str) -> Engine:
        """A new engine for one of several devices (`engines.placement` helps)."""
        raise NotImplementedError(f"the engine {self.name!r} chooses its devices by itself")

    def prefer_accelerator(self) -> None:
        """Compute on an accelerator where the library would choose the CPU by itself: the backends
        of Keras 3 do so. Most libraries do it anyway.
        """

    # --- meshes of devices ----------------------------------------------------------------------

    def on_mesh(self, mesh: Mesh) -> Engine:
        """The engine whose programs run over the devices of a mesh: the same object for the same
        mesh. On a single device it is this engine.

        Such an engine has `mesh` set, and an entry `shard` in its table. It is the key of values
        that lie on the mesh, so variables move there when a program on the mesh first reads them.
        All its values are tensors over the whole mesh. `from_numpy` and `feed` give every device
        the whole array, `placed` splits it, and `to_numpy` and `fetch` put the parts together.

        Raises:
            ValueError: if the library cannot do that, or has too few devices.
        """
        if mesh.size == 1:
            return self
        engines: dict[Mesh, Engine] = self.__dict__.setdefault("_on_mesh", {})
        if mesh not in engines:
            engines[mesh] = self.with_mesh(mesh)
        return engines[mesh]

    def mesh_devices(self) -> list[str]:
        """The devices of which a mesh can be made, in their order: those of all processes."""
        return self.devices()

    def connect(self, address: str | None, count: int | None, index: int | None) -> int:
        """Connect the processes of a mesh; their number. `address` is that of the first process;
        what is None is told by a launcher.

        Raises:
            ValueError: if the library computes in one process.
        """
        raise ValueError(f"the engine {self.name!r} computes in one process")

    def with_mesh(self, mesh: Mesh) -> Engine:
        """A new engine for a mesh of several devices."""
        raise ValueError(
            f"K.set_mesh: the engine {self.name!r} computes on one device, and the mesh {mesh} has "
            f"{mesh.size}; choose an engine that computes on several (`backplane docs scaling`)"
        )

    def placed(self, value: Any, dtype: str, layout: Layout | None) -> Value:
        """A value with the content of `value`, an array or a value of this library, cast to
        `dtype`. On a mesh it lies in that layout; None stands for the whole on every device.
        Sizes divide.
        """
        return self.from_numpy(value, dtype)

    def adopted(self, array: np.ndarray, dtype: str, layout: Layout | None) -> Value:
        """As `placed`, for a variable's own array. The value may keep the array's memory, and steps
        of optimizers may write over it without a copy, because nobody else knows it until it is
        lent.
        """
        return self.placed(array, dtype, layout)

    def kept(self, value: Value) -> Value:
        """The value of a variable in the place where programs write over it. Others may know the
        value that is given.
        """
        return value

    def parts(self, value: Value) -> list[Block] | None:
        """The parts of a value that this process is to save, so that all processes together save
        each element once. None if this process has the whole value.
        """
        return None

    def assembled(self, read: Read, shape: Ints, dtype: str, layout: Layout) -> Value:
        """A value that lies on the mesh in a layout. Each process reads the parts of its own."""
        raise NotImplementedError(f"the engine {self.name!r} has no mesh")

    @property
    def process(self) -> int:
        """The number of this process among those that share the mesh, from 0."""
        return 0

    def everyone(self, array: np.ndarray) -> np.ndarray:
        """The rows of all processes that share the mesh, one for each. It returns when all have
        called it.
        """
        return array[None]

    def texts(self, text: str) -> list[str]:
        """The text that each process which shares the mesh gives."""
        content = np.frombuffer(text.encode(), np.uint8)
        sizes = self.everyone(np.array([content.size], np.int32))
        padded = np.zeros(max(1, sizes.max()), np.uint8)
        padded[: content.size] = content
        rows = zip(self.everyone(padded), sizes, strict=True)
        return [row[: size.item()].tobytes().decode() for row, size in rows]

    def agree(self, what: str, text: str) -> None:
        """Check that all processes that share the mesh have come here with the same text.

        Raises:
            ValueError: in all of them, if they have not.
        """
        from hashlib import sha256  # Here: most programs run in one process.

        rows = self.everyone(np.frombuffer(sha256(text.encode()).digest(), np.uint32))
        others = [i for i, row in enumerate(rows) if (row != rows[self.process]).any()]
        if others:
            raise ValueError(
                f"{what} differs between process {self.process} and process "
                f"{', '.join(map(str, others))}: all processes of a mesh run the same program"
            )

    # --- functions of the library as parts of a graph (`core.native`) ----------------------------

    stand_in_sizes: ClassVar[Ints] = SIZES
    """Stand-ins for unknown sizes. Empty if sizes may stay unknown."""
    differentiates: ClassVar[bool] = True
    """Whether there is a `pullback`."""
    calls_numpy: ClassVar[bool] = False
    """Whether the functions are those of NumPy arrays."""

    def stand_in(self, spec: Spec) -> Value:
        """A value of that spec, without a content of its own, while `abstract` runs."""
        raise NotImplementedError(f"the engine {self.name!r} takes no functions of its library")

    def abstract(self, function: Lowering, specs: Sequence[Spec]) -> tuple[list[Spec], bool]:
        """The specs of the results of a function, and whether it is seen to draw random numbers or
        to have an effect. By default the function runs on stand-ins.
        """
        return [self.spec_of(y) for y in function(*map(self.stand_in, specs))], False

    def as_value(self, result: Any) -> Value:
        """The result of a user's function, as a value."""
        if result is None:
            raise TypeError("it returns None")
        return result if self.owns(result) else self.constant(np.asarray(result))

    def sparse(self, parts: SparseTensor) -> Any:
        """The form in which functions of the library take a sparse tensor: its parts, which are
        values, if the library has none.
        """
        return parts

    def sparse_parts(self, result: Any) -> Any:
        """The parts of a sparse tensor of the library; anything else as it is."""
        return result

    def native(
        self, function: Lowering, specs: Sequence[Spec], results: Sequence[Spec] | None
    ) -> Lowering:
        """The lowering of a function of the library, from the specs of its operands and, if they
        are known, of its results.
        """
        return function

    def pullback(
        self, function: Function, operands: Sequence[Value], cotangents: Sequence[Value]
    ) -> Sequence[Value]:
        """The cotangents of the operands of a function, by the library's own differentiation."""
        raise NotImplementedError

    def sources(self, value: Value) -> Mapping[Value, Tensor]:
        """The tensors of ours from which a symbolic value was computed, by what stands for them in
        the library's own graph.
        """
        return NOTHING

    def rebuilt(self, value: Value, replace: Mapping[Value, Value]) -> Value:
        """The value, computed again from others."""
        raise NotImplementedError

    # --- programs -------------------------------------------------------------------------------

    def commit(self, calls: Calls) -> None:
        """Run the calls that a program has returned, which write over variables."""
        at_once(calls)

    def updates_in_place(self, options: Mapping[str, Any]) -> bool:
        """Whether steps of optimizers in a program with these options are replaced by primitives
        that may write over the variables. The values that such programs return must then be known
        to `lend`, and a later call must not write over them if they are views of other memory.
        """
        return False

    def has_kernels(self, options: Mapping[str, Any]) -> bool:
        """Whether programs with these options may call lowerings in the place of loops. Else the
        loops are written out.
        """
        return True

    def blocks(self) -> Blocks:
        """The functions that loops over blocks of large arrays call (capability `blocks`)."""
        raise NotImplementedError

    def writes(self, options: Mapping[str, Any]) -> bool:
        """Whether compiled programs with these options write to memory that they have made, by
        lowerings that take `out`. With the capability `out`, all programs do.
        """
        return False

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
        """A function over engine values that evaluates a closed graph, such as the body of a loop
        or a branch. `compile.codegen` sets this up, so engines need not import it.
        """
        return _emitter(graph, self)

    def steps(self, body: Graph, carry: int, xs: int) -> Steps:
        """The steps of a scan, for engines whose loops run in Python over values that can be
        written to. They write to memory that is kept from step to step, and to the rows of the
        stacks.
        """
        return _stepper(body, self, carry, xs)


class Stack(NamedTuple):
    """The results of all steps for one output of the body, number `output`, in one array. If that
    output is a state, and the states before the steps are results too, `state` is its number. The
    array then has one row more, and begins with the initial state.
    """

    output: int
    state: int | None = None


class Steps(NamedTuple):
    """A loop's body as functions of single steps.

    `make(*constants)` gives two functions for one run of the loop. `first(*states, *rows)` computes
    the body's outputs. `later(*states, *rows, *places)` returns only the next states, and writes to
    `places`, one for each of `stacks`.
    """

    make: Callable[..., tuple[Callable[..., Any], Callable[..., Any]]]
    stacks: Sequence[Stack]
    results: Sequence[tuple[int, bool]]
    """For each stacked result: which of `stacks`, and whether its rows are the states before the
    steps."""
    placed: Sequence[bool]
    """Whether a state that a step returns is the row of a stack."""


def _not_installed(*_: Any) -> Any:
    raise RuntimeError("backplane.compile has not been imported")


_emitter: Callable[[Graph, Engine], Function] = _not_installed
_stepper: Callable[[Graph, Engine, int, int], Steps] = _not_installed


def set_emitter(
    emitter: Callable[[Graph, Engine], Function],
    stepper: Callable[[Graph, Engine, int, int], Steps],
) -> None:
    """Install the functions that turn closed graphs into callables (`compile.codegen`)."""
    global _emitter, _stepper
    _emitter, _stepper = emitter, stepper


def natives(engine: Engine) -> Table:
    """The table of functions of the library, which run on their own engine only."""
    table = Table()

    @table.build("native", "stateful_native")
    def native(specs: Sequence[Spec], *, function: Native) -> Lowering:
        if function.engine.name != engine.name:
            raise TypeError(
                f"{function.name} is a function of the engine {function.engine.name!r}: a graph "
                f"that uses it cannot run on {engine.name!r}"
            )
        return engine.native(function, specs, function.results(specs))

    return table
