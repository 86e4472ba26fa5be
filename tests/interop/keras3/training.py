"""K in a layer, a Lambda, a loss and a metric, trained by `fit`: prints losses as JSON."""

import json
import sys

import keras
import numpy as np

from backplane import backend as K


class Dense(keras.layers.Layer):
    """A dense layer in K."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], self.units), name="kernel")
        self.bias = self.add_weight(shape=(self.units,), initializer="zeros", name="bias")

    def call(self, x):
        return K.relu(K.bias_add(K.dot(x, self.kernel), self.bias))


def loss(y_true, y_pred):
    return K.mean(K.square(y_pred - y_true), axis=-1)


def error(y_true, y_pred):
    return K.mean(K.abs(y_pred - y_true))


def main(jit):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 5)).astype("float32")
    y = x[:, :1] * 2 - x[:, 1:2]
    layers = [Dense(16), keras.layers.Lambda(lambda t: K.tanh(t) * 2), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((5,)), *layers])
    assert model.output_shape == (None, 1)
    for weight in model.weights:
        weight.assign(rng.standard_normal(weight.shape) * 0.3)
    model.compile(keras.optimizers.SGD(0.05), loss, metrics=[error], jit_compile=jit)
    history = model.fit(x, y, epochs=12, batch_size=16, shuffle=False, verbose=0).history
    print(json.dumps({"loss": history["loss"], "error": history["error"]}))


main({"auto": "auto", "yes": True, "no": False}[sys.argv[1]])
