"""Lowerings: random numbers, by PyTorch's own generators and by the portable one."""

from __future__ import annotations

import torch

from backplane.engines.arrays.random import TABLE as PORTABLE
from backplane.engines.fast import applies
from backplane.engines.table import Lowering, Shape, Table, Value
from backplane.engines.torch.devices import default_device
from backplane.engines.torch.dtypes import TORCH
from backplane.engines.torch.fast import threefry
from backplane.engines.torch.tracing import host_shape, is_recorded

TABLE = Table()


_MASK = 2**64 - 1


def _mixed(word: int) -> int:
    """The finalizer of SplitMix64: each bit of the word changes half of the bits of the result.

    Source: https://prng.di.unimi.it/splitmix64.c
    """
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _MASK
    return word ^ (word >> 31)


def generator(key: Value) -> torch.Generator | None:
    """A generator seeded by the four words of `key`; None, which is PyTorch's own, where the call
    is recorded.

    They are mixed well, because the generator on the CPU reads only 32 bits of a seed.
    """
    if is_recorded():
        return None
    low, high, counter, fold = key.tolist()
    seed = _mixed(_mixed(low | high << 32) + (counter | fold << 32) & _MASK)
    return torch.Generator(default_device()).manual_seed(seed)


def _sampler(sample: Lowering) -> Lowering:
    def lowering(key: Value, *dims: Value, shape: Shape, dtype: str) -> Value:
        return sample(host_shape(shape, dims), generator=generator(key), dtype=TORCH[dtype])

    return lowering


TABLE.add("random_uniform")(_sampler(torch.rand))
TABLE.add("random_normal")(_sampler(torch.randn))


@TABLE.add("key_words")
def key_words(key: Value) -> Value:
    """The words of a user's key."""
    if is_recorded():
        raise TypeError("a random key cannot be part of a program that PyTorch records")
    if torch._C._functorch.is_functorch_wrapped_tensor(key):
        raise TypeError(
            "torch.func.vmap cannot map over random keys: its argument randomness='different' "
            "draws for each row"
        )
    return key if key.shape == (4,) else torch.cat([key, key.new_zeros(2)])


@TABLE.add("random_bits")
def random_bits(key: Value, *dims: Value, shape: Shape) -> Value:
    """NumPy's lowering on the CPU, where PyTorch has no kernels for uint32, and those for int32
    take as long. Accelerators compute the words themselves.
    """
    device = default_device() if key.is_cpu else key.device
    if device.type != "cpu" and applies("torch.threefry"):
        return threefry.bits(key, host_shape(shape, dims), device)
    words = PORTABLE["random_bits"].function(key.cpu().numpy(), *dims, shape=shape)
    return torch.from_numpy(words).to(device)
