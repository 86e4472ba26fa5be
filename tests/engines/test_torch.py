"""The torch engine: conversions, generators, oneDNN, `torch.compile`, particular kernels."""

from __future__ import annotations

import linecache
import sys
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import waiting

pytest.importorskip("torch")
import torch

from backplane import backend as K
from backplane import engines
from backplane.core.spec import Spec
from backplane.engines.torch import ENGINE, linear
from engines import lowerings

lower = partial(lowerings.lower, ENGINE)
rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def on_torch() -> Iterator[None]:
    with engines.use("torch"):
        yield


def key(*words: int) -> Any:
    return ENGINE.from_numpy(np.array(words, np.uint32))


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bool", "uint8", "uint32", "int64", "float16", "float32"])
def test_conversions_keep_dtype_and_content(dtype: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    value = ENGINE.from_numpy(array)
    assert ENGINE.spec_of(value) == Spec((2, 3), dtype)
    back = ENGINE.to_numpy(value)
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


def test_from_numpy_and_to_numpy_copy() -> None:
    array = np.zeros(3)
    value = ENGINE.from_numpy(array)
    array[:] = 1
    ENGINE.to_numpy(value)[:] = 2
    np.testing.assert_array_equal(ENGINE.to_numpy(value), np.zeros(3))


def test_feed_and_fetch_share_memory() -> None:
    array = np.zeros(3)
    assert np.shares_memory(ENGINE.fetch(ENGINE.feed(array)), array)


@pytest.mark.parametrize("kind", ["read-only", "reversed", "big-endian"])
def test_feed_takes_any_array(kind: str) -> None:
    array = np.arange(3.0)
    if kind == "read-only":
        array.flags.writeable = False
    elif kind == "reversed":
        array = array[::-1]
    else:
        array = array.astype(">f8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(ENGINE.fetch(ENGINE.feed(array)), array)


def test_bfloat16_through_numpy() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    for value in (ENGINE.feed(array), ENGINE.from_numpy(array.astype("float32"), "bfloat16")):
        assert value.dtype == torch.bfloat16
        assert ENGINE.to_numpy(value).dtype == array.dtype
        np.testing.assert_array_equal(ENGINE.fetch(value), array)


def test_variables_do_not_share_memory_with_the_users_arrays() -> None:
    array = np.zeros(2, np.float32)
    v = K.variable(array)
    array[:] = 1
    np.testing.assert_array_equal(K.get_value(v), [0, 0])
    K.get_value(v)[:] = 1
    np.testing.assert_array_equal(K.get_value(v), [0, 0])


# --- unsigned integers, ties ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64"])
def test_unsigned_arithmetic_wraps_and_compares(dtype: str) -> None:
    top = np.iinfo(dtype).max
    a, b = np.array([top, 0, top // 2 + 1], dtype), np.array([1, top, top // 2], dtype)
    for name, oracle in {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "maximum": np.maximum,
        "minimum": np.minimum, "less": np.less, "less_equal": np.less_equal,
    }.items():  # fmt: skip
        got = lower(name, ENGINE.from_numpy(a), ENGINE.from_numpy(b))
        want = oracle(a, b)
        assert ENGINE.to_numpy(got).dtype == want.dtype
        np.testing.assert_array_equal(ENGINE.to_numpy(got), want)


@pytest.mark.parametrize("size", [5, 5000])
def test_top_k_takes_the_first_of_ties(size: int) -> None:
    x = rng.integers(0, 4, (3, size)).astype("float32")
    values, positions = lower("top_k", torch.from_numpy(x), k=4)
    want = np.argsort(-x, axis=-1, kind="stable")[:, :4]
    np.testing.assert_array_equal(positions, want)
    np.testing.assert_array_equal(values, np.take_along_axis(x, want, -1))


# --- random numbers -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["random_uniform", "random_normal"])
def test_equal_keys_give_equal_samples_and_leave_torchs_generator_alone(name: str) -> None:
    params = {"shape": (1000,), "dtype": "float32"}
    state = torch.get_rng_state()
    a, b = (lower(name, key(1, 2, 3, 4), **params) for _ in range(2))
    assert torch.equal(a, b)
    for other in ((0, 2, 3, 4), (1, 0, 3, 4), (1, 2, 0, 4), (1, 2, 3, 0)):
        assert not torch.equal(a, lower(name, key(*other), **params))
    assert torch.equal(torch.get_rng_state(), state)


# --- matrix products ------------------------------------------------------------------------------


def test_onednn_serves_large_products_of_programs_only(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(linear, "onednn_is_faster", lambda: True)
    monkeypatch.setattr(linear, "onednn", lambda x, y: calls.append(x.shape) or torch.mm(x, y))
    params = {"transpose_x": False, "transpose_y": True}
    x, y = torch.rand(256, 128), torch.rand(256, 128)
    lower("matmul", x, y, **params)
    with torch.no_grad():
        lower("matmul", x[:8], y, **params)
        assert calls == []
        lower("matmul", x, y, **params)
    assert calls == [(256, 128)]


@pytest.mark.skipif(not linear.has_onednn(), reason="a build of PyTorch without oneDNN")
def test_onednn_computes_the_same() -> None:
    x, y = torch.rand(64, 48), torch.rand(80, 48).T
    with torch.no_grad():
        torch.testing.assert_close(linear.onednn(x, y), x @ y)


# --- convolution ----------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_biases_join_their_convolutions(rank: int) -> None:
    kernel, bias = K.variable(rng.random((2,) * rank + (3, 4))), K.variable(rng.random(4))
    x = K.placeholder((None,) + (5,) * rank + (3,))
    y = getattr(K, f"conv{rank}d")(x, kernel, padding="same")
    biased = K.bias_add(y, bias)
    results = [biased, *K.gradients(K.sum(K.sin(biased)), [x, kernel, bias])]
    feed = [rng.random((2,) + (5,) * rank + (3,)).astype("float32")]
    joined = K.function([x], results)(feed)
    programs = [name for name in linecache.cache if name.startswith("<backplane program")]
    assert any("conv_bias" in "".join(linecache.cache[name][2]) for name in programs)
    apart = K.function([x], [*results, y])(feed)  # the convolution itself is wanted too
    for a, b in zip(joined, apart, strict=False):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


# --- torch.compile --------------------------------------------------------------------------------


def test_torch_compile_as_an_option() -> None:
    x = K.placeholder((None, 6, 6, 2))
    kernel, w = K.variable(rng.random((3, 3, 2, 4))), K.variable(rng.random((16, 3)))
    y = K.pool2d(K.relu(K.conv2d(x, kernel)), (2, 2), strides=(2, 2))
    loss = K.mean(K.logsumexp(K.dot(K.reshape(y, (-1, 16)), w), axis=1))
    results = [loss, *K.gradients(loss, [kernel, w])]
    feed = [rng.random((5, 6, 6, 2)).astype("float32")]
    plain = K.function([x], results)(feed)
    compiled = K.function([x], results, compile=(("backend", "aot_eager"),))(feed)
    for a, b in zip(plain, compiled, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


@pytest.mark.parametrize("wish", [{"backend": "aot_eager"}, (("backend", "eager"),)])
def test_a_compiled_training_step(wish: Any) -> None:
    x, target = K.placeholder((None, 4)), rng.random((5, 3)).astype("float32")

    def losses(**options: Any) -> list[Any]:
        w, m = K.variable(np.ones((4, 3))), K.variable(np.zeros((4, 3)))
        loss = K.mean(K.square(K.sigmoid(K.dot(x, w)) - target))
        m_t = 0.9 * m - 0.1 * K.gradients(loss, [w])[0]
        f = K.function([x], [loss], updates=[(m, m_t), (w, w + m_t)], **options)
        return [f([feed])[0] for _ in range(4)]

    feed = rng.random((5, 4)).astype("float32")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's compiler warns of parts of its own
        np.testing.assert_allclose(losses(compile=wish), losses(), rtol=1e-5)


# --- imports --------------------------------------------------------------------------------------


def test_the_engine_imports_no_other_library() -> None:
    code = (
        "import sys; import backplane.engines as e; e.get('torch');"
        "print([m for m in ('jax', 'tensorflow', 'pytensor', 'onnxruntime') if m in sys.modules])"
    )
    found = waiting.run([sys.executable, "-c", code], check=True)
    assert found.stdout.strip() == "[]"


# --- where kernels of PyTorch are particular ------------------------------------------------------


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_kernels_with_one_filter_have_gradients(rank: int, dtype: str) -> None:
    x = rng.random((2, *(6,) * rank, 3)).astype(dtype)
    w = rng.random((*(3,) * rank, 3, 1)).astype(dtype)
    found = []
    for name in ("torch", "numpy"):
        with engines.use(name):
            a, k = K.placeholder(x.shape, dtype=dtype), K.placeholder(w.shape, dtype=dtype)
            y = {1: K.conv1d, 2: K.conv2d, 3: K.conv3d}[rank](a, k, data_format="channels_last")
            found.append(K.function([a, k], K.gradients(K.sum(K.square(y)), [k, a]))([x, w]))
    for got, want in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4)


@pytest.mark.parametrize("mode", ["max", "avg"])
def test_windows_may_be_larger_than_what_they_pool(mode: str) -> None:
    x = K.placeholder((1, 2, 5, 1, 1))
    y = K.pool3d(x, (5, 5, 5), (2, 2, 2), "same", "channels_last", mode)
    value, slope = K.function([x], [y, K.gradients(K.sum(y), [x])[0]])([np.ones((1, 2, 5, 1, 1))])
    np.testing.assert_allclose(value, np.ones((1, 1, 3, 1, 1)))
    np.testing.assert_allclose(slope.sum(), 3, rtol=1e-6)


def test_ranges_may_end_at_a_size() -> None:
    x = K.placeholder((None, 3))
    n = K.shape(x)[0]
    f = K.function([x], [K.arange(0, n), K.arange(0, n) + K.arange(0, n)])
    assert [a.tolist() for a in f([np.zeros((3, 3))])] == [[0, 1, 2], [0, 2, 4]]


def test_masked_products_work_where_no_value_may_be_looked_at() -> None:
    product = ENGINE.table["mul_no_nan"].function
    x, y = torch.tensor([np.inf, np.nan, 2.0]), torch.tensor([0.0, 0.0, 3.0])
    recorded = torch.fx.experimental.proxy_tensor.make_fx(lambda x, y: product(x, y))(x, y)
    for found in (product(x, y), torch.vmap(product)(x, y), recorded(x, y)):
        assert found.tolist() == [0, 0, 6]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "uint8", "bool"])
def test_choices_by_bits(dtype: str) -> None:
    kind = getattr(torch, dtype)
    mask = torch.rand(5000) > 0.5
    x = torch.tensor([np.inf, -np.inf, np.nan, -0.0, 1.0]).repeat(1000).to(kind)
    y = torch.arange(5000).to(kind)
    zero, two = torch.zeros((), dtype=kind), torch.full((), 2, dtype=kind)
    choice = ENGINE.table["where"].function
    for operands in (
        (x, y),
        (x, zero),
        (zero, x),
        (x, two),
        (x[:1], y),
        (y, (-zero.float()).to(kind)),
    ):
        wanted = torch.where(mask, *operands)
        for found in (choice(mask, *operands), choice(mask, *operands, out=torch.empty_like(x))):
            assert found.dtype == kind
            np.testing.assert_array_equal(found.double(), wanted.double())
            np.testing.assert_array_equal(found.double().signbit(), wanted.double().signbit())
    spread = choice(mask[:, None], x[:3], zero)
    np.testing.assert_array_equal(spread.double(), torch.where(mask[:, None], x[:3], zero).double())


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
def test_choices_are_seen_by_tapes_and_transformations() -> None:
    mask, x = torch.arange(5000) % 2 == 0, torch.ones(5000, requires_grad=True)
    choice = ENGINE.table["where"].function
    zero = torch.zeros(())
    choice(mask, x, zero).sum().backward()
    assert x.grad is not None
    assert x.grad.sum() == 2500
    plain = x.detach()
    slope = torch.func.jvp(lambda x: choice(mask, x, zero), (plain,), (plain,))[1]
    assert slope.sum() == 2500
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(plain, plain)
        found = torch.autograd.forward_ad.unpack_dual(choice(mask, dual, zero)).tangent
    assert found.sum() == 2500


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_rows_and_signs_of_unsigned_integers(dtype: str) -> None:
    most = np.iinfo(dtype).max
    x = K.placeholder((2, 2), dtype=dtype)
    rows, signs = K.function([x], [K.gather(x, [1, 0, -1]), K.sign(x)])(
        [np.array([[0, 7], [most, 1]], dtype)]
    )
    assert rows.tolist() == [[most, 1], [0, 7], [most, 1]]
    assert signs.tolist() == [[0, 1], [1, 1]]
    assert rows.dtype == signs.dtype == dtype
