"""Operators of tensors: dtypes, values and indexing against NumPy, and refusals."""

import math
import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backplane import backend as K
from backplane import config, engines
from backplane.core.graph import constant, toposort
from backplane.core.spec import SIGNED
from backplane.ops.autodiff import gradients
from backplane.ops.creation import dim
from backplane.ops.elementwise import mul
from backplane.ops.lift import as_tensor, promoted
from backplane.ops.reduction import sum
from core.evaluate import leaf, value

ARITHMETIC = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.floordiv,
    operator.mod,
    operator.pow,
]
COMPARISON = [operator.lt, operator.le, operator.gt, operator.ge]


@pytest.mark.parametrize(
    "op", [*ARITHMETIC, operator.truediv, *COMPARISON], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_two_tensors(op, dtype):
    a, b = np.array([[7, 2], [3, 5]], dtype), np.array([2, 3], dtype)
    result = op(constant(a), constant(b))
    expected = op(a, b)
    if op is operator.truediv and dtype.startswith("int"):
        expected = expected.astype(config.floatx())
    assert result.dtype == expected.dtype.name
    np.testing.assert_allclose(value(result), expected, rtol=1e-6)


@pytest.mark.parametrize(
    "op", [*ARITHMETIC, operator.truediv, *COMPARISON], ids=lambda f: f.__name__
)
def test_a_number_on_either_side_keeps_the_dtype(op):
    x = constant(np.array([2.0, 3.0], "float16"))
    for result, expected in [(op(x, 2), op(x.value, 2)), (op(2.5, x), op(2.5, x.value))]:
        assert result.dtype == ("bool" if op in COMPARISON else "float16")
        np.testing.assert_allclose(value(result), expected, rtol=1e-3)


@pytest.mark.parametrize(
    ("x", "other", "dtype"),
    [
        (np.ones(2, "int32"), 2.0, "float32"),
        (np.ones(2, "int64"), 2, "int64"),
        (np.ones(2, bool), 2, "int32"),
        (np.ones(2, bool), 2.0, "float32"),
        (np.ones(2, "uint8"), 2, "uint8"),
        (np.ones(2, "float32"), np.ones(2), "float32"),
        (np.ones(2, "float32"), np.float64(2), "float32"),
        (np.ones(2, "float32"), [1, 2], "float32"),
        (np.ones(2, "float64"), np.ones(2, "float32"), "float64"),
        (np.ones(2, "int32"), np.ones(2), "float32"),
        (np.ones(2, "int32"), np.ones(2, "int64"), "int32"),
        (np.ones(2, bool), np.ones(2, "int64"), "int64"),
    ],
)
def test_what_is_no_tensor_never_widens_one(x, other, dtype):
    for result in (constant(x) + other, other + constant(x)):
        assert result.dtype == dtype
        np.testing.assert_array_equal(value(result), np.asarray(x + np.asarray(other), dtype))


@pytest.mark.parametrize(
    ("a", "b", "dtype"),
    [
        ("float32", "float64", "float64"),
        ("int32", "float32", "float32"),
        ("int64", "float16", "float16"),
        ("int32", "int64", "int64"),
        ("uint8", "int8", "int16"),
        ("bool", "int32", "int32"),
        ("bool", "float32", "float32"),
    ],
)
def test_two_tensors_of_different_dtypes(a, b, dtype):
    x, y = leaf(2, dtype=a), leaf(2, dtype=b)
    assert (x * y).dtype == (y * x).dtype == dtype


def test_arrays_and_numbers_without_a_tensor():
    assert [t.dtype for t in promoted(1, 2)] == ["int32"] * 2
    assert [t.dtype for t in promoted(1, 2.0)] == ["float32"] * 2
    assert [t.dtype for t in promoted(True, 2)] == ["int32"] * 2
    assert [t.dtype for t in promoted(np.ones(2), 2)] == ["float64"] * 2
    assert [t.dtype for t in promoted(np.ones(2, "int64"), 0.5)] == ["float32"] * 2
    assert [t.dtype for t in promoted([1, 2], [0.5])] == ["float32"] * 2
    assert as_tensor(2**40).dtype == "int64"
    assert as_tensor([]).dtype == "float32"


def test_a_negative_zero_is_not_taken_for_zero():
    one = leaf()
    assert value(one * 0.0 + 0.0, {one: 1}) == 0
    assert value(1 / (one * -0.0), {one: 1}) == -np.inf
    assert value(1 / (one * 0.0), {one: 1}) == np.inf


def test_logic():
    p, q = np.array([True, True, False]), np.array([True, False, False])
    m, n = np.array([12, 7, 255], "uint8"), np.array([10, 3, 1], "uint8")
    for op in (operator.and_, operator.or_, operator.xor):
        np.testing.assert_array_equal(value(op(constant(p), constant(q))), op(p, q))
        np.testing.assert_array_equal(value(op(constant(m), constant(n))), op(m, n))
        np.testing.assert_array_equal(value(op(3, constant(n))), op(3, n))
    for x in (p, m, np.array([3, -4], "int64")):
        np.testing.assert_array_equal(value(~constant(x)), ~x)


def test_sign_and_absolute_value():
    x = constant(np.array([-1.5, 2]))
    np.testing.assert_array_equal(value(-x), [1.5, -2])
    np.testing.assert_array_equal(value(abs(x)), [1.5, 2])


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((2, 3), (3, 4)),
        ((5, 2, 3), (5, 3, 4)),
        ((5, 2, 3), (3, 4)),
        ((2, 3), (5, 3, 4)),
        ((1, 2, 3), (5, 3, 4)),
        ((6, 1, 2, 3), (5, 3, 4)),
        ((3,), (3,)),
        ((3,), (3, 4)),
        ((2, 3), (3,)),
        ((5, 2, 3), (3,)),
        ((3,), (5, 3, 4)),
    ],
)
@pytest.mark.parametrize("unknown", [False, True])
def test_matrix_product(a, b, unknown):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=a), rng.normal(size=b)
    # Sizes of 1 that are broadcast must be known, all others need not.
    s, t = (leaf(*(None if unknown and n != 1 else n for n in v.shape)) for v in (x, y))
    np.testing.assert_allclose(value(s @ t, {s: x, t: y}), x @ y)


