"""The functions of `keras.ops.numpy` on symbolic tensors and on values, beside NumPy's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane.backend._trees import map_leaves
from backplane.engines.base import Engine
from backplane.keras3.call import eager_engine
from backplane.keras3.ops import numpy as ops
from backplane.keras3.tensor import Tensor
from keras3.numpy_cases import CASES, Case


def _arrays(tree: Any) -> list[np.ndarray]:
    """The values in a nest of results, one after another."""
    found: list[np.ndarray] = []
    engine = eager_engine()
    map_leaves(
        lambda v: found.append(engine.to_numpy(v) if engine.owns(v) else np.asarray(v)), tree
    )
    return found


def _expected(case: Case) -> list[np.ndarray]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return _arrays(case.oracle(case.arrays))


def _slopes(case: Case, weights: list[np.ndarray]) -> list[np.ndarray]:
    """The gradients of the weighted sum of the results, by differences of the oracle in float64."""
    arrays = [a.astype("float64") for a in case.arrays]

    def total(arrays: list[np.ndarray]) -> float:
        return sum(
            float(np.sum(w * y)) for w, y in zip(weights, _arrays(case.oracle(arrays)), strict=True)
        )

    slopes = []
    for i, array in enumerate(arrays):
        slope = np.empty(array.shape)
        for at in np.ndindex(array.shape):
            moved = []
            for by in (1e-6, -1e-6):
                changed = array.copy()
                changed[at] += by
                moved.append(total([*arrays[:i], changed, *arrays[i + 1 :]]))
            slope[at] = (moved[0] - moved[1]) / 2e-6
        slopes.append(slope)
    return slopes


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_symbolic_and_eager(engine: Engine, case: Case) -> None:
    """With an unknown first size, in a K.function, and on values at once."""
    expected = _expected(case)
    shapes = [a.shape if case.fixed or not a.ndim else (None, *a.shape[1:]) for a in case.arrays]
    inputs = [
        K.placeholder(shape=shape, dtype=str(a.dtype))
        for shape, a in zip(shapes, case.arrays, strict=True)
    ]
    function = getattr(ops, case.name)
    result = case.called(function, [Tensor(x) for x in inputs])
    outputs: list[Any] = []
    map_leaves(lambda t: outputs.append(t.core), result)
    gradients = []
    weights: list[np.ndarray] = []
    if case.slopes:
        rng = np.random.default_rng(3)
        weights = [rng.uniform(0.5, 1.5, y.shape).astype("float32") for y in expected]
        loss = sum(K.sum(y * w) for y, w in zip(outputs, weights, strict=True))
        gradients = K.gradients(loss, inputs)
    values = K.function(inputs, [*outputs, *gradients])(case.arrays)
    for value, wanted in zip(values, expected, strict=False):
        np.testing.assert_allclose(value, wanted, rtol=2e-5, atol=1e-5)
        assert value.shape == wanted.shape
    if case.slopes:
        slopes = _slopes(case, weights)
        for value, wanted in zip(values[len(outputs) :], slopes, strict=True):
            np.testing.assert_allclose(value, wanted, rtol=2e-3, atol=2e-3)
    at_once = _arrays(case.called(function, list(case.arrays)))
    for value, wanted, symbolic in zip(at_once, expected, outputs, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=2e-5, atol=1e-5)
        assert str(value.dtype) == symbolic.spec.dtype


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("nonzero", lambda x: ops.nonzero(x)),
        ("where", lambda x: ops.where(x)),
        ("unique", lambda x: ops.unique(x)),
        ("bincount", lambda x: ops.bincount(x)),
        ("hanning", lambda x: ops.hanning(x)),
    ],
)
def test_values_only(name: str, call: Any) -> None:
    """Functions whose results have a shape that depends on values refuse symbolic tensors."""
    with pytest.raises(TypeError, match=r"keras\.ops\.\w+ has no symbolic form: .* on values"):
        call(Tensor(K.placeholder(shape=(4,), dtype="int32")))


def test_by_values(engine: Engine) -> None:
    """On values they give tensors of the engine."""
    x = np.array([3, 1, 0, 1, 4], "int32")
    checks = [
        (ops.nonzero(x), np.nonzero(x)),
        (ops.where(x > 1), np.where(x > 1)),
        (ops.unique(x, return_inverse=True), np.unique(x, return_inverse=True)),
        (ops.unique(x, size=6, fill_value=9), np.array([0, 1, 3, 4, 9, 9])),
        (ops.bincount(x, minlength=7), np.bincount(x, minlength=7)),
        (ops.bincount(x, weights=x * 0.5), np.bincount(x, weights=x * 0.5)),
        (ops.bincount(np.stack([x, x[::-1]])), np.stack([np.bincount(x)] * 2)),
        (ops.kaiser(7, 3.0), np.kaiser(7, 3.0)),
        (ops.bartlett(np.int32(6)), np.bartlett(6)),
        (ops.eye(3, 4, 1), np.eye(3, 4, 1)),
        (ops.tri(3, k=-1), np.tri(3, k=-1)),
        (ops.arange(1, 9, 2), np.arange(1, 9, 2)),
        (ops.linspace(0, 1, 5), np.linspace(0, 1, 5)),
        (ops.geomspace(1, 8, 4), np.geomspace(1, 8, 4)),
        (ops.full((2, 3), 7), np.full((2, 3), 7.0)),
        (ops.identity(2, "int32"), np.identity(2, "int32")),
    ]
    for found, wanted in checks:
        for value, oracle in zip(_arrays(found), _arrays(wanted), strict=True):
            np.testing.assert_allclose(value, oracle, rtol=1e-5)


def test_bincount_of_known_range(engine: Engine) -> None:
    """Symbolic numbers are counted if they are known to stay below the length."""
    x = np.array([3, 1, 9, 1, 0], "int32")
    fed = K.placeholder(shape=(None,), dtype="int32")
    clipped = ops.clip(Tensor(fed), 0, 4)
    found = K.function([fed], [ops.bincount(ops.reshape(clipped, [-1]), minlength=6).core])([x])[0]
    np.testing.assert_array_equal(found, [1, 2, 0, 1, 1, 0])
    small = K.placeholder(shape=(None,), dtype="uint8")
    counts = ops.bincount(Tensor(small), minlength=256).core
    found = K.function([small], [counts])([x.astype("uint8")])[0]
    np.testing.assert_array_equal(found, np.bincount(x, minlength=256))
    for numbers, length in ((Tensor(fed), 6), (clipped, 4), (clipped, 0)):
        with pytest.raises(
            TypeError, match=r"bincount has no symbolic form: .*clip\(x, 0, n - 1\)"
        ):
            ops.bincount(numbers, minlength=length)


@pytest.mark.parametrize(
    "call", [lambda: ops.eye(3.0), lambda: ops.tri(2, 2.0), lambda: ops.eye(2, k=1.0)]
)
def test_sizes_are_integers(call: Any) -> None:
    """A float is no size, even if it is whole."""
    with pytest.raises(TypeError):
        call()
