"""What programs on TensorFlow hand to its optimizer: constants, biases, borders of images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from backplane import backend as K  # noqa: E402
from backplane import engines  # noqa: E402
from backplane.compile.program import clear_programs  # noqa: E402
from backplane.engines.tensorflow import convolution, groups  # noqa: E402
from backplane.engines.tensorflow.fast import direct, updates  # noqa: E402
from backplane.ops.control import scan  # noqa: E402
from spying import Call, Spy  # noqa: E402


@pytest.fixture(autouse=True)
def on_tensorflow() -> Iterator[None]:
    clear_programs()
    with engines.use("tensorflow"):
        yield
    clear_programs()


@pytest.fixture
def traced(spied: Spy) -> list[Call]:
    """Where the concrete functions of the programs that the test compiles are called."""
    return spied(direct, "call")


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def test_constants_are_nodes_of_the_graph_that_uses_them(traced: list[Call]) -> None:
    x = K.placeholder(shape=(None, None, 8))

    def step(row: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        h = K.tanh(row[:, :4] + row[:, 4:] * 0.5 + states[0])
        return h, [h]

    _, ys, _ = K.rnn(step, x, [K.zeros_like(x[:, 0, :4])])
    given = floats(2, 5, 8)
    (got,) = K.function([x], [ys])([given])
    want, h = [], np.zeros((2, 4), "float32")
    for t in range(5):
        h = np.tanh(given[:, t, :4] + given[:, t, 4:] * 0.5 + h)
        want.append(h)
    np.testing.assert_allclose(got, np.stack(want, 1), rtol=1e-5)
    (call,) = traced
    function = call.args[0]
    _, *numbers = function.inputs
    assert len(numbers) == 2  # 0.5 and the 0 of the start: floats are not for the optimizer to know
    assert all(t.dtype.is_floating for t in numbers)
    loops = [op for op in function.graph.get_operations() if op.type in ("While", "StatelessWhile")]
    assert len(loops) == 2  # of four steps in each turn, and of one
    for loop in loops:
        assert all(x.op.type != "Const" or x.shape.rank == 0 for x in loop.inputs)


@pytest.mark.parametrize("shape", [(6, 3), (6, 6, 3)], ids=["1D", "2D"])
def test_a_bias_lies_next_to_its_convolution(traced: list[Call], shape: tuple[int, ...]) -> None:
    x, rank = K.placeholder(shape=(None, *shape)), len(shape) - 1
    kernel, bias = K.variable(floats(*[2] * rank, 3, 4)), K.variable(floats(4))
    convolve = K.conv1d if rank == 1 else K.conv2d
    plain = convolve(x, kernel)
    given = floats(2, *shape)
    (got,) = K.function([x], [K.bias_add(plain, bias)])([given])
    (want,) = K.function([x], [plain])([given])
    np.testing.assert_allclose(got, want + floats(4), rtol=1e-5, atol=1e-6)
    (add,) = [op for op in traced[0].args[0].graph.get_operations() if op.type == "BiasAdd"]
    assert add.inputs[0].op.type == "Conv2D"


WINDOWS = [
    ((3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    ((3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1)),
    ((3, 2), (1, 1), ((0, 2), (3, 1)), (1, 1)),
    ((3, 3), (1, 1), "same", (2, 2)),
    ((2, 3), (1, 1), "valid", (3, 1)),
    ((1, 2), (1, 1), ((0, 0), (4, 0)), (1, 4)),
]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_gradients_are_equal_however_borders_and_dilation_are_made(
    monkeypatch: pytest.MonkeyPatch, window: Any
) -> None:
    size, strides, padding, dilation = window
    x, kernel = K.placeholder(shape=(None, 9, 8, 3)), K.variable(floats(*size, 3, 4))
    image, named = x, padding
    if not isinstance(padding, str):
        image, named = K.spatial_2d_padding(x, padding), "valid"
    y = K.conv2d(image, kernel, strides, named, dilation_rate=dilation)
    loss = K.sum(K.square(y))

    def found() -> list[np.ndarray]:
        clear_programs()
        function = K.function([x], [y, *K.gradients(loss, [x, kernel])])
        return [np.asarray(a) for a in function([floats(2, 9, 8, 3)])]

    everything = dict.fromkeys(convolution.LEAST_PADDED, 0)
    nothing = dict.fromkeys(convolution.LEAST_PADDED, 10**9)
    results = []
    for least, knows in ((everything, True), (nothing, False)):
        monkeypatch.setattr(convolution, "LEAST_PADDED", least)
        if not knows:
            monkeypatch.setattr(convolution, "_knows_dilation", lambda: False)
        results.append(found())
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-4)


def test_equal_paddings_have_a_name(traced: list[Call]) -> None:
    x = K.placeholder(shape=(None, 8, 8, 3))
    kernel = K.variable(floats(3, 3, 3, 4))
    y = K.conv2d(K.spatial_2d_padding(x, ((1, 1), (1, 1))), kernel)
    f = K.function([x], K.gradients(K.sum(K.square(y)), [x, kernel]))
    f([floats(2, 8, 8, 3)])
    found = [op for op in traced[0].args[0].graph.get_operations() if op.type.startswith("Conv2D")]
    assert Counter(op.get_attr("padding") for op in found) == {b"SAME": len(found)}
    assert len(found) == 3


# --- normalization of a number of rows that a program does not know -------------------------------


def normalized(x: Any) -> list[Any]:
    y, mean, variance = K.normalize_batch_in_training(x, None, None, [0], epsilon=1e-3)
    return [y, mean, variance, *K.gradients(K.sum(K.square(y) * y), [x])]


def test_a_program_for_few_rows_has_no_branches_and_another_serves_many(traced: list[Call]) -> None:
    x, v = K.placeholder(shape=(None, 3)), K.variable(np.zeros(3))
    _, mean, *_ = outputs = normalized(x)
    large = K.variable(np.zeros(updates.LARGE))
    f = K.function([x], outputs, [K.update_add(v, mean), K.update_add(large, K.sum(x) + 1 - large)])
    few, many = floats(8, 3), floats(groups.MOST_ROWS + 1, 3)
    found = [f([few])]
    assert not branches(traced[0].args[0])
    found.append(f([many]))
    assert branches(traced[1].args[0])
    found.append(f([few]))
    assert len(traced) == 2
    for given, got in zip((few, many, few), found, strict=True):
        with K.engine("numpy"):
            again = K.placeholder(shape=(None, 3))
            want = K.function([again], normalized(again))([given])
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    means = sum(given.mean(0) for given in (few, many, few))
    np.testing.assert_allclose(K.get_value(v), means, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(K.get_value(large), few.sum() + 1, rtol=1e-4)


def test_a_program_with_other_effects_is_not_run_twice(
    traced: list[Call], capfd: pytest.CaptureFixture[str]
) -> None:
    x = K.placeholder(shape=(None, 3))
    f = K.function([x], normalized(K.print_tensor(x, message="seen")))
    f([floats(groups.MOST_ROWS + 1, 3)])
    assert branches(traced[-1].args[0])
    out = capfd.readouterr()
    assert (out.out + out.err).count("seen") == 1


def test_a_branch_normalizes_any_number_of_rows(traced: list[Call]) -> None:
    x, flag = K.placeholder(shape=(None, 3)), K.placeholder(shape=(), dtype="bool")
    f = K.function([x, flag], [K.switch(flag, lambda: normalized(x)[0], lambda: x)])
    given = floats(groups.MOST_ROWS + 1, 3)
    (got,) = f([given, np.array(True)])
    want = (given - given.mean(0)) / np.sqrt(given.var(0) + 1e-3)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    assert branches(traced[0].args[0])


def branches(function: Any) -> list[Any]:
    return [op for op in function.graph.get_operations() if op.type in ("If", "StatelessIf")]


# --- loops ----------------------------------------------------------------------------------------


def sums_and_slopes(given: np.ndarray, reverse: bool) -> list[np.ndarray]:
    """Of h = h / 2 + x²: all h, and the gradient of their sum by x."""
    ordered = given[::-1] if reverse else given
    h = np.zeros_like(given[0]) if len(given) else np.zeros(given.shape[1:], "float32")
    ys = []
    for row in ordered:
        h = h / 2 + row**2
        ys.append(h)
    weights = [2 - 0.5 ** (len(given) - 1 - t) for t in range(len(given))]
    slopes = [2 * row * w for row, w in zip(ordered, weights, strict=True)]
    found = [np.array(each, "float32").reshape(given.shape) for each in (ys, slopes)]
    return [each[::-1] for each in found] if reverse else found


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("steps", [0, 1, 3, 4, 5, 8, 11])
def test_loops_of_any_length(steps: int, known: bool, reverse: bool) -> None:
    x = K.placeholder(shape=(steps if known else None, 2, 3))

    def step(state: list[Any], rows: list[Any]) -> tuple[list[Any], list[Any]]:
        h = state[0] / 2.0 + rows[0] * rows[0]
        return [h], [h]

    _, (ys,) = scan(step, [K.zeros((2, 3))], [x], reverse=reverse)
    f = K.function([x], [ys, K.gradients(K.sum(ys), [x])[0]])
    given = floats(steps, 2, 3)
    for got, want in zip(f([given]), sums_and_slopes(given, reverse), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
