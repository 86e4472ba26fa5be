"""Creating tensors and variables."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from backplane import config
from backplane.backend._adapters import adaptable, meet
from backplane.backend._args import (
    as_count,
    as_dtype,
    as_flag,
    as_int,
    as_name,
    as_new_shape,
    as_sizes,
    check_possible,
    entries_of,
)
from backplane.backend._call import api, creates
from backplane.backend._errors import described, explained, holds_itself
from backplane.backend.types import DType, Shape, Sizes, TensorLike
from backplane.core import context
from backplane.core.graph import Constant, Placeholder, Tensor, converted, with_given_name
from backplane.core.sparse import dense_array, is_sparse_matrix
from backplane.core.spec import Spec, is_integer
from backplane.core.variable import Variable
from backplane.engines import engine_of
from backplane.ops import creation
from backplane.ops.creation import full, shaped_as
from backplane.ops.elementwise import cast
from backplane.ops.lift import as_tensor, cast_to

__all__ = [
    "arange", "constant", "eye", "ones", "ones_like", "placeholder", "variable", "zeros",
    "zeros_like",
]  # fmt: skip


MOST_AXES = 64
"""NumPy's arrays have no more."""


@explained
def placeholder(
    shape: Shape | None = None,
    ndim: int | None = None,
    dtype: DType | None = None,
    sparse: bool = False,
    name: str | None = None,
    ragged: bool = False,
) -> Tensor:
    """Instantiate a placeholder: a tensor whose value is fed to a `K.function`.

    Args:
        shape: Sizes of the axes, with None for a size that is not fixed. Either `shape` or `ndim`
            is needed; `shape` wins.
        ndim: Number of axes, all of them of unknown size.
        dtype: Name of the dtype; default `K.floatx()`.
        sparse: Whether a two-dimensional sparse matrix (`scipy.sparse`) may be fed.
        name: Name of the tensor.
        ragged: Must be False. Rows of different lengths are fed padded, with a mask beside them.

    Returns:
        A symbolic tensor.

    Raises:
        ValueError: if neither `shape` nor `ndim` is given, a size is negative, or a sparse
            placeholder is not two-dimensional.
        NotImplementedError: if `ragged` is True.

    Example:
        >>> from backplane import backend as K
        >>> x = K.placeholder(shape=(2, None, 5))
        >>> K.int_shape(x)
        (2, None, 5)
        >>> K.ndim(K.placeholder(ndim=3))
        3
    """
    if ragged:
        raise NotImplementedError(
            "K.placeholder: ragged=True is not supported, because few engines have ragged tensors; "
            "feed rows padded to one length, with a mask as a second placeholder"
        )
    if shape is None and ndim is None:
        raise ValueError(
            "K.placeholder: one of shape and ndim must be given, because every tensor has a known "
            "number of axes; sizes may be unknown: K.placeholder(ndim=2)"
        )
    if shape is None:
        count = as_count(ndim, "K.placeholder: ndim")
        if count > MOST_AXES:
            raise ValueError(f"K.placeholder: ndim must be at most {MOST_AXES}, got {count}")
        sizes: tuple[int | None, ...] = (None,) * count
    else:
        if ndim is not None:
            as_count(ndim, "K.placeholder: ndim")  # Most likely a dtype at its place.
        listed = entries_of(shape, "K.placeholder: shape")
        listed = listed if isinstance(listed, list | tuple) else [listed]
        sizes = tuple(
            None if n is None else as_int(n, "K.placeholder: shape: each size") for n in listed
        )
    check_possible(sizes, "K.placeholder: shape")
    sparse = as_flag(sparse, "K.placeholder: sparse")
    if sparse and len(sizes) != 2:
        raise ValueError(f"K.placeholder: a sparse placeholder has 2 axes, got shape {sizes}")
    unique = context.unique_name(as_name(name, "K.placeholder: name") or "Placeholder")
    meet()
    return with_given_name(Placeholder(Spec(sizes, as_dtype(dtype), sparse), unique), name)


