"""A process that trains one model of Keras 3 on one backend, block by block, when asked.

The backend is in KERAS_BACKEND: one of Keras' own, or `backplane.ENGINE`. The name of a stack that
ends in "-jit" asks Keras to compile the step.
"""

from __future__ import annotations

import os
import resource
import sys
from time import process_time
from typing import Any

import numpy as np

from benchmarks.keras_models import BATCHES, LARGE, LARGE_BATCHES, LARGE_UNTIMED, MODELS, UNTIMED
from benchmarks.workers import JIT, serve


class Server:
    """Trains the model of one program."""

    def __init__(self, stack: str, name: str) -> None:
        if os.environ["KERAS_BACKEND"].startswith("backplane"):
            import backplane.keras3  # noqa: F401
        import keras

        if keras.backend.backend() == "torch" or stack == "backplane.torch":
            import torch

            torch.set_num_threads(1)
        keras.utils.set_random_seed(0)
        self.keras = keras
        self.held = _peak()
        self.name = name
        self.jit = True if stack.endswith(JIT) else "auto"
        large = name in LARGE
        self.untimed = LARGE_UNTIMED if large else UNTIMED
        self.timed = LARGE_BATCHES - LARGE_UNTIMED if large else BATCHES - UNTIMED
        self.model: Any = None

    def first(self) -> dict[str, float]:
        """Build and compile the model and train a step: seconds."""
        start = process_time()
        self.model, (self.rows, self.batch), classes = MODELS[self.name](self.keras)
        loss = self.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.model.compile("adam", loss, metrics=["accuracy"], jit_compile=self.jit)
        self.labels = np.random.default_rng(1).integers(0, classes, len(self.rows))
        self.model.fit(self.rows[: self.batch], self.labels[: self.batch], verbose=0)
        return {"first": process_time() - start}

    def block(self) -> dict[str, float]:
        """Seconds per step of `fit`, and per batch of `predict`, of one epoch each."""
        clock = _clock(self.keras, self.untimed)()
        options = {"batch_size": self.batch, "verbose": 0, "callbacks": [clock]}
        self.model.fit(self.rows, self.labels, shuffle=False, **options)
        fit = (process_time() - clock.began) / self.timed
        self.model.predict(self.rows, **options)
        return {"fit": fit, "predict": (process_time() - clock.began) / self.timed}

    def memory(self) -> float:
        """Bytes that the process held at most since the first step, beyond the libraries."""
        return _peak() - self.held


def _clock(keras: Any, untimed: int) -> Any:
    class Clock(keras.callbacks.Callback):
        """Notes when the untimed steps are over."""

        began = 0.0

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch == untimed - 1:
                self.began = process_time()

        on_predict_batch_end = on_train_batch_end

    return Clock


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


if __name__ == "__main__":
    serve(Server, *sys.argv[1:])
