"""The distribution of samples of `keras.random`."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from backplane.engines.base import Engine
from backplane.keras3 import random
from backplane.keras3.call import eager_engine
from backplane.keras3.ops import numpy as ops

SAMPLES = 20_000


class _Shape:
    """A shape as a class of its own, such as `tf.TensorShape`."""

    def __iter__(self) -> Iterator[int]:
        yield from (2, 3)


def test_shapes_of_other_libraries(engine: Engine) -> None:
    """The shape of a tensor of TensorFlow is neither a list nor a tuple."""
    shape = _Shape()
    key = 1
    for draw in (random.normal, random.uniform, random.truncated_normal):
        assert tuple(draw(shape, seed=key).shape) == (2, 3)
    assert tuple(random.randint(shape, 0, 5, seed=key).shape) == (2, 3)
    assert tuple(random.gamma(shape, 1.0, seed=key).shape) == (2, 3)
    assert tuple(ops.reshape(np.ones(6, "float32"), shape).shape) == (2, 3)
    assert tuple(ops.broadcast_to(np.ones(3, "float32"), shape).shape) == (2, 3)


def _mass(n: int, p: float, k: np.ndarray) -> np.ndarray:
    """The probabilities of `k` successes."""
    logs = [
        math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1)
        + i * math.log(p) + (n - i) * math.log1p(-p)
        for i in k.tolist()
    ]  # fmt: skip
    return np.exp(logs)


@pytest.mark.parametrize(
    ("n", "p"), [(5, 0.5), (20, 0.5), (100, 0.3), (50, 0.9), (10_000, 0.0001), (1_000_000, 0.6)]
)
def test_binomial(engine: Engine, n: int, p: float) -> None:
    """Each number of successes is as frequent as it is probable, and counts of a million take no
    longer than small ones.
    """
    samples = random.binomial((SAMPLES,), float(n), p, dtype="float32", seed=3)
    x = eager_engine().to_numpy(samples)
    assert x.min() >= 0
    assert x.max() <= n
    deviation = math.sqrt(n * p * (1 - p))
    low, high = int(n * p - 4 * deviation), int(n * p + 4 * deviation)
    edges = np.unique(np.linspace(max(low, 0), min(high, n), 25).astype(int))
    below = np.array([np.sum(_mass(n, p, np.arange(max(low - 1, 0), e + 1))) for e in edges])
    expected = np.diff(below) * SAMPLES
    found = np.histogram(x, edges + 0.5)[0]
    enough = expected > 5
    chi_square = np.sum((found - expected)[enough] ** 2 / expected[enough])
    assert chi_square / enough.sum() < 2


def test_binomial_of_certain_outcomes(engine: Engine) -> None:
    """Probabilities 0 and 1 give no success and nothing but success."""
    counts = np.array([[7.0, 900.0]], "float32")
    p = np.array([[0.0], [1.0]], "float32")
    x = eager_engine().to_numpy(random.binomial((2, 2), counts, p, dtype="float32", seed=1))
    np.testing.assert_array_equal(x, [[0, 0], [7, 900]])


@pytest.mark.parametrize("shape", [(), (3,)])
def test_single_samples(engine: Engine, shape: tuple[int, ...]) -> None:
    """Distributions that reject samples draw numbers, too."""
    one = eager_engine().to_numpy
    assert one(random.gamma(shape, 2.0, seed=1)).shape == shape
    assert one(random.beta(shape, 2.0, 0.5, seed=1)).shape == shape
    assert one(random.binomial(shape, 50.0, 0.5, seed=1)).shape == shape
