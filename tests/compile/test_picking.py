"""What labels pick: no whole matrix is added up for one element, and loops move it out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane import engines
from backplane.compile import passes
from backplane.core.graph import toposort
from backplane.ops.picking import place
from backplane.ops.shaping import sum as sum_

rng = np.random.default_rng(3)
SCORES = rng.normal(size=(4, 5)).astype("float32")
LABELS = np.array([3, 0, 9, -1])
PASSES = [(), ("simplify",), ("hoist",)]


@pytest.mark.parametrize("keepdims", [False, True])
def test_the_sum_of_what_is_placed_is_what_was_placed(keepdims: bool) -> None:
    g, labels = K.placeholder((4, 1)), K.placeholder((4, 1), dtype="int64")
    total = sum_(place(g, labels, axis=1, size=5), axes=(1,), keepdims=keepdims)
    (found,) = passes.optimized([total], passes.Job(engines.get("numpy"))).known
    assert {node.op for node in toposort([found])}.isdisjoint({place, sum_})
    values = K.function([g, labels], [total])([SCORES[:, :1], LABELS[:, None]])[0]
    wanted = np.where((LABELS >= 0) & (LABELS < 5), SCORES[:, 0], 0)
    np.testing.assert_array_equal(values.reshape(4), wanted)


@pytest.mark.parametrize("off", PASSES)
def test_gradients_of_a_crossentropy(engine: Any, off: tuple[str, ...]) -> None:
    """A label that names no class gives NaN, and its scores get no gradient."""
    with passes.without(*off):
        x, labels = K.placeholder((None, 5)), K.placeholder((None,), dtype="int64")
        losses = K.sparse_categorical_crossentropy(labels, x, from_logits=True)
        slopes = K.gradients(losses, [x])
        second = K.gradients(K.sum(K.square(slopes[0])), [x])
        found = K.function([x, labels], [losses, *slopes, *second])([SCORES, LABELS])
    exponentials = np.exp(SCORES.astype("float64"))
    p = exponentials / exponentials.sum(1, keepdims=True)
    np.testing.assert_allclose(found[0][:2], -np.log([p[0, 3], p[1, 0]]), rtol=1e-5)
    assert np.isnan(found[0][2:]).all()
    known = (np.arange(4) < 2)[:, None]
    slope = np.where(known, p - (np.arange(5) == LABELS[:, None]), 0)
    np.testing.assert_allclose(found[1], slope, rtol=1e-5, atol=1e-6)
    twice = 2 * p * (slope - (slope * p).sum(1, keepdims=True))
    np.testing.assert_allclose(found[2], np.where(known, twice, 0), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("off", PASSES)
def test_in_the_steps_of_a_loop(engine: Any, off: tuple[str, ...]) -> None:
    """A readout and its loss in each step of a loop, with labels of the step or of the loop."""
    x = rng.normal(size=(4, 3, 2)).astype("float32")
    of_steps, of_loop = rng.integers(0, 5, (4, 3)), rng.integers(0, 5, 4)

    def losses(named: Any, **options: Any) -> list[np.ndarray]:
        w, v = K.variable(np.eye(2)), K.variable(np.arange(10).reshape(2, 5) / 10)

        def step(row: Any, states: Any) -> Any:
            h = K.tanh(K.dot(row[:, :2], w) + states[0])
            labels = named if named is not None else K.cast(row[:, 2], "int32")
            return K.sparse_categorical_crossentropy(labels, K.dot(h, v), from_logits=True), [h]

        fed = K.constant(np.concatenate([x, of_steps[..., None]], -1))
        total = K.sum(K.rnn(step, fed, [K.zeros((4, 2))], **options)[1])
        return K.function([], [total, *K.gradients(total, [w, v])])([])

    for named in (None, K.constant(of_loop, dtype="int32")):
        with passes.without(*off):
            found = losses(named)
        for a, b in zip(found, losses(named, unroll=True), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_labels_of_a_narrow_dtype_name_more_classes_than_it_holds(engine: Any) -> None:
    scores = K.constant(np.zeros((2, 300)))
    labels = K.constant(np.array([0, 43]), dtype="uint8")
    found = K.eval(K.sparse_categorical_crossentropy(labels, scores, from_logits=True))
    np.testing.assert_allclose(found, np.log(300), rtol=1e-5)
