"""Turns whatever may stand for a tensor into a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from backplane.core.graph import ArrayInput, Constant, Tensor, constant, converted, is_array
from backplane.core.hooks import HOOKS
from backplane.core.registry import native_spec
from backplane.core.sparse import SparseTensor, dense_array, is_sparse_matrix
from backplane.core.spec import is_float, promote
from backplane.core.variable import Variable
from backplane.ops.creation import Number, scalar
from backplane.ops.effects import to_dense
from backplane.ops.elementwise import cast
from backplane.ops.shaping import stack

_NUMBERS = frozenset((bool, int, float))


def as_tensor(value: object, dtype: str | None = None) -> Tensor:
    """`value` as a dense tensor: itself, or a constant made from a number, list or array.

    Args:
        value: Tensor, NumPy array, number, (nested) list of numbers, tensor of an engine, or
            `scipy.sparse` matrix. Sparse values are made dense.
        dtype: The dtype of a constant made from plain Python numbers. With None, floats and empty
            lists become `floatx()` and whole numbers int32. Arrays keep their dtype.

    Raises:
        TypeError: for anything else, such as None or a string.
    """
    if isinstance(value, Tensor):
        return to_dense(value) if value.spec.sparse else value
    if isinstance(value, SparseTensor):
        return as_tensor(HOOKS["to_dense"](value))
    if isinstance(value, np.ndarray | np.generic):
        return _constant(checked(value, value), dtype)
    value = HOOKS["value_of"](value)
    if isinstance(value, Tensor):  # It stands for a tensor of ours.
        return value
    engine = HOOKS["engine_of"](value)
    if engine is not None:
        # A variable counts as the value that it has now.
        held = engine.as_value(value) if engine.is_variable(value) else value
        return Constant(held, native_spec(engine, value))
    if isinstance(value, list | tuple) and _holds_tensor(value):
        parts = promoted(*value) if dtype is None else [as_tensor(v, dtype) for v in value]
        return stack(parts, 0)
    if is_sparse_matrix(value):
        made = _constant(checked(dense_array(value), value), dtype)
        if made.ndim != 2 or not is_float(made.spec.dtype):
            return made
        return to_dense(Constant(made.value, made.spec._replace(sparse=True)))
    array = checked(_array(value), value)
    return _constant(array, dtype or _default_dtype(array))


def _constant(array: np.ndarray, dtype: str | None) -> Constant:
    """A constant. Numbers that an integer or bool dtype cannot hold are an error."""
    if dtype is None or array.dtype == dtype or is_float(dtype):
        return constant(array, dtype)
    return constant(converted(np.asarray(array), dtype, "the operand"))


def _holds_tensor(values: Sequence[Any]) -> bool:
    try:
        return any(
            _holds_tensor(v) if isinstance(v, list | tuple) else isinstance(v, Tensor)
            for v in values
        )
    except RecursionError:
        raise ValueError(
            "expected a tensor, an array or numbers, got a list that contains itself"
        ) from None


def _array(value: object) -> np.ndarray:
    try:
        return np.asarray(value)
    except ValueError as error:  # The rows have different lengths.
        raise TypeError(
            f"expected a tensor, an array or numbers, got {_shown(value)}: {error}"
        ) from None


def checked(array: Any, value: object) -> Any:
    """`array`, which was made from `value`; the TypeError shows `value` if it holds no numbers."""
    if array.dtype == object and array.size and all(type(n) is int for n in array.flat):
        return converted(array, "int64", "the operand")  # Raises: too many bits.
    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        raise TypeError(f"expected a tensor, an array or numbers, got {_shown(value)}")
    return array


def _shown(value: object) -> str:
    if isinstance(value, np.ndarray | np.generic):
        return f"an array of dtype {value.dtype}"
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"


def _default_dtype(array: np.ndarray) -> str:
    """The dtype of plain numbers. Whole numbers are int32 unless they need more."""
    if array.dtype.kind == "b":
        return "bool"
    if array.dtype.kind == "f" or array.size == 0:
        return HOOKS["floatx"]()
    fits = array.min() >= -(2**31) and array.max() < 2**31
    return "int32" if fits else array.dtype.name


def _number_dtype(value: Number) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, float):
        return HOOKS["floatx"]()
    return "int32" if -(2**31) <= value < 2**31 else "int64"


def weak_dtype(own: str, other: str) -> str:
    """The dtype that a number of dtype `own` gives a tensor of dtype `other` beside it.

    The number never widens the tensor. But a float makes an integer or bool tensor `floatx()`, and
    an integer makes a bool tensor an integer one.
    """
    if is_float(own):
        return other if is_float(other) else HOOKS["floatx"]()
    return own if other == "bool" else other


def promoted(*values: Any) -> list[Tensor]:
    """The operands of an element-wise operation as tensors of one dtype.

    Tensors decide the dtype. NumPy arrays, lists and numbers beside a tensor follow `weak_dtype`:
    NumPy makes float64 of everything, so the dtype of an array is rarely a choice. Without a tensor
    the arrays decide, and without an array the numbers do.
    """
    kinds = {v.spec.dtype if isinstance(v, Tensor) else None for v in values}
    if len(kinds) == 1 and None not in kinds:
        return list(values)
    given = [kind for kind in kinds if kind is not None]
    plain = all(type(v) in _NUMBERS or isinstance(v, Tensor) for v in values)
    if plain and len(given) == 1 and is_float(given[0]):
        # A number never changes the dtype of floats beside it.
        return [_number(v, given[0]) if type(v) in _NUMBERS else as_tensor(v) for v in values]
    operands = [None if type(v) in _NUMBERS else as_tensor(v) for v in values]
    known = [
        _number_dtype(v) if t is None else t.spec.dtype
        for t, v in zip(operands, values, strict=True)
    ]
    ranks = [_rank(v) for v in values]
    first = max(ranks)
    dtype: str | None = None
    for own, rank in zip(known, ranks, strict=True):
        if rank == first:
            dtype = own if dtype is None else promote(dtype, own)
    assert dtype is not None
    for own, rank in zip(known, ranks, strict=True):
        if rank != first:
            dtype = weak_dtype(own, dtype)
    return [
        _number(v, dtype) if t is None else _in_dtype(t, v, dtype)
        for t, v in zip(operands, values, strict=True)
    ]


def _number(value: Number, dtype: str) -> Tensor:
    try:
        return scalar(value, dtype)
    except OverflowError:
        return _constant(np.asarray(value), dtype)  # Raises a ValueError that says what is wrong.


def _in_dtype(t: Tensor, value: object, dtype: str) -> Tensor:
    """An operand in the common dtype. Integers that somebody wrote down must not wrap."""
    if is_array(t) and t is not value:
        return _constant(t.value, dtype)
    return cast_to(t, dtype)


def _rank(value: object) -> int:
    """The rank of `value` in the choice of a dtype: numbers and lists 0, arrays 1, tensors 2."""
    if isinstance(value, Tensor):
        return 1 if isinstance(value, ArrayInput) else 2
    if type(value) in _NUMBERS or isinstance(value, list | tuple):
        return 0
    return 1 if isinstance(value, np.ndarray | np.generic) else 2


def cast_to(x: Tensor, dtype: str) -> Tensor:
    """`x` in `dtype`: `x` itself if it has that dtype already. A constant is converted at once."""
    if x.spec.dtype == dtype:
        return x
    if is_array(x):
        return constant(x.value, dtype)
    return cast(x, dtype=dtype)


def fitting(variable: Variable, value: object, what: str) -> Tensor:
    """`value` as a tensor that can become the value of `variable`. ValueError if its shape differs;
    TypeError if it holds floats, and the variable integers or bools.
    """
    shape, dtype = variable.spec.shape, variable.spec.dtype
    new = as_tensor(value, dtype)
    sizes = zip(new.spec.shape, shape, strict=False)
    if new.ndim != len(shape) or any(n not in (None, m) for n, m in sizes):
        raise ValueError(
            f"{what}: the variable {variable.name!r} has shape {shape}, the new value has shape "
            f"{tuple(new.spec.shape)}"
        )
    if is_float(new.spec.dtype) and not is_float(dtype):
        raise TypeError(
            f"{what}: the variable {variable.name!r} is {dtype}, and the new value is "
            f"{new.spec.dtype}; K.cast(x, {str(dtype)!r}) truncates it"
        )
    return cast_to(new, dtype)
