"""Optimizers in place, over gradients that a model writes by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.problem import Optimizer, Run, Training

Model = Callable[[Training, list[np.ndarray]], Callable[[], tuple[float, list[np.ndarray]]]]
"""`model(problem, parameters)` allocates buffers and returns a function that computes the loss and
its gradients; it reads the parameters, which change in place."""


def _momentum(opt: Optimizer, weights: list[np.ndarray]) -> tuple[Any, list[np.ndarray]]:
    state = [np.zeros_like(w) for w in weights]
    scratch = [np.empty_like(w) for w in weights]

    def update(gradients: list[np.ndarray]) -> None:
        for w, v, s, g in zip(weights, state, scratch, gradients, strict=True):
            np.multiply(g, opt.rate, out=s)
            if not opt.momentum:
                w -= s
                continue
            v *= opt.momentum
            v -= s
            w += v

    return update, state


def _adam(
    opt: Optimizer, weights: list[np.ndarray], block: int = 16384
) -> tuple[Any, list[np.ndarray]]:
    """In blocks that stay in the cache over all the passes that NumPy makes."""
    step = np.zeros(1)
    moments = [(np.zeros_like(w), np.zeros_like(w)) for w in weights]
    scratch = np.empty(block, weights[0].dtype), np.empty(block, weights[0].dtype)
    pieces = []
    for i, (w, (m, v)) in enumerate(zip(weights, moments, strict=True)):
        flat = w.reshape(-1), m.reshape(-1), v.reshape(-1)
        for lo in range(0, w.size, block):
            part = slice(lo, lo + block)
            n = len(flat[0][part])
            pieces.append((i, part, *(a[part] for a in (*flat,)), scratch[0][:n], scratch[1][:n]))

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

    return update, [step, *(a for pair in moments for a in pair)]


def train(problem: Training, model: Model, dtype: str = "float32") -> Run:
    """A step that changes parameters and moments in place."""
    initial = [np.asarray(p, dtype) for p in problem.parameters]
    weights = [p.copy() for p in initial]
    gradients_of = model(problem, weights)
    opt = problem.optimizer
    update, state = (_adam if opt.adam else _momentum)(opt, weights)

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
