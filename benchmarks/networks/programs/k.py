"""The network in K on Backplane: placeholders, `K.gradients`, updates, `K.function`."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse

from backplane import backend as K
from benchmarks.networks.layers.k import Layers
from benchmarks.networks.problem import Batch, Network, Sizes
from benchmarks.problem import Run
from benchmarks.stacks.k import updated


def train(network: Network, batch: Batch, sizes: Sizes) -> Run:
    """A training step; the size of the batch is left open."""
    layers = Layers()
    feeds = _placeholders(batch)
    losses = network.losses(layers, feeds, sizes)
    updates, state = list(layers.updates), []
    for scope, loss in losses.items():
        weights = [layers.values[name] for name in layers.trained(scope)]
        new, added = updated(K, loss, weights, network.optimizer)
        updates += new
        state += added
    step = K.function([*feeds.values()], [*losses.values()], updates)
    return Run(step, ([*batch.values()],), _reset(layers, state))


def predict(network: Network, batch: Batch, sizes: Sizes) -> Run:
    """A prediction."""
    batch = network.inputs(batch)
    feeds = _placeholders(batch)
    f = K.function([*feeds.values()], [network.predicted(Layers(training=False), feeds, sizes)])
    return Run(f, ([*batch.values()],))


def _placeholders(batch: Batch) -> dict[str, Any]:
    return {
        name: K.placeholder(shape=(None, None), dtype=a.dtype.name, sparse=True)
        if issparse(a)
        else K.placeholder(shape=(None, *a.shape[1:]), dtype=a.dtype.name)
        for name, a in batch.items()
    }


def _reset(layers: Layers, state: list[Any]) -> Any:
    initial = [(layers.values[name], value) for name, value in layers.initial.items()]
    initial += [(s, np.zeros(K.int_shape(s), "float32")) for s in state]
    return lambda: K.batch_set_value(initial)
