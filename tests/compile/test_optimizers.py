"""The optimizers of Keras 2 and Keras 3: their steps are found, and computed by kernels."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane.compile import passes
from backplane.compile.fuse.sites import patterns
from backplane.compile.fuse.updates import find_updates
from backplane.compile.passes.simplify import simplify
from backplane.core.registry import PRIMITIVES
from backplane.engines.table import Table
from compile.optimizer_steps import Pairs, variables

RNG = np.random.default_rng(7)
NAMES = sorted({pattern.op.name for pattern in patterns()})
KERNELS = SimpleNamespace(table=Table(**dict.fromkeys(NAMES, len)))

# Each takes a weight, four states, and a gradient.


def keras_2_rmsprop(w: Any, a: Any, b: Any, c: Any, g: Any) -> Pairs:
    new = 0.9 * a + (1.0 - 0.9) * K.square(g)
    return [(a, new), (w, w - K.variable(0.001) * g / (K.sqrt(new) + K.epsilon()))]


def keras_3_rmsprop(w: Any, a: Any, b: Any, c: Any, g: Any) -> Pairs:
    new = 0.9 * a + K.square(g) * (1 - 0.9)
    return [(a, new), (w, w - (g * 0.001) / K.sqrt(new + 1e-7))]


def keras_3_rmsprop_momentum(w: Any, a: Any, b: Any, c: Any, g: Any) -> Pairs:
    new = 0.9 * a + K.square(g) * (1 - 0.9)
    step = 0.8 * b + 0.001 * g * K.pow(new + 1e-7, -0.5)
    return [(a, new), (b, step), (w, w - step)]


def tf_rmsprop_centered(w: Any, a: Any, b: Any, c: Any, g: Any) -> Pairs:
    """A small epsilon would make the difference of two nearly equal numbers matter."""
    new, mean = 0.9 * a + 0.1 * K.square(g), 0.9 * b + 0.1 * g
    return [(a, new), (b, mean), (w, w - 0.001 * g / K.sqrt(new - K.square(mean) + 1.0))]


def keras_2_adagrad(w: Any, a: Any, b: Any, c: Any, g: Any) -> Pairs:
    new = a + K.square(g)
    lr = K.variable(0.01) * (1.0 / (1.0 + 0.1 * K.variable(3.0)))
    return [(a, new), (w, w - lr * g / (K.sqrt(new) + K.epsilon()))]


def keras_3_adagrad(w: Any, a: Any, b: Any, c: Any, g: Any) -> Pairs:
    new = a + K.square(g)
    return [(a, new), (w, w - (0.001 * g) / K.sqrt(new + 1e-7))]


def keras_2_adadelta(w: Any, a: Any, b: Any, c: Any, g: Any) -> Pairs:
    new = 0.95 * a + (1 - 0.95) * K.square(g)
    update = g * K.sqrt(b + K.epsilon()) / K.sqrt(new + K.epsilon())
    moved = 0.95 * b + (1 - 0.95) * K.square(update)
    return [(a, new), (w, w - K.variable(1.0) * update), (b, moved)]


def keras_3_adadelta(w: Any, a: Any, b: Any, c: Any, g: Any) -> Pairs:
    def rms(x: Any) -> Any:
        return K.sqrt(x + 1e-7)

    new = 0.95 * a + 0.05 * K.square(g)
    update = -1 * rms(b) * g / rms(new)
    return [(a, new), (b, 0.95 * b + 0.05 * K.square(update)), (w, w + 0.001 * update)]


def keras_2_adamax(w: Any, a: Any, b: Any, c: Any, g: Any) -> Pairs:
    lr_t = K.variable(0.002) / (1.0 - K.pow(K.variable(0.9), 3.0))
    m_t, u_t = 0.9 * a + (1.0 - 0.9) * g, K.maximum(0.999 * b, K.abs(g))
    return [(a, m_t), (b, u_t), (w, w - lr_t * m_t / (u_t + K.epsilon()))]


def keras_3_adamax(w: Any, a: Any, b: Any, c: Any, g: Any) -> Pairs:
    m_t = a + (g - a) * (1 - 0.9)
    u_t = K.maximum(K.variable(0.999) * b, K.abs(g))
    return [(a, m_t), (b, u_t), (w, w - (0.002 * m_t) / ((1 - K.variable(0.7)) * (u_t + 1e-7)))]


def keras_2_amsgrad(w: Any, a: Any, b: Any, c: Any, g: Any) -> Pairs:
    m_t, v_t = 0.9 * a + 0.1 * g, 0.999 * b + (1.0 - 0.999) * K.square(g)
    h_t = K.maximum(c, v_t)
    new = w - K.variable(0.001) * m_t / (K.sqrt(h_t) + K.epsilon())
    return [(c, h_t), (a, m_t), (b, v_t), (w, new)]


def keras_2_nadam(w: Any, a: Any, b: Any, c: Any, g: Any) -> Pairs:
    now, then, schedule, t = (K.variable(x) for x in (0.8, 0.81, 0.5, 3.0))
    g_prime = g / (1.0 - schedule)
    m_t, v_t = 0.9 * a + (1.0 - 0.9) * g, 0.999 * b + (1.0 - 0.999) * K.square(g)
    m_prime, v_prime = m_t / (1.0 - schedule * then), v_t / (1.0 - K.pow(0.999, t))
    bar = (1.0 - now) * g_prime + then * m_prime
    new = w - K.variable(0.002) * bar / (K.sqrt(v_prime) + K.epsilon())
    return [(a, m_t), (b, v_t), (w, new)]


def keras_3_adamw(w: Any, a: Any, b: Any, c: Any, g: Any) -> Pairs:
    rate = K.variable(0.001)
    kept = w - w * 0.004 * rate
    m_t, v_t = a + (g - a) * (1 - 0.9), b + (K.square(g) - b) * (1 - 0.999)
    return [(a, m_t), (b, v_t), (w, kept - (m_t * rate) / (K.sqrt(v_t) + 1e-7))]


def clipped(way: Callable[..., Pairs]) -> Callable[..., Pairs]:
    def step(w: Any, a: Any, b: Any, c: Any, g: Any) -> Pairs:
        norm = K.sqrt(K.sum(K.square(g)))
        return way(w, a, b, c, K.clip(K.switch(norm >= 1.0, g * 1.0 / norm, g), -0.5, 0.5))

    step.__name__ = f"clipped_{way.__name__}"
    return step


WAYS: list[tuple[Callable[..., Pairs], str]] = [
    (keras_2_rmsprop, "rmsprop_update"),
    (keras_3_rmsprop, "rmsprop_update"),
    (clipped(keras_3_rmsprop), "rmsprop_update"),
    (keras_3_rmsprop_momentum, "rmsprop_momentum_update"),
    (tf_rmsprop_centered, "rmsprop_centered_update"),
    (keras_2_adagrad, "adagrad_update"),
    (keras_3_adagrad, "adagrad_update"),
    (keras_2_adadelta, "adadelta_update"),
    (keras_3_adadelta, "adadelta_update"),
    (keras_2_adamax, "adamax_update"),
    (keras_3_adamax, "adamax_update"),
    (keras_2_amsgrad, "amsgrad_update"),
    (clipped(keras_2_amsgrad), "amsgrad_update"),
    (keras_2_nadam, "nadam_update"),
    (keras_3_adamw, "adamw_update"),
]
IDS = [way.__name__ for way, _ in WAYS]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("way", "name"), WAYS, ids=IDS)
def test_steps_are_found(way: Any, name: str, turned: bool) -> None:
    """One node for two weights, whatever the order of the updates is."""
    w, a, b, c, x = variables(5)
    updates = way(w, a, b, c, K.sin(x))
    if turned:
        updates = updates[::-1]
    state = {v: i for i, (v, _) in enumerate(updates)}
    found = find_updates(simplify([t for _, t in updates]), state, KERNELS)  # type: ignore[arg-type]
    assert {t.inputs[0].op.name for t in found if t.op is not None} == {name}
    assert len({t.inputs[0] for t in found}) == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("way", [way for way, _ in WAYS], ids=IDS)
def test_steps_compute_what_was_written(engine: Any, way: Any, dtype: str) -> None:
    """On variables of several shapes, one of them large, and with gradients that are zero."""
    K.set_floatx(dtype)
    shapes = [(2, 3), (5,), (300, 1200)]
    starts = [[RNG.random(s) + 0.1 for _ in range(4)] for s in shapes]
    feeds = [RNG.standard_normal(6).astype(dtype) for _ in range(3)]

    def run() -> list[Any]:
        x = K.placeholder((6,))
        updates: list[Any] = []
        for start in starts:
            state = [K.variable(value) for value in start]
            # A gradient of the weights themselves would multiply what is rounded.
            g = K.sin(K.constant(start[0]) * 3) * K.sum(x)
            updates += way(*state, g)
        step = K.function([x], [K.sum(updates[0][0])], updates=updates)
        return [[step([feed])[0] for feed in feeds], *[K.get_value(v) for v, _ in updates]]

    with passes.without("optimizer_steps"):
        wanted = run()
    tolerance = 3e-5 if dtype == "float32" else 1e-10
    for got, right in zip(run(), wanted, strict=True):
        np.testing.assert_allclose(got, right, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("pattern", patterns(), ids=lambda p: f"{p.op.name}-{[*p.params.values()]}")
def test_lowerings_compute_the_decompositions(engine: Any, pattern: Any) -> None:
    """Also of states that are negative, whose root is 0."""
    op = PRIMITIVES[pattern.op.name]
    numbers, replaces = op.step
    scalars = [K.constant(x) for x in (0.3, 0.7, 0.9, 0.6, 0.4, 0.5)[:numbers]]
    tensors = [
        K.constant(RNG.standard_normal(s)) for _ in range(replaces + 1) for s in ((2, 3), (4,))
    ]
    wanted = op.decomposition(*scalars, *tensors, **pattern.params)
    for a, b in zip(op(*scalars, *tensors, **pattern.params), wanted, strict=True):
        np.testing.assert_allclose(K.eval(a), K.eval(b), rtol=2e-5, atol=1e-6)
