"""Steps of Keras' models: what is traced, and how often."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import waiting
from lean import lean

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

OTHER_BATCHES = """
import backplane.keras3, keras, numpy as np
from backplane import backend as K
from backplane.keras3.step import Step

traced = []

def sums(data):
    shapes = [None if x is None else (x.dtype, tuple(x.shape)) for x in keras.tree.flatten(data)]
    traced.append(shapes)
    return {"sum": sum(keras.ops.sum(keras.ops.cast(x, "float32")) for x in data if x is not None)}

step, ones = Step(sums), np.ones
batches = [
    (ones((4, 2), "float32"), ones(4, "int64")),
    (ones((3, 2), "float32"), ones(3, "int64")),
    (ones((4, 3), "float32"), ones(4, "int64")),
    (ones((4, 2), "float32"), ones(4, "int32")),
    (ones((4, 2), "float32"), ones((), "int64")),
    (ones((4, 2), "float32"), ones((4, 1), "int64")),
    (ones((4, 2), "float32"), None),
    (ones((4, 2), "float64"), ones(4, "int64")),
    [ones((4, 2), "float32"), ones(4, "int64")],
    (ones((4, 2), "float32"), ones(4, "int64"), ones(4, "float32")),
]
for batch in batches:
    for data in batches[0], batch, batch:
        found = step(data)["sum"]
        assert found == sum(x.size for x in data if x is not None), (data, found)
print(len(traced))
"""


def test_batches_of_other_structure_find_their_own_program(tmp_path: Path):
    """The same batch comes before each of them. Only the smaller one, and the one of float64, which
    becomes float32, run its program.
    """
    assert printed(OTHER_BATCHES, tmp_path) == ["8"]


def test_a_partial_batch_costs_no_trace_unless_a_layer_reads_its_size(tmp_path: Path):
    """Keras looks at the first batch for shapes, then the batch is open. A layer that computes with
    its size as a number gets one trace for each size, after the open one has failed.
    """
    plain, sized = printed(PROGRAM, tmp_path)
    assert plain == "[(32, 3), (None, 3)]"
    assert sized == "[(32, 3), (None, 3), (32, 3), (16, 3)]"


def printed(program: str, home: Path) -> list[str]:
    """The lines that a program prints on NumPy."""
    env = {**os.environ, "KERAS_BACKEND": "backplane.numpy", "KERAS_HOME": str(home)}
    done = waiting.run([sys.executable, "-c", program], env=lean(env), cwd=home)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
