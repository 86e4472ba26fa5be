"""The leaves of graphs, closed graphs, and walks over graphs."""

from __future__ import annotations

import os
from _thread import RLock  # `threading` imports much more than this.
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeGuard, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from backplane.core.context import assigned, scoped_name, user_line
from backplane.core.mesh import Layout
from backplane.core.spec import Spec
from backplane.core.tensor import OUTPUT
from backplane.core.tensor import Tensor as Tensor

drawing = RLock()
"""Held while counters of random keys change. A handler of a signal may save them meanwhile."""

TensorT = TypeVar("TensorT", bound=Tensor)

GIVEN_NAME = "given_name"
"""The attribute with the name that a user gave, without a number that makes it unique."""


def with_given_name(made: TensorT, name: str | None) -> TensorT:
    """`made`, which remembers the name that the user gave, if there is one."""
    if name is not None:
        made.__dict__[GIVEN_NAME] = scoped_name(name)
    return made


class Placeholder(Tensor):
    """A leaf whose value is fed at each call. If nothing is fed, it takes its `default`."""

    __slots__ = ("default", "layout")

    def __init__(self, spec: Spec, name: str | None = None, default: Any = None) -> None:
        super().__init__(None, (), {}, spec, user_line(), name)
        self.default = default
        self.layout: Layout | None = None
        """The layout of fed values on a mesh, if the user has given one."""

    def is_phase(self) -> bool:
        """Whether this is a learning phase."""
        return self.default is not None and not self.spec.shape


class ArrayInput(Placeholder):
    """A NumPy array among native tensors in a trace. Tensors beside it decide a result's dtype."""

    __slots__ = ()


class Constant(Tensor):
    """A leaf with a fixed value: a NumPy array, which nobody writes to, or a value of an engine."""

    __slots__ = ("value",)

    def __init__(self, value: Any, spec: Spec, name: str | None = None) -> None:
        super().__init__(None, (), {}, spec, None, name)
        self.value = value

    def _made(self) -> str:
        """The value, if it is small."""
        few = isinstance(self.value, np.ndarray) and self.value.size <= 8
        return f" value={self.value.tolist()}" if few else ""


def is_array(node: object) -> TypeGuard[Constant]:
    """Whether `node` is a constant of ours, a number or an array, and no value of an engine."""
    return isinstance(node, Constant) and isinstance(node.value, np.ndarray)


def is_scalar(node: Tensor) -> TypeGuard[Constant]:
    """Whether `node` is a constant number. Such constants stay in programs as they are."""
    return is_array(node) and node.value.ndim == 0


class KeySource(Tensor):
    """A leaf that gives a new random key at each run: (seed low, seed high, counter, fold).

    The counter grows with each run of a program that reads the source, so a seed gives the same
    sequence of samples in every process.
    """

    __slots__ = ("counter", "drawn", "elsewhere", "given", "seed")

    def __init__(self, seed: int, given: bool = True, drawn: bool = False) -> None:
        super().__init__(None, (), {}, Spec((4,), "uint32"), user_line(), None)
        self.seed = seed
        self.given = given
        """Whether somebody chose the seed. If not, a forked child draws other numbers."""
        self.drawn = drawn
        """Whether the seed is one of a sequence, and not that of the call which made the source."""
        self.counter = 0
        self.elsewhere: Counter | None = None
        """The counter that replaces `counter` in a function that an engine's library traces."""
        key_sources[self.serial] = self

    def words(self) -> tuple[int, int, int, int]:
        """The next key, without drawing it."""
        high = (self.seed >> 32) & 0xFFFFFFFF
        return (
            self.seed & 0xFFFFFFFF,
            high if self.given else high ^ process[0],
            self.counter & 0xFFFFFFFF,
            0,
        )

    def draw(self) -> np.ndarray:
        """Draw the next key, as an array. Several threads may draw at once."""
        return draw([self])[0]


class Counter(Protocol):
    """A counter that a library keeps."""

    def read(self) -> int | None:
        """The number of times that keys were drawn. None if nothing can draw any more."""

    def write(self, count: int) -> None:
        """Let the next key be that of so many draws."""


key_sources: WeakValueDictionary[int, KeySource] = WeakValueDictionary()
"""All key sources that there are, by serial number and so in the order in which they were made."""

