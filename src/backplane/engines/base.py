"""What an engine is: a table of lowerings, conversions, a compile hook, and its capabilities.

An engine module defines one subclass of `Engine` and exports an instance as `ENGINE`. The names of
the primitives, their operands and parameters are listed in `docs/primitives.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from backplane.core.graph import Graph, KeySource
from backplane.core.spec import Spec

Value = Any
"""A value of an engine: ndarray, jax.Array, torch.Tensor, tf.Tensor, a PyTensor variable, …"""

Lowering = Callable[..., Any]


class Entry(NamedTuple):
    """One line of a table: a lowering, and what is special about it in this library.

    What holds for a primitive on every engine is a trait of its declaration. These facts add what
    only this library's function can do.

    Attributes:
        function: The lowering. It is called with the operands and the parameters.
        reads: The operands that the lowering uses. None: all of them.
        builds: `function` is called once, while a program is emitted, with the list of the
            operands' `Spec`s (sizes may be None) and the parameters. It returns the lowering, which
            takes the operands only: the place for work that need not be repeated at each call.
        wanted: A lowering of several outputs takes a keyword `wanted`: a tuple of bools that says
            which outputs anyone reads.
        out: The number of passes over memory that the lowering takes, where it also takes a keyword
            `out`: an array to write the result to, which may be one of the operands. For
            element-wise lowerings whose result always has memory of its own.
        into: The lowering takes `out` too, but an array apart from all operands, as a product does.
        over: The same function for floats with one operand, to which it writes the result. It is
            quicker than `out`.
        view: The result is a view of the first operand, whatever that is.
        steady: Prepares a product in which all steps of a loop read the same matrix. Called with
            the specs and the parameters, it returns a function from that second operand to the
            lowering of the first, or None.
        unless: Called with the operands' specs and the parameters. Where it returns True, the
            decomposition serves instead, because the kernel lacks the dtype or is slower.
    """

    function: Lowering
    reads: tuple[int, ...] | None = None
    builds: bool = False
    wanted: bool = False
    out: int = 0
    over: Lowering | None = None
    into: bool = False
    view: bool = False
    steady: Callable[..., Callable[[Value], Lowering] | None] | None = None
    unless: Callable[..., bool] | None = None


NOTHING: Mapping[Any, Any] = {}


class Table(dict[str, Entry]):
    """Lowerings by the names of their primitives.

    Every room of an engine has one. Functions of the library that are lowerings as they are stand
    in the constructor; decorators add the others. `joined` makes the engine's table of all rooms.

        TABLE = Table(tanh=np.tanh, add=np.add)
        TABLE = Table({"out": 1}, tanh=np.tanh, add=np.add)  # with a fact that holds for all

        @TABLE.add("flip")
        def _flip(x, *, axes): ...

        @TABLE.build("round")
        def _round(specs): return np.rint if is_float(specs[0].dtype) else np.positive
    """

    def __init__(self, facts: Mapping[str, Any] = NOTHING, /, **functions: Lowering) -> None:
        super().__init__({name: Entry(f, **facts) for name, f in functions.items()})

    @classmethod
    def joined(cls, *rooms: Mapping[str, Entry]) -> Table:
        """The entries of several tables in one.

        Raises:
            ValueError: if two of them have the same primitive.
        """
        table = cls()
        for room in rooms:
            if twice := sorted(table.keys() & room.keys()):
                raise ValueError(f"two tables of one engine have {', '.join(twice)}")
            table.update(room)
        return table

    def add(self, *names: str, **facts: Any) -> Callable[[Lowering], Lowering]:
        """Decorator: register a lowering for the primitives `names`, with facts of `Entry`."""

        def register(function: Lowering) -> Lowering:
            self.update(dict.fromkeys(names, Entry(function, **facts)))
            return function

        return register

    def build(self, *names: str, **facts: Any) -> Callable[[Lowering], Lowering]:
        """Decorator: register `function(specs, **parameters) -> lowering` (see `Entry.builds`)."""
        return self.add(*names, builds=True, **facts)


ADDED_SINGLY = 4096
"""So many float32 at most are added up one after the other without thought: one by one, a million
times 0.1 is 100,958."""


class Program(NamedTuple):
    """An emitted program: straight-line Python over an engine's table.

    `function(*inputs)` takes and returns engine values: placeholders and lifted constants, then
    variables; it returns a tuple: the new values of the updated variables, in the order of the
    variables, then the outputs.
    `inputs` and `outputs` are their specs in that order. `state` says which inputs are variables
    that the program replaces (input position → output position), so that their buffers may be
    donated.
    """

    function: Callable[..., tuple[Value, ...]]
    inputs: Sequence[Spec]
    outputs: Sequence[Spec]
    state: Mapping[int, int] = NOTHING
    dtypes: frozenset[str] = frozenset()
    """All dtypes that occur in it, those of intermediate values and of loop bodies included."""
    operations: Sequence[str] = ()
    """The primitives that it runs, in their order, but for those inside loops and branches."""
    lowerings: Sequence[Lowering] = ()
    """The functions that its text calls."""
    source: str = ""
    sizes_from_values: bool = False
    """Whether the size of a tensor is taken from the value of another: while such a program is
    traced for given shapes, that size is not known."""
    reads_variables: bool = False
    """Whether inputs are variables, which other programs may replace while this one is called."""
    options: Mapping[str, Any] = NOTHING
    """Wishes of the caller that only some engines know (`compile=True` for torch). `once` is for
    engines with that capability: the program is likely to run a few times only."""


class Blocks(NamedTuple):
    """What the text of a chain of element-wise operations calls beside lowerings
    (`compile.codegen.tiling`).
    """

    empty: Callable[[tuple[int, ...], str], Value]
    """An array of a shape and dtype, of any content."""
    rooms: Callable[[], Any]
    """An object whose function `empty` gives arrays again that nobody refers to any more."""
    flat: Callable[..., Sequence[Value]]
    """The arrays as vectors if all of them are contiguous, else as they are."""
    size: Callable[[Value], int]
    rows: Callable[[Value, int], int]
    """How many rows of an array make a block of so many elements: one at least."""
    reduced: Mapping[str, Callable[[Value], Value]]
    """Reductions of all elements, by primitive; `mean` adds up."""
    combined: Callable[[str, Sequence[Value], Value, str], Value]
    """The reduction `name` of an array from those of its blocks, for a dtype."""


class Engine:
    """Base of all engines. Importing an engine's module may import its library; nothing else
    may.
    """

    name: ClassVar[str]
    """Canonical name: `numpy`, `tensorflow`, `jax`, `torch`, `theano`, `cntk`, `mlx`."""
    library: ClassVar[str]
    """The top-level module of the library, used to recognise its values without importing it."""
    capabilities: ClassVar[frozenset[str]] = frozenset()
    """Any of: `host_shapes` (sizes are ints while a program runs or is traced), `float16`,
    `bfloat16`, `unsigned` (uint16 … uint64 arithmetic), `eager` (lowerings run on values at once),
    `out` (values are NumPy arrays, and lowerings write to an array that they are given),
    `blocks` (large arrays are computed in blocks, by what `Engine.blocks` offers), `steps` (loops
    run in Python, by `Engine.steps`, over lowerings that take `out`),
    `static` (a program is compiled anew for each set of input shapes), `sparse`, `tape` (the
    library differentiates through eager calls), `once` (what is evaluated once need not be
    compiled as a whole), `unchecked` (an index out of range stops no program: `gather` gives
    NaN), `fuses` (element-wise operations on a large result cost nothing: the compiler computes
    them with it)."""
    index_errors: ClassVar[tuple[type[Exception], ...]] = (IndexError,)
    """What `gather` raises for an index that is out of range."""
    takes_arrays: ClassVar[bool] = False
    """Whether compiled programs take NumPy arrays as they are: `feed` returns its argument."""
    gives_arrays: ClassVar[bool] = False
    """Whether results with axes are NumPy arrays: `fetch` returns its argument."""
    feeds_at_once: ClassVar[tuple[str, Callable[[np.ndarray], Value]] | None] = None
    """A condition over `{x}`, and what feeds an array of the right dtype for which it holds: the
    same as `feed`, without a function of ours around the library's."""
    around: ClassVar[tuple[Callable[[], Any], Callable[[Any], Any]] | None] = None
    """What emitted programs call first, and at their end with what that gave: in their own text,
    because one more function around a small program would be felt."""
    holds_arrays: ClassVar[bool] = False
    """Whether arrays of native byte order are values as they are: `from_numpy` returns its
    argument."""
    table: Table

    # --- values ---------------------------------------------------------------------------------

    def owns(self, value: object) -> bool:
        """Whether `value` is a tensor of this engine."""
        raise NotImplementedError

    def spec_of(self, value: Value) -> Spec:
        """Shape (None for sizes unknown while tracing) and dtype name of a native value."""
        raise NotImplementedError

    def signature(self, kind: type) -> tuple[str, ...]:
        """How to tell quickly whether two values of exactly this type have one spec: expressions
        over `{x}`, hashable, that are equal only then. Without any, `spec_of` serves.
        """
        return ()

    def is_symbolic(self, value: Value) -> bool:
        """Whether `value` stands for one that is computed later, on an engine without `eager`:
        calls on it add to the library's own graph.
        """
        return False

    def is_tracing(self) -> bool:
        """Whether the library is tracing a function just now, to run it later or many times."""
        return False

    def traced_sizes(self, value: Value) -> np.ndarray | None:
        """The sizes of a value that the library traces, on an engine in whose traces a computed
        number can be no size any more; None everywhere else.
        """
        return None

    def from_numpy(self, array: np.ndarray, dtype: str | None = None) -> Value:
        """A native value with the array's content (cast to `dtype`), independent of its memory
        where the engine may later write to it.
        """
        raise NotImplementedError

    def key(self, source: KeySource) -> Value:
        """The next key of a source. Where the library traces a program that is to run many times,
        one that is drawn at each run.
        """
        return self.from_numpy(source.draw())

    def to_numpy(self, value: Value) -> np.ndarray:
        """The content as a NumPy array that the caller may keep."""
        raise NotImplementedError

    def constant(self, array: np.ndarray) -> Value:
        """The value of a constant inside a program: by default as `from_numpy` makes it."""
        return self.from_numpy(array)

    def from_host(self, value: Any, dtype: str) -> Value:
        """What is computed from sizes, an int or a small array, as a value inside a program."""
        return self.constant(np.asarray(value, dtype))

    def feed(self, array: np.ndarray) -> Value:
        """What a compiled program takes for an input of exactly the right dtype: by default as
        `from_numpy` makes it. The program only reads it during the call, so memory may be shared;
        engines whose programs take NumPy arrays return it as it is.
        """
        return self.from_numpy(array)

    def fetch(self, value: Value) -> np.ndarray:
        """A result of a compiled program as a NumPy array. It may share memory with the result,
        which nobody else uses.
        """
        return self.to_numpy(value)

    def fetching(self, spec: Spec) -> Callable[[Value], np.ndarray]:
        """What fetches results of this spec: the library's own function, where that does for all of
        them what `fetch` does.
        """
        return self.fetch

    def detached(self, value: Value) -> Value:
        """A user's value as a compiled program takes it: not followed by the library's tape."""
        return value

    def lend(self, value: Value) -> Value:
        """A variable's value as users may keep it: a copy where programs reuse its memory."""
        return value

    def current(self, value: Value) -> Value:
        """What a variable's value has become: itself, but where a program has taken its memory for
        the new value, and an interrupt kept that from being stored.
        """
        return value

    def wait(self, values: Sequence[Value]) -> None:
        """Return when `values` are computed: for engines that compute while Python goes on, and
        read fed arrays meanwhile.
        """

    # --- programs -------------------------------------------------------------------------------

    def updates_in_place(self, options: Mapping[str, Any]) -> bool:
        """Whether steps of optimizers in a program with these options are replaced by primitives
        that may write over the variables: the values that its programs return then must be known
        to `lend`, and not be written over by a later call if they are in another memory's view.
        """
        return False

    def blocks(self) -> Blocks:
        """What loops over blocks of large arrays call (capability `blocks`)."""
        raise NotImplementedError

    def writes(self, options: Mapping[str, Any]) -> bool:
        """Whether compiled programs with these options write to memory that they have made, by
        lowerings that take `out`, on an engine where not all programs do (capability `out`).
        """
        return False

    def compile(self, program: Program) -> Callable[..., tuple[Value, ...]]:
        """Turn an emitted program into the callable that `K.function` runs, native values in and
        out. The default is the emitted function itself.
        """
        return program.function

    def eager(self, program: Program) -> Callable[..., tuple[Value, ...]]:
        """What runs a program at once on users' native values, whose tape or tracer must see every
        step: by default the emitted function itself.
        """
        return program.function

    def callable(self, graph: Graph) -> Callable[..., tuple[Value, ...]]:
        """A function over engine values that evaluates a closed graph: loop bodies, branches,
        decompositions. Set up by `compile.codegen`, so that engines need not import it.
        """
        return _emitter(graph, self)

    def steps(self, body: Graph, carry: int, xs: int) -> Steps:
        """The steps of a scan, for engines whose loops run in Python over values that can be
        written to: they write to memory that is kept from step to step, and to the rows of the
        stacks.
        """
        return _stepper(body, self, carry, xs)


