"""Errors of running programs: the same on every engine, with the line that built what failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane import engines
from backplane.compile.diagnosis import conflict
from backplane.compile.program import clear_programs
from backplane.core.spec import Spec
from backplane.engines.table import Entry
from devices.placing import skip_where_errors_end_the_device


def free(ndim: int) -> Any:
    """A placeholder of which nothing but the number of axes is known."""
    return K.placeholder(ndim=ndim)


def step(x: Any, states: list[Any]) -> tuple[Any, list[Any]]:
    new = x + states[0]  # the step
    return new, [new]


def products(x: Any, y: Any) -> Any:
    return K.map_fn(lambda pair: pair[0] * pair[1], (x, y), dtype="float32")


UNFIT: list[tuple[Callable[..., Any], list[tuple[int, ...]], str]] = [
    (lambda x, y: x + y, [(2, 3), (5, 3)], "x + y: shapes (2, 3) and (5, 3) do not broadcast"),
    (lambda x, y: K.relu(K.dot(x * 2.0, y)), [(2, 3), (4, 3)], "3 columns meet 4 rows"),
    (lambda x, y: K.concatenate([x, y], 0), [(2, 5), (3, 4)], "5 and 4 differ"),
    (lambda x, y: K.stack([x, y]), [(2, 5), (3, 5)], "2 and 3 differ"),
    (lambda x: K.reshape(x, (3, 4)), [(2, 5)], "cannot reshape (2, 5) (10 elements) to (3, 4)"),
    (lambda x: K.reshape(x, (-1, 3)), [(2, 5)], "cannot reshape (2, 5)"),
    (lambda x, y: K.reshape(x, K.shape(y)), [(2, 5), (3, 4)], "cannot reshape (2, 5)"),
    (lambda x: K.squeeze(x, 0), [(2, 5)], "K.squeeze: axis 0 of a tensor of shape (2, 5)"),
    (lambda x, y: K.reverse(K.transpose(x), 0) - y, [(2, 5), (2, 5)], "(5, 2) and (2, 5)"),
    (lambda x, y: K.sum(x, axis=0) - y, [(2, 5), (4,)], "(5,) and (4,)"),
    (lambda x, y: K.rnn(step, x, [y])[1], [(2, 5, 3), (2, 4)], "(2, 3) and (2, 4)"),
    (lambda x, y: K.rnn(step, x, [y])[1], [(2, 5, 3), (4, 3)], "(2, 3) and (4, 3)"),
    (products, [(2, 5), (3, 5)], "sequences of 2 and 3 steps"),
    (products, [(2, 5), (2, 4)], "(5,) and (4,)"),
    (lambda x: K.max(x, axis=0), [(0, 3)], "K.max: no elements along axes (0,)"),
    (lambda x: K.argmin(x, axis=1), [(3, 0)], "K.argmin: no elements along axes (1,)"),
    (
        lambda x, y: K.gradients(K.sum(K.square(x) * y), [x])[0],
        [(2, 3), (5, 3)],
        "K.square(x) * y: shapes (2, 3) and (5, 3)",
    ),
]


LOOPED = [
    (lambda x, y: K.rnn(lambda row, s: (row * 2.0, s), x, [y])[0], [(2, 0, 3), (2, 3)]),
    (lambda x: K.foldl(lambda total, row: total + row, x), [(0, 3)]),
    (lambda x: K.foldr(lambda total, row: total + row, x), [(0, 3)]),
]


@pytest.mark.parametrize(("build", "shapes"), LOOPED)
def test_loops_over_nothing(build: Callable[..., Any], shapes: Any, engine: Any) -> None:
    inputs = [free(len(shape)) for shape in shapes]
    f = K.function(inputs, [build(*inputs)])
    with pytest.raises(ValueError, match=r"^K\.(rnn|fold.): there are no steps or elements"):
        f([np.ones(shape) for shape in shapes])
    with pytest.raises(ValueError, match=r"^K\.(rnn|fold.): .*there are no steps or elements"):
        build(*[K.placeholder(shape) for shape in shapes])


PICKED: list[tuple[Callable[..., Any], str]] = [
    (lambda x: x[:, 7], r"^x\[:, 7\]: index 7 is out of range for axis 1 of size 3"),
    (lambda x: x[-4], r"^x\[-4\]: index -4 is out of range for axis 0 of size 2"),
    (lambda x: 1.0 + K.exp(x[1:, 3]), r"^x\[1:, 3\]: index 3 is out of range for axis 1 of size 3"),
]


@pytest.mark.parametrize(("build", "message"), PICKED)
def test_an_element_that_is_not_there(build: Callable[..., Any], message: str, engine: Any) -> None:
    x = free(2)
    f = K.function([x], [build(x)])
    with pytest.raises(IndexError, match=message) as caught:
        f([np.ones((2, 3))])
    assert "test_diagnosis.py" in caught.value.__notes__[-1]
    assert f([np.ones((5, 9))])[0].size


BRANCHES: list[tuple[Callable[..., Any], type[Exception], str]] = [
    (lambda x, y: x[:, 7], IndexError, r"^x\[:, 7\]: index 7 is out of range for axis 1 of size 2"),
    (lambda x, y: x + y, ValueError, r"^x \+ y: shapes \(2, 2\) and \(3, 3\)"),
    (lambda x, y: K.dot(x, y), ValueError, r"^K\.dot: cannot multiply shapes"),
    (lambda x, y: K.map_fn(lambda row: row[5], x), IndexError, r"^row\[5\]: index 5 is out of"),
]


@pytest.mark.parametrize(("build", "error", "message"), BRANCHES)
def test_a_branch_that_does_not_fit(
    build: Callable[..., Any], error: type[Exception], message: str, engine: Any
) -> None:
    x, y = free(2), free(2)
    chosen = K.switch(K.sum(x) > 0, lambda: K.sum(build(x, y)), lambda: K.sum(x))
    f = K.function([x, y], [chosen])
    with pytest.raises(error, match=message):
        f([np.ones((2, 2)), np.ones((3, 3))])


def test_a_branch_that_does_not_run_explains_nothing() -> None:
    x, y = free(2), free(2)
    with K.engine("numpy"):
        chosen = K.switch(K.sum(x) > 0, lambda: K.sum(x + y), lambda: K.sum(x))
        f = K.function([x, y], [chosen, K.gather(y, [7])])
        assert K.function([x, y], [chosen])([-np.ones((2, 2)), np.ones((3, 3))]) == [-4]
        with pytest.raises(IndexError, match=r"^K\.gather"):
            f([-np.ones((2, 2)), np.ones((3, 3))])


def test_errors_quote_what_was_written(engine: Any) -> None:
    x, y = free(2), free(2)
    values = [np.ones((2, 3)), np.ones((5, 3))]
    long = x + y * 1.0 + 2.0 * (x * 3.0 + 4.0 * x + 5.0 * x + 6.0 * x + 7.0 * x + 8.0 * x) - y
    moved = x
    moved += y
    for result, message in (
        (K.dot(x, y), r"^K\.dot: cannot multiply"),
        (x < y, r"^x < y: shapes"),
        (moved, r"^moved \+= y: shapes"),
        (K.binary_crossentropy(x, y), r"^K\.binary_crossentropy: shapes"),
        (long, r"^x \+ y \* 1\.0: shapes"),
    ):
        with pytest.raises(ValueError, match=message):
            K.function([x, y], [result])(values)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x, y: x + y, r"^x \+ y: shapes"),
        (lambda x, y: 1.0 - x * y, r"^x \* y: shapes"),
        (lambda x, y: x**y, r"^x \*\* y: shapes"),
        (lambda x, y: x >= y, r"^x >= y: shapes"),
        (lambda x, y: x @ y, r"^x @ y: cannot multiply"),
    ],
)
def test_operators_name_themselves_when_the_graph_is_built(build: Any, message: str) -> None:
    x, y = K.placeholder((2, 3)), K.placeholder((5, 3))
    with pytest.raises(ValueError, match=message):
        build(x, y)


@pytest.mark.parametrize(
    ("build", "shapes", "message"), UNFIT, ids=[message for *_, message in UNFIT]
)
def test_shapes_that_do_not_fit_are_one_error_everywhere(
    build: Callable[..., Any], shapes: list[tuple[int, ...]], message: str, engine: Any
) -> None:
    inputs = [free(len(shape)) for shape in shapes]
    f = K.function(inputs, [build(*inputs)])
    with pytest.raises(ValueError) as caught:
        f([np.ones(shape) for shape in shapes])
    assert message in str(caught.value)
    assert "test_diagnosis.py" in caught.value.__notes__[-1]
    assert caught.value.__cause__ is not None


def test_an_error_in_a_loop_names_the_line_of_the_step(engine: Any) -> None:
    x, start = free(3), free(2)
    f = K.function([x, start], [K.rnn(step, x, [start])[0]])
    f([np.ones((2, 5, 3)), np.ones((2, 3))])
    with pytest.raises(ValueError, match="do not broadcast") as caught:
        f([np.ones((2, 5, 3)), np.ones((2, 4))])
    built, *called = caught.value.__notes__[-1].splitlines()
    assert built.endswith("# the step")
    assert all("called from" in line for line in called)


def test_a_step_that_changes_the_size_of_a_state(engine: Any) -> None:
    """Where a loop's states are kept for the gradient, no engine can go on. JAX never can."""
    x, start = K.placeholder((None, 2, 3)), K.placeholder((None, 3))
    last, _, _ = K.rnn(lambda row, states: (states[0], [K.sin(states[0]) * row]), x, [start])
    _, _, (final,) = K.rnn(step, x, [start])
    values = [np.ones((4, 2, 3)), np.ones((1, 3))]
    message = r"^K\.rnn: state 0 has shape \(1, 3\).* a step makes it shape \(4, 3\)"
    with pytest.raises(ValueError, match=message) as raised:
        K.function([x, start], K.gradients(K.sum(last), [x]))(values)
    assert any("test_diagnosis.py" in note for note in raised.value.__notes__)
    f = K.function([x, start], [final])
    if "static" in engine.capabilities:
        with pytest.raises(ValueError, match=message):
            f(values)
    else:
        np.testing.assert_array_equal(f(values)[0], np.full((4, 3), 3))


