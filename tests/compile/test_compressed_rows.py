"""Sparse matrices in compressed rows: equal results, conversion once, and what cannot serve."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse as scipy_sparse

from backplane import backend as K
from backplane.compile import sparse
from backplane.compile.passes import without
from backplane.compile.stepwise import Stepper, call_stepwise
from backplane.core.sparse import compressed, stored
from backplane.ops.sparse import rows_matmul

RNG = np.random.default_rng(7)
DENSE = np.round((RNG.random((6, 5)) < 0.4) * RNG.normal(size=(6, 5)), 2)
DENSE[2] = 0  # an empty row
DENSE[:, 1] = 0  # an empty column


@pytest.fixture
def all_thin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every sparse matrix counts as large and thin."""
    monkeypatch.setattr(sparse, "LEAST_SIZE", 0)
    monkeypatch.setattr(sparse, "MOST_FULL", 1)


def _close(found: Any, want: Any, dtype: str) -> None:
    assert [x.dtype.name for x in found] == [x.dtype.name for x in want]
    tolerance = {"float16": 2e-2, "bfloat16": 5e-2, "float64": 1e-12}.get(dtype, 1e-5)
    for x, y in zip(found, want, strict=True):
        x, y = np.asarray(x, "float64"), np.asarray(y, "float64")
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def _programs(a: Any, dtype: str) -> list[Any]:
    """Products from both sides, transposed, batched, converted, and gradients of them."""
    w, u, v = (
        K.variable(np.arange(np.prod(shape)).reshape(shape) / 16 - 0.5, dtype=dtype)
        for shape in ((5, 3), (4, 6), (2, 5, 3))
    )
    left, right = K.dot(a, w), K.dot(u, a)
    outputs = [
        left, right, K.dot(K.transpose(a), K.transpose(u)), K.dot(a, v), K.matmul(a, v),
        K.matmul(K.reshape(u, (2, 2, 6)), a), K.dot(a, K.flatten(w)[:5]),
        K.dot(K.cast(a, "float64"), K.cast(w, "float64")), K.sum(K.to_dense(a), axis=0),
        K.dot(a, K.transpose(a)),
    ]  # fmt: skip
    loss = K.sum(K.square(left)) + K.sum(K.square(right))
    slopes = K.gradients(loss, [w, u])
    return [*outputs, *slopes, *K.gradients(K.sum(K.square(slopes[0])), [w, a])]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(6, 5), (None, 5), (None, None)])
def test_equals_the_dense_form(engine: Any, all_thin: None, shape: Any, dtype: str) -> None:
    if dtype in engine.missing_dtypes:
        return
    a = K.placeholder(shape, sparse=True, dtype=dtype)
    outputs = _programs(a, dtype)
    f = K.function([a], outputs)
    found = f([scipy_sparse.csr_matrix(DENSE)])
    assert f._function.first.thin == {a}
    with without("compressed_rows"):
        plain = K.function([a], outputs)
        want = plain([DENSE])
        assert not plain._function.first.thin
    _close(found, want, dtype)
    _close(f([DENSE]), want, dtype)
    _close(f([scipy_sparse.coo_matrix(DENSE)]), want, dtype)


def test_integers(engine: Any, all_thin: None) -> None:
    a = K.placeholder((None, 5), sparse=True, dtype="int32")
    w = np.arange(15, dtype="int32").reshape(5, 3)
    values = (DENSE * 100).astype("int32")
    [found] = K.function([a], [K.dot(a, K.constant(w, dtype="int32"))])([values])
    np.testing.assert_array_equal(found, values @ w, strict=True)


@pytest.mark.parametrize("make", [K.constant, K.variable])
def test_constants_and_variables(engine: Any, all_thin: None, make: Any) -> None:
    a = make(scipy_sparse.csr_matrix(DENSE), dtype="float64")
    outputs = _programs(a, "float64")[:-1]
    f = K.function([], outputs)
    found = f([])
    with without("compressed_rows"):
        want = K.function([], outputs)([])
    _close(found, want, "float64")


def test_a_variable_that_changes(engine: Any, all_thin: None) -> None:
    a = K.variable(scipy_sparse.csr_matrix(DENSE), dtype="float64")
    w = K.variable(np.ones((5, 2)), dtype="float64")
    b = K.placeholder((5, 2), dtype="float64")
    f = K.function([b], [K.dot(a, w), K.dot(a, b)], updates=[K.update_add(w, b)])
    ones = np.ones((5, 2))
    want = DENSE @ ones
    _close(f([ones]), [want, want], "float64")
    K.set_value(a, 2 * DENSE)
    _close(f([ones]), [4 * want, 2 * want], "float64")
    grows = K.function([], [K.dot(a, w)], updates=[K.update_add(a, a)])
    assert not grows._function.first.thin
    _close(grows([]), [6 * want], "float64")
    _close(f([ones]), [12 * want, 4 * want], "float64")


