"""The NumPy engine: random bits and samples, from the words of keys."""

from __future__ import annotations

from functools import partial
from typing import Any

import ml_dtypes  # noqa: F401 - NumPy knows bfloat16 by it.
import numpy as np
import pytest

from backplane.core.spec import HALVES
from backplane.engines.arrays.random import threefry2x32
from backplane.engines.numpy import ENGINE
from engines import lowerings

lower = partial(lowerings.lower, ENGINE)


def key(*words: int) -> np.ndarray:
    return np.array(words, np.uint32)


@pytest.mark.parametrize(
    ("words", "block", "expected"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry_known_answers(words: Any, block: Any, expected: Any) -> None:
    """From `kat_vectors` of Random123."""
    x, y = threefry2x32((key(words[0]), key(words[1])), key(block[0]), key(block[1]))
    assert (x.tolist(), y.tolist()) == ([expected[0]], [expected[1]])


@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3), (0, 3)])
def test_random_bits_are_two_blocks_of_words(shape: tuple[int, ...]) -> None:
    subkey = threefry2x32((key(1), key(2)), key(3), key(4))
    half = (int(np.prod(shape)) + 1) // 2
    blocks = threefry2x32(subkey, np.arange(half, dtype=np.uint32), np.zeros(half, np.uint32))
    expected = np.concatenate(blocks)[: int(np.prod(shape))].reshape(shape)
    bits = lower("random_bits", key(1, 2, 3, 4), shape=shape)
    assert bits.dtype == "uint32"
    np.testing.assert_array_equal(bits, expected)


@pytest.mark.parametrize("name", ["random_uniform", "random_normal"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_samples_are_philox_keyed_by_all_words(name: str, dtype: str) -> None:
    def draw(*words: int) -> np.ndarray:
        result: np.ndarray = lower(name, key(*words), 4, shape=(None, 3), dtype=dtype)
        return result

    first = draw(1, 2, 3, 4)
    assert (first.shape, first.dtype) == ((4, 3), np.dtype(dtype))
    np.testing.assert_array_equal(first, draw(1, 2, 3, 4))
    for other in ((9, 2, 3, 4), (1, 9, 3, 4), (1, 2, 9, 4), (1, 2, 3, 9)):
        assert (draw(*other) != first).any()
    if name == "random_uniform" and dtype == "float64":
        philox = np.random.Philox(key=np.array([1 | 2 << 32, 3 | 4 << 32], np.uint64))
        np.testing.assert_array_equal(first, np.random.Generator(philox).random((4, 3)))


@pytest.mark.parametrize("dtype", HALVES)
def test_uniform_halves_stay_below_one(dtype: str) -> None:
    samples = lower("random_uniform", key(1, 2, 3, 4), shape=(100_000,), dtype=dtype)
    assert samples.min() >= 0
    assert samples.max() < 1
    assert abs(samples.mean(dtype="float64") - 0.5) < 0.01
