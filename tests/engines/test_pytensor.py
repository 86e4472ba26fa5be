"""The PyTensor engine: its linker, its modes, users' own variables, loops, what it leaves alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import waiting

pytensor = pytest.importorskip("pytensor")

import pytensor.tensor as pt  # noqa: E402
from pytensor.compile.mode import FAST_COMPILE  # noqa: E402
from pytensor.ifelse import ifelse  # noqa: E402
from pytensor.scan.utils import until  # noqa: E402

from backplane import backend as K  # noqa: E402
from backplane import engines  # noqa: E402
from backplane.core.registry import PRIMITIVES  # noqa: E402
from backplane.core.spec import Spec  # noqa: E402
from backplane.engines.arrays.engine import ArrayEngine  # noqa: E402
from backplane.engines.pytensor import ENGINE  # noqa: E402
from backplane.engines.pytensor.fast.linker import ARRAYS  # noqa: E402

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


# --- the linker -----------------------------------------------------------------------------------


def test_operands_are_not_written_to() -> None:
    x = K.placeholder((3, 4))
    w = K.variable(floats(3, 4))
    shared = x * w
    outputs = [shared, K.exp(shared) + x, K.tanh(shared * shared) * w, -x, K.square(x + 1) - x]
    f = K.function([x], outputs, updates=[(w, w * 0.5 + K.exp(w))])
    a, before = floats(3, 4), K.get_value(w)
    kept = a.copy()
    found = f([a])
    np.testing.assert_array_equal(a, kept)
    wanted = [
        a * before,
        np.exp(a * before) + a,
        np.tanh((a * before) ** 2) * before,
        -a,
        (a + 1) ** 2 - a,
    ]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(K.get_value(w), before * 0.5 + np.exp(before), rtol=1e-6)


def test_a_result_takes_over_dead_memory() -> None:
    x = pt.tensor("x", shape=(2, 3), dtype="float32")
    addresses = []

    class Spy(pytensor.graph.op.Op):  # type: ignore[misc]
        __props__ = ()

        def make_node(self, x: Any) -> Any:
            return pytensor.graph.basic.Apply(self, [x], [x.type()])

        def perform(self, node: Any, inputs: Any, storage: Any) -> None:
            addresses.append(inputs[0].ctypes.data)
            storage[0][0] = inputs[0]

    y = pt.exp(x)
    f = pytensor.function([x], pt.sum(pt.tanh(pt.neg(y))), mode=ARRAYS)
    assert "out=" in source_of(f)
    # What another operation may keep hold of is not written to.
    g = pytensor.function([x], [pt.tanh(y), Spy()(y)], mode=ARRAYS)
    assert "out=" not in source_of(g)
    a = floats(2, 3)
    np.testing.assert_allclose(f(a), np.tanh(-np.exp(a)).sum(), rtol=1e-5)
    tanh, spied = g(a)
    np.testing.assert_allclose(spied, np.exp(a), rtol=1e-6)
    np.testing.assert_allclose(tanh, np.tanh(np.exp(a)), rtol=1e-6)
    assert addresses == [spied.ctypes.data]


def source_of(f: Any) -> str:
    """The names that a linked program loads, keyword arguments included."""
    code = f.vm.jit_fn.__closure__
    programs = [cell.cell_contents for cell in code if callable(cell.cell_contents)]
    program = next(p for p in programs if getattr(p, "__name__", "") == "program")
    return " ".join(f"{name}=" for part in program.__code__.co_consts if isinstance(part, tuple)
                    for name in part)  # fmt: skip


def test_only_the_branch_taken_runs(capsys: pytest.CaptureFixture[str]) -> None:
    c, x = K.placeholder((), dtype="bool"), K.placeholder((2,))
    y = K.switch(
        c,
        lambda: K.print_tensor(x, "then"),
        lambda: K.switch(K.sum(x) > 0, lambda: K.print_tensor(x * 2, "inner"), lambda: x * 3),
    )
    f = K.function([c, x], [y])
    for given, value, said in [(True, 1, "then"), (False, 1, "inner"), (False, -1, "")]:
        f([np.array(given), np.full(2, value, "float32")])
        assert capsys.readouterr().out.partition(" ")[0] == said


def test_branches_nest_deeply() -> None:
    x = K.placeholder(())

    def nested(y: Any, depth: int) -> Any:
        if not depth:
            return y
        return K.switch(x > depth - 1.0, lambda: nested(y + 1.0, depth - 1), lambda: y)

    f = K.function([x], [nested(x, 30)])
    assert f([np.float32(40)])[0] == 70
    assert f([np.float32(3)])[0] == 3


def test_branches_of_pytensor_s_own_in_a_program() -> None:
    values = pytensor.shared(np.float32([3, 1, 2]), shape=(3,))
    x = K.placeholder((3,))
    f = K.function([x], [x + ifelse(pt.gt(values[0], 0), values * 2, values * 3)])
    np.testing.assert_array_equal(f([np.zeros(3)])[0], [6, 2, 4])
    values.set_value(np.float32([-1, 1, 1]))
    np.testing.assert_array_equal(f([np.zeros(3)])[0], [-3, 3, 3])


def test_deep_graphs_need_no_deep_recursion() -> None:
    x = K.placeholder((2, 3))
    w = K.variable(np.eye(3))
    y = x
    for _ in range(sys.getrecursionlimit() // 2):
        y = K.tanh(K.dot(y, w))
    gradient = K.function([x], K.gradients(K.sum(y), [w]))([floats(2, 3)])[0]
    assert gradient.shape == (3, 3)


def test_operations_without_a_call_of_ours_run_by_their_own() -> None:
    values = pytensor.shared(np.float32([3, 1, 2]), shape=(3,))
    x = K.placeholder((3,))
    f = K.function([x], [x + pt.sort(values)])
    np.testing.assert_array_equal(f([np.zeros(3)])[0], [1, 2, 3])
    values.set_value(np.float32([9, 8, 7]))
    np.testing.assert_array_equal(f([np.zeros(3)])[0], [7, 8, 9])


def test_floating_point_errors_are_silent() -> None:
    x = K.placeholder((2,))
    np.testing.assert_array_equal(K.function([x], [1 / x])([[0, -0.0]])[0], [np.inf, -np.inf])


def test_unknown_sizes_broadcast_at_run_and_back() -> None:
    x, y = K.placeholder((None, 2)), K.placeholder((None, 2))
    loss = K.sum(x * y)
    f = K.function([x, y], [loss, *K.gradients(loss, [x, y])])
    for rows in (1, 3):
        a, b = floats(3, 2), floats(rows, 2)
        total, dx, dy = f([a, b])
        np.testing.assert_allclose(total, (a * b).sum(), rtol=1e-5)
        np.testing.assert_allclose(dx, np.broadcast_to(b, a.shape), rtol=1e-6)
        np.testing.assert_allclose(dy, a.sum(0, keepdims=True) if rows == 1 else a, rtol=1e-5)


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


# --- users' own variables -------------------------------------------------------------------------


def evaluated(x: Any, given: dict[Any, np.ndarray]) -> Any:
    return pytensor.function(list(given), x, mode=FAST_COMPILE, on_unused_input="ignore")(
        *given.values()
    )


def test_functions_of_variables_give_variables() -> None:
    x = pt.tensor("x", shape=(None, 3), dtype="float32")
    y = K.mean(K.softmax(x), axis=0)
    assert isinstance(y.type, pt.TensorType)
    assert (y.type.shape, y.type.dtype) == ((3,), "float32")
    a = floats(4, 3)
    e = np.exp(a)
    np.testing.assert_allclose(
        evaluated(y, {x: a}), (e / e.sum(1, keepdims=True)).mean(0), rtol=1e-5
    )


def test_arrays_beside_variables_are_constants_and_alone_run_at_once() -> None:
    x = pt.tensor("x", shape=(3,), dtype="float32")
    np.testing.assert_allclose(
        evaluated(K.maximum(x, np.zeros(3, "float32")), {x: -np.ones(3, "float32")}), 0
    )
    assert isinstance(K.maximum(-np.ones(3, "float32"), np.zeros(3, "float32")), np.ndarray)


def test_pytensor_differentiates_through_lowerings() -> None:
    x = pt.tensor("x", shape=(None, 6, 6, 2), dtype="float32")
    kernel = pytensor.shared(floats(3, 3, 2, 4), shape=(3, 3, 2, 4))

    def loss(x: Any, kernel: Any) -> Any:
        h = K.conv2d(x, kernel, padding="same")
        h = K.pool2d(h, (2, 2), (2, 2)) + K.pool2d(h, (2, 2), (2, 2), pool_mode="avg")
        return K.sum(K.square(h) * K.stop_gradient(h))

    a = floats(2, 6, 6, 2)
    found = evaluated(pytensor.grad(loss(x, kernel), [x, kernel]), {x: a})
    ours = K.placeholder((None, 6, 6, 2)), K.variable(kernel.get_value())
    wanted = K.function(ours[:1], K.gradients(loss(*ours), list(ours)))([a])
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_pytensor_differentiates_through_recurrence() -> None:
    x = pt.tensor("x", shape=(2, 3, 4), dtype="float32")

    def loss(x: Any) -> Any:
        def step(row: Any, states: Any) -> Any:
            new = K.tanh(row + states[0])
            return new, [new]

        return K.sum(K.rnn(step, x, [K.zeros_like(x[:, 0])])[0])

    a = floats(2, 3, 4)
    found = pytensor.function([x], pytensor.grad(loss(x), x), mode=FAST_COMPILE)(a)
    ours = K.placeholder((2, 3, 4))
    wanted = K.function([ours], K.gradients(loss(ours), [ours]))([a])[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_stop_gradient_disconnects() -> None:
    x = pt.vector("x", dtype="float32")
    with pytest.raises(pytensor.gradient.DisconnectedInputError):
        pytensor.grad(K.sum(K.stop_gradient(x)), x)


def test_variables_inside_a_program_are_read_at_each_call() -> None:
    shared = pytensor.shared(np.float32([1, 2]), shape=(2,))
    x = K.placeholder((2,))
    f = K.function([x], [x * shared])
    np.testing.assert_array_equal(f([[3, 4]])[0], [3, 8])
    shared.set_value(np.float32([5, 6]))
    np.testing.assert_array_equal(f([[3, 4]])[0], [15, 24])


# --- random numbers -------------------------------------------------------------------------------


def test_equal_keys_give_the_samples_of_numpy() -> None:
    x = K.random_normal((4, 3), seed=3)
    found = K.function([], [x])([])[0]
    x = K.random_normal((4, 3), seed=3)
    with engines.use("numpy"):
        np.testing.assert_array_equal(K.function([], [x])([])[0], found)


def test_a_step_of_adam_is_one_operation_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    commit = ArrayEngine.commit
    monkeypatch.setattr(
        ArrayEngine, "commit", lambda self, calls: (runs.append(len(calls)), commit(self, calls))
    )

    def trained(name: str, steps: int) -> list[np.ndarray]:
        with engines.use(name):
            start = np.random.default_rng(0).normal(size=(300, 7)).astype("float32")
            w, m, v = K.variable(start), K.zeros((300, 7)), K.zeros((300, 7))
            x = K.placeholder((None, 300))
            y = K.dot(x, w)
            (g,) = K.gradients(K.sum(K.square(y)), [w])
            m_t, v_t = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * K.square(g)
            new = w - 0.01 * m_t / (K.sqrt(v_t) + 1e-7)
            f = K.function([x], [y], [K.update(w, new), K.update(m, m_t), K.update(v, v_t)])
            values = []
            for _ in range(steps):
                # What was read before a step stays as it was.
                values += [*f([np.ones((2, 300), "float32")]), *K.batch_get_value([w, m, v])]
            return values

    found = trained("theano", 3)
    assert len(runs) == 3
    wanted = trained("numpy", 3)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * np.abs(b).max())


def test_old_values_are_read_before_a_step_writes_over_them() -> None:
    w, m = K.variable(np.ones((40, 40))), K.zeros((40, 40))
    m_t = 0.5 * m - 0.25 * (w + 1.0)
    f = K.function([], [K.sum(w), K.dot(w, w)], [K.update(m, m_t), K.update(w, w + m_t)])
    for value in (1.0, 0.5):
        total, product = f([])
        np.testing.assert_allclose(total, 1600 * value)
        np.testing.assert_allclose(product, np.full((40, 40), 40 * value * value))


def test_a_mode_of_pytensor_keeps_the_steps_as_they_are_written() -> None:
    engine = engines.get("theano")
    assert engine.updates_in_place({})
    assert not engine.updates_in_place({"compile": True})


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
