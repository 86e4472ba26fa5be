"""Reductions, running sums, softmax and its relatives."""

from __future__ import annotations

from collections.abc import Callable

from backplane.engines.table import ADDED_SINGLY, Axes, Lowering, Shape, Table, Value
from backplane.engines.tensorflow.constants import ints, number, shape_vector
from backplane.engines.tensorflow.library import HALVES, computed_in, raw, tf

_RUNNING = {**HALVES, tf.float32: tf.float64}
"""Kernels of running sums and products add the elements one by one: of a million float32 the last
sum would be 1 % off."""


def _reduction(kernel: Callable[..., Value]) -> Lowering:
    def lowering(x: Value, *, axes: Axes, keepdims: bool) -> Value:
        return kernel(input=x, axis=ints(axes), keep_dims=keepdims)

    return lowering


def _extreme(kernel: Callable[..., Value]) -> Lowering:
    """A maximum or minimum. It is checked that there are elements, of which TensorFlow would give
    ±inf.
    """

    def lowering(x: Value, *, axes: Axes, keepdims: bool) -> Value:
        y = kernel(input=x, axis=ints(axes), keep_dims=keepdims)
        if all(x.shape[axis] for axis in axes):
            return y
        fine = tf.logical_or(tf.size(x) > 0, tf.equal(tf.size(y), 0))
        message = "the maximum or minimum of no elements"
        with tf.control_dependencies([raw.Assert(condition=fine, data=[message, tf.shape(x)])]):
            return raw.Identity(input=y)

    return lowering


def _sum(x: Value, *, axes: Axes, keepdims: bool) -> Value:
    rank = x.shape.rank
    if rank > 1 and not keepdims and axes == tuple(range(rank - 1)) and x.dtype.is_floating:
        # The kernel for the gradient of a bias: three times as fast as `Sum` on images.
        return raw.BiasAddGrad(out_backprop=x)
    return raw.Sum(input=x, axis=ints(axes), keep_dims=keepdims)


def _logsumexp(x: Value, *, axes: Axes, keepdims: bool) -> Value:
    return tf.reduce_logsumexp(x, ints(axes), keepdims)


def _running(function: Lowering) -> Lowering:
    """`function`, whose kernel takes the elements one by one: half floats in float32, many float32
    in float64.
    """
    few, many = computed_in(HALVES, function), computed_in(_RUNNING, function)

    def lowering(x: Value, *, axis: int, reverse: bool) -> Value:
        count = x.shape[axis]
        run = few if count is not None and count <= ADDED_SINGLY else many
        return run(x, axis=axis, reverse=reverse)

    return lowering


def _cumsum(x: Value, *, axis: int, reverse: bool) -> Value:
    return raw.Cumsum(x=x, axis=ints(axis), reverse=reverse)


def _cumprod(x: Value, *, axis: int, reverse: bool) -> Value:
    return raw.Cumprod(x=x, axis=ints(axis), reverse=reverse)


TABLE = Table(
    sum=computed_in(HALVES, _sum),
    mean=computed_in(HALVES, _reduction(raw.Mean)),
    logsumexp=computed_in(HALVES, _logsumexp),
    prod=_reduction(raw.Prod),
    any=_reduction(raw.Any),
    all=_reduction(raw.All),
    max=_extreme(raw.Max),
    min=_extreme(raw.Min),
    argmax=lambda x, *, axis: raw.ArgMax(input=x, dimension=ints(axis), output_type=tf.int64),
    argmin=lambda x, *, axis: raw.ArgMin(input=x, dimension=ints(axis), output_type=tf.int64),
    cumsum=_running(_cumsum),
    cumprod=_running(_cumprod),
    top_k=lambda x, *, k: list(raw.TopKV2(input=x, k=ints(k))),
)


@TABLE.add("softmax")
def _softmax(x: Value, *, axis: int) -> Value:
    """TensorFlow's softmax plus a term that makes a whole row NaN if one element is: oneDNN's
    kernel gives 0 beside a NaN.
    """
    y = raw.Softmax(logits=x) if axis == x.shape.rank - 1 else tf.nn.softmax(x, axis)
    if x.dtype == tf.float64:
        return y
    total = raw.Sum(input=y, axis=ints((axis,)), keep_dims=True)
    return raw.AddV2(x=y, y=raw.Mul(x=total, y=number(0, y.dtype.name)))


@TABLE.add("log_softmax")
def _log_softmax(x: Value, *, axis: int) -> Value:
    return raw.LogSoftmax(logits=x) if axis == x.shape.rank - 1 else tf.nn.log_softmax(x, axis)


@TABLE.add("sum_to")
def _sum_to(x: Value, *dims: Value, shape: Shape) -> Value:
    """The sum over the axes that were broadcast, which are found out when the program runs."""
    wanted = shape_vector(shape, dims)
    axes, _ = raw.BroadcastGradientArgs(s0=wanted, s1=tf.shape(x))
    y = computed_in(HALVES, lambda x: raw.Sum(input=x, axis=axes))(x)
    return raw.Reshape(tensor=y, shape=wanted)
