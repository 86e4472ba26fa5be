"""Sums of very many elements: the promised digits, however an engine adds."""

import numpy as np
import pytest

from backplane import backend as K

COUNT = 1 << 21
VALUES = np.random.default_rng(0).normal(size=COUNT).astype("float32")


@pytest.mark.parametrize("shape", [(COUNT,), (None, 512), (COUNT // 64, 8, 8)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_sums_of_many_elements(engine, shape, keepdims):
    x = K.placeholder(shape=shape)
    y = K.square(x)
    run = K.function([x], [K.sum(y, keepdims=keepdims), K.mean(y, keepdims=keepdims)])
    total, mean = run([VALUES.reshape([-1 if n is None else n for n in shape])])
    expected = np.square(VALUES, dtype="float64").sum()
    assert total.shape == mean.shape == ((1,) * len(shape) if keepdims else ())
    np.testing.assert_allclose(total, expected, rtol=1e-5)
    np.testing.assert_allclose(mean, expected / COUNT, rtol=1e-5)
