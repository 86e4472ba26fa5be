"""Building ONNX graphs: symbols, nodes, and the scopes that collect them.

A lowering calls `node("Tanh", x)` as it would call a library's function. The node goes to the scope
in force: a program, or the body of a loop or branch inside it. Equal nodes become one, and what no
output needs never reaches the model, so that lowerings may ask for sizes and transposed copies
without care.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import islice
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np

from backplane.core.context import assigned
from backplane.core.spec import Spec
from backplane.engines.onnxruntime.library import ELEMENT_TYPES
from backplane.engines.programs import Line

Shape = tuple[int | None, ...]


@dataclass(slots=True, eq=False)
class Symbol:
    """A value of the model that is being built: its name, its dtype, and what is known of its shape
    (None if not even the rank is).

    A literal has its content in `array`, and gets a name only when it is used. Integer vectors of
    one element stand for sizes, and can be added and multiplied like Python ints.
    """

    name: str
    dtype: str
    shape: Shape | None = None
    array: np.ndarray | None = None

    def known(self, spec: Spec) -> Symbol:
        """The same value, with what the graph knows of it besides."""
        if self.shape == spec.shape:
            return self
        return Symbol(self.name, self.dtype, spec.shape, self.array)

    @property
    def rank(self) -> int:
        """The number of axes."""
        assert self.shape is not None
        return len(self.shape)

    @property
    def sizes(self) -> tuple[Size, ...]:
        """The sizes of all axes."""
        return tuple([self.size(axis) for axis in range(self.rank)])

    def size(self, axis: int) -> Size:
        """The size of an axis."""
        assert self.shape is not None
        known = self.shape[axis]
        if known is not None:
            return known
        return node("Shape", self, shape=(1,), start=axis, end=axis + 1)

    def cast(self, dtype: str) -> Symbol:
        """The same in another dtype."""
        if self.dtype == dtype:
            return self
        if self.array is not None and self.array.size == 1:
            return literal(self.array.astype(dtype))
        return node("Cast", self, dtype=dtype, shape=self.shape, to=ELEMENT_TYPES[dtype])

    def transpose(self, perm: Sequence[int]) -> Symbol:
        """The axes in another order."""
        perm = tuple(perm)
        if perm == tuple(range(len(perm))):
            return self
        shape = None if self.shape is None else tuple([self.shape[i] for i in perm])
        scope = current_scope()
        name = scope.name_of(self)
        source = scope.find(("transposed", name, perm))
        if source is not None:  # this is itself transposed, from there
            return Symbol(source[0], self.dtype, shape)
        y = node("Transpose", self, shape=shape, perm=perm)
        back = tuple([perm.index(i) for i in range(len(perm))])
        scope.note(("transposed", y.name, back), [name])
        return y

    def reshape(self, sizes: Sequence[Size]) -> Symbol:
        """The same elements in another shape; one size may be -1."""
        shape = tuple([n if isinstance(n, int) and n >= 0 else None for n in sizes])
        if self.shape == shape and None not in shape:
            return self
        unknown = [i for i, n in enumerate(sizes) if not isinstance(n, int)]
        if len(unknown) == 1 and all(n > 0 for n in sizes if isinstance(n, int)):
            # What is left over is the one that is not known: no need to compute it.
            sizes = [-1 if i == unknown[0] else n for i, n in enumerate(sizes)]
        # Zero is a size, except beside -1, where ONNX does not allow it to be.
        allowzero = int(not any(isinstance(n, int) and n < 0 for n in sizes))
        return node("Reshape", self, vector(sizes), shape=shape, allowzero=allowzero)

    # --- sizes; they are not negative, so that rounding toward zero rounds down -------------------

    def __add__(self, other: Size) -> Size:
        return self if _is(other, 0) else sized("Add", self, other)

    def __radd__(self, other: int) -> Size:
        return self + other

    def __sub__(self, other: Size) -> Size:
        return self if _is(other, 0) else sized("Sub", self, other)

    def __rsub__(self, other: int) -> Size:
        return sized("Sub", other, self)

    def __mul__(self, other: Size) -> Size:
        return self if _is(other, 1) else sized("Mul", self, other)

    def __rmul__(self, other: int) -> Size:
        return self * other

    def __floordiv__(self, other: int) -> Size:
        return self if other == 1 else sized("Div", self, other)


Size = int | Symbol
"""A number of elements: an int where it is known, else an int64 vector of one element."""


def _is(size: Size, value: int) -> bool:
    return isinstance(size, int) and size == value


def sized(op: str, *sizes: Size) -> Symbol:
    """The size that an operation computes from sizes."""
    return node(op, *[ints(n) if isinstance(n, int) else n for n in sizes], shape=(1,))


# --- scopes --------------------------------------------------------------------------------------


class Place(NamedTuple):
    """An instruction of an emitted program, whose line is slow to find, and found on demand."""

    code: CodeType
    instruction: int

    @property
    def line(self) -> Line | None:
        """Its file name and number."""
        number = next(islice(self.code.co_positions(), self.instruction // 2, None), (None,))[0]
        return None if number is None else (self.code.co_filename, number)


@dataclass(slots=True)
class Node:
    """One operation; an attribute may be a `Body`."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]