def test_a_changed_state_is_not_blamed_for_other_errors() -> None:
    x, start = K.placeholder((None, 2, 3)), K.placeholder((None, 3))
    last, _, _ = K.rnn(step, x, [start])
    indices = K.placeholder((None,), dtype="int32")
    with K.engine("numpy"):
        f = K.function([x, start, indices], [K.gather(last, indices)])
    values = [np.ones((4, 2, 3)), np.ones((1, 3))]
    assert f([*values, [3]])[0].tolist() == [[3, 3, 3]]
    with pytest.raises(IndexError, match="gather"):
        f([*values, [4]])


def test_a_call_whose_shapes_do_not_fit_changes_nothing(engine: Any) -> None:
    v, x, y = K.variable([1.0, 2.0]), free(1), free(1)
    f = K.function([x, y], [x + y], [K.update_add(v, [1.0, 1.0])])
    with pytest.raises(ValueError, match=r"^x \+ y: shapes"):
        f([np.ones(2), np.ones(3)])
    np.testing.assert_array_equal(K.get_value(v), [1, 2])
    np.testing.assert_array_equal(f([np.ones(2), np.ones(2)])[0], [2, 2])


def test_an_index_out_of_range(engine: Any, request: pytest.FixtureRequest) -> None:
    skip_where_errors_end_the_device(engine, request)
    x, i = free(2), K.placeholder((None,), dtype="int32")
    f = K.function([x, i], [K.gather(x, i)])
    values = [np.ones((2, 3)), np.array([1, 2])]
    if "unchecked" in engine.capabilities:
        np.testing.assert_array_equal(f(values)[0], [[1] * 3, [np.nan] * 3])
    else:
        with pytest.raises(IndexError, match=r"(?i)index|indices"):
            f(values)


