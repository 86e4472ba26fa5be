"""The table of an engine, and helpers that several engines' tables share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, NamedTuple

from backplane.core.spec import Spec

Value = Any
"""A value of an engine: ndarray, jax.Array, torch.Tensor, tf.Tensor, a PyTensor variable, …"""

Lowering = Callable[..., Any]

Ints = tuple[int, ...]
Axes = tuple[int, ...]
Shape = tuple[int | None, ...]
"""Of a parameter: None stands for a size that an operand gives."""
Slices = tuple[tuple[int | None, int | None, int], ...]
"""(start, stop, step) for each axis."""


class Entry(NamedTuple):
    """One entry of a table: a lowering, and what is special about it in this library.

    The facts that hold for a primitive on every engine are traits of its declaration. The facts
    here say what only this library's function does.

    Attributes:
        function: The lowering, which is called with the operands and the parameters.
        reads: The positions of the operands that the lowering uses; None for all of them.
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
        order: Called with the spec of the second operand, such as the kernel of a convolution. The
            axes of that operand in the order in memory in which the library reads them fastest, or
            None. Initial values of variables are laid out so.
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
    order: Callable[[Spec], Sequence[int] | None] | None = None
    unless: Callable[..., bool] | None = None

    def serves(self, specs: Sequence[Spec], params: Mapping[str, Any]) -> bool:
        """Whether the lowering takes operands of these specs."""
        return self.unless is None or not self.unless(specs, **params)

    def lowering(self, specs: Sequence[Spec], params: Mapping[str, Any]) -> Lowering:
        """The function of the operands alone, for operands of these specs."""
        if self.builds:
            built: Lowering = self.function(specs, **params)
            return built
        return partial(self.function, **params) if params else self.function


NOTHING: Mapping[Any, Any] = {}


def element_count(spec: Spec) -> int:
    """The number of elements of a tensor; 0 if a size is not known."""
    return math.prod([n or 0 for n in spec.shape])


ROOMS = (
    "elementwise", "reductions", "groups", "linear", "shaping", "indexing", "convolution",
    "factorizations", "pooling", "random",
)  # fmt: skip
"""The modules of an engine's folder that hold lowerings, one per theme, each in its `TABLE`. If a
library has none of its own for a theme, the module is missing."""


NUMPYS_NAMES = {
    **{
        name: name
        for name in (
            "abs", "sign", "exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tanh", "add",
            "maximum", "minimum", "equal", "not_equal", "less", "less_equal", "logical_not",
            "logical_and", "logical_or",
        )
    },
    "neg": "negative", "sub": "subtract", "mul": "multiply", "div": "divide",
    "floordiv": "floor_divide", "mod": "remainder", "pow": "power", "bit_and": "bitwise_and",
    "bit_or": "bitwise_or", "bit_xor": "bitwise_xor", "shift_left": "left_shift",
    "shift_right": "right_shift",
}  # fmt: skip
"""Element-wise primitives whose lowering in a library that follows NumPy is one function, and its
name there."""


class Table(dict[str, Entry]):
    """Lowerings, by the names of their primitives.

    Every room of an engine has one. Functions of the library that serve as they are stand in the
    constructor, and decorators add the others. `joined` makes one table of all rooms.

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
    def like_numpy(
        cls, library: ModuleType, facts: Mapping[str, Any] = NOTHING, /, **functions: Lowering
    ) -> Table:
        """A table of the functions of a library that have `NUMPYS_NAMES`, and of others."""
        entries = {name: getattr(library, theirs) for name, theirs in NUMPYS_NAMES.items()}
        return cls(facts, **{**entries, **functions})

    @classmethod
    def of_rooms(cls, folder: str, *more: Mapping[str, Entry]) -> Table:
        """The lowerings of all `ROOMS` in an engine's folder, and `more`."""
        names = [f"{folder}.{room}" for room in ROOMS]
        rooms = [import_module(name).TABLE for name in names if find_spec(name)]
        return cls.joined(*rooms, *more)

    @classmethod
    def joined(cls, *rooms: Mapping[str, Entry]) -> Table:
        """One table with the entries of several. ValueError if two have the same primitive."""
        table = cls()
        for room in rooms:
            if twice := sorted(table.keys() & room.keys()):
                raise ValueError(f"two tables of one engine have {', '.join(twice)}")
            table.update(room)
        return table

    def wrapped(self, wrap: Callable[[Sequence[Spec], Lowering], Lowering]) -> Table:
        """The same table with `wrap(specs, lowering)` in the place of every lowering."""

        def around(entry: Entry) -> Entry:
            def build(specs: Sequence[Spec], **params: Any) -> Lowering:
                return wrap(specs, entry.lowering(specs, params))

            return entry._replace(function=build, builds=True)

        table = Table()
        table.update({name: around(entry) for name, entry in self.items()})
        return table

    def add(self, *names: str, **facts: Any) -> Callable[[Lowering], Lowering]:
        """Decorator: register a lowering for the primitives `names`, with facts of an `Entry`."""

        def register(function: Lowering) -> Lowering:
            self.update(dict.fromkeys(names, Entry(function, **facts)))
            return function

        return register

    def build(self, *names: str, **facts: Any) -> Callable[[Lowering], Lowering]:
        """Decorator: register `function(specs, **parameters) -> lowering` (see `Entry.builds`)."""
        return self.add(*names, builds=True, **facts)