CSR = scipy_sparse.csr_matrix(DENSE)
FORMATS = ("csr", "csc", "coo", "lil", "dok", "bsr", "dia")
TWICE = (
    np.array([[0, 1], [3, 2], [0, 1], [-1, 0]]), np.array([1.0, 2.0, 4.0, 8.0]), (6, 5)
)  # fmt: skip
TWICE_DENSE = np.zeros((6, 5))
TWICE_DENSE[[0, 3, 5], [1, 2, 0]] = [5, 2, 8]
UNSORTED = np.zeros((6, 5))
UNSORTED[1, [1, 3]] = [1, 2]


@pytest.mark.parametrize(
    ("value", "want"),
    [
        *[(CSR.asformat(form), DENSE) for form in FORMATS],
        (TWICE, TWICE_DENSE),
        (scipy_sparse.coo_matrix((TWICE[1], TWICE[0].T % [[6], [5]]), (6, 5)), TWICE_DENSE),
        (scipy_sparse.csr_matrix((6, 5)), np.zeros((6, 5))),
        (scipy_sparse.csr_matrix((0, 5)), np.zeros((0, 5))),
        (scipy_sparse.csr_matrix(([2.0, 1.0], [3, 1], [0, 0, 2, 2, 2, 2, 2]), (6, 5)), UNSORTED),
    ],
)  # fmt: skip
def test_what_may_be_fed(engine: Any, all_thin: None, value: Any, want: Any) -> None:
    a = K.placeholder((None, 5), sparse=True)
    w = K.variable(np.arange(10).reshape(5, 2))
    product = K.dot(a, w)
    f = K.function([a], [product, *K.gradients(product, [w]), K.to_dense(a)])
    x = np.arange(10.0).reshape(5, 2)
    slope = np.broadcast_to(want.sum(0)[:, None], (5, 2))
    for _ in range(2):
        for found, right in zip(f([value]), (want @ x, slope, want), strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "float32", "float64", "longdouble"])
def test_arrays_are_equal_if_their_bits_are(dtype: str) -> None:
    a = np.array([[0, 1, 1], [1, 0, 1]], dtype)
    assert sparse._equal(a, a.copy())
    assert sparse._equal(a[:, ::2], a[:, ::2].copy())
    assert not sparse._equal(a, a[::-1])
    if a.dtype.kind == "f":
        nan = a * np.nan
        assert sparse._equal(nan, nan.copy())
        assert not sparse._equal(0 * a, -0.0 * a)


