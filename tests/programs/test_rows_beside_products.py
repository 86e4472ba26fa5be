"""A row added to a product of matrices. TensorFlow joined both to a kernel that takes vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane import engines

rng = np.random.default_rng(0)
A, B, C = (rng.normal(size=shape).astype("float32") for shape in ((3, 5), (3, 4), (1, 4)))


@pytest.mark.parametrize("form", [lambda p, c: p + c, lambda p, c: c + p, lambda p, c: p - c])
@pytest.mark.parametrize("shape", [(1, 4), (None, 4), (1, None), (None, None)])
@pytest.mark.parametrize("columns", [5, None])
def test_products_of_a_transposed_matrix(engine: Any, form: Any, shape: Any, columns: Any) -> None:
    a, b, c = K.placeholder((3, columns)), K.placeholder((3, 4)), K.placeholder(shape)
    product = K.dot(K.transpose(a), b)
    y = [form(product, c), K.relu(form(product, c)), K.tanh(form(product, K.constant(C)))]
    found = K.function([a, b, c], y)([A, B, C])
    wanted = form(A.T @ B, C)
    for z, right in zip(found, (wanted, np.maximum(wanted, 0), np.tanh(wanted)), strict=True):
        np.testing.assert_allclose(z, right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("units", [1, 4])
@pytest.mark.parametrize("steps", [1, 3])
def test_slopes_of_a_matrix_of_one_row_in_a_loop(engine: Any, units: int, steps: int) -> None:
    """The slopes of all steps are added to a row of zeros."""
    shapes = [(5, steps, 1), (5, units), (1, units), (units, units)]
    given = [np.random.default_rng(0).normal(size=shape) for shape in shapes]
    found = slopes(steps, units, given)
    with engines.use("numpy"):
        wanted = slopes(steps, units, given)
    for slope, right in zip(found, wanted, strict=True):
        np.testing.assert_allclose(slope, right, rtol=1e-4, atol=1e-5)


def slopes(steps: int, units: int, given: Any) -> Any:
    """Those of both matrices of a simple recurrence."""
    x, state = K.placeholder((5, steps, 1)), K.placeholder((5, None))
    w, u = K.placeholder((1, units)), K.placeholder((units, units))

    def step(row: Any, states: Any) -> Any:
        y = K.tanh(K.dot(row, w) + K.dot(states[0], u))
        return y, [y]

    last = K.rnn(step, x, [state])[0]
    return K.function([x, state, w, u], K.gradients(K.sum(last), [w, u]))(given)
