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
from backplane.core import context, graph
from backplane.core.graph import Placeholder
from backplane.core.spec import DTYPES, Spec, bits, is_float
from backplane.keras3.call import (
    NARROWED,
    eager_engine,
    is_tracing,
    op,
    result_type,
    standard,
    tensor_of,
    tracing,
)
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
from backplane.keras3.ops.parts import getitem as getitem
from backplane.keras3.ops.parts import scatter as scatter
from backplane.keras3.ops.parts import scatter_update as scatter_update
from backplane.keras3.ops.parts import slice as slice
from backplane.keras3.ops.parts import slice_update as slice_update
from backplane.keras3.ops.parts import unstack as unstack
from backplane.keras3.settings import keeps_float64
from backplane.keras3.tensor import Tensor
from backplane.keras3.variable import Variable as Variable
from backplane.keras3.variable import to_array
from backplane.ops import elementwise as ew
from backplane.ops.creation import dim
from backplane.ops.lift import cast_to

SUPPORTS_SPARSE_TENSORS = False
SUPPORTS_RAGGED_TENSORS = False
SUPPORTS_COMPLEX_DTYPES = False
IS_THREAD_SAFE = True

NO_NUMBERS = frozenset("OSUmM")
"""The kinds of NumPy's dtypes whose arrays are no tensors: strings, objects and times."""


def _introduce_default() -> None:
    """Introduce the engine in force before a user has values of its library."""
    eager_engine()


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


def convert_to_tensor(x: Any, dtype: Any = None, sparse: Any = None, ragged: Any = None) -> Any:
    """`x` as a tensor: of the engine's library, or symbolic while a step is traced."""
    if sparse:
        raise ValueError("sparse tensors are not supported by the backend 'backplane'")
    if ragged:
        raise ValueError(
            "ragged tensors are not supported by the backend 'backplane'; pad the rows with "
            "keras.utils.pad_sequences, and mask the padding"
        )
    dtype = None if dtype is None else standard(dtype)
    if dtype is not None and dtype not in DTYPES:
        raise ValueError(
            f"tensors of dtype {dtype} are not supported by the backend 'backplane'; it has "
            f"{', '.join(sorted(DTYPES))}"
        )
    given = x
    if isinstance(x, Variable):
        x = x.value
    if isinstance(x, Tensor):
        return x if dtype in (None, x.dtype) else _cast(x, dtype)
    is_array = isinstance(x, np.ndarray | np.generic)
    if is_array and x.dtype.kind in NO_NUMBERS:
        raise TypeError(
            f"an array of dtype {x.dtype} is no tensor of the backend 'backplane'; layers such as "
            "StringLookup and TextVectorization turn strings into numbers"
        )
    if not is_array and getattr(getattr(x, "dtype", None), "name", None) == "string":
        # Of TensorFlow, which Keras' StringLookup(invert=True) uses.
        return np.char.decode(to_array(x).astype("S"), "utf-8")
    if dtype is None and is_array and x is given and not keeps_float64():
        dtype = NARROWED.get(x.dtype.name)
    engine = eager_engine()
    if engine.owns(x):
        if dtype is not None and dtype != standard(x.dtype):
            return _cast(x, dtype)
        # Keras' layers compute in place (`images += …`): not in an array of the user.
        return x.copy() if is_array and x is given and isinstance(x, np.ndarray) else x
    if is_tracing() or _holds_symbolic(x):
        return _convert(x, dtype)
    return engine.from_numpy(_array(x, dtype))


def _holds_symbolic(x: Any) -> bool:
    return isinstance(x, list | tuple) and any(
        isinstance(v, Tensor) or _holds_symbolic(v) for v in x
    )


def _array(x: Any, dtype: str | None) -> np.ndarray:
    """Numbers, lists that may hold tensors, or another library's tensor, as an array."""
    if isinstance(x, list | tuple):
        parts = tree.flatten(x)
        if dtype is None:
            dtype = result_type(*[getattr(v, "dtype", type(v)) for v in parts])
        if any(not isinstance(v, int | float) for v in parts):
            x = tree.map_structure(to_array, x)
    else:
        dtype = dtype or result_type(getattr(x, "dtype", type(x)))
        x = to_array(x)
    return np.asarray(x).astype(dtype)


@op(exact=True)
def _convert(x: Any, dtype: str | None) -> Any:
    return tensor_of(x, dtype)


@op(exact=True)
def _cast(x: Any, dtype: str) -> Any:
    x = tensor_of(x)
    return saturated(x, dtype) if is_float(x.spec.dtype) else cast_to(x, dtype)


def saturated(x: graph.Tensor, dtype: str) -> graph.Tensor:
    """Real numbers in another dtype. If it is one of integers, then numbers beyond its range become
    its least or greatest number, and NaN becomes 0, on every engine (as in XLA).
    """
    if is_float(dtype) or dtype == "bool":
        return cast_to(x, dtype)
    if bits(x.spec.dtype) < 32:
        x = cast_to(x, "float32")
    info = np.iinfo(dtype)
    kind = np.dtype(x.spec.dtype)
    top = kind.type(info.max)
    if int(top) > info.max:
        top = np.nextafter(top, kind.type(0))
    x = ew.where(ew.equal(x, x), x, ew.zero(x))
    bounded = ew.maximum(ew.minimum(x, graph.constant(top)), graph.constant(kind.type(info.min)))
    found = cast_to(bounded, dtype)
    if int(top) == info.max:
        return found
    greatest = graph.constant(np.array(info.max, dtype))
    return ew.where(ew.less(graph.constant(top), x), greatest, found)


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


def cast(x: Any, dtype: Any) -> Any:
    """`x` in another dtype."""
    return convert_to_tensor(x, dtype=dtype)


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
