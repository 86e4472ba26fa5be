"""A run that kills its process. `python killed_program.py FOLDER EPOCH` trains a model with a
backup in FOLDER, ends by SIGKILL within that epoch, if it comes to it, and prints the losses.
"""

import os
import signal
import sys

import numpy as np

import backplane.keras3  # noqa: F401

# isort: split
import keras
from keras import layers

FOLDER, EPOCH = sys.argv[1], int(sys.argv[2])


class Kill(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if self.epoch == EPOCH and batch == 1:
            os.kill(os.getpid(), signal.SIGKILL)


keras.utils.set_random_seed(3)
rows = np.random.default_rng(0).normal(size=(20, 5)).astype("float32")
parts = layers.Dense(8), layers.BatchNormalization(), layers.Dropout(0.5), layers.Dense(2)
model = keras.Sequential([keras.Input((5,)), *parts])
model.compile(keras.optimizers.AdamW(1e-2, use_ema=True), "mse", steps_per_execution=1)
callbacks = [keras.callbacks.BackupAndRestore(FOLDER), Kill()]
history = model.fit(rows, rows[:, :2], batch_size=8, epochs=5, verbose=0, callbacks=callbacks)
print([float(x) for x in history.history["loss"]])
