"""The TensorFlow engine: conversions, tapes, tracing, loops, what its kernels lack."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import waiting

tf = pytest.importorskip("tensorflow")

from backplane import backend as K  # noqa: E402
from backplane import engines  # noqa: E402
from backplane.compile.program import clear_programs  # noqa: E402
from backplane.core.graph import Graph, Placeholder  # noqa: E402
from backplane.core.registry import PRIMITIVES as P  # noqa: E402
from backplane.core.spec import Spec  # noqa: E402
from backplane.engines.programs import Program  # noqa: E402
from backplane.engines.tensorflow import ENGINE, groups  # noqa: E402
from backplane.engines.tensorflow.fast import direct  # noqa: E402
from spying import Spy  # noqa: E402

rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def on_tensorflow() -> Iterator[None]:
    with engines.use("tensorflow"):
        yield


def lower(name: str, *operands: Any, **params: Any) -> Any:
    """Run the lowering of a primitive at once."""
    entry = ENGINE.table[name]
    if entry.builds:
        return entry.function([ENGINE.spec_of(x) for x in operands], **params)(*operands)
    return entry.function(*operands, **params)


def compiled(name: str, *operands: Any, **params: Any) -> Any:
    """Run the lowering of a primitive in a program that knows no size."""
    specs = [Spec((None,) * len(x.shape), x.dtype.name) for x in operands]
    program = Program(lambda *xs: (lower(name, *xs, **params),), specs, [])
    return ENGINE.compile(program)(*operands)[0]


def floats(*shape: int, dtype: str = "float64") -> Any:
    return tf.constant(rng.normal(size=shape), dtype)


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bool", "uint8", "uint32", "int64", "float16", "float32"])
@pytest.mark.parametrize("shape", [(), (2, 3), (0, 2), (200, 300)])
def test_conversions_keep_dtype_and_content(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.asarray(rng.integers(0, 2, shape)).astype(dtype)
    value = ENGINE.from_numpy(array)
    assert ENGINE.owns(value)
    assert ENGINE.spec_of(value) == Spec(shape, dtype)
    back = ENGINE.to_numpy(value)
    assert type(back) is np.ndarray
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


def test_a_zero_keeps_its_sign() -> None:
    """TensorFlow's table of scalars does not tell 0.0 from -0.0."""
    found = [lower("full", shape=(1,), value=x, dtype="float32") for x in (0.0, -0.0, 0.0)]
    assert [bool(np.signbit(x.numpy()[0])) for x in found] == [False, True, False]


@pytest.mark.parametrize("size", [16, 100_000])
def test_conversions_copy(size: int) -> None:
    # Several arrays, because only those that happen to be aligned would be shared.
    for _ in range(8):
        array = np.zeros(size)
        value = ENGINE.feed(array)
        array[:] = 1
        ENGINE.to_numpy(value)[:] = 2
        np.testing.assert_array_equal(value, np.zeros(size))


@pytest.mark.parametrize("kind", ["read-only", "reversed", "big-endian"])
@pytest.mark.parametrize("size", [3, 100_000])
def test_feed_takes_any_array(kind: str, size: int) -> None:
    array = np.arange(float(size))
    if kind == "read-only":
        array.flags.writeable = False
    elif kind == "reversed":
        array = array[::-1]
    else:
        array = array.astype(">f8")
    np.testing.assert_array_equal(ENGINE.to_numpy(ENGINE.feed(array)), array)


def test_from_numpy_casts() -> None:
    value = ENGINE.from_numpy(np.array([1.5, -2.0]), "bfloat16")
    assert value.dtype == tf.bfloat16
    np.testing.assert_array_equal(ENGINE.to_numpy(value).astype("float32"), [1.5, -2.0])


def test_variables_of_tensorflow_are_values() -> None:
    v = tf.Variable([1.0, 2.0])
    assert ENGINE.owns(v)
    assert ENGINE.spec_of(v) == Spec((2,), "float32")
    np.testing.assert_array_equal(lower("add", v, v), [2, 4])


