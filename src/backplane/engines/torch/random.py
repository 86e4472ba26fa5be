"""Lowerings: random numbers, by PyTorch's own generators and by the portable one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from backplane.core.spec import Spec
from backplane.engines.base import Lowering, Table, Value, host_shape
from backplane.engines.torch.devices import default_device
from backplane.engines.torch.dtypes import TORCH

TABLE = Table()

Shape = tuple[int | None, ...]
Words = tuple[int, int]

# --- PyTorch's generators -----------------------------------------------------------------------

_MASK = 2**64 - 1


def _mixed(word: int) -> int:
    """The finalizer of SplitMix64: each bit of the word changes half of the bits of the result.

    Source: https://prng.di.unimi.it/splitmix64.c
    """
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _MASK
    return word ^ (word >> 31)


def generator(key: Value) -> torch.Generator:
    """A generator seeded by the four words of `key`.

    They are mixed well, because the generator on the CPU reads only 32 bits of a seed.
    """
    low, high, counter, fold = key.tolist()
    seed = _mixed(_mixed(low | high << 32) + (counter | fold << 32) & _MASK)
    return torch.Generator(default_device()).manual_seed(seed)


def _sampler(sample: Callable[..., Value]) -> Callable[..., Lowering]:
    def build(specs: Sequence[Spec], *, shape: Shape, dtype: str) -> Lowering:
        target = TORCH[dtype]

        def lowering(key: Value, *dims: Value) -> Value:
            return sample(host_shape(shape, dims), generator=generator(key), dtype=target)

        return lowering

    return build


TABLE.build("random_uniform")(_sampler(torch.rand))
TABLE.build("random_normal")(_sampler(torch.randn))

# --- the portable one ---------------------------------------------------------------------------

_ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
_PARITY = 0x1BD11BDA


def _signed(word: int) -> int:
    """The int32 that has the bits of `word`, modulo 2**32."""
    return (word + 2**31) % 2**32 - 2**31


def _threefry(key: Words, x: Value, y: Value) -> tuple[Value, Value]:
    """Threefry-2x32 with 20 rounds on int32 tensors, which it writes to.

    Source: Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC 2011).
    """
    keys = (*key, key[0] ^ key[1] ^ _PARITY)
    x.add_(_signed(keys[0]))
    y.add_(_signed(keys[1]))
    for turn in range(5):
        for rotation in _ROTATIONS[turn % 2]:
            x.add_(y)
            # A right shift of int32 repeats the sign bit, which the mask takes away.
            low = (y >> (32 - rotation)).bitwise_and_(2**rotation - 1)
            y.bitwise_left_shift_(rotation).bitwise_or_(low).bitwise_xor_(x)
        x.add_(_signed(keys[(turn + 1) % 3]))
        y.add_(_signed(keys[(turn + 2) % 3] + turn + 1))
    return x, y


def _subkey(key: Value) -> Words:
    """(counter, fold) encrypted by the seed: two words."""
    low, high, counter, fold = key.tolist()
    block = torch.tensor([_signed(counter), _signed(fold)], dtype=torch.int32, device="cpu")
    _threefry((low, high), block[:1], block[1:])
    first, second = block.tolist()
    return first % 2**32, second % 2**32


@TABLE.build("random_bits")
def random_bits(specs: Sequence[Spec], *, shape: Shape) -> Lowering:
    """In place and in int32, whose arithmetic has the bits of uint32, which lacks kernels."""

    def lowering(key: Value, *dims: Value) -> Value:
        sizes = host_shape(shape, dims)
        total = math.prod(sizes)
        blocks = torch.arange((total + 1) // 2, dtype=torch.int32)
        words = torch.cat(_threefry(_subkey(key), blocks, torch.zeros_like(blocks)))
        return words[:total].reshape(sizes).view(torch.uint32)

    return lowering
