"""PyTorch's tape: which programs are on it, and what it finds in lowerings."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
import torch

from backplane import backend as K
from backplane import engines
from backplane.core.spec import Spec
from backplane.engines.programs import Program
from backplane.engines.torch import ENGINE, linear
from engines import lowerings

lower, lowering = (partial(f, ENGINE) for f in (lowerings.lower, lowerings.lowering))
rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def on_torch() -> Iterator[None]:
    with engines.use("torch"):
        yield


def test_programs_that_look_for_a_tape_find_none() -> None:
    seen = []

    def function(x: Any) -> tuple[Any, ...]:
        seen.append(torch.is_grad_enabled())
        if x.numel() == 0:
            raise ValueError("empty")
        return (x * 2,)

    spec = Spec((None,), "float32")
    run = ENGINE.compile(Program(function, [spec], [spec], operations=["cond"]))
    x = torch.ones(2, requires_grad=True)
    assert not run(x)[0].requires_grad
    with pytest.raises(ValueError, match="empty"):
        run(torch.ones(0))
    assert torch.is_grad_enabled()
    with torch.no_grad():
        run(x)
        assert not torch.is_grad_enabled()
    assert seen == [False] * 3


def test_no_value_of_a_program_is_on_the_tape(monkeypatch: pytest.MonkeyPatch) -> None:
    v, x = K.variable(np.ones(2)), K.placeholder((2,))
    K.eager(K.identity)(v).requires_grad_(True)
    constant = torch.ones(2, requires_grad=True)
    product = K.symbolic(lambda x: x * constant)(x * v)
    f = K.function([x], [product], updates=[K.update(v, product)])
    for n in (2.0, 4.0):
        fed = torch.full((2,), 2.0, requires_grad=True)
        np.testing.assert_array_equal(f([fed])[0], [n, n])
        assert not v.read(ENGINE).requires_grad
    seen = []
    monkeypatch.setattr(linear, "onednn_is_faster", lambda: True)
    monkeypatch.setattr(linear, "onednn", lambda x, y: seen.append(1) or torch.mm(x, y))
    a, w = K.placeholder((256, 128)), K.variable(np.ones((128, 256)))
    results = [K.dot(a, w), *K.gradients(K.dot(a, w), [a, w])]
    K.function([a], results)([torch.ones(256, 128, requires_grad=True)])
    assert len(seen) == 3
    assert torch.is_grad_enabled()


def test_tensors_on_the_tape_may_be_fed_and_come_back_as_arrays() -> None:
    x, v = K.placeholder((2,)), K.variable(np.zeros(2))
    f = K.function([x], [x, x * 2.0], updates=[K.update_add(v, x)])
    p = torch.ones(2, requires_grad=True)
    for _ in range(2):
        same, twice = f([p])
        np.testing.assert_array_equal(twice, [2, 2])
        same[:] = 5
    np.testing.assert_array_equal(p.detach(), [1, 1])
    np.testing.assert_array_equal(K.get_value(v), [2, 2])


def test_temporaries_are_written_over_where_no_tape_looks() -> None:
    x, w = K.placeholder((4, 4)), K.variable(rng.random((4, 4)))
    K.function([x], [K.relu(K.sqrt(K.tanh(K.dot(x, w) + w) * 2.0))])([np.ones((4, 4))])
    programs = [name for name in linecache.cache if name.startswith("<backplane program")]
    source = "".join(linecache.cache[programs[-1]][2])
    for call in ("tanh_(t", "out=t", "sqrt_(t", "relu_(t"):
        assert call in source
    v = torch.rand(4, 4, requires_grad=True)
    K.sum(K.relu(K.sqrt(K.tanh(K.dot(v, v) + v) * 2.0))).backward()
    assert v.grad is not None


def test_the_results_of_programs_may_be_used_with_the_tape() -> None:
    spec = Spec((None,), "float32")
    run = ENGINE.compile(Program(lambda x: (x * 2,), [spec], [spec]))
    w = torch.ones(2, requires_grad=True)
    (w * run(torch.ones(2))[0]).sum().backward()
    np.testing.assert_array_equal(w.grad, [2, 2])


SMOOTH = [
    "exp",
    "expm1",
    "log",
    "log1p",
    "sqrt",
    "sin",
    "cos",
    "tanh",
    "sigmoid",
    "softplus",
    "erfinv",
]
FLAT = {"strides": (1,), "padding": "same", "dilation": (2,), "groups": 1}
WINDOW = {"strides": (2, 1), "padding": "same", "dilation": (1, 1), "groups": 1}
POOL = {"pool": (2, 2), "strides": (2, 1), "padding": "same"}
UNEVEN = {"pool": (3, 3), "strides": (2, 2), "padding": ((2, 0), (0, 2))}

TAPED: list[tuple[str, list[tuple[int, ...]], dict[str, Any]]] = [
    *[(name, [(2, 3)], {}) for name in (*SMOOTH, "neg", "abs", "relu")],
    *[(name, [(2, 3), (3,)], {}) for name in ("add", "sub", "mul", "div", "pow", "maximum")],
    *[(name, [(2, 3), (2, 3)], {}) for name in ("sigmoid_grad", "tanh_grad", "minimum")],
    *[
        (name, [(2, 3, 2)], {"axes": (0, 2), "keepdims": False})
        for name in ("sum", "mean", "prod", "max", "min", "logsumexp")
    ],
    ("sum_to", [(2, 3)], {"shape": (1, 3)}),
    ("softmax", [(2, 3)], {"axis": 1}),
    ("softmax_grad", [(2, 3), (2, 3)], {"axis": 0}),
    ("log_softmax", [(2, 3)], {"axis": 0}),
    ("cumsum", [(2, 3)], {"axis": 1, "reverse": True}),
    ("cumprod", [(2, 3)], {"axis": 1, "reverse": False}),
    ("matmul", [(3, 2), (4, 3)], {"transpose_x": True, "transpose_y": True}),
    ("slice_grad", [(2, 2)], {"shape": (2, 4), "slices": ((None, None, 1), (0, 4, 2))}),
    ("pad", [(2, 3)], {"padding": ((1, 0), (0, 2)), "value": 0.0}),
    ("conv", [(1, 5, 4, 2), (3, 2, 2, 3)], WINDOW),
    ("conv_input_grad", [(1, 3, 4, 3), (3, 2, 2, 3)], {"shape": (1, 5, 4, 2), **WINDOW}),
    ("conv_kernel_grad", [(1, 5, 4, 2), (1, 3, 4, 3)], {"kernel_shape": (3, 2, 2, 3), **WINDOW}),
    ("conv", [(1, 5, 2), (2, 2, 3)], FLAT),
    ("avg_pool", [(1, 5, 4, 2)], POOL),
    ("avg_pool", [(1, 5, 4, 2)], UNEVEN),
    ("avg_pool_grad", [(1, 3, 4, 2)], {"shape": (1, 5, 4, 2), **POOL}),
    ("avg_pool_grad", [(1, 3, 2, 2)], {"shape": (1, 5, 4, 2), **UNEVEN}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "shapes", "params"), TAPED)
def test_the_tape_works_through_lowerings(name: str, shapes: Any, params: Any) -> None:
    operands = [torch.from_numpy(rng.uniform(0.1, 0.9, s)).requires_grad_() for s in shapes]
    assert torch.autograd.gradcheck(lowering(name, *operands, **params), operands)
    assert torch.autograd.gradgradcheck(lowering(name, *operands, **params), operands)


@pytest.mark.parametrize("params", [POOL, UNEVEN])
def test_the_tape_works_through_max_pooling(params: Any) -> None:
    x = torch.from_numpy(rng.permutation(40).reshape(1, 5, 4, 2).astype("float64"))
    y, positions = lower("max_pool", x, **params)
    forward = lowering("max_pool", x, **params)
    assert torch.autograd.gradcheck(lambda v: forward(v)[0], [x.clone().requires_grad_()])
    grad = lowering("max_pool_grad", y, x, y, positions, **params)
    take = lowering("max_pool_take", x, x, y, positions, **params)
    g = torch.rand_like(y).requires_grad_()
    assert torch.autograd.gradcheck(lambda g: grad(g, x, None, positions), [g])
    assert torch.autograd.gradcheck(lambda v: take(v, None, None, positions), [x.requires_grad_()])


def test_stop_gradient_stops_the_tape() -> None:
    x = torch.ones(2, requires_grad=True)
    assert not lower("stop_gradient", x).requires_grad


def test_the_tape_sees_where_a_step_stops_gradients() -> None:
    x, start = torch.ones(2, 3, 1, requires_grad=True), torch.ones(2, 1, requires_grad=True)

    def step(x: Any, states: Any) -> Any:
        new = x + K.stop_gradient(states[0])
        return new, [new]

    K.rnn(step, x, [start])[0].sum().backward()
    assert x.grad.ravel().tolist() == [0, 0, 1, 0, 0, 1]
    assert start.grad is None


def test_the_tape_goes_through_sums_of_many_rows() -> None:
    rows = torch.ones(300, 9, requires_grad=True)
    ids = torch.arange(300, dtype=torch.int32) % 7
    weights = torch.arange(7.0)[:, None].expand(7, 9)
    (K.segment_sum(rows, ids, 7) * weights).sum().backward()
    want = np.broadcast_to((np.arange(300) % 7)[:, None], (300, 9))
    np.testing.assert_array_equal(rows.grad, want)
