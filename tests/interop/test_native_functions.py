"""`K.native`: functions of each engine's library inside graphs."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane.compile.program import statistics

LIBRARIES = {
    "jax": "jax.numpy", "torch": "torch", "tensorflow": "tensorflow", "theano": "pytensor.tensor",
    "numpy": "numpy", "cntk": "numpy", "mlx": "mlx.core",
}  # fmt: skip

X = np.random.default_rng(0).uniform(0.2, 1.0, (2, 3)).astype("float32")


@pytest.fixture
def lib(engine: Any) -> Any:
    """The library whose functions the engine takes."""
    return importlib.import_module(LIBRARIES[engine.name])


def slope(x: Any) -> Any:
    """The derivative of `sin(x) * x`."""
    return np.cos(x) * x + np.sin(x)


def curved(lib: Any, **options: Any) -> Any:
    """`sin(x) * x` in functions of the library, with a gradient where the library has none."""
    if lib is np:
        options["gradient"] = lambda g, x: g * (K.cos(x) * x + K.sin(x))
    return lambda x: K.native(lambda a: lib.sin(a) * a, x, **options)


@pytest.mark.parametrize("shape", [(2, 3), (None, 3), (None, None)])
def test_values_and_gradients_of_several_orders(engine, lib, shape):
    x, w = K.placeholder(shape), K.variable(np.full((3,), 2.0))
    y = curved(lib)(x * w)
    assert K.int_shape(curved(lib)(x)) == shape
    (first,) = K.gradients(K.sum(y), [w])
    (second,) = K.gradients(K.sum(first), [w])
    (third,) = K.gradients(K.sum(second), [x])
    f = K.function([x], [y, first, second, third])
    for rows in (X, X[:1]) if shape[0] is None else (X,):
        u = 2.0 * rows.astype("float64")
        bend = 2 * np.cos(u) - np.sin(u) * u
        found = f([rows])
        np.testing.assert_allclose(found[0], np.sin(u) * u, rtol=1e-5)
        np.testing.assert_allclose(found[1], (slope(u) * rows).sum(0), rtol=1e-4)
        np.testing.assert_allclose(found[2], (bend * rows**2).sum(0), rtol=1e-4)
        turn = -3 * np.sin(u) - np.cos(u) * u
        np.testing.assert_allclose(
            found[3], turn * 2 * rows**2 + bend * 2 * rows, rtol=1e-3, atol=1e-5
        )


def test_structures_of_results(engine, lib):
    x = K.placeholder((None, 4))
    both = K.native(lambda a, b: {"sum": a + b, "parts": (a[:, :2] * 1, b[:1] * 1)}, x, x * 2.0)
    assert list(both) == ["sum", "parts"]
    assert K.int_shape(both["parts"][0]) == (None, 2)
    assert K.int_shape(both["parts"][1])[1] == 4
    found = K.function([x], [both["sum"], *both["parts"]])([np.ones((3, 4))])
    assert [array.shape for array in found] == [(3, 4), (3, 2), (1, 4)]
    np.testing.assert_array_equal(found[0], np.full((3, 4), 3))


def test_sparse_tensors_are_operands_and_results(engine, lib):
    x, n = K.placeholder((2, 3)), K.placeholder((2,), dtype="int32")
    entries = K.ctc_label_dense_to_sparse(x, n)
    doubled, same = K.native(lambda s: (s.values + s.values, s), entries)
    assert K.is_sparse(same)
    (total, dense) = K.function([x, n], [K.sum(doubled), K.to_dense(same)])([X, [1, 2]])
    wanted = X * [[1, 0, 0], [1, 1, 0]]
    np.testing.assert_allclose(total, 2 * wanted.sum(), rtol=1e-6)
    np.testing.assert_allclose(dense, wanted, rtol=1e-6)


def test_float64_and_integers(engine, lib):
    x = K.placeholder((2,), dtype="float64")
    n = K.placeholder((2,), dtype="int32")
    y, m = K.native(lambda a, b: (a / 3, b + b), x, n)
    assert (y.dtype, m.dtype) == ("float64", "int32")
    found = K.function([x, n], [y, m, K.sum(y)])([[1.0, 2.0], [3, 2**29]])
    np.testing.assert_allclose(found[0], np.array([1.0, 2.0]) / 3, rtol=1e-15)
    np.testing.assert_array_equal(found[1], [6, 2**30])


def test_variables_around_the_function_are_read_at_each_call_and_trained(engine, lib):
    x, w = K.placeholder((None, 3)), K.variable(np.ones(3))
    if lib is np:
        y = K.native(lambda a: np.multiply(a, w), x)
        f = K.function([x], [y])
    else:
        y = K.native(lambda a: a * w, x)
        (g,) = K.gradients(K.mean(K.square(y - 3.0 * x)), [w])
        f = K.function([x], [y], updates=[K.update_sub(w, g)])
        for _ in range(100):
            f([X])
        np.testing.assert_allclose(K.get_value(w), [3, 3, 3], rtol=1e-2)
    K.set_value(w, np.array([1.0, 2.0, 4.0]))
    np.testing.assert_allclose(f([X])[0], X * [1, 2, 4], rtol=1e-6)


def test_in_loops_and_branches(engine, lib):
    x = K.placeholder((1, None, 3))
    w = K.variable(2.0)

    def step(row, states):
        new = curved(lib)(row) * w + states[0]
        return new, [new]

    last, outputs, _ = K.rnn(step, x, [K.zeros((1, 3))])
    chosen = K.switch(K.sum(x) > 0, lambda: curved(lib)(x), lambda: -x)
    mapped = K.map_fn(curved(lib), x[0])
    slopes = K.gradients(K.sum(last) + K.sum(mapped), [x, w])
    found = K.function([x], [outputs, chosen, mapped, *slopes])([X[None]])
    wanted = np.sin(X) * X
    np.testing.assert_allclose(found[0][0], 2 * wanted.cumsum(0), rtol=1e-5)
    np.testing.assert_allclose(found[1][0], wanted, rtol=1e-5)
    np.testing.assert_allclose(found[2], wanted, rtol=1e-5)
    np.testing.assert_allclose(found[3][0], 3 * slope(X), rtol=1e-4)
    np.testing.assert_allclose(found[4], wanted.sum(), rtol=1e-4)
    np.testing.assert_allclose(K.function([x], [chosen])([-X[None]])[0], X[None], rtol=1e-5)


def test_in_loops_in_loops_and_branches_in_loops(engine, lib):
    x, mask = K.placeholder((None, None, 3)), K.placeholder((None, None))
    f = curved(lib)
    folded = K.map_fn(lambda r: K.foldl(lambda total, v: total + f(v) * K.sum(total), r), x)

    def step(v, states):
        new = K.switch(K.sum(v) > 0, lambda: f(v + states[0]), lambda: v)
        return new, [new]

    outputs = K.rnn(step, x, [K.zeros_like(x[:, 0])], go_backwards=True, mask=mask)[1]
    (slopes,) = K.gradients(K.sum(folded) + K.sum(outputs), [x])
    data = np.stack([X, 0.5 * X[::-1]])
    data[:, 0] *= -2  # There the other branch is taken.
    flags = np.ones(data.shape[:2])
    flags[1, 0] = 0
    found = K.function([x, mask], [folded, outputs, slopes])([data, flags])

    curve = np.sin(data) * data
    total = data[:, 0]
    for i in range(1, data.shape[1]):
        total = total + curve[:, i] * total.sum(1, keepdims=True)
    np.testing.assert_allclose(found[0], total, rtol=1e-4)
    state = np.zeros_like(data[:, 0])
    for i, j in enumerate(reversed(range(data.shape[1]))):
        v = data[:, j]
        new = np.sin(v + state) * (v + state) if v.sum() > 0 else v
        state = np.where(flags[:, j, None] > 0, new, state)
        np.testing.assert_allclose(found[1][:, i], state, rtol=1e-4, atol=1e-6)
    assert np.isfinite(found[2]).all()
    assert abs(found[2]).min() > 0


def test_control_dependencies(engine, lib):
    w = K.variable(1.0)
    with K.control_dependencies([K.update_add(w, 1.0)]):
        y = K.native(lambda a: a * 10.0, w)
    assert K.eval(y) == 20


def test_equal_functions_share_a_program_and_others_do_not(engine, lib):
    def scaled(factor):
        return lambda a: a * factor

    x, twice = K.placeholder((2,)), scaled(2.0)
    K.function([x], [K.native(twice, x)])([[1.0, 1.0]])
    before = statistics.compilations
    assert K.function([x], [K.native(twice, x)])([[1.0, 3.0]])[0][1] == 6
    assert statistics.compilations == before
    assert K.function([x], [K.native(scaled(3.0), x)])([[1.0, 3.0]])[0][1] == 9


def test_eager_calls(engine, lib):
    if "eager" not in engine.capabilities:
        assert K.native(lambda a: a * 2.0, np.ones(3, "float32"))[0] == 2
        return
    value = engine.from_numpy(X)
    found = K.native(lambda a: lib.sin(a), value)
    assert engine.owns(found)
    np.testing.assert_allclose(engine.to_numpy(found), np.sin(X), rtol=1e-6)
    twice = K.native(lambda a: (a, a), X)
    assert type(twice) is tuple
    assert engine.spec_of(twice[1]).shape == X.shape
    if lib is not np:  # Arrays beside a variable make a graph, native tensors do not.
        found = K.native(lambda a, w: a * w, value, K.variable(2.0))
        np.testing.assert_allclose(engine.to_numpy(found), 2 * X, rtol=1e-6)


def test_a_stated_result(engine, lib):
    """For functions that stand-ins cannot tell about."""
    x = K.placeholder((None, 3))
    y = K.native(lambda a: a * 2.0, x, spec=((None, 3), "float32"))
    pair = K.native(lambda a: [a, a * 3.0], x, spec=[((None, 3), "float32")] * 2)
    assert K.int_shape(y) == (None, 3)
    np.testing.assert_allclose(K.function([x], [y + pair[1]])([X])[0], 5 * X, rtol=1e-6)


def test_refusals(engine, lib):
    x = K.placeholder((2, 3))
    with pytest.raises(TypeError, match=r"K\.native: fn must be a function, got 3"):
        K.native(3, x)
    with pytest.raises(
        ValueError, match=r"K\.native: the function .* fails on stand-ins for float32"
    ):
        K.native(lambda a: lib.no_such_function(a), x)
    y = K.native(lambda a: lib.sin(a), x)
    if lib is np:
        with pytest.raises(ValueError, match="has no gradients of its own"):
            K.gradients(y, [x])
    other = "torch" if engine.name != "torch" else "numpy"
    with K.engine(other), pytest.raises(TypeError, match=f"engine '{engine.name}'.*cannot run on"):
        K.function([x], [y])([X])


def test_no_onnx_model(engine, lib, tmp_path):
    x = K.placeholder((2, 3))
    f = K.function([x], [K.native(lambda a: lib.sin(a), x)])
    with pytest.raises((TypeError, ValueError), match=r"cannot run on 'cntk'|of an ONNX model"):
        f.to_onnx(tmp_path / "f.onnx")


# --- random numbers, state, memory ----------------------------------------------------------------


@pytest.mark.parametrize("name", ["torch", "tensorflow", "jax"])
def test_random_functions_are_marked(name):
    lib = pytest.importorskip(name)
    draw = {
        "torch": lambda a: a + lib.rand(3),
        "tensorflow": lambda a: a + lib.random.uniform((3,)),
        "jax": lambda a: a + lib.experimental.io_callback(
            lambda: np.random.default_rng().random(3, "float32"),
            lib.ShapeDtypeStruct((3,), "float32"),
        ),
    }[name]  # fmt: skip
    if name == "jax":
        importlib.import_module("jax.experimental")
    with K.engine(name):
        x = K.placeholder((3,))
        y = K.native(draw, x)
        first, second = K.function([x], [y, K.native(draw, x)])([np.zeros(3)])
        assert (first != second).any()
        with pytest.raises(ValueError, match="draws random numbers or has an effect"):
            K.gradients(y, [x])
        given = K.native(draw, x, gradient=lambda g, a: g * 2.0)
        np.testing.assert_array_equal(K.function([x], K.gradients(given, [x]))([np.zeros(3)])[0], 2)
        same = K.native(draw, x, stateful=False)
        np.testing.assert_array_equal(K.function([x], K.gradients(same, [x]))([np.zeros(3)])[0], 1)


@pytest.mark.filterwarnings("ignore:RandomVariable Ops:DeprecationWarning")
def test_random_functions_of_pytensor_are_refused():
    pt = pytest.importorskip("pytensor.tensor")
    with K.engine("theano"), pytest.raises(ValueError, match="draws random numbers of PyTensor"):
        K.native(
            lambda a: a + pt.random.normal(rng=pt.random.shared_rng(seed=1), size=(3,)),
            K.placeholder((3,)),
        )


@pytest.mark.parametrize("name", ["numpy", "cntk"])
def test_arrays_cannot_be_written_to_and_keep_their_specs(name):
    def spoiling(array):
        array[0] = 7
        return array

    K.set_floatx("float32")
    with K.engine(name):
        x = K.placeholder((None, 2))
        y = K.native(spoiling, x, spec=((None, 2), "float32"))
        with pytest.raises(ValueError, match="read-only"):
            K.function([x], [y])([np.ones((3, 2))])
        x = K.placeholder((2,))
        y = K.native(lambda a: a[a > 0], x)
        with pytest.raises(ValueError, match="were expected"):
            K.function([x], [y])([np.array([1.0, -1.0])])


def test_a_constant_array_is_not_written_over():
    """What a function returns may be memory of somebody else's."""
    table = np.arange(3.0, dtype="float32")
    with K.engine("numpy"):
        x = K.placeholder((3,))
        y = K.exp(K.native(lambda a: table, x) * 2.0) + 1.0
        K.function([x], [y, K.native(lambda a: table, x)])([np.ones(3)])[1][:] = 5
    np.testing.assert_array_equal(table, [0, 1, 2])


def test_tensors_made_inside_are_refused():
    with K.engine("numpy"):
        x, w = K.placeholder((3,)), K.variable(np.ones(3))
        with pytest.raises(ValueError, match="made inside the function"):
            K.native(lambda a: np.add(a, K.placeholder((3,))), x)
        with pytest.raises(ValueError, match="`gradient` has no result"):
            K.native(lambda a: np.multiply(a, w), x, gradient=lambda g, a: g)
