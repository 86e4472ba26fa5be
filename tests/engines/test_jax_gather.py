"""Rows by index on JAX: `jnp.take`, with fewer operations where rows do not exist."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")
import jax
import jax.numpy as jnp

from backplane import engines

RNG = np.random.default_rng(3)
INDICES = [
    np.array([0, 4, -1, -5, 5, -6, 1000], "int32"),
    np.array([[1, 7], [-2, -9]], "int8"),
    np.int32(2),
    np.int32(9),
]


def _gather(x: Any, indices: Any, axis: int) -> Any:
    return engines.get("jax").table["gather"].function(x, indices, axis=axis)


@pytest.mark.parametrize("indices", INDICES, ids=lambda i: f"{i.dtype}{list(np.shape(i))}")
@pytest.mark.parametrize(("shape", "axis"), [((5, 3), 0), ((2, 5, 3), 1), ((4, 5), 1), ((5,), 0)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_bits_and_derivatives_are_those_of_take(
    dtype: str, shape: tuple[int, ...], axis: int, indices: Any
) -> None:
    x = jnp.asarray(RNG.normal(size=shape), dtype).at[..., 0].set(-0.0)
    tangent = jnp.asarray(RNG.normal(size=shape), dtype)

    def ours(x: Any) -> Any:
        return _gather(x, indices, axis)

    def take(x: Any) -> Any:
        return jnp.take(x, indices, axis=axis)

    def bits(y: Any) -> Any:
        wide = np.asarray(y, "float32")
        return np.where(np.isnan(wide), 0, wide.view("uint32")), np.isnan(wide)

    found, want = ours(x), take(x)
    assert (found.dtype, found.shape) == (want.dtype, want.shape)
    for a, b in zip(bits(found), bits(want), strict=True):
        np.testing.assert_array_equal(a, b)
    weights = jnp.asarray(RNG.normal(size=found.shape), dtype)
    slopes = [
        jax.jit(jax.grad(lambda x, f=f: jnp.vdot(jnp.nan_to_num(f(x)), weights)))(x)
        for f in (ours, take)
    ]
    np.testing.assert_array_equal(*[np.asarray(s, "float32") for s in slopes])
    moves = [jax.jvp(f, (x,), (tangent,))[1] for f in (ours, take)]
    exists = ~np.isnan(np.asarray(want, "float32"))
    np.testing.assert_array_equal(*[np.where(exists, np.asarray(m, "float32"), 0) for m in moves])


def test_rows_by_index_may_be_mapped() -> None:
    x = jnp.asarray(RNG.normal(size=(2, 5, 3)), "float32")
    indices = jnp.asarray([[0, 9], [-1, 2]])
    found = jax.vmap(lambda x, i: _gather(x, i, 0))(x, indices)
    want = [jnp.take(a, i, axis=0) for a, i in zip(x, indices, strict=True)]
    np.testing.assert_array_equal(found, jnp.stack(want))
