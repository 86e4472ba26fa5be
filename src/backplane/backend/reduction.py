"""Reductions along axes, cumulative sums and products, positions of extremes."""

from __future__ import annotations

from backplane.backend._args import as_axes, as_axis
from backplane.backend._call import api
from backplane.backend.activation import float_tensor
from backplane.backend.types import Axes, Axis, TensorLike
from backplane.core.graph import Tensor
from backplane.ops import elementwise as ew
from backplane.ops import reduction as red
from backplane.ops.lift import as_tensor, cast_to

__all__ = [
    "all", "any", "argmax", "argmin", "cumprod", "cumsum", "logsumexp", "max", "mean", "min",
    "prod", "std", "sum", "var",
]  # fmt: skip


def _reduced(reduction: ew.Op, x: Tensor, axis: Axes, keepdims: bool) -> Tensor:
    """`x` reduced along `axis`, or `x` itself if that names no axis."""
    axes = as_axes(axis, x)
    return reduction(x, axes=axes, keepdims=bool(keepdims)) if axes else x


@api
def max(x: TensorLike, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Maximum value in a tensor.

    Args:
        x: Tensor of numbers.
        axis: Int or list of ints in [-ndim, ndim): the axes to reduce; None for all, [] for none.
        keepdims: Whether to keep the reduced axes with size 1.

    Returns:
        A tensor of the dtype of `x`. Tied maxima share the gradient equally.

    Raises:
        ValueError: if an axis is out of range or named twice.
        TypeError: if `x` holds bools.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.max(K.constant([[1.0, 2.0], [3.0, 0.0]]), axis=0))
        array([3., 2.], dtype=float32)
    """
    return _reduced(red.max, as_tensor(x), axis, keepdims)


@api
def min(x: TensorLike, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Minimum value in a tensor.

    Args:
        x: Tensor of numbers.
        axis: Int or list of ints in [-ndim, ndim): the axes to reduce; None for all, [] for none.
        keepdims: Whether to keep the reduced axes with size 1.

    Returns:
        A tensor of the dtype of `x`. Tied minima share the gradient equally.

    Raises:
        ValueError: if an axis is out of range or named twice.
        TypeError: if `x` holds bools.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.min(K.constant([[1.0, 2.0], [3.0, 0.0]]), axis=0))
        array([1., 0.], dtype=float32)
    """
    return _reduced(red.min, as_tensor(x), axis, keepdims)


@api
def sum(x: TensorLike, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Sum of the values in a tensor.

    Args:
        x: Tensor of numbers.
        axis: Int or list of ints in [-ndim, ndim): the axes to reduce; None for all, [] for none.
        keepdims: Whether to keep the reduced axes with size 1.

    Returns:
        A tensor of the dtype of `x`. Small integer types are not widened.

    Raises:
        ValueError: if an axis is out of range or named twice.
        TypeError: if `x` holds bools.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.sum(K.constant([[1.0, 2.0], [3.0, 4.0]]), axis=1, keepdims=True))
        array([[3.],
               [7.]], dtype=float32)
    """
    return _reduced(red.sum, as_tensor(x), axis, keepdims)


@api
def prod(x: TensorLike, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Product of the values in a tensor.

    Args:
        x: Tensor of numbers.
        axis: Int or list of ints in [-ndim, ndim): the axes to reduce; None for all, [] for none.
        keepdims: Whether to keep the reduced axes with size 1.

    Returns:
        A tensor of the dtype of `x`. Its gradient is exact where elements are 0.

    Raises:
        ValueError: if an axis is out of range or named twice.
        TypeError: if `x` holds bools.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.prod(K.constant([[1.0, 2.0], [3.0, 4.0]]), axis=-1))
        array([ 2., 12.], dtype=float32)
    """
    return _reduced(red.prod, as_tensor(x), axis, keepdims)


@api
def cumsum(x: TensorLike, axis: Axis = 0) -> Tensor:
    """Cumulative sum of the values in a tensor along an axis.

    Args:
        x: Tensor of numbers.
        axis: Int in [-ndim, ndim).

    Returns:
        A tensor of the shape and dtype of `x`.

    Raises:
        ValueError: if `axis` is out of range.
        TypeError: if `x` holds bools.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.cumsum(K.constant([1.0, 2.0, 3.0])))
        array([1., 3., 6.], dtype=float32)
    """
    x = as_tensor(x)
    return red.cumsum(x, axis=as_axis(axis, x), reverse=False)


@api
def cumprod(x: TensorLike, axis: Axis = 0) -> Tensor:
    """Cumulative product of the values in a tensor along an axis.

    Args:
        x: Tensor of numbers.
        axis: Int in [-ndim, ndim).

    Returns:
        A tensor of the shape and dtype of `x`. Its gradient is exact where elements are 0.

    Raises:
        ValueError: if `axis` is out of range.
        TypeError: if `x` holds bools.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.cumprod(K.constant([1.0, 2.0, 3.0])))
        array([1., 2., 6.], dtype=float32)
    """
    x = as_tensor(x)
    return red.cumprod(x, axis=as_axis(axis, x), reverse=False)


