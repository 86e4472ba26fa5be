"""Models of Keras 3 with K in them. Each function returns numbers that all backends agree on."""

import keras
import numpy as np

from backplane import backend as K


def data(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def settle(model):
    """The same weights on every backend."""
    for i, weight in enumerate(model.weights):
        if weight.dtype.startswith("float"):
            weight.assign(data(*weight.shape, seed=i) * 0.3)


def trained(model, x, y, epochs=12, **options):
    settle(model)
    model.compile(keras.optimizers.SGD(0.05), **options)
    history = model.fit(x, y, epochs=epochs, batch_size=16, shuffle=False, verbose=0).history
    assert history["loss"][-1] < 0.5 * history["loss"][0], history["loss"]
    return history


@keras.saving.register_keras_serializable("tests")
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


def squared(y_true, y_pred):
    return K.mean(K.square(y_pred - y_true), axis=-1)


def error(y_true, y_pred):
    return K.mean(K.abs(y_pred - y_true))


def _layer_loss_and_metric(jit):
    x = data(64, 5)
    layers = [Dense(16), keras.layers.Lambda(lambda t: K.tanh(t) * 2), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((5,)), *layers])
    assert model.output_shape == (None, 1)
    y = x[:, :1] * 2 - x[:, 1:2]
    history = trained(model, x, y, loss=squared, metrics=[error], jit_compile=jit)
    return [history["loss"], history["error"]]


def layer_loss_and_metric(folder):
    return _layer_loss_and_metric("auto")


def without_jit(folder):
    return _layer_loss_and_metric(False)


def with_jit(folder):
    """XLA, where it is a matter of the trainer; torch.compile is not."""
    return _layer_loss_and_metric(keras.backend.backend() != "torch")


def regularizer_and_constraint(folder):
    class Bounded(keras.constraints.Constraint):
        def __call__(self, w):
            return w / (K.epsilon() + K.sqrt(K.sum(K.square(w), axis=0, keepdims=True)))

    def small(w):
        return 0.01 * K.sum(K.abs(w))

    x = data(64, 5)
    dense = keras.layers.Dense(4, kernel_regularizer=small, kernel_constraint=Bounded())
    model = keras.Sequential([keras.Input((5,)), dense, keras.layers.Dense(1)])
    history = trained(model, x, x[:, :1] - x[:, 1:2], loss="mse")
    norms = np.sqrt(np.square(K.get_value(dense.kernel)).sum(0))
    np.testing.assert_allclose(norms, 1, rtol=1e-5)
    return history["loss"]


def recurrent_layer(folder):
    """`K.rnn` with a step that uses weights, over a mask."""

    class Recurrent(keras.layers.Layer):
        def build(self, shape):
            self.kernel = self.add_weight(shape=(shape[-1], 6), name="kernel")
            self.recurrent = self.add_weight(shape=(6, 6), name="recurrent")

        def call(self, x):
            def step(x, states):
                h = K.tanh(K.dot(x, self.kernel) + K.dot(states[0], self.recurrent))
                return h, [h]

            start = K.zeros_like(K.dot(x[:, 0], self.kernel))
            mask = K.any(K.not_equal(x, 0.0), axis=-1, keepdims=False)
            return K.rnn(step, x, [start], mask=mask)[0]

    x = data(32, 7, 3)
    x[::2, 5:] = 0
    model = keras.Sequential([keras.Input((7, 3)), Recurrent(), keras.layers.Dense(1)])
    assert model.output_shape == (None, 1)
    settle(model)
    before = [K.get_value(w) for w in model.weights]
    losses = trained(model, x, x[:, 0, :1], loss=squared, epochs=30)["loss"]
    for weight, old in zip(model.weights, before, strict=True):
        assert np.abs(K.get_value(weight) - old).max() > 1e-3, weight.path
    return losses


def variables_of_backplane(folder):
    """Weights of classes, the way of many a snippet: K.variable made outside of the loss."""
    weights = K.variable([1.0, 2.0, 3.0])

    def weighted(y_true, y_pred):
        y_pred = y_pred / K.sum(y_pred, axis=-1, keepdims=True)
        y_pred = K.clip(y_pred, K.epsilon(), 1 - K.epsilon())
        return -K.sum(y_true * K.log(y_pred) * weights, -1)

    x = data(64, 5)
    y = np.eye(3, dtype="float32")[x[:, :3].argmax(-1)]
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3, activation="softmax")])
    return trained(model, x, y, loss=weighted, epochs=40)["loss"]


