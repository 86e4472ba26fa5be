"""The loops of Keras 3's own recurrent layers are found as kernels of the library."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

import waiting
from lean import lean

PROGRAM = """
import json
import backplane.keras3, keras, numpy as np
from backplane import engines
from backplane.compile import passes
from keras import layers as L

engine, ran = engines.current(), []
compiles = engine.compile
engine.compile = lambda program: ran.extend(program.operations) or compiles(program)

LAYERS = {
    "lstm": lambda: L.LSTM(4, bias_initializer="uniform"),
    "gru": lambda: L.GRU(4, bias_initializer="uniform"),
    "all outputs": lambda: L.GRU(4, return_sequences=True, use_bias=False),
    "both ways": lambda: L.Bidirectional(L.GRU(4)),
    "reset before": lambda: L.GRU(4, reset_after=False),
    "another gate": lambda: L.GRU(4, recurrent_activation="hard_sigmoid"),
}
x = np.random.default_rng(0).normal(size=(3, 7, 5)).astype("float32")

def loops(call):
    del ran[:]
    call()
    return sorted({name for name in ran if name.startswith(("lstm", "gru", "scan"))})

def model_of(layer):
    keras.utils.set_random_seed(1)
    return keras.Sequential([keras.Input((7, 5)), layer(), L.Flatten(), L.Dense(2)])

found = {}
for name, layer in LAYERS.items():
    model, values = model_of(layer), []
    model.compile("sgd", "mse")
    predicts = loops(lambda: values.append(model.predict(x, verbose=0)))
    found[name] = predicts, loops(lambda: model.train_on_batch(x, np.ones((3, 2))))
    with passes.without("join_loops"):
        wanted = model_of(layer).predict(x, verbose=0)
    np.testing.assert_allclose(values[0], wanted, rtol=1e-5, atol=1e-6)
print(json.dumps(found))
"""

LOOP = [["scan"], ["scan"]]
GRU = [["gru"], ["scan"]]
GRUS = dict.fromkeys(("gru", "all outputs", "both ways"), GRU)
KERNELS = {
    "torch": {**GRUS, "lstm": [["lstm"], ["lstm_grad", "lstm_saving"]], "reset before": LOOP},
    "cntk": {**GRUS, "lstm": [["lstm"], ["scan"]], "reset before": GRU},
}
"""What computes the loop of a layer, in a prediction and in a training step, by engine."""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "library"), [("torch", "torch"), ("cntk", "onnxruntime")])
def test_recurrent_layers_are_found(name: str, library: str, tmp_path: Path) -> None:
    pytest.importorskip(library)
    env = {**os.environ, "KERAS_BACKEND": f"backplane.{name}", "KERAS_HOME": str(tmp_path)}
    done = waiting.run([sys.executable, "-c", PROGRAM], env=lean(env), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == {**KERNELS[name], "another gate": LOOP}
