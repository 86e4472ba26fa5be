"""K functions where PyTorch records them: `torch.jit.trace`, `torch.onnx.export`, `torch.export`,
`torch.fx`; and under `torch.autocast`.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch.fx import symbolic_trace
from torch.fx.experimental.proxy_tensor import make_fx

from backplane import backend as K

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.trace:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*TorchScript-based:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The feature will be removed:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning:torch.*"),
]

EYE = np.eye(3)
"""An array of float64, which takes the dtype of the tensor beside it."""


class Dense(torch.nn.Module):
    """A layer that reads a size, and an array."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = torch.nn.Parameter(torch.linspace(-1.0, 1.0, 6).reshape(3, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = K.reshape(K.sum(x, axis=1), (-1, 1))
        found: torch.Tensor = K.softmax(K.dot(K.dot(x, EYE), self.kernel) + total)
        return K.concatenate([found, K.zeros_like(found)], axis=-1) * K.int_shape(x)[1]


class Images(torch.nn.Module):
    """Convolution and pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = torch.nn.Parameter(torch.linspace(-1.0, 1.0, 18).reshape(3, 3, 1, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = K.pool2d(K.conv2d(x, self.kernel, padding="same"), (2, 2), (2, 2))
        return found


class Dropped(torch.nn.Module):
    """Dropout without a seed."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = K.dropout(x, 0.5)
        return found


def rows(count: int) -> torch.Tensor:
    return torch.randn(count, 3, generator=torch.Generator().manual_seed(count))


def images(count: int) -> torch.Tensor:
    return torch.randn(count, 6, 6, 1, generator=torch.Generator().manual_seed(count))


PROGRAMS = [(Dense, rows), (Images, images)]


def draws_anew(run: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Two runs draw different flags, and `torch.manual_seed` sets them."""
    x = torch.ones(8, 8)
    torch.manual_seed(1)
    first, second = run(x), run(x)
    assert set(first.unique().tolist()) == {0.0, 2.0}
    assert not torch.equal(first, second)
    torch.manual_seed(1)
    torch.testing.assert_close(run(x), first)


# --- torch.jit.trace and torch.onnx.export --------------------------------------------------------


@pytest.mark.parametrize(("kind", "data"), PROGRAMS)
def test_jit_trace_keeps_the_batch_open(kind: Any, data: Any) -> None:
    module = kind()
    traced = torch.jit.trace(module, (data(4),))
    for count in (4, 7):
        torch.testing.assert_close(traced(data(count)), module(data(count)))


def test_jit_trace_of_a_function_with_a_kernel_that_is_no_parameter() -> None:
    def convolved(x: torch.Tensor, kernel: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = K.conv1d(x, kernel)
        return found

    given = torch.randn(2, 5, 3), torch.randn(2, 3, 4)
    traced = torch.jit.trace(convolved, given)
    torch.testing.assert_close(traced(*given), convolved(*given))


def test_jit_trace_draws_at_each_run() -> None:
    draws_anew(torch.jit.trace(Dropped(), (torch.ones(8, 8),), check_trace=False))
    with pytest.raises(TypeError, match=r"K\.dropout: samples with a seed .* Leave the seed out"):
        torch.jit.trace(lambda x: K.dropout(x, 0.5, seed=1), (torch.ones(3),))


@pytest.mark.parametrize(("kind", "data"), PROGRAMS)
def test_onnx_export_by_tracing(kind: Any, data: Any) -> None:
    module, file = kind(), io.BytesIO()
    torch.onnx.export(
        module, (data(4),), file, dynamo=False, input_names=["x"], dynamic_axes={"x": {0: "n"}}
    )
    session = onnxruntime.InferenceSession(file.getvalue())
    for count in (4, 7):
        (found,) = session.run(None, {"x": data(count).numpy()})
        np.testing.assert_allclose(found, module(data(count)).detach(), rtol=1e-5, atol=1e-6)


# --- torch.export and torch.fx --------------------------------------------------------------------


@pytest.mark.parametrize("strict", [False, True])
def test_export_draws_at_each_run(strict: bool) -> None:
    draws_anew(torch.export.export(Dropped(), (torch.ones(8, 8),), strict=strict).module())


def test_make_fx_records_what_k_computes() -> None:
    module = Dense()
    torch.testing.assert_close(make_fx(module)(rows(4))(rows(4)), module(rows(4)))
    draws_anew(make_fx(Dropped())(torch.ones(8, 8)))


@pytest.mark.parametrize(("kind", "data"), PROGRAMS)
def test_fx_keeps_the_calls(kind: Any, data: Any) -> None:
    module = kind()
    traced = symbolic_trace(module)
    assert any(n.op == "call_function" and n.target is K.softmax for n in traced.graph.nodes) or (
        kind is Images
    )
    for run in (traced, copy.deepcopy(traced)):
        for count in (4, 7):
            torch.testing.assert_close(run(data(count)), module(data(count)))
    draws = symbolic_trace(Dropped())(torch.ones(64))
    assert set(draws.unique().tolist()) == {0.0, 2.0}


def test_fx_refuses_what_a_module_cannot_hold() -> None:
    for function, message in (
        (lambda x: K.maximum(x, K.variable(1.0)), "parameter or a buffer"),
        (lambda x: K.switch(K.sum(x) > 0, lambda: x, lambda: -x), "torch.fx.wrap"),
    ):
        with pytest.raises(TypeError, match=message):
            symbolic_trace(function)


# --- torch.autocast -------------------------------------------------------------------------------

PRODUCTS: dict[str, Callable[..., Any]] = {
    "dot": lambda x: K.dot(x[0, 0], x[0, 0]),
    "batch_dot": lambda x: K.batch_dot(x[0], x[0]),
    "conv1d": lambda x: K.conv1d(x[0], x[0]),
    "conv2d": lambda x: K.conv2d(x, x),
    "conv3d": lambda x: K.conv3d(x[None], x[None]),
    "depthwise_conv2d": lambda x: K.depthwise_conv2d(x, x),
    "separable_conv2d": lambda x: K.separable_conv2d(x, x, K.ones((1, 1, 16, 2))),
    "conv2d_transpose": lambda x: K.conv2d_transpose(x, x, (4, 7, 7, 4)),
    "local_conv1d": lambda x: K.local_conv1d(x[0], K.ones((3, 8, 2)), (2,), (1,)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_autocast_reaches_products(name: str) -> None:
    x = torch.randn(4, 4, 4, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    wanted = PRODUCTS[name](x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = PRODUCTS[name](x)
        assert found.dtype == torch.bfloat16
        assert PRODUCTS[name](x.double()).dtype == torch.float64
    torch.testing.assert_close(found.float(), wanted, rtol=0.1, atol=0.2)
    found.float().sum().backward()
    assert x.grad is not None
    assert x.grad.dtype == torch.float32


def test_autocast_leaves_the_rest_and_compiled_functions() -> None:
    x = torch.ones(2, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert K.softmax(x).dtype == torch.float32
        assert K.maximum(K.dot(x, x.mT), 1.0).dtype == torch.bfloat16
        with K.engine("torch"):
            a = K.placeholder(shape=(None, 3))
            f = K.function([a], [K.dot(a, K.transpose(a))])
            assert f([np.ones((2, 3))])[0].dtype == np.float32
