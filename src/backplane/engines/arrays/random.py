"""Random numbers from keys: NumPy's Philox generator, and portable Threefry words."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from backplane.core.spec import HALVES
from backplane.engines.table import Shape, Table, Value, host_shape

TABLE = Table()


class _Key:
    """A key of ours, (seed low, seed high, counter, fold), as the seed of Philox.

    `Philox(key=…)` asks the system for entropy that it does not need: 7 µs instead of 2.
    """

    def __init__(self, words: Value) -> None:
        low, high, counter, fold = words.tolist()
        self.state = np.array((low | high << 32, counter | fold << 32), np.uint64)

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Value:
        """The two words of 64 bits that Philox takes."""
        return self.state


@functools.cache
def _numpy_random() -> Any:
    """`numpy.random`, imported at first use, because that takes a third of the engine's start."""
    from numpy import random
    from numpy.random.bit_generator import ISeedSequence

    ISeedSequence.register(_Key)
    return random


def generator(key: Value) -> Any:
    """The generator of NumPy that draws the numbers of `key`."""
    random = _numpy_random()
    return random.Generator(random.Philox(_Key(key)))


_BITS = {"float16": 11, "bfloat16": 8}
"""The number of bits in the significands of halves."""


@TABLE.add("random_uniform")
def _uniform(key: Value, *dims: Value, shape: Shape, dtype: str) -> Value:
    sizes = host_shape(shape, dims)
    if dtype in _BITS:
        # A float32 just below 1 would be rounded to 1; so many bits are exact.
        words = generator(key).integers(0, 2 ** _BITS[dtype], sizes, np.uint16)
        return np.ldexp(words.astype(np.float32), -_BITS[dtype]).astype(dtype)
    return generator(key).random(sizes, np.dtype(dtype))


@TABLE.add("random_normal")
def _normal(key: Value, *dims: Value, shape: Shape, dtype: str) -> Value:
    sizes = host_shape(shape, dims)
    if dtype in HALVES:
        return generator(key).standard_normal(sizes, np.float32).astype(dtype)
    return generator(key).standard_normal(sizes, np.dtype(dtype))


@TABLE.add("random_bits")
def _bits(key: Value, *dims: Value, shape: Shape) -> Value:
    sizes = host_shape(shape, dims)
    count = math.prod(sizes)
    half = (count + 1) // 2
    subkey = threefry2x32((key[:1], key[1:2]), key[2:3], key[3:4])
    blocks = np.arange(half, dtype=np.uint32)
    words = threefry2x32(subkey, blocks, np.zeros(half, np.uint32))
    return np.concatenate(words)[:count].reshape(sizes)


ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def _rotated(x: Value, count: int) -> Value:
    """The bits of `x` turned to the left. NumPy computes in place, in an array that nobody else
    has; JAX's arrays make new ones of the same lines.
    """
    high = x << np.uint32(count)
    x >>= np.uint32(32 - count)
    high |= x
    return high


def threefry2x32(
    key: tuple[Value, Value], x: Value, y: Value, rotated: Callable[[Value, int], Value] = _rotated
) -> tuple[Value, Value]:
    """Threefry-2x32 with 20 rounds: the blocks (x, y) of uint32, encrypted by two key words. A
    library whose arrays have no operators that shift bits gives a function that rotates them.

    Salmon, Moraes, Dror and Shaw (2011), "Parallel random numbers: as easy as 1, 2, 3", and their
    library Random123, whose known answers the tests check.
    """
    schedule = (*key, key[0] ^ key[1] ^ np.uint32(0x1BD11BDA))
    x, y = x + schedule[0], y + schedule[1]
    for group in range(1, 6):
        for rotation in ROTATIONS[(group - 1) % 2]:
            x += y
            y = rotated(y, rotation)
            y ^= x
        x += schedule[group % 3]
        y += schedule[(group + 1) % 3] + np.uint32(group)
    return x, y
