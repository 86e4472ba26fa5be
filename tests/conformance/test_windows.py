"""Convolution, pooling and their kin once more: with unknown spatial sizes on every engine, and by
their decompositions, for which the NumPy engine is robbed of its kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane import engines
from backplane.engines.numpy.engine import NumPyEngine
from cases.record import Case
from conformance.compare import assert_close
from conformance.test_cases import (
    flat,
    gradients_of,
    reference,
    reference_gradients,
    scale_of,
)

WINDOWED = ("conv", "pool", "resize", "padding")
KERNELS = ("conv", "max_pool", "avg_pool")


class Robbed(NumPyEngine):
    """NumPy without kernels for convolution and pooling."""

    def __init__(self) -> None:
        super().__init__()
        for name in [name for name in self.table if name.startswith(KERNELS)]:
            del self.table[name]


@pytest.fixture
def robbed(monkeypatch: pytest.MonkeyPatch) -> Iterator[NumPyEngine]:
    """The engine without kernels, in force during the test."""
    engine = Robbed()
    engine.name = "robbed"
    monkeypatch.setitem(engines._loaded, "robbed", engine)
    monkeypatch.setattr(engines, "_owners", {})  # Whose tensors arrays are is found anew.
    with engines.use("robbed"):
        yield engine


def is_windowed(case: Case) -> bool:
    return any(word in case.name for word in WINDOWED)


def unknown(case: Case, arrays: list[np.ndarray]) -> list[Any]:
    """Placeholders: of the first only the number of channels is known, the others are whole."""
    first = "channels_first" in (case.kwargs.get("data_format"), *map(str, case.args))
    x = arrays[0]
    channels = 1 if first and case.name != "local_conv1d" else x.ndim - 1
    shape = tuple(n if i == channels else None for i, n in enumerate(x.shape))
    made = [K.placeholder(shape=shape, dtype=x.dtype.name)]
    return made + [K.placeholder(shape=a.shape, dtype=a.dtype.name) for a in arrays[1:]]


def check(case: Case, inputs: list[Any], arrays: list[np.ndarray], dtype: str) -> None:
    """Values against the oracle, gradients against NumPy's."""
    expected = reference(case)
    outputs = flat(case.call(K, *inputs))
    gradients = gradients_of(case, inputs, outputs)
    results = K.function(inputs, [*outputs, *gradients])(arrays)
    for out, found, want in zip(outputs, results, expected, strict=False):
        assert found.dtype.name == out.spec.dtype
        fits = zip(found.shape, out.spec.shape, strict=True)
        assert all(m in (n, None) for n, m in fits), f"{out.spec.shape}, real {found.shape}"
        assert_close(found, want, dtype, scale_of(case, dtype))
    if gradients:
        for found, want in zip(results[len(outputs) :], reference_gradients(case), strict=True):
            assert_close(found, want, dtype, scale_of(case, dtype) * 10, "gradient")


def test_unknown_sizes(case: Case, engine: Any) -> None:
    dtype = case.dtypes[-1]
    K.set_floatx(dtype)
    arrays = case.arrays(dtype)
    check(case, unknown(case, arrays), arrays, dtype)


def test_decompositions(case: Case, robbed: NumPyEngine) -> None:
    dtype = case.dtypes[-1]
    K.set_floatx(dtype)
    arrays = case.arrays(dtype)
    check(case, [K.placeholder(shape=a.shape, dtype=a.dtype.name) for a in arrays], arrays, dtype)
    check(case, unknown(case, arrays), arrays, dtype)


test_unknown_sizes.wanted = is_windowed
test_decompositions.wanted = is_windowed


@pytest.mark.parametrize("padding", ["valid", "same"])
@pytest.mark.parametrize("mode", ["max", "avg"])
def test_second_gradients_by_decomposition(robbed: NumPyEngine, padding: str, mode: str) -> None:
    """Gradients of gradients: where `max_pool_take` is met."""
    x = np.random.default_rng(3).permutation(60.0 * np.ones(60).cumsum()).reshape(1, 5, 6, 2) / 60
    results = []
    for name in ("numpy", "robbed"):
        with engines.use(name):
            t = K.placeholder(shape=(None, None, None, 2), dtype="float64")
            y = K.pool2d(t, (3, 2), (2, 2), padding, "channels_last", mode)
            slope = K.gradients(K.sum(y * y * y), [t])[0]
            curvature = K.gradients(K.sum(slope * K.cos(t)), [t])[0]
            results.append(K.function([t], [curvature])([x])[0])
    assert_close(results[1], results[0], "float64")
