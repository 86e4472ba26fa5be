"""ONNX Runtime with values in a device's memory: here the CPU's, by the code that a GPU takes."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane.core.context import changed
from backplane.engines.onnxruntime.placement import DeviceEngine
from compile.training import adam, cnn, lstm, mlp, trained


@pytest.fixture
def placed() -> Iterator[Any]:
    """The engine on the processor, in force."""
    with K.engine("cntk"), changed(device=DeviceEngine("cpu:0")) as context:
        yield context.device


@pytest.mark.parametrize("build", [mlp, cnn, lstm])
def test_training_is_the_same(build: Any, placed: Any) -> None:
    weights, losses = trained(build, 3)
    with changed(device=None):
        plain, others = trained(build, 3)
    np.testing.assert_allclose(losses, others, rtol=1e-5)
    for w, v in zip(weights, plain, strict=True):
        np.testing.assert_allclose(w, v, rtol=1e-4, atol=1e-6)


def test_values_stay_tensors(placed: Any) -> None:
    net = mlp()
    f = K.function(net.inputs, [net.loss, net.output], adam(net))
    first, second = f(net.feed), f([placed.from_numpy(a) for a in net.feed])
    assert [type(y) for y in (*first, *second)] == [np.ndarray] * 4
    assert all(placed.owns(w.values[placed]) for w in net.weights)
    assert f._function.plan.engine is placed


def test_functions_of_python_and_messages(placed: Any, capfd: pytest.CaptureFixture[str]) -> None:
    x = K.placeholder((None, 2))
    y = K.native(lambda a: np.cumsum(a, axis=1), x * 2.0, spec=((None, 2), "float32"))
    f = K.function([x], [K.print_tensor(y, "seen") + 1.0, K.shape(x)])
    found = f([[[1.0, 2.0]]])
    assert found[0].tolist() == [[3.0, 7.0]]
    assert found[1].tolist() == [1, 2]
    assert "seen" in capfd.readouterr().out


def test_errors_are_explained(placed: Any) -> None:
    x, y = K.placeholder((None, 2)), K.placeholder((None, 2))
    with pytest.raises(ValueError, match=r"broadcast"):
        K.function([x, y], [x + y])([np.ones((2, 2)), np.ones((3, 2))])


def test_an_index_out_of_range(placed: Any) -> None:
    x, i = K.placeholder((None, 2)), K.placeholder((None,), dtype="int32")
    f = K.function([x, i], [K.gather(x, i)])
    with pytest.raises(IndexError, match="gather: an index is out of range"):
        f([np.ones((2, 2)), [2]])


def test_a_loop_without_steps(placed: Any) -> None:
    """It needs another program than one with steps."""
    x, start = K.placeholder((None, None)), K.placeholder((None,))
    f = K.function([x, start], [K.foldl(lambda state, row: state * row, x, start)])
    np.testing.assert_array_equal(f([np.full((2, 3), 2.0), np.ones(3)])[0], [4, 4, 4])
    np.testing.assert_array_equal(f([np.ones((0, 3)), np.ones(3)])[0], [1, 1, 1])
