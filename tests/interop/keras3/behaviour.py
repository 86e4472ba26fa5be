"""What K functions do with objects of Keras 3, seen from outside: asserted here."""

import keras
import numpy as np
import pytest

import backplane.backend
from backplane import backend as K
from backplane.interop import keras3


def refuses(call, words, kind=TypeError):
    with pytest.raises(kind, match=words):
        call()


def questions(folder):
    x = keras.Input((4, None), dtype="float64")
    y = K.exp(x)
    v = keras.Variable(np.ones((2, 3), "float16"), name="v")
    assert K.int_shape(x) == (None, 4, None)
    assert K.int_shape(v) == (2, 3)
    assert K.ndim(x) == 3
    assert (K.dtype(x), K.dtype(v), y.dtype, K.count_params(v)) == (
        "float64",
        "float16",
        "float64",
        6,
    )
    assert K.is_keras_tensor(x)
    assert K.is_keras_tensor(y)
    assert not K.is_keras_tensor(v)
    assert K.is_tensor(x)
    assert K.is_tensor(v)
    assert not K.is_sparse(x)
    assert K.is_placeholder(x)
    assert not K.is_placeholder(y)
    assert not K.is_placeholder(v)
    assert K.is_variable(v)
    assert not K.is_variable(x)
    assert (K.shape(x).shape, K.shape(x).dtype, K.size(x).shape) == ((3,), "int32", ())
    f = keras.Model(x, [K.shape(x), K.size(x), K.reshape(x, (K.shape(x)[0], -1))])
    shape, size, flat = f(np.ones((2, 4, 5)))
    assert np.array(shape).tolist() == [2, 4, 5]
    assert int(size) == 40
    assert tuple(flat.shape) == (2, 20)


def values_of_variables(folder):
    v = keras.Variable([1.0, 2.0])
    assert K.get_value(v).tolist() == K.eval(v).tolist() == [1, 2]
    K.set_value(v, [3, 4])
    K.batch_set_value([(v, [4, 5])])
    assert K.batch_get_value([v, K.variable(1.0)])[0].tolist() == [4, 5]
    K.update(v, K.zeros_like(v))
    K.update_add(v, [1.0, 1.0])
    K.update_sub(v, keras.ops.ones(2) * 3.0)
    K.moving_average_update(v, np.ones(2, "float32"), 0.5)
    assert K.get_value(v).tolist() == [-0.5, -0.5]
    refuses(lambda: K.set_value(v, [1.0]), r"shape \(2,\), the value has shape \(1,\)", ValueError)
    assert K.get_value(v).tolist() == [-0.5, -0.5]
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.5), "mse")
    rate = model.optimizer.learning_rate
    K.set_value(rate, K.get_value(rate) * 0.5)
    assert float(K.get_value(model.optimizer.learning_rate)) == 0.25


def scopes(folder):
    """The value that Keras would read: of a stateless scope, in the dtype of the layer."""
    v = keras.Variable([1.0, 2.0])
    with keras.StatelessScope([(v, keras.ops.ones(2) * 5)]) as scope:
        assert np.array(keras.ops.convert_to_numpy(K.square(v))).tolist() == [25, 25]
        K.update_add(v, keras.ops.ones(2))
    assert K.get_value(v).tolist() == [1, 2]
    assert keras.ops.convert_to_numpy(scope.get_current_value(v)).tolist() == [6, 6]

    class Product(keras.layers.Layer):
        def build(self, shape):
            self.kernel = self.add_weight(shape=(shape[-1], 2), name="kernel")

        def call(self, x):
            y = K.dot(x, self.kernel)
            assert K.dtype(y) == K.dtype(self.kernel) == "float16"
            return y

    y = Product(dtype="mixed_float16")(keras.Input((3,)))
    assert y.dtype == "float16"


def learning_phase(folder):
    class Noise(keras.layers.Layer):
        def call(self, inputs, training=None):
            def noised():
                return inputs + K.random_normal(shape=K.shape(inputs), mean=0.0, stddev=1.0)

            return K.in_train_phase(noised, inputs, training=training)

    class Doubled(keras.layers.Layer):
        """The phase is known although the layer does not ask for it."""

        def call(self, x):
            return K.in_train_phase(lambda: x * 2.0, lambda: x) + K.learning_phase() * 0.0

    def on_tensors(t):
        return K.in_train_phase(t * 2.0, t) + 0.0 * K.in_test_phase(lambda: t, t)

    ones = np.ones((4, 3), "float32")
    i = keras.Input((3,))
    for layer in (Noise(), Doubled(), on_tensors):
        model = keras.Model(i, keras.layers.Identity()(layer(i)))
        np.testing.assert_array_equal(model.predict(ones, verbose=0), ones)
        trained = np.array(keras.ops.convert_to_numpy(model(ones, training=True)))
        assert np.abs(trained - ones).max() > 0.1
        weighted = keras.Model(i, keras.layers.Dense(3, trainable=True)(layer(i)))
        weighted.layers[-1].set_weights([np.eye(3), np.zeros(3)])
        weighted.compile(keras.optimizers.SGD(0.0), "mse")
        assert weighted.evaluate(ones, ones, verbose=0) == 0
        assert weighted.fit(ones, ones, verbose=0).history["loss"][0] > 0.1
    assert not isinstance(K.learning_phase(), int)
    K.set_learning_phase(1)
    model = keras.Model(i, on_tensors(i))
    np.testing.assert_array_equal(model.predict(ones, verbose=0), ones * 2)
    K.clear_session()


