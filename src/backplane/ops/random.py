"""Random numbers from a key: (seed low, seed high, counter, fold), four uint32 words.

`random_uniform` and `random_normal` draw from the engine's own generator, seeded by the key.
`random_bits` is portable: it is equal on every engine, and `portable_uniform` and `portable_normal`
make equal floats of it.
"""

from __future__ import annotations

import math
from functools import reduce

import numpy as np

from backplane.core.graph import Tensor, constant
from backplane.core.primitive import primitive
from backplane.core.shapes import elements
from backplane.core.spec import Spec, is_float
from backplane.core.traits import Memory
from backplane.ops import elementwise as ew
from backplane.ops.creation import given, numbers
from backplane.ops.indexing import dynamic_slice, part
from backplane.ops.shaping import Sizes, concat, item, reshape, zeros_like

Words = tuple[Tensor, Tensor]


def _spec(name: str, key: Spec, shape: Sizes, dtype: str) -> Spec:
    if key.shape != (4,) or key.dtype != "uint32":
        raise ValueError(f"{name}: the key must be 4 words of uint32, got {key}")
    if dtype != "uint32" and not is_float(dtype):
        raise ValueError(f"{name}: dtype must be a float type, got {dtype}")
    return Spec(shape, dtype)


@primitive(memory=Memory.VIEW)
def key_words(key: Spec) -> Spec:
    """The four words of a key that the user made: of two words of uint32, which are the seed, of
    four words, or of one of JAX's typed keys.
    """
    return Spec((4,), "uint32")


@key_words.decompose
def _(key: Tensor) -> Tensor:
    if key.spec.shape == (4,):
        return key
    return concat(key, constant(np.zeros(2), "uint32"), axis=0)


@primitive(host=1, varies=True, memory=Memory.FRESH, axes=given)
def random_uniform(key: Spec, *dims: Spec, shape: Sizes, dtype: str) -> Spec:
    """Uniform samples from [0, 1), drawn by the engine's own generator."""
    return _spec("random_uniform", key, shape, dtype)


@primitive(host=1, varies=True, memory=Memory.FRESH, axes=given)
def random_normal(key: Spec, *dims: Spec, shape: Sizes, dtype: str) -> Spec:
    """Normal samples of mean 0 and deviation 1, drawn by the engine's own generator."""
    return _spec("random_normal", key, shape, dtype)


@primitive(host=1, memory=Memory.FRESH, axes=given)
def random_bits(key: Spec, *dims: Spec, shape: Sizes) -> Spec:
    """Random uint32 words, the same on every engine: Threefry-2x32 in counter mode.

    The seed encrypts (counter, fold) to a subkey, and the subkey encrypts (i, 0) for i = 0, 1, ….
    The first words of all blocks come before the second words.

    Source: Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC 2011).
    """
    return _spec("random_bits", key, shape, "uint32")


@random_bits.decompose
def _(key: Tensor, *dims: Tensor, shape: Sizes) -> Tensor:
    w = [item(key, i) for i in range(4)]
    subkey = threefry((w[0], w[1]), (w[2], w[3]))
    known = elements(shape)
    if dims:
        total = reduce(ew.mul, [constant(known, "int32"), *dims])
        half = ew.floordiv(ew.add(total, constant(1, "int32")), constant(2, "int32"))
        blocks = ew.cast(numbers(half), dtype="uint32")
    else:
        blocks = constant(np.arange(-(-known // 2)), "uint32")
    both = concat(*threefry(subkey, (blocks, zeros_like(blocks))), axis=0)
    if dims:
        words = dynamic_slice(both, constant(np.zeros(1), "int32"), total, shape=(None,))
    else:
        words = part(both, 0, 0, known)
    return reshape(words, *dims, shape=shape)


_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
_PARITY = 0x1BD11BDA


def threefry(key: Words, block: Words) -> Words:
    """Threefry-2x32 with 20 rounds: encrypts two uint32 tensors by two key words."""
    keys = (*key, ew.bit_xor(ew.bit_xor(key[0], key[1]), constant(_PARITY, "uint32")))
    x, y = ew.add(block[0], keys[0]), ew.add(block[1], keys[1])
    for turn in range(5):
        for rotation in _ROTATIONS[:4] if turn % 2 == 0 else _ROTATIONS[4:]:
            x = ew.add(x, y)
            y = ew.bit_xor(_rotated(y, rotation), x)
        x = ew.add(x, keys[(turn + 1) % 3])
        y = ew.add(y, ew.add(keys[(turn + 2) % 3], constant(turn + 1, "uint32")))
    return x, y


def _rotated(x: Tensor, count: int) -> Tensor:
    left = ew.shift_left(x, constant(count, "uint32"))
    return ew.bit_or(left, ew.shift_right(x, constant(32 - count, "uint32")))


def _fraction(bits: Tensor, keep: int, dtype: str, offset: float = 0.0) -> Tensor:
    """The upper `keep` bits as a number in [0, 1), plus `offset` units of their last place."""
    whole = ew.cast(ew.shift_right(bits, constant(32 - keep, "uint32")), dtype=dtype)
    if offset:
        whole = ew.add(whole, constant(offset, dtype))
    return ew.mul(whole, constant(2.0**-keep, dtype))


_KEPT = {"float16": 11, "bfloat16": 8, "float32": 24}
"""Bits of a uniform sample: as many as the significand holds."""


def portable_uniform(key: Tensor, *dims: Tensor, shape: Sizes, dtype: str) -> Tensor:
    """Uniform samples from [0, 1), bit for bit equal on every engine."""
    if dtype != "float64":
        return _fraction(random_bits(key, *dims, shape=shape), _KEPT[dtype], dtype)
    pair = random_bits(key, *dims, shape=(2, *shape))
    high, low = (item(pair, i) for i in (0, 1))
    fine = ew.mul(_fraction(low, 26, dtype), constant(2.0**-27, dtype))
    return ew.add(_fraction(high, 27, dtype), fine)


def portable_normal(key: Tensor, *dims: Tensor, shape: Sizes, dtype: str) -> Tensor:
    """Normal samples by the method of Box and Muller (1958), equal on every engine up to the
    rounding of log and cos.

    Computed in float32 at least; the radius takes samples from (0, 1), never 0.
    """
    work = "float64" if dtype == "float64" else "float32"
    pair = random_bits(key, *dims, shape=(2, *shape))
    first, second = (item(pair, i) for i in (0, 1))
    radius = ew.sqrt(ew.mul(constant(-2.0, work), ew.log(_fraction(first, 23, work, 0.5))))
    angle = ew.mul(_fraction(second, 24, work), constant(2 * math.pi, work))
    return ew.cast(ew.mul(radius, ew.cos(angle)), dtype=dtype)