class Stack(NamedTuple):
    """Results of all steps that lie in one array: those of the body's output number `output`. If
    they are a state's, and the states before the steps are results too, `state` is its number: the
    array has one row more, and begins with the state's start.
    """

    output: int
    state: int | None = None


class Steps(NamedTuple):
    """A loop's body as functions of single steps.

    `make(*constants)` gives two functions for one run of the loop: `first(*states, *rows)` computes
    the body's outputs; `later(*states, *rows, *places)` only returns the next states, and writes
    to `places`, one for each of `stacks`.
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


_emitter: Callable[[Graph, Engine], Callable[..., tuple[Value, ...]]] = _not_installed
_stepper: Callable[[Graph, Engine, int, int], Steps] = _not_installed


def set_emitter(
    emitter: Callable[[Graph, Engine], Callable[..., tuple[Value, ...]]],
    stepper: Callable[[Graph, Engine, int, int], Steps],
) -> None:
    """Install the functions that turn closed graphs into callables (`compile.codegen`)."""
    global _emitter, _stepper
    _emitter, _stepper = emitter, stepper


Line = tuple[str, int]
"""A line of an emitted program: its file name and number."""


def located(
    run: Callable[..., Any], failing_line: Callable[[BaseException], Line | None]
) -> Callable[..., Any]:
    """A compiled program that can tell which emitted line an error comes from.

    For engines that run a graph of their own: there, no traceback passes through the program.
    """
    run.failing_line = failing_line  # type: ignore[attr-defined]
    return run


# --- helpers that several tables share -----------------------------------------------------------


def merge(shape: Sequence[int | None], dims: Sequence[Value]) -> tuple[Value, ...]:
    """Fill each None of `shape`, in order, with one of `dims`."""
    if not dims:
        return tuple(shape)
    given = iter(dims)
    return tuple(next(given) if size is None else size for size in shape)


def host_shape(shape: Sequence[int | None], dims: Sequence[Value]) -> tuple[int, ...]:
    """`merge` for engines with `host_shapes`: all sizes as Python ints."""
    if not dims:
        return tuple(shape)  # type: ignore[arg-type]
    return tuple(int(size) for size in merge(shape, dims))


def check_windows(x: Value, *, sizes: Sequence[int]) -> Value:
    """The lowering of `check_windows` for engines with `host_shapes`."""
    if any(isinstance(n, int) and n < size for n, size in zip(x.shape, sizes, strict=True)):
        raise ValueError(f"windows need {tuple(sizes)} elements, got shape {tuple(x.shape)}")
    return x