def refusals(folder):
    x = keras.Input((5, 3))
    for call in (
        lambda: K.rnn(lambda t, s: (t, s), x, []),
        lambda: K.map_fn(K.exp, x),
        lambda: K.foldl(lambda a, b: a + b, x),
    ):
        refuses(call, r"K.\w+: a model cannot hold the function .* keras.layers.Lambda")
    refuses(lambda: K.maximum(x, K.random_normal((3,))), "random at each step")
    refuses(lambda: keras.Model(x, K.dot(x, K.zeros((3, 2)))), "KerasTensor", ValueError)
    refuses(lambda: K.eval(x), "symbolic")
    refuses(lambda: K.sum(x, axis=7), "K.sum: .*axis", ValueError)
    refuses(lambda: K.function([x], [x], updates=[1]), "updates.0. must come from")
    refuses(lambda: K.function([x], ["x"]), "outputs.0. must be a")
    refuses(lambda: K.function([x], [K.placeholder((2,))]), "which has no value", ValueError)
    held = keras.Model(x, K.dot(x, keras.Variable(np.ones((3, 2), "float32"))))
    assert held.predict(np.ones((1, 5, 3)), verbose=0).tolist() == [[[3, 3]] * 5]


def functions_of_models(folder):
    x = keras.Input((4,))
    y = keras.layers.Dense(3)(x)
    z = K.square(keras.layers.Dropout(0.5)(y))
    model = keras.Model(x, z)
    f = K.function([model.input, K.learning_phase()], [model.output, y])
    ones = np.ones((8, 4))
    squared, plain = f([ones, 0])
    assert isinstance(plain, np.ndarray)
    np.testing.assert_allclose(squared, plain**2, rtol=1e-6)
    assert (f([ones, 1])[0] == 0).any()
    inner = K.function(y, z)
    np.testing.assert_allclose(inner(np.full((1, 3), 2.0)), 4.0)
    refuses(lambda: f([ones]), "expected 2 values", ValueError)


def installation(folder):
    before = dict(vars(keras.backend))
    with keras3.install():
        keras3.install()
        from keras import backend
        from keras.backend import mean  # noqa: F401

        assert not set(backplane.backend.__all__) - set(dir(backend))
        assert {n: v for n, v in vars(backend).items() if n in before} == before
        assert backend.backend() == K.backend() == keras.backend.backend()
        keras.config.set_floatx("float64")
        keras.config.set_image_data_format("channels_first")
        backend.set_epsilon(1e-3)
        assert (K.floatx(), K.image_data_format(), K.epsilon()) == (
            "float64",
            "channels_first",
            1e-3,
        )
        assert K.dtype(backend.constant(1.0)) == "float64"
        K.set_floatx("float32")
        K.set_image_data_format("channels_last")
        K.set_epsilon(1e-7)
        assert (keras.config.floatx(), keras.config.epsilon()) == ("float32", 1e-7)
        two = backend.constant(2.0)
        assert keras.ops.is_tensor(two)
        assert keras.ops.is_tensor(backend.mean(np.ones(3)))
        i = keras.Input((1,))
        model = keras.Model(i, i * two)
        assert float(model(np.ones((1, 1)))[0, 0]) == 2
        _old_layer(backend)
        graph = backend.placeholder((2,))
        assert backend.function([graph], [graph * 2.0])([[1, 2]])[0].tolist() == [2, 4]
    assert dict(vars(keras.backend)) == before
    keras3.uninstall()
    assert not keras.ops.is_tensor(K.constant(2.0))
    with keras3.install():
        keras.backend.mean = 1
    assert keras.backend.mean == 1
    del keras.backend.mean


def _old_layer(backend):
    """A layer with a state that K made."""

    class Counting(keras.layers.Layer):
        def build(self, shape):
            self.count = backend.zeros((1,))
            self.scale = self.add_weight(shape=(), initializer="ones", name="scale")

        def call(self, x):
            backend.update_add(self.count, backend.ones((1,)))
            return x * self.scale

    layer = Counting()
    model = keras.Sequential([keras.Input((2,)), layer])
    model.compile("sgd", "mse")
    model.fit(np.ones((8, 2)), np.ones((8, 2)), batch_size=2, verbose=0)
    assert K.get_value(layer.count).tolist() == [4]
    assert [len(layer.trainable_variables), len(layer.non_trainable_variables)] == [1, 1]