@dataclass(slots=True)
class Body:
    """The finished graph of a loop or branch."""

    scope: Scope
    inputs: list[Symbol]
    outputs: list[Symbol]


@dataclass
class Scope:
    """Collects the nodes of one graph. Names are unique in the whole model."""

    parent: Scope | None = None
    loops: str = "Scan"
    """`"Scan"` for the faster loops, which probably fit, or `"Loop"` for those that always fit."""
    serial: bool = False
    """Whether the model will only run on one thread."""
    nodes: list[Node] = field(default_factory=list)
    literals: dict[str, np.ndarray] = field(default_factory=dict)
    printed: list[tuple[tuple[str, tuple[Any, ...]], Symbol]] = field(default_factory=list)
    places: dict[str, Place] = field(default_factory=dict)
    """The lines of the emitted program in which the nodes of the whole model were made, by their
    names."""
    unsure: bool = False
    """Whether a loop was built that may turn out not to fit."""
    stacks: bool = False
    """Whether there are products of stacks of matrices."""
    frozen: set[str] = field(default_factory=set)
    """Inputs that are constants of this model, and what is computed from such alone."""
    shapes: dict[str, Shape] = field(default_factory=dict)
    """The known facts about operands, if there are such inputs."""
    _known: dict[Hashable, Any] = field(default_factory=dict)
    _count: int = 0

    @property
    def root(self) -> Scope:
        """The scope of the whole model."""
        return self if self.parent is None else self.parent.root

    def name(self) -> str:
        """A new name."""
        root = self.root
        root._count += 1
        return f"v{root._count}"

    def name_of(self, x: Symbol | None) -> str:
        """The name of an operand; literals are stored in the model when they are first used."""
        if x is None:
            return ""
        if x.array is None:
            return x.name
        root = self.root
        key = (x.dtype, x.array.shape, x.array.tobytes())
        names = root._known.get(key)
        if names is None:
            names = root._known[key] = [f"c{len(root.literals)}"]
            root.literals[names[0]] = x.array
        return names[0]

    def add(
        self, op: str, inputs: Sequence[Symbol | None], count: int, attributes: dict[str, Any]
    ) -> list[str]:
        """Names of the results of a node, which is made unless there is an equal one."""
        names = tuple([self.name_of(x) for x in inputs])
        key: Hashable = None
        if not any(isinstance(value, Body) for value in attributes.values()):
            key = (op, names, count, tuple([(k, _exact(v)) for k, v in attributes.items()]))
            equal = self.find(key)
            if equal is not None:
                return equal
        outputs = [self.name() for _ in range(count)]
        place = _place.get()
        self.nodes.append(Node(op, names, tuple(outputs), attributes))
        if self.frozen:
            self.shapes.update({x.name: x.shape for x in inputs if x is not None and x.shape})
            if all(map(self.is_constant, names)):
                self.frozen.update(outputs)
        if place is not None:
            self.root.places[outputs[0]] = place
        if key is not None:
            self._known[key] = outputs
        return outputs

    def is_constant(self, name: str) -> bool:
        """Whether the value of that name is known before the model runs."""
        return name in self.root.frozen or name in self.root.literals or not name

    def note(self, key: Hashable, value: Any) -> None:
        """Remember something for this scope and those inside it."""
        self._known[key] = value

    def find(self, key: Hashable) -> Any:
        """The entry of this scope or one around it, such as the results of an equal node."""
        scope: Scope | None = self
        while scope is not None:
            if key in scope._known:
                return scope._known[key]
            scope = scope.parent
        return None

    def outputs(self, values: Sequence[Symbol]) -> list[Symbol]:
        """`values` as outputs of this graph: results of its own nodes, no two the same."""
        own = {name for each in self.nodes for name in each.outputs}
        listed = []
        for x in values:
            if x.array is not None or x.name not in own:
                name = self.name()
                self.nodes.append(Node("Identity", (self.name_of(x),), (name,), {}))
                x = Symbol(name, x.dtype, x.shape)
            own.discard(x.name)
            listed.append(x)
        return listed


