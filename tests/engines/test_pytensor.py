"""The PyTensor engine: its table, values, modes, loops, memory of results, random numbers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import waiting

pytest.importorskip("pytensor")
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import FAST_COMPILE
from pytensor.scan.utils import until

from backplane import backend as K
from backplane import engines
from backplane.core.registry import PRIMITIVES
from backplane.core.spec import Spec
from backplane.engines.pytensor import ENGINE
from backplane.engines.pytensor.fast.linker import ARRAYS

rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def on_pytensor() -> Iterator[None]:
    with engines.use("theano"):
        yield


def floats(*shape: int) -> np.ndarray:
    return rng.uniform(-1, 1, shape).astype("float32")


# --- the table and the library --------------------------------------------------------------------


def test_every_primitive_has_a_lowering_or_a_decomposition() -> None:
    assert not set(ENGINE.table) - set(PRIMITIVES)
    missing = set(PRIMITIVES) - set(ENGINE.table)
    assert [name for name in missing if PRIMITIVES[name].decomposition is None] == []


def test_importing_it_is_silent_and_imports_no_other_engine() -> None:
    code = """if True:
        import sys
        import backplane.engines.pytensor

        others = {"torch", "jax", "tensorflow", "onnxruntime", "onnx", "keras"}
        assert not others & set(sys.modules)
        assert "backplane.engines.numpy" not in sys.modules
        """
    done = waiting.run([sys.executable, "-c", code], check=True)
    assert done.stdout + done.stderr == ""


def test_the_flags_of_pytensor_stay_as_they_are() -> None:
    config = pytensor.config
    before = (config.mode, config.linker, config.optimizer, config.floatX, config.traceback__limit)
    x = K.placeholder((None, 4))
    K.function([x], [K.softmax(x)])([floats(2, 4)])
    after = (config.mode, config.linker, config.optimizer, config.floatX, config.traceback__limit)
    assert after == before


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bool", "uint8", "uint64", "int64", "float16", "float64"])
def test_values_are_arrays_and_variables(dtype: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    assert not ENGINE.owns(array)
    assert ENGINE.spec_of(ENGINE.from_numpy(array)) == Spec((2, 3), dtype)
    constant = ENGINE.constant(array)
    assert ENGINE.owns(constant)
    assert ENGINE.is_symbolic(constant)
    assert ENGINE.spec_of(constant) == Spec((2, 3), dtype)
    np.testing.assert_array_equal(ENGINE.to_numpy(ENGINE.from_numpy(array)), array)


def test_unknown_sizes_of_variables_are_none() -> None:
    assert ENGINE.spec_of(pt.tensor("x", shape=(None, 3), dtype="int8")) == Spec((None, 3), "int8")


def test_to_numpy_evaluates_a_variable_without_inputs() -> None:
    shared = pytensor.shared(np.arange(3.0))
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        np.testing.assert_array_equal(ENGINE.to_numpy(shared * 2), [0, 2, 4])


@pytest.mark.parametrize("name", ["add", "sub", "mul", "maximum", "floordiv", "bit_xor"])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint32", "int64"])
def test_whole_numbers_keep_their_dtype_and_wrap(name: str, dtype: str) -> None:
    x, y = (K.placeholder((3,), dtype=dtype) for _ in range(2))
    values = [np.array([100, 7, 255]).astype(dtype), np.array([200, 3, 2]).astype(dtype)]
    found = K.function([x, y], [PRIMITIVES[name](x, y)])(values)[0]
    with engines.use("numpy"):
        wanted = K.function([x, y], [PRIMITIVES[name](x, y)])(values)[0]
    assert found.dtype == wanted.dtype == dtype
    np.testing.assert_array_equal(found, wanted)


# --- modes ----------------------------------------------------------------------------------------


def small_network() -> tuple[list[Any], list[Any]]:
    """Inputs and outputs of a network with a convolution, a pool, a loop and dropout."""
    x, s = K.placeholder((None, 6, 6, 2)), K.placeholder((None, 3, 4))
    kernel = K.variable(np.linspace(-1, 1, 72).reshape(3, 3, 2, 4))
    h = K.pool2d(K.relu(K.conv2d(x, kernel, padding="same")), (2, 2), (2, 2))
    h = K.dropout(h, 0.4, seed=5)
    weights = K.variable(np.eye(4) / 2)

    def step(row: Any, states: Any) -> Any:
        new = K.tanh(row + K.dot(states[0], weights))
        return new, [new]

    last, rows, _ = K.rnn(step, s, [K.zeros_like(s[:, 0])])
    loss = K.sum(K.square(h)) + K.sum(last) + K.sum(rows)
    return [x, s], [loss, *K.gradients(loss, [kernel, weights, x])]


def test_pytensor_s_own_modes_compute_the_same() -> None:
    values = [floats(2, 6, 6, 2), floats(2, 3, 4)]
    results = [K.function(*small_network())(values)]
    K.clear_session()
    with pytensor.config.change_flags(mode=FAST_COMPILE):
        inputs, outputs = small_network()
        # Programs are shared by structure: another one asks for a new compilation.
        results.append(K.function(inputs, [*outputs, outputs[0] * 3])(values)[:-1])
    for found, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_flags_and_options_choose_the_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    from backplane.engines.pytensor import engine

    chosen = []

    def spy(inputs: Any, outputs: Any, mode: Any) -> Any:
        chosen.append(mode)
        return lambda *values: values

    monkeypatch.setattr(engine, "_function", spy)
    from backplane.engines.programs import Program

    def program(**options: Any) -> Program:
        spec = [Spec((2,), "float32")]
        return Program(lambda x: (x,), spec, spec, options=options)

    ENGINE.compile(program())
    ENGINE.compile(program(compile=True))
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        ENGINE.compile(program())
    with pytensor.config.change_flags(linker="vm"):
        ENGINE.compile(program())
    assert chosen[0] is ARRAYS
    assert chosen[1] is pytensor.compile.mode.get_default_mode()
    assert chosen[2] is FAST_COMPILE
    assert chosen[3].provided_linker == "vm"


# --- loops ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_scans_of_any_length(steps: int) -> None:
    xs = K.placeholder((None, 2))
    total = K.foldl(lambda a, x: a * 0.5 + x, xs, initializer=K.zeros((2,)))
    rows = K.map_fn(lambda x: x * 2, xs)
    a = floats(steps, 2)
    found, doubled = K.function([xs], [total, rows])([a])
    wanted = np.zeros(2, "float32")
    for row in a:
        wanted = wanted * 0.5 + row
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    np.testing.assert_array_equal(doubled, a * 2)


def test_a_scan_of_pytensor_s_own_keeps_its_traces() -> None:
    xs = pt.matrix("xs", dtype="float64")
    sums = pytensor.scan(
        lambda x, total: total + x, sequences=xs, outputs_info=pt.zeros(2), return_updates=False
    )
    f = pytensor.function([xs], [sums, sums[-1]], mode=ARRAYS)
    a = rng.uniform(size=(5, 2))
    every, last = f(a)
    np.testing.assert_allclose(every, np.cumsum(a, 0))
    np.testing.assert_allclose(last, a.sum(0))


def test_a_scan_ends_by_its_condition() -> None:
    def step(total: Any) -> Any:
        return total * 2, until(total > 20)

    powers = pytensor.scan(step, outputs_info=pt.constant(1.0), n_steps=100, return_updates=False)
    found = pytensor.function([], powers, mode=ARRAYS)()
    np.testing.assert_array_equal(found, [2, 4, 8, 16, 32, 64])


# --- random numbers -------------------------------------------------------------------------------


def test_equal_keys_give_the_samples_of_numpy() -> None:
    x = K.random_normal((4, 3), seed=3)
    found = K.function([], [x])([])[0]
    x = K.random_normal((4, 3), seed=3)
    with engines.use("numpy"):
        np.testing.assert_array_equal(K.function([], [x])([])[0], found)


# --- results with memory of their own, and numbers that must fit ----------------------------------


@pytest.mark.parametrize("function", [lambda v: K.concatenate([v]), lambda v: K.stack([v])])
def test_what_joins_one_variable_is_not_its_memory(function: Any) -> None:
    v = K.variable(np.ones((2, 3)))
    K.function([], [function(v)])([])[0][...] = 77
    np.testing.assert_array_equal(K.get_value(v), np.ones((2, 3)))


def test_kernels_declare_what_may_be_a_view() -> None:
    """PyTensor's own modes may write over operands of which no result is said to be a view."""
    x = pt.fvector()
    view = ENGINE.table["dynamic_slice"].function(
        [Spec((4,), "float32"), Spec((1,), "int32")], shape=(2,)
    )(x, pt.constant(np.array([1], "int32")))
    assert view.owner.op.view_map == {0: [0]}
    key = pt.constant(np.zeros(4, "uint32"))
    drawn = ENGINE.table["random_uniform"].function(
        [Spec((4,), "uint32")], shape=(2,), dtype="float32"
    )(key)
    assert not drawn.owner.op.view_map


@pytest.mark.parametrize("size", [0, 3])
@pytest.mark.parametrize("known", [True, False])
def test_rows_without_elements_have_a_softmax(size: int, known: bool) -> None:
    x = K.placeholder((2, size if known else None))
    results = K.function([x], [K.softmax(x), K.logsumexp(x, axis=-1)])([np.zeros((2, size))])
    np.testing.assert_allclose(results[0], np.full((2, size), 1 / size if size else 0), 1e-6)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(results[1], np.full(2, np.log(size)), 1e-6)


def test_a_mean_of_float16_does_not_overflow() -> None:
    x = K.variable(np.full((70_000, 2), 2), dtype="float16")
    np.testing.assert_array_equal(K.eval(K.mean(x, axis=0)), [2, 2])