TABLE = np.ones((4, 3))


def row(x: Any) -> Any:
    return K.gather(K.constant(TABLE), K.cast(x[:, 0], "int32"))  # the row


def looking(x: Any, states: list[Any]) -> tuple[Any, list[Any]]:
    new = states[0] + row(x)
    return new, [new]


def nested(x: Any, states: list[Any]) -> tuple[Any, list[Any]]:
    inner = K.rnn(looking, K.stack([x, x], 1), [x])[0]
    return inner, [states[0] + inner]


INSIDE: dict[str, Callable[[Any], Any]] = {
    "a loop": lambda x: K.rnn(looking, x, [x[:, 0]])[1],
    "a masked loop": lambda x: K.rnn(looking, x, [x[:, 0]], mask=K.ones((2, 9)))[1],
    "a loop in a loop": lambda x: K.rnn(nested, x, [x[:, 0]])[1],
    "a fold": lambda x: K.foldl(lambda total, each: total + K.sum(row(each)), x, K.constant(0.0)),
    "a branch": lambda x: K.switch(K.sum(x) > 0, lambda: row(x[:, 2]), lambda: x[:, 2]),
}


@pytest.mark.parametrize("where", INSIDE)
def test_an_index_out_of_range_inside(
    where: str, engine: Any, request: pytest.FixtureRequest
) -> None:
    """TensorFlow runs bodies and branches as functions, in which the operation must be found."""
    skip_where_errors_end_the_device(engine, request)
    x = K.placeholder((None, 9, 3))
    f = K.function([x], [INSIDE[where](x), row(x[:, 0])])
    values = np.ones((2, 9, 3))
    assert np.isfinite(f([values])[0]).all()
    values[:, 2] = 9
    if "unchecked" in engine.capabilities:
        assert np.isnan(f([values])[0]).any()
        return
    with pytest.raises(IndexError, match=r"^K\.gather: an index is out of range") as caught:
        f([values])
    assert "# the row" in caught.value.__notes__[-1]


# --- windows: engines would give nothing, fail, or end the process --------------------------------