def test_the_products_of_a_batch_with_one_matrix_never_repeat_the_matrix():
    x, w = leaf(7, 5, 2, 3), leaf(3, 4)
    y = x @ w
    (slope,) = gradients([sum(mul(y, y), axes=(0, 1, 2, 3), keepdims=False)], [w])
    largest = max(math.prod(node.spec.shape) for node in toposort([slope]))
    assert largest == math.prod(y.spec.shape)
    a, b = np.random.default_rng(0).normal(size=(7, 5, 2, 3)), np.ones((3, 4))
    wanted = 2 * np.einsum("bcij,bcik->jk", a, a @ b)
    np.testing.assert_allclose(value(slope, {x: a, w: b}), wanted)


def test_matrix_product_with_an_array():
    x = leaf(2, 3, dtype="float32")
    assert (x @ np.ones((3, 4))).dtype == "float32"
    assert (np.ones((4, 2)) @ x).shape == (4, 3)
    with pytest.raises(ValueError, match="needs at least one axis"):
        x @ 2.0
    with pytest.raises(ValueError, match="3 columns meet 2 rows"):
        x @ np.ones((2, 3))
    with pytest.raises(ValueError, match="3 columns meet 2 rows"):
        leaf(5, 2, 3) @ leaf(2, 3)


def test_refusals_name_operation_and_dtype():
    x, p = leaf(2), leaf(2, dtype="bool")
    with pytest.raises(TypeError, match="got None"):
        x + None
    with pytest.raises(TypeError, match="got 'one'"):
        x * "one"
    with pytest.raises(TypeError, match="inhomogeneous"):
        x * [[1, 2], [3]]
    with pytest.raises(TypeError, match=r"x \+ y: x must hold numbers, got dtype bool"):
        p + p
    with pytest.raises(TypeError, match="& takes bools or integers, got dtype float64"):
        x & x
    with pytest.raises(TypeError, match="~ takes bools or integers"):
        operator.invert(x)
    with pytest.raises(ValueError, match=r"x \+ y: shapes \(2,\) and \(3,\) do not broadcast"):
        x + leaf(3)


