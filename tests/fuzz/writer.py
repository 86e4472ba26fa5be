"""Writes random programs: K code, line by line.

Every choice follows from the program's seed. Each line is run at once, for placeholders of known sizes, and computed in float64. So the writer
knows the shape and the dtype of every tensor, and keeps most values finite.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from backplane import backend as K
from backplane.core.graph import toposort
from backplane.core.spec import FLOATS, SIGNED, UNSIGNED, is_float, is_integer
from fuzz.reference import Evaluation

MOST_ELEMENTS, MOST_NODES = 3000, 600
EXTREMES = ("np.nan", "np.inf", "-np.inf", "0.0", "-0.0", "1.0", "-1.0", "1e-40", "1e-310", "3e38",
            "-3e38", "1.7e308", "65504.0", "1e-7", "88.8", "-104.0", "0.5", "2.5", "16777217.0")  # fmt: skip
LIMITS = (1024, 4096, 16384, 1 << 15, 1 << 16, 1 << 17, 1 << 19)
"""Sizes from which on some engine or pass works in another way."""


WORDS = re.compile(r"\b[a-z]\d+\b")
"""The names of tensors in a line."""


class BrokenError(Exception):
    """A line cannot be built: the last one of the program."""


@dataclass(frozen=True)
class Var:
    """A tensor of the program."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    tensor: Any

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        return self.name


@dataclass(repr=False)
class Program:
    """Lines of K code, and what they return."""

    lines: list[str] = field(default_factory=list)
    feeds: dict[str, str] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    updates: list[tuple[str, str]] = field(default_factory=list)
    values: dict[str, tuple[Any, str, Any]] = field(default_factory=dict)
    """Static shape, dtype and value of each computed tensor, for `search.shrunk`."""

    def text(self, name: str = "program") -> str:
        """A function of K that builds the program. It returns the values to be fed by placeholder,
        the outputs, and the updates.
        """
        feeds = ",\n        ".join(f"{x}: {value}" for x, value in self.feeds.items())
        updates = ", ".join(f"({v}, {new})" for v, new in self.updates)
        body = "\n    ".join(self.needed())
        fed = f"{{\n        {feeds},\n    }}" if feeds else "{}"
        return (
            f"def {name}(K):\n    {body}\n"
            f"    return {fed}, [{', '.join(self.outputs)}], [{updates}]\n"
        )

    def needed(self) -> list[str]:
        """The lines without those that nothing reads."""
        wanted = {*self.feeds, *self.outputs, *[n for pair in self.updates for n in pair]}
        kept = []
        for line in reversed(self.lines):
            name, _, value = line.partition(" = ")
            if name in wanted:
                kept.append(line)
                wanted.update(WORDS.findall(value))
        return kept[::-1]