def test_unknown_rank_is_an_error_that_says_what_to_do() -> None:
    @tf.function(input_signature=[tf.TensorSpec(None)])
    def function(x: Any) -> Any:
        with pytest.raises(ValueError, match=r"tf\.ensure_shape"):
            ENGINE.spec_of(x)
        return x

    function.get_concrete_function()


# --- the import -----------------------------------------------------------------------------------


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return waiting.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        check=True,
    )


IMPORT = "import backplane.engines.tensorflow as e, os, sys; e.ENGINE.from_numpy"


@pytest.mark.slow
def test_import_is_quiet_and_imports_no_other_engine() -> None:
    code = f"""{IMPORT}
print([n for n in ("jax", "torch", "onnxruntime") if f"backplane.engines.{{n}}" in sys.modules])"""
    without = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    found = waiting.run([sys.executable, "-c", code], env=without, check=True)
    assert found.stderr == ""
    assert found.stdout == "[]\n"


@pytest.mark.slow
def test_import_leaves_the_users_log_level_and_stderr_alone() -> None:
    code = f"""{IMPORT}
print(os.environ["TF_CPP_MIN_LOG_LEVEL"], file=sys.stderr)"""
    assert run_python(code, TF_CPP_MIN_LOG_LEVEL="0").stderr.endswith("0\n")


# --- tapes ----------------------------------------------------------------------------------------