@api
def mean(x: TensorLike, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Mean of a tensor.

    Args:
        x: Tensor; integers and bools become `K.floatx()`.
        axis: Int or list of ints in [-ndim, ndim): the axes to reduce; None for all, [] for none.
        keepdims: Whether to keep the reduced axes with size 1.

    Returns:
        A float tensor. The mean of no elements is NaN.

    Raises:
        ValueError: if an axis is out of range or named twice.

    Source: the documents' NumPy implementation. (Classic Keras on TensorFlow cut the mean of
    integers down to an integer.)

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.mean(K.constant([[1.0, 2.0], [3.0, 4.0]]), axis=0))
        array([2., 3.], dtype=float32)
    """
    return _reduced(red.mean, float_tensor(x), axis, keepdims)


def _variance(x: Tensor, axis: Axes, keepdims: bool) -> Tensor:
    deviation = x - _reduced(red.mean, x, axis, True)
    return _reduced(red.mean, deviation * deviation, axis, keepdims)


@api
def var(x: TensorLike, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Variance of a tensor: the mean squared distance from the mean (divided by n, not n - 1).

    Args:
        x: Tensor; integers and bools become `K.floatx()`.
        axis: Int or list of ints in [-ndim, ndim): the axes to reduce; None for all, [] for none.
        keepdims: Whether to keep the reduced axes with size 1.

    Returns:
        A float tensor.

    Raises:
        ValueError: if an axis is out of range or named twice.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.var(K.constant([[1.0, 2.0], [3.0, 6.0]]), axis=0))
        array([1., 4.], dtype=float32)
    """
    return _variance(float_tensor(x), axis, keepdims)


@api
def std(x: TensorLike, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Standard deviation of a tensor: the square root of `K.var`.

    Args:
        x: Tensor; integers and bools become `K.floatx()`.
        axis: Int or list of ints in [-ndim, ndim): the axes to reduce; None for all, [] for none.
        keepdims: Whether to keep the reduced axes with size 1.

    Returns:
        A float tensor. If all elements are equal, its gradient is 0 (NaN in classic Keras).

    Raises:
        ValueError: if an axis is out of range or named twice.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.std(K.constant([[1.0, 2.0], [3.0, 6.0]]), axis=0))
        array([1., 2.], dtype=float32)
    """
    variance = _variance(float_tensor(x), axis, keepdims)
    zero = ew.zero(variance)
    constant = ew.equal(variance, zero)
    # The slope of the root at 0 is infinite, so there the root of another number is taken.
    return ew.where(constant, zero, ew.sqrt(ew.where(constant, ew.one(variance), variance)))


@api
def any(x: TensorLike, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Logical or of the values in a tensor.

    Args:
        x: Tensor of any dtype. Everything but 0 counts as true, NaN included.
        axis: Int or list of ints in [-ndim, ndim): the axes to reduce; None for all, [] for none.
        keepdims: Whether to keep the reduced axes with size 1.

    Returns:
        A bool tensor. (The uint8 of the documents was Theano's.)

    Raises:
        ValueError: if an axis is out of range or named twice.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.any(K.constant([[1.0, 0.0], [0.0, 0.0]]), axis=1))
        array([ True, False])
    """
    return _reduced(red.any, cast_to(as_tensor(x), "bool"), axis, keepdims)


@api
def all(x: TensorLike, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Logical and of the values in a tensor.

    Args:
        x: Tensor of any dtype. Everything but 0 counts as true, NaN included.
        axis: Int or list of ints in [-ndim, ndim): the axes to reduce; None for all, [] for none.
        keepdims: Whether to keep the reduced axes with size 1.

    Returns:
        A bool tensor. (The uint8 of the documents was Theano's.)

    Raises:
        ValueError: if an axis is out of range or named twice.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.all(K.constant([[1.0, 2.0], [0.0, 1.0]]), axis=1))
        array([ True, False])
    """
    return _reduced(red.all, cast_to(as_tensor(x), "bool"), axis, keepdims)


def _position(position: ew.Op, x: TensorLike, axis: Axis) -> Tensor:
    x = as_tensor(x)
    if x.spec.dtype == "bool":
        raise TypeError("x must hold numbers, got dtype bool; cast it")
    return position(x, axis=as_axis(axis, x))


@api
def argmax(x: TensorLike, axis: Axis = -1) -> Tensor:
    """Index of the maximum value along an axis.

    Args:
        x: Tensor of numbers.
        axis: Int in [-ndim, ndim).

    Returns:
        An int64 tensor without `axis`. The first of tied maxima counts.

    Raises:
        ValueError: if `axis` is out of range.
        TypeError: if `axis` is not an int, or `x` holds bools.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.argmax(K.constant([[1.0, 5.0, 5.0], [9.0, 0.0, 3.0]])))
        array([1, 0])
    """
    return _position(red.argmax, x, axis)


@api
def argmin(x: TensorLike, axis: Axis = -1) -> Tensor:
    """Index of the minimum value along an axis.

    Args:
        x: Tensor of numbers.
        axis: Int in [-ndim, ndim).

    Returns:
        An int64 tensor without `axis`. The first of tied minima counts.

    Raises:
        ValueError: if `axis` is out of range.
        TypeError: if `axis` is not an int, or `x` holds bools.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.argmin(K.constant([[1.0, 5.0, 5.0], [9.0, 0.0, 3.0]])))
        array([0, 1])
    """
    return _position(red.argmin, x, axis)


@api
def logsumexp(x: TensorLike, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The logarithm of the sum of the exponentials of the values, without overflow.

    Args:
        x: Tensor; integers and bools become `K.floatx()`.
        axis: Int or list of ints in [-ndim, ndim): the axes to reduce; None for all, [] for none.
        keepdims: Whether to keep the reduced axes with size 1.

    Returns:
        A float tensor. It is minus infinity where all elements are minus infinity.

    Raises:
        ValueError: if an axis is out of range or named twice.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.logsumexp(K.constant([[1000.0, -1000.0]]), axis=1))
        array([1000.], dtype=float32)
    """
    return _reduced(red.logsumexp, float_tensor(x), axis, keepdims)
