"""Small constants and vectors of sizes.

Converting a Python tuple to a tensor costs more than most operations on small tensors, and traced
programs would hold a copy for every use. So each axis, permutation and static shape is made once,
as an eager tensor. TensorFlow hands such a tensor to a traced function as an argument, at every
call and at every step of a loop. `hold_constants` makes it a node of the graph that uses it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from backplane.engines.table import Shape, Value, merge
from backplane.engines.tensorflow.library import raw, tf

MOST_HELD = 128
"""Elements up to which a constant becomes a node."""


def hold_constants() -> None:
    """From now on, small eager tensors of integers and bools that are used in the graph of the
    moment become constants in it. TensorFlow's optimizer then knows them: it folds what is computed
    from them, and a loop does not carry them from step to step.
    """
    graph = tf.compat.v1.get_default_graph()
    capture = graph.capture
    held: dict[int, tuple[Value, Value]] = {}

    def capture_or_hold(tensor: Value, *args: Any, **kwargs: Any) -> Value:
        if not hasattr(tensor, "numpy") or not _is_small(tensor):
            return capture(tensor, *args, **kwargs)
        if id(tensor) not in held:
            with graph.as_default(), tf.control_dependencies(None):
                held[id(tensor)] = tensor, tf.constant(tensor.numpy(), tensor.dtype)
        return held[id(tensor)][1]

    graph.capture = capture_or_hold


def _is_small(tensor: Value) -> bool:
    # Sizes, axes and bounds. The optimizer would rewrite arithmetic with floats that it knows, and
    # some of that rounds otherwise: the gradient of `log` was off by thousands of ulps at 4e34.
    plain = tensor.dtype.is_integer or tensor.dtype.is_bool
    return plain and math.prod(tensor.shape) <= MOST_HELD


@lru_cache(maxsize=4096)
def ints(value: Any) -> Value:
    """An int, or nested tuples of ints, as an int32 tensor."""
    with tf.init_scope():
        return tf.constant(value, tf.int32)


@lru_cache(maxsize=4096, typed=True)
def _number(value: float, dtype: str, sign: float) -> Value:
    wanted = tf.dtypes.as_dtype(dtype)
    if not wanted.is_floating:
        value = bool(value) if wanted.is_bool else int(value)
    with tf.init_scope():
        # An array: TensorFlow keeps Python's scalars too, and takes -0.0 for 0.0.
        return tf.constant(np.asarray(value, wanted.as_numpy_dtype), wanted)


def number(value: float, dtype: str) -> Value:
    """A Python number as a scalar tensor."""
    # The sign is part of the key because 0.0 == -0.0.
    return _number(value, dtype, math.copysign(1.0, value))


def size(value: Value) -> Value:
    """One size as an int32 scalar tensor."""
    if isinstance(value, int):
        return ints(value)
    return tf.cast(value, tf.int32)


def vector(sizes: Sequence[Value]) -> Value:
    """Sizes, each an int or a scalar tensor, as one int32 vector."""
    if all(isinstance(n, int) for n in sizes):
        return ints(tuple(sizes))
    return raw.Pack(values=[size(n) for n in sizes])


def table(pairs: Sequence[tuple[Value, Value]]) -> Value:
    """Pairs of sizes, such as paddings, as an int32 matrix."""
    if all(isinstance(n, int) for pair in pairs for n in pair):
        return ints(tuple(pairs))
    return raw.Pack(values=[vector(pair) for pair in pairs])


def shape_vector(shape: Shape, dims: Sequence[Value]) -> Value:
    """`shape`, its None filled by `dims`, as an int32 vector."""
    return vector(merge(shape, dims)) if dims else ints(shape)


def sizes_of(x: Value) -> tuple[Value, ...]:
    """The sizes of x: ints where they are known, scalar tensors where not."""
    known = tuple(x.shape)
    if None not in known:
        return known
    actual = tf.unstack(tf.shape(x))
    return tuple(b if a is None else a for a, b in zip(known, actual, strict=True))


def size_of(x: Value, *, axis: int) -> Value:
    """The size of an axis as an int32 scalar."""
    known = x.shape[axis]
    if known is not None:
        return ints(known)
    begin, end = ints((axis,)), ints((axis + 1,))
    return raw.StridedSlice(
        input=tf.shape(x), begin=begin, end=end, strides=ints((1,)), shrink_axis_mask=1
    )


def larger(a: Value, b: int) -> Value:
    """The larger one of a size and an int."""
    return max(a, b) if isinstance(a, int) else tf.maximum(a, b)
