"""Random numbers by the Philox generator of `tf.random.stateless_*`, keyed by our four words, and
by the portable Threefry.
"""

from __future__ import annotations

from functools import cache
from weakref import ref

from backplane.core.graph import KeySource
from backplane.engines.arrays.random import threefry2x32
from backplane.engines.programs import Function
from backplane.engines.table import Lowering, Shape, Table, Value
from backplane.engines.tensorflow.constants import ints, number, shape_vector
from backplane.engines.tensorflow.library import raw, tf

_PHILOX = 1
_ANONYMOUS = "cd2c89b7-88b7-44c8-ad83-06c2a9158347"
"""The name of resources that are found by their handle alone.

Source: `ResourceHandle::ANONYMOUS_NAME` in tensorflow/core/framework/resource_handle.h
"""


def _state(key: Value) -> dict[str, Value]:
    """The seed is Philox' key; counter and fold are the upper half of its counter.

    A draw counts in the lower half, so that no two draws share a part of their sequence.
    """
    words = raw.Bitcast(input=raw.Reshape(tensor=key, shape=ints((2, 2))), type=tf.uint64)
    return {
        "key": raw.Slice(input=words, begin=ints((0,)), size=ints((1,))),
        "counter": raw.Pad(
            input=raw.Slice(input=words, begin=ints((1,)), size=ints((1,))),
            paddings=ints(((1, 0),)),
        ),
        "alg": ints(_PHILOX),
    }


def counted(source: KeySource) -> Value:
    """The keys of a source, one at each run of the function that is being traced.

    A variable counts them, made outside of the function and freed with it. (`tf.Variable` refuses
    to be made while a function is traced again.) In a graph of TensorFlow 1, whose variables would
    want to be initialized, there is one key for all runs.
    """
    with tf.init_scope():
        if not tf.executing_eagerly():
            return tf.constant(source.draw())
        count = raw.VarHandleOp(dtype=tf.int64, shape=(), shared_name=_ANONYMOUS)
        raw.AssignVariableOp(resource=count, value=tf.constant(source.counter, tf.int64))
    source.elsewhere = _Count(count)
    count.source = source  # It lives as long as its counter.
    drawn = raw.ReadVariableOp(resource=count, dtype=tf.int64)
    with tf.control_dependencies([drawn]):
        raw.AssignAddVariableOp(resource=count, value=tf.constant(1, tf.int64))
    low, high, _, fold = (tf.constant(word, tf.uint32) for word in source.words())
    return tf.stack([low, high, tf.cast(tf.reshape(drawn, ()), tf.uint32), fold])


class _Count:
    """A source's counter in a variable, which is freed with the traced function."""

    def __init__(self, variable: Value) -> None:
        self._variable = ref(variable)

    def read(self) -> int | None:
        """The count, if the function still exists."""
        variable = self._variable()
        if variable is None:
            return None
        with tf.init_scope():
            return int(raw.ReadVariableOp(resource=variable, dtype=tf.int64))

    def write(self, count: int) -> None:
        """Set the count, if the function still exists."""
        variable = self._variable()
        if variable is not None:
            with tf.init_scope():
                raw.AssignVariableOp(resource=variable, value=tf.constant(count, tf.int64))


def _sampler(kernel: Lowering) -> Lowering:
    def lowering(key: Value, *dims: Value, shape: Shape, dtype: str) -> Value:
        wanted = tf.dtypes.as_dtype(dtype)
        return kernel(shape=shape_vector(shape, dims), dtype=wanted, **_state(key))

    return lowering


TABLE = Table(
    random_uniform=_sampler(raw.StatelessRandomUniformV2),
    random_normal=_sampler(raw.StatelessRandomNormalV2),
)


def _words(key: Value, count: Value) -> Value:
    """So many random words of uint32: the first ones of all blocks, then the second ones."""
    low, high, counter, fold = tf.unstack(key)
    blocks = tf.cast(tf.range((count + 1) // 2), tf.uint32)
    subkey = threefry2x32((low, high), counter, fold, _rotated)
    both = threefry2x32(subkey, blocks, tf.zeros_like(blocks), _rotated)
    return tf.concat(both, 0)[:count]


def _rotated(x: Value, count: int) -> Value:
    """The bits of `x` turned to the left. Its parts have no bit in common, so XOR joins them."""
    high = raw.LeftShift(x=x, y=number(count, "uint32"))
    rotated: Value = high ^ raw.RightShift(x=x, y=number(32 - count, "uint32"))
    return rotated


@cache
def _function_of_words() -> Function:
    """`_words` as a function that is traced once. Python makes its 270 operations in 70 ms."""
    key, count = tf.TensorSpec((4,), tf.uint32), tf.TensorSpec((), tf.int32)
    function = tf.function(_words, input_signature=[key, count], autograph=False)
    with tf.init_scope(), tf.device(None):
        return function.get_concrete_function()


@TABLE.add("random_bits")
def _random_bits(key: Value, *dims: Value, shape: Shape) -> Value:
    """The portable words. A function that is made in a graph of TensorFlow 1 serves no other graph,
    so there they are plain operations.
    """
    sizes = shape_vector(shape, dims)
    with tf.init_scope():
        words = _function_of_words() if tf.executing_eagerly() else _words
    return raw.Reshape(tensor=words(key, tf.reduce_prod(sizes)), shape=sizes)
