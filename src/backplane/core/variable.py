"""Variables: symbolic leaves with a storage cell that outlives every call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from operator import attrgetter
from typing import Any, Protocol, TypeVar

import numpy as np

from backplane.core.atomic import FREE, Domain, alone, at_once, converting, domains_of, under
from backplane.core.context import current, user_line
from backplane.core.graph import Tensor
from backplane.core.hooks import HOOKS
from backplane.core.mesh import Layout
from backplane.core.spec import Spec

T = TypeVar("T")

Block = tuple[tuple[int, ...], np.ndarray]
"""A part of a value: the position of its first element, and its content."""


class Converter(Protocol):
    """The part of an engine that storage needs."""

    def placed(self, value: Any, dtype: str, layout: Layout | None) -> Any:
        """A native value with the content of an array, in a layout."""

    def adopted(self, array: np.ndarray, dtype: str, layout: Layout | None) -> Any:
        """The same of an array that nobody else knows."""

    def kept(self, value: Any) -> Any:
        """The value in the place where programs write over it."""

    def lend(self, value: Any) -> Any:
        """A value of a variable as users may keep it."""

    def to_numpy(self, value: Any) -> np.ndarray:
        """The content of a native value."""

    def parts(self, value: Any) -> list[Block] | None:
        """The parts that this process has of a value that several processes hold together."""


class Variable(Tensor):
    """A leaf whose value programs read and replace.

    The value stays as the engine left it that wrote it last. Another engine gets a copy, which is
    made through NumPy once per write.
    """

    __slots__ = (
        "constraint",
        "domain",
        "home",
        "initial",
        "layout",
        "order",
        "trainable",
        "values",
    )

    def __init__(
        self,
        value: np.ndarray,
        name: str,
        constraint: Callable[[Any], Any] | None = None,
        sparse: bool = False,
    ) -> None:
        spec = Spec(value.shape, value.dtype.name, sparse)
        super().__init__(None, (), {}, spec, user_line(), name)
        self.constraint = constraint
        self.trainable = True
        self.initial: Any = None
        """The variable's first value, for `initializer`: a tensor, an array, or one number for
        all elements. None if that is not kept."""
        self.domain: Domain | None = None
        """Calls that write to the variable hold its lock. None until there is such a function."""
        self.home: Converter | None = current().device
        """The engine on the device where the value is to be: that of `K.device`, or that of the
        first function on a device which uses the variable."""
        self.layout: Layout | None = None
        """The layout of the value on a mesh. By default every device has all of it."""
        self.order: tuple[Converter, Sequence[int]] | None = None
        """The axes in the order in memory in which an engine's programs read the value fastest.
        When that engine takes a NumPy array, it gets it in this order."""
        self.values: dict[Converter | None, Any] = {None: value}
        """The current value by engine that holds it; None stands for a NumPy array of our own. A
        write replaces the dict."""

    def __repr__(self) -> str:
        return f"<Variable {self.name!r} shape={self.spec.shape} dtype={self.spec.dtype}>"

    def __str__(self) -> str:
        return self.name

    def __bool__(self) -> bool:
        """True, because Keras before 2.1 asks `if self.bias:` to see whether there is one."""
        return True

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the value, as an array, and the attributes that were hung on the variable."""
        settings = (self.numpy(), self.name, self.constraint, self.spec.sparse)
        return _restored, (settings, self.trainable, self.layout, self.__dict__)

    @property
    def initializer(self) -> Any:
        """An operation that sets the variable to its initial value: `v.initializer.run()`, or
        `session.run(v.initializer)`, as in TensorFlow 1. Random values are drawn anew.
        """
        return HOOKS["initializer"](self)

    @property
    def guard(self) -> AbstractContextManager[Any]:
        """The lock to hold while the value's memory is read. It changes once at most: when somebody
        makes the first function that writes over the memory. Readers look at it once more
        afterwards, because that function may have run meanwhile.
        """
        return FREE if self.domain is None else self.domain.guard

    def read(self, engine: Converter) -> Any:
        """The value as a native value of `engine`."""
        while True:
            guard = self.guard
            with guard:
                values = self.values
                value = values.get(engine)
                if value is None:
                    value = self._given(engine, values)
            if self.guard is guard:
                return value

    def _given(self, engine: Converter, values: dict[Converter | None, Any]) -> Any:
        """The value for an engine that lacks it. The array goes, or becomes the value."""
        with converting:
            value = values.get(engine)
            if value is not None:  # Another thread was quicker.
                return value
            if len(values) == 1 and None in values:
                # Told before others can find it, because they may lend it at once.
                array = values[None]
                if self.order is not None and self.order[0] is engine:
                    array = _in_order(array, self.order[1])
                value = engine.adopted(array, self.spec.dtype, self.layout)
            else:
                value = engine.placed(_copied(values), self.spec.dtype, self.layout)
            values[engine] = value
            values.pop(None, None)
            return value

    def keep(self, engine: Converter) -> None:
        """Move the value to where programs write over it, and free its old memory first."""
        values = self.values
        values[engine] = engine.kept(values[engine])

    def lent(self, engine: Converter) -> Any:
        """The value as a native value that users may keep."""
        while True:
            guard = self.guard
            with guard:
                value = engine.lend(self.read(engine))
            if self.guard is guard:
                return value

    def numpy(self) -> np.ndarray:
        """The value as a NumPy array of the caller's own."""
        while True:
            guard = self.guard
            with guard:
                array = _copied(self.values)
            if self.guard is guard:
                return array


