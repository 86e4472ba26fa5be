"""The network by hand in TensorFlow: one `tf.function` of the whole step, with TensorFlow's fused
update kernels or compiled by XLA.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.networks.layers.tensorflow import Layers, both_ways
from benchmarks.networks.problem import Batch, Network, Sizes, with_graphs
from benchmarks.problem import Optimizer, Run
from benchmarks.stacks.tensorflow import updated


class _Slots:
    """What an optimizer remembers of the weights of one loss."""

    def __init__(self, opt: Optimizer, weights: Sequence[Any]) -> None:
        with tf.init_scope():
            self.weights = weights
            self.first = [_zeros(w) for w in weights] if opt.adam or opt.momentum else []
            self.second = [_zeros(w) for w in weights] if opt.adam else []
            self.steps = tf.Variable(0.0)

    @property
    def state(self) -> tuple[Any, ...]:
        """As the update kernels take it."""
        return self.weights, self.first, self.second, self.steps

    def reset(self) -> None:
        """As before the first step."""
        for s in (*self.first, *self.second, self.steps):
            s.assign(tf.zeros_like(s))


def train(network: Network, batch: Batch, sizes: Sizes, *, xla: bool = False) -> Run:
    """A training step with variables that TensorFlow owns."""
    layers, opt = Layers(), network.optimizer
    layers.xla = xla
    batch = with_graphs(batch, both_ways)
    slots: dict[str, _Slots] = {}

    @tf.function(jit_compile=xla, autograph=False)
    def step(batch: Any) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            losses = network.losses(layers, batch, sizes)
        for scope in losses:
            if scope not in slots:
                slots[scope] = _Slots(opt, [layers.values[n] for n in layers.trained(scope)])
        found = {s: tape.gradient(losses[s], slots[s].weights) for s in losses}
        for scope, gradients in found.items():
            updated(opt, slots[scope].state, gradients, fused=not xla)
        return list(losses.values())

    concrete = step.get_concrete_function(_tensors(batch))

    def call() -> list[float]:
        return [float(loss) for loss in concrete(_tensors(batch))]

    def reset() -> None:
        for name, value in layers.initial.items():
            layers.values[name].assign(value)
        for s in slots.values():
            s.reset()

    return Run(call, (), reset)


def predict(network: Network, batch: Batch, sizes: Sizes, *, xla: bool = False) -> Run:
    """A prediction."""
    layers = Layers(training=False)
    layers.xla = xla
    batch = with_graphs(network.inputs(batch), both_ways)

    @tf.function(jit_compile=xla, autograph=False)
    def run(batch: Any) -> Any:
        return network.predicted(layers, batch, sizes)

    concrete = run.get_concrete_function(_tensors(batch))
    return Run(lambda: concrete(_tensors(batch)).numpy())


def _zeros(w: Any) -> Any:
    return tf.Variable(tf.zeros(w.shape))


def _tensors(batch: Batch) -> dict[str, Any]:
    return {name: tf.constant(a) if isinstance(a, np.ndarray) else a for name, a in batch.items()}
