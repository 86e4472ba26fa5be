"""Logarithms of powers are those of the powers: XLA's own form of them is a number where these are
NaN.
"""

import numpy as np
import pytest

from backplane import backend as K

X = np.array([-104.0, 4.0, 0.0])


@pytest.mark.parametrize("power", [0.5, 1.5])
def test_a_power_that_is_known(engine, power):
    x = K.placeholder((None,))
    (found,) = K.function([x], [K.log(K.pow(x, power))])([X])
    np.testing.assert_allclose(found, [np.nan, power * np.log(4), -np.inf], rtol=1e-6)


def test_a_power_that_is_fed(engine):
    x, y = K.placeholder((None,)), K.placeholder(())
    (found,) = K.function([x, y], [K.log(K.pow(x, y))])([X, 0.5])
    np.testing.assert_allclose(found, [np.nan, np.log(2), -np.inf], rtol=1e-6)


def test_a_power_in_a_loop(engine):
    x = K.placeholder((None,))
    (found,) = K.function([x], [K.map_fn(lambda e: K.log(K.pow(e, 0.5)), x)])([X])
    np.testing.assert_allclose(found, [np.nan, np.log(2), -np.inf], rtol=1e-6)