@adaptable
def variable(
    value: TensorLike,
    dtype: DType | None = None,
    name: str | None = None,
    constraint: Callable[[Tensor], Tensor] | None = None,
) -> Variable:
    """Instantiate a variable: a tensor whose value outlives the calls that read and update it.

    Args:
        value: Initial value: array, number, nested list, engine tensor, or a symbolic tensor that
            can be evaluated. The value is copied. A `scipy.sparse` matrix makes a sparse variable.
        dtype: Name of the dtype; default `K.floatx()`, whatever the dtype of `value`.
        name: Name of the variable.
        constraint: Function that optimizers apply to the new value after an update. The variable
            only keeps it.

    Returns:
        A variable, which is also a tensor.

    Raises:
        TypeError: if `value` holds no numbers, or fractions although `dtype` is an integer type.
        ValueError: if `dtype` is an integer type that cannot hold them.

    Example:
        >>> from backplane import backend as K
        >>> kvar = K.variable([[1, 2], [3, 4]], dtype="float64", name="example_var")
        >>> K.dtype(kvar)
        'float64'
        >>> print(kvar)
        example_var
        >>> K.eval(kvar)
        array([[1., 2.],
               [3., 4.]])
    """
    if constraint is not None and not callable(constraint):
        raise TypeError(f"K.variable: constraint must be a function, got {described(constraint)}")
    array = _values(value, as_dtype(dtype), "K.variable: value")
    as_name(name, "K.variable: name")
    meet()
    unique = context.unique_name(name or "Variable")
    made = Variable(array, unique, constraint, is_sparse_matrix(value))
    random = isinstance(value, Tensor) and not isinstance(value, Constant | Variable)
    made.initial = value if random else _kept(array)
    return with_given_name(made, name)


MOST_KEPT = 1 << 20
"""Bytes of an initial value that are kept for `Variable.initializer`, so that they are in memory
twice. Of larger ones only those are kept that are one number throughout."""


