"""Forms of convolutions and pooling that the jax engine chooses on a CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

from backplane import backend as K  # noqa: E402
from backplane import engines  # noqa: E402
from backplane.engines import kernels  # noqa: E402
from backplane.engines.jax import ENGINE, plain_convolution  # noqa: E402
from backplane.engines.jax.fast import cpu  # noqa: E402

rng = np.random.default_rng(0)


def lowering(name: str, **params: Any) -> Callable[..., Any]:
    """The lowering of a primitive as a function of its operands."""
    return lambda *values: ENGINE.table[name].function(*values, **params)


def floats(*shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(
    ("padding", "stride", "dilation"),
    [("valid", 1, 1), ("same", 2, 1), ("valid", 3, 1), ("same", 1, 2), (((2, 1), (0, 3)), 2, 1)],
    ids=str,
)
@pytest.mark.parametrize("groups", [(1, 3, 4), (1, 1, 4), (2, 4, 6), (4, 4, 4), (4, 4, 8)], ids=str)
def test_convolution_on_a_cpu_equals_that_of_accelerators(
    padding: Any, stride: int, dilation: int, groups: tuple[int, int, int]
) -> None:
    count, channels, filters = groups
    window = {
        "strides": (stride, stride),
        "padding": padding,
        "dilation": (dilation, dilation),
        "groups": count,
    }
    x, kernel = floats(2, 8, 7, channels), floats(3, 2, channels // count, filters)

    products = {"large": 0}
    convolutions = {"large": np.inf}

    def each(x: Any, kernel: Any) -> Any:
        g = jnp.cos(plain_convolution.conv(x, kernel, **window))
        return [
            (
                forms.conv(x, kernel, **window, **limits),
                forms.input_grad(g, kernel, shape=x.shape, **window, **limits),
                forms.kernel_grad(x, g, kernel_shape=kernel.shape, **window, **limits),
            )
            for forms, limits in ((cpu, products), (cpu, convolutions), (plain_convolution, {}))
        ]

    *found, expected = jax.jit(each)(x, kernel)
    for values in found:
        for a, b in zip(values, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_transposed_convolution_is_differentiable_by_the_tape() -> None:
    g, kernel = jnp.asarray(floats(1, 4, 4, 3)), jnp.asarray(floats(3, 3, 2, 3))

    def up(kernel: Any) -> Any:
        y = K.conv2d_transpose(g, kernel, (1, 8, 8, 2), strides=(2, 2), padding="same")
        return K.sum(y * y)

    step = 1e-2 * jnp.asarray(floats(*kernel.shape))
    slope = jnp.sum(jax.grad(up)(kernel) * step)
    np.testing.assert_allclose(slope, (up(kernel + step) - up(kernel - step)) / 2, rtol=1e-3)


def test_options_for_convolutions(monkeypatch: pytest.MonkeyPatch) -> None:
    if jax.default_backend() != "cpu":
        return
    ask = cpu.convolution_options.__wrapped__
    x = jnp.ones((4, 16, 16, 32))
    for trains in (True, False):
        compiled = jax.jit(lambda x: x + 1, compiler_options=ask(trains)).lower(x).compile()
        assert compiled(x).shape == x.shape
        assert ("xla_disable_hlo_passes" in ask(trains)) == trains
    monkeypatch.setenv("XLA_FLAGS", "--xla_disable_hlo_passes=dce")
    assert list(ask(True)) == ["xla_cpu_experimental_ynn_fusion_type"]
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_experimental_ynn_fusion_type=dot")
    assert ask(True) is None


def test_barriers_stay_only_where_kernels_are_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    """They keep XLA from joining operations, which predictions would pay for nothing."""
    if jax.default_backend() != "cpu":
        return
    asked = []
    options = cpu.convolution_options
    monkeypatch.setattr(
        cpu, "convolution_options", lambda trains, _: asked.append(trains) or options(trains)
    )
    with engines.use("jax"):
        x, kernel = K.variable(floats(2, 8, 8, 3)), K.variable(floats(4, 4, 5, 3))
        y = K.conv2d_transpose(x, kernel, (2, 16, 16, 5), strides=(2, 2), padding="same")
        K.function([], [y])([])
        assert asked == [False]
        K.function([], K.gradients(K.sum(K.square(y)), [kernel]))([])
        assert asked == [False, True]


def asked_for_ynnpack(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each program that is compiled from now on leaves convolutions to YNNPACK."""
    asked: list[bool] = []
    options = cpu.convolution_options

    def ask(trains: bool, library: bool) -> Any:
        asked.append(library)
        return options(trains, library)

    monkeypatch.setattr(cpu, "convolution_options", ask)
    return asked