CONVOLUTIONS = {
    "plain": {"groups": 1, "dilation": 1, "strides": 1},
    "dilated": {"groups": 1, "dilation": 2, "strides": 1},
    "dilated-strided": {"groups": 1, "dilation": 2, "strides": 2},
    "grouped": {"groups": 2, "dilation": 1, "strides": 1},
    "depthwise-dilated": {"groups": 4, "dilation": 2, "strides": 1},
}


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_tape_differentiates_convolution_twice(kind: str, rank: int) -> None:
    """By Euler's rule: of y², quadratic in each operand, x · ∂/∂x is the double."""
    options: dict[str, Any] = dict(CONVOLUTIONS[kind])
    groups = options.pop("groups")
    params = {key: (n,) * rank for key, n in options.items()}
    x = floats(1, *(5, 4, 5)[:rank], 4)
    kernel = floats(*(2, 3, 2)[:rank], 4 // groups, 4)

    def loss(x: Any, kernel: Any) -> Any:
        y = lower("conv", x, kernel, padding="same", groups=groups, **params)
        return tf.reduce_sum(y * y)

    with tf.GradientTape() as outer:
        outer.watch([x, kernel])
        with tf.GradientTape() as inner:
            inner.watch([x, kernel])
            y = loss(x, kernel)
        gx, gk = inner.gradient(y, [x, kernel])
        products = tf.reduce_sum(gx * x), tf.reduce_sum(gk * kernel)
    for product in products:
        np.testing.assert_allclose(product, 2 * y, rtol=1e-9)
    for second, first in zip(outer.gradient(products, [x, kernel]), (gx, gk), strict=True):
        np.testing.assert_allclose(second, 4 * first, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_tape_differentiates_pooling(rank: int, dtype: str) -> None:
    x = tf.reshape(tf.cast(tf.range(2 * 4**rank), dtype), (1, *(4,) * rank, 2))
    params = {"pool": (2,) * rank, "strides": (2,) * rank, "padding": "valid"}
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        biggest = lower("max_pool", x, **params, wanted=(True, False))[0]
        mean = lower("avg_pool", x, **params)
    np.testing.assert_array_equal(tf.reduce_sum(tape.gradient(biggest, x)), 2 * 2**rank)
    np.testing.assert_array_equal(tape.gradient(mean, x), np.full(x.shape, 0.5**rank))


def test_stop_gradient_stops_the_tape() -> None:
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = K.stop_gradient(x) * x
    assert float(tape.gradient(y, x)) == 2.0


def test_tape_sees_a_compiled_program() -> None:
    run = ENGINE.compile(Program(lambda x: (x * x,), [Spec((), "float32")], []))
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        (y,) = run(x)
    assert float(tape.gradient(y, x)) == 6.0


# --- programs -------------------------------------------------------------------------------------


def test_a_program_is_traced_once_for_all_sizes() -> None:
    traces = []

    def function(x: Any, w: Any) -> tuple[Any, ...]:
        traces.append(x.shape)
        return lower("matmul", x, w, transpose_x=False, transpose_y=False), x

    run = ENGINE.compile(
        Program(function, [Spec((None, 3), "float64"), Spec((3, 2), "float64")], [])
    )
    w = floats(3, 2)
    for batch in (1, 5, 0):
        x = floats(batch, 3)
        y, same = run(x, w)
        np.testing.assert_allclose(y, x.numpy() @ w.numpy())
        np.testing.assert_array_equal(same, x)
    assert len(traces) == 1


def test_what_is_short_and_evaluated_makes_no_graph(spied: Spy) -> None:
    clear_programs()
    graphs = spied(direct, "call")
    w = K.variable(rng.normal(size=(3, 3)))
    short, deep = K.tanh(K.dot(w, w) + 1.0), w
    for _ in range(9):
        deep = K.tanh(deep)
    K.eval(short)
    assert graphs == []
    for y in (deep, K.foldl(lambda a, row: K.tanh(a) + row, w)):
        K.eval(y)
        assert len(graphs) == 1
        graphs.clear()
    K.function([], [short])([])
    assert len(graphs) == 1


def test_a_failing_evaluation_names_the_users_line() -> None:
    x = K.placeholder((None, 2))
    rows = K.gather(K.transpose(x), K.constant([2], dtype="int32"))
    with pytest.raises(IndexError, match="out of range") as caught:
        rows.eval(None, {x: np.zeros((4, 2))})
    (note,) = caught.value.__notes__
    assert f"{__file__}:" in note
    assert "'gather'" in note


def test_a_program_may_hold_large_constants_and_run_inside_a_tf_function() -> None:
    large = floats(300)
    run = ENGINE.compile(Program(lambda x: (x + large,), [Spec((300,), "float64")], []))
    x = floats(300)
    outside, inside = run(x)[0], tf.function(lambda x: run(x)[0])(x)
    np.testing.assert_array_equal(outside, x + large)
    np.testing.assert_array_equal(inside, x + large)


def test_without_the_short_ways_the_public_ones_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "context", None)
    run = ENGINE.compile(Program(lambda x: (x * 2, x), [Spec((None,), "float64")], []))
    doubled, _ = run(ENGINE.from_numpy(np.arange(3.0)))
    np.testing.assert_array_equal(ENGINE.to_numpy(doubled), [0, 2, 4])


def test_xla_is_an_option() -> None:
    def function(x: Any) -> tuple[Any, ...]:
        return (lower("tanh", x),)

    spec = Spec((3,), "float64")
    run = ENGINE.compile(Program(function, [spec], [spec], options={"compile": True}))
    x = floats(3)
    np.testing.assert_allclose(run(x)[0], np.tanh(x))


def test_k_functions_run_inside_a_tf_function() -> None:
    @tf.function(input_signature=[tf.TensorSpec((None, 3))])
    def function(x: Any) -> Any:
        return K.mean(x, axis=-1) + K.sum(x)

    x = floats(4, 3, dtype="float32")
    expected = x.numpy().mean(-1) + x.numpy().sum()
    np.testing.assert_allclose(function(x), expected, rtol=1e-5)


# --- what kernels lack ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2])
def test_convolution_of_an_empty_batch(dtype: str, rank: int, groups: int) -> None:
    params = {
        "strides": (1,) * rank, "padding": "valid", "dilation": (1,) * rank, "groups": groups,
    }  # fmt: skip
    kernel = tf.ones((*(2,) * rank, 2 // groups, 4), dtype)
    specs = [Spec((None, *(5,) * rank, 2), dtype), Spec(tuple(kernel.shape), dtype)]
    run = ENGINE.compile(Program(lambda *xs: (lower("conv", *xs, **params),), specs, []))
    for batch in (0, 1):
        (y,) = run(tf.ones((batch, *(5,) * rank, 2), dtype), kernel)
        assert y.shape == (batch, *(4,) * rank, 4)


@pytest.mark.parametrize("run", [lower, compiled])
def test_maximum_of_nothing_is_an_error(run: Any) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="no elements"):
        run("max", tf.zeros((0, 2)), axes=(0,), keepdims=False)
    assert run("max", tf.zeros((0, 2)), axes=(1,), keepdims=False).shape == (0,)


@pytest.mark.parametrize("run", [lower, compiled])
def test_relu_grad_masks_infinite_gradients(run: Any) -> None:
    g = tf.constant([np.inf, np.nan, 3.0])
    np.testing.assert_array_equal(run("relu_grad", g, tf.constant([0.0, 0.0, 1.0])), [0, 0, 3])


def test_the_mask_of_a_relu_waits_for_the_cotangent() -> None:
    """Else TensorFlow makes it in the forward pass and holds it until the backward pass."""
    traced = tf.function(lambda x: lower("relu_grad", tf.square(x), tf.nn.relu(x)))
    graph = traced.get_concrete_function(tf.TensorSpec((4, 3))).graph
    made = {op.type: op for op in graph.get_operations()}
    assert made["Greater"].control_inputs == [made["Square"]]


@pytest.mark.parametrize("axes", [(0,), (0, 1)])
def test_half_precision_sums_are_exact(axes: tuple[int, ...]) -> None:
    x = tf.ones((4096, 3), tf.float16)
    expected = np.ones((4096, 3), "float32").sum(axes)
    np.testing.assert_array_equal(lower("sum", x, axes=axes, keepdims=False), expected)
    np.testing.assert_array_equal(lower("mean", x, axes=axes, keepdims=False), expected * 0 + 1)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_softmax_of_a_row_with_nan_is_nan(dtype: str, axis: int) -> None:
    rows = np.array([[1.0, np.nan, 3.0], [1.0, 2.0, 3.0]])
    x = tf.cast(tf.constant(rows if axis else rows.T), dtype)
    y = tf.cast(lower("softmax", x, axis=axis), tf.float32).numpy()
    y = y if axis else y.T
    assert np.isnan(y[0]).all()
    np.testing.assert_allclose(y[1], [0.09, 0.2447, 0.6652], rtol=1e-2)


def test_running_sums_of_many_elements() -> None:
    x = tf.fill((1_000_000,), 0.1)
    y = lower("cumsum", x, axis=0, reverse=False)
    assert y.dtype == tf.float32
    np.testing.assert_allclose(y[-1], 1e5, rtol=1e-6)
    y = lower("cumprod", tf.fill((1_000_000,), 1.000001), axis=0, reverse=False)
    np.testing.assert_allclose(y[-1], float(np.float32(1.000001)) ** 1e6, rtol=1e-6)


@pytest.mark.parametrize("run", [lower, compiled])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_unsigned_integers_wrap(dtype: str, run: Any) -> None:
    x = np.array([0, 1, 5], dtype)
    zero, value = tf.zeros(3, dtype), tf.constant(x)
    np.testing.assert_array_equal(run("neg", value), 0 - x)
    np.testing.assert_array_equal(run("sub", zero, value), 0 - x)
    np.testing.assert_array_equal(run("abs", value), x)


def test_max_pool_take_reads_values_that_nobody_else_holds() -> None:
    # MaxPoolGradGrad writes its result over such an operand, if both have equally many elements.
    params: dict[str, Any] = {"pool": (2, 2), "strides": (1, 1), "padding": "same"}
    x, v = floats(1, 4, 4, 1), floats(1, 4, 4, 1)
    y = lower("max_pool", x, **params, wanted=(True, False))[0]
    entry = ENGINE.table["max_pool_take"].function
    expected = entry(v * 2, x, y, None, **params)
    found = tf.function(lambda v: entry(v * 2, x, y, None, **params))(v)
    np.testing.assert_array_equal(found, expected)


def test_print_goes_to_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    x = tf.constant([1.0, 2.0])
    for run in (lower, compiled):
        np.testing.assert_array_equal(
            run("print", x, message="x is", style=(None, None, False)), [1, 2]
        )
        assert capfd.readouterr().out == "x is [1. 2.]\n"


# --- loops ----------------------------------------------------------------------------------------


def accumulate(*, reverse: bool) -> dict[str, Any]:
    """The scan of running sums, whose rows have an unknown size, and of their doubles."""
    state, x = Placeholder(Spec((None,), "float64")), Placeholder(Spec((None,), "float64"))
    total = P["add"](state, x)
    body = Graph((state, x), (total, P["add"](total, total)))
    return {"body": body, "carry": 1, "xs": 1, "reverse": reverse, "length": None}


@pytest.mark.parametrize("steps", [0, 1, 4])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("mode", ["eager", "traced", "compiled"])
def test_scan_over_unknown_sizes(mode: str, reverse: bool, steps: int) -> None:
    params = accumulate(reverse=reverse)
    vectors = [Spec((None,), "float64"), Spec((None, None), "float64")]

    def run(state: Any, xs: Any) -> tuple[Any, ...]:
        return tuple(ENGINE.table["scan"].function(vectors, **params)(state, xs))

    function = {
        "eager": run,
        "traced": tf.function(run),
        "compiled": ENGINE.compile(Program(run, vectors, [])),
    }[mode]
    state, xs = floats(3), floats(steps, 3)
    last, ys = function(state, xs)
    rows = xs.numpy()[::-1] if reverse else xs.numpy()
    sums = state.numpy() + np.cumsum(rows, 0)
    np.testing.assert_allclose(last, sums[-1] if steps else state)
    np.testing.assert_allclose(ys, 2 * (sums[::-1] if reverse else sums))


def test_tape_differentiates_a_scan() -> None:
    vectors = [Spec((None,), "float64"), Spec((None, None), "float64")]
    run = ENGINE.table["scan"].function(vectors, **accumulate(reverse=False))
    state, xs = floats(3), floats(4, 3)

    def gradient(state: Any, xs: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([state, xs])
            last, ys = run(state, xs)
            loss = tf.reduce_sum(last) + tf.reduce_sum(ys)
        return tape.gradient(loss, [state, xs])

    for function in (gradient, tf.function(gradient)):
        by_state, by_xs = function(state, xs)
        np.testing.assert_allclose(by_state, [9, 9, 9])
        np.testing.assert_allclose(by_xs, np.repeat([[9], [7], [5], [3]], 3, 1))


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_while_loop_and_cond(mode: str) -> None:
    x, limit = Placeholder(Spec((None,), "float64")), Placeholder(Spec((), "float64"))
    test = Graph((x, limit), (P["less"](P["sum"](x, axes=(0,), keepdims=False), limit),))
    body = Graph((x, limit), (P["add"](x, x),))
    specs = [Spec((None,), "float64"), Spec((), "float64"), Spec((), "bool")]
    loop = ENGINE.table["while_loop"].function(specs[:2], test=test, body=body, carry=1)
    negative = Graph((x,), (P["neg"](x),))
    branch = ENGINE.table["cond"].function(
        [specs[2], specs[0]], then=negative, orelse=Graph((x,), (x,))
    )

    def function(x: Any, limit: Any, flag: Any) -> tuple[Any, ...]:
        return tuple(branch(flag, *loop(x, limit)))

    run = ENGINE.compile(Program(function, specs, [])) if mode == "compiled" else function
    for flag, sign in ((True, -1), (False, 1)):
        (y,) = run(
            tf.constant([1.0, 2.0], tf.float64), tf.constant(20.0, tf.float64), tf.constant(flag)
        )
        np.testing.assert_array_equal(y, np.array([8.0, 16.0]) * sign)


# --- random numbers -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["random_uniform", "random_normal"])
def test_samples_follow_from_the_key(name: str) -> None:
    def draw(*words: int) -> Any:
        key = ENGINE.from_numpy(np.array(words, np.uint32))
        return lower(name, key, shape=(1000,), dtype="float32").numpy()

    first = draw(1, 2, 3, 4)
    np.testing.assert_array_equal(first, draw(1, 2, 3, 4))
    for other in ((2, 2, 3, 4), (1, 3, 3, 4), (1, 2, 4, 4), (1, 2, 3, 5)):
        assert len(np.intersect1d(first, draw(*other))) < 5


@pytest.mark.parametrize("configured", ["theano", "cntk"])
def test_it_loads_beside_an_engine_whose_name_keras_3_refuses(configured: str) -> None:
    program = (
        "from backplane import backend as K\n"
        "with K.engine('tensorflow'):\n"
        "    print(K.eval(K.ones((1,)) + 1.0))\n"
        "import os; print(os.environ['KERAS_BACKEND'])"
    )
    environment = {**os.environ, "KERAS_BACKEND": configured}
    run = waiting.run(
        [sys.executable, "-c", program],
        env=environment,
    )
    assert run.stdout.split("\n")[:2] == ["[2.]", configured], run.stderr


@pytest.mark.parametrize("rows", [3, 300], ids=["few", "many"])
@pytest.mark.parametrize("given", [True, False])
def test_batch_normalization_is_a_kernel_where_that_is_exact(
    rows: int, given: bool, monkeypatch: pytest.MonkeyPatch, spied: Spy
) -> None:
    monkeypatch.setattr(groups, "MOST_ROWS", 6 * 16)
    made = spied(direct, "call")
    numbers = np.random.default_rng(2)
    a = numbers.normal(3, 2, (rows, 2, 8, 5)).astype("float32")

    def run(engine: str) -> list[np.ndarray]:
        with engines.use(engine):
            x = K.placeholder((None, 2, 8, 5))
            gamma, beta = (K.variable(np.arange(5) + n) for n in (1, 2)) if given else (None, None)
            y, mean, variance = K.normalize_batch_in_training(x, gamma, beta, [0, 1, 2], 1e-2)
            loss = K.sum(K.square(K.sin(y)) * K.sigmoid(x))
            slopes = K.gradients(loss, [x, *([gamma, beta] if given else [])])
            found: list[np.ndarray] = K.function([x], [y, mean, variance, *slopes])([a])
            return found

    for found, wanted in zip(run("tensorflow"), run("numpy"), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5 * np.abs(wanted).max())
    names = str(made[0].args[0].graph.as_graph_def())
    assert "FusedBatchNormV3" in names
    assert "FusedBatchNormGradV3" in names


@pytest.mark.parametrize("compile_", [None, True], ids=["kernel", "XLA"])
def test_the_loss_of_ctc_fits_numpys_also_where_there_is_nothing(compile_: bool | None) -> None:
    numbers = np.random.default_rng(3)
    labels = [[1, 1, 0], [0, 0, 0], [2, 1, 2], [1, 1, 1], [0, 2, 1]]
    steps, counts = [[6], [4], [2], [4], [0]], [[3], [0], [3], [3], [0]]
    batch = [2 * numbers.normal(size=(5, 6, 4)).astype("float32"), labels, steps, counts]

    def run(engine: str, **options: Any) -> list[np.ndarray]:
        with engines.use(engine):
            x, y = K.placeholder((None, None, 4)), K.placeholder((None, 3), dtype="int32")
            n, m = (K.placeholder((None, 1), dtype="int32") for _ in range(2))
            loss = K.ctc_batch_cost(y, K.softmax(x), n, m)
            slopes = K.gradients(K.sum(loss), [x])
            more = K.gradients(K.sum(K.sin(slopes[0])), [x])
            f = K.function([x, y, n, m], [loss, *slopes, *more], **options)
            return [*f(batch), *f([np.array(a)[:0] for a in batch])]

    options = {} if compile_ is None else {"compile": compile_}
    for found, wanted in zip(run("tensorflow", **options), run("numpy"), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_the_counter_of_a_traced_function_is_part_of_the_random_state():
    traced = tf.function(lambda x: K.dropout(x, 0.5, seed=1))
    x = tf.ones(32)
    traced(x)
    state = K.random_state()
    first, second = traced(x).numpy(), traced(x).numpy()
    K.set_random_state(state)
    assert (traced(x).numpy() == first).all()
    assert (first != second).any()
    del traced
    K.set_random_state(state)
