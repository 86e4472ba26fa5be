"""The network as a model of Keras 3: `train_on_batch` and `predict_on_batch`."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from benchmarks.networks.layers.keras3 import Layers
from benchmarks.networks.problem import Batch, Network, Sizes
from benchmarks.problem import Run


def _model(network: Network, batch: Batch, sizes: Sizes) -> Any:
    inputs = {
        name: keras.Input(a.shape[1:], dtype=a.dtype.name, name=name)
        for name, a in network.inputs(batch).items()
    }
    return keras.Model(inputs, network.predicted(Layers(), inputs, sizes))


def train(network: Network, batch: Batch, sizes: Sizes) -> Run:
    """A training step with Keras' own optimizer and loss."""
    opt, model = network.optimizer, _model(network, batch, sizes)
    if opt.adam:
        optimizer: Any = keras.optimizers.Adam(
            opt.rate, beta_1=opt.beta1, beta_2=opt.beta2, epsilon=opt.epsilon
        )
    else:
        optimizer = keras.optimizers.SGD(opt.rate, momentum=opt.momentum)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=optimizer, loss=loss)
    optimizer.build(model.trainable_variables)
    state = [v for v in optimizer.variables if v is not optimizer.learning_rate]
    initial = model.get_weights()

    def reset() -> None:
        model.set_weights(initial)
        for s in state:
            s.assign(np.zeros(s.shape, s.dtype))

    return Run(model.train_on_batch, (network.inputs(batch), batch["labels"]), reset)


def predict(network: Network, batch: Batch, sizes: Sizes) -> Run:
    """A prediction."""
    return Run(_model(network, batch, sizes).predict_on_batch, (network.inputs(batch),))
