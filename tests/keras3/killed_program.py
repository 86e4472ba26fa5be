"""A run that kills its process. `python killed_program.py FOLDER EPOCH WHOLE` trains a model with a
backup in FOLDER, and ends by SIGKILL within that epoch, if it comes to it. WHOLE is a file for the
losses of a run without an end: it is made first if there is none. The losses are printed.
"""

import json
import os
import signal
import sys
from pathlib import Path

import numpy as np

import backplane.keras3  # noqa: F401

# isort: split
import keras
from keras import layers


class Kill(keras.callbacks.Callback):
    def __init__(self, at):
        super().__init__()
        self.at = at

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if self.epoch == self.at and batch == 1:
            os.kill(os.getpid(), signal.SIGKILL)


def losses(*callbacks):
    keras.backend.clear_session()
    keras.utils.set_random_seed(3)
    rows = np.random.default_rng(0).normal(size=(20, 5)).astype("float32")
    parts = layers.Dense(8), layers.BatchNormalization(), layers.Dropout(0.5), layers.Dense(2)
    model = keras.Sequential([keras.Input((5,)), *parts])
    model.compile(keras.optimizers.AdamW(1e-2, use_ema=True), "mse", steps_per_execution=1)
    history = model.fit(rows, rows[:, :2], batch_size=8, epochs=5, verbose=0, callbacks=callbacks)
    return [float(x) for x in history.history["loss"]]


FOLDER, EPOCH, WHOLE = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
if not WHOLE.exists():
    WHOLE.write_text(json.dumps(losses()))
print(losses(keras.callbacks.BackupAndRestore(FOLDER), Kill(EPOCH)))
