"""`K.function(accumulate=n)`: equal steps, in parts, with less memory."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from compile.training import ROWS, adam, cnn, lstm, mlp, trained


@pytest.mark.parametrize("build", [mlp, cnn, lstm])
def test_training_is_the_same(engine: Any, build: Any) -> None:
    (plain, losses), (parts, again) = trained(build, 3), trained(build, 3, accumulate=4)
    np.testing.assert_allclose(again, losses, rtol=1e-5)
    for w, v in zip(plain, parts, strict=True):
        np.testing.assert_allclose(v, w, rtol=1e-4, atol=1e-6)


def test_one_step_of_descent_is_the_same(engine: Any) -> None:
    found = []
    for parts in (1, 2, 12):
        net = mlp()
        updates = [
            (w, w - 0.1 * g)
            for w, g in zip(net.weights, K.gradients(net.loss, net.weights), strict=True)
        ]
        K.function(net.inputs, [], updates, accumulate=parts)(net.feed)
        found.append([K.get_value(w) for w in net.weights])
    for weights in found[1:]:
        for w, v in zip(found[0], weights, strict=True):
            np.testing.assert_allclose(v, w, atol=1e-6)


def test_outputs_are_averaged_or_joined(engine: Any) -> None:
    net = mlp()
    x = net.inputs[0]
    slope, weight_slope = K.gradients(net.loss, [x, net.weights[0]])
    norm = K.sqrt(K.sum(K.square(weight_slope)))
    outputs = [net.loss, net.output, slope, weight_slope, norm, K.sum(net.weights[1])]
    plain = K.function(net.inputs, outputs)(net.feed)
    parts = K.function(net.inputs, outputs, accumulate=3)(net.feed)
    for a, b in zip(plain, parts, strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


def test_what_reads_the_batch_runs_once_for_each_part(engine: Any) -> None:
    """A moving average, and a count of rows; a count of steps runs once."""
    x = K.placeholder((None, 2))
    average, rows, steps = K.zeros((2,)), K.variable(0.0), K.variable(0.0)
    updates = [
        K.moving_average_update(average, K.mean(x, axis=0), 0.5),
        K.update_add(rows, K.sum(K.ones_like(x[:, 0]))),
        K.update_add(steps, 1.0),
    ]
    f = K.function([x], [average[0]], updates, accumulate=2)
    data = np.array([[1, 2], [3, 4], [10, 20], [30, 40]], "float32")
    assert f([data])[0] == 0.0  # as it was before the call
    np.testing.assert_allclose(
        K.get_value(average), 0.5 * (0.5 * data[:2].mean(0)) + 0.5 * data[2:].mean(0)
    )
    assert [K.get_value(v).item() for v in (rows, steps)] == [4.0, 1.0]


def test_each_part_draws_its_own_numbers(engine: Any) -> None:
    x = K.placeholder((None, 50))
    f = K.function([x], [K.dropout(x, 0.5)], accumulate=2)
    ones = np.ones((4, 50), "float32")
    first, second = f([ones])[0], f([ones])[0]
    assert len({row.tobytes() for row in (*first, *second)}) == 8
    assert set(np.unique(first)) == {0.0, 2.0}


def test_fixed_inputs_and_the_learning_phase_are_not_split(engine: Any) -> None:
    x, rate = K.placeholder((None, 3)), K.placeholder(())
    w = K.variable([1.0, 2.0, 3.0])
    loss = K.mean(K.in_train_phase(x, 2.0 * x) * w)
    (g,) = K.gradients(loss, [w])
    f = K.function([x, rate, K.learning_phase()], [loss], [(w, w - rate * g)], accumulate=2)
    data = np.arange(12, dtype="float32").reshape(4, 3)
    for phase in (1, 0):
        before = K.get_value(w)
        factor = 2 - phase
        assert f([data, 0.5, phase])[0] == pytest.approx(factor * (data * before).mean(), rel=1e-5)
        expected = before - 0.5 * factor * data.sum(axis=0) / data.size
        np.testing.assert_allclose(K.get_value(w), expected, rtol=1e-5)


def test_gradients_of_the_penalty_of_gradients(engine: Any) -> None:
    """The penalty is a gradient with respect to what is fed: it belongs to each part."""

    def build(parts: int) -> list[np.ndarray]:
        net = mlp()
        (inner,) = K.gradients(K.sum(net.output[:, 0]), [net.inputs[0]])
        loss = net.loss + K.mean(K.square(K.sqrt(K.sum(K.square(inner), axis=1) + 1e-6) - 1.0))
        slopes = K.gradients(loss, net.weights[:3])
        updates = [(w, w - 0.1 * g) for w, g in zip(net.weights, slopes, strict=False)]
        out = K.function(net.inputs, [loss], updates, accumulate=parts)(net.feed)
        return [*out, *[K.get_value(w) for w in net.weights]]

    for a, b in zip(build(1), build(4), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


def test_a_batch_that_does_not_divide_is_refused(engine: Any) -> None:
    net = mlp()
    f = K.function(net.inputs, [net.loss], adam(net), accumulate=5)
    before = K.get_value(net.weights[0])
    for feed in (net.feed, [a.tolist() for a in net.feed]):
        with pytest.raises(
            ValueError, match=rf"accumulate=5 takes a multiple of 5 rows, got {ROWS}"
        ):
            f(feed)
    assert (K.get_value(net.weights[0]) == before).all()
    assert np.isfinite(f([a[:20] for a in net.feed])[0])


def test_what_cannot_be_split_is_refused() -> None:
    x, v = K.placeholder((None, 3)), K.variable([0.0, 0.0, 0.0])
    with pytest.raises(ValueError, match=r"accumulate must be a whole number.*got 0"):
        K.function([x], [x], accumulate=0)
    with pytest.raises(ValueError, match="no batch to split"):
        K.function([K.placeholder((4, 3))], [v], accumulate=2)
    for y in (K.sum(x, axis=0), K.sum(K.cast(x, "int32")), K.transpose(x)):
        with pytest.raises(ValueError, match=r"K\.function 'f': the output .* no scalar"):
            K.function([x], [y], name="f", accumulate=2)
    (g,) = K.gradients(K.mean(x * v), [v])
    with pytest.raises(ValueError, match="reads both gradients and the batch itself"):
        K.function([x], [], [(v, v - g * K.mean(x))], accumulate=2)


def peak(parts: int) -> float:
    """The most memory that a call takes, in arrays of the size of what is fed."""
    rng = np.random.default_rng(0)
    x = K.placeholder((None, 16))
    weights = [K.variable(rng.normal(size=(16, 16)) * 0.3) for _ in range(20)]
    h = x
    for w in weights:
        h = K.sin(K.dot(h, w))
    loss = K.mean(K.square(h))
    updates = [(w, w - 0.1 * g) for w, g in zip(weights, K.gradients(loss, weights), strict=True)]
    f = K.function([x], [loss], updates, accumulate=parts)
    feed = [rng.normal(size=(8000, 16)).astype("float32")]
    f(feed)
    tracemalloc.start()
    try:
        f(feed)
        return tracemalloc.get_traced_memory()[1] / feed[0].nbytes
    finally:
        tracemalloc.stop()


def test_memory_falls() -> None:
    whole, parts = peak(1), peak(8)
    assert whole > 20
    assert parts < whole / 6
