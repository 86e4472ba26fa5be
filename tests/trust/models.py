"""Training steps whose variables all say how often they ran."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from backplane import backend as K

THREADS = 16
CALLS = 10

SIDE = 300
"""Weights that every engine takes for large: TensorFlow keeps such variables in place."""


class Model:
    """A training step that adds one to every element of its variables: by descent with and without
    momentum, in large and small ones, by plain updates, and in a variable that nobody reads.
    """

    def __init__(self, side: int) -> None:
        x, count = K.placeholder((side, side)), K.variable(0.0)
        self.x = np.full((side, side), -10.0, "float32")
        large, small, last = K.zeros((side, side)), K.zeros((3,)), K.variable(0.0)
        moved, speed = K.zeros((side, side)), K.zeros((side, side))
        loss = K.sum(large * x) + K.sum(small * x[0, :3]) + K.sum(moved * x)
        gradients = K.gradients(loss, [large, small, moved])
        new_speed = 0.0 * speed - 0.1 * gradients[2]
        updates = [(v, v - 0.1 * g) for v, g in zip([large, small], gradients[:2], strict=True)]
        updates += [(speed, new_speed), (moved, moved + new_speed)]
        updates += [K.update_add(count, 1.0), (last, K.sum(x[0, :1]) / -10.0 + count)]
        self.variables = [large, small, moved, count, last]
        self.step = K.function([x], [loss], updates=updates)
        self.read = K.function([], [K.max(v) for v in self.variables])

    def steps(self) -> list[float]:
        """How many steps have been done, which every element must say."""
        found = [float(v.max()) for v in K.batch_get_value(self.variables)]
        found += [float(v.min()) for v in K.batch_get_value(self.variables)]
        assert [float(v) for v in self.read([])] == found[: len(self.variables)]
        return [round(v, 3) for v in found]


class Counter:
    """A function that counts its calls in variables of two sizes, and doubles what it is fed."""

    def __init__(self, variables: list[Any] | None = None, amount: float = 1.0) -> None:
        x = K.placeholder((None, 3))
        self.variables = variables or [K.zeros((300, 300)), K.zeros((2,))]
        large, small = self.variables
        (g,) = K.gradients(K.sum(large * K.mean(x * 0.0 + 1.0)), [large])
        updates = [(large, large + amount * g), (small, small + amount)]
        self.double = K.function([x], [x * 2.0, K.sum(small) / 2.0], updates=updates)

    def work(self, calls: int = CALLS) -> list[float]:
        """Call it and check what it doubles. Returns what it said before each call."""
        seen = []
        for i in range(calls):
            fed = np.full((1 + i % 3, 3), threading.get_ident() % 1000 + i, "float32")
            doubled, before = self.double([fed])
            np.testing.assert_array_equal(doubled, fed * 2)
            seen.append(float(before))
        return seen

    def total(self) -> float:
        """How much was added, which every element must say."""
        values = {float(n) for v in K.batch_get_value(self.variables) for n in np.unique(v)}
        assert len(values) == 1
        return values.pop()
