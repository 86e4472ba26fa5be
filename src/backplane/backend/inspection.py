"""Inspecting tensors: what is known without computing them, and printing their values."""

from __future__ import annotations

from typing import Any

import numpy as np

from backplane.backend._adapters import adaptable
from backplane.backend._args import as_int, shape_vector
from backplane.backend._call import api
from backplane.backend._errors import explained
from backplane.backend.types import StaticShape, TensorLike
from backplane.core.graph import Placeholder, Tensor
from backplane.core.numbers import Style
from backplane.core.spec import Spec, is_float
from backplane.core.variable import Variable
from backplane.engines import engine_of
from backplane.ops.creation import dims_of
from backplane.ops.effects import print_
from backplane.ops.lift import as_tensor
from backplane.ops.reduction import count

__all__ = [
    "count_params", "dtype", "get_variable_shape", "int_shape", "is_keras_tensor",
    "is_placeholder", "is_tensor", "is_variable", "ndim", "print_tensor", "shape", "size",
]  # fmt: skip


def spec_of(x: TensorLike, what: str) -> Spec:
    """The spec of a tensor, native or not, or of an array. The TypeError names `what`."""
    if isinstance(x, Tensor):
        return x.spec
    owner = engine_of(x)
    if owner is not None:
        return owner.present_spec(x)
    array = np.asarray(x)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{what}: expected a tensor, got {type(x).__name__}")
    return Spec(array.shape, array.dtype.name)


def _shape(x: TensorLike) -> Tensor:
    return shape_vector(*dims_of(as_tensor(x)))


_shape.__name__ = "shape"  # Before it is wrapped: errors name the K function.
_shape = api(_shape)


@adaptable
def shape(x: TensorLike) -> Tensor:
    """The shape of a tensor, as a tensor.

    Args:
        x: Tensor or variable.

    Returns:
        An int32 vector, which is computed at run time if sizes are unknown. Inside of `jax.jit` it
        is a NumPy array, because JAX accepts no size that it has computed itself.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.shape(K.variable([[1, 2], [3, 4]])))
        array([2, 2], dtype=int32)
    """
    owner = engine_of(x)
    sizes: Any = None if owner is None else owner.traced_sizes(x)
    return _shape(x) if sizes is None else sizes


@adaptable
def int_shape(x: TensorLike) -> StaticShape:
    """The static shape of a tensor.

    Args:
        x: Tensor, variable, engine tensor or array.

    Returns:
        Tuple of ints, with None for unknown sizes.

    Example:
        >>> from backplane import backend as K
        >>> K.int_shape(K.placeholder(shape=(2, None, 5)))
        (2, None, 5)
    """
    if isinstance(x, Tensor):
        return x.static_shape
    return tuple(spec_of(x, "K.int_shape").shape)


@explained
def get_variable_shape(x: TensorLike) -> StaticShape:
    """The static shape of a variable: an older name of `K.int_shape`.

    Example:
        >>> from backplane import backend as K
        >>> K.get_variable_shape(K.zeros((2, 3)))
        (2, 3)
    """
    return int_shape(x)


@adaptable
def ndim(x: TensorLike) -> int:
    """The number of axes of a tensor.

    Example:
        >>> from backplane import backend as K
        >>> K.ndim(K.placeholder(shape=(2, 4, 5)))
        3
    """
    return len(spec_of(x, "K.ndim").shape)


@api
def size(x: TensorLike, name: str | None = None) -> Tensor:
    """The number of elements of a tensor, as an int32 scalar tensor.

    Args:
        x: Tensor or variable.
        name: Accepted for compatibility.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.size(K.variable([[1, 2], [3, 4]]))).item()
        4
    """
    x = as_tensor(x)
    return count(x, range(x.ndim), "int32")


@adaptable
def dtype(x: TensorLike) -> str:
    """The name of the dtype of a tensor.

    Classic Keras on TensorFlow 1 returned names such as `'float32_ref'` for variables. Here, and in
    later versions, a variable has the plain name.

    Raises:
        TypeError: for a number or a list, which has no dtype of its own. Public code finds out by
            this error that it has no tensor.

    Example:
        >>> from backplane import backend as K
        >>> K.dtype(K.placeholder(shape=(2, 4, 5), dtype="float64"))
        'float64'
    """
    if not hasattr(x, "dtype"):
        raise TypeError(f"K.dtype: x must be a tensor or an array, got {x!r}")
    return str.__str__(spec_of(x, "K.dtype").dtype)


