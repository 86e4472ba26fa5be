"""`pytensor.function` with shared variables and updates, in PyTensor's default mode (Numba), or
with gradients by hand, node by node in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import Mode
from pytensor.graph.rewriting.db import RewriteDatabaseQuery

from benchmarks.problem import Optimizer, Run, Training

Loss = Callable[..., Any]

PLAIN = Mode("py", RewriteDatabaseQuery(include=["merge"]))
"""Each node as it stands, by NumPy: for large graphs written out by hand. Numba compiles these for
minutes, and its exponentials take ten times as long; other rewrites make one product of several,
which `py` computes element by element in Python.
"""


def _updates(opt: Optimizer, weights: list[Any], gradients: list[Any]) -> tuple[list, list]:
    pairs: list[Any] = []
    state: list[Any] = []
    if opt.adam:
        t = pytensor.shared(np.float32(0))
        state.append(t)
        new_t = t + np.float32(1)
        rate = opt.rate * pt.sqrt(1 - opt.beta2**new_t) / (1 - opt.beta1**new_t)
        pairs.append((t, new_t))
    for w, g in zip(weights, gradients, strict=True):
        zeros = [pytensor.shared(np.zeros_like(w.get_value())) for _ in range(1 + opt.adam)]
        if opt.adam:
            m, v = zeros
            new_m = opt.beta1 * m + (1 - opt.beta1) * g
            new_v = opt.beta2 * v + (1 - opt.beta2) * pt.square(g)
            new_w = w - rate * new_m / (pt.sqrt(new_v) + opt.epsilon)
            pairs += [(m, new_m), (v, new_v), (w, new_w)]
        elif opt.momentum:
            new_v = opt.momentum * zeros[0] - opt.rate * g
            pairs += [(zeros[0], new_v), (w, w + new_v)]
        else:
            zeros = []
            pairs.append((w, w - opt.rate * g))
        state += zeros
    return pairs, state


def train(problem: Training, loss_of: Loss) -> Run:
    """A step with updates of shared variables."""
    x = pt.tensor("x", dtype="float32", shape=problem.x.shape)
    y = pt.tensor("y", dtype=problem.y.dtype.name, shape=problem.y.shape)
    with pytensor.config.change_flags(floatX="float32"):
        weights = [pytensor.shared(p.copy(), shape=p.shape) for p in problem.parameters]
        loss = loss_of(weights, x, y, problem)
        pairs, state = _updates(problem.optimizer, weights, pytensor.grad(loss, weights))
        pairs = [(s, new.astype(s.dtype)) for s, new in pairs]
        step = pytensor.function([x, y], loss, updates=pairs, mode="NUMBA", trust_input=True)
    return Run(step, (problem.x, problem.y), _reset(problem, weights, state))


def train_by_hand(problem: Training, gradients_of: Loss) -> Run:
    """Two functions: the loss and its gradients node by node, the updates in Numba's loops."""
    x = pt.tensor("x", dtype="float32", shape=problem.x.shape)
    y = pt.tensor("y", dtype=problem.y.dtype.name, shape=problem.y.shape)
    with pytensor.config.change_flags(floatX="float32"):
        weights = [pytensor.shared(p.copy(), shape=p.shape) for p in problem.parameters]
        loss, gradients = gradients_of(weights, x, y, problem)
        gradient = pytensor.function([x, y], [loss, *gradients], mode=PLAIN, trust_input=True)
        inputs = [w.type() for w in weights]
        pairs, state = _updates(problem.optimizer, weights, inputs)
        pairs = [(s, new.astype(s.dtype)) for s, new in pairs]
        update = pytensor.function(inputs, [], updates=pairs, mode="NUMBA", trust_input=True)

    def step(x: Any, y: Any) -> Any:
        loss, *gradients = gradient(x, y)
        update(*gradients)
        return loss

    return Run(step, (problem.x, problem.y), _reset(problem, weights, state))


def _reset(problem: Training, weights: list[Any], state: list[Any]) -> Callable[[], None]:
    def reset() -> None:
        for w, p in zip(weights, problem.parameters, strict=True):
            w.set_value(p)
        for s in state:
            s.set_value(np.zeros_like(s.get_value()))

    return reset
