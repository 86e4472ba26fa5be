"""Products of tensors and of batches, biases, transposition, scaling to unit length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from backplane.backend._args import as_axes, as_int
from backplane.backend._call import api
from backplane.backend._spatial_arguments import is_first
from backplane.backend.activation import float_tensor
from backplane.backend.sparse import product_of_coordinates
from backplane.backend.types import Axes, Axis, DataFormat, TensorLike
from backplane.core.graph import Tensor
from backplane.core.shapes import normalize_axis
from backplane.core.sparse import SparseTensor
from backplane.ops import elementwise as ew
from backplane.ops import reduction as red
from backplane.ops.axes import contracted, permuted
from backplane.ops.creation import like
from backplane.ops.einsum import einsum as sum_of_products
from backplane.ops.lift import as_tensor, cast_to, promoted
from backplane.ops.operators import matrix_product
from backplane.ops.shaping import is_broadcast, reshape

__all__ = ["batch_dot", "bias_add", "dot", "einsum", "l2_normalize", "matmul", "transpose"]


@api
def dot(x: TensorLike, y: TensorLike) -> Tensor:
    """Multiply two tensors, along the last axis of `x` and the second to last axis of `y`.

    Args:
        x: Tensor with at least one axis; may be sparse. The product of a sparse tensor in
            coordinate form and a matrix has a gradient with respect to its entries.
        y: Tensor with at least one axis. A vector is multiplied along its only axis.

    Returns:
        A tensor with the other axes of `x`, followed by the other axes of `y`. As in Theano and
        `numpy.dot`, (2, 3) and (4, 3, 5) give (2, 4, 5).

    Raises:
        ValueError: if an operand is a scalar, or if the sizes of the multiplied axes differ.

    Example:
        >>> from backplane import backend as K
        >>> K.int_shape(K.dot(K.placeholder(shape=(None, 28, 3)), K.ones((3, 4))))
        (None, 28, 4)
        >>> K.int_shape(K.dot(K.ones((2, 3)), K.ones((4, 3, 5))))
        (2, 4, 5)
    """
    if isinstance(x, SparseTensor) or isinstance(y, SparseTensor):
        product = product_of_coordinates(x, y)
        if product is not None:
            return product
    x, y = promoted(x, y)
    if not x.ndim or not y.ndim:
        raise ValueError(f"x and y need at least one axis, got {_shapes(x, y)}")
    last, inner = x.ndim - 1, max(y.ndim - 2, 0)
    _check_inner(x, last, y, inner)
    return contracted(x, y, [last], [inner])


def _shapes(x: Tensor, y: Tensor) -> str:
    return f"shapes {x.spec.shape} and {y.spec.shape}"


def _check_inner(x: Tensor, a: int, y: Tensor, b: int) -> None:
    m, n = x.spec.shape[a], y.spec.shape[b]
    if None not in (m, n) and m != n:
        raise ValueError(
            f"axis {a} of x and axis {b} of y must have equal sizes, got {_shapes(x, y)} "
            f"(x.shape[{a}] != y.shape[{b}]: {m} != {n})"
        )


@api
def matmul(x: TensorLike, y: TensorLike) -> Tensor:
    """Multiply matrices, or stacks of matrices, as `numpy.matmul` does.

    An addition of Backplane: the documents of the Keras backend API do not have it. `x @ y` does
    the same.

    Args:
        x: Tensor of numbers with at least one axis. A vector counts as a row.
        y: Tensor of numbers with at least one axis. A vector counts as a column.

    Returns:
        The products over the last axis of `x` and the last but one of `y`. All other axes but the
        last two are batch axes and are broadcast. `K.dot` combines each matrix of `x` with each of
        `y` instead.

    Raises:
        ValueError: if an operand is a scalar, or if the shapes do not fit.

    Example:
        >>> from backplane import backend as K
        >>> K.int_shape(K.matmul(K.ones((7, 2, 3)), K.ones((7, 3, 4))))
        (7, 2, 4)
    """
    x, y = promoted(x, y)
    if not x.ndim or not y.ndim:
        raise ValueError(f"x and y need at least one axis, got {_shapes(x, y)}")
    return matrix_product(x, y)


@api
def einsum(subscripts: str, *operands: TensorLike) -> Tensor:
    """Sum products of elements, as the subscripts say.

    An addition of Backplane: the documents of the Keras backend API do not have it.

    Args:
        subscripts: The letters of the axes of each operand, with commas between operands, and after
            `->` those of the result, as in `numpy.einsum`. A letter that the result lacks is summed
            over. `...` stands for axes without letters, which are broadcast. Without `->` the
            result has the letters that occur once, in alphabetic order.
        *operands: One or several tensors of numbers.

    Returns:
        A tensor with one axis for each letter of the result. Operands are multiplied in pairs, in
        an order that makes small products first.

    Raises:
        ValueError: if the subscripts do not fit the operands.

    Example:
        >>> from backplane import backend as K
        >>> K.int_shape(K.einsum("bij,bjk->bik", K.ones((7, 2, 3)), K.ones((7, 3, 4))))
        (7, 2, 4)
    """
    if not isinstance(subscripts, str):
        raise TypeError(f"subscripts must be a string, got {subscripts!r}")
    if not operands:
        raise ValueError(f"subscripts {subscripts!r} need at least one operand, got none")
    return sum_of_products(subscripts, *promoted(*operands))


@api
def batch_dot(x: TensorLike, y: TensorLike, axes: Axis | Sequence[Axis] | None = None) -> Tensor:
    """Multiply each sample of a batch with its counterpart in another batch.

    Args:
        x: Tensor with at least two axes. The first axis is that of the samples.
        y: Tensor with at least two axes and as many samples.
        axes: The axis of each tensor along which they are multiplied and summed: an int for both,
            or a pair. Negative axes count from the end. The default is the last axis of `x` and the
            second to last of `y`, or the last of `y` if that has only two.

    Returns:
        A tensor with the axis of the samples, the other axes of `x`, then the other axes of `y`. If
        only the samples are left, the result gets a last axis of size 1.

    Raises:
        ValueError: if an operand has fewer than two axes, if `axes` names no axis or the axis of
            the samples, or if known sizes do not fit.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.batch_dot(K.constant([[1, 2], [3, 4]]), K.constant([[5, 6], [7, 8]]), axes=1))
        array([[17.],
               [53.]], dtype=float32)
        >>> K.int_shape(K.batch_dot(K.ones((32, 20, 1)), K.ones((32, 30, 20)), axes=(1, 2)))
        (32, 1, 30)
    """
    x, y = promoted(x, y)
    if x.ndim < 2 or y.ndim < 2:
        raise ValueError(f"x and y need at least two axes, got {_shapes(x, y)}")
    a, b = _batch_axes(axes, x, y)
    m, n = x.spec.shape[0], y.spec.shape[0]
    if None not in (m, n) and m != n:
        raise ValueError(f"x and y have different batch sizes, got {_shapes(x, y)}")
    _check_inner(x, a, y, b)
    if x.ndim == y.ndim == 2:
        return red.sum(ew.mul(x, y), axes=(1,), keepdims=True)
    return contracted(x, y, [a], [b], batch=[(0, 0)])


def _batch_axes(axes: object, x: Tensor, y: Tensor) -> tuple[int, int]:
    """The axis of `x` and the axis of `y` that are summed over."""
    if axes is None:
        return x.ndim - 1, y.ndim - 1 if y.ndim == 2 else y.ndim - 2
    given = axes.tolist() if isinstance(axes, np.ndarray) else axes
    pair = given if isinstance(given, list | tuple) else (given, given)
    try:
        a, b = (as_int(axis, "axes") for axis in pair)
        a, b = normalize_axis(a, x.ndim), normalize_axis(b, y.ndim)
    except (TypeError, ValueError):
        raise ValueError(
            "axes must be an int or a pair of ints that name one axis of x and one of "
            f"y, of {_shapes(x, y)}; got {axes!r}"
        ) from None
    if 0 in (a, b):
        raise ValueError(
            f"axes {axes!r} names axis 0, that of the samples, for {_shapes(x, y)}; "
            "if the operands are not batches, add an axis with K.expand_dims(x, 0)"
        )
    return a, b


@api
def transpose(x: TensorLike) -> Tensor:
    """A tensor with its axes in reverse order.

    Args:
        x: Tensor.

    Returns:
        A tensor.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.transpose(K.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])))
        array([[1., 4.],
               [2., 5.],
               [3., 6.]], dtype=float32)
    """
    x = as_tensor(x)
    return permuted(x, range(x.ndim)[::-1])


SQUARED_LENGTH_FLOOR = 1e-12
"""Squared lengths below it count as it, so that 0 is normalized to 0."""


@api
def l2_normalize(x: TensorLike, axis: Axes = None) -> Tensor:
    """Scale a tensor along an axis to length 1, the root of the sum of squares.

    Args:
        x: Tensor; integers and bools become `K.floatx()`.
        axis: Int or list of ints in [-ndim, ndim): the axes that make up one vector; None for all
            axes.

    Returns:
        A float tensor of the shape of `x`: x / sqrt(max(sum(x ** 2), 1e-12)). Zeros stay zeros.

    Raises:
        ValueError: if an axis is out of range or named twice.

    Source: classic Keras on TensorFlow. The documents' NumPy implementation divides 0 by 0.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.l2_normalize(K.constant([[3.0, 4.0], [0.0, 0.0]]), axis=1))
        array([[0.6, 0.8],
               [0. , 0. ]], dtype=float32)
    """
    x = float_tensor(x)
    # float16 holds neither the floor nor the squares of small numbers.
    wide = cast_to(x, "float32") if x.spec.dtype == "float16" else x
    axes = as_axes(axis, x)
    squares = ew.mul(wide, wide)
    total = red.sum(squares, axes=axes, keepdims=True) if axes else squares
    length = ew.sqrt(ew.maximum(total, like(SQUARED_LENGTH_FLOOR, wide)))
    return cast_to(ew.div(wide, length), x.spec.dtype)


@api
def bias_add(x: TensorLike, bias: TensorLike, data_format: DataFormat | None = None) -> Tensor:
    """Add a bias to a tensor: one number for each channel, or for each element of an example.

    Args:
        x: Tensor with 2 axes or more. With 3 to 5 axes `data_format` says which one is that of the
            channels. Otherwise it is the last.
        bias: Vector with an element for each channel, or a tensor (*spatial, channels) with one
            axis less than `x`. With channels first such a tensor is reshaped, not transposed, to
            (channels, *spatial), as in Keras.
        data_format: `"channels_last"`, `"channels_first"`, or None for `K.image_data_format()`.

    Returns:
        A tensor of the shape of `x`.

    Raises:
        ValueError: if `data_format` is not a data format, or the shape of `bias` does not fit.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.bias_add(K.zeros((1, 2, 2)), [1.0, 2.0]))
        array([[[1., 2.],
                [1., 2.]]], dtype=float32)
        >>> K.eval(K.bias_add(K.zeros((1, 2, 2)), [1.0, 2.0], data_format="channels_first"))
        array([[[1., 1.],
                [2., 2.]]], dtype=float32)
    """
    first = is_first(data_format)
    x, bias = promoted(x, bias)
    rank, shape = x.ndim, bias.spec.shape
    if rank < 2 or len(shape) not in (1, rank - 1):
        raise ValueError(
            f"bias must be a vector or have one axis less than x, which must have 2 or "
            f"more; got shapes {shape} for bias and {x.spec.shape} for x"
        )
    if None in shape:
        raise ValueError(f"all sizes of bias must be known, got shape {shape}")
    if first and 3 <= rank <= 5:
        spatial = shape[:-1] or (1,) * (rank - 2)
        shape = (shape[-1], *spatial)
        bias = reshape(bias, shape=shape)
    if not is_broadcast(shape, x.spec.shape):
        raise ValueError(f"bias {bias.spec.shape} does not fit x of shape {x.spec.shape}")
    return x + bias
