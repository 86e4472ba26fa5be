"""ONNX Runtime: what its kernels have in few dtypes, in all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backplane import engines
from backplane.core.spec import DTYPES, SIGNED, UNSIGNED, Spec
from backplane.engines.table import Entry
from engines.lowerings import compute

rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def on_onnxruntime() -> Any:
    with engines.use("cntk"):
        yield


NUMBERS = sorted(DTYPES - {"bool", "bfloat16"})


@pytest.mark.parametrize("dtype", NUMBERS)
def test_arithmetic_in_every_dtype(dtype: str) -> None:
    x = np.array([3, 7, 0, 100], dtype)
    y = np.array([2, 7, 5, 120], dtype)
    for name, oracle in {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "maximum": np.maximum,
        "minimum": np.minimum, "floordiv": np.floor_divide, "mod": np.mod, "less": np.less,
        "less_equal": np.less_equal, "equal": np.equal, "not_equal": np.not_equal,
    }.items():  # fmt: skip
        with np.errstate(all="ignore"):
            want = oracle(x, y)
        got = compute(name, x, y)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want, err_msg=name)


@pytest.mark.parametrize("dtype", [*NUMBERS, "bool"])
def test_shaping_in_every_dtype(dtype: str) -> None:
    x = rng.integers(0, 2, (3, 4)).astype(dtype)
    c = rng.integers(0, 2, (3, 4)).astype(bool)
    pairs = {
        "pad": (np.pad(x, ((1, 0), (0, 2))), {"padding": ((1, 0), (0, 2)), "value": 0}),
        "flip": (x[:, ::-1], {"axes": (1,)}),
        "slice": (x[1:, ::2], {"slices": ((1, None, 1), (None, None, 2))}),
        "broadcast_to": (np.broadcast_to(x, (2, 3, 4)), {"shape": (2, 3, 4)}),
    }
    for name, (want, params) in pairs.items():
        got = compute(name, x, **params)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want, err_msg=name)
    np.testing.assert_array_equal(
        compute("where", c, x, ~x if dtype == "bool" else x + x),
        np.where(c, x, ~x if dtype == "bool" else x + x),
    )
    np.testing.assert_array_equal(compute("argmax", x, axis=1), x.argmax(1))


@pytest.mark.parametrize("dtype", NUMBERS)
def test_reductions_in_every_dtype(dtype: str) -> None:
    x = rng.integers(0, 120, (3, 5)).astype(dtype)
    for name in ("sum", "prod", "max", "min"):
        with np.errstate(all="ignore"):
            want = getattr(np, name)(
                x, axis=1, **({"dtype": dtype} if name in ("sum", "prod") else {})
            )
        got = compute(name, x, axes=(1,), keepdims=False)
        assert got.dtype == want.dtype
        if dtype == "float16" and name == "prod":
            continue
        np.testing.assert_array_equal(got, want, err_msg=name)
    values, positions = compute("top_k", x, k=3)
    order = np.argsort(-x.astype("float64"), axis=-1, kind="stable")[:, :3]
    np.testing.assert_array_equal(positions, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, -1))


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
@pytest.mark.parametrize("unknown", [False, True])
def test_reductions_of_integers_are_exact_and_wrap_around(dtype: str, unknown: bool) -> None:
    top = np.iinfo(dtype).max
    x = np.array([[top, 2, 1], [top - 2, top, 3]], dtype)
    for name in ("sum", "prod"):
        for axes, keepdims in (((1,), False), ((0,), True), ((0, 1), False)):
            with np.errstate(all="ignore"):
                want = getattr(np, name)(x, axis=axes, keepdims=keepdims, dtype=dtype)
            got = compute(name, x, axes=axes, keepdims=keepdims, unknown=unknown)
            np.testing.assert_array_equal(got, want, err_msg=name)
    for name in ("cumsum", "cumprod"):
        with np.errstate(all="ignore"):
            want = getattr(np, name)(x, axis=1, dtype=dtype)
        got = compute(name, x, axis=1, reverse=False, unknown=unknown)
        np.testing.assert_array_equal(got, want, err_msg=name)


def test_uint64_is_ordered_by_all_its_bits() -> None:
    x = np.array([[2**63 + 1, 2**63, 1]], "uint64")
    assert compute("max", x, axes=(0, 1), keepdims=False) == 2**63 + 1
    assert compute("argmin", x, axis=1) == 2
    assert compute("top_k", x, k=1)[0] == 2**63 + 1


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
def test_shifts(dtype: str) -> None:
    limits = np.iinfo(dtype)
    x = np.array([limits.min, limits.max, 5], dtype)
    y = np.array([1, 3, 2], dtype)
    np.testing.assert_array_equal(compute("shift_left", x, y), np.left_shift(x, y))
    np.testing.assert_array_equal(compute("shift_right", x, y), np.right_shift(x, y))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_whole_division_by_zero_does_not_end_the_process(dtype: str) -> None:
    least = np.iinfo(dtype).min
    x, y = np.array([7, least, -7, 7], dtype), np.array([0, -1, -1, -2], dtype)
    np.testing.assert_array_equal(compute("floordiv", x, y), [0, least, 7, -4])
    np.testing.assert_array_equal(compute("mod", x, y), [0, 0, 0, -1])


@pytest.mark.parametrize("name", ["expm1", "log1p", "sigmoid", "softplus", "erfinv"])
def test_float64_functions_without_a_kernel_are_exact(name: str) -> None:
    x = np.array([-0.9999, -0.5, -1e-10, 0.0, 1e-17, 1e-3, 0.3, 0.999999])
    if name != "erfinv":
        x = np.concatenate([x, [3.0, 40.0, 500.0], [-30.0, -500.0] if name != "log1p" else []])
    table = {"softplus": Entry(lambda x: np.logaddexp(x, 0)), **engines.get("numpy").table}
    want = table[name]
    oracle = want.function([Spec(x.shape, "float64")]) if want.builds else want.function
    np.testing.assert_allclose(compute(name, x), oracle(x), rtol=1e-14, atol=1e-300)