def _exact(value: Any) -> Hashable:
    if isinstance(value, np.ndarray):
        return (value.dtype.name, value.shape, value.tobytes())
    return repr(value) if isinstance(value, float) else value


_place: ContextVar[Place | None] = ContextVar("backplane_onnx_place", default=None)


def made_by(frame: FrameType) -> AbstractContextManager[None]:
    """Context manager: new nodes belong to the line that a frame of the program is at."""
    return assigned(_place, Place(frame.f_code, frame.f_lasti))


_scope: ContextVar[Scope] = ContextVar("backplane_onnx_scope")


def current_scope() -> Scope:
    """The scope in force."""
    return _scope.get()


@contextmanager
def building(scope: Scope) -> Iterator[Scope]:
    """Context manager: nodes that are made inside go to `scope`."""
    with assigned(_scope, scope):
        yield scope


@contextmanager
def nested() -> Iterator[Scope]:
    """Context manager: nodes that are made inside go to the body of a loop or branch."""
    outer = current_scope()
    inner = Scope(outer, outer.loops, outer.serial)
    with building(inner):
        yield inner


# --- nodes ---------------------------------------------------------------------------------------


def node(
    op: str,
    *inputs: Symbol | None,
    dtype: str | None = None,
    shape: Shape | None = None,
    **attributes: Any,
) -> Symbol:
    """One operation with one result, by default of the first operand's or the operation's dtype."""
    (name,) = current_scope().add(op, inputs, 1, attributes)
    if dtype is None:
        first = inputs[op == "Where"]
        assert first is not None
        dtype = _RESULTS.get(op, first.dtype)
    return Symbol(name, dtype, shape)


_RESULTS = {
    **dict.fromkeys(("Equal", "Less", "LessOrEqual", "IsNaN"), "bool"),
    **dict.fromkeys(("Shape", "NonZero", "ArgMax", "ArgMin"), "int64"),
}


def nodes(
    op: str, inputs: Sequence[Symbol | None], dtypes: Sequence[str], **attributes: Any
) -> list[Symbol]:
    """One operation with several results."""
    names = current_scope().add(op, inputs, len(dtypes), attributes)
    return [Symbol(name, dtype) for name, dtype in zip(names, dtypes, strict=True)]


def chosen(
    condition: Symbol,
    dtypes: Sequence[str],
    then: Callable[[], Sequence[Symbol]],
    orelse: Callable[[], Sequence[Symbol]],
) -> list[Symbol]:
    """The results, of these dtypes, of one of two functions: only the branch taken runs."""
    bodies = []
    for branch in (then, orelse):
        with nested() as scope:
            bodies.append(Body(scope, [], scope.outputs(branch())))
    return nodes("If", [condition], dtypes, then_branch=bodies[0], else_branch=bodies[1])


def literal(array: np.ndarray) -> Symbol:
    """A constant with the content of an array."""
    return Symbol("", array.dtype.name, array.shape, array)


def number(value: float, dtype: str) -> Symbol:
    """A constant scalar."""
    return literal(np.asarray(value, dtype))


def ints(*values: int) -> Symbol:
    """A constant int64 vector."""
    return literal(np.array(values, np.int64))


def vector(numbers: Sequence[Size]) -> Symbol:
    """Sizes as one int64 vector."""
    parts: list[Symbol] = []
    run: list[int] = []
    for n in numbers:
        if isinstance(n, int):
            run.append(n)
            continue
        parts += [ints(*run), n] if run else [n]
        run = []
    if run or not parts:
        parts.append(ints(*run))
    return parts[0] if len(parts) == 1 else node("Concat", *parts, axis=0, shape=(len(numbers),))
