"""Random numbers by the Philox generator of `tf.random.stateless_*`, keyed by our four words."""

from __future__ import annotations

from backplane.engines.base import Table, Value
from backplane.engines.tensorflow.constants import ints, shape_vector
from backplane.engines.tensorflow.library import raw, tf

TABLE = Table()

_PHILOX = 1


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


@TABLE.add("random_uniform")
def random_uniform(key: Value, *dims: Value, shape: tuple[int | None, ...], dtype: str) -> Value:
    """Uniform numbers in [0, 1)."""
    return raw.StatelessRandomUniformV2(
        shape=shape_vector(shape, dims), dtype=tf.dtypes.as_dtype(dtype), **_state(key)
    )


@TABLE.add("random_normal")
def random_normal(key: Value, *dims: Value, shape: tuple[int | None, ...], dtype: str) -> Value:
    """Normally distributed numbers of mean 0 and deviation 1."""
    return raw.StatelessRandomNormalV2(
        shape=shape_vector(shape, dims), dtype=tf.dtypes.as_dtype(dtype), **_state(key)
    )
