"""The jax engine: random words, and samples of them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")
import jax
import jax.numpy as jnp

from backplane.engines.jax import ENGINE
from backplane.engines.jax.random import threefry2x32, words_at_once, words_in_parts
from engines import lowerings

lowering = partial(lowerings.lowering, ENGINE)


@pytest.mark.parametrize(
    ("key", "block", "answer"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((2**32 - 1,) * 2, (2**32 - 1,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry_gives_the_known_answers(key: Any, block: Any, answer: Any) -> None:
    """Of Random123, kat_vectors."""
    words = [jnp.uint32(w) for w in (*key, *block)]
    assert tuple(map(int, threefry2x32((words[0], words[1]), *words[2:]))) == answer


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8])
def test_words_in_parts_are_the_same(count: int) -> None:
    key = jnp.uint32(1), jnp.uint32(2)
    np.testing.assert_array_equal(words_in_parts(key, count), words_at_once(key, count))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_samples_have_their_distribution(dtype: str) -> None:
    key = np.array([1, 2, 3, 4], np.uint32)
    with jax.enable_x64(True):
        uniform = lowering("random_uniform", shape=(4, 5001), dtype=dtype)(key)
        normal = lowering("random_normal", shape=(4, 5001), dtype=dtype)(key)
    assert (uniform.dtype.name, normal.dtype.name) == (dtype, dtype)
    u, n = np.asarray(uniform).astype(np.float64), np.asarray(normal).astype(np.float64)
    assert u.min() >= 0
    assert u.max() < 1
    np.testing.assert_allclose([u.mean(), u.var()], [0.5, 1 / 12], atol=0.01)
    np.testing.assert_allclose([n.mean(), n.var(), (n**4).mean()], [0, 1, 3], atol=0.15)


def test_samples_do_not_depend_on_the_mode() -> None:
    key = np.array([1, 2, 3, 4], np.uint32)
    draw = lowering("random_normal", shape=(7,), dtype="float32")
    with jax.enable_x64(True):
        wide = np.asarray(draw(key))
    np.testing.assert_array_equal(wide, draw(key))
    np.testing.assert_allclose(jax.jit(draw)(key), wide, rtol=1e-6)