def in_wider(
    cast: Callable[[Value, Any], Value], wider: Mapping[Any, Any], function: Lowering
) -> Lowering:
    """`function`, computed in a wider dtype where `wider` names one for that of the operands."""

    def lowering(*xs: Value, **params: object) -> Value:
        dtype = xs[0].dtype
        if dtype not in wider:
            return function(*xs, **params)
        return cast(function(*[cast(x, wider[dtype]) for x in xs], **params), dtype)

    return lowering


ADDED_SINGLY = 4096
"""Up to so many float32 are simply added up one after the other. The error grows with their number:
a million times 0.1, added one by one, is 100,958."""
SEVERAL = 256
"""Elements from which on there may be many, if the size of another axis is not known."""


def even_part(count: int, most: int = 1024) -> int:
    """The largest divisor of `count` up to `most`: so many elements are added up at once, and then
    these sums. 0 if there is none worth it.
    """
    return next((n for n in range(min(most, count), 7, -1) if count % n == 0), 0)


def index_of(slices: Slices) -> tuple[slice, ...]:
    """The index that slices make."""
    return tuple([slice(*s) for s in slices])


def reversing(rank: int, axes: Axes) -> tuple[slice, ...]:
    """The index that reads the elements along some axes in reverse."""
    return tuple([slice(None, None, -1 if i in axes else None) for i in range(rank)])


def window_at(
    starts: Sequence[int], sizes: Sequence[int], part: Sequence[int]
) -> tuple[slice, ...]:
    """The index of `part` elements from `starts` on, which are moved to lie inside of `sizes`."""
    firsts = [max(0, min(start, n - m)) for start, n, m in zip(starts, sizes, part, strict=True)]
    return tuple([slice(first, first + m) for first, m in zip(firsts, part, strict=True)])


def runs_of(axes: Axes) -> list[Axes]:
    """Axes as runs of neighbours."""
    starts = [i for i, axis in enumerate(axes) if axis - 1 not in axes]
    return [axes[i:j] for i, j in zip(starts, [*starts[1:], len(axes)], strict=True)]


def knowing_shapes(
    function: Lowering,
    specs: Sequence[Spec],
    results: Sequence[Spec] | None,
    known: Callable[[Value, Shape], Value],
) -> Lowering:
    """A library's function between values that have the static shapes of `specs`, and of `results`
    if these are given; `known` gives a value of the library a static shape.
    """

    def told(values: Sequence[Value], all_of: Sequence[Spec]) -> list[Value]:
        return [known(x, spec.shape) for x, spec in zip(values, all_of, strict=True)]

    def run(*operands: Value) -> list[Value]:
        outputs = function(*told(operands, specs))
        return outputs if results is None else told(outputs, results)

    return run


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


def barrier(x: Value, *after: Value) -> Value:
    """The lowering of `barrier` for engines that run operations in their order: `x` itself."""
    return x


def check_windows(x: Value, *, sizes: Sequence[int]) -> Value:
    """The lowering of `check_windows` for engines with `host_shapes`."""
    if any(isinstance(n, int) and n < size for n, size in zip(x.shape, sizes, strict=True)):
        raise ValueError(f"windows need {tuple(sizes)} elements, got shape {tuple(x.shape)}")
    return x
