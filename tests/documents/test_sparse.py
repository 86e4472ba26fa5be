"""Sparse placeholders, variables and constants, and matrices of SciPy fed to functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from backplane import backend as K
from backplane.core.sparse import SparseTensor

DENSE = np.array([[0, 2, 0, 0], [1, 0, 0, 3], [0, 0, 0, 0]], "float32")
KERNEL = np.arange(8, dtype="float32").reshape(4, 2)
FORMATS = ("csr", "csc", "coo", "lil", "dok", "bsr", "dia")


def matrix(form: str = "csr", array: bool = False) -> Any:
    kind = sparse.csr_array if array else sparse.csr_matrix
    return kind(DENSE).asformat(form)


def test_placeholder() -> None:
    x = K.placeholder((None, 4), sparse=True)
    assert K.is_sparse(x)
    assert K.is_placeholder(x)
    assert K.is_tensor(x)
    assert K.int_shape(x) == (None, 4)
    assert K.dtype(x) == "float32"
    dense = K.to_dense(x)
    assert not K.is_sparse(dense)
    assert K.int_shape(dense) == (None, 4)
    assert K.to_dense(dense) is dense
    with pytest.raises(ValueError, match="2 axes"):
        K.placeholder((2, 3, 4), sparse=True)


@pytest.mark.parametrize("array", [False, True], ids=["matrix", "array"])
@pytest.mark.parametrize("form", FORMATS)
def test_any_format_may_be_fed(form: str, array: bool) -> None:
    for is_sparse in (True, False):
        x = K.placeholder((None, 4), sparse=is_sparse)
        [found] = K.function([x], [K.to_dense(x)])([matrix(form, array)])
        np.testing.assert_array_equal(found, DENSE)


def coordinates(indices: Any, values: Any, shape: Any) -> SparseTensor:
    return SparseTensor(
        np.array(indices, "int64").reshape(-1, 2), np.array(values, "float32"), np.array(shape)
    )


def test_coordinates(engine: Any) -> None:
    for entries, want in (
        (coordinates([[0, 1], [1, 2]], [1, 2], [2, 3]), [[0, 1, 0], [0, 0, 2]]),
        (coordinates([[0, 1], [0, 1]], [1, 2], [2, 3]), [[0, 3, 0], [0, 0, 0]]),
        (coordinates([[0, 0], [-1, -1]], [1, 0], [1, 2]), [[1, 0]]),
        (coordinates([], [], [2, 1]), [[0], [0]]),
    ):
        np.testing.assert_array_equal(K.eval(K.to_dense(entries)), want)
        np.testing.assert_array_equal(K.eval(K.sum(entries, axis=0)), np.sum(want, 0))


def test_products_of_coordinates(engine: Any) -> None:
    values = K.placeholder((None,), dtype="float64")
    at = K.placeholder((None, 2), dtype="int64")
    left, right = np.arange(8.0).reshape(2, 4) - 3, np.arange(6.0).reshape(3, 2) - 2
    w, u = K.variable(right, dtype="float64"), K.variable(left, dtype="float64")
    shape = K.constant([4, 3], dtype="int64")
    entries = SparseTensor(at, values, shape)
    products = [K.dot(entries, w), K.dot(u, entries)]
    loss = sum(K.sum(K.square(p)) for p in products)
    slopes = K.gradients(loss, [values, w, u])
    again = K.gradients(K.sum(K.square(slopes[1])), [values])
    f = K.function([values, at], [*products, *slopes, *again, K.dot(K.to_dense(entries), w)])
    # The second place has two entries, and the last entry is surplus.
    places = np.array([[0, 1], [3, 2], [3, 2], [1, 0], [-1, -1]])
    given = np.array([1.5, 2, -4, 0.5, 0])
    dense = np.zeros((4, 3))
    np.add.at(dense, tuple(places[:-1].T), given[:-1])
    found = f([given, places])
    y, z = dense @ right, left @ dense
    by_dense = 2 * y @ right.T + 2 * left.T @ z
    want = [y, z, np.append(by_dense[tuple(places[:-1].T)], by_dense[0, 0])]
    want += [2 * dense.T @ y, 2 * z @ dense.T]
    for one, right_one in zip(found, want, strict=False):
        # What a surplus entry gets means nothing.
        last = slice(None, -1) if one.ndim == 1 else slice(None)
        np.testing.assert_allclose(one[last], right_one[last], atol=1e-12)
    np.testing.assert_allclose(found[-1], y, atol=1e-12)
    step = 1e-6
    higher, lower = (f([given + d, places])[3] for d in (step * np.eye(5)[0], -step * np.eye(5)[0]))
    slope = (np.square(higher).sum() - np.square(lower).sum()) / (2 * step)
    np.testing.assert_allclose(found[5][0], slope, rtol=1e-5)
    assert K.int_shape(products[0]) == (4, 2)


def test_products_of_coordinates_that_do_not_fit(engine: Any) -> None:
    entries = coordinates([[0, 1]], [1], [2, 3])
    with pytest.raises(ValueError, match=r"K\.dot: .*cannot multiply"):
        K.dot(entries, K.ones((4, 2)))
    for place in ([0, 3], [2, 0], [-1, 1]):
        wrong = coordinates([place], [5], [2, 3])
        if "unchecked" in engine.capabilities:
            assert not np.any(K.eval(K.dot(wrong, K.ones((3, 2)))))
            continue
        with pytest.raises(IndexError, match=r"K\.dot"):
            K.eval(K.dot(wrong, K.ones((3, 2))))


@pytest.mark.parametrize("place", [[0, 3], [2, 0], [0, -1], [7, 7]])
def test_coordinates_outside(engine: Any, place: list[int]) -> None:
    entries = coordinates([place], [5], [2, 3])
    if "unchecked" in engine.capabilities:
        assert not np.nansum(K.eval(K.to_dense(entries)))
        return
    with pytest.raises(IndexError, match=r"K\.to_dense"):
        K.eval(K.to_dense(entries))
    with pytest.raises(IndexError, match=r"K\.sum"):
        K.eval(K.sum(entries))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_variable_and_constant(engine: object, dtype: str) -> None:
    for make in (K.variable, K.constant):
        x = make(matrix(), dtype=dtype)
        assert K.is_sparse(x)
        assert K.int_shape(x) == (3, 4)
        found = K.eval(x)
        np.testing.assert_array_equal(found, DENSE.astype(dtype), strict=True)
        assert not K.is_sparse(K.to_dense(x))
        np.testing.assert_array_equal(K.eval(K.to_dense(x)), DENSE)
    x = K.variable(matrix())
    assert K.dtype(x) == K.floatx()
    assert K.is_variable(x)
    K.set_value(x, 2 * matrix())
    np.testing.assert_array_equal(K.get_value(x), 2 * DENSE)
    assert K.is_sparse(x)


def test_dot(engine: object) -> None:
    x, w = K.placeholder((None, 4), sparse=True), K.variable(KERNEL)
    product = K.dot(x, w)
    assert K.int_shape(product) == (None, 2)
    assert not K.is_sparse(product)
    triple = (np.argwhere(DENSE), DENSE[DENSE != 0], DENSE.shape)
    f = K.function([x], [product, *K.gradients(K.sum(K.square(product)), [w, x])])
    for value in (matrix(), DENSE, triple):
        found, by_kernel, by_input = f([value])
        want = DENSE @ KERNEL
        np.testing.assert_allclose(found, want)
        np.testing.assert_allclose(by_kernel, 2 * DENSE.T @ want)
        np.testing.assert_allclose(by_input, 2 * want @ KERNEL.T)
    np.testing.assert_allclose(K.eval(K.dot(K.variable(matrix()), w)), DENSE @ KERNEL)
    np.testing.assert_allclose(K.eval(K.dot(matrix(), w)), DENSE @ KERNEL)


def test_concatenate(engine: object) -> None:
    x, v = K.placeholder((3, 4), sparse=True), K.variable(matrix())
    for axis in (0, 1, -1):
        joined = K.concatenate([x, v], axis=axis)
        assert K.is_sparse(joined)
        [found] = K.function([x], [joined])([matrix()])
        np.testing.assert_array_equal(found, np.concatenate([DENSE, DENSE], axis))
        mixed = K.concatenate([x, K.constant(DENSE)], axis=axis)
        assert not K.is_sparse(mixed)
        [found] = K.function([x], [mixed])([matrix()])
        np.testing.assert_array_equal(found, np.concatenate([DENSE, DENSE], axis))
    assert K.int_shape(K.concatenate([x, v], axis=0)) == (6, 4)


def test_identity_keeps_and_arithmetic_loses_sparseness(engine: object) -> None:
    v = K.variable(matrix())
    same = K.identity(v)
    assert K.is_sparse(same)
    np.testing.assert_array_equal(K.eval(same), DENSE)
    for result, want in (
        (v * 2.0, DENSE * 2),
        (v + v, DENSE + DENSE),
        (K.square(v), DENSE**2),
        (K.relu(v), DENSE),
        (K.sum(v, axis=0), DENSE.sum(0)),
        (K.transpose(v), DENSE.T),
        (v[1], DENSE[1]),
        (K.zeros_like(v), 0 * DENSE),
        (K.gather(v, [2, 1]), DENSE[[2, 1]]),
    ):
        assert not K.is_sparse(result)
        np.testing.assert_array_equal(K.eval(result), want)
    K.function([], [], updates=[K.update_add(v, v)])([])
    np.testing.assert_array_equal(K.get_value(v), 2 * DENSE)


def test_loops_take_sparse_tensors(engine: object) -> None:
    x = K.placeholder((3, 4), sparse=True)
    rows = K.map_fn(lambda row: K.sum(row) + K.sum(x), x)
    [found] = K.function([x], [rows])([matrix()])
    np.testing.assert_allclose(found, DENSE.sum(1) + DENSE.sum())


def test_what_is_wrong() -> None:
    x = K.placeholder((3, 4), sparse=True)
    f = K.function([x], [K.to_dense(x)])
    with pytest.raises(ValueError, match=r"takes shape \(3, 4\)"):
        f([matrix().T])
    with pytest.raises(ValueError, match=r"takes shape \(3, 4\)"):
        f([(np.array([[0, 0]]), np.array([1.0]), (2, 2))])
    ints = K.placeholder((3, 4), sparse=True, dtype="int32")
    with pytest.raises(TypeError, match="fractions"):
        K.function([ints], [K.to_dense(ints)])([matrix() / 2])


@pytest.mark.parametrize("value", [np.eye(2), [[1]], 1.0, None, "x"])
def test_nothing_else_is_sparse(value: Any) -> None:
    assert K.is_sparse(value) is False


def test_matrices_of_scipy_and_labels_of_ctc(engine: object) -> None:
    assert K.is_sparse(matrix())
    np.testing.assert_array_equal(K.to_dense(matrix()), DENSE)
    labels = np.array([[3, 1, 5], [2, 4, 4]], "int32")
    made = K.ctc_label_dense_to_sparse(K.constant(labels, dtype="int32"), [2, 1])
    assert K.is_sparse(made)
    found = K.eval(K.to_dense(made))
    np.testing.assert_array_equal(found, np.array([[3, 1, 0], [2, 0, 0]], "int32"), strict=True)
    x = K.placeholder((None, None), dtype="int32")
    n = K.placeholder((None,), dtype="int32")
    f = K.function([x, n], [K.to_dense(K.ctc_label_dense_to_sparse(x, n))])
    np.testing.assert_array_equal(f([labels, [0, 3]])[0], [[0, 0, 0], [2, 4, 4]])
    np.testing.assert_array_equal(f([labels, [0, 0]])[0], 0 * labels)
