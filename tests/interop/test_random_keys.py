"""Random keys in the place of seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from backplane import backend as K

WORDS = np.array([1, 2], "uint32")


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    "draw",
    [
        lambda seed: K.random_uniform((50,), seed=seed),
        lambda seed: K.random_normal((50,), seed=seed),
        lambda seed: K.truncated_normal((50,), seed=seed),
        lambda seed: K.random_binomial((50,), 0.5, seed=seed),
        lambda seed: K.dropout(K.ones((50,)), 0.5, seed=seed),
    ],
)
def test_a_key_alone_decides_the_samples(draw: Callable[[Any], Any]) -> None:
    key = K.placeholder(shape=(2,), dtype="uint32")
    f = K.function([key], [draw(key)])
    first, other = f([WORDS])[0], f([WORDS + np.uint32(1)])[0]
    np.testing.assert_array_equal(f([WORDS])[0], first)
    assert not np.array_equal(other, first)
    np.testing.assert_array_equal(K.eval(draw(WORDS)), first)
    np.testing.assert_array_equal(K.eval(draw(np.array([1, 2, 0, 0], "uint32"))), first)


@pytest.mark.parametrize("make", [jax.random.key, jax.random.PRNGKey])
def test_keys_of_jax_under_its_transformations(make: Callable[[int], Any]) -> None:
    x, key = jnp.ones((4, 30)), make(0)

    def dropped(x: Any, key: Any) -> Any:
        return K.dropout(x, 0.5, seed=key)

    wanted = dropped(x, key)
    assert set(np.unique(wanted)) == {0.0, 2.0}
    np.testing.assert_array_equal(jax.jit(dropped)(x, key), wanted)
    slope = jax.grad(jax.checkpoint(lambda x: K.sum(dropped(x, key))))
    np.testing.assert_array_equal(slope(x), wanted)
    np.testing.assert_array_equal(jax.jit(slope)(x), wanted)
    keys = jax.random.split(key, 4)
    rows = jax.vmap(dropped)(x, keys)
    for row, key in zip(rows, keys, strict=True):
        np.testing.assert_array_equal(row, dropped(x[0], key))
    assert len({row.tobytes() for row in np.array(rows)}) == 4


def test_dropout_in_vmap() -> None:
    x = torch.ones(4, 50)

    def dropped(randomness: str) -> int:
        rows = torch.func.vmap(lambda row: K.dropout(row, 0.5), randomness=randomness)(x)
        return len({tuple(row.tolist()) for row in rows})

    assert (dropped("same"), dropped("different")) == (1, 4)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        dropped("error")
    keys = torch.arange(8, dtype=torch.int32).view(torch.uint32).reshape(4, 2)
    with pytest.raises(
        TypeError, match=r"K\.dropout: torch\.func\.vmap cannot map over random keys"
    ):
        torch.func.vmap(lambda row, key: K.dropout(row, 0.5, seed=key))(x, keys)
    rows = jax.vmap(lambda row: K.dropout(row, 0.5))(jnp.ones((4, 50)))
    assert len({row.tobytes() for row in np.array(rows)}) == 1


def test_the_words_are_those_of_the_key() -> None:
    wanted = K.random_uniform((3,), seed=jax.random.key(7))
    np.testing.assert_array_equal(K.random_uniform((3,), seed=jnp.array([0, 7], "uint32")), wanted)


@pytest.mark.parametrize(
    "seed", [jnp.ones(2), jnp.int32(2), jax.random.split(jax.random.key(0)), torch.ones(3)]
)
def test_other_tensors_are_no_seeds(seed: Any) -> None:
    for function in (
        lambda: K.random_uniform((3,), seed=seed),
        lambda: K.dropout(K.ones((3,)), 0.5, seed=seed),
    ):
        with pytest.raises(TypeError, match=r"^K\.\w+: seed must be an int or a random key"):
            function()
