"""JAX: rows are sorted as integers that hold a number and its position."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

from backplane import backend as K  # noqa: E402
from backplane import engines  # noqa: E402
from backplane.engines.jax import ENGINE  # noqa: E402

sort = ENGINE.table["sort"].function
rng = np.random.default_rng(0)
FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


@pytest.fixture(autouse=True)
def on_jax() -> Iterator[None]:
    with engines.use("jax"):
        yield
    assert not jax.config.jax_enable_x64


def sorted_by_jax(x: Any) -> list[Any]:
    """Two arrays, sorted by the first."""
    positions = lax.broadcasted_iota("int32", x.shape, x.ndim - 1)
    return list(lax.sort((x, positions), is_stable=True, num_keys=1))


def rows(dtype: str) -> Any:
    """Rows of numbers, many of them equal, with the extremes of their dtype."""
    if dtype in INTEGERS:
        limits = np.iinfo(dtype)
        edges = [limits.min, limits.min + 1, limits.max - 1, limits.max, 0, 1, 2]
        return jnp.asarray(np.asarray(edges, dtype)[rng.integers(0, len(edges), (40, 50))])
    limits = jnp.finfo(dtype)
    edges = [0.0, 1.0, 1.5, np.inf, np.nan, float(limits.max), float(limits.tiny), 3e-3]
    chosen = np.asarray(edges)[rng.integers(0, len(edges), (40, 50))]
    return jnp.asarray(chosen * rng.choice([-1.0, 1.0], chosen.shape)).astype(dtype)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_every_bit_is_as_jax_sorts_it(dtype: str) -> None:
    """Signs of zeros and of NaN included, and equal numbers in their order."""
    with jax.enable_x64(dtype.endswith("64")):
        x = rows(dtype)
        for got, want in zip(sort(x), sorted_by_jax(x), strict=True):
            assert got.dtype == want.dtype
            assert np.asarray(got).tobytes() == np.asarray(want).tobytes()


def test_gradients_of_jax_go_through_the_order() -> None:
    x = jnp.asarray(rng.normal(size=(3, 7)).astype("float32"))
    weights = jnp.arange(21.0, dtype="float32").reshape(3, 7)

    def loss(by: Any) -> Any:
        return lambda x: jnp.sum(weights * by(x)[0] ** 3)

    for derive in (jax.grad, jax.jacfwd, lambda f: jax.grad(lambda x: jax.grad(f)(x).sum())):
        np.testing.assert_allclose(derive(loss(sort))(x), derive(loss(sorted_by_jax))(x), rtol=1e-5)
    both = zip(jax.vmap(sort)(x), sorted_by_jax(x), strict=True)
    assert all((got == want).all() for got, want in both)


@pytest.mark.parametrize(("dtype", "arrays"), [("float32", 1), ("int32", 1), ("float64", 2)])
def test_one_array_is_sorted_where_number_and_position_fit(dtype: str, arrays: int) -> None:
    fed = np.arange(18).reshape(2, 9)[:, ::-1].astype(dtype)
    x = K.placeholder(shape=(None, 9), dtype=dtype)
    np.testing.assert_array_equal(K.function([x], [K.sort(x)])([fed])[0], np.sort(fed, -1))

    with jax.enable_x64(True):
        traced = jax.jit(sort).trace(jnp.asarray(fed)).jaxpr
    (found,) = [e for e in traced.eqns if e.primitive.name == "sort"]
    assert len(found.invars) == arrays