class Writer:
    """Draws choices and writes lines."""

    def __init__(self, draw: Callable[[int], int], dtypes: Sequence[str]) -> None:
        self.below = draw
        self.program = Program()
        self.pool: list[Var] = []
        self.variables: list[Var] = []
        self.gradients: set[str] = set()
        self.operations: set[Any] = set()
        """The operations of the program."""
        self.places: dict[str, Any] = {"K": K, "np": np}
        self.known: dict[Any, Any] = {}
        self.dtypes = dtypes
        self.main = self.pick(
            ("float32", "float32", "float32", "float64", *[d for d in FLOATS if d in dtypes])
        )
        self.wild = self.chance(12)
        self.broken = BrokenError

    # --- choices ----------------------------------------------------------------------------------

    def pick(self, items: Sequence[Any]) -> Any:
        return items[self.below(len(items))]

    def chance(self, percent: int) -> bool:
        return self.below(100) >= 100 - percent

    def between(self, low: int, high: int) -> int:
        return low + self.below(high - low + 1)

    def size(self) -> int:
        return self.pick((2, 3, 1, 4, 5, 7, 2, 3, 0) if self.chance(50) else (2, 3, 4))

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        rank = self.pick((2, 1, 3, 2, 0, 4)) if rank is None else rank
        return tuple(self.size() for _ in range(rank))

    def dtype(self, kind: str) -> str:
        if kind == "bool":
            return "bool"
        if kind == "int":
            return self.pick(
                [d for d in ("int32", "int64", *SIGNED, *UNSIGNED) if d in self.dtypes]
            )
        if kind == "any":
            return self.dtype(self.pick(("float", "float", "int", "bool")))
        if kind == "number" and self.chance(25):
            return self.dtype("int")
        return self.pick([d for d in FLOATS if d in self.dtypes]) if self.chance(12) else self.main

    # --- tensors ----------------------------------------------------------------------------------

    def tensor(
        self, kind: str = "float", rank: int | None = None, where: Callable[[Var], bool] = lambda v: True,
        shape: Callable[[], tuple[int, ...]] | None = None,
    ) -> Var:  # fmt: skip
        """A tensor of the program, or a new input."""
        fitting = [
            v for v in self.pool
            if FITS[kind](v.dtype) and (rank is None or v.ndim == rank) and where(v)
        ]  # fmt: skip
        if fitting and not self.chance(7):
            i = min(self.below(len(fitting)), self.below(len(fitting)))
            return fitting[len(fitting) - 1 - i]
        return self.input(shape() if shape else self.shape(rank), self.dtype(kind))

    def beside(self, x: Var, kind: str | None = None) -> Var:
        """A tensor that can be broadcast with `x`."""
        kind = kind or _kind(x.dtype)

        def fits(v: Var) -> bool:
            try:
                return np.prod(np.broadcast_shapes(v.shape, x.shape)) <= MOST_ELEMENTS
            except ValueError:
                return False

        def new() -> tuple[int, ...]:
            cut = x.shape[self.below(x.ndim + 1) :] if self.chance(40) else x.shape
            return tuple(1 if self.chance(20) else n for n in cut)

        return self.tensor(kind, where=fits, shape=new)

    def exactly(self, shape: tuple[int, ...], kind: str = "float", dtype: str | None = None) -> Var:
        """A tensor of that shape."""
        fits = lambda v: v.shape == shape and dtype in (None, v.dtype)  # noqa: E731
        found = [v for v in self.pool if FITS[kind](v.dtype) and fits(v)]
        return (
            self.pick(found)
            if found and not self.chance(30)
            else self.input(shape, dtype or self.dtype(kind))
        )

    def weights(self, shape: tuple[int, ...], dtype: str) -> str:
        """Text of a tensor whose sizes K must know."""
        v = self.exactly(shape, "float", dtype)
        return f"{v}" if v.name[0] in "vc" else f"K.reshape({v}, {shape})"

    def input(self, shape: tuple[int, ...], dtype: str, value: str | None = None) -> Var:
        """A new placeholder, variable or constant."""
        value = value or self.values(shape, dtype)
        kind = self.pick(("x", "x", "v", "c", "x"))
        if kind == "x":
            static = tuple(None if self.chance(30) else n for n in shape)
            name = f"x{len(self.program.lines)}"
            self.program.feeds[name] = value
            self.program.lines.append(f"{name} = K.placeholder({static}, dtype={dtype!r})")
            var = self.take(name, f"K.placeholder({shape}, dtype={dtype!r})", self.array(value))
            assert var is not None
            return var
        maker = "variable" if kind == "v" else "constant"
        var = self.add(f"K.{maker}({value}, {dtype!r})", kind, self.array(value))
        assert var is not None
        if kind == "v":
            self.variables.append(var)
        return var

    def sparse(self, shape: tuple[int, int], dtype: str, value: str) -> str:
        """A new sparse placeholder, which is fed a matrix of SciPy; its name."""
        name = f"x{len(self.program.lines)}"
        static = tuple(None if self.chance(30) else n for n in shape)
        self.program.lines.append(f"{name} = K.placeholder({static}, dtype={dtype!r}, sparse=True)")
        self.program.feeds[name] = f"sparse.csr_matrix({value})"
        self.places[name] = K.placeholder(shape, dtype=dtype, sparse=True)
        self.known[self.places[name]] = self.array(value)
        return name

    def array(self, text: str) -> np.ndarray:
        with np.errstate(all="ignore"):
            found: np.ndarray = eval(text, {"np": np})
        return found

    def values(self, shape: tuple[int, ...], dtype: str) -> str:
        """Text of an array."""
        count = int(np.prod(shape))
        seed = self.below(1000)
        if is_float(dtype):
            if self.wild and 0 < count <= 30 and self.chance(60):
                common = self.pick((20, 50, 90))
                listed = ", ".join(
                    str(self.between(-32, 32) / 16) if self.chance(common) else self.pick(EXTREMES)
                    for _ in range(count)
                )
                return self.given(f"np.array([{listed}])", shape, dtype)
            made = self.pick(
                ("normal(0, 1", "normal(0, 1", "uniform(0.1, 0.9", "integers(-2, 3", "normal(0, 20")
            )
        elif dtype == "bool":
            made = "integers(0, 2"
        else:
            info = np.iinfo(dtype)
            low = 0 if info.min == 0 else -3
            made = f"integers({low}, 6"
            if self.wild:
                made = f"choice([{info.min}, {info.max}, 0, 1, 7], dtype_"
                return self.given(
                    f"np.random.default_rng({seed}).choice(np.array([{info.min}, {info.max}, 0, 1, 7], {dtype!r}), {count})",
                    shape,
                    dtype,
                )
        return f"np.random.default_rng({seed}).{made}, {shape}){_cast(dtype)}"

    def given(self, text: str, shape: tuple[int, ...], dtype: str) -> str:
        return f"{text}.reshape({shape}){_cast(dtype)}"

    def take(self, name: str, text: str, value: Any = None) -> Var | None:
        """Run a line and keep its tensor; None if it is not fit to be kept."""
        tensor = self.built(name, text)
        if tensor is None:  # a gradient of what is not connected
            return None
        shape = K.int_shape(tensor)
        if None in shape or (np.prod(shape) > MOST_ELEMENTS and name[0] == "t"):
            return None
        if value is None:
            nodes = toposort([tensor])
            if len(nodes) > MOST_NODES:
                return None
            value = self.computed(tensor)
            if np.shape(value) != shape:
                raise AssertionError(f"{text}: shape {shape} was promised, found {np.shape(value)}")
            if not self.wild and not _moderate(value) and not self.chance(10):
                return None
            self.operations.update(t for t in nodes if t.inputs)
        self.known[tensor] = value
        self.places[name] = tensor
        var = Var(name, shape, K.dtype(tensor), tensor)
        self.pool.append(var)
        return var

    def computed(self, tensor: Any) -> Any:
        """The value of a tensor that is computed from those of the pool."""
        with np.errstate(all="ignore"):
            return Evaluation(None)([tensor], self.known)[0]

    def add(self, text: str, kind: str = "t", value: Any = None) -> Var | None:
        """Write a line, if its tensor is fit to be kept."""
        name = f"{kind}{len(self.program.lines)}"
        try:
            var = self.take(name, text, value)
        except NotImplementedError:  # refused by name
            return None
        if var is not None:
            self.program.lines.append(f"{name} = {text}")
            if text.startswith("K.gradients("):
                self.gradients.add(name)
            if kind == "t":
                self.program.values[name] = (var.shape, var.dtype, self.known[var.tensor])
        return var

    def line(self, kind: str, text: str) -> str:
        """Write a line whose tensor other lines of the catalogue do not use; its name."""
        name = f"{kind}{len(self.program.lines)}"
        tensor = self.places[name] = self.built(name, text)
        self.program.lines.append(f"{name} = {text}")
        if kind == "v":
            self.known[tensor] = K.get_value(tensor)
        return name

    def built(self, name: str, text: str) -> Any:
        """The tensor of a line."""
        try:
            return eval(text, self.places)
        except NotImplementedError:
            raise
        except Exception as error:
            self.program.lines.append(f"{name} = {text}")
            raise BrokenError from error

    # --- arguments --------------------------------------------------------------------------------

    def axis(self, x: Var) -> int:
        return self.between(-x.ndim, x.ndim - 1)

    def axes(self, x: Var) -> str:
        """What `axis=` of a reduction may be."""
        if x.ndim == 0 or self.chance(25):
            return "None"
        if self.chance(60):
            return str(self.axis(x))
        return str(sorted({self.below(x.ndim), self.below(x.ndim)}))

    def number(self) -> str:
        return self.pick(("0.5", "2", "1", "-1.5", "0", "3", "1e-3", "-1", "0.1"))


