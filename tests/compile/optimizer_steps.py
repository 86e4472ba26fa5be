"""Steps of optimizers in several ways to write them, and which of them a program finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np

from backplane import backend as K
from backplane.compile.fuse.updates import find_updates
from backplane.compile.passes.simplify import simplify
from backplane.core.variable import Variable
from backplane.engines.table import Table

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


@contextmanager
def without_kernels(engine: Any) -> Iterator[None]:
    """Nothing is replaced."""
    engine.updates_in_place = lambda options: False
    yield
    del engine.updates_in_place
