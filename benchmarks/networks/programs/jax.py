"""The network by hand in JAX: `jax.jit` of a whole step, its state donated."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.networks.layers.jax import Layers, both_ways
from benchmarks.networks.problem import Batch, Network, Sizes, with_graphs
from benchmarks.problem import Run
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
    by_rows = not (opt.adam or opt.momentum)
    read = [(n, (*ids.shape, initial[n].shape[1])) for n, ids in layers.looked_up if by_rows]
    large = {name for name, _ in read}
    groups = [[n for n in layers.trained(scope) if n not in large] for scope in scopes]

    def loss_of(trained: Any, rows: Any, others: Any, batch: Any, scope: str) -> Any:
        layers.values, layers.updates = {**others, **trained}, {}
        layers.rows, layers.looked_up = iter(rows) if by_rows else None, []
        loss = network.losses(layers, batch, sizes)[scope]
        return loss, (layers.updates, [ids for _, ids in layers.looked_up])

    @partial(jax.jit, donate_argnums=0, compiler_options=options)
    def step(state: Any, batch: Any) -> Any:
        values, moments = state
        new, new_moments, losses = dict(values), [], []
        for scope, names, moment in zip(scopes, groups, moments, strict=True):
            trained = [values[name] for name in names]
            slope = jax.value_and_grad(loss_of, (0, 1), has_aux=True)
            rows = [jnp.zeros(shape) for _, shape in read]
            (loss, (updates, places)), (slopes, row_slopes) = slope(
                dict(zip(names, trained, strict=True)), rows, values, batch, scope
            )
            listed = [slopes[name] for name in names]
            stepped, *rest = updated(opt, (trained, *moment), listed)
            new |= zip(names, stepped, strict=True)
            new |= updates
            if by_rows:
                for (name, _), ids, g in zip(read, places, row_slopes, strict=True):
                    new[name] = new[name].at[ids].add(-opt.rate * g)
            new_moments.append(rest)
            losses.append(loss)
        return (new, new_moments), losses

    def start() -> Any:
        moments = []
        for names in groups:
            zeros = [
                [jnp.zeros(initial[name].shape) for name in names] if needed else []
                for needed in (opt.adam or opt.momentum, opt.adam)
            ]
            moments.append([*zeros, jnp.zeros(())])
        return {name: jnp.array(value) for name, value in initial.items()}, moments

    held = [start()]

    def call() -> list[float]:
        held[0], losses = step(held[0], dict(batch))
        return [float(loss) for loss in losses]

    def reset() -> None:
        held[0] = start()

    return Run(call, (), reset)


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
