"""Steps of Keras' models: what is traced, and how often."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import backplane.keras3, keras, numpy as np

traces = []

class Plain(keras.layers.Layer):
    def call(self, x):
        traces.append(x.shape)
        return x * 2.0
    def compute_output_spec(self, x):
        return keras.KerasTensor(x.shape, x.dtype)

class Sized(Plain):
    def call(self, x):
        traces.append(x.shape)
        return x * (x.shape[0] / 32)

for layer in Plain(), Sized():
    model = keras.Sequential([keras.Input((3,)), layer, keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    del traces[:]
    x, y = np.ones((80, 3), "float32"), np.ones((80, 1), "float32")
    model.fit(x, y, batch_size=32, epochs=2, verbose=0)
    print(traces)
    assert model.predict(x, verbose=0).shape == (80, 1)
"""


def test_a_partial_batch_costs_no_trace_unless_a_layer_reads_its_size(tmp_path: Path):
    """Keras looks at the first batch for shapes, then the batch is open. A layer that computes with
    its size as a number gets one trace for each size, after the open one has failed.
    """
    env = {
        **os.environ, "KERAS_BACKEND": "backplane.numpy", "KERAS_HOME": str(tmp_path),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    plain, sized = done.stdout.splitlines()
    assert plain == "[(32, 3), (None, 3)]"
    assert sized == "[(32, 3), (None, 3), (32, 3), (16, 3)]"
