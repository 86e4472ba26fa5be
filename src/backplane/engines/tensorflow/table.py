"""Element-wise operations, reductions and the matrix product.

`raw_ops` are TensorFlow's kernels without the Python wrappers around them: the same results, tapes
and traces in about half the time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from backplane.engines.base import Table, Value
from backplane.engines.tensorflow.constants import ints, number, shape_vector
from backplane.engines.tensorflow.library import raw, tf

_HALVES = frozenset((tf.float16, tf.bfloat16))
_UNSIGNED = frozenset((tf.uint8, tf.uint16, tf.uint32, tf.uint64))
_MATMUL_TYPES = _HALVES | {tf.float32, tf.float64, tf.int32, tf.int64}

TABLE = Table(
    exp=lambda x: raw.Exp(x=x),
    expm1=tf.math.expm1,
    log=lambda x: raw.Log(x=x),
    log1p=tf.math.log1p,
    sqrt=lambda x: raw.Sqrt(x=x),
    sin=tf.sin,
    cos=tf.cos,
    tanh=tf.tanh,
    sigmoid=lambda x: raw.Sigmoid(x=x),
    softplus=lambda x: raw.Softplus(features=x),
    relu=tf.nn.relu,
    sigmoid_grad=lambda g, y: raw.SigmoidGrad(y=y, dy=g),
    tanh_grad=lambda g, y: raw.TanhGrad(y=y, dy=g),
    logical_not=tf.logical_not,
    add=lambda x, y: raw.AddV2(x=x, y=y),
    mul=lambda x, y: raw.Mul(x=x, y=y),
    mul_no_nan=lambda x, y: raw.MulNoNan(x=x, y=y),
    div=tf.realdiv,
    mod=lambda x, y: raw.FloorMod(x=x, y=y),
    maximum=tf.maximum,
    minimum=tf.minimum,
    equal=lambda x, y: raw.Equal(x=x, y=y),
    not_equal=lambda x, y: raw.NotEqual(x=x, y=y),
    logical_and=tf.logical_and,
    logical_or=tf.logical_or,
    bit_and=tf.bitwise.bitwise_and,
    bit_or=tf.bitwise.bitwise_or,
    bit_xor=tf.bitwise.bitwise_xor,
    shift_left=tf.bitwise.left_shift,
    shift_right=tf.bitwise.right_shift,
    where=lambda c, x, y: raw.SelectV2(condition=c, t=x, e=y),
    identity=lambda x: raw.Identity(input=x),
    stop_gradient=tf.stop_gradient,
)


# --- element-wise where a kernel lacks a dtype ---------------------------------------------------


@TABLE.add("neg")
def neg(x: Value) -> Value:
    """-x; unsigned integers wrap around."""
    if x.dtype in _UNSIGNED:
        return raw.AddV2(x=raw.Invert(x=x), y=number(1, x.dtype.name))
    return raw.Neg(x=x)


@TABLE.add("sub")
def sub(x: Value, y: Value) -> Value:
    """X - y; unsigned integers wrap around."""
    if x.dtype in _UNSIGNED:
        # TensorFlow's optimizer turns 0 - y into a `Neg` that unsigned integers do not have.
        return raw.Invert(x=raw.AddV2(x=raw.Invert(x=x), y=y))
    return raw.Sub(x=x, y=y)


@TABLE.add("abs")
def abs_(x: Value) -> Value:
    """|x|."""
    return raw.Identity(input=x) if x.dtype in _UNSIGNED else raw.Abs(x=x)


@TABLE.add("sign")
def sign(x: Value) -> Value:
    """-1, 0 or 1."""
    if x.dtype in _UNSIGNED:
        return tf.cast(raw.NotEqual(x=x, y=tf.zeros_like(x)), x.dtype)
    return raw.Sign(x=x)


@TABLE.add("floor")
def floor(x: Value) -> Value:
    """Toward minus infinity; integers are whole already."""
    return raw.Floor(x=x) if x.dtype.is_floating else raw.Identity(input=x)


@TABLE.add("round")
def round_(x: Value) -> Value:
    """To the nearest whole number, halves to the even one."""
    return raw.Round(x=x) if x.dtype.is_floating else raw.Identity(input=x)


@TABLE.add("erfinv")
def erfinv(x: Value) -> Value:
    """Inverse of the error function."""
    if x.dtype in _HALVES:
        return tf.cast(raw.Erfinv(x=tf.cast(x, tf.float32)), x.dtype)
    return raw.Erfinv(x=x)


@TABLE.add("relu_grad")
def relu_grad(g: Value, y: Value) -> Value:
    """G where y is positive, else 0, also where g is infinite: there `ReluGrad` gives NaN."""
    zero = number(0, y.dtype.name)
    # Else the executor computes the mask with y, in the forward pass, and holds it until here.
    with tf.control_dependencies([g]):
        positive = raw.Greater(x=y, y=zero)
    return raw.SelectV2(condition=positive, t=g, e=zero)


@TABLE.add("floordiv")
def floordiv(x: Value, y: Value) -> Value:
    """The quotient that goes with `mod`; `FloorDiv` of floats, floor(x / y), may be one off."""
    if not x.dtype.is_floating:
        return raw.FloorDiv(x=x, y=y)
    x, y = tf.stop_gradient(x), tf.stop_gradient(y)
    quotient = x / y
    whole = tf.round((x - raw.FloorMod(x=x, y=y)) / y)
    return raw.SelectV2(condition=raw.Equal(x=y, y=tf.zeros_like(y)), t=quotient, e=whole)


@TABLE.add("pow")
def pow_(x: Value, y: Value) -> Value:
    """X to the power of y."""
    if x.dtype in _UNSIGNED:
        return tf.cast(raw.Pow(x=tf.cast(x, tf.int64), y=tf.cast(y, tf.int64)), x.dtype)
    return raw.Pow(x=x, y=y)


@TABLE.add("less")
def less(x: Value, y: Value) -> Value:
    """X < y; False < True."""
    if x.dtype == tf.bool:
        return tf.logical_and(tf.logical_not(x), y)
    return raw.Less(x=x, y=y)


@TABLE.add("less_equal")
def less_equal(x: Value, y: Value) -> Value:
    """X <= y; False <= True."""
    if x.dtype == tf.bool:
        return tf.logical_or(tf.logical_not(x), y)
    return raw.LessEqual(x=x, y=y)


@TABLE.add("cast")
def cast(x: Value, *, dtype: str) -> Value:
    """X in another dtype."""
    wanted = tf.dtypes.as_dtype(dtype)
    return x if x.dtype == wanted else raw.Cast(x=x, DstT=wanted)


@TABLE.add("print")
def print_(x: Value, *, message: str) -> Value:
    """X, printed when it is computed."""
    with tf.control_dependencies([tf.print(message, x, output_stream=sys.stdout)]):
        return raw.Identity(input=x)


# --- reductions ----------------------------------------------------------------------------------


def _in_float32(function: Callable[..., Value], x: Value, *args: Any) -> Value:
    """Half-precision kernels add up in half precision, where 2048 + 1 is 2048."""
    return tf.cast(function(tf.cast(x, tf.float32), *args), x.dtype)


@TABLE.add("sum")
def sum_(x: Value, *, axes: tuple[int, ...], keepdims: bool) -> Value:
    """Sum over axes."""
    if x.dtype in _HALVES:
        return _in_float32(_sum, x, axes, keepdims)
    return _sum(x, axes, keepdims)


def _sum(x: Value, axes: tuple[int, ...], keepdims: bool) -> Value:
    rank = x.shape.rank
    if rank > 1 and not keepdims and axes == tuple(range(rank - 1)) and x.dtype.is_floating:
        # The kernel for the gradient of a bias: three times as fast as `Sum` on images.
        return raw.BiasAddGrad(out_backprop=x)
    return raw.Sum(input=x, axis=ints(axes), keep_dims=keepdims)


@TABLE.add("mean")
def mean(x: Value, *, axes: tuple[int, ...], keepdims: bool) -> Value:
    """Mean over axes."""
    if x.dtype in _HALVES:
        return _in_float32(_mean, x, axes, keepdims)
    return _mean(x, axes, keepdims)


def _mean(x: Value, axes: tuple[int, ...], keepdims: bool) -> Value:
    return raw.Mean(input=x, axis=ints(axes), keep_dims=keepdims)


@TABLE.add("logsumexp")
def logsumexp(x: Value, *, axes: tuple[int, ...], keepdims: bool) -> Value:
    """Logarithm of the sum of exponentials over axes."""
    if x.dtype in _HALVES:
        return _in_float32(tf.reduce_logsumexp, x, ints(axes), keepdims)
    return tf.reduce_logsumexp(x, ints(axes), keepdims)


@TABLE.add("prod")
def prod(x: Value, *, axes: tuple[int, ...], keepdims: bool) -> Value:
    """Product over axes."""
    return raw.Prod(input=x, axis=ints(axes), keep_dims=keepdims)


@TABLE.add("any")
def any_(x: Value, *, axes: tuple[int, ...], keepdims: bool) -> Value:
    """Whether any element over axes is true."""
    return raw.Any(input=x, axis=ints(axes), keep_dims=keepdims)


@TABLE.add("all")
def all_(x: Value, *, axes: tuple[int, ...], keepdims: bool) -> Value:
    """Whether all elements over axes are true."""
    return raw.All(input=x, axis=ints(axes), keep_dims=keepdims)


@TABLE.add("max")
def max_(x: Value, *, axes: tuple[int, ...], keepdims: bool) -> Value:
    """Largest element over axes."""
    return _checked(raw.Max(input=x, axis=ints(axes), keep_dims=keepdims), x, axes)


@TABLE.add("min")
def min_(x: Value, *, axes: tuple[int, ...], keepdims: bool) -> Value:
    """Smallest element over axes."""
    return _checked(raw.Min(input=x, axis=ints(axes), keep_dims=keepdims), x, axes)


def _checked(y: Value, x: Value, axes: tuple[int, ...]) -> Value:
    """Y, a reduction of x, after the check that x has elements: TensorFlow would give ±inf."""
    shape = x.shape
    if all(shape[axis] for axis in axes):
        return y
    fine = tf.logical_or(tf.size(x) > 0, tf.equal(tf.size(y), 0))
    message = "the maximum or minimum of no elements"
    with tf.control_dependencies([raw.Assert(condition=fine, data=[message, tf.shape(x)])]):
        return raw.Identity(input=y)


@TABLE.add("argmax")
def argmax(x: Value, *, axis: int) -> Value:
    """Index of the first of the largest elements."""
    return raw.ArgMax(input=x, dimension=ints(axis), output_type=tf.int64)


@TABLE.add("argmin")
def argmin(x: Value, *, axis: int) -> Value:
    """Index of the first of the smallest elements."""
    return raw.ArgMin(input=x, dimension=ints(axis), output_type=tf.int64)


@TABLE.add("cumsum")
def cumsum(x: Value, *, axis: int, reverse: bool) -> Value:
    """Sums of the elements up to each one."""
    return raw.Cumsum(x=x, axis=ints(axis), reverse=reverse)


@TABLE.add("cumprod")
def cumprod(x: Value, *, axis: int, reverse: bool) -> Value:
    """Products of the elements up to each one."""
    return raw.Cumprod(x=x, axis=ints(axis), reverse=reverse)


@TABLE.add("softmax")
def softmax(x: Value, *, axis: int) -> Value:
    """Exponentials scaled to sum to one."""
    return raw.Softmax(logits=x) if axis == x.shape.rank - 1 else tf.nn.softmax(x, axis)


@TABLE.add("log_softmax")
def log_softmax(x: Value, *, axis: int) -> Value:
    """Logarithm of softmax."""
    return raw.LogSoftmax(logits=x) if axis == x.shape.rank - 1 else tf.nn.log_softmax(x, axis)


@TABLE.add("sum_to")
def sum_to(x: Value, *dims: Value, shape: tuple[int | None, ...]) -> Value:
    """X summed down to the shape that was broadcast to x's."""
    lead = x.shape.rank - len(shape)
    tail = list(zip(x.shape[lead:], shape, strict=True))
    if any(wanted is None and given != 1 for given, wanted in tail):
        return _sum_to_unknown(x, shape_vector(shape, dims))
    ones = [lead + i for i, (given, wanted) in enumerate(tail) if wanted == 1 and given != 1]
    axes = (*range(lead), *ones)
    if not axes:
        return raw.Identity(input=x)
    if not ones:
        return sum_(x, axes=axes, keepdims=False)
    y = sum_(x, axes=axes, keepdims=True)
    return raw.Squeeze(input=y, axis=list(range(lead))) if lead else y


