"""The network by hand in NumPy: gradients layer by layer, and an optimizer in place."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.networks.layers.numpy import Layers
from benchmarks.networks.problem import Batch, Network, Sizes
from benchmarks.problem import Run
from benchmarks.stacks.numpy import optimizer


def train(network: Network, batch: Batch, sizes: Sizes) -> Run:
    """A training step."""
    layers = Layers()
    network.losses(layers, batch, sizes)  # the first call makes the weights
    layers.tape.clear()
    weights = [layers.values[name].array for name in layers.trained()]
    initial = [w.copy() for w in weights]
    update, state = optimizer(network.optimizer, weights)

    def step() -> list[float]:
        (loss,) = network.losses(layers, batch, sizes).values()
        update(layers.gradients(loss))
        return [float(loss.array)]

    def reset() -> None:
        for w, value in zip(weights, initial, strict=True):
            w[...] = value
        for s in state:
            s[...] = 0

    return Run(step, (), reset)


def predict(network: Network, batch: Batch, sizes: Sizes) -> Run:
    """A prediction."""
    layers, batch = Layers(training=False), network.inputs(batch)

    def run() -> Any:
        return np.asarray(network.predicted(layers, batch, sizes).array)

    run()  # the first call makes the weights
    return Run(run)