process = [0]
"""A number that differs in each forked child."""


def draw(sources: Sequence[KeySource]) -> np.ndarray:
    """Draw the next key of each source. Several threads may draw at once."""
    with drawing:
        keys = [source.words() for source in sources]
        for source in sources:
            source.counter += 1
    return np.array(keys, np.uint32)


def undraw(sources: Sequence[KeySource], keys: np.ndarray) -> None:
    """Give back keys that were drawn for nothing, unless somebody has drawn since."""
    with drawing:
        for source, key in zip(sources, keys, strict=True):
            if (source.counter - 1) & 0xFFFFFFFF == key[2]:
                source.counter -= 1


def _after_fork() -> None:
    drawing._at_fork_reinit()  # type: ignore[attr-defined]
    process[0] = int.from_bytes(os.urandom(4), "little")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def constant(value: object, dtype: str | None = None) -> Constant:
    """A constant leaf from a number or an array."""
    array = np.asarray(value, dtype=dtype)
    return Constant(array, Spec(array.shape, array.dtype.name))


def converted(array: np.ndarray, dtype: Any, what: str) -> np.ndarray:
    """A copy of `array` in another dtype, if an integer or bool dtype can hold its numbers. Else
    errors name `what`: ValueError for numbers out of the range of an integer type, such as NaN;
    TypeError if an integer type would lose fractions, or bool numbers other than 0 and 1.
    """
    target = np.dtype(dtype)
    own = "f" if array.dtype.name == "bfloat16" else array.dtype.kind
    if target.kind not in "biu" or own not in "iufO" or not array.size:
        return array.astype(target)
    copy = array.astype(target) if own in "iu" or target.kind == "b" else None
    if copy is not None and (copy == array).all():
        return copy
    if target.kind == "b":
        wrong = array[(array != 0) & (array != 1)].flat[0]
        raise TypeError(
            f"{what}: takes bool, got {array.dtype.name} with numbers other than 0 and 1, such as "
            f"{wrong}; x != 0 converts numbers to bools"
        )
    low, high, info = _number(array.min()), _number(array.max()), np.iinfo(target)
    if not (info.min <= low and high <= info.max):
        wrong = high if info.min <= low else low
        raise ValueError(
            f"{what}: {target.name} holds whole numbers from {info.min} to {info.max}, got {wrong}"
        )
    if own == "f" and not (whole := np.trunc(array) == array).all():
        raise TypeError(
            f"{what}: takes {target.name}, got {array.dtype.name} with fractions, such as "
            f"{array[~whole].flat[0]}; round the numbers, or truncate them with K.cast"
        )
    return array.astype(target)


def _number(value: object) -> Any:
    """The whole part as a Python number, which compares exactly; float64 rounds."""
    return np.trunc(value).item() if isinstance(value, np.generic) else value


