"""Steps of optimizers write over their own variables only: what was handed out stays."""

from __future__ import annotations

from typing import Any

import numpy as np

from backplane import backend as K
from backplane.engines.base import Engine
from compile.optimizer_steps import found, keras_3_adam, variables


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
