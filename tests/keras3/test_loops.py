"""Gradients of the loops of Keras 3."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane.engines.base import Engine
from backplane.keras3.ops import core
from backplane.keras3.ops import numpy as ops
from backplane.keras3.tensor import Tensor

VALUES = np.array([1.0, -2.0, 0.5], "float32")


def _halved(x: Any, weight: Any, limit: int | None, steps: int = 3) -> Any:
    """x · weight + 1, three times over."""

    def step(i: Any, y: Any) -> Any:
        return ops.add(i, 1), ops.add(ops.multiply(y, weight), 1.0)

    return core.while_loop(lambda i, _: ops.less(i, steps), step, (0, x), maximum_iterations=limit)[
        1
    ]


@pytest.mark.parametrize(("limit", "steps"), [(3, 3), (7, 3), (3, 9)])
def test_a_while_loop_with_a_limit_has_a_gradient(engine: Engine, limit: int, steps: int) -> None:
    """For its variables, and for what its body takes from outside; after its end, or at the limit,
    nothing changes."""
    x, weight = K.placeholder((None,)), K.placeholder(())
    y = _halved(Tensor(x), Tensor(weight), limit, steps).core
    found = K.function([x, weight], [y, *K.gradients(K.sum(y), [x, weight])])([VALUES, 0.5])
    np.testing.assert_allclose(found[0], VALUES / 8 + 1.75, rtol=1e-5)
    np.testing.assert_allclose(found[1], np.full(3, 1 / 8), rtol=1e-5)
    # x w³ + w² + w + 1
    np.testing.assert_allclose(found[2], np.sum(3 * VALUES * 0.25 + 2 * 0.5 + 1), rtol=1e-5)


def test_a_while_loop_without_a_limit_refuses_a_gradient_by_name() -> None:
    x, weight = K.placeholder((3,)), K.placeholder(())
    y = _halved(Tensor(x), Tensor(weight), None)
    with pytest.raises(TypeError, match=r"keras\.ops\.while_loop has no gradient: .*maximum_iter"):
        K.gradients(K.sum(y.core), [x])
    # Nobody asks for one where only what comes after the loop is trained.
    after = K.placeholder(())
    loss = K.sum(ops.multiply(y, Tensor(after)).core)
    gradient = K.gradients(loss, [after])
    found = K.function([x, weight, after], gradient)([VALUES, 0.5, 1.0])
    np.testing.assert_allclose(found[0], np.sum(VALUES / 8 + 1.75), rtol=1e-5)
