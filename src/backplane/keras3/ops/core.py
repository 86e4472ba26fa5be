"""Keras' backend functions of the module `core`: conversions, control flow, shapes of results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from keras.src import tree
from keras.src.backend.common.keras_tensor import KerasTensor
from keras.src.backend.common.name_scope import name_scope as keras_name_scope
from keras.src.backend.common.stateless_scope import StatelessScope
from keras.src.backend.common.symbolic_scope import SymbolicScope

from backplane import backend as K
from backplane import engines
from backplane.core import context
from backplane.core.graph import Placeholder
from backplane.core.spec import Spec
from backplane.keras3.call import eager_engine, is_tracing, op, tracing
from backplane.keras3.operands import standard, tensor_of
from backplane.keras3.ops.control import associative_scan as associative_scan
from backplane.keras3.ops.control import cond as cond
from backplane.keras3.ops.control import custom_gradient as custom_gradient
from backplane.keras3.ops.control import fori_loop as fori_loop
from backplane.keras3.ops.control import map as map
from backplane.keras3.ops.control import remat as remat
from backplane.keras3.ops.control import scan as scan
from backplane.keras3.ops.control import switch as switch
from backplane.keras3.ops.control import vectorized_map as vectorized_map
from backplane.keras3.ops.control import while_loop as while_loop
from backplane.keras3.ops.conversion import NO_NUMBERS, to_array
from backplane.keras3.ops.conversion import cast as cast
from backplane.keras3.ops.conversion import convert_to_tensor as convert_to_tensor
from backplane.keras3.ops.parts import getitem as getitem
from backplane.keras3.ops.parts import scatter as scatter
from backplane.keras3.ops.parts import scatter_update as scatter_update
from backplane.keras3.ops.parts import slice as slice
from backplane.keras3.ops.parts import slice_update as slice_update
from backplane.keras3.ops.parts import unstack as unstack
from backplane.keras3.tensor import FUNCTIONS, Tensor
from backplane.keras3.variable import Variable as Variable
from backplane.ops.creation import dim

SUPPORTS_SPARSE_TENSORS = False
SUPPORTS_RAGGED_TENSORS = False
SUPPORTS_COMPLEX_DTYPES = False
IS_THREAD_SAFE = True


def _introduce_default() -> None:
    """Introduce the engine in force before a user has values of its library."""
    eager_engine()


FUNCTIONS.update(cast=cast, getitem=getitem)
_introduce_default()
engines.DEFAULT_CHANGED.append(_introduce_default)


class name_scope(keras_name_scope):  # noqa: N801 - its name in Keras
    """Keras' scope of names, which layers open. While a graph is built it is one of K too, so that
    the names of tensors, and errors of running programs, tell the layer.
    """

    _of_graph: Any = None

    def __enter__(self) -> Any:
        found = super().__enter__()
        if self._pop_on_exit and is_tracing():
            self._of_graph = context.name_scope(self.name)
            self._of_graph.__enter__()
        return found

    def __exit__(self, *error: Any) -> None:
        if self._of_graph is not None:
            self._of_graph.__exit__(*error)
            self._of_graph = None
        super().__exit__(*error)


def convert_to_numpy(x: Any) -> np.ndarray:
    """`x` as an array."""
    if isinstance(x, Tensor):
        return np.asarray(x)  # Raises: it has no value.
    return np.array(to_array(x))


def is_tensor(x: Any) -> bool:
    """Whether `x` is a tensor of the engine's library, or a symbolic one. NumPy's arrays of strings
    and of other objects are none, on any engine.
    """
    if isinstance(x, np.ndarray | np.generic) and x.dtype.kind in NO_NUMBERS:
        return False
    return isinstance(x, Tensor) or eager_engine().owns(x) or isinstance(x, np.generic)


def shape(x: Any) -> tuple[Any, ...]:
    """The sizes of the axes. A size that is unknown until the program runs is a symbolic scalar."""
    if not isinstance(x, Tensor):
        return tuple(x.shape)
    sizes = enumerate(x.core.spec.shape)
    return tuple([Tensor(dim(x.core, axis=i)) if n is None else n for i, n in sizes])


@op
def stop_gradient(variable: Any) -> Any:
    """The tensor itself, but gradients do not flow through it."""
    return K.stop_gradient(tensor_of(variable))


def random_seed_dtype() -> str:
    """The dtype of the state of a `SeedGenerator`. It is one on all engines, because Keras computes
    with the state and products of it overflow; and PyTorch has no arithmetic for uint32.
    """
    return "int32"


@contextmanager
def device_scope(device_name: str) -> Iterator[None]:
    """Context manager: computations inside run on a device, such as `cpu:0`."""
    with K.device(device_name):
        yield


def compute_output_spec(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The shapes and dtypes of what a function gives for KerasTensors, as KerasTensors."""
    made: dict[int, Tensor] = {}

    def lift(x: Any) -> Any:
        if not isinstance(x, KerasTensor):
            return x
        if id(x) not in made:
            made[id(x)] = Tensor(Placeholder(Spec(tuple(x.shape), standard(x.dtype))))
        return made[id(x)]

    def lower(x: Any) -> Any:
        if isinstance(x, Tensor) or is_tensor(x):
            return KerasTensor(tuple(x.shape), standard(x.dtype))
        return x

    with StatelessScope(), SymbolicScope(), tracing():
        args, kwargs = tree.map_structure(lift, (args, kwargs))
        return tree.map_structure(lower, fn(*args, **kwargs))