def _kept(array: np.ndarray) -> Any:
    """The part of an initial value that is kept: one number for all elements, a copy, or None."""
    if array.size:
        first = array.flat[0]
        # Three looks tell most arrays apart.
        alike = first == array.flat[-1] == array.flat[array.size // 2]
        if alike and first == array.max() == array.min():
            return first.item()
    return np.array(array) if array.nbytes <= MOST_KEPT else None


def _values(value: Any, dtype: str, what: str) -> np.ndarray:
    """A new array of `dtype` with the content of anything that has values."""
    if isinstance(value, Tensor):
        value = value.eval()
    elif (owner := engine_of(value)) is not None:
        value = owner.to_numpy(value)
    elif is_sparse_matrix(value):
        value = dense_array(value)
    try:
        array = np.asarray(value)
    except RecursionError:
        raise holds_itself(what) from None
    except ValueError as error:
        raise ValueError(f"{what} is not a regular array ({error})") from None
    if array.dtype == object and all(type(n) is int for n in array.flat):
        return converted(array, dtype, what)  # Some need more than 64 bits.
    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        raise TypeError(
            f"{what} must hold numbers, got {type(value).__name__} of dtype {array.dtype}"
        )
    return converted(array, dtype, what)


@creates
def constant(
    value: TensorLike,
    dtype: DType | None = None,
    shape: Sizes | None = None,
    name: str | None = None,
) -> Tensor:
    """Create a constant tensor.

    Args:
        value: Number, (nested) list or array. A `scipy.sparse` matrix makes a sparse constant. A
            tensor is returned as it is, in `dtype` if that is given.
        dtype: Name of the dtype; default `K.floatx()`.
        shape: Shape of the result; a single value fills it, and a shorter list is continued with
            its last element, as TensorFlow 1 does.
        name: Name of the tensor.

    Returns:
        A symbolic tensor.

    Raises:
        ValueError: if `value` has more elements than `shape`, or `dtype` is an integer type
            that cannot hold them.
        TypeError: if `value` holds fractions although `dtype` is an integer type.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.constant([[1, 2], [3, 4]]))
        array([[1., 2.],
               [3., 4.]], dtype=float32)
        >>> K.eval(K.constant(7, shape=(2,), dtype="int32"))
        array([7, 7], dtype=int32)
    """
    if isinstance(value, Tensor):
        return value if dtype is None else cast_to(value, as_dtype(dtype))
    array = _values(value, as_dtype(dtype), "K.constant: value")
    if shape is not None:
        what = "K.constant: shape"
        listed = entries_of(shape, what)
        count = len(listed) if isinstance(listed, list | tuple) else 1
        sizes = as_sizes(listed, count, what)
        array = _filled(array, sizes)
    sparse = is_sparse_matrix(value) and array.ndim == 2
    return Constant(array, Spec(array.shape, array.dtype.name, sparse), name)


def _filled(array: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    check_possible(sizes, "K.constant: shape")
    total = math.prod(sizes)
    if array.size > total or (array.size == 0 and total):
        raise ValueError(f"K.constant: {array.size} values do not fill shape {sizes}")
    flat = array.ravel()
    return np.concatenate([flat, np.repeat(flat[-1:], total - flat.size)]).reshape(sizes)


@adaptable
def zeros(shape: Shape, dtype: DType | None = None, name: str | None = None) -> Tensor:
    """Instantiate a variable of zeros.

    Args:
        shape: Sizes. With symbolic sizes (`K.shape(x)`) the result is a tensor, not a variable.
        dtype: Name of the dtype; default `K.floatx()`.
        name: Name of the variable.

    Returns:
        A variable, or a tensor where `shape` is symbolic.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.zeros((2, 3)))
        array([[0., 0., 0.],
               [0., 0., 0.]], dtype=float32)
    """
    return _full(shape, 0, dtype, name, "K.zeros: shape")


@adaptable
def ones(shape: Shape, dtype: DType | None = None, name: str | None = None) -> Tensor:
    """Instantiate a variable of ones. Arguments and result are those of `K.zeros`.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.ones((2, 2), dtype="int32"))
        array([[1, 1],
               [1, 1]], dtype=int32)
    """
    return _full(shape, 1, dtype, name, "K.ones: shape")


def _full(shape: Shape, value: int, dtype: DType | None, name: str | None, what: str) -> Tensor:
    dims, sizes = as_new_shape(shape, what)
    if dims:
        return _of_unknown_size(shape, value, dtype, what)
    kind, known = as_dtype(dtype), [n or 0 for n in sizes]
    # The system clears memory for zeros when it is first used.
    array = np.full(known, value, kind) if value else np.zeros(known, kind)
    meet()
    made = Variable(array, context.unique_name(name or "Variable"))
    made.initial = value
    return with_given_name(made, name)


@creates
def _of_unknown_size(shape: Shape, value: int, dtype: DType | None, what: str) -> Tensor:
    dims, sizes = as_new_shape(shape, what)
    return full(*dims, shape=sizes, value=value, dtype=as_dtype(dtype))


@explained
def eye(size: Sizes, dtype: DType | None = None, name: str | None = None) -> Variable:
    """Instantiate a variable that holds an identity matrix.

    Args:
        size: Number of rows and columns, or a pair of both.
        dtype: Name of the dtype; default `K.floatx()`.
        name: Name of the variable.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.eye((2, 3)))
        array([[1., 0., 0.],
               [0., 1., 0.]], dtype=float32)
    """
    rows, columns = as_sizes(size, 2, "K.eye: size")
    check_possible((rows, columns), "K.eye: size")
    kind = as_dtype(dtype)
    return variable(np.eye(rows, columns, dtype=kind), kind, name)


@api
def zeros_like(x: TensorLike, dtype: DType | None = None, name: str | None = None) -> Tensor:
    """Zeros of the shape of another tensor.

    Args:
        x: Tensor or variable; its sizes may be unknown.
        dtype: Name of the dtype; default that of `x`.
        name: Name of the tensor.

    Returns:
        A tensor. (The documents call it a variable, but as in TensorFlow it is not one.)

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.zeros_like(K.constant([[1.0, 2.0]])))
        array([[0., 0.]], dtype=float32)
    """
    return _like(x, 0, dtype)


@api
def ones_like(x: TensorLike, dtype: DType | None = None, name: str | None = None) -> Tensor:
    """Ones of the shape of another tensor. The arguments are those of `K.zeros_like`.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.ones_like(K.constant([[1.0, 2.0]]), dtype="int32"))
        array([[1, 1]], dtype=int32)
    """
    return _like(x, 1, dtype)


def _like(x: TensorLike, value: int, dtype: DType | None) -> Tensor:
    x = as_tensor(x)
    return shaped_as(full, x, value=value, dtype=as_dtype(dtype, x.spec.dtype))


@creates
def arange(
    start: Tensor | float,
    stop: Tensor | float | None = None,
    step: Tensor | float = 1,
    dtype: DType = "int32",
) -> Tensor:
    """A vector of evenly spaced numbers from `start` up to, but without, `stop`.

    Args:
        start: First number. If `stop` is None, this is the end, and the first number is 0.
        stop: End. Like `start` and `step` it may be a scalar tensor.
        step: Difference of two neighbours.
        dtype: Name of the dtype.

    Returns:
        A tensor of one axis.

    Raises:
        ValueError: if `step` is 0, or `dtype` cannot hold the numbers.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.arange(2, 8, 3))
        array([2, 5], dtype=int32)
    """
    if stop is None:
        start, stop = 0, start
    dtype = as_dtype(dtype)
    given: list[Any] = [start, stop, step]
    if not any(isinstance(v, Tensor) for v in given):
        for number in given:
            as_tensor(number)  # Raises a TypeError for what is no number.
        if step == 0:
            raise ValueError("K.arange: step must not be 0")
        array = _range(start, stop, step, dtype)
        return Constant(array, Spec(array.shape, dtype))
    whole = config.floatx() if any(isinstance(v, float) for v in given) else "int32"
    scalars = [as_tensor(v, whole) for v in given]
    kinds = {t.spec.dtype for t in scalars if not isinstance(t, Constant)}
    kind = kinds.pop() if len(kinds) == 1 else whole
    scalars = [cast(t, dtype=kind) if t.spec.dtype != kind else t for t in scalars]
    result: Tensor = creation.arange(*scalars, dtype=kind)
    if kind != dtype:
        result = cast(result, dtype=dtype)
    return result


_BLOCK = 1 << 16


def _range(start: Any, stop: Any, step: Any, dtype: str) -> np.ndarray:
    """The numbers of `arange`. Integers are made block by block, so they need memory once."""
    what = "K.arange: start, stop, step"
    if is_integer(dtype) and all(isinstance(v, int) for v in (start, stop, step)):
        count = max(0, -((start - stop) // step))
        check_possible((count,), what)
        numbers = range(start, stop, step)
        if numbers:
            converted(np.asarray([numbers[0], numbers[-1]], object), dtype, what)
        ramp = np.empty(count, dtype)
        for at in range(0, count, _BLOCK):
            part = numbers[at : at + _BLOCK]
            # NumPy counts in float64 beyond 63 bits.
            narrow = max(map(abs, (part.start, part.stop, part.step))) < 2**63
            ramp[at : at + _BLOCK] = (
                np.arange(part.start, part.stop, part.step)
                if narrow
                else np.fromiter(part, dtype, len(part))
            )
        return ramp
    if (stop - start) / step > 0:
        converted(np.asarray([start, stop - step]), dtype, what)
    return converted(np.arange(start, stop, step), dtype, what)
