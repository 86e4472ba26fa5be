"""Steps of models: traced once for each structure of their data, compiled by K, and called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from keras.src import tree
from keras.src.backend.common.stateless_scope import StatelessScope

from backplane import backend as K
from backplane import config
from backplane.core.graph import Placeholder, constant
from backplane.core.sizes import tie
from backplane.core.spec import Spec
from backplane.keras3 import distribution
from backplane.keras3.call import tracing, unwrapped
from backplane.keras3.naming import name_operation
from backplane.keras3.operands import tensor_of
from backplane.keras3.ops.conversion import to_array
from backplane.keras3.ops.core import is_tensor
from backplane.keras3.tensor import Tensor
from backplane.keras3.trace import Trace, recording
from backplane.ops.lift import cast_to


class Step:
    """A step of a model, as a function of arrays.

    It is traced when data of a new structure come: other dtypes, or other sizes apart from the
    batch's, which is open.

    Attributes:
        function: The step, over symbolic tensors. It may assign variables of Keras.
        last: The function of K that ran last.
    """

    def __init__(
        self, function: Callable[[Any], Any], eager: bool = False, traceable: bool = True
    ) -> None:
        """
        Args:
            function: The step, over symbolic tensors.
            eager: Whether it is traced for every batch, with the batch as constants, so that it can
                look at values.
            traceable: Whether all layers can be traced. If not, the step becomes eager when one of
                them asks for values.
        """
        self.function = function
        self.eager = eager
        self.traceable = traceable
        self.last: Any = None
        self._programs: dict[Any, _Program] = {}
        self._closed: set[Any] = set()
        self._recent: _Program | None = None

    def __call__(self, data: Any) -> Any:
        """The results for one batch: arrays in the place of tensors."""
        program = self._recent
        if program is not None and program.takes(data):
            arrays = list(data)
        else:
            data = _arrays(data)
            program = self._recent = self._program(data)
            arrays = program.arrays(data)
        self.last = program.compiled
        try:
            return program.pack(program.compiled(arrays))
        except IndexError as error:
            name_operation(error)
            raise

    def _program(self, data: Any) -> _Program:
        """The program for data of this structure. A step that must know the size of its batch, and
        so cannot be traced with an open one, has a program for each size.
        """
        if self.eager:
            return _Program(self.function, data, eager=True)
        key: Any = _signature(data), distribution.mesh_of(distribution.current())
        if key not in self._programs and key not in self._closed:
            try:
                self._programs[key] = _Program(self.function, data)
            except (TypeError, ValueError, IndexError):
                self._closed.add(key)  # What is wrong for any size is said again below.
        if key in self._closed:
            key = key, _sizes(data)
            if key not in self._programs:
                try:
                    self._programs[key] = _Program(self.function, data, opened=False)
                except (TypeError, ValueError):
                    if self.traceable:
                        raise
                    self.eager = True
                    return self._program(data)
        return self._programs[key]


def _arrays(data: Any) -> Any:
    """Data with arrays for leaves. Batches of arrays need no walk through a nest."""
    return tuple(map(_array, data)) if _is_flat(data) else tree.map_structure(_array, data)


def _is_flat(data: Any) -> bool:
    """Whether data are a tuple of arrays, and of None for weights that are not there."""
    return type(data) is tuple and all(x is None or type(x) is np.ndarray for x in data)


def _array(x: Any) -> Any:
    """A leaf of the data as an array, if it has numbers."""
    if isinstance(x, np.ndarray):
        array = x
    elif x is None or isinstance(x, str | bytes):
        return x
    else:
        array = to_array(x)
    if array.dtype.char == "d" and config.floatx() != "float64":
        return array.astype(config.floatx())
    return array


def _signature(data: Any) -> Any:
    """The key of the program: the structure, dtypes, and sizes but for the first."""
    if isinstance(data, np.ndarray):
        return data.shape[1:] if data.ndim else None, data.dtype
    if isinstance(data, list | tuple):
        return (type(data), *[_signature(x) for x in data])
    if isinstance(data, dict):
        return (dict, *[(k, _signature(x)) for k, x in data.items()])
    return data


def _sizes(data: Any) -> tuple[int, ...]:
    """The first sizes of the arrays."""
    leaves = tree.flatten(data)
    return tuple([x.shape[0] for x in leaves if isinstance(x, np.ndarray) and x.ndim])


class _Program:
    """One traced step, compiled."""

    def __init__(
        self,
        function: Callable[[Any], Any],
        data: Any,
        eager: bool = False,
        opened: bool = True,
    ) -> None:
        leaves = [x for x in tree.flatten(data) if isinstance(x, np.ndarray)]
        if eager:
            self.feeds: list[Placeholder] = []
            given: list[Any] = [constant(x) for x in leaves]
        else:
            self.feeds = given = _placeholders(leaves, opened)
        is_open = opened and not eager and _is_flat(data) and len(leaves) == len(data)
        self.kinds = [(x.ndim, x.dtype, x.shape[1:]) for x in leaves] if is_open else []
        """The dtypes and sizes of the arrays in a flat batch; nothing if it takes no such batch."""
        self.distribution = distribution.current()
        following = iter(given)
        data = tree.map_structure(
            lambda x: Tensor(next(following)) if isinstance(x, np.ndarray) else x, data
        )
        with distribution.in_force(self.distribution):
            while True:
                result, updates, traced = _run(function, data, eager)
                if not traced.uninitialized:
                    break
            flat = tree.flatten(result)
            places = [i for i, x in enumerate(flat) if _has_value(x)]
            outputs = [tensor_of(unwrapped(flat[i])) for i in places]
            self.pack = _packing(result, places)
            self.compiled = K.function(self.feeds, outputs, updates=updates)

    def takes(self, data: Any) -> bool:
        """Whether data are arrays like those that it was traced for. Most batches are like the one
        before, and need no look at their structure.
        """
        if type(data) is not tuple or len(data) != len(self.kinds):
            return False
        for x, (ndim, dtype, rest) in zip(data, self.kinds, strict=True):
            if type(x) is not np.ndarray or x.dtype is not dtype:
                return False
            if x.ndim != ndim or x.shape[1:] != rest:
                return False
        return self.distribution is distribution.current()

    def arrays(self, data: Any) -> list[np.ndarray]:
        """The arrays that its function is called with."""
        leaves = data if _is_flat(data) else tree.flatten(data)
        return [x for x in leaves if isinstance(x, np.ndarray)] if self.feeds else []


def _packing(result: Any, places: list[int]) -> Callable[[list[Any]], Any]:
    """The function that puts the values of a program at these places of the flat result. What logs
    a step makes is known when it is traced, so a call makes them without a walk through the nest.
    """
    if isinstance(result, Tensor):
        return lambda values: values[0]
    flat = tree.flatten(result)
    numbers = tree.pack_sequence_as(result, list(range(len(flat))))
    if type(numbers) is dict and all(i in places for i in numbers.values()):
        names = [(name, places.index(i)) for name, i in numbers.items()]
        return lambda values: {name: values[i] for name, i in names}

    def packed(values: list[Any]) -> Any:
        new = list(flat)
        for i, value in zip(places, values, strict=True):
            new[i] = value
        return tree.pack_sequence_as(result, new)

    return packed


def _has_value(x: Any) -> bool:
    return isinstance(x, Tensor) or is_tensor(x)


def _placeholders(leaves: list[np.ndarray], opened: bool) -> list[Placeholder]:
    """A placeholder for each array. The first size of those with the batch's size is open."""
    batch = next((x.shape[0] for x in leaves if x.ndim), None)
    made: list[Placeholder] = []
    first: Placeholder | None = None
    for x in leaves:
        is_open = opened and x.ndim and x.shape[0] == batch
        shape = (None, *x.shape[1:]) if is_open else x.shape
        feed = Placeholder(Spec(shape, x.dtype.name))
        if is_open and first is not None:
            tie(feed, 0, first, 0)
        elif is_open:
            first = feed
        if is_open:
            feed.layout = distribution.layout_of_batch(distribution.current(), shape)
        made.append(feed)
    return made


