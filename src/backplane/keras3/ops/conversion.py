"""Values as tensors, tensors as arrays, and tensors in other dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras.src import tree
from keras.src.backend.common import KerasVariable

from backplane import engines
from backplane.core import graph
from backplane.core.spec import DTYPES, bits, is_float
from backplane.keras3.call import NARROWED, eager_engine, is_tracing, op
from backplane.keras3.operands import result_type, standard, tensor_of
from backplane.keras3.settings import keeps_float64
from backplane.keras3.tensor import Tensor
from backplane.ops import elementwise as ew
from backplane.ops.lift import cast_to

NO_NUMBERS = frozenset("OSUmM")
"""The kinds of NumPy's dtypes whose arrays are no tensors: strings, objects and times."""


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
    if isinstance(x, KerasVariable):
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


def cast(x: Any, dtype: Any) -> Any:
    """`x` in another dtype."""
    return convert_to_tensor(x, dtype=dtype)


def to_array(value: Any) -> np.ndarray:
    """Anything that has a value as a NumPy array.

    Raises:
        TypeError: for symbolic tensors.
    """
    if isinstance(value, KerasVariable):
        value = value.value
    if isinstance(value, Tensor):
        return value.numpy()
    if isinstance(value, graph.Tensor):
        return value.eval()
    engine = engines.engine_of(value)
    return np.asarray(value) if engine is None else engine.to_numpy(value)