def operations(tensors: Iterable[Any]) -> int:
    """How many operations `tensors` need."""
    return sum(1 for t in toposort(tensors) if t.inputs)


def literal(value: Any, shape: Any, dtype: str) -> str:
    """Text of an array."""
    with np.printoptions(threshold=10**6, floatmode="unique"):
        listed = np.array2string(np.ravel(value), separator=",").replace("\n", "")
    listed = listed.replace("nan", "np.nan").replace("inf", "np.inf")
    return f"np.array({listed}).reshape({shape}){_cast(dtype)}"


def _kind(dtype: str) -> str:
    return "bool" if dtype == "bool" else "int" if is_integer(dtype) else "float"


def _cast(dtype: str) -> str:
    # NumPy alone does not know bfloat16: float32 holds its numbers.
    return f".astype({'float32' if dtype == 'bfloat16' else dtype!r})"


def _moderate(value: Any) -> bool:
    array = np.asarray(value)
    if array.dtype.kind != "f" or not array.size:
        return True
    return bool((np.abs(array) < 1e4).mean() > 0.8)


FITS: dict[str, Callable[[str], bool]] = {
    "float": is_float,
    "int": is_integer,
    "bool": lambda d: d == "bool",
    "number": lambda d: d != "bool",
    "any": lambda d: True,
}
