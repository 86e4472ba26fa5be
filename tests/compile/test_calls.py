"""Calls on arrays and native tensors: what is traced anew, and what must not be taken for equal."""

import gc
import weakref

import numpy as np
import pytest

from backplane import backend as K
from backplane import engines
from backplane.backend import _trace
from backplane.compile.program import statistics

X = np.array([[0.25, -1.0, 2.0], [0.5, 0.0, -3.0]], "float32")


@pytest.fixture
def traces(monkeypatch):
    """The names of the functions that were traced."""
    names = []
    trace = _trace.trace

    def counted(function, *rest):
        names.append(function.__name__)
        return trace(function, *rest)

    monkeypatch.setattr(_trace, "trace", counted)
    return names


@pytest.mark.parametrize(
    "call",
    [
        lambda x: K.tanh(x),
        lambda x: K.sum(x, axis=(0, 1), keepdims=True),
        lambda x: K.concatenate([x, x], axis=0),
        lambda x: K.clip(x, -1.0, 0.5),
        lambda x: K.dot(x, np.eye(3, dtype="float32")),
        lambda x: K.elu(x, 0.7),
    ],
)
def test_equal_calls_are_traced_once(traces, call):
    shaped = np.ones((7, 3), "float32")
    first = call(shaped)
    traces.clear()
    np.testing.assert_array_equal(call(shaped), first)
    call(shaped + 1)
    assert traces == []
    call(np.ones((8, 3), "float32"))
    call(np.ones((7, 3), "float64"))
    assert len(traces) == 2


def test_settings_that_a_function_read_count():
    zeros = np.zeros(2, "float32")
    ones = np.ones(2, "float32")
    counts = np.array([1, 2])
    for _ in range(2):
        for e in (1e-7, 1e-2):
            K.set_epsilon(e)
            loss = K.binary_crossentropy(ones, zeros)
            np.testing.assert_allclose(loss, -np.log(np.float32(e)), rtol=1e-4)
        for floatx in ("float64", "float32"):
            K.set_floatx(floatx)
            assert K.mean(counts).dtype == floatx
            assert K.maximum(counts, 1.0).dtype == floatx
        x, bias = np.zeros((1, 2, 2, 2), "float32"), np.array([1.0, 2.0], "float32")
        for layout, wanted in (
            ("channels_first", x + bias[:, None, None]),
            ("channels_last", x + bias),
        ):
            K.set_image_data_format(layout)
            np.testing.assert_array_equal(K.bias_add(x, bias), wanted)
        K.set_learning_phase(1)
        np.testing.assert_array_equal(K.in_train_phase(ones, zeros), ones)
        K.set_learning_phase(0)
        np.testing.assert_array_equal(K.in_train_phase(ones, zeros), zeros)
        K.clear_session()


def test_a_setting_that_a_function_does_not_read_costs_no_trace(traces):
    K.tanh(X)
    traces.clear()
    K.set_epsilon(1e-3)
    K.tanh(X)
    assert traces == []


def test_equal_numbers_of_different_types_and_signs_differ():
    ints = np.array([-1, 3])
    for _ in range(2):
        assert K.maximum(ints, 1).dtype == "int64"
        assert K.maximum(ints, 1.0).dtype == "float32"
        assert K.maximum(ints, True).dtype == "int64"
        assert not np.signbit(K.minimum(0.0, np.ones(1, "float32")))
        assert np.signbit(K.minimum(-0.0, np.ones(1, "float32")))
        assert K.sum(X, axis=0).shape == (3,)
        assert K.sum(X, axis=[0]).shape == (3,)
        assert K.sum(X, axis=None).shape == ()


def test_the_engine_in_force_counts():
    other = next(name for name in engines.names() if name != "numpy" and engines.installed(name))
    kinds = set()
    for _ in range(2):
        for name in ("numpy", other):
            with K.engine(name):
                result = K.exp(X)
                np.testing.assert_allclose(K.eval(result), np.exp(X), rtol=1e-6)
                kinds.add((name, type(result)))
    assert len(kinds) == 2


def test_the_default_engine_counts(monkeypatch):
    default = engines.current()
    K.exp(X)
    asked = []
    made = type("Made", (type(default),), {"name": "made"})()
    monkeypatch.setitem(engines._loaded, "made", made)
    made.from_numpy = lambda array, dtype=None: asked.append(1) or np.asarray(array, dtype)
    try:
        engines.set_default(made)
        K.exp(X)
        assert asked
    finally:
        engines.set_default(default)
    asked.clear()
    K.exp(X)
    assert not asked


def test_modes_count():
    weights = K.variable(X)
    for _ in range(2):
        assert isinstance(K.sum(X), np.floating | np.ndarray)
        assert K.eval(K.symbolic(K.sum)(X)) == X.sum()
        assert K.is_symbolic(K.sum(weights))
        assert K.eager(K.sum)(weights) == X.sum()
        assert K.is_symbolic(K.concatenate([weights, X]))
        assert not K.is_symbolic(K.eager(K.concatenate)([weights, X]))
        assert not K.is_symbolic(K.concatenate([X, X]))


