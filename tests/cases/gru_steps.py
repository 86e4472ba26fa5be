"""Steps of GRUs in several forms, and of loops that are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from backplane import backend as K
from cases.lstm_steps import FEATURES, UNITS, Step, weights


def part(t: Any, n: int, stop: int | None = None) -> Any:
    return t[..., n * UNITS : (n + 1 if stop is None else stop) * UNITS]


def after(order: tuple[int, ...] = (0, 1, 2), biases: int = 2) -> Step:
    """One product for all gates; what the new state reads of the old one is reset."""
    w, u, b, c = weights((FEATURES, 3 * UNITS), (UNITS, 3 * UNITS), *[(3 * UNITS,)] * 2)

    def step(x: Any, states: Any) -> Any:
        (h,) = states
        a, inner = K.dot(x, w), K.dot(h, u)
        a = a + b if biases else a
        inner = inner + c if biases > 1 else inner
        z, r, n = order
        update = K.sigmoid(part(a, z) + part(inner, z))
        new = K.tanh(part(a, n) + K.sigmoid(part(inner, r) + part(a, r)) * part(inner, n))
        h = (1 - update) * new + update * h
        return h, [h]

    return step


def gates_together() -> Step:
    """One sigmoid for two gates, and the new state as the old one and a difference."""
    w, u, b = weights((FEATURES, 3 * UNITS), (UNITS, 3 * UNITS), (2, 3 * UNITS))

    def step(x: Any, states: Any) -> Any:
        (h,) = states
        a, inner = b[0] + K.dot(x, w), K.dot(h, u) + b[1]
        gates = K.sigmoid(part(a, 0, 2) + part(inner, 0, 2))
        new = K.tanh(part(gates, 1) * part(inner, 2) + part(a, 2))
        h = h + (1 - part(gates, 0)) * (new - h)
        return h, [h]

    return step


def before(bias: bool = True) -> Step:
    """The old state is reset before it is multiplied."""
    w, u, b = weights((FEATURES, 3 * UNITS), (UNITS, 3 * UNITS), (3 * UNITS,))

    def step(x: Any, states: Any) -> Any:
        (h,) = states
        a = K.bias_add(K.dot(x, w), b) if bias else K.dot(x, w)
        inner = K.dot(h, part(u, 0, 2))
        z, r = K.sigmoid(part(a, 0) + part(inner, 0)), K.sigmoid(part(a, 1) + part(inner, 1))
        h = z * h + (1 - z) * K.tanh(part(a, 2) + K.dot(r * h, part(u, 2)))
        return h, [h]

    return step


def apart(sigmoid: Callable[[Any], Any] = K.sigmoid, change: Step | None = None) -> Step:
    """A product for each gate, in matrices of their own."""
    w, u, b = weights((3, FEATURES, UNITS), (3, UNITS, UNITS), (3, UNITS))

    def step(x: Any, states: Any) -> Any:
        (h,) = states
        r, z = (sigmoid(K.dot(h, u[n]) + K.dot(x, w[n]) + b[n]) for n in range(2))
        h = (1 - z) * K.tanh(b[2] + K.dot(h * r, u[2]) + K.dot(x, w[2])) + h * z
        return h if change is None else change(h, z), [h]

    return step


AFTER: dict[str, Callable[[], Step]] = {
    "reset after": after,
    "reset after, another order": lambda: after((1, 2, 0)),
    "reset after, one bias": lambda: after(biases=1),
    "reset after, no bias": lambda: after(biases=0),
    "gates together": gates_together,
}
BEFORE: dict[str, Callable[[], Step]] = {
    "reset before": before,
    "reset before, no bias": lambda: before(bias=False),
    "reset before, apart": apart,
}


def almost(change: Callable[[Any, Any], Any]) -> Step:
    inner = after()

    def step(x: Any, states: Any) -> Any:
        h, _ = inner(x, states)
        h = change(h, states[0])
        return h, [h]

    return step


def dropping() -> Step:
    inner = before()
    return lambda x, states: inner(x, [states[0] * K.constant([0.0, 1, 2])])


def deep() -> Step:
    """More operations than Python has frames."""

    def step(x: Any, states: Any) -> Any:
        h = states[0]
        for _ in range(400):
            h = K.tanh(h) + 0.1 * h
        return h, [h]

    return step


OTHERS: dict[str, Callable[[], Step]] = {
    "many operations": deep,
    "hard sigmoid": lambda: apart(K.hard_sigmoid),
    "a gate is read": lambda: apart(change=lambda h, z: z),
    "states are dropped": dropping,
    "one more term": lambda: almost(lambda h, old: h + 0.5 * old),
    "another factor": lambda: almost(lambda h, old: 2 * h),
}