def _sum_to_unknown(x: Value, shape: Value) -> Value:
    """Which axes were broadcast is found out when the program runs."""
    axes, _ = raw.BroadcastGradientArgs(s0=shape, s1=tf.shape(x))
    if x.dtype in _HALVES:
        y = tf.cast(raw.Sum(input=tf.cast(x, tf.float32), axis=axes), x.dtype)
    else:
        y = raw.Sum(input=x, axis=axes)
    return raw.Reshape(tensor=y, shape=shape)


@TABLE.add("top_k")
def top_k(x: Value, *, k: int) -> list[Value]:
    """The k largest along the last axis, and where they are."""
    return list(raw.TopKV2(input=x, k=ints(k)))


# --- linear algebra ------------------------------------------------------------------------------


@TABLE.add("matmul")
def matmul(x: Value, y: Value, *, transpose_x: bool, transpose_y: bool) -> Value:
    """Matrix product of the last two axes."""
    if x.dtype not in _MATMUL_TYPES:
        # Modulo 2⁶⁴ the product of wrapped integers is the wrapped product.
        wide = tf.cast(x, tf.int64), tf.cast(y, tf.int64)
        return tf.cast(matmul(*wide, transpose_x=transpose_x, transpose_y=transpose_y), x.dtype)
    if x.shape.rank == 2:
        return raw.MatMul(a=x, b=y, transpose_a=transpose_x, transpose_b=transpose_y)
    return raw.BatchMatMulV2(x=x, y=y, adj_x=transpose_x, adj_y=transpose_y)
