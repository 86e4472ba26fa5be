"""Steps of LSTMs in several forms, and of loops that are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from backplane import backend as K

UNITS, FEATURES = 3, 2
Step = Callable[[Any, Any], Any]


WEIGHTS: list[Any] = []
"""Those of the step that was made last."""


def weights(*shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(1)
    WEIGHTS[:] = [K.variable(rng.normal(size=shape)) for shape in shapes]
    return WEIGHTS[:]


def together(order: tuple[int, ...] = (0, 1, 2, 3), bias: bool = True) -> Step:
    """One product for all gates, whose columns stand in some order."""
    w, u, b = weights((FEATURES, 4 * UNITS), (UNITS, 4 * UNITS), (4 * UNITS,))

    def step(x: Any, states: Any) -> Any:
        h, c = states
        z = K.dot(h, u) + K.dot(x, w)
        z = K.bias_add(z, b) if bias else z
        i, f, g, o = (z[:, n * UNITS : (n + 1) * UNITS] for n in order)
        c = K.sigmoid(f) * c + K.sigmoid(i) * K.tanh(g)
        h = K.sigmoid(o) * K.tanh(c)
        return h, [h, c]

    return step


def apart(sigmoid: Callable[[Any], Any] = K.sigmoid, change: Step | None = None) -> Step:
    """A product for each gate, in parts of one matrix; the states in the other order."""
    w, u, b = weights((FEATURES, 4 * UNITS), (4, UNITS, UNITS), (4, UNITS))

    def step(x: Any, states: Any) -> Any:
        c, h = states
        i, f, g, o = (
            K.dot(x, w[:, n * UNITS : (n + 1) * UNITS]) + b[n] + K.dot(h, u[n]) for n in range(4)
        )
        c = sigmoid(i) * K.tanh(g) + c * sigmoid(f)
        h = K.tanh(c) * sigmoid(o)
        return h if change is None else change(h, i), [c, h]

    return step


STEPS: dict[str, Callable[[], Step]] = {
    "together": together,
    "another order": lambda: together((2, 0, 3, 1)),
    "no bias": lambda: together(bias=False),
    "apart": apart,
}


def dropping() -> Step:
    inner = together()
    return lambda x, states: inner(x, [states[0] * K.constant([0.0, 1, 2]), states[1]])


OTHERS: dict[str, Callable[[], Step]] = {
    "hard sigmoid": lambda: apart(K.hard_sigmoid),
    "a gate is read": lambda: apart(change=lambda h, i: i),
    "states are dropped": dropping,
}
