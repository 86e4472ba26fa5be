"""Nothing wraps in silence, and errors of bad arguments are the same on every engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backplane import backend as K

REACH = {"int32": "-2147483648 to 2147483647", "uint8": "0 to 255"}


@pytest.mark.parametrize(
    ("dtype", "value", "number"),
    [
        ("int32", [2**40], 2**40),
        ("int32", np.array([-(2**31) - 1]), -(2**31) - 1),
        ("int32", [2**70], 2**70),
        ("int32", [2.0**31], 2.0**31),
        ("int32", [np.inf], "inf"),
        ("uint8", [300], 300),
        ("uint8", np.array([-1], "int8"), -1),
        ("uint8", np.array([256], "uint64"), 256),
    ],
)
def test_numbers_that_a_dtype_does_not_reach(
    engine: Any, dtype: str, value: Any, number: Any
) -> None:
    said = f"{dtype} holds whole numbers from {REACH[dtype]}, got {number}"
    x = K.placeholder((1,), dtype=dtype, name="x")
    double = K.function([x], [x + x], name="double")
    with pytest.raises(ValueError, match=rf"^K\.function 'double': input 0 \('x'\): {said}"):
        double([value])
    variable = K.variable([1], dtype)
    with pytest.raises(ValueError, match=rf"^K\.set_value: value: {said}"):
        K.set_value(variable, value)
    np.testing.assert_array_equal(K.get_value(variable), [1])
    with pytest.raises(ValueError, match=rf"^K\.variable: value: {said}"):
        K.variable(value, dtype)
    with pytest.raises(ValueError, match=rf"^K\.constant: value: {said}"):
        K.constant(value, dtype)


def test_numbers_at_the_ends_are_taken(engine: Any) -> None:
    x = K.placeholder((2,), dtype="int64")
    same = K.function([x], [x])
    ends = [-(2**63), 2**63 - 1]
    assert same([ends])[0].tolist() == ends
    assert K.eval(K.variable([0, 255], "uint8")).tolist() == [0, 255]
    assert K.eval(K.variable([0.0, 255.0], "uint8")).tolist() == [0, 255]
    assert K.eval(K.variable([], "uint8")).shape == (0,)
    assert K.eval(K.cast(K.constant([300], dtype="int32"), "uint8")).tolist() == [44]


def test_ranges(engine: Any) -> None:
    with pytest.raises(ValueError, match=r"^K\.arange: .*int32 holds .* got 2147483649"):
        K.arange(2**31, 2**31 + 2)
    for start, stop, step, dtype in (
        (2**63 - 3, 2**63, 1, "int64"),
        (-(2**63) + 2, -(2**63), -1, "int64"),
        (2**63 - 1, 2**63 + 2, 1, "uint64"),
        (2**64 - 1, 2**63 - 5, -(2**62), "uint64"),
    ):
        found = K.eval(K.arange(start, stop, step, dtype=dtype))
        assert found.tolist() == [*range(start, stop, step)]
    found = K.eval(K.arange(2**31, 2**31 + 2, dtype="int64"))
    assert found.tolist() == [2**31, 2**31 + 1]


@pytest.mark.parametrize("value", [2**40, [2**40], np.array([2**40]), -(2**70)])
def test_operands_beside_a_tensor(engine: Any, value: Any) -> None:
    x = K.variable([1], "int32")
    for call in (lambda: x + value, lambda: K.maximum(x, value), lambda: K.equal(value, x)):
        with pytest.raises(ValueError, match=r"int(32|64) holds whole numbers"):
            call()


@pytest.mark.parametrize("index", [2**63, [2**40], -(2**33), 2**64])
def test_indices_that_need_more_than_32_bits(engine: Any, index: Any) -> None:
    with pytest.raises(ValueError, match=r"^K\.gather: .*(between|whole numbers from)"):
        K.gather(K.variable(np.eye(3)), index)


def test_an_index_that_is_fed_is_not_cut(engine: Any) -> None:
    i = K.placeholder((1,), dtype="int64")
    f = K.function([i], [K.gather(K.variable(np.eye(3)), i)])
    np.testing.assert_array_equal(f([[1]])[0], [[0, 1, 0]])
    try:
        found = f([[2**40]])[0]
    except IndexError:
        return
    assert "unchecked" in engine.capabilities
    assert np.isnan(found).all()


@pytest.mark.parametrize("reduce", [K.max, K.min])
def test_no_elements(engine: Any, reduce: Any) -> None:
    name = rf"K\.{reduce.__name__}: no elements"
    with pytest.raises(ValueError, match=name):
        reduce(K.zeros((0, 0)))
    x = K.placeholder((None, None))
    f = K.function([x], [reduce(x)])
    with pytest.raises(ValueError, match=r"no elements along axes \(0, 1\) .* shape \(0, 0\)"):
        f([np.zeros((0, 0))])


@pytest.mark.parametrize(
    "make", [K.random_normal, K.random_uniform, K.truncated_normal, K.random_binomial, K.zeros]
)
def test_negative_sizes(engine: Any, make: Any) -> None:
    with pytest.raises(ValueError, match=rf"^K\.{make.__name__}: shape: sizes must be 0 or more"):
        make((2, -1))


def test_a_placeholder_cannot_be_set(engine: Any) -> None:
    x = K.placeholder((1,), name="x")
    with pytest.raises(
        TypeError, match=r"^K\.set_value: x must be a variable .*, got <Placeholder 'x"
    ):
        K.set_value(x, [1.0])


@pytest.mark.parametrize(
    "call",
    [
        lambda circle: K.constant(circle),
        lambda circle: K.variable(circle),
        lambda circle: K.sum(circle),
        lambda circle: K.concatenate(circle),
        lambda circle: K.concatenate([np.ones(2), circle]),
        lambda circle: K.reshape(K.zeros((4,)), circle),
        lambda circle: K.zeros(circle),
        lambda circle: K.set_value(K.zeros((2,)), circle),
        lambda circle: K.zeros((2,)) + circle,
        lambda circle: K.function([K.placeholder((2,))], [])([circle]),
        lambda circle: K.function([], circle),
        lambda circle: K.gradients(circle, []),
        lambda circle: K.batch_get_value(circle),
    ],
)
def test_a_list_that_contains_itself(engine: Any, call: Any) -> None:
    circle: list[Any] = [1.0]
    circle.append(circle)
    with pytest.raises(
        (ValueError, TypeError), match=r"contains itself|in itself|K\.\w+|no regular|must"
    ):
        call(circle)


@pytest.mark.parametrize("alpha", [np.array([0.5, 0.25]), 0.5, np.float64(0.5)])
def test_elu_with_an_alpha_of_another_dtype(engine: Any, alpha: Any) -> None:
    """Eager calls on engines without arrays of their own took the result for float64."""
    x = np.array([-1.0, 2.0], "float32")
    expected = np.where(x > 0, x, alpha * np.expm1(x))
    for found in (K.elu(x, alpha), K.eval(K.elu(K.constant(x), alpha))):
        assert K.dtype(found) == "float32"
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_of_many_halves(engine: Any, dtype: str) -> None:
    """They are added up in float32: in bfloat16 itself a sum of ones ends at 256."""
    if dtype in engine.missing_dtypes:
        return
    x, b = K.placeholder((None, 120, 120, 2), dtype=dtype), K.placeholder((), dtype=dtype)
    (slope,) = K.gradients(K.sum(x + b), [b])
    sums = [K.sum(x), K.sum(x, axis=(0, 1, 2)), K.mean(x), slope]
    pooled = K.pool2d(x, (120, 120), pool_mode="avg", data_format="channels_last")
    found = K.function([x, b], [*sums, pooled])([np.full((1, 120, 120, 2), 0.5), 0.0])
    for y, want in zip(found, (14400, 7200, 0.5, 28800, 0.5), strict=True):
        np.testing.assert_allclose(y.astype("float64"), want, rtol=0.01)
