"""`jax.jit` of a whole step, its state donated."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.problem import Optimizer, Run, Training

Loss = Callable[..., Any]

OWN_CONVOLUTIONS = {
    "xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT,"
    "LIBRARY_FUSION_TYPE_REDUCE"
}
"""What XLA may hand to its library YNNPACK: products only. By default it gets convolutions too,
which take it twice as long in training steps."""


def updated(opt: Optimizer, state: Any, gradients: Any) -> Any:
    """The state after a step of an optimizer: weights, two moments, and the number of steps."""
    weights, first, second, t = state
    each = jax.tree.map
    if not opt.adam:
        if not opt.momentum:
            return each(lambda w, g: w - opt.rate * g, weights, gradients), first, second, t
        first = each(lambda v, g: opt.momentum * v - opt.rate * g, first, gradients)
        return each(lambda w, v: w + v, weights, first), first, second, t
    t = t + 1
    rate = opt.rate * jnp.sqrt(1 - opt.beta2**t) / (1 - opt.beta1**t)
    first = each(lambda m, g: opt.beta1 * m + (1 - opt.beta1) * g, first, gradients)
    second = each(lambda v, g: opt.beta2 * v + (1 - opt.beta2) * g * g, second, gradients)
    weights = each(
        lambda w, m, v: w - rate * m / (jnp.sqrt(v) + opt.epsilon), weights, first, second
    )
    return weights, first, second, t


def train(problem: Training, loss_of: Loss, *, own_convolutions: bool = False) -> Run:
    """State in, state and loss out; the step waits for the loss."""
    opt = problem.optimizer
    options = OWN_CONVOLUTIONS if own_convolutions else None

    @partial(jax.jit, donate_argnums=0, compiler_options=options)
    def step(state: Any, x: Any, y: Any) -> Any:
        *state, key = state
        key, used = jax.random.split(key) if problem.dropout else (key, key)
        loss, gradients = jax.value_and_grad(loss_of)(state[0], x, y, problem, used)
        return (*updated(opt, state, gradients), key), loss

    def initial() -> Any:
        weights = [jnp.array(p) for p in problem.parameters]
        zeros = [
            [jnp.zeros_like(w) for w in weights] if needed else []
            for needed in (opt.adam or opt.momentum, opt.adam)
        ]
        return (weights, *zeros, jnp.zeros(()), jax.random.key(0, impl="rbg"))

    held = [initial()]

    def call() -> float:
        held[0], loss = step(held[0], problem.x, problem.y)
        return float(loss)

    def reset() -> None:
        held[0] = initial()

    return Run(call, (), reset)