class Scope(StatelessScope):
    """Keras' scope of a step: what is read of a variable is its variable of K, unless the step has
    assigned it before.
    """

    def __init__(self, traced: Trace) -> None:
        super().__init__(collect_losses=True)
        self.traced = traced

    def get_current_value(self, variable: Any) -> Any:
        """The value at this place of the step; None for a variable that has none yet."""
        self.traced.touched(variable)
        known = super().get_current_value(variable)
        if known is None and variable.cell is not None:
            return Tensor(variable.cell)
        return known

    def add_update(self, update: tuple[Any, Any]) -> None:
        """Note that a variable was assigned."""
        self.traced.touched(update[0])
        super().add_update(update)


def _run(function: Callable[[Any], Any], data: Any, eager: bool) -> tuple[Any, list[Any], Trace]:
    """The results of a step on symbolic data, and the updates of variables."""
    with recording(eager) as traced, Scope(traced) as scope, tracing():
        result = function(data)
    updates = []
    for variable in traced.variables.values():
        new = scope.get_current_value(variable)
        if new is not None and variable.cell is not None:
            node = tensor_of(unwrapped(new))
            if node is not variable.cell:
                updates.append(K.update(variable.cell, cast_to(node, variable.cell.spec.dtype)))
    return result, updates, traced