def subclassed_model(folder):
    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.hidden, self.out = Dense(8), keras.layers.Dense(1)

        def call(self, x, training=None):
            h = self.hidden(x)
            return self.out(K.in_train_phase(h * 1.0, lambda: h * 0.0, training=training))

    x = data(64, 5)
    model = Model()
    model(x[:1])
    losses = trained(model, x, x[:, :1], loss=squared)["loss"]
    bias = K.get_value(model.out.bias)
    np.testing.assert_allclose(model.predict(x, verbose=0), np.tile(bias, (64, 1)), rtol=1e-5)
    return losses


def functional(folder):
    """K functions on KerasTensors: a model that is saved, loaded, cloned and described."""
    a, b = keras.Input((4,)), keras.Input((4,))
    both = K.square(K.concatenate([a, b])) + 1
    mean = K.mean(both, axis=1, keepdims=True)
    wide = K.concatenate([K.exp(a) * 2.0, mean, Dense(3)(both)], axis=-1)
    chosen = K.switch(K.greater(wide, 1.0), lambda: wide, K.zeros_like(wide))
    scale = np.array([1.0, 2.0, 3.0, 4.0], "float32")
    normed, center, spread = K.normalize_batch_in_training(a, scale, K.zeros((4,)).numpy(), [0])
    phased = K.in_train_phase(lambda: K.dropout(a, 0.5), b)
    shifted = K.constant(1.0) - keras.ops.square(a)
    results = [chosen, K.sum(K.stack([a, b], axis=1), axis=[1, 2]), normed, phased, shifted]
    assert [t.shape for t in (both, mean, chosen, normed, center, spread)] == [
        (None, 8), (None, 1), (None, 8), (None, 4), (4,), (4,),
    ]  # fmt: skip
    model = keras.Model([a, b], results)
    settle(model)
    given = [data(3, 4), data(3, 4, seed=1)]
    expected = model.predict(given, verbose=0)
    model.save(f"{folder}/model.keras")
    cloned = keras.models.clone_model(model)
    described = keras.models.model_from_json(model.to_json())
    for other in (cloned, described):
        other.set_weights(model.get_weights())
    for other in (keras.models.load_model(f"{folder}/model.keras"), cloned, described):
        for found, wanted in zip(other.predict(given, verbose=0), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-6)
    again = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    model = keras.Model(a, K.softmax(again(K.l2_normalize(a, axis=-1))))
    # Many steps in few epochs: for each, TensorFlow builds a pipeline of the data.
    x, y = (np.tile(a, (64, 1)) for a in (given[0], np.eye(2)[[0, 1, 1]]))
    history = trained(model, x, y, loss="mse", epochs=20)
    return [[e.tolist() for e in expected], history["loss"]]


def autoencoder(folder):
    """A variational autoencoder as its many copies have it. Its noise is new at each step."""
    x = np.where(data(256, 1) > 0, 0.9, 0.1) + 0.05 * data(256, 8)
    x = x.clip(0, 1).astype("float32")

    def sampling(args):
        z_mean, z_log_var = args
        batch = K.shape(z_mean)[0]
        dim = K.int_shape(z_mean)[1]
        return z_mean + K.exp(0.5 * z_log_var) * K.random_normal(shape=(batch, dim))

    class Loss(keras.layers.Layer):
        def call(self, args):
            x, decoded, z_mean, z_log_var = args
            likeness = 8 * K.mean(K.binary_crossentropy(x, decoded), axis=-1)
            kl = -0.5 * K.sum(1 + z_log_var - K.square(z_mean) - K.exp(z_log_var), axis=-1)
            self.add_loss(K.mean(likeness + kl))
            return decoded

    inputs = keras.Input((8,))
    h = keras.layers.Dense(16, activation="relu")(inputs)
    z_mean, z_log_var = keras.layers.Dense(2)(h), keras.layers.Dense(2)(h)
    in_layer = keras.layers.Lambda(sampling)([z_mean, z_log_var])
    on_tensors = sampling([z_mean, z_log_var])
    for z in (in_layer, on_tensors):
        assert z.shape == (None, 2)
        decoded = keras.layers.Dense(8, activation="sigmoid")(keras.layers.Dense(16)(z))
        model = keras.Model(inputs, Loss()([inputs, decoded, z_mean, z_log_var]))
        settle(model)
        model.compile(keras.optimizers.Adam(0.01))
        losses = model.fit(x, epochs=15, batch_size=32, verbose=0).history["loss"]
        assert losses[-1] < losses[0] - 0.3, losses
        codes = keras.Model(inputs, z)
        first, second = codes.predict(x, verbose=0), codes.predict(x, verbose=0)
        assert np.abs(first - second).max() > 0.1
        assert abs(np.corrcoef((first - second).T)[0, 1]) < 0.3
    return []


PROGRAMS = [
    layer_loss_and_metric, without_jit, with_jit, regularizer_and_constraint, recurrent_layer,
    variables_of_backplane, subclassed_model, functional, autoencoder,
]  # fmt: skip
