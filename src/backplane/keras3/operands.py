"""The operands of functions of Keras' backend: their dtypes, and tensors made of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np

from backplane.core import graph
from backplane.core.spec import is_float
from backplane.ops.lift import as_tensor, cast_to
from backplane.ops.shaping import stack


def standard(dtype: Any) -> str:
    """The name of a dtype, given as a name, a type, or a dtype of some library. None stands for
    `floatx()`.
    """
    try:
        return _names[dtype]
    except (KeyError, TypeError):
        from keras.src.backend.common.variables import standardize_dtype

        name = standardize_dtype(dtype)
    if dtype is not None and isinstance(dtype, Hashable):
        _names[dtype] = name
    return name


_names: dict[Any, str] = {}
"""The names of dtypes that `standard` was asked for."""


def result_type(*dtypes: Any) -> str:
    """The dtype of what is computed from operands of these dtypes. Python's types stand for numbers
    that do not widen the others.
    """
    from keras.src.backend.common.dtypes import result_type as lattice

    return lattice(*dtypes)


def dtype_of(x: Any) -> str:
    """The dtype that `x` has, or gets as a tensor."""
    kind = _kind(x)
    return kind if isinstance(kind, str) else result_type(kind)


def _kind(x: Any) -> Any:
    """The dtype of a tensor or array, and the type of a number."""
    if isinstance(x, graph.Tensor):
        return x.spec.dtype
    if type(x) in (bool, int, float):
        return type(x)
    if isinstance(x, np.ndarray | np.generic):
        return standard(x.dtype)
    if isinstance(x, list | tuple):
        return result_type(*map(_kind, _leaves(x)))
    return as_tensor(x).spec.dtype


def _leaves(x: Any) -> Iterator[Any]:
    for item in x:
        if isinstance(item, list | tuple):
            yield from _leaves(item)
        else:
            yield item


def tensor_of(x: Any, dtype: Any = None) -> graph.Tensor:
    """`x` as a tensor of a graph.

    Args:
        x: Tensor, array, number, or nested list of these.
        dtype: The dtype to be; None for its own. By default numbers and lists of numbers become
            `floatx()`, int32 or bool, and lists that hold tensors what `result_type` says.

    Raises:
        TypeError: for anything else.
    """
    if isinstance(x, graph.Tensor):
        return x if dtype is None else cast_to(x, standard(dtype))
    name = dtype_of(x) if dtype is None else standard(dtype)
    if isinstance(x, list | tuple) and any(isinstance(v, graph.Tensor) for v in _leaves(x)):
        return stack([tensor_of(v, name) for v in x], 0)
    if isinstance(x, list | tuple):
        x = np.asarray(x)
        x = x.astype(name) if x.size else np.zeros(x.shape, name)
    elif isinstance(x, np.ndarray | np.generic):
        x = np.asarray(x).astype(name, copy=False)
    elif isinstance(x, float) and not is_float(name):
        x = np.asarray(x).astype(name)  # K itself refuses fractions.
    found = as_tensor(x, name)
    return cast_to(found, name)


def alike(*xs: Any) -> list[graph.Tensor]:
    """Operands as tensors of one dtype, which `result_type` chooses. Python's numbers do not widen
    the others.
    """
    dtype = result_type(*map(_kind, xs))
    return [tensor_of(x, dtype) for x in xs]


def float_of(x: Any) -> graph.Tensor:
    """`x` in the dtype in which functions of real numbers compute: ints and bools become
    `floatx()`, and floats stay.
    """
    t = tensor_of(x)
    if is_float(t.spec.dtype):
        return t
    return cast_to(t, result_type(None if t.spec.dtype == "int64" else t.spec.dtype, float))