# --- functions of NumPy ---------------------------------------------------------------------------


@pytest.mark.parametrize("op", [*ARITHMETIC, operator.truediv, operator.matmul, *COMPARISON])
def test_arrays_beside_tensors(op):
    array, tensor = np.array([3.0, 4.0]), constant(np.array([1.0, 2.0], "float32"))
    for x, y in ((array, tensor), (tensor, array), (np.float64(3), tensor)):
        if op is operator.matmul and x is not array and y is not array:
            continue
        found = op(x, y)
        assert found.dtype == ("bool" if op in COMPARISON else "float32")
        expected = op(*[z.value if z is tensor else z for z in (x, y)])
        np.testing.assert_allclose(value(found), expected, rtol=1e-6)
    assert not array == tensor  # noqa: SIM201
    assert array != tensor
    assert tensor in [array, tensor]


def test_an_array_that_a_tensor_is_added_to():
    total = array = np.zeros(2)
    total += constant([1.0, 2.0])
    np.testing.assert_array_equal(value(total), [1, 2])
    assert not array.any()


def test_functions_of_numpy_are_those_of_k():
    x = K.constant([-4.0, 4.0])
    np.testing.assert_array_equal(value(np.sqrt(x)), [0, 2])
    np.testing.assert_array_equal(value(np.maximum(np.zeros(2), x)), [0, 4])
    np.testing.assert_array_equal(value(np.abs(np.negative(x))), [4, 4])
    np.testing.assert_array_equal(value(np.sum(x)), 0)
    np.testing.assert_array_equal(value(np.max(K.reshape(x, (2, 1)), axis=0)), [4])
    with pytest.raises(TypeError, match=r"np\.exp with out takes no symbolic"):
        np.exp(x, out=np.zeros(2))


def test_functions_of_numpy_that_k_lacks():
    x = K.constant([[-4.0, 3.0]])
    refused = r"np\.spacing takes no symbolic tensors: use the functions of K, .*K\.native"
    for name in ("numpy", "theano" if engines.installed("theano") else "torch"):
        with K.engine(name), pytest.raises(TypeError, match=refused):
            np.spacing(x)


# --- indexing -------------------------------------------------------------------------------------

ARRAY = np.arange(24.0).reshape(2, 3, 4)
KEYS = [
    0,
    -1,
    np.int64(1),
    (1, 2, 3),
    (0, -1),
    slice(None),
    (slice(None), 1),
    (Ellipsis, 0),
    (0, Ellipsis, 2),
    (slice(1, None), slice(None, 2), slice(-3, -1)),
    (slice(None), slice(None), slice(None, None, 2)),
    (slice(None), slice(None), slice(3, 0, -2)),
    (slice(None), slice(None, None, -1)),
    (slice(None), slice(-1, -3, -1)),
    (slice(None), slice(10, None, -1)),
    (slice(None), slice(2, 1)),
    (slice(None), slice(1, 2, -1)),
    None,
    (None, 0, None),
    (slice(None), None, 1),
    (Ellipsis, None),
    (),
    Ellipsis,
    (slice(None), [0, 2, 2]),
    (slice(None), np.array([[0, -1], [1, 1]])),
    (0, np.array([2, 0])),
    (np.array([1, 0]), slice(None), slice(1, 3)),
    (Ellipsis, [3, 0]),
    (slice(None), [1, 0], None, slice(1)),
    (slice(None), np.array(2)),
]


@pytest.mark.parametrize("key", KEYS, ids=str)
@pytest.mark.parametrize("unknown", [False, True])
def test_indexing(key, unknown):
    x = leaf(*([None] * 3 if unknown else ARRAY.shape))
    result = x[key]
    expected = ARRAY[key]
    assert result.ndim == expected.ndim
    if not unknown:
        assert result.shape == expected.shape
    np.testing.assert_array_equal(value(result, {x: ARRAY}), expected)


bound = st.none() | st.integers(-6, 6)
parts = st.builds(slice, bound, bound, st.none() | st.integers(-3, 3).filter(bool))


