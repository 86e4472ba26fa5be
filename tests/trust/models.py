"""A training step whose variables all say how often it ran."""

from __future__ import annotations

import numpy as np

from backplane import backend as K

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
