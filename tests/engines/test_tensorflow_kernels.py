"""Where kernels of TensorFlow are particular: what they lack, and where they serve."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorflow")
import tensorflow as tf

from backplane import backend as K
from backplane import engines
from backplane.core.spec import Spec
from backplane.engines.programs import Program
from backplane.engines.tensorflow import ENGINE, groups
from backplane.engines.tensorflow.fast import direct
from engines import lowerings
from spying import Spy

rng = np.random.default_rng(0)


def lower(name: str, *operands: Any, **params: Any) -> Any:
    """Run the lowering of a primitive at once."""
    return lowerings.lower(ENGINE, name, *operands, **params)


def compiled(name: str, *operands: Any, **params: Any) -> Any:
    """Run the lowering of a primitive in a program that knows no size."""
    specs = [Spec((None,) * len(x.shape), x.dtype.name) for x in operands]
    program = Program(lambda *xs: (lower(name, *xs, **params),), specs, [])
    return ENGINE.compile(program)(*operands)[0]


def floats(*shape: int, dtype: str = "float64") -> Any:
    return tf.constant(rng.normal(size=shape), dtype)


def test_a_zero_keeps_its_sign() -> None:
    """TensorFlow's table of scalars does not tell 0.0 from -0.0."""
    found = [lower("full", shape=(1,), value=x, dtype="float32") for x in (0.0, -0.0, 0.0)]
    assert [bool(np.signbit(x.numpy()[0])) for x in found] == [False, True, False]


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