class Graph:
    """A closed graph: a function of its own inputs. Its leaves are these inputs, or constants.

    Loops and branches have graphs as parameters. `compile.cache_key` compares them by structure.
    """

    __slots__ = ("__weakref__", "cache", "inputs", "outputs")

    def __init__(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.cache: dict[Any, Any] = {}

    def __repr__(self) -> str:
        ins = ", ".join(f"{t.spec.dtype}{list(t.spec.shape)}" for t in self.inputs)
        outs = ", ".join(f"{t.spec.dtype}{list(t.spec.shape)}" for t in self.outputs)
        return f"<Graph ({ins}) -> ({outs})>"


def graphs_of(node: Tensor) -> dict[str, Graph]:
    """The graphs that a loop or a branch holds, by the names of its parameters."""
    return {name: value for name, value in node.params.items() if isinstance(value, Graph)}


def nested(order: Iterable[Tensor]) -> Iterator[Tensor]:
    """The nodes of `order`, each before those of the graphs that it holds."""
    for node in order:
        yield node
        for graph in graphs_of(node).values():
            yield from nested(toposort([*graph.inputs, *graph.outputs]))


def specs_of(node: Tensor) -> Sequence[Spec]:
    """The specs of all results of a node."""
    spec: Any = node.spec
    return (spec,) if isinstance(spec, Spec) else spec


def toposort(outputs: Iterable[Tensor], stop: Iterable[Tensor] = ()) -> Sequence[Tensor]:
    """All nodes that `outputs` need, operands before users. Nodes in `stop` count as leaves."""
    outputs = tuple(outputs)
    leaves = {t for t in stop if t.inputs}
    last = _last.get()
    if last is None or leaves:
        return _sorted(outputs, leaves)
    if last.outputs != outputs:
        last.outputs, last.order = outputs, _sorted(outputs, leaves)
    return last.order


class _Last:
    """A graph, by its outputs, and the order of its nodes."""

    __slots__ = ("order", "outputs")

    def __init__(self) -> None:
        self.outputs: tuple[Tensor, ...] = ()
        self.order: Sequence[Tensor] = ()


_last: ContextVar[_Last | None] = ContextVar("the graph that was sorted last", default=None)


@contextmanager
def sorted_once() -> Iterator[None]:
    """Context manager: graphs that are walked repeatedly inside are sorted once."""
    with assigned(_last, _Last()):
        yield


def _sorted(outputs: tuple[Tensor, ...], leaves: Collection[Tensor]) -> Sequence[Tensor]:
    seen: set[Tensor] = set()
    order: list[Tensor] = []
    stack: list[Tensor | None] = [*outputs]
    stack.reverse()
    while stack:
        node = stack.pop()
        if node is None:  # a mark: all that the node below it needs is in the order
            order.append(stack.pop())  # type: ignore[arg-type]
        elif node not in seen:
            seen.add(node)
            if node.inputs and node not in leaves:
                stack += (node, None)
                stack += node.inputs[::-1]
            else:
                order.append(node)
    return order


def rebuild(node: Tensor, inputs: tuple[Tensor, ...], keep_spec: bool = False) -> Tensor:
    """The same primitive on other operands. Its spec is inferred again, unless `keep_spec`, or all
    specs are what they were: nothing else decides it.
    """
    assert node.op is not None
    same = keep_spec or [t.spec for t in inputs] == [t.spec for t in node.inputs]
    spec = node.spec if same else node.op.infer(inputs, node.params)
    return Tensor(node.op, inputs, node.params, spec, node.where, node._name)


Results = Mapping[int, Tensor]
"""The replacements for results of a node that has several, by their numbers."""


def rewrite(
    outputs: Sequence[Tensor],
    rule: Callable[[Tensor, tuple[Tensor, ...]], Tensor | Results | None],
    *,
    replace: Mapping[Tensor, Tensor] | None = None,
    keep_specs: bool = False,
) -> list[Tensor]:
    """Build `outputs` again from the leaves on, sharing the parts that stay the same.

    `rule(node, inputs)` gets each node with its new operands. It returns what takes the place of
    the node, or of its results if there are several, or None for the same primitive on these
    operands. Tensors in `replace` are replaced first, and the walk does not visit what they were
    computed from. With `keep_specs` specs are not inferred again.
    """
    new: dict[Tensor, Tensor] = dict(replace or {})
    several: dict[Tensor, Results] = {}
    for node in toposort(outputs, stop=new):
        if node in new:
            continue
        inputs = tuple([new[t] for t in node.inputs])
        result: Tensor | Results | None = None
        if several and node.op is OUTPUT and node.inputs[0] in several:
            result = several[node.inputs[0]].get(node.params["index"])
        if result is None:
            result = rule(node, inputs)
        if not isinstance(result, Tensor):
            if result is not None:
                several[node] = result
            result = node if inputs == node.inputs else rebuild(node, inputs, keep_specs)
        new[node] = result
    return [new[t] for t in outputs]


def substitute(
    outputs: Sequence[Tensor], mapping: Mapping[Tensor, Tensor], *, keep_specs: bool = False
) -> list[Tensor]:
    """`outputs` with the tensors in `mapping` replaced, sharing the parts that stay the same."""
    return rewrite(outputs, lambda node, inputs: None, replace=mapping, keep_specs=keep_specs)


def depends_on(outputs: Iterable[Tensor], sources: Iterable[Tensor]) -> set[Tensor]:
    """The nodes that `outputs` need and that depend on any of `sources`, including these."""
    reached = set(sources)
    dependent: set[Tensor] = set()
    for node in toposort(outputs):
        if node in reached or any(t in dependent for t in node.inputs):
            dependent.add(node)
    return dependent
