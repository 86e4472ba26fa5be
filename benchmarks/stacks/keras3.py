"""Keras 3: a model, compiled, and its `train_on_batch`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from benchmarks.problem import Run, Training


def train(problem: Training, model_of: Callable[[Any, Training], tuple[Any, Any]]) -> Run:
    """A step of `train_on_batch` with Keras' own optimizer; `model_of` gives model and loss."""
    opt = problem.optimizer
    model, loss = model_of(keras, problem)
    if opt.adam:
        optimizer: Any = keras.optimizers.Adam(
            opt.rate, beta_1=opt.beta1, beta_2=opt.beta2, epsilon=opt.epsilon
        )
    else:
        optimizer = keras.optimizers.SGD(opt.rate, momentum=opt.momentum)
    model.compile(optimizer=optimizer, loss=loss)
    optimizer.build(model.trainable_variables)
    state = [v for v in optimizer.variables if v is not optimizer.learning_rate]

    def reset() -> None:
        model.set_weights(list(problem.parameters))
        for s in state:
            s.assign(np.zeros(s.shape, s.dtype))

    return Run(model.train_on_batch, (problem.x, problem.y), reset)
