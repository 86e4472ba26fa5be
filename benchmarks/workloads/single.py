"""Single functions of K and small programs, for two trees of the sources side by side: what the
workloads with rivals leave out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.problem import ENGINES, Builder, Plan, Run

PLAN = Plan(samples=15, inner=30, warmup=1, tolerance=1e-4, unit="µs")

Array = np.ndarray


def problem(name: str, tiny: bool = False) -> bool:
    """Whether sizes are small: each case makes its own operands."""
    return tiny


def expected(problem: bool) -> list[Any]:
    """No case differs from its oracle."""
    return [0.0, 0.0]


def contenders(name: str, stack: str) -> dict[str, Builder]:
    """Name → builder of each case that the engine has."""
    if stack not in ENGINES:
        return {}
    found: dict[str, Builder] = {case: _fed(case) for case in _CASES}
    found |= {f"step, {n} variables": _step(n) for n in (1, 12)}
    found["build, first call"] = lambda tiny: Run(_build, (), value=_off(np.ones(())))
    if stack in ("numpy", "tensorflow", "jax", "torch"):
        found |= {f"eager {name}": _eager(name, stack) for name in _EAGER}
    return found


def _drawn(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


_CASES: dict[str, tuple[Callable[..., Any], Callable[[Array], Array], tuple[int, ...]]] = {
    "softmax 8 × 8": (lambda K, x: K.softmax(x), _softmax, (8, 8)),
    "softmax 64 × 100": (lambda K, x: K.softmax(x), _softmax, (64, 100)),
    "softmax 16 × 8 × 64 × 64": (lambda K, x: K.softmax(x), _softmax, (16, 8, 64, 64)),
    "sigmoid 64 × 64": (lambda K, x: K.sigmoid(x), _sigmoid, (64, 64)),
    "sigmoid 512 × 512": (lambda K, x: K.sigmoid(x), _sigmoid, (512, 512)),
    "cumsum 16 × 16": (lambda K, x: K.cumsum(x, 0), lambda x: x.cumsum(0), (16, 16)),
    "cumsum 64 × 64": (lambda K, x: K.cumsum(x, 1), lambda x: x.cumsum(1), (64, 64)),
    "cumsum 300 × 300": (lambda K, x: K.cumsum(x, 1), lambda x: x.cumsum(1), (300, 300)),
    "cumsum 65536": (lambda K, x: K.cumsum(x), lambda x: x.cumsum(), (65536,)),
    "batch_dot 32 × 8 × 8": (lambda K, x: K.batch_dot(x, x), lambda x: x @ x, (32, 8, 8)),
    "concatenate": (
        lambda K, x: K.concatenate([x, x], axis=1),
        lambda x: np.concatenate([x, x], 1),
        (8, 8),
    ),
    "max 64 × 64": (lambda K, x: K.max(x, axis=1), lambda x: x.max(1), (64, 64)),
    "mean 64 × 64": (lambda K, x: K.mean(x, axis=0), lambda x: x.mean(0), (64, 64)),
}
"""Name → the function, its oracle and the shape of its operand, whose batch size is unknown."""

_EAGER: dict[str, tuple[Callable[..., Any], Callable[[Array], Array]]] = {
    "tanh": (lambda K, x: K.tanh(x), np.tanh),
    "concatenate": (
        lambda K, x: K.concatenate([x, x], axis=0),
        lambda x: np.concatenate([x, x], 0),
    ),
    "mean": (lambda K, x: K.mean(x, axis=0), lambda x: x.mean(0)),
}


def _off(right: Array) -> Callable[[Any], float]:
    """What is compared: the largest difference from the oracle, by the oracle's largest value."""
    scale = np.abs(right).max() or 1.0
    return lambda got: float(np.abs(np.asarray(got) - right).max() / scale)


def _fed(case: str) -> Builder:
    def build(tiny: bool) -> Run:
        from backplane import backend as K

        function, oracle, shape = _CASES[case]
        a = _drawn(*shape)
        x = K.placeholder(shape=(None, *shape[1:]))
        f = K.function([x], [function(K, x)])
        right = oracle(a.astype("float64"))
        return Run(f, ([a],), value=lambda got: _off(right)(got[0]))

    return build


def _eager(name: str, stack: str) -> Builder:
    def build(tiny: bool) -> Run:
        from backplane import backend as K
        from benchmarks.workloads.overhead import _NATIVE

        function, oracle = _EAGER[name]
        a = _drawn(3)
        x, _ = _NATIVE[stack](a)
        return Run(lambda: function(K, x), value=_off(oracle(a)))

    return build


def _step(count: int) -> Builder:
    """Plain descent on each of `count` vectors: what a call that stores variables costs."""

    def build(tiny: bool) -> Run:
        from backplane import backend as K

        variables = [K.variable(np.ones(8)) for _ in range(count)]
        f = K.function([], [], updates=[(v, v * 0.5 + 0.5) for v in variables])
        return Run(lambda: f([]), value=lambda _: _off(np.ones(8))(K.get_value(variables[0])))

    return build


def _build() -> Array:
    """A small training program, from nothing to its first result."""
    from backplane import backend

    K: Any = backend
    x, w, b = K.placeholder(shape=(None, 4)), K.variable(np.zeros((4, 3))), K.variable(np.zeros(3))
    loss = K.mean(K.square(K.tanh(K.dot(x, w) + b))) + 1.0
    updates = [(v, v - 0.1 * g) for v, g in zip([w, b], K.gradients(loss, [w, b]), strict=True)]
    got: Array = K.function([x], [loss], updates=updates)([np.ones((2, 4))])[0]
    return got