def fixed_phase(folder):
    """`K.set_learning_phase` holds in functions of a model whose inputs name no phase."""
    i = keras.Input((100,))
    inner = keras.layers.Dropout(0.5)(i)
    f = K.function([i], [K.dropout(inner * 1.0, 0.0), K.in_train_phase(i * 2.0, i)])
    fed = K.function([i, K.learning_phase()], [inner])
    ones = np.ones((1, 100), "float32")
    assert [y.mean() for y in f([ones])] == [1, 1]
    try:
        K.set_learning_phase(1)
        dropped, doubled = f([ones])
        assert set(dropped.ravel()) == {0, 2}
        assert doubled.mean() == 2
        assert fed([ones, 0])[0].mean() == 1
        K.set_learning_phase(0)
        assert [y.mean() for y in f([ones])] == [1, 1]
    finally:
        backplane.backend.clear_session()


def mixed_bfloat16(folder):
    """Layers of K functions under a policy that computes in bfloat16."""

    class Layer(keras.layers.Layer):
        def build(self, shape):
            self.kernel = self.add_weight(shape=(shape[-1], 8), name="kernel")

        def call(self, x, training=None):
            x = (x - K.mean(x, axis=0)) / (K.std(x, axis=0) + K.epsilon())
            h = K.softmax(K.dot(x, self.kernel)) + K.tanh(K.dot(x, self.kernel))
            assert K.dtype(h) == "bfloat16"
            return K.in_train_phase(K.dropout(h, 0.25), h, training=training)

    def loss(y_true, y_pred):
        return K.mean(K.square(K.cast(y_pred, "float32") - y_true), axis=-1)

    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = keras.Sequential([keras.Input((4,)), Layer(), keras.layers.Dense(1)])
        model.compile(keras.optimizers.Adam(0.05), loss)
        x = np.random.default_rng(0).standard_normal((64, 4)).astype("float32")
        losses = model.fit(x, x[:, :1], epochs=30, verbose=0, shuffle=False).history["loss"]
        assert losses[-1] < 0.5 * losses[0], losses
        assert model.predict(x, verbose=0).shape == (64, 1)
    finally:
        keras.config.set_dtype_policy("float32")


def loaded_lambdas(folder):
    """The code of a `Lambda` layer from a file finds `K` and `np`, as it did in Keras 2."""
    image = keras.Input((4,))
    scaled = keras.layers.Lambda(lambda x: K.l2_normalize(x, axis=-1) * np.pi, (4,))(image)
    model, x = keras.Model(image, scaled), np.ones((2, 4))
    model.save(f"{folder}/lambda.keras")
    with keras3.install():
        loaded = keras.models.load_model(f"{folder}/lambda.keras", safe_mode=False)
        np.testing.assert_allclose(loaded.predict(x, verbose=0), np.full((2, 4), np.pi / 2), 1e-5)
    assert "K" not in vars(keras.src.utils.python_utils)


def shapes_as_a_whole(folder):
    """What has the shape of a tensor whose batch is not known yet."""

    class Noise(keras.layers.Layer):
        def call(self, x):
            return x + 0 * keras.backend.random_normal(keras.backend.shape(x))

    with keras3.install():
        image = keras.Input((4,))
        model = keras.Model(image, Noise()(image))
        assert model.output_shape == (None, 4)
        np.testing.assert_array_equal(model.predict(np.ones((3, 4)), verbose=0), np.ones((3, 4)))

    class Heads(keras.layers.Layer):
        def call(self, x):
            split = K.reshape(x, K.concatenate([K.shape(x)[:-1], [2, 3]]))
            joined = K.reshape(split, K.shape(x)) + K.zeros(K.shape(x))
            return K.reshape(joined, K.stack([K.shape(x)[0], -1]))

    image = keras.Input((4, 6))
    model = keras.Model(image, Heads()(image))
    x = np.arange(72.0).reshape(3, 4, 6)
    np.testing.assert_array_equal(model.predict(x, verbose=0), x.reshape(3, 24))

    class Like(keras.layers.Layer):
        def call(self, x, like):
            return K.reshape(K.cast(x, "float"), (-1, *like.shape[1:])) + K.ones(like.shape[1:])

    flat, like = keras.Input((6,)), keras.Input((2, 3))
    model = keras.Model([flat, like], Like()(flat, like))
    rows = model.predict([np.zeros((4, 6)), np.zeros((4, 2, 3))], verbose=0)
    np.testing.assert_array_equal(rows, np.ones((4, 2, 3)))


PROGRAMS = [
    questions, values_of_variables, scopes, learning_phase, refusals, functions_of_models,
    installation, fixed_phase, mixed_bfloat16, loaded_lambdas, shapes_as_a_whole,
]  # fmt: skip