def test_random_numbers_are_new_at_each_call():
    ones = np.ones(64, "float32")
    assert not np.array_equal(K.dropout(ones, 0.5), K.dropout(ones, 0.5))
    np.testing.assert_array_equal(K.dropout(ones, 0.5, seed=1), K.dropout(ones, 0.5, seed=1))
    K.set_random_seed(5)
    first = K.dropout(ones, 0.5)
    K.set_random_seed(5)
    np.testing.assert_array_equal(K.dropout(ones, 0.5), first)
    K.set_random_seed(None)


def test_arrays_of_another_byte_order():
    swapped = X.astype(X.dtype.newbyteorder())
    for array in (X, swapped, X, swapped):
        result = K.square(array)
        assert result.dtype == np.dtype("float32")
        assert result.dtype.isnative
        np.testing.assert_array_equal(result, X * X)


def test_errors_and_old_spellings_are_the_same_at_each_call():
    assert K.expand_dims(X, 0).shape == (1, 2, 3)
    for _ in range(3):
        with pytest.raises(ValueError, match=r"^K\.dot: "):
            K.dot(X, X)
        with pytest.warns(DeprecationWarning, match="axis=0 instead of dim"):
            assert K.expand_dims(X, dim=0).shape == (1, 2, 3)
        with pytest.raises(TypeError, match=r"^K\.tanh: .* dtype object"):
            K.tanh(np.array([None]))


def test_eval_compiles_a_tensor_once():
    x = K.tanh(K.variable(X)) * 2.0
    np.testing.assert_allclose(K.eval(x), 2 * np.tanh(X), rtol=1e-6)
    before = (statistics.compilations, statistics.cache_hits)
    np.testing.assert_allclose(K.eval(x), 2 * np.tanh(X), rtol=1e-6)
    assert (statistics.compilations, statistics.cache_hits) == before


def test_eval_reads_variables_and_draws_anew_at_each_call():
    weights = K.variable(X)
    total = K.sum(weights)
    assert K.eval(total) == X.sum()
    K.set_value(weights, X + 1)
    assert K.eval(total) == (X + 1).sum()
    update = K.update_add(weights, X)
    K.eval(update)
    K.eval(update)
    np.testing.assert_array_equal(K.eval(weights), X + 1 + X + X)
    noise = K.random_uniform((4,), seed=3)
    first, second = K.eval(noise), K.eval(noise)
    assert not np.array_equal(first, second)


def test_eval_gives_arrays_that_may_be_written_to():
    x = K.constant(X) + 0.0
    K.eval(x)[:] = 5.0
    np.testing.assert_array_equal(K.eval(x), X)
    weights = K.variable(X)
    for tensor in (weights, K.identity(weights)):
        K.eval(tensor)[:] = 5.0
        K.eval(tensor)[:] = 5.0
        np.testing.assert_array_equal(K.eval(weights), X)


def test_results_that_simplify_to_an_input_or_a_variable_may_be_written_to():
    weights, x = K.variable(X), K.placeholder((2, 3))
    run = K.function([x], [weights + 0.0, x * 1.0, K.constant(X) + 0.0])
    fed = X.copy()
    for _ in range(2):
        for result in run([fed]):
            np.testing.assert_array_equal(result, X)
            result[:] = 5.0
    np.testing.assert_array_equal(fed, X)
    np.testing.assert_array_equal(K.eval(weights), X)


def test_eval_runs_on_the_engine_in_force():
    x = K.tanh(K.constant(X))
    other = next(name for name in engines.names() if name != "numpy" and engines.installed(name))
    for _ in range(2):
        for name in ("numpy", other):
            with K.engine(name):
                np.testing.assert_allclose(K.eval(x), np.tanh(X), rtol=1e-6)


def test_an_evaluated_tensor_goes_when_nobody_holds_it():
    x = K.tanh(K.variable(X)) * K.constant(X)
    K.eval(x)
    gc.collect()  # what compiling leaves behind
    gc.disable()
    try:
        K.eval(x)
        gone = weakref.ref(x)
        del x
        assert gone() is None
    finally:
        gc.enable()


def test_a_learning_phase_at_the_end_may_be_left_out(engine):
    x, phase = K.placeholder((2,)), K.learning_phase()
    f = K.function([x, phase], [K.in_train_phase(x * 2.0, x)])
    for _ in range(2):
        assert f([[1.0, 2.0]])[0].tolist() == [1, 2]
        assert f([[1.0, 2.0], 1])[0].tolist() == [2, 4]
    with pytest.raises(ValueError, match="takes 2 values"):
        f([])
