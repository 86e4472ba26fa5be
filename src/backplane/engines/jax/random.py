"""Random numbers: Threefry, which is JAX's own generator, with words laid out for speed.

For 300 000 float32 on one core `jax.random.uniform` takes 2.5 ms to run and 300 ms to compile, this
0.35 ms and 100 ms: JAX encrypts a block of two words for every word that it gives, so that a
sharded array needs no communication, and its primitive takes longer to compile than the rounds
written out. The words are those of `random_bits` everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from backplane.engines.arrays.random import threefry2x32
from backplane.engines.jax.compiled import sized
from backplane.engines.table import Ints, Table, Value


def words_at_once(key: tuple[Value, Value], count: int) -> Value:
    """So many words: the first ones of all blocks, then the second ones."""
    blocks = lax.iota(np.uint32, (count + 1) // 2)
    return lax.concatenate(threefry2x32(key, blocks, jnp.zeros_like(blocks)), 0)[:count]


def words_in_parts(key: tuple[Value, Value], count: int) -> Value:
    """The same words, each by itself: twice the time, but devices need not exchange any."""
    places, half = lax.iota(np.uint32, count), np.uint32((count + 1) // 2)
    first = places < half
    x, y = threefry2x32(key, lax.select(first, places, places - half), jnp.zeros_like(places))
    return lax.select(first, x, y)


_KEPT = {"float16": 11, "bfloat16": 8, "float32": 24}
"""Bits of a uniform sample: as many as the significand holds."""


def table(words: Callable[[tuple[Value, Value], int], Value]) -> Table:
    """The lowerings over a function that gives a key's words."""
    made = Table()

    @made.add("random_bits")
    @sized(1)
    def random_bits(key: Value, *, shape: Ints) -> Value:
        """Words that every engine agrees on.

        The seed encrypts (counter, fold) to a subkey, and that the numbers of the blocks.
        """
        subkey = threefry2x32((key[0], key[1]), key[2], key[3])
        return lax.reshape(words(subkey, math.prod(shape)), shape)

    @made.add("random_uniform")
    @sized(1, "dtype")
    def random_uniform(key: Value, *, shape: Ints, dtype: str) -> Value:
        """All the values of [0, 1) that are as far apart as those just below 1."""
        if dtype == "float64":
            high, low = random_bits(key, shape=(2, *shape))
            return _fraction(high, 27, dtype) + _fraction(low, 26, dtype) * 2.0**-27
        return _fraction(random_bits(key, shape=shape), _KEPT[dtype], dtype)

    @made.add("random_normal")
    @sized(1, "dtype")
    def random_normal(key: Value, *, shape: Ints, dtype: str) -> Value:
        """As `jax.random.normal`: the inverse distribution function at samples from (-1, 1)."""
        work = "float64" if dtype == "float64" else "float32"
        lowest = np.nextafter(np.array(-1, work), np.array(0, work))
        uniform = random_uniform(key, shape=shape, dtype=work)
        samples = jnp.maximum(lowest, uniform * (1 - lowest) + lowest)
        return lax.convert_element_type(lax.erf_inv(samples) * math.sqrt(2), dtype)

    return made


def _fraction(bits: Value, keep: int, dtype: str) -> Value:
    """The upper bits as a number in [0, 1)."""
    return lax.convert_element_type(bits >> np.uint32(32 - keep), dtype) * 2.0**-keep


TABLE = table(words_at_once)


@TABLE.add("key_words")
def _key_words(key: Value) -> Value:
    """The words of a key of JAX, typed or not."""
    typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    words = jax.random.key_data(key) if typed else key
    return words if words.shape == (4,) else jnp.pad(words, (0, 2))