def _in_order(array: np.ndarray, order: Sequence[int]) -> np.ndarray:
    """An array with the same elements, whose axes have that order in memory."""
    sizes, size = dict[int, int](), array.itemsize
    for axis in reversed(order):
        sizes[axis] = size
        size *= array.shape[axis]
    strides = [sizes[axis] for axis in range(array.ndim)]
    made: np.ndarray = np.ndarray(array.shape, array.dtype, strides=strides)
    made[...] = array
    return made


def _copied(values: dict[Converter | None, Any]) -> np.ndarray:
    array: np.ndarray | None = values.get(None)
    if array is not None:
        return np.array(array)
    ((engine, native), *_) = list(values.items())  # Others may add to the dict meanwhile.
    assert engine is not None
    return engine.to_numpy(native)


def _at_one_moment(
    variables: Sequence[Variable],
    locks: Callable[[Sequence[Variable]], list[AbstractContextManager[Any]]],
    look: Callable[[], list[T]],
) -> list[T]:
    """The result of `look` while nobody writes to the variables. Their first functions may be made
    meanwhile, and bring locks that nobody has held: then it looks again.
    """
    while True:
        held = locks(variables)
        result = under(held, look)
        if locks(variables) == held:
            return result


def arrays(variables: Sequence[Variable]) -> list[np.ndarray]:
    """The values of variables at one moment, as NumPy arrays of the caller's own."""

    def copies() -> list[np.ndarray]:
        holders = list(map(attrgetter("values"), variables))  # all by one call into C
        return [_copied(values) for values in holders]

    return _at_one_moment(variables, lambda vs: [d.guard for d in domains_of(vs)], copies)


def contents(
    variables: Sequence[Variable], engine: Converter, beside: Callable[[], T]
) -> tuple[list[np.ndarray | list[Block]], T]:
    """As `arrays`; but of values that several processes hold by `engine`, this one's parts. And
    what `beside` returns at the same moment, between two calls that write to the variables.
    """

    def copy(values: dict[Converter | None, Any]) -> np.ndarray | list[Block]:
        parts = engine.parts(values[engine]) if engine in values else None
        return _copied(values) if parts is None else parts

    def copies() -> list[Any]:
        return [beside(), *map(copy, list(map(attrgetter("values"), variables)))]

    other, *values = _at_one_moment(variables, _locks, copies)
    return values, other


def read(
    variables: Sequence[Variable], engine: Converter, kept: Collection[Variable] = ()
) -> list[Any]:
    """The values of variables at one moment, as native values of `engine`. They are converted if
    another engine holds them. The caller holds the locks of those that are `kept`, and will write
    over them.
    """

    def look() -> list[Any]:
        for v in variables:
            v.read(engine)
            if v in kept:
                v.keep(engine)
        return [v.read(engine) for v in variables]

    return _at_one_moment(variables, _locks, look)


def lent(variables: Sequence[Variable], engine: Converter) -> list[Any]:
    """The values of variables at one moment, as native values that users may keep."""
    return _at_one_moment(variables, _locks, lambda: [v.lent(engine) for v in variables])


def assign(variables: Sequence[Variable], values: Sequence[np.ndarray]) -> None:
    """Replace the values of variables by arrays, all at once. The caller gives the arrays up."""
    hold(variables, [{None: value} for value in values])


def hold(variables: Sequence[Variable], values: Sequence[dict[Converter | None, Any]]) -> None:
    """Replace the values of variables, all at once, by an engine's values or NumPy arrays."""
    pairs = zip(variables, values, strict=True)
    alone(variables, at_once, [(setattr, v, "values", held) for v, held in pairs])


def lay_out(variable: Variable, layout: Layout) -> None:
    """Let the value lie on a mesh in another layout from now on."""

    def change() -> None:
        value = variable.numpy()
        variable.layout = layout
        variable.values = {None: value}

    alone([variable], change)


def _locks(variables: Sequence[Variable]) -> list[AbstractContextManager[Any]]:
    return [d.lock for d in domains_of(variables)]


def _restored(
    settings: tuple[Any, ...],
    trainable: bool,
    layout: Layout | None,
    attributes: dict[str, Any],
) -> Variable:
    """A pickled variable."""
    variable = Variable(*settings)
    variable.trainable = trainable
    variable.layout = layout
    variable.__dict__.update(attributes)
    return variable
