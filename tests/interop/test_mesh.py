"""Models of classic Keras, and K inside Keras 3, that train on eight devices."""

import json
import sys

import numpy as np
import pytest

import waiting
from interop.test_classic import script
from mesh.processes import environment

DEVICES = {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "8", "PYTHONWARNINGS": "ignore"}

CLASSIC = """
import json
import numpy as np
from keras import backend as K
from keras.layers import BatchNormalization, Dense, Dropout
from keras.models import Sequential
from keras.optimizers import Adam

def train(mesh):
    K.clear_session()
    K.set_random_seed(1, portable=True)
    K.set_mesh(mesh)
    rng = np.random.RandomState(0)
    x, y = rng.normal(size=(44, 6)), rng.normal(size=(44, 2))
    model = Sequential(
        [Dense(16, input_shape=(6,), activation="relu"), BatchNormalization(), Dropout(0.2)]
    )
    model.add(Dense(2))
    model.set_weights([np.random.RandomState(i).normal(size=w.shape) * 0.3 if i < 6
                       else w for i, w in enumerate(model.get_weights())])
    model.compile(Adam(0.01), "mse")
    history = model.fit(x, y, batch_size=16, epochs=5, shuffle=False, verbose=0).history["loss"]
    kernel = model.layers[0].kernel
    held = [len(value.sharding.device_set) for value in kernel.values.values()]
    numbers = [*history, model.evaluate(x, y, verbose=0), model.predict(x).sum()]
    return [float(n) for n in numbers], held

print(json.dumps([train(None), train({"batch": 8})]))
"""


@pytest.mark.slow
def test_a_model_of_classic_keras_trains_on_a_mesh(tmp_path):
    """By one line before `compile`. The last batch of 12 cannot be split, and goes to all."""
    printed = script(tmp_path, CLASSIC, backend="backplane.jax", **DEVICES)
    (alone, one), (spread, eight) = json.loads(printed.splitlines()[-1])
    assert (one, eight) == ([1], [8])
    np.testing.assert_allclose(spread, alone, rtol=1e-4)


KERAS_3 = """
import json
import numpy as np
import keras
from backplane import backend as K

class Rms(keras.layers.Layer):
    def call(self, x):
        self.seen = x
        return x / K.sqrt(K.mean(K.square(x), axis=-1, keepdims=True) + 1e-3)

def loss(y, found):
    return K.mean(K.square(y - found), axis=-1)

def train(distribution):
    keras.distribution.set_distribution(distribution)
    keras.utils.set_random_seed(0)
    x = np.random.default_rng(0).normal(size=(48, 6)).astype("float32")
    inputs = keras.Input((6,))
    outputs = keras.layers.Dense(2)(Rms()(keras.layers.Dense(16, activation=K.relu)(inputs)))
    model = keras.Model(inputs, outputs)
    model.compile("adam", loss=loss)
    history = model.fit(x, x[:, :2], batch_size=16, epochs=5, shuffle=False, verbose=0)
    kernel = model.layers[1].kernel.value
    spread = K.exp(K.square(model.layers[1](x[:16])))
    return history.history["loss"], len(kernel.sharding.device_set)

eight = keras.distribution.DataParallel(devices=keras.distribution.list_devices("cpu"))
alone = train(None)
together = train(eight)
x = keras.src.backend.jax.distribution_lib.distribute_tensor(
    np.ones((16, 4), "float32"), eight.get_data_layout((16, 4)))
y = K.softmax(K.square(x), axis=-1)
print(json.dumps([alone, together, y.sharding == x.sharding]))
"""


@pytest.mark.slow
def test_inside_keras_3_k_respects_a_distribution(tmp_path):
    file = tmp_path / "script.py"
    file.write_text(KERAS_3)
    env = environment({**DEVICES, "KERAS_BACKEND": "jax", "KERAS_HOME": str(tmp_path)})
    done = waiting.run([sys.executable, str(file)], env=env)
    assert done.returncode == 0, done.stderr
    (alone, one), (together, eight), kept = json.loads(done.stdout.splitlines()[-1])
    assert (one, eight, kept) == (1, 8, True)
    np.testing.assert_allclose(together, alone, rtol=1e-5)
