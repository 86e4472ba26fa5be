"""The data, the runs and the smallest model that programs with models of Keras 3 share."""

import keras
import numpy as np
from keras import layers as L

rng = np.random.default_rng(0)
IMAGES = rng.normal(size=(20, 12, 12, 3)).astype("float32")
CLASSES = rng.integers(0, 3, 20)
SERIES = rng.normal(size=(20, 7, 5)).astype("float32")
TOKENS = rng.integers(0, 10, (20, 6))
ROWS = rng.normal(size=(20, 5)).astype("float32")
TARGETS = rng.normal(size=(20, 2)).astype("float32")


def losses(model, x, y, loss="mse", optimizer="adam", epochs=2, fit=None, **compiled):
    """The history of a run with batches of 8: the last one has 4 rows."""
    model.compile(optimizer, loss, **compiled)
    fit = {"shuffle": False, "verbose": 0, "batch_size": 8, **(fit or {})}
    history = model.fit(x, y, epochs=epochs, **fit).history
    return {name: [float(v) for v in values] for name, values in history.items()}


def mlp():
    return keras.Sequential([keras.Input((5,)), L.Dense(8, activation="relu"), L.Dense(2)])