@settings(max_examples=60, deadline=None)
@given(n=st.integers(0, 5), part=parts, unknown=st.booleans())
def test_slices_mean_what_they_mean_in_python(n, part, unknown):
    x = leaf(None if unknown else n)
    result = x[part]
    expected = np.arange(n, dtype="float64")[part]
    if not unknown:
        assert result.shape == expected.shape
    np.testing.assert_array_equal(value(result, {x: np.arange(n)}), expected)


@settings(max_examples=60, deadline=None)
@given(n=st.integers(0, 5), part=parts, unknown=st.booleans(), dtype=st.sampled_from(SIGNED))
def test_slices_with_tensors_mean_the_same(n, part, unknown, dtype):
    x = leaf(None if unknown else n)
    ends = [None if end is None else leaf(dtype=dtype) for end in (part.start, part.stop)]
    given = dict(zip(ends, (part.start, part.stop), strict=True))
    given.pop(None, None)
    result = x[slice(*ends, part.step)]
    expected = np.arange(n, dtype="float64")[part]
    np.testing.assert_array_equal(value(result, {x: np.arange(n), **given}), expected)


def test_constants_are_ends_that_are_known():
    one = constant(np.int32(1))
    assert leaf(4, None)[one:, one].shape == (3,)
    assert leaf(None, 4)[:, : -one : constant(2)].shape[1] is None
    with pytest.raises(IndexError, match="out of range"):
        leaf(1, 3)[one]


def test_an_element_of_a_shape_is_a_size():
    x = leaf(None, 3)
    shape = K.shape(x)
    assert shape[0].op is dim
    assert shape[-1].value == 3
    assert leaf(5, 6)[:, : shape[1]].shape == (5, 3)


def test_a_scalar_tensor_is_an_index():
    x, i = leaf(2, 3, 4), leaf(dtype="int32")
    assert x[i].shape == (3, 4)
    np.testing.assert_array_equal(value(x[:, i, 1], {x: ARRAY, i: 2}), ARRAY[:, 2, 1])
    np.testing.assert_array_equal(value(x[:, i], {x: ARRAY, i: -1}), ARRAY[:, -1])
    found = value(x[i, ::-1, None, i], {x: ARRAY, i: 1})
    np.testing.assert_array_equal(found, ARRAY[1, ::-1, None, 1])
    np.testing.assert_array_equal(value(x[:, i, [2, 0]], {x: ARRAY, i: 2}), ARRAY[:, 2, [2, 0]])


def test_iteration_gives_the_slices_of_the_first_axis():
    x = constant(ARRAY)
    for found, expected in zip(x, ARRAY, strict=True):
        np.testing.assert_array_equal(value(found), expected)
    with pytest.raises(TypeError, match="size of its first axis is unknown"):
        iter(leaf(None, 2))


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (2, IndexError, r"index 2 is out of range for axis 0 of size 2"),
        ((0, -4), IndexError, r"index -4 is out of range for axis 1 of size 3"),
        ((0, 0, 0, 0), IndexError, "4 indices for a tensor of shape"),
        ((Ellipsis, Ellipsis), IndexError, "only one ellipsis"),
        (slice(None, None, 0), ValueError, "step of a slice must not be 0"),
        (slice(0.5), TypeError, r"must be integers or scalar integer tensors, got 0\.5"),
        (slice(True), TypeError, "must be integers or scalar integer tensors, got True"),
        (slice(constant(0.5)), TypeError, "must be integers or scalar integer tensors"),
        (slice(leaf(2, dtype="int32")), TypeError, "must be integers or scalar integer tensors"),
        (
            slice(None, None, leaf(dtype="float32")),
            TypeError,
            "the step of a slice must be integers",
        ),
        (np.array([True, False]), TypeError, "boolean masks"),
        (True, TypeError, "boolean masks"),
        ([0.5], TypeError, "must hold integers, got dtype float"),
        ("a", TypeError, "must be an integer, a slice"),
        (1.0, TypeError, "must be an integer, a slice"),
        (([0, 1], [0, 1]), TypeError, "only one index array"),
        ((0, slice(None), [0, 1]), TypeError, "index in two steps"),
    ],
)
def test_indices_that_are_refused(key, error, message):
    with pytest.raises(error, match=message):
        leaf(2, 3, 4)[key]
