"""The network by hand in JAX: `jax.jit` of a whole step, its state donated."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.networks.layers.jax import Layers, both_ways
from benchmarks.networks.problem import Batch, Network, Sizes, with_graphs
from benchmarks.problem import Optimizer, Run
from benchmarks.stacks.jax import OWN_CONVOLUTIONS, updated


def train(network: Network, batch: Batch, sizes: Sizes, *, own_convolutions: bool = False) -> Run:
    """State in, state and losses out; with the compiler's defaults, or without YNNPACK's
    convolutions.
    """
    batch = with_graphs(batch, both_ways)
    opt, options = network.optimizer, OWN_CONVOLUTIONS if own_convolutions else None
    layers = Layers()
    scopes: list[str] = []
    jax.eval_shape(lambda batch: scopes.extend(network.losses(layers, batch, sizes)), dict(batch))
    initial = dict(layers.initial)
    read = None
    if not (opt.adam or opt.momentum):
        read = [(n, (*ids.shape, initial[n].shape[1])) for n, ids in layers.looked_up]
    large = {name for name, _ in read or ()}
    groups = {s: [name for name in layers.trained(s) if name not in large] for s in scopes}
    step = jax.jit(
        _step(network, layers, sizes, groups, read), donate_argnums=0, compiler_options=options
    )
    held = [_start(opt, initial, groups)]

    def call() -> list[float]:
        held[0], losses = step(held[0], dict(batch))
        return [float(loss) for loss in losses]

    def reset() -> None:
        held[0] = _start(opt, initial, groups)

    return Run(call, (), reset)


def _start(opt: Optimizer, initial: dict[str, np.ndarray], groups: dict[str, list[str]]) -> Any:
    """The state before the first step: the weights, and the moments of each scope's weights."""
    moments = []
    for names in groups.values():
        zeros = [
            [jnp.zeros(initial[name].shape) for name in names] if needed else []
            for needed in (opt.adam or opt.momentum, opt.adam)
        ]
        moments.append([*zeros, jnp.zeros(())])
    return {name: jnp.array(value) for name, value in initial.items()}, moments


def _step(
    network: Network, layers: Layers, sizes: Sizes, groups: dict[str, list[str]],
    read: list[tuple[str, tuple[int, ...]]] | None,
) -> Callable[[Any, Any], Any]:  # fmt: skip
    """The step. `groups` are the weights of each scope; `read` are the large tables whose rows
    alone are written, with the shapes of these rows, or None where the optimizer writes all.
    """

    def loss_of(trained: Any, rows: Any, others: Any, batch: Any, scope: str) -> Any:
        layers.values, layers.updates = {**others, **trained}, {}
        layers.rows, layers.looked_up = None if read is None else iter(rows), []
        loss = network.losses(layers, batch, sizes)[scope]
        return loss, (layers.updates, [ids for _, ids in layers.looked_up])

    def step(state: Any, batch: Any) -> Any:
        values, moments = state
        new, new_moments, losses = dict(values), [], []
        for (scope, names), moment in zip(groups.items(), moments, strict=True):
            trained = [values[name] for name in names]
            slope = jax.value_and_grad(loss_of, (0, 1), has_aux=True)
            rows = [jnp.zeros(shape) for _, shape in read or ()]
            (loss, (updates, places)), (slopes, row_slopes) = slope(
                dict(zip(names, trained, strict=True)), rows, values, batch, scope
            )
            listed = [slopes[name] for name in names]
            stepped, *rest = updated(network.optimizer, (trained, *moment), listed)
            new |= zip(names, stepped, strict=True)
            new |= updates
            if read is not None:
                for (name, _), ids, g in zip(read, places, row_slopes, strict=True):
                    new[name] = new[name].at[ids].add(-network.optimizer.rate * g)
            new_moments.append(rest)
            losses.append(loss)
        return (new, new_moments), losses

    return step


def predict(network: Network, batch: Batch, sizes: Sizes, *, own_convolutions: bool = False) -> Run:
    """A prediction, its weights on the device."""
    layers, options = Layers(training=False), OWN_CONVOLUTIONS if own_convolutions else None
    batch = with_graphs(network.inputs(batch), both_ways)
    jax.eval_shape(lambda batch: network.predicted(layers, batch, sizes), batch)
    weights = {name: jnp.array(value) for name, value in layers.initial.items()}

    @partial(jax.jit, compiler_options=options)
    def run(weights: Any, batch: Any) -> Any:
        layers.values = weights
        return network.predicted(layers, batch, sizes)

    return Run(lambda: np.asarray(run(weights, batch)))
