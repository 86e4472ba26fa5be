"""ONNX Runtime: convolutions with their biases, products for kernels, pooling without positions."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx
import pytest

from backplane import backend as K
from backplane import engines
from backplane.core.graph import Placeholder
from backplane.core.registry import PRIMITIVES
from backplane.core.spec import Spec
from backplane.engines.onnxruntime import engine
from backplane.ops.autodiff import gradients

rng = np.random.default_rng(0)


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The models that sessions are made of while the test runs."""
    made: list[Any] = []
    make = engine.session

    def spy(model: bytes, *args: Any) -> Any:
        made.append(onnx.load_from_string(model))
        return make(model, *args)

    monkeypatch.setattr(engine, "session", spy)
    return made


def operations(models: list[Any]) -> Counter[str]:
    return Counter(node.op_type for node in models[-1].graph.node)


def on_both(inputs: list[Any], outputs: list[Any], values: list[np.ndarray]) -> None:
    """Check that cntk computes what numpy does."""
    results = []
    for name in ("numpy", "cntk"):
        with engines.use(name):
            results.append(K.function(inputs, outputs)(values))
    for wanted, found in zip(*results, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def normal(*shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype("float32")


def test_a_bias_goes_into_its_convolution(models: list[Any]) -> None:
    x, k, b = (K.placeholder(s) for s in ((None, 6, 6, 2), (3, 3, 2, 4), (4,)))
    y = K.relu(K.bias_add(K.conv2d(x, k, padding="same", data_format="channels_last"), b))
    on_both([x, k, b], [y], [normal(2, 6, 6, 2), normal(3, 3, 2, 4), normal(4)])
    (conv,) = [node for node in models[-1].graph.node if node.op_type == "Conv"]
    assert len(conv.input) == 3
    assert operations(models)["Add"] == 0


def test_a_convolution_that_is_read_without_its_bias_is_computed_once(models: list[Any]) -> None:
    x, k, b = (K.placeholder(s) for s in ((None, 6, 6, 2), (3, 3, 2, 4), (4,)))
    y = K.conv2d(x, k, padding="same", data_format="channels_last")
    on_both([x, k, b], [y, y + b], [normal(2, 6, 6, 2), normal(3, 3, 2, 4), normal(4)])
    assert operations(models)["Conv"] == 1
    assert operations(models)["Add"] == 1


@pytest.mark.parametrize("channels", [2, 64])
@pytest.mark.parametrize(
    ("strides", "dilation", "padding"),
    [(1, 1, "valid"), (1, 1, "same"), (2, 1, "same"), (2, 1, "valid"), (1, 2, "same")],
)
def test_kernel_gradients_by_products(
    strides: int, dilation: int, padding: str, channels: int, models: list[Any]
) -> None:
    x, k = K.placeholder((None, 9, 8, channels)), K.placeholder((3, 2, channels, 3))
    y = K.conv2d(
        x, k, (strides, strides), padding, "channels_last", dilation_rate=(dilation, dilation)
    )
    (g,) = K.gradients(K.sum(K.square(y)), [k])
    on_both([x, k], [g], [normal(2, 9, 8, channels) / 8, normal(3, 2, channels, 3) / 8])
    # Thin matrices are laid side by side; wide ones make a product for each row of the window.
    assert operations(models)["Gemm"] == (1 if channels == 2 else 3)


@pytest.mark.parametrize("channels", [1, 70])
@pytest.mark.parametrize("rank", [1, 3])
def test_kernel_gradients_by_products_in_other_ranks(rank: int, channels: int) -> None:
    x, g = Placeholder(Spec((None, *(5,) * rank, channels), "float64")), None
    k = Placeholder(Spec((*(2,) * rank, channels, 3), "float64"))
    params = {"strides": (1,) * rank, "padding": "same", "dilation": (1,) * rank, "groups": 1}
    y = PRIMITIVES["conv"](x, k, **params)
    (g,) = gradients([PRIMITIVES["mul"](y, y)], [k])
    on_both([x, k], [g], [rng.normal(size=t) for t in ((2, *(5,) * rank, channels), k.spec.shape)])


@pytest.mark.parametrize(
    ("sizes", "pool"), [((6,), (2,)), ((6, 6), (2, 3)), ((4, 6), (1, 2)), ((4, 2, 6), (2, 2, 3))]
)
def test_a_pooling_whose_windows_touch_gives_no_positions(
    sizes: tuple[int, ...], pool: tuple[int, ...], models: list[Any]
) -> None:
    x = Placeholder(Spec((None, *sizes, 3), "float32"))
    params = {"pool": pool, "strides": pool, "padding": "same"}
    y = PRIMITIVES["max_pool"](x, **params)[0]
    (g,) = gradients([PRIMITIVES["mul"](y, y)], [x])
    # Few distinct numbers: the first of tied maxima takes the gradient.
    on_both([x], [y, g], [rng.integers(-1, 2, (5, *sizes, 3)).astype("float32")])
    (node,) = [each for each in models[-1].graph.node if each.op_type == "MaxPool"]
    assert len(node.output) == 1
    assert operations(models)["ScatterElements"] == 0


def test_a_pooling_whose_windows_overlap_scatters(models: list[Any]) -> None:
    x = Placeholder(Spec((None, 6, 6, 3), "float32"))
    y = PRIMITIVES["max_pool"](x, pool=(3, 3), strides=(2, 2), padding="same")[0]
    (g,) = gradients([PRIMITIVES["mul"](y, y)], [x])
    on_both([x], [g], [rng.integers(-1, 2, (5, 6, 6, 3)).astype("float32")])
    assert operations(models)["ScatterElements"] == 1


def test_an_infinite_gradient_reaches_the_first_maximum_alone() -> None:
    g, x = (Placeholder(Spec((1, n, 1, 1), "float32")) for n in (1, 2))
    params = {"pool": (2, 1), "strides": (2, 1), "padding": "valid"}
    y, positions = PRIMITIVES["max_pool"](x, **params)
    found = PRIMITIVES["max_pool_grad"](g, x, y, positions, **params)
    with engines.use("cntk"):
        (value,) = K.function([g, x], [found])([np.full((1, 1, 1, 1), np.inf), [[[[1]], [[2]]]]])
    np.testing.assert_array_equal(value.ravel(), [0, np.inf])