WINDOWS: list[tuple[Callable[[Any], Any], tuple[int, ...], tuple[int, ...]]] = [
    (lambda x: K.conv1d(x, K.ones((4, 3, 1))), (1, 3, 3), (1, 4, 3)),
    (lambda x: K.conv1d(x, K.ones((2, 3, 1)), dilation_rate=3), (1, 3, 3), (1, 4, 3)),
    (lambda x: K.conv2d(x, K.ones((1, 3, 2, 4))), (1, 5, 2, 2), (1, 5, 3, 2)),
    (
        lambda x: K.conv2d(x, K.ones((3, 1, 2, 4)), data_format="channels_first"),
        (1, 2, 1, 5),
        (1, 2, 3, 5),
    ),
    (lambda x: K.depthwise_conv2d(x, K.ones((3, 3, 2, 1))), (1, 1, 3, 2), (1, 3, 3, 2)),
    (lambda x: K.pool2d(x, (3, 3)), (1, 2, 2, 1), (1, 3, 3, 1)),
    (lambda x: K.pool2d(x, (3, 3), strides=(2, 2)), (1, 1, 4, 1), (1, 3, 4, 1)),
    (lambda x: K.pool2d(x, (3, 3), pool_mode="avg"), (1, 2, 2, 1), (1, 3, 3, 1)),
    (lambda x: K.pool3d(x, (1, 2, 2)), (1, 1, 1, 2, 1), (1, 1, 2, 2, 1)),
    (lambda x: K.gradients(K.sum(K.pool2d(x, (3, 3))), [x])[0], (1, 2, 2, 1), (1, 3, 3, 1)),
]


@pytest.mark.parametrize(("build", "small", "large"), WINDOWS)
def test_a_window_that_does_not_fit_is_an_error(
    build: Callable[[Any], Any], small: tuple[int, ...], large: tuple[int, ...], engine: Any
) -> None:
    x = free(len(small))
    f = K.function([x], [build(x)])
    with pytest.raises(ValueError, match="the window does not fit"):
        f([np.ones(small)])
    assert 0 not in f([np.ones(large)])[0].shape


def test_padded_windows_always_fit(engine: Any) -> None:
    x, kernel = free(3), K.ones((4, 3, 1))
    padded = [K.conv1d(x, kernel, padding=padding) for padding in ("same", "causal")]
    same, causal = K.function([x], padded)([np.ones((1, 2, 3))])
    np.testing.assert_array_equal(same[0, :, 0], [6, 6])
    np.testing.assert_array_equal(causal[0, :, 0], [3, 6])


# --- the walk itself ------------------------------------------------------------------------------


def test_shapes_that_fit_have_no_conflict() -> None:
    x, y = free(2), free(2)
    given = {x: Spec((2, 3), "float32"), y: Spec((3, 4), "float32")}
    assert conflict([K.dot(x, y) + 1.0], given) is None
    assert conflict([K.dot(y, x)], given) is not None


def test_a_branch_may_not_have_run() -> None:
    x, y = free(1), free(1)
    chosen = K.switch(K.sum(x) > 0, lambda: K.sum(x), lambda: K.sum(x + y))
    found = conflict([chosen], {x: Spec((2,), "float32"), y: Spec((3,), "float32")})
    assert found is not None
    assert not found.certain
    np.testing.assert_array_equal(K.function([x, y], [chosen])([np.ones(2), np.ones(3)])[0], 2)


def test_a_loop_of_no_steps_does_not_run_its_step(engine: Any) -> None:
    x, y, z = free(2), free(2), free(1)
    sums = K.map_fn(lambda pair: pair[0] + pair[1], (x, y), dtype="float32")
    f = K.function([x, y, z], [sums, z + np.ones(3, "float32")])
    with pytest.raises(ValueError, match=r"\(2,\) and \(3,\)"):
        f([np.ones((0, 4)), np.ones((0, 4)), np.ones(2)])


def test_sparse_inputs_stay_sparse_on_the_walk(engine: Any) -> None:
    x, y = K.placeholder((None, 3), sparse=True), free(2)
    f = K.function([x, y], [K.dot(x, K.ones((3, 2))) + y])
    with pytest.raises(ValueError, match=r"\+ y: shapes \(2, 2\) and \(5, 2\)"):
        f([np.ones((2, 3)), np.ones((5, 2))])


def test_a_gather_that_fails_for_another_reason_keeps_its_error() -> None:
    short = MemoryError("no memory")
    x, i = free(1), K.placeholder((1,), dtype="int32")
    with engines.use("numpy") as numpy:

        def failing(*values: Any, **params: Any) -> Any:
            raise short

        entry = numpy.table["gather"]
        numpy.table["gather"] = Entry(failing)
        clear_programs()
        try:
            with pytest.raises(MemoryError) as caught:
                K.function([x, i], [K.gather(x, i)])([np.ones(2), np.array([1])])
        finally:
            numpy.table["gather"] = entry
            clear_programs()
    assert caught.value is short
    assert "'gather'" in short.__notes__[0]
