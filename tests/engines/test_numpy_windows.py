"""The NumPy engine: convolutions and pooling, in blocks."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from backplane.engines.arrays import pooling, windows
from backplane.engines.numpy import ENGINE
from engines import lowerings

lower = partial(lowerings.lower, ENGINE)
rng = np.random.default_rng(0)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("cache", [1, 1000])
def test_blocks_do_not_change_convolutions(
    groups: int, cache: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = rng.standard_normal((3, 7, 6, 4))
    kernel = rng.standard_normal((3, 2, 4 // groups, 8))
    params: dict[str, Any] = {
        "strides": (2, 1), "padding": "same", "dilation": (1, 1), "groups": groups,
    }  # fmt: skip

    def all_three() -> list[np.ndarray]:
        y = lower("conv", x, kernel, **params)
        by_x = lower("conv_input_grad", y, kernel, shape=x.shape, **params)
        return [y, by_x, lower("conv_kernel_grad", x, y, kernel_shape=kernel.shape, **params)]

    whole = all_three()
    monkeypatch.setattr(windows, "CACHE", cache)
    for expected, result in zip(whole, all_three(), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("cache", [1, 1 << 19])
@pytest.mark.parametrize(
    ("sizes", "window", "strides", "padding", "dilation"),
    [
        ((5, 13), (3, 3), (1, 1), "same", (1, 1)),
        ((9, 26), (2, 4), (2, 1), "valid", (3, 1)),
        ((4, 26), (1, 3), (1, 1), ((0, 0), (2, 1)), (1, 2)),
        ((4, 5, 12), (2, 2, 2), (1, 2, 1), "same", (1, 1, 1)),
    ],
)
def test_the_gradient_by_the_input_is_the_transpose(
    cache: int, sizes: Any, window: Any, strides: Any, padding: Any, dilation: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(windows, "CACHE", cache)
    params = {"strides": strides, "padding": padding, "dilation": dilation, "groups": 1}
    x, kernel = rng.standard_normal((3, *sizes, 2)), rng.standard_normal((*window, 2, 4))
    y = lower("conv", x, kernel, **params)
    g = rng.standard_normal(y.shape)
    by_x = lower("conv_input_grad", g, kernel, shape=x.shape, **params)
    np.testing.assert_allclose(np.vdot(x, by_x), np.vdot(y, g), rtol=1e-10)


def test_windows_over_one_channel_and_over_more_agree() -> None:
    """A second channel of zeros changes nothing."""
    x, kernel = rng.standard_normal((3, 7, 6, 1)), rng.standard_normal((3, 2, 1, 5))
    params: dict[str, Any] = {"strides": (2, 1), "padding": "same", "dilation": (1, 2), "groups": 1}
    wide = np.concatenate([kernel, np.zeros_like(kernel)], -2)
    deep = np.concatenate([x, np.zeros_like(x)], -1)
    y = lower("conv", x, kernel, **params)
    np.testing.assert_allclose(y, lower("conv", deep, wide, **params), rtol=1e-12, atol=1e-12)
    one = lower("conv_kernel_grad", x, y, kernel_shape=kernel.shape, **params)
    two = lower("conv_kernel_grad", deep, y, kernel_shape=wide.shape, **params)
    np.testing.assert_allclose(one, two[:, :, :1], rtol=1e-12, atol=1e-12)


def test_the_maximum_of_minus_infinities_is_no_padding() -> None:
    pool: dict[str, Any] = {"pool": (2,), "strides": (2,), "padding": ((1, 1),)}
    x = np.full((1, 2, 1), -np.inf)
    y, positions = lower("max_pool", x, **pool)
    np.testing.assert_array_equal(y, x)
    gradient = lower("max_pool_grad", np.ones_like(y), x, y, positions, **pool)
    np.testing.assert_array_equal(gradient, np.ones_like(x))


def test_large_windows_have_wide_positions() -> None:
    x = np.zeros((1, 300, 1))
    x[0, 299] = 1
    pool: dict[str, Any] = {"pool": (300,), "strides": (1,), "padding": "valid"}
    y, positions = lower("max_pool", x, **pool)
    gradient = lower("max_pool_grad", np.ones_like(y), x, y, positions, **pool)
    np.testing.assert_array_equal(gradient, x)


@pytest.mark.parametrize(("strides", "padding"), [((2, 2), "valid"), ((1, 2), "same")])
def test_pooling_in_blocks_of_samples(
    strides: tuple[int, ...], padding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, v = rng.integers(0, 4, (7, 6, 6, 3)) * 1.0, rng.random((7, 6, 6, 3))
    params = {"pool": (2, 2), "strides": strides, "padding": padding}
    found = []
    for cache in (1 << 30, 1):
        monkeypatch.setattr(pooling, "CACHE", cache)
        y, positions = ENGINE.table["max_pool"].function(x, **params)
        g = np.cos(np.arange(y.size)).reshape(y.shape)
        back = ENGINE.table["max_pool_grad"].function(g, x, None, positions, **params)
        taken = ENGINE.table["max_pool_take"].function(v, None, None, positions, **params)
        np.testing.assert_allclose((back * v).sum(), (g * taken).sum(), rtol=1e-12)
        found.append([y, positions, back, taken])
    for whole, blocked in zip(*found, strict=True):
        np.testing.assert_array_equal(whole, blocked)
