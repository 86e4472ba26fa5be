"""Lowerings: random numbers, by MLX's own generator. The portable ones are decomposed."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np

from backplane.engines.mlx import wide
from backplane.engines.mlx.values import MLX, from_numpy, scalar
from backplane.engines.table import Shape, Table, Value, host_shape

TABLE = Table()


_ODD = from_numpy(np.array([0x9E3779B9, 0x85EBCA6B], np.uint32))
"""Factors modulo 2**32 that take every number to another."""


def _key(words: Value) -> Value:
    """MLX's key of two words: the seed, moved by (counter, fold), which MLX encrypts by."""
    return words[:2] + words[2:] * _ODD


def _uniform64(key: Value, shape: tuple[int, ...]) -> Value:
    """Samples from [0, 1) in float64, which MLX cannot draw: two draws of 24 bits, joined."""
    high, low = mx.random.uniform(shape=(2, *shape), key=key).astype(mx.float64)
    return (mx.floor(high * 2**24) + low) / 2**24


@TABLE.add("random_uniform")
def random_uniform(key: Value, *dims: Value, shape: Shape, dtype: str) -> Value:
    """`mx.random.uniform`."""
    sizes = host_shape(shape, dims)
    if dtype == "float64":
        return _uniform64(_key(key), sizes)
    return mx.random.uniform(shape=sizes, dtype=MLX[dtype], key=_key(key))


@TABLE.add("random_normal")
def random_normal(key: Value, *dims: Value, shape: Shape, dtype: str) -> Value:
    """`mx.random.normal`; in float64, which it lacks, the way of Box and Muller (1958)."""
    sizes = host_shape(shape, dims)
    if dtype == "float64":
        u, v = 1 - _uniform64(_key(key), (2, *sizes))
        return mx.sqrt(-2 * mx.log(u)) * wide.cos(v * scalar(2 * math.pi, dtype))
    return mx.random.normal(shape=sizes, dtype=MLX[dtype], key=_key(key))
