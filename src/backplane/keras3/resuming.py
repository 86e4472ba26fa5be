"""Random numbers go on where they were when a run is resumed from `BackupAndRestore`.

Keras backs up the weights and the optimizer, but neither the seeds of dropout nor the generators
that shuffle the data. So a file with these lies beside its files.
"""

from __future__ import annotations

import json
import os
import random
from typing import Any

import numpy as np
from keras.src.backend.common import global_state
from keras.src.callbacks.backup_and_restore import BackupAndRestore
from keras.src.random.seed_generator import GLOBAL_SEED_GENERATOR

FILE = "random_state.json"


def make_resumable(callbacks: Any, model: Any) -> None:
    """Let the callbacks of a list that back up the model back up its random numbers, too."""
    for callback in callbacks:
        if isinstance(callback, BackupAndRestore) and "_backplane_save" not in vars(callback):
            _extend(callback, model)


def _extend(callback: Any, model: Any) -> None:
    save, load = callback._save_model, callback._load_model
    file = os.path.join(callback.backup_dir, FILE)

    def save_all() -> None:
        save()
        with open(f"{file}.new", "w", encoding="utf-8") as stream:
            json.dump(_state(model), stream)
        os.replace(f"{file}.new", file)

    def load_all() -> None:
        load()
        if os.path.exists(file):
            with open(file, encoding="utf-8") as stream:
                _restore(model, json.load(stream))

    callback._backplane_save = callback._save_model = save_all
    callback._load_model = load_all


def _seeds(model: Any) -> list[Any]:
    """The variables with the states of seeds: those of the model's layers, and the global one."""
    kept = {id(v) for v in model.weights}
    found = [v for v in model.variables if id(v) not in kept and v.name == "seed_generator_state"]
    shared = global_state.get_global_attribute(GLOBAL_SEED_GENERATOR)
    return found if shared is None else [*found, shared.state]


def _state(model: Any) -> dict[str, Any]:
    kind, words, *rest = np.random.get_state()  # noqa: NPY002 - Keras' data adapters draw from it
    return {
        "seeds": [np.asarray(v).tolist() for v in _seeds(model)],
        "numpy": [kind, np.asarray(words).tolist(), *rest],
        "python": random.getstate(),
    }


def _restore(model: Any, state: dict[str, Any]) -> None:
    """Set what fits: the model may have changed since."""
    seeds = _seeds(model)
    if len(seeds) == len(state["seeds"]):
        for variable, value in zip(seeds, state["seeds"], strict=True):
            variable.assign(value)
    np.random.set_state(tuple(state["numpy"]))  # noqa: NPY002
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
