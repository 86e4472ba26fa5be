"""`backplane.numpy`, `backplane.torch`, …: K bound to an engine."""

import importlib

import numpy as np
import pytest

from backplane import backend as K
from backplane import engines
from backplane.known_engines import ENGINES


@pytest.fixture
def bound(engine):
    """The module of the engine under test, while another one is in force."""
    if engine.name not in ENGINES:
        pytest.skip("third-party engines have no module here")
    with engines.use("numpy"):
        yield importlib.import_module(f"backplane.{engine.name}")


def test_it_computes_on_its_engine(bound, engine):
    x = bound.placeholder(shape=(2,))
    f = bound.function([x], [bound.tanh(x) * 2.0])
    assert f._function.plan.engine is engine
    np.testing.assert_allclose(f([[0.0, 1.0]])[0], np.tanh([0.0, 1.0]) * 2, rtol=1e-6)
    assert bound.backend() == engine.name


def test_it_has_all_names(bound):
    assert all(callable(getattr(bound, name)) for name in K.__all__)
    assert bound.tensorflow_backend is K.tensorflow_backend
    with pytest.raises(AttributeError, match="no_such_name"):
        bound.no_such_name  # noqa: B018


def test_libraries_are_not_hidden():
    import numpy

    assert numpy.__name__ == "numpy"