def test_an_equal_matrix_is_converted_once(all_thin: None, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(sparse, "compressed", lambda *a: calls.append(a) or compressed(*a))
    a = K.placeholder((6, 5), sparse=True, dtype="float64")
    f = K.function([a], [K.dot(a, K.constant(np.eye(5), dtype="float64"))])
    matrix = CSR.copy()
    for _ in range(3):
        np.testing.assert_array_equal(f([matrix])[0], DENSE)
    np.testing.assert_array_equal(f([CSR])[0], DENSE)
    assert len(calls) == 1
    matrix.data *= 2  # in place: it is another matrix now
    np.testing.assert_array_equal(f([matrix])[0], 2 * DENSE)
    np.testing.assert_array_equal(f([CSR])[0], DENSE)
    assert len(calls) == 2


def test_mapped_over_a_stream(all_thin: None) -> None:
    a = K.placeholder((6, 5), sparse=True, dtype="float64")
    f = K.function([a], [K.dot(a, K.constant(np.eye(5), dtype="float64"))])
    f([CSR])
    matrix = CSR.copy()

    def changing() -> Any:
        for _ in range(3):
            matrix.data *= 2
            yield [matrix]

    found = [x for [x] in f.map(changing(), prefetch=2)]
    for i, x in enumerate(found):
        np.testing.assert_array_equal(x, 2 ** (i + 1) * DENSE)


def test_only_large_and_thin_matrices_are_taken() -> None:
    def taken(shape: tuple[int, int], share: float) -> bool:
        a = K.placeholder((None, None), sparse=True)
        f = K.function([a], [K.dot(a, K.ones((shape[1], 2)))])
        f([scipy_sparse.random(*shape, share, "csr", random_state=0)])
        return bool(f._function.first.thin)

    assert taken((400, 300), 0.01)
    assert not taken((400, 300), 0.5)
    assert not taken((20, 30), 0.01)


def test_what_is_wrong(engine: Any, all_thin: None) -> None:
    a, w = K.placeholder((None, None), sparse=True), K.placeholder((None, None))
    f = K.function([a, w], [K.dot(a, w)], name="products")
    np.testing.assert_allclose(f([CSR, np.ones((5, 2))])[0], DENSE @ np.ones((5, 2)), rtol=1e-5)
    for rows in (1, 4, 7):
        with pytest.raises(ValueError, match=r"cannot multiply shapes \(6, 5\) and"):
            f([CSR, np.ones((rows, 2))])
    b = K.placeholder((6, 5), sparse=True)
    g = K.function([b], [K.dot(b, K.ones((5, 2)))], name="products")
    g([CSR])
    with pytest.raises(ValueError, match=r"'products': input 0 .* takes shape \(6, 5\)"):
        g([CSR.T])
    with pytest.raises(IndexError, match="out of bounds for axis 1 with size 5"):
        g([(np.array([[0, 5]]), np.array([1.0]), (6, 5))])


def test_gradients_of_the_values(engine: Any) -> None:
    found = stored(CSR)
    assert found is not None
    rows = compressed(*found)
    values, y = K.variable(rows.values, dtype="float64"), K.variable(np.ones((5, 2)), "float64")
    places = [K.constant(x, dtype="int32") for x in rows[1:]]
    weights = np.arange(12.0).reshape(6, 2)
    loss = K.sum(rows_matmul(values, *places, y) * K.constant(weights, dtype="float64"))
    to_values, to_y = K.gradients(loss, [values, y])
    np.testing.assert_allclose(K.eval(loss), (weights * (DENSE @ np.ones((5, 2)))).sum())
    np.testing.assert_allclose(K.eval(to_values), (weights @ np.ones((2, 5)))[DENSE != 0])
    np.testing.assert_allclose(K.eval(to_y), DENSE.T @ weights)
    (mixed,) = K.gradients(K.sum(to_y * to_y), [values])
    np.testing.assert_allclose(K.eval(mixed), (2 * weights @ (DENSE.T @ weights).T)[DENSE != 0])


def test_the_listing_shows_the_product(engine: Any, all_thin: None) -> None:
    a = K.placeholder((6, 5), sparse=True, name="graph")
    f = K.function([a], [K.dot(a, K.ones((5, 2)))])
    assert "matmul(" in str(f.source())
    f([CSR])
    if "rows_matmul" in engine.table:
        assert "rows_matmul(" in str(f.source())
    assert "graph/rows/values" in str(f.source())


def test_programs_that_the_library_compiles_whole(engine: Any, all_thin: None) -> None:
    if engine.has_kernels({"compile": True}):
        return  # There it is one program more, of the same lowerings.
    a = K.placeholder((6, 5), sparse=True)
    f = K.function([a], [K.dot(a, K.ones((5, 2)))], compile=True)
    np.testing.assert_allclose(f([CSR])[0], DENSE @ np.ones((5, 2)), rtol=1e-5)
    assert not f._function.first.thin


def test_a_profile_runs_the_products_of_compressed_rows(engine: Any, all_thin: None) -> None:
    """Of a fed matrix, a constant and a variable, with their gradients."""
    a, w = K.placeholder((6, 5), sparse=True), K.variable(np.ones((5, 3)))
    kept = K.variable(scipy_sparse.csr_matrix(DENSE))
    known = K.constant(scipy_sparse.csr_matrix(DENSE.T))
    loss = K.sum(K.square(K.dot(a, w))) + K.sum(K.dot(known, K.dot(kept, w)))
    f = K.function([a], [loss], updates=[K.update_sub(w, K.gradients(loss, [w])[0])])
    fed = scipy_sparse.csr_matrix(DENSE)
    runs = {op: count for op, count, *_ in f.profile(fed, repeat=1).by("op")}
    assert runs["rows_matmul"] >= 4
    assert "matmul" not in runs
    np.testing.assert_array_equal(K.get_value(w), np.ones((5, 3)))
    function = f._function
    thin, stepper = function.first.thin, Stepper(function.plan.engine, lambda step: None)
    stepwise = call_stepwise(function.plan, [fed], stepper, thin=thin)
    w_after = K.get_value(w)
    K.set_value(w, np.ones((5, 3)))
    _close(stepwise, f([fed]), "float32")
    _close([w_after], [K.get_value(w)], "float32")
