"""Optimizers in place, over gradients that a model writes by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.problem import Optimizer, Run, Training

Model = Callable[[Training, list[np.ndarray]], Callable[[], tuple[float, list[np.ndarray]]]]
"""`model(problem, parameters)` allocates buffers and returns a function that computes the loss and
its gradients; it reads the parameters, which change in place."""


BLOCK = 32768
"""Elements that stay in the cache over all the passes that NumPy makes."""


def _pieces(kinds: list[list[np.ndarray]], scratch: int) -> list[tuple[Any, ...]]:
    """For each block of each parameter: the parameter's number, the block, its part of each kind
    of array, and arrays of scratch.
    """
    room = np.empty((scratch, BLOCK), kinds[0][0].dtype)
    found = []
    for i, arrays in enumerate(zip(*kinds, strict=True)):
        flat = [a.reshape(-1) for a in arrays]
        for lo in range(0, flat[0].size, BLOCK):
            part = slice(lo, lo + BLOCK)
            parts = [a[part] for a in flat]
            found.append((i, part, *parts, *(r[: len(parts[0])] for r in room)))
    return found


def _momentum(opt: Optimizer, weights: list[np.ndarray]) -> tuple[Any, list[np.ndarray]]:
    state = [np.zeros_like(w) for w in weights]
    pieces = _pieces([weights, state], 1)

    def update(gradients: list[np.ndarray]) -> None:
        flat = [g.reshape(-1) for g in gradients]
        for i, part, w, v, s in pieces:
            np.multiply(flat[i][part], opt.rate, out=s)
            if not opt.momentum:
                w -= s
                continue
            v *= opt.momentum
            v -= s
            w += v

    return update, state


def _adam(opt: Optimizer, weights: list[np.ndarray]) -> tuple[Any, list[np.ndarray]]:
    step = np.zeros(1)
    first, second = ([np.zeros_like(w) for w in weights] for _ in range(2))
    pieces = _pieces([weights, first, second], 2)

    def update(gradients: list[np.ndarray]) -> None:
        step[0] += 1
        t = step[0]
        rate = float(opt.rate * np.sqrt(1 - opt.beta2**t) / (1 - opt.beta1**t))
        flat = [g.reshape(-1) for g in gradients]
        for i, part, w, m, v, s, r in pieces:
            g = flat[i][part]
            np.multiply(g, 1 - opt.beta1, out=s)
            m *= opt.beta1
            m += s
            np.square(g, out=s)
            s *= 1 - opt.beta2
            v *= opt.beta2
            v += s
            np.sqrt(v, out=s)
            s += opt.epsilon
            np.multiply(m, rate, out=r)
            r /= s
            w -= r

    return update, [step, *first, *second]


def optimizer(opt: Optimizer, weights: list[np.ndarray]) -> tuple[Any, list[np.ndarray]]:
    """A function that takes gradients and changes `weights` in place, and the state it keeps."""
    return (_adam if opt.adam else _momentum)(opt, weights)


def train(problem: Training, model: Model, dtype: str = "float32") -> Run:
    """A step that changes parameters and moments in place."""
    initial = [np.asarray(p, dtype) for p in problem.parameters]
    weights = [p.copy() for p in initial]
    gradients_of = model(problem, weights)
    update, state = optimizer(problem.optimizer, weights)

    def step() -> float:
        loss, gradients = gradients_of()
        update(gradients)
        return loss

    def reset() -> None:
        for w, p in zip(weights, initial, strict=True):
            w[...] = p
        for s in state:
            s[...] = 0

    return Run(step, (), reset)


def losses(problem: Training, model: Model, steps: int) -> list[float]:
    """The first losses in float64: what every contender's are compared with."""
    run = train(problem, model, "float64")
    return [float(run.call()) for _ in range(steps)]
