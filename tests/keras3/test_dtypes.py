"""The dtypes of what the functions of Keras give for values of 64 bits, integers and bools."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane.engines.base import Engine
from backplane.keras3.call import eager_engine
from backplane.keras3.naming import name_operation
from backplane.keras3.ops import core, image, linalg, math, nn
from backplane.keras3.ops import numpy as ops
from backplane.keras3.tensor import Tensor

WIDE = np.linspace(0.5, 2.0, 12).reshape(3, 4)
NUMBERS = np.arange(1, 13).reshape(3, 4)
SQUARE = np.diag([2.0, 3.0, 4.0])
IMAGES = np.linspace(0, 1, 96).reshape(2, 4, 4, 3)


def _array(x: Any) -> np.ndarray:
    return eager_engine().to_numpy(x)


def _indices() -> Tensor:
    """Indices that do not tell how many axes each of them names."""
    return Tensor(K.placeholder(shape=(None, None), dtype="int32"))


@pytest.mark.parametrize(
    "call",
    [
        lambda: ops.exp(WIDE),
        lambda: ops.sin(WIDE),
        lambda: ops.transpose(WIDE),
        lambda: ops.histogram(WIDE)[0],
        lambda: ops.histogram(WIDE)[1],
        lambda: ops.quantile(WIDE, np.array(0.5)),
        lambda: ops.where(WIDE > 1, WIDE, WIDE.astype("float16")),
        lambda: ops.trapezoid(WIDE, WIDE.astype("float32")),
        lambda: math.cdist(WIDE, WIDE.astype("float32")),
        lambda: math.cdist(WIDE.astype("float16"), WIDE),
        lambda: math.fft((WIDE, WIDE.astype("float32")))[0],
        lambda: math.irfft((WIDE.astype("float32"), WIDE)),
        lambda: nn.softmax(WIDE),
        lambda: nn.batch_normalization(WIDE, WIDE[0], WIDE[0].astype("float32"), 1),
        lambda: nn.binary_crossentropy(WIDE.astype("float32"), WIDE / 3),
        lambda: linalg.solve(SQUARE, WIDE.astype("float32")),
        lambda: image.rgb_to_hsv(IMAGES),
        lambda: core.scatter_update(WIDE, np.array([[0]]), WIDE[:1].astype("float32")),
        lambda: core.convert_to_tensor(WIDE),
    ],
)
def test_values_of_float64_become_float32(engine: Engine, call: Any) -> None:
    """As in Keras on JAX and on NumPy, alone and with other dtypes."""
    assert _array(call()).dtype == "float32"


@pytest.mark.parametrize(
    "call", [ops.transpose, ops.abs, ops.sum, ops.sort, nn.relu, core.convert_to_tensor]
)
def test_values_of_int64_become_int32(engine: Engine, call: Any) -> None:
    assert _array(call(NUMBERS)).dtype == "int32"


def test_numbers_of_64_bits_are_compared_and_converted_exactly(engine: Engine) -> None:
    large = np.array([2**40, 2**40 + 1])
    np.testing.assert_array_equal(_array(ops.equal(large, large[:1])), [True, False])
    np.testing.assert_array_equal(_array(ops.isin(large, large[1:])), [False, True])
    if "float64" not in engine.missing_dtypes:
        assert _array(core.convert_to_tensor([0.1], "float64"))[0] == 0.1
        assert _array(core.cast(np.array([0.1]), "float64"))[0] == 0.1


def test_constants_of_64_bits_in_graphs(engine: Engine) -> None:
    """What a layer takes from NumPy does not widen what it computes."""
    x = Tensor(K.placeholder(shape=(None, 4), dtype="float32"))
    assert ops.add(x, ops.reshape(WIDE, (-1, 4))[:1]).dtype == "float32"
    assert ops.concatenate([x, WIDE]).dtype == "float32"
    if "float64" not in engine.missing_dtypes:
        wide = Tensor(K.placeholder(shape=(None, 4), dtype="float64"))
        assert ops.exp(wide).dtype == ops.multiply(wide, wide).dtype == "float32"


def test_integers_are_divided_by_zero_alike(engine: Engine) -> None:
    a, b = np.array([5, -5, 7], "int32"), np.array([0, 0, 2], "int32")
    symbols = [K.placeholder(shape=(None,), dtype="int32") for _ in "ab"]
    for function, last in ((ops.floor_divide, 3), (ops.mod, 1), (ops.fmod, 1)):
        np.testing.assert_array_equal(_array(function(a, b)), [0, 0, last])
        built = function(*map(Tensor, symbols)).core
        np.testing.assert_array_equal(K.function(symbols, [built])([a, b])[0], [0, 0, last])


def test_functions_of_bools(engine: Engine) -> None:
    bools, ids = np.array([True, False, True]), np.array([0, 1, 0])
    checks: list[tuple[Any, Any, str]] = [
        (nn.relu(bools), [1, 0, 1], "int32"),
        (math.segment_max(bools, ids, 3), [True, False, False], "bool"),
        (core.scatter_update(bools, np.array([[1]]), bools[:1], "max"), [True] * 3, "bool"),
        (core.scatter_update(bools, np.array([[1]]), bools[:1], "add"), [True] * 3, "bool"),
        (nn.one_hot(bools, 2), [[0, 1], [1, 0], [0, 1]], "float32"),
        (ops.floor_divide(bools, np.array(True)), [1, 0, 1], "int32"),
        (nn.max_pool(bools[None, :, None], 3), [[[True]]], "bool"),
        (nn.adaptive_max_pool(bools[None, :, None], 1), [[[True]]], "bool"),
        (ops.unravel_index(bools, (2, 3))[1], [1, 0, 1], "int32"),
    ]
    for found, wanted, dtype in checks:
        np.testing.assert_array_equal(_array(found), wanted)
        assert _array(found).dtype == dtype


def test_means_and_convolutions_of_integers(engine: Engine) -> None:
    x = NUMBERS.astype("uint8").reshape(1, 3, 4, 1)
    mean = _array(nn.adaptive_average_pool(x, 1))
    assert mean.dtype == "float32"
    np.testing.assert_allclose(mean.ravel(), [6.5])
    np.testing.assert_allclose(_array(nn.average_pool(x, 2)).ravel(), [3.5, 5.5])
    if "float64" in engine.missing_dtypes:
        return
    kernel = np.full((3, 4, 1, 1), 10, "uint8")
    assert _array(nn.conv(x.astype("int32"), kernel.astype("int32"))).ravel().tolist() == [780]
    assert _array(nn.conv(x, kernel)).ravel().tolist() == [780 % 256]
    assert _array(nn.depthwise_conv(x, kernel)).dtype == "uint8"
    assert _array(nn.conv_transpose(x, kernel)).dtype == "uint8"
    assert _array(nn.separable_conv(x, kernel, kernel[:1, :1])).dtype == "uint8"


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("keras.ops.negative", lambda: ops.negative(np.array([True]))),
        ("keras.ops.matmul", lambda: ops.matmul(WIDE, WIDE)),
        ("keras.ops.reshape", lambda: ops.reshape(WIDE, (5,))),
        ("keras.ops.scatter", lambda: core.scatter(np.zeros((2, 0), "int32"), NUMBERS, (3,))),
        ("keras.ops.scatter_update", lambda: core.scatter_update(NUMBERS, _indices(), NUMBERS)),
        ("keras.ops.correlate", lambda: ops.correlate(*[_indices()[0] for _ in range(2)])),
        ("keras.ops.image.rgb_to_hsv", lambda: image.rgb_to_hsv(NUMBERS)),
        ("keras.ops.conv", lambda: nn.conv(IMAGES, IMAGES[0])),
    ],
)
def test_errors_begin_with_the_function_of_keras(engine: Engine, name: str, call: Any) -> None:
    with pytest.raises((TypeError, ValueError, IndexError)) as caught:
        call()
    assert str(caught.value).startswith(f"{name}: ")
    assert "backend." not in str(caught.value)
    assert "K." not in str(caught.value).partition("(")[0]


def test_an_index_beyond_the_end_names_the_function_of_keras() -> None:
    """Not every engine's library refuses such an index."""
    with K.engine("numpy"), pytest.raises(IndexError, match=r"^keras\.ops\.take: an index"):
        ops.take(NUMBERS, np.array([7]), axis=0)
    error = IndexError("backend.numpy.take: an index is out of range")
    name_operation(error)
    assert str(error) == "keras.ops.take: an index is out of range"


@pytest.mark.parametrize("dtype", ["complex64", "float8_e4m3fn", "string"])
def test_dtypes_that_do_not_exist_are_refused_by_name(engine: Engine, dtype: str) -> None:
    with pytest.raises(ValueError, match=f"dtype {dtype} are not supported by the backend"):
        core.cast(WIDE, dtype)
    with pytest.raises(TypeError, match="complex tensors are not supported"):
        math._get_complex_tensor_from_tuple((WIDE, WIDE))
