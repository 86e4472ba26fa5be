"""Programs as users of Keras 3 write them; `run.py` runs them."""

import numpy as np

from backplane import backend as K

# isort: split
import keras
from keras import layers, ops

rng = np.random.default_rng(0)
ROWS = rng.normal(size=(20, 8)).astype("float32")


class Batches(keras.utils.PyDataset):
    """Batches whose items are not inputs and targets."""

    def __init__(self, *items):
        super().__init__()
        self.items = items

    def __len__(self):
        return 2

    def __getitem__(self, i):
        batch = tuple(x[10 * i : 10 * i + 10] for x in self.items)
        return batch if len(batch) > 1 else batch[0]


def dense(inputs, units):
    model = keras.Sequential([keras.Input((inputs,)), layers.Dense(units)])
    for i, v in enumerate(model.weights):
        v.assign(np.linspace(-1, 1 + i, v.shape[0])[:, None] * np.ones(v.shape) if v.ndim == 2
                 else np.zeros(v.shape))  # fmt: skip
    return model


# --- steps of the user ----------------------------------------------------------------------------


def two_networks_without_call():
    class GAN(keras.Model):
        def __init__(self, discriminator, generator):
            super().__init__()
            self.discriminator, self.generator = discriminator, generator
            self.noise = keras.random.SeedGenerator(1)
            self.tracker = keras.metrics.Mean(name="d_loss")

        def compile(self, one, other, loss):
            super().compile()
            self.one, self.other, self.loss_of = one, other, loss

        @property
        def metrics(self):
            return [self.tracker]

        def train_step(self, real):
            (real,) = real
            count = ops.shape(real)[0]
            fake = self.generator(keras.random.normal((count, 4), seed=self.noise))
            both = ops.concatenate([fake, real], axis=0)
            labels = ops.concatenate([ops.ones((count, 1)), ops.zeros((count, 1))], axis=0)
            loss = self.loss_of(labels, self.discriminator(both))
            weights = self.discriminator.trainable_weights
            self.one.apply_gradients(zip(K.gradients(loss, weights), weights, strict=True))
            fake = self.generator(keras.random.normal((count, 4), seed=self.noise))
            wrong = self.loss_of(ops.zeros((count, 1)), self.discriminator(fake))
            weights = self.generator.trainable_weights
            self.other.apply(K.gradients(wrong, weights), weights)
            self.tracker.update_state(loss)
            return {"d_loss": self.tracker.result(), "g_loss": wrong}

    model = GAN(dense(8, 1), dense(4, 8))
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), keras.optimizers.Adam(0.01), loss)
    found = model.fit(Batches(ROWS), epochs=2, shuffle=False, verbose=0).history
    return [float(v) for name in ("d_loss", "g_loss") for v in found[name]]


def triplets():
    """`call` takes all three items of a batch; Keras would build the model on the first."""

    class Triplets(keras.Model):
        def __init__(self, embedding):
            super().__init__()
            self.embedding = embedding
            self.tracker = keras.metrics.Mean(name="loss")

        def call(self, items):
            anchor, near, far = items
            a, b, c = self.embedding(anchor), self.embedding(near), self.embedding(far)
            return ops.sum(ops.square(a - b) - ops.square(a - c), axis=-1)

        def train_step(self, data):
            loss = ops.mean(ops.maximum(self(data) + 5.0, 0.0))
            gradients = K.gradients(loss, self.trainable_weights)
            self.optimizer.apply(gradients, self.trainable_weights)
            self.tracker.update_state(loss)
            return {"loss": self.tracker.result()}

        def test_step(self, data):
            self.tracker.update_state(ops.mean(self(data)))
            return {"loss": self.tracker.result()}

        @property
        def metrics(self):
            return [self.tracker]

    model = Triplets(dense(8, 3))
    model.compile(keras.optimizers.SGD(0.01))
    data = Batches(ROWS, ROWS[::-1].copy(), ROWS + 1)
    found = model.fit(data, epochs=2, shuffle=False, verbose=0).history["loss"]
    return [float(v) for v in found] + [float(model.evaluate(data, verbose=0))]


def unbuilt_with_a_step():
    class Net(keras.Model):
        def __init__(self):
            super().__init__()
            self.inner = layers.Dense(1, kernel_initializer="ones")

        def call(self, x):
            return self.inner(x)

        def train_step(self, data):
            x, y = data
            return super().train_step((2.0 * x, y))

    model = Net()
    model.compile("sgd", "mse", metrics=["mae"])
    found = model.fit(ROWS, ROWS[:, :1], verbose=0, shuffle=False).history
    return [float(found["loss"][0]), float(found["mae"][0])]


# --- loops, gradients and state -------------------------------------------------------------------


def fixed(model):
    """The model with weights that depend on no generator."""
    for v in model.weights:
        count = int(np.prod(v.shape))
        v.assign(np.linspace(-0.4, 0.6, count).reshape(v.shape) if count > 1 else v)
    return model


def fitted(model, optimizer, **more):
    """The losses of a run with a last partial batch."""
    model.compile(optimizer, "mse", **more)
    found = model.fit(ROWS, ROWS[:, :2], batch_size=8, epochs=2, shuffle=False, verbose=0)
    return [float(v) for v in found.history["loss"]]