@explained
def count_params(x: TensorLike) -> int:
    """The number of elements of a tensor whose sizes are all known.

    Raises:
        ValueError: if a size is unknown.

    Example:
        >>> from backplane import backend as K
        >>> K.count_params(K.zeros((2, 3)))
        6
    """
    shape = int_shape(x)
    if None in shape:
        raise ValueError(f"K.count_params: the shape {shape} has unknown sizes")
    return int(np.prod([n for n in shape if n is not None]))


@adaptable
def is_tensor(x: object) -> bool:
    """Whether `x` is a tensor: symbolic, a variable, or an engine's own.

    Example:
        >>> from backplane import backend as K
        >>> K.is_tensor(K.placeholder(ndim=2)), K.is_tensor([1, 2])
        (True, False)
    """
    return isinstance(x, Tensor) or engine_of(x) is not None


@adaptable
def is_variable(x: object) -> bool:
    """Whether `x` is a variable: of K, a `tf.Variable`, or a shared variable of PyTensor.

    Example:
        >>> from backplane import backend as K
        >>> K.is_variable(K.zeros((2,))), K.is_variable(K.placeholder(ndim=1))
        (True, False)
    """
    owner = engine_of(x)
    return isinstance(x, Variable) or (owner is not None and owner.is_variable(x))


@adaptable
def is_placeholder(x: object) -> bool:
    """Whether `x` is a placeholder.

    Example:
        >>> from backplane import backend as K
        >>> K.is_placeholder(K.placeholder(ndim=1)), K.is_placeholder(K.zeros((2,)))
        (True, False)
    """
    return isinstance(x, Placeholder)


@adaptable
def is_keras_tensor(x: object) -> bool:
    """Whether `x` was returned by a Keras layer or `Input`.

    Args:
        x: Tensor or variable.

    Returns:
        Whether a layer has marked `x` with `_keras_history`. (In Keras 1 every placeholder
        counted.)

    Raises:
        ValueError: if `x` is not a tensor.

    Example:
        >>> from backplane import backend as K
        >>> K.is_keras_tensor(K.placeholder(shape=(2, 4, 5)))
        False
    """
    if not is_tensor(x):
        raise ValueError(
            f"K.is_keras_tensor: expected a symbolic tensor, got {x!r} of type {type(x).__name__}"
        )
    return hasattr(x, "_keras_history")


@api
def print_tensor(
    x: TensorLike,
    message: str = "",
    summarize: int | None = None,
    format: str | None = None,
    summary: bool = False,
) -> Tensor:
    """Print a message and the value of a tensor whenever it is computed.

    Args:
        x: Tensor.
        message: Text to print before the value.
        summarize: How many elements to print at either end of each axis; -1 prints all. By default
            NumPy decides, which shortens arrays of more than 1000 elements.
        format: Format of each number, as Python's `format` takes it, such as `".3f"`.
        summary: Whether to print shape, dtype, smallest and largest element, mean, and the number
            of NaN and Inf instead of the values.

    Returns:
        A tensor equal to `x`. The value is printed only if something is computed from this result.

    Example:
        >>> from backplane import backend as K
        >>> y = K.eval(K.print_tensor(K.constant([1.0, 2.0]), message="x is:"))
        x is: [1. 2.]
        >>> y = K.eval(K.print_tensor(K.constant([1.0, 2.0]), "x is:", format=".3f"))
        x is: [1.000 2.000]
        >>> y = K.eval(K.print_tensor(K.constant([1.0, 2.0]), "x is:", summary=True))
        x is: float32 (2,), min 1, max 2, mean 1.5
    """
    x = as_tensor(x)
    if summarize is not None and as_int(summarize, "summarize") < -1:
        raise ValueError(f"summarize must be -1 or more, got {summarize}")
    if format is not None:
        _check_format(format, x.spec.dtype)
    style = Style(summarize, format, bool(summary))
    return print_(x, message=str(message), style=tuple(style))


def _check_format(text: object, dtype: str) -> None:
    """Raise the error now that printing a number would raise."""
    number = True if dtype == "bool" else 1.0 if is_float(dtype) else 1
    try:
        number.__format__(text)  # type: ignore[arg-type]
    except (ValueError, TypeError) as error:
        raise type(error)(f"format must fit numbers of {dtype}, got {text!r}: {error}") from None
