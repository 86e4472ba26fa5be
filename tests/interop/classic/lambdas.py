"""Models with functions of TensorFlow in them, as public code has them: trained, saved, loaded."""

import importlib
import os
import sys
import tempfile
import warnings

import numpy as np
import tensorflow as tf

import backplane.interop.classic  # noqa: F401 - before Keras
from backplane.backend import set_random_seed

warnings.simplefilter("ignore")  # Keras' own syntax and calls are of another time.
K = importlib.import_module("keras.backend")
L = importlib.import_module("keras.layers")
models = importlib.import_module("keras.models")


class Attention(L.Layer):
    """Weights in functions of TensorFlow, beside functions of K."""

    def build(self, input_shape):
        self.kernel = self.add_weight(
            "kernel", (int(input_shape[-1]), 4), initializer="glorot_uniform"
        )
        self.context = self.add_weight("context", (4, 1), initializer="glorot_uniform")
        super().build(input_shape)

    def call(self, x):
        scores = tf.tensordot(tf.tanh(tf.tensordot(x, self.kernel, axes=1)), self.context, axes=1)
        weights = tf.nn.softmax(scores, axis=1)
        return K.sum(x * weights, axis=1)

    def compute_output_shape(self, input_shape):
        return input_shape[0], input_shape[-1]


def huber(y_true, y_pred):
    """A loss of TensorFlow's functions."""
    error = tf.abs(y_true - y_pred)
    return tf.reduce_mean(tf.where(error < 1.0, 0.5 * tf.square(error), error - 0.5), axis=-1)


def steps_model():
    """Lambda layers on lists and with keyword arguments, between layers of Keras."""
    x = L.Input((5, 3))
    reversed_ = L.Lambda(lambda t: tf.reverse(t, axis=[1]))(x)
    joined = L.Lambda(lambda pair: tf.concat(pair, axis=-1))([x, reversed_])
    pooled = Attention()(joined)
    normal = L.Lambda(lambda t: tf.nn.l2_normalize(t, axis=-1))(
        L.Dense(8, activation="tanh")(pooled)
    )
    return models.Model(x, L.Dense(1)(normal))


def main():
    np.random.seed(0)  # noqa: NPY002 - Keras draws with it.
    set_random_seed(0)
    x = np.random.uniform(-1, 1, (64, 5, 3)).astype("float32")  # noqa: NPY002
    y = x[:, :, 0].max(axis=1, keepdims=True)
    model = steps_model()
    model.compile("adam", huber)
    before = [K.get_value(w) for w in model.weights]
    losses = model.fit(x, y, epochs=30, batch_size=16, verbose=0).history["loss"]
    assert losses[-1] < 0.3 * losses[0], losses
    for w, old in zip(model.weights, before, strict=True):
        assert np.abs(K.get_value(w) - old).max() > 1e-3, w
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "model.h5")
        model.save(file)
        known = {"Attention": Attention, "huber": huber, "tf": tf}
        loaded = models.load_model(file, custom_objects=known)
    np.testing.assert_allclose(loaded.predict(x), model.predict(x), rtol=1e-5)
    loaded.train_on_batch(x, y)

    image = models.Sequential(
        [
            L.Lambda(lambda t: tf.image.resize(t, (8, 8)), input_shape=(4, 4, 1)),
            L.Conv2D(2, 3),
            L.Lambda(lambda t: tf.nn.max_pool2d(t, 2, 2, "VALID")),
            L.Flatten(),
            L.Dense(1),
        ]
    )
    assert image.output_shape == (None, 1)
    image.compile("sgd", "mse")
    image.train_on_batch(np.ones((2, 4, 4, 1)), np.ones((2, 1)))
    return losses[-1]


print(main(), file=sys.stdout)
