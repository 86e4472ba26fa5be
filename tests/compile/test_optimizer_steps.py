"""Steps of optimizers in programs: which are found, what they compute, and in what memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane.compile.fuse.updates import find_updates
from backplane.compile.passes.simplify import simplify
from backplane.core.registry import PRIMITIVES
from backplane.core.variable import Variable
from backplane.engines.base import Engine
from backplane.engines.table import Table
from devices.placing import skip_where_errors_end_the_device

rng = np.random.default_rng(0)

NAMES = ("gradient_update", "momentum_update", "adam_update", "rows_update", "average_update")
KERNELS = SimpleNamespace(
    table=Table(**dict.fromkeys((*NAMES, "normalize", "normalize_grad"), len))
)
"""An engine that has all of them."""

Pairs = Sequence[tuple[Variable, Any]]


def found(updates: Pairs, outputs: Sequence[Any] = ()) -> list[str]:
    """The steps that are found: name and how many parameters."""
    news = simplify([*outputs, *[value for _, value in updates]])
    state = {v: len(outputs) + i for i, (v, _) in enumerate(updates)}
    results = find_updates(news, state, KERNELS)  # type: ignore[arg-type]
    kinds = dict.fromkeys(NAMES, 1) | {"momentum_update": 2, "adam_update": 3}
    nodes = [t.inputs[0] for t in results if t.op is not None and t.op.name == "output"]
    counts = Counter(t.op.name for t in nodes if t.op is not None)
    return [f"{name} {count // kinds[name]}" for name, count in sorted(counts.items())]


def variables(count: int, shape: tuple[int, ...] = (2, 3), dtype: str = "float32") -> list[Any]:
    return [K.variable(rng.random(shape), dtype=dtype) for _ in range(count)]


# --- ways to write them ---------------------------------------------------------------------------


def classic_adam(p: Any, m: Any, v: Any, g: Any) -> Pairs:
    rate = 0.01 * K.sqrt(K.constant(0.3)) / (1 - K.pow(K.constant(0.9), 3.0))
    m_t = (0.9 * m) + (1.0 - 0.9) * g
    v_t = (0.999 * v) + (1.0 - 0.999) * K.square(g)
    return [(m, m_t), (v, v_t), (p, p - rate * m_t / (K.sqrt(v_t) + K.epsilon()))]


def keras_2_3_adam(p: Any, m: Any, v: Any, g: Any) -> Pairs:
    """Numbers in variables."""
    lr, b1, b2 = K.variable(0.01), K.variable(0.9), K.variable(0.999)
    m_t = (b1 * m) + (1.0 - b1) * g
    v_t = (b2 * v) + (1.0 - b2) * K.square(g)
    return [(m, m_t), (v, v_t), (p, p - lr * m_t / (K.sqrt(v_t) + K.epsilon()))]


def keras_3_adam(p: Any, m: Any, v: Any, g: Any) -> Pairs:
    m_t = m + (g - m) * (1 - 0.9)
    v_t = v + (K.square(g) - v) * (1 - 0.999)
    return [(p, p - (m_t * 0.01) / (K.sqrt(v_t) + 1e-7)), (v, v_t), (m, m_t)]


def decayed_adam(p: Any, m: Any, v: Any, g: Any) -> Pairs:
    return classic_adam(p, m, v, g + 0.02 * p)


def clipped_adam(p: Any, m: Any, v: Any, g: Any) -> Pairs:
    return classic_adam(p, m, v, K.clip(g * 0.5, -0.1, 0.1))


def momentum(p: Any, m: Any, v: Any, g: Any) -> Pairs:
    m_t = 0.9 * m - 0.01 * g
    return [(m, m_t), (p, p + m_t)]


def heavy_ball(p: Any, m: Any, v: Any, g: Any) -> Pairs:
    """As PyTorch writes it."""
    m_t = 0.9 * m + (g + 0.02 * p)
    return [(m, m_t), (p, p - 0.01 * m_t)]


def nesterov(p: Any, m: Any, v: Any, g: Any) -> Pairs:
    lr, decay = K.variable(0.01), K.variable(0.9)
    m_t = decay * m - lr * g
    return [(m, m_t), (p, p + decay * m_t - lr * g)]


def descent(p: Any, m: Any, v: Any, g: Any) -> Pairs:
    return [(p, p - 0.01 * (g + 0.02 * p))]


def rms_prop(p: Any, m: Any, v: Any, g: Any) -> Pairs:
    v_t = 0.9 * v + 0.1 * K.square(g)
    return [(v, v_t), (p, p - 0.01 * g / (K.sqrt(v_t) + 1e-7))]


def constrained(p: Any, m: Any, v: Any, g: Any) -> Pairs:
    m_t = 0.9 * m - 0.01 * g
    return [(m, m_t), (p, K.maximum(p + m_t, 0.0))]


WAYS: list[tuple[Callable[..., Pairs], list[str]]] = [
    (classic_adam, ["adam_update 1"]),
    (keras_2_3_adam, ["adam_update 1"]),
    (keras_3_adam, ["adam_update 1"]),
    (decayed_adam, ["adam_update 1"]),
    (clipped_adam, ["adam_update 1"]),
    (momentum, ["momentum_update 1"]),
    (heavy_ball, ["momentum_update 1"]),
    (nesterov, ["momentum_update 1"]),
    (descent, ["gradient_update 1"]),
    (rms_prop, []),
    (constrained, []),
]
IDS = [way.__name__ for way, _ in WAYS]


@pytest.mark.parametrize(("way", "names"), WAYS, ids=IDS)
def test_steps_are_found_however_they_are_written(way: Any, names: list[str]) -> None:
    p, m, v, w = variables(4)
    assert found(way(p, m, v, K.sin(w))) == names


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("way", [way for way, _ in WAYS], ids=IDS)
def test_steps_compute_what_was_written(engine: Any, way: Any, dtype: str) -> None:
    K.set_floatx(dtype)
    starts = [rng.random((2, 3)), rng.random((2, 3)), rng.random((2, 3))]
    feeds = [rng.standard_normal((2, 3)).astype(dtype) for _ in range(4)]

    def run(shape: tuple[int, ...]) -> list[Any]:
        state = [K.variable(a.reshape(shape)) for a in starts]
        g = K.placeholder((2, 3))
        step = K.function([g], [K.sum(state[0])], updates=way(*state, K.reshape(g, shape)))
        losses = [step([feed])[0] for feed in feeds]
        return [np.array(losses), *[K.get_value(s).ravel() for s in state]]

    with without_kernels(engine):
        wanted = run((6,))
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    for got, right in zip(run((2, 3)), wanted, strict=True):
        np.testing.assert_allclose(got, right, rtol=tolerance, atol=tolerance * 0.1)


@contextmanager
def without_kernels(engine: Any) -> Iterator[None]:
    """Nothing is replaced."""
    engine.updates_in_place = lambda options: False
    yield
    del engine.updates_in_place


def test_parameters_with_equal_numbers_share_a_node() -> None:
    ps, ms = variables(3), variables(3)
    updates: list[Any] = []
    for i, (p, m) in enumerate(zip(ps, ms, strict=True)):
        m_t = 0.9 * m - (0.01 if i else 0.02) * K.sin(p)
        updates += [(m, m_t), (p, p + m_t)]
    news = [value for _, value in updates]
    results = find_updates(simplify(news), {v: i for i, (v, _) in enumerate(updates)}, KERNELS)  # type: ignore[arg-type]
    assert len({t.inputs[0] for t in results}) == 2


@pytest.mark.parametrize("number", [0.9, 0.95, 0.123456, 0.9994321])
def test_only_complements_make_adam(number: float) -> None:
    p, m, v, w = variables(4)
    g = K.sin(w)

    def adam(rest: float) -> list[str]:
        m_t, v_t = number * m + rest * g, 0.5 * v + 0.5 * g * g
        return found([(m, m_t), (v, v_t), (p, p - 0.1 * m_t / (K.sqrt(v_t) + 1e-7))])

    assert adam(1 - number) == ["adam_update 1"]
    assert adam((1 - number) * 1.01) == []


# --- rows of tables -------------------------------------------------------------------------------


def lookups(table: Any, *indices: Any) -> Any:
    """A loss that reads rows of a table."""
    return K.sum(K.concatenate([K.flatten(K.sin(K.gather(table, i))) for i in indices]))


def test_steps_by_the_gradients_of_lookups_are_found() -> None:
    table, other = variables(2, (5, 3))
    i, j = (K.placeholder((None,), dtype="int32") for _ in range(2))
    (g,) = K.gradients(lookups(table, i), [table])
    assert found([(table, table - 0.1 * g)]) == ["rows_update 1"]
    (both,) = K.gradients(lookups(table, i, j), [table])
    assert found([(table, table - 0.1 * both)]) == ["rows_update 1"]
    updates = [(p, p - 0.1 * K.gradients(lookups(p, i), [p])[0]) for p in (table, other)]
    assert found(updates) == ["rows_update 2"]
    # Every row moves: by a penalty on weights, or by momentum.
    assert found([(table, table - 0.1 * (g + 0.02 * table))]) == ["gradient_update 1"]
    m_t = 0.9 * other - 0.01 * g
    assert found([(other, m_t), (table, table + m_t)]) == ["momentum_update 1"]


@pytest.mark.parametrize("shape", [(5,), (5, 3), (5, 2, 3)])
def test_only_the_rows_that_are_read_move(engine: Any, shape: tuple[int, ...]) -> None:
    """Rows that are named twice move twice; negative indices count from the end."""
    start = rng.random(shape).astype("float32")
    table = K.variable(start)
    i, j = K.placeholder((None, 2), dtype="int32"), K.placeholder((), dtype="int32")
    (g,) = K.gradients(lookups(table, i, j), [table])
    step = K.function([i, j], [], updates=[(table, table - 0.5 * g)])
    wanted = start.copy()
    for rows in ([[0, 2], [2, -1]], [[4, 1], [1, 1]]):
        slope = np.cos(wanted)
        step([np.array(rows), np.array(2)])
        for row in (*np.ravel(rows), 2):
            wanted[row] -= 0.5 * slope[row]
    np.testing.assert_allclose(K.get_value(table), wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(K.get_value(table)[3], start[3])


@pytest.mark.parametrize("shape", [(0, 3), (0,), (4, 0)])
def test_a_step_of_an_empty_table(engine: Any, shape: tuple[int, ...]) -> None:
    table, i = K.variable(np.ones(shape)), K.placeholder((None,), dtype="int32")
    loss = K.sum(K.square(K.gather(table, i)))
    (g,) = K.gradients(loss, [table])
    step = K.function([i], [loss], updates=[(table, table - 0.1 * g)])
    for _ in range(2):
        assert step([np.zeros(shape[0] // 2, "int32")]) == [0]
    assert K.get_value(table).shape == shape


def test_a_wrong_index_changes_nothing(engine: Any, request: pytest.FixtureRequest) -> None:
    skip_where_errors_end_the_device(engine, request)
    table, other = variables(2, (5, 3))
    i = K.placeholder((None,), dtype="int32")
    g, h = K.gradients(K.sum(K.gather(table, i)) + K.sum(K.gather(other, i)), [table, other])
    step = K.function([i], [], updates=[(table, table - g), (other, other - h)])
    step([np.array([0, 1, 1])])
    before = [K.get_value(v) for v in (table, other)]
    refused = False
    try:
        step([np.array([0, 7])])
    except (IndexError, RuntimeError, ValueError):
        refused = True
    # Where steps write over the table, a wrong index must be found before.
    assert refused or not engine.updates_in_place({})
    if refused:
        for was, v in zip(before, (table, other), strict=True):
            np.testing.assert_array_equal(K.get_value(v), was)


# --- memory ---------------------------------------------------------------------------------------


def test_old_values_that_are_still_wanted_keep_a_step_from_being_replaced() -> None:
    p, q, w = variables(3)
    step = (p, p - 0.1 * K.sin(w))
    assert found([step]) == ["gradient_update 1"]
    assert found([step], [K.sum(p)]) == ["gradient_update 1"]
    assert found([step], [p]) == []
    assert found([step], [K.reshape(p, (3, 2))]) == []
    assert found([step, (q, p)]) == []
    assert found([step, (q, q - 0.1 * p)]) == ["gradient_update 1"]
    assert found([(p, p - 0.1 * q), (q, q - 0.1 * p)]) == []


def test_steps_that_read_each_other(engine: Any) -> None:
    p, q = K.variable([1.0, 2.0]), K.variable([10.0, 20.0])
    f = K.function([], [p], updates=[(p, p - 0.5 * q), (q, q - 0.5 * p)])
    np.testing.assert_allclose(f([])[0], [1, 2])
    np.testing.assert_allclose(K.get_value(p), [-4, -8])
    np.testing.assert_allclose(K.get_value(q), [9.5, 19])


def test_values_that_were_handed_out_stay(engine: Any) -> None:
    p, q, g = K.variable([1.0, 2.0]), K.variable([0.0, 0.0]), K.placeholder((2,))
    step = K.function([g], [K.sum(p)], updates=[(p, p - g)])
    one = [np.ones(2, "float32")]
    step(one)
    K.function([], [], updates=[(q, p)])([])
    view = K.function([], [K.reshape(p, (1, 2))])([])[0]
    value, at_once = K.get_value(p), K.eager(K.identity)(p)
    step(one)
    np.testing.assert_allclose(K.get_value(p), [-1, 0])
    for kept in (K.get_value(q), view[0], value, engine.to_numpy(at_once)):
        np.testing.assert_allclose(kept, [0, 1])
    K.function([g], [], updates=[(q, q - g)])(one)
    np.testing.assert_allclose(K.get_value(p), [-1, 0])
    np.testing.assert_allclose(one[0], 1)


def test_initial_values_that_were_handed_out_stay(engine: Any) -> None:
    """No step has run yet, so none has copied anything."""
    start, g = np.array([1.0, 2.0], "float32"), K.placeholder((2,))
    one = [np.ones(2, "float32")]
    for hand_out in (
        lambda p: K.eager(K.identity)(p),
        lambda p: K.eager(K.reshape)(p, (1, 2)),
        lambda p: K.function([], [p])([])[0],
        lambda p: K.function([], [K.reshape(p, (1, 2))])([])[0],
        lambda p: K.get_value(p),
        lambda p: start,
    ):
        p, q = K.variable(start), K.variable([0.0, 0.0])
        step = K.function([g], [K.sum(p)], updates=[(p, p - g)])
        found = hand_out(p)
        K.function([], [], updates=[(q, p)])([])
        again = hand_out(p)
        for _ in range(2):
            step(one)
        for kept in (found, again, q.eval()):
            array = kept if isinstance(kept, np.ndarray) else engine.to_numpy(kept)
            np.testing.assert_allclose(array.ravel(), [1, 2])
        np.testing.assert_allclose(K.get_value(p), [-1, 0])


def test_a_step_takes_initial_values_that_nobody_else_knows(engine: Any) -> None:
    """It makes no copies, on engines that want to know such values."""
    p, q = K.variable(np.ones((4, 3))), K.variable(np.ones((4, 3)))
    g = K.placeholder((4, 3))
    step = K.function([g], [K.sum(p)], updates=[(p, p - g), (q, q - g)])
    before = [v.read(engine) for v in (p, q)]
    K.eager(K.identity)(q)
    step([np.ones((4, 3), "float32")])
    if type(engine).adopted is not Engine.adopted and p.home is None:
        assert p.values[engine] is before[0]
        assert q.values[engine] is not before[1]
    for v in (p, q):
        np.testing.assert_array_equal(K.get_value(v), np.zeros((4, 3)))


def test_constants_and_fed_arrays_stay(engine: Any) -> None:
    start = K.constant([5.0, 6.0])
    p, g, x = K.variable([1.0, 2.0]), K.placeholder((2,)), K.placeholder((2,))
    reset, take = K.function([], [start], updates=[(p, start)]), K.function([x], [], [(p, x)])
    step = K.function([g], [], updates=[(p, p - g)])
    fed = np.ones(2, "float32")
    reset([])
    step([fed])
    step([fed])
    np.testing.assert_allclose(reset([])[0], [5, 6])
    take([fed])
    step([fed])
    step([fed])
    np.testing.assert_allclose(fed, 1)
    np.testing.assert_allclose(K.get_value(p), [-1, -1])


def test_a_gradient_that_branches_make_of_a_variable(engine: Any) -> None:
    p, q = K.variable([1.0, 2.0]), K.variable([10.0, 20.0])
    turn = K.placeholder(())
    g = K.switch(K.greater(turn, 0), lambda: q, lambda: p)
    f = K.function([turn], [], updates=[(p, p - g), (q, q - g)])
    f([1.0])
    np.testing.assert_allclose(K.get_value(p), [-9, -18])
    np.testing.assert_allclose(K.get_value(q), [0, 0])


def test_adam_with_a_negative_second_moment(engine: Any) -> None:
    """`K.sqrt` of what is negative is 0."""
    p, m, v = (K.variable([a, a]) for a in (1.0, 0.5, -3.0))
    g = K.placeholder((2,))
    step = K.function([g], [], updates=keras_3_adam(p, m, v, g))
    step([np.full(2, 0.5, "float32")])
    np.testing.assert_allclose(K.get_value(p), 1 - 0.5 * 0.01 / 1e-7, rtol=1e-5)


# --- the primitives -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "numbers", "kinds", "params"),
    [
        ("gradient_update", (0.1,), 2, {}),
        ("momentum_update", (0.9, -0.1, 1.0), 3, {"nesterov": False}),
        ("momentum_update", (0.0, -0.1, 0.5), 3, {"nesterov": True}),
        ("adam_update", (0.1, 0.9, 0.999, 1e-7), 4, {}),
        ("adam_update", (0.1, 1.0, 0.5, 1e-7), 4, {}),
        ("average_update", (0.9, 0.1), 2, {}),
    ],
)
def test_lowerings_compute_the_decompositions(
    engine: Any, name: str, numbers: Any, kinds: int, params: Any
) -> None:
    op = PRIMITIVES[name]
    # No variables: outside of updates, a step would change them.
    tensors = [K.constant(rng.random(s)) for _ in range(kinds) for s in ((2, 3), (4,))]
    scalars = [K.constant(x) for x in numbers]
    assert op.decomposition is not None
    wanted = op.decomposition(*scalars, *tensors, **params)
    for a, b in zip(op(*scalars, *tensors, **params), wanted, strict=True):
        np.testing.assert_allclose(K.eval(a), K.eval(b), rtol=1e-5)


def test_a_kernel_takes_the_order_in_memory_of_its_gradient(engine: Any) -> None:
    """Steps of all kinds, one after the other, whose gradients come in different orders."""
    start = rng.random((3, 3, 2, 4)).astype("float32")
    w, m, v = K.variable(start), K.zeros(start.shape), K.zeros(start.shape)
    x, c = K.placeholder((None, 12, 12, 2)), K.placeholder(start.shape)
    by_conv = K.gradients(K.sum(K.square(K.conv2d(x, w))), [w])[0]
    data = rng.random((8, 12, 12, 2)).astype("float32") * 0.1
    other = rng.random(start.shape).astype("float32")
    results = []
    for replaced in (True, False):
        K.batch_set_value([(w, start), (m, 0 * start), (v, 0 * start)])
        with nullcontext() if replaced else without_kernels(engine):
            steps = [
                K.function([x, c], [K.sum(w)], updates=way(w, m, v, g))
                for way in (classic_adam, momentum, descent)
                for g in (by_conv + 0 * c, c + 0 * by_conv, by_conv)
            ]
            for _ in range(2):
                for step in steps:
                    step([data, other])
        results.append([K.get_value(t) for t in (w, m, v)])
    for got, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=1e-5)


# --- moving averages, and what is normalized ------------------------------------------------------


def test_moving_averages_are_found_beside_those_of_optimizers() -> None:
    p, m, v, a, b, c = variables(6)
    x = K.placeholder((2, 3))
    averages = [(a, 0.9 * a + 0.1 * K.sin(x)), (b, 0.9 * b + K.cos(x) * 0.1)]
    assert found(averages) == ["average_update 2"]
    assert found([*averages, (c, c / 2 - 3 * x)]) == ["average_update 3"]
    assert found([*averages, *classic_adam(p, m, v, x)]) == ["adam_update 1", "average_update 2"]
    assert found([(a, K.sin(a) + x), (b, 2 * x), (c, 0.5 * c * K.mean(x, keepdims=True))]) == []
    assert found([(a, 0.9 * a + 0.1 * K.abs(a))]) == ["average_update 1"]
    assert found(averages, [a]) == ["average_update 1"]
    assert found([(a, 0.9 * a + b), (b, 0.5 * b + x)]) == ["average_update 1"]
    new = 0.9 * a + x
    assert found([(a, new), (b, b - K.sin(new))]) == ["gradient_update 1"]
    assert found([(a, new)], [new]) == found([(a, new), (b, new)]) == []


def test_moving_averages(engine: Any) -> None:
    """Infinities stay infinite, as in the formula, and values that were read do not change."""
    x, share = K.placeholder((None, 3)), K.placeholder(())
    a, b, c = K.variable(np.zeros(3)), K.variable(np.ones(3)), K.variable(np.ones(3))
    means = K.mean(x, axis=0)
    updates = [
        K.moving_average_update(a, means, 0.75),
        K.moving_average_update(b, K.square(means), 0.75),
        K.moving_average_update(c, means, share),
    ]
    step = K.function([x, share], [means, a], updates=updates)
    wanted = np.array([0.0, 0.0, 0.0]), np.ones(3), np.ones(3)
    for n in (1.0, 2.0, np.inf):
        fed = np.array([[1, 2, n], [3, 2, n]])
        mean, before = step([fed, 0.5])
        np.testing.assert_allclose(mean, fed.mean(0))
        np.testing.assert_allclose(before, wanted[0], rtol=1e-5)
        new, old, half = fed.mean(0), 0.75, 0.5
        wanted = (
            wanted[0] * old + new * (1 - old),
            wanted[1] * old + new**2 * (1 - old),
            wanted[2] * half + new * (1 - half),
        )
        for v, value in zip((a, b, c), wanted, strict=True):
            np.testing.assert_allclose(K.get_value(v), value, rtol=1e-5)


def normalized(axes: list[int], shape: tuple[int, ...]) -> tuple[Pairs, Any, Any]:
    """Descent on the scale and the shift of a normalization, and on a weight of its results."""
    x = K.placeholder((None, *shape))
    gamma, beta, weight = K.variable(np.ones(shape[-1])), *variables(2, shape[-1:])
    mean, var = K.mean(x, axes, keepdims=True), K.var(x, axes, keepdims=True)
    y = (x - mean) / K.sqrt(var + 1e-3) * gamma + beta
    loss = K.sum(y * weight)
    weights = [gamma, beta, weight]
    slopes = K.gradients(loss, weights)
    return [(w, w - 0.1 * g) for w, g in zip(weights, slopes, strict=True)], x, loss


@pytest.mark.parametrize("axes", [[0, 1], [2]])
def test_gradients_by_kernels_are_no_parts_of_weights(axes: list[int]) -> None:
    """A kernel reads the scale, and its results have memory of their own."""
    assert found(normalized(axes, (4, 3))[0]) == ["gradient_update 3"]


@pytest.mark.parametrize("axes", [[0, 1], [2]])
def test_steps_on_normalizations(engine: Any, axes: list[int]) -> None:
    results = []
    for replaced in (True, False):
        rng = np.random.default_rng(5)
        updates, x, loss = normalized(axes, (4, 3))
        K.batch_set_value([(w, rng.random(3)) for w, _ in updates])
        with nullcontext() if replaced else without_kernels(engine):
            step = K.function([x], [loss], updates=updates)
            losses = [step([rng.random((2, 4, 3))])[0] for _ in range(3)]
        results.append([*losses, *[K.get_value(w) for w, _ in updates]])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
