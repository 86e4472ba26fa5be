"""Moving averages as steps, and steps on what is normalized."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from compile.optimizer_steps import Pairs, classic_adam, found, variables, without_kernels


def test_moving_averages_are_found_beside_those_of_optimizers() -> None:
    p, m, v, a, b, c = variables(6)
    x = K.placeholder((2, 3))
    averages = [(a, 0.9 * a + 0.1 * K.sin(x)), (b, 0.9 * b + K.cos(x) * 0.1)]
    assert found(averages) == ["average_update 2"]
    assert found([*averages, (c, c / 2 - 3 * x)]) == ["average_update 3"]
    assert found([*averages, *classic_adam(p, m, v, x)]) == ["adam_update 1", "average_update 2"]
    assert found([(a, K.sin(a) + x), (b, 2 * x), (c, 0.5 * c * K.mean(x, keepdims=True))]) == []
    assert found([(a, 0.9 * a + 0.1 * K.abs(a))]) == ["average_update 1"]
    assert found(averages, [a]) == ["average_update 1"]
    assert found([(a, 0.9 * a + b), (b, 0.5 * b + x)]) == ["average_update 1"]
    new = 0.9 * a + x
    assert found([(a, new), (b, b - K.sin(new))]) == ["gradient_update 1"]
    assert found([(a, new)], [new]) == found([(a, new), (b, new)]) == []


def test_moving_averages(engine: Any) -> None:
    """Infinities stay infinite, as in the formula, and values that were read do not change."""
    x, share = K.placeholder((None, 3)), K.placeholder(())
    a, b, c = K.variable(np.zeros(3)), K.variable(np.ones(3)), K.variable(np.ones(3))
    means = K.mean(x, axis=0)
    updates = [
        K.moving_average_update(a, means, 0.75),
        K.moving_average_update(b, K.square(means), 0.75),
        K.moving_average_update(c, means, share),
    ]
    step = K.function([x, share], [means, a], updates=updates)
    wanted = np.array([0.0, 0.0, 0.0]), np.ones(3), np.ones(3)
    for n in (1.0, 2.0, np.inf):
        fed = np.array([[1, 2, n], [3, 2, n]])
        mean, before = step([fed, 0.5])
        np.testing.assert_allclose(mean, fed.mean(0))
        np.testing.assert_allclose(before, wanted[0], rtol=1e-5)
        new, old, half = fed.mean(0), 0.75, 0.5
        wanted = (
            wanted[0] * old + new * (1 - old),
            wanted[1] * old + new**2 * (1 - old),
            wanted[2] * half + new * (1 - half),
        )
        for v, value in zip((a, b, c), wanted, strict=True):
            np.testing.assert_allclose(K.get_value(v), value, rtol=1e-5)


def normalized(axes: list[int], shape: tuple[int, ...]) -> tuple[Pairs, Any, Any]:
    """Descent on the scale and the shift of a normalization, and on a weight of its results."""
    x = K.placeholder((None, *shape))
    gamma, beta, weight = K.variable(np.ones(shape[-1])), *variables(2, shape[-1:])
    mean, var = K.mean(x, axes, keepdims=True), K.var(x, axes, keepdims=True)
    y = (x - mean) / K.sqrt(var + 1e-3) * gamma + beta
    loss = K.sum(y * weight)
    weights = [gamma, beta, weight]
    slopes = K.gradients(loss, weights)
    return [(w, w - 0.1 * g) for w, g in zip(weights, slopes, strict=True)], x, loss


@pytest.mark.parametrize("axes", [[0, 1], [2]])
def test_gradients_by_kernels_are_no_parts_of_weights(axes: list[int]) -> None:
    """A kernel reads the scale, and its results have memory of their own."""
    assert found(normalized(axes, (4, 3))[0]) == ["gradient_update 3"]


@pytest.mark.parametrize("axes", [[0, 1], [2]])
def test_steps_on_normalizations(engine: Any, axes: list[int]) -> None:
    results = []
    for replaced in (True, False):
        rng = np.random.default_rng(5)
        updates, x, loss = normalized(axes, (4, 3))
        K.batch_set_value([(w, rng.random(3)) for w, _ in updates])
        with nullcontext() if replaced else without_kernels(engine):
            step = K.function([x], [loss], updates=updates)
            losses = [step([rng.random((2, 4, 3))])[0] for _ in range(3)]
        results.append([*losses, *[K.get_value(w) for w, _ in updates]])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
