"""Loops and branches on TensorFlow: at once, traced and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorflow")
import tensorflow as tf

import backplane.compile.program  # noqa: F401 - It evaluates the graphs of bodies.
from backplane.core.graph import Graph, Placeholder
from backplane.core.registry import PRIMITIVES as P
from backplane.core.spec import Spec
from backplane.engines.programs import Program
from backplane.engines.tensorflow import ENGINE

rng = np.random.default_rng(0)


def floats(*shape: int, dtype: str = "float64") -> Any:
    return tf.constant(rng.normal(size=shape), dtype)


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