@pytest.mark.parametrize(
    ("channels", "filters", "served"),
    [(8, 17, True), (8, 16, False), (4, 64, False), (512, 64, False)],
)
def test_ynnpack_serves_where_kernels_are_small(
    monkeypatch: pytest.MonkeyPatch, channels: int, filters: int, served: bool
) -> None:
    if jax.default_backend() != "cpu":
        return
    asked = asked_for_ynnpack(monkeypatch)
    x, kernel = floats(2, 6, 6, channels), floats(3, 3, channels, filters)
    with engines.use("jax"), kernels.forced(jax__ynnpack=200_000):
        y = K.conv2d(K.variable(x), K.variable(kernel), padding="same")
        (found,) = K.function([], [y])([])
    assert asked == [served]
    expected = lax.conv_general_dilated(
        x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


def test_ynnpack_is_chosen_for_each_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of the image decides which of two kernels does more of the work."""
    if jax.default_backend() != "cpu":
        return
    asked = asked_for_ynnpack(monkeypatch)
    with engines.use("jax"), kernels.forced(jax__ynnpack=40_000):
        x = K.placeholder((1, None, None, 32))
        small, large = K.variable(floats(3, 3, 32, 32)), K.variable(floats(3, 3, 32, 512))
        first = K.conv2d(x, small, padding="same")
        last = K.conv2d(x[:, :6, :6], large, padding="same")
        f = K.function([x], [K.sum(first), K.sum(last)])
        shapes = [(1, n, n, 32) for n in (6, 64, 6)]
        results = [f([np.ones(shape, np.float32)]) for shape in shapes]
    assert asked == [False, True]
    assert results[0] == results[2]


def test_ynnpack_serves_in_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    if jax.default_backend() != "cpu":
        return
    asked = asked_for_ynnpack(monkeypatch)
    with engines.use("jax"):
        x, kernel = K.variable(floats(2, 3, 6, 6, 32)), K.variable(floats(3, 3, 32, 32))

        def step(row: Any, states: Any) -> Any:
            h = K.tanh(row + K.conv2d(states[0], kernel, padding="same"))
            return h, [h]

        few, first = K.variable(floats(2, 6, 6, 4)), K.variable(floats(3, 3, 4, 32))
        start = K.conv2d(few, first, padding="same")  # decides nothing
        K.function([], [K.rnn(step, x, [start])[0]])([])
    assert asked == [True]


def test_ynnpack_serves_for_float64_in_training_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA's own convolutions take up to a hundred times as long there."""
    if jax.default_backend() != "cpu":
        return
    asked = asked_for_ynnpack(monkeypatch)
    with engines.use("jax"):
        for dtype in ("float64", "float32"):
            x = K.variable(floats(2, 6, 6, 32), dtype=dtype)
            kernel = K.variable(floats(3, 3, 32, 1024), dtype=dtype)
            loss = K.sum(K.conv2d(x, kernel, padding="same"))
            (slope,) = K.gradients(loss, [kernel])
            K.function([], [loss])([])
            K.function([], [slope])([])
            K.function([], [], [(kernel, kernel - slope)])([])
    assert asked == [True, True, True, False, False, False]


def test_a_gradient_that_several_results_read_is_computed_once() -> None:
    """Each operation that reads a sum of products would compute it anew."""
    if jax.default_backend() != "cpu":
        return
    kernel = jnp.asarray(floats(4, 4, 3, 5))
    given = {"strides": (2, 2), "padding": "same", "dilation": (1, 1), "groups": 1}

    def read(g: Any) -> Any:
        found = cpu.input_grad(g, kernel, shape=(2, 16, 16, 3), large=0, **given)
        mean = jnp.mean(found, (0, 1, 2))
        return found - mean, jnp.maximum(found, mean), jnp.transpose(found, (3, 1, 2, 0))

    options = cpu.convolution_options(trains=True)
    text = jax.jit(read, compiler_options=options).lower(floats(2, 8, 8, 5)).compile().as_text()
    assert text.count(" pad(") <= 16  # a term for each place of the kernel
    assert "opt-barrier" in text


@pytest.mark.parametrize(
    ("pool", "strides", "padding"),
    [
        ((2, 2), (2, 2), "valid"),
        ((3, 3), (2, 2), "same"),
        ((2, 3), (3, 1), "valid"),
        ((9, 9), (9, 9), "same"),
        ((12, 11), (1, 1), "valid"),
        ((9, 2), (2, 2), "valid"),
    ],
)
def test_pooling_equals_windows_of_jax(pool: Any, strides: Any, padding: str) -> None:
    x = rng.integers(0, 5, (2, 12, 11, 3)).astype(np.float32)
    sizes = ((1, *pool, 1), (1, *strides, 1), padding.upper())

    def largest(x: Any) -> Any:
        return lax.reduce_window(x, -jnp.inf, lax.max, *sizes)

    expected, back = jax.vjp(largest, x)
    window = {"pool": pool, "strides": strides, "padding": padding}
    y, positions = lowering("max_pool", wanted=(True, True), **window)(x)
    np.testing.assert_array_equal(y, expected)
    g = floats(*y.shape)
    found = lowering("max_pool_grad", **window)(g, x, None, positions)
    np.testing.assert_allclose(found, back(g)[0], atol=1e-5)
    v = floats(*x.shape)
    taken = lowering("max_pool_take", **window)(v, None, None, positions)
    np.testing.assert_allclose(np.sum(taken * g), np.sum(found * v), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("pool", [9, 32, 64])
def test_large_windows_with_nan_have_it_as_maximum(pool: int) -> None:
    image = rng.standard_normal((1, 2 * pool, 2 * pool, 3), "float32")
    image[0, 5, 7, 2] = np.nan
    x = K.placeholder(image.shape)
    y = K.pool2d(x, (pool, pool), (pool, pool))
    with engines.use("jax"):
        maxima, slope = K.function([x], [y, K.gradients(y, [x])[0]])([image])
    assert np.argwhere(np.isnan(maxima)).tolist() == [[0, 0, 0, 2]]
    assert slope[0, :pool, :pool, 2].nonzero() == ([5], [7])
