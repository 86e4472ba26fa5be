"""Random numbers in loops and branches: each step draws its own, and gradients see them."""

from __future__ import annotations

import numpy as np

from backplane import backend as K
from backplane.core.graph import Tensor, constant, toposort
from backplane.ops import control
from backplane.ops import elementwise as ew
from backplane.ops.autodiff import gradients
from backplane.ops.branches import cond
from backplane.ops.creation import scalar
from core.evaluate import leaf, value
from core.loops import X


def noisy(x: Tensor) -> list[Tensor]:
    def step(carry, items):
        noise = K.random_uniform((3,), dtype="float64", seed=7)
        return [ew.mul(carry[0], noise)], [ew.mul(items[0], noise), noise]

    _, ys = control.scan(step, [constant(np.ones(3))], [x])
    return ys


def test_each_step_and_each_run_draws_its_own_numbers():
    x = leaf(4, 3)
    f = K.function([x], noisy(x))
    first, second = f([X])[1], f([X])[1]
    assert len({tuple(r) for r in np.concatenate([first, second])}) == 8
    again = K.function([x], noisy(x))
    np.testing.assert_array_equal(again([X])[1], first)
    assert ((first >= 0) & (first < 1)).all()


def test_the_gradient_sees_the_numbers_that_were_drawn():
    x = leaf(4, 3)
    product, noise = noisy(x)
    (g,) = gradients([product], [x])
    (gg,) = gradients([ew.mul(g, g)], [x])
    found = K.function([x], [g, noise])
    for _ in range(2):
        slope, drawn = found([X])
        np.testing.assert_array_equal(slope, drawn)
    assert gg is None or not value(gg, {x: X}).any()


def test_the_gradient_alone_draws_the_numbers_of_the_same_run():
    x = leaf(4, 3)
    product, noise = noisy(x)
    (g,) = gradients([product], [x])
    with_noise, alone = K.function([x], [noise])([X])[0], None
    for source in [t for t in toposort([g]) if hasattr(t, "counter")]:
        source.counter = 0
    alone = K.function([x], [g])([X])[0]
    np.testing.assert_array_equal(alone, with_noise)


def test_two_draws_of_a_step_differ():
    x = leaf(4, 3)

    def step(carry, items):
        return [], [K.random_uniform((3,)), K.random_uniform((3,)), items[0]]

    _, ys = control.scan(step, [], [x])
    a, b, _ = K.function([x], ys)([X])
    assert not np.isin(a, b).any()


def test_numbers_drawn_outside_are_the_same_at_every_step():
    x = leaf(4, 3)
    noise = K.random_uniform((3,), dtype="float64")
    _, ys = control.scan(
        lambda c, i: ([], [ew.add(ew.mul(i[0], scalar(0, "float64")), noise)]), [], [x]
    )
    rows = value(ys[0], {x: X})
    assert (rows == rows[0]).all()


def test_random_numbers_in_branches():
    flag = leaf(dtype="bool")
    (y,) = cond(flag, lambda: [K.random_uniform((2,))], lambda: [K.random_normal((2,))])
    f = K.function([flag], [y])
    seen = np.concatenate([f([True])[0], f([True])[0], f([False])[0], f([False])[0]])
    assert len(set(seen.tolist())) == 8