def loops_and_branches():
    class Loops(layers.Layer):
        def build(self, shape):
            self.w = self.add_weight(shape=(shape[-1],), name="w")

        def call(self, x):
            a = ops.cond(ops.mean(x) > 0, lambda: x * self.w, lambda: x - self.w)
            b = ops.fori_loop(0, 3, lambda i, v: v * 0.5 + self.w, a)
            c, ys = ops.scan(
                lambda sums, t: (sums * 0.9 + t, sums), ops.zeros_like(b[:, 0]), ops.transpose(b)
            )
            d = ops.vectorized_map(lambda row: ops.sum(row * self.w), b)
            e = ops.associative_scan(lambda p, q: p + q, b, axis=1)
            several = ops.cast(ops.size(x) > 3, "int32")
            f = ops.switch(several, [lambda t: t, lambda t: 2 * t], b)
            g = ops.map(lambda row: row * self.w, b)
            found = [c, ops.sum(ys, 0), d, e[:, -1], ops.sum(f, -1), ops.sum(g, -1)]
            return ops.stack(found, axis=-1)

    model = keras.Sequential([keras.Input((8,)), Loops(), layers.Dense(2)])
    return fitted(fixed(model), keras.optimizers.SGD(1e-3))


def gradient_of_the_user():
    @ops.custom_gradient
    def clipped(x):
        def gradient(*args, upstream=None):
            g = args[0] if upstream is None else upstream
            return ops.clip(g, -0.01, 0.01)

        return 2.0 * x, gradient

    class Clipped(layers.Layer):
        def call(self, x):
            return clipped(x)

    model = keras.Sequential([keras.Input((8,)), layers.Dense(4), Clipped(), layers.Dense(2)])
    return fitted(fixed(model), keras.optimizers.SGD(0.01))


def without_state():
    model = [keras.Input((8,)), layers.BatchNormalization(), layers.Dense(2)]
    model = fixed(keras.Sequential(model))
    for v in model.weights:
        v.assign(ops.abs(v) + 0.5)
    trained, others = (
        [v.value for v in variables]
        for variables in (model.trainable_variables, model.non_trainable_variables)
    )
    y, new = model.stateless_call(trained, others, ROWS, training=True)
    z, _ = model.stateless_call(trained, new, ROWS)
    return [float(ops.sum(v)) for v in (y, z, *new, model(ROWS))]


def a_loss_of_a_layer():
    class Penalty(layers.Layer):
        def call(self, x):
            self.add_loss(0.1 * ops.mean(ops.square(x)))
            return x

    model = keras.Sequential(
        [
            keras.Input((8,)),
            layers.Dense(4, kernel_regularizer="l2"),
            Penalty(),
            layers.Dense(2),
        ]
    )
    optimizer = keras.optimizers.AdamW(0.01, use_ema=True, ema_overwrite_frequency=2)
    return fitted(fixed(model), optimizer, steps_per_execution=2)


# --- values and arrays ----------------------------------------------------------------------------


def strings_are_no_tensors():
    dense(8, 1)(np.array([["x"] * 8]))


def scalars_of_distributions():
    drawn = [
        keras.random.gamma((), 2.0, seed=1),
        keras.random.beta((), 1.0, 2.0, seed=1),
        keras.random.binomial((), 5.0, 0.5, seed=1),
    ]
    assert all(tuple(x.shape) == () for x in drawn)
    return [float(x) for x in drawn]


def operators_between_arrays_and_tensors():
    class Mixed(layers.Layer):
        def call(self, x):
            ones = np.ones(8, "float32")
            y = ones * x + np.float32(2) - np.eye(8, dtype="float32") @ ones / (x * x + 1)
            return y + (np.zeros(8, "float32") < x) * 1.0 + ones // (x * x + 1) + ones % 2

    model = keras.Sequential([keras.Input((8,)), Mixed()])
    found = model.predict(ROWS, verbose=0)
    x = ROWS
    wanted = x + 2 - 1 / (x * x + 1) + (x > 0) + 1.0 // (x * x + 1) + 1
    return float(np.abs(found - wanted).max()) < 1e-5


def tensors_and_variables():
    """Either may stand to the left of an operator, outside of steps."""
    variable, tensor = keras.Variable(ROWS), ops.convert_to_tensor(ROWS)
    found = [tensor + variable, variable + tensor, 3 * tensor - variable]
    return [float(np.abs(np.asarray(x) - 2 * ROWS).max()) < 1e-5 for x in found]


def functions_of_numpy():
    class Wrong(layers.Layer):
        def call(self, x):
            return np.tanh(x)

    model = keras.Sequential([keras.Input((8,)), Wrong(name="wrong")])
    model.predict(ROWS, verbose=0)


def shapes_that_depend_on_values():
    class Wrong(layers.Layer):
        def call(self, x):
            return ops.nonzero(x)[0]

    keras.Sequential([keras.Input((8,)), Wrong(name="wrong")])


def an_index_beyond():
    model = keras.Sequential([layers.Embedding(5, 2, name="tokens"), layers.Flatten()])
    model.add(layers.Dense(1))
    model.compile("sgd", "mse")
    model.fit(np.array([[7]]), np.array([1.0]), verbose=0)


def targets_of_another_shape():
    model = keras.Sequential([keras.Input((8,)), layers.Dense(3)], name="three")
    model.compile("sgd", "mse")
    model.fit(ROWS, ROWS[:, :7], verbose=0)


PROGRAMS = [
    two_networks_without_call, triplets, unbuilt_with_a_step, strings_are_no_tensors,
    scalars_of_distributions, operators_between_arrays_and_tensors, functions_of_numpy,
    shapes_that_depend_on_values, an_index_beyond, targets_of_another_shape, loops_and_branches,
    gradient_of_the_user, without_state, a_loss_of_a_layer, tensors_and_variables,
]  # fmt: skip
