"""Reductions, running sums, softmax and its relatives."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from backplane.engines.table import (
    ADDED_SINGLY,
    SEVERAL,
    Axes,
    Lowering,
    Shape,
    Table,
    Value,
    even_part,
    runs_of,
)
from backplane.engines.tensorflow.constants import (
    ints,
    number,
    shape_vector,
    size_of,
    sizes_of,
    vector,
)
from backplane.engines.tensorflow.library import HALVES, computed_in, opaque, raw, tf

_RUNNING = {**HALVES, tf.float32: tf.float64}
"""Kernels of running sums and products add the elements one by one: of a million float32 the last
sum would be 1 % off."""


_MOVED = frozenset(
    (
        "Acos", "Acosh", "Asin", "Asinh", "Atan", "Ceil", "Elu", "Erf", "Erfc", "Exp", "Expm1",
        "Floor", "LeakyRelu", "Log", "Log1p", "Neg", "Pow", "Relu", "Relu6", "Rint", "Rsqrt",
        "Selu", "Sigmoid", "Sign", "Sinh", "Softplus", "Softsign", "Sqrt", "Tanh",
        # TensorFlow's optimizer may take these away, and then one of those above stands there.
        "AddV2", "BroadcastTo", "Cast", "ConcatV2", "ExpandDims", "Identity", "Mul", "Pad",
        "RealDiv", "Reshape", "Slice", "Squeeze", "StopGradient", "StridedSlice", "Sub", "Tile",
        "Transpose",
    )
)  # fmt: skip
"""Operations that TensorFlow's optimizer moves behind a maximum or minimum, because they are
monotonic."""


def _kept(x: Value) -> Value:
    """The operand of a maximum or minimum. TensorFlow's optimizer would look for the largest x
    instead of the largest f(x): elements that f makes equal would not be tied any more, and NaN,
    such as the logarithm of -1, would be passed over.
    """
    return opaque(x) if tf.is_symbolic_tensor(x) and x.op.type in _MOVED else x


def _reduction(kernel: Callable[..., Value]) -> Lowering:
    def lowering(x: Value, *, axes: Axes, keepdims: bool) -> Value:
        return kernel(input=x, axis=ints(axes), keep_dims=keepdims)

    return lowering


def _extreme(kernel: Callable[..., Value]) -> Lowering:
    """A maximum or minimum, checked to have elements, without which TensorFlow gives ±inf."""

    def lowering(x: Value, *, axes: Axes, keepdims: bool) -> Value:
        y = kernel(input=_kept(x), axis=ints(axes), keep_dims=keepdims)
        if all(x.shape[axis] for axis in axes):
            return y
        fine = tf.logical_or(tf.size(x) > 0, tf.equal(tf.size(y), 0))
        message = "the maximum or minimum of no elements"
        with tf.control_dependencies([raw.Assert(condition=fine, data=[message, tf.shape(x)])]):
            return raw.Identity(input=y)

    return lowering


def sum_(x: Value, *, axes: Axes, keepdims: bool) -> Value:
    """The sum. Many floats are added up in two steps."""
    if _adds_many(x, axes):
        kept = [1 if i in axes else n for i, n in enumerate(sizes_of(x))]
        for run in runs_of(axes):
            x = _sum_of_many(x, run)
        wanted = kept if keepdims else [n for i, n in enumerate(kept) if i not in axes]
        return raw.Reshape(tensor=x, shape=vector(wanted))
    rank = x.shape.rank
    if rank > 1 and not keepdims and axes == tuple(range(rank - 1)) and x.dtype.is_floating:
        # The kernel for the gradient of a bias: three times as fast as `Sum` on images.
        return raw.BiasAddGrad(out_backprop=x)
    return raw.Sum(input=x, axis=ints(axes), keep_dims=keepdims)


def _adds_many(x: Value, axes: Axes) -> bool:
    """Whether a kernel may add many floats one after the other: of 70,000 equal rows the mean would
    be 0.07 % off. Along the last axis the kernels do better.
    """
    counts = [x.shape[axis] for axis in axes]
    last = not axes or axes == tuple(range(axes[0], x.shape.rank))
    if last or not x.dtype.is_floating:
        return False
    known = math.prod([n for n in counts if n is not None])
    if None in counts:
        return known > SEVERAL and (len(runs_of(axes)) > 1 or even_part(known) > 0)
    return known > ADDED_SINGLY


def _sum_of_many(x: Value, run: Axes) -> Value:
    """The sum over neighbouring axes in two steps; one axis of size 1 is left for each."""
    sizes, first, last = sizes_of(x), run[0], run[-1]
    before, counts, after = sizes[:first], sizes[first : last + 1], sizes[last + 1 :]
    known = math.prod([n for n in counts if isinstance(n, int)])
    fixed = all(isinstance(n, int) for n in counts)
    part = even_part(known, math.isqrt(known) if fixed else 256)
    ones = [1] * len(run)
    if known <= ADDED_SINGLY if fixed else not part:
        return raw.Sum(input=x, axis=ints(run), keep_dims=True)
    if not part:  # what is left over is added apart
        x = raw.Reshape(tensor=x, shape=vector((*before, known, *after)))
        cut = ints((known - known % 512, known % 512))
        parts = raw.SplitV(value=x, size_splits=cut, axis=ints(first), num_split=2)
        head, tail = [sum_(y, axes=(first,), keepdims=True) for y in parts]
        return raw.Reshape(tensor=raw.AddV2(x=head, y=tail), shape=vector((*before, *ones, *after)))
    rest = (part, *after)
    if before or not all(isinstance(n, int) for n in after):
        outer = known // part if fixed else -1
        x = raw.Reshape(tensor=x, shape=vector((*before, outer, *rest)))
        x = sum_(x, axes=(first,), keepdims=False)
    else:  # whole rows, for the faster kernel
        x = raw.Reshape(tensor=x, shape=ints((-1, math.prod(rest))))
        x = raw.Reshape(tensor=sum_(x, axes=(0,), keepdims=False), shape=ints(rest))
    x = sum_(x, axes=(first,), keepdims=False)
    return raw.Reshape(tensor=x, shape=vector((*before, *ones, *after)))


def mean(x: Value, *, axes: Axes, keepdims: bool) -> Value:
    """The mean, of such a sum."""
    if not _adds_many(x, axes):
        return raw.Mean(input=x, axis=ints(axes), keep_dims=keepdims)
    count = math.prod([n for axis in axes if (n := x.shape[axis]) is not None])
    y = raw.RealDiv(x=sum_(x, axes=axes, keepdims=keepdims), y=number(count, x.dtype.name))
    for axis in axes:
        if x.shape[axis] is None:
            y = raw.RealDiv(x=y, y=tf.cast(size_of(x, axis=axis), x.dtype))
    return y


def _position(kernel: Callable[..., Value]) -> Lowering:
    def lowering(x: Value, *, axis: int) -> Value:
        return kernel(input=_kept(x), dimension=ints(axis), output_type=tf.int64)

    return lowering


def _running(kernel: Lowering) -> Lowering:
    """A kernel element by element: half floats in float32, many float32 in float64."""

    def along(x: Value, *, axis: int, reverse: bool) -> Value:
        return kernel(x=x, axis=ints(axis), reverse=reverse)

    few, many = computed_in(HALVES, along), computed_in(_RUNNING, along)

    def lowering(x: Value, *, axis: int, reverse: bool) -> Value:
        count = x.shape[axis]
        run = few if count is not None and count <= ADDED_SINGLY else many
        return run(x, axis=axis, reverse=reverse)

    return lowering


TABLE = Table(
    sum=computed_in(HALVES, sum_),
    mean=computed_in(HALVES, mean),
    logsumexp=computed_in(
        HALVES, lambda x, *, axes, keepdims: tf.reduce_logsumexp(x, ints(axes), keepdims)
    ),
    prod=_reduction(raw.Prod),
    any=_reduction(raw.Any),
    all=_reduction(raw.All),
    max=_extreme(raw.Max),
    min=_extreme(raw.Min),
    argmax=_position(raw.ArgMax),
    argmin=_position(raw.ArgMin),
    cumsum=_running(raw.Cumsum),
    cumprod=_running(raw.Cumprod),
    top_k=lambda x, *, k: list(raw.TopKV2(input=x, k=ints(k))),
)


@TABLE.add("softmax")
def _softmax(x: Value, *, axis: int) -> Value:
    """TensorFlow's softmax, with NaN in rows that hold one, where oneDNN's kernel gives 0."""
    y = raw.Softmax(logits=x) if axis == x.shape.rank - 1 else tf.nn.softmax(x, axis)
    if x.dtype == tf.float64:
        return y
    total = raw.Sum(input=y, axis=ints((axis,)), keep_dims=True)
    return raw.AddV2(x=y, y=raw.Mul(x=total, y=number(0, y.dtype.name)))


@TABLE.add("log_softmax")
@partial(computed_in, HALVES)
def _log_softmax(x: Value, *, axis: int) -> Value:
    """The kernel adds up exponentials in float16, whose sum over many classes would be infinite."""
    return raw.LogSoftmax(logits=x) if axis == x.shape.rank - 1 else tf.nn.log_softmax(x, axis)


@TABLE.add("sum_to")
def _sum_to(x: Value, *dims: Value, shape: Shape) -> Value:
    """The sum over the axes that were broadcast, which are found out when the program runs."""
    wanted = shape_vector(shape, dims)
    axes, _ = raw.BroadcastGradientArgs(s0=wanted, s1=tf.shape(x))
    y = computed_in(HALVES, lambda x: raw.Sum(input=x, axis=axes))(x)
    return raw.Reshape(tensor=y, shape=wanted)


def _ordered_bits(x: Value) -> Value:
    """Integers in the order of the elements: zeros are equal, and NaN is the largest."""
    if x.dtype in HALVES:
        return _ordered_bits(raw.Cast(x=x, DstT=tf.float32))
    if not x.dtype.is_floating:
        if x.dtype == tf.uint64:
            return raw.Bitcast(input=x, type=tf.int64) ^ tf.int64.min
        wide = tf.int64 if x.dtype.size == 8 or x.dtype == tf.uint32 else tf.int32
        return raw.Cast(x=x, DstT=wide)
    kind = tf.int32 if x.dtype == tf.float32 else tf.int64
    integers = raw.Bitcast(input=x + number(0, x.dtype.name), type=kind)  # −0 + 0 is 0
    sign = raw.RightShift(x=integers, y=number(kind.size * 8 - 1, kind.name))
    largest = number(kind.max, kind.name)
    keys = raw.BitwiseXor(x=integers, y=raw.BitwiseAnd(x=sign, y=largest))
    return raw.SelectV2(condition=raw.IsNan(x=x), t=largest, e=keys)


@TABLE.add("sort")
def _sort(x: Value) -> list[Value]:
    """The order of the largest of inverted integers: ties keep their order, as `TopKV2` says."""
    keys = raw.Invert(x=_ordered_bits(tf.stop_gradient(x)))
    order = raw.TopKV2(input=keys, k=size_of(x, axis=x.shape.rank - 1)).indices
    return [tf.gather(x, order, batch_dims=x.shape.rank - 1), order]
