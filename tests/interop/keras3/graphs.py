"""Graphs of K with models of Keras 3 in them. Each function returns numbers that all backends agree
on; what holds on any backend it asserts itself.
"""

import keras
import numpy as np
import pytest
from models import data, settle

from backplane import backend as K
from backplane.interop import keras3


def values(x):
    return np.asarray(keras.ops.convert_to_numpy(x))


def convnet(size=10):
    i = keras.Input((size, size, 3))
    x = keras.layers.Conv2D(4, 3, activation="relu", name="first")(i)
    x = keras.layers.BatchNormalization()(x)
    x = keras.layers.Conv2D(5, 3, activation="tanh", name="second")(x)
    x = keras.layers.Dropout(0.5)(keras.layers.GlobalAveragePooling2D()(x))
    model = keras.Model(i, keras.layers.Dense(4, activation="softmax", name="scores")(x))
    settle(model)
    variance = model.layers[2].moving_variance
    variance.assign(1.0 + 0.1 * keras.ops.square(variance))
    return model


def slope(function, x):
    """Numeric derivative of a function of arrays, in a random direction."""
    direction = data(*x.shape, seed=9)
    h = 1e-2
    return float((function(x + h * direction) - function(x - h * direction)) / (2 * h)), direction


def saliency(folder):
    """The slope of a class' score with respect to the image, alone and beside the score."""
    model, x = convnet(), data(2, 10, 10, 3)
    (gradient,) = K.gradients(model.output[:, 2], model.input)
    assert K.int_shape(gradient) == (None, 10, 10, 3)
    f = K.function([model.input], [model.output, gradient])
    scores, found = f([x])
    np.testing.assert_allclose(scores, model.predict(x, verbose=0), rtol=1e-4)
    wanted, direction = slope(lambda x: values(model(x))[:, 2].sum(), x)
    np.testing.assert_allclose((found * direction).sum(), wanted, rtol=2e-2)
    phased = K.function([model.input, K.learning_phase()], [model.output, gradient])
    np.testing.assert_allclose(phased([x, 0])[1], found, rtol=1e-5)
    first, second = phased([x, 1]), phased([x, 1])
    assert np.abs(first[0] - second[0]).max() > 1e-4, "dropout draws anew"
    assert np.abs(first[1]).max() > 0
    return [scores.tolist(), found.tolist()]


def grad_cam(folder):
    """The slope with respect to an inner layer's output, and that output."""
    model, x = convnet(), data(1, 10, 10, 3)
    inner = model.get_layer("second").output
    grads = K.gradients(model.output[:, 1], inner)[0]
    pooled = K.mean(grads, axis=(0, 1, 2))
    iterate = K.function([model.input], [pooled, inner[0], inner])
    weights, activations, batch = iterate([x])
    np.testing.assert_array_equal(batch[0], activations)
    tail = K.function([inner], [model.output[:, 1], grads])
    score, found = tail([batch])
    np.testing.assert_allclose(found.mean(axis=(0, 1, 2)), weights, rtol=1e-5)
    np.testing.assert_allclose(score, model.predict(x, verbose=0)[:, 1], rtol=1e-4)
    assert K.gradients(model.output, keras.Input((3,))) == [None]
    return np.maximum((activations * weights).mean(axis=-1), 0).tolist()


def filters(folder):
    """The image that a filter answers to, by gradient ascent."""
    model, image = convnet(), 0.1 * data(1, 10, 10, 3)
    loss = K.mean(model.get_layer("second").output[..., 3])
    grads = K.gradients(loss, model.input)[0]
    grads /= K.sqrt(K.mean(K.square(grads))) + 1e-5
    iterate = K.function([model.input], [loss, grads])
    losses = []
    for _ in range(5):
        value, ascent = iterate([image])
        losses.append(float(value))
        image = image + 0.1 * ascent
    assert losses == sorted(losses)
    return losses


def deep_dream(folder):
    """A loss that begins with a variable, over two layers."""
    model = convnet()
    loss = K.variable(0.0)
    for name, share in (("first", 0.2), ("second", 1.5)):
        activation = model.get_layer(name).output
        scaling = K.prod(K.cast(K.shape(activation), "float32"))
        loss = loss + share * K.sum(K.square(activation[:, 1:-1, 1:-1, :])) / scaling
    grads = K.gradients(loss, model.input)[0]
    grads /= K.maximum(K.mean(K.abs(grads)), 1e-7)
    fetch = K.function([model.input], [loss, grads])
    picture, losses = data(1, 10, 10, 3), []
    for _ in range(4):
        value, ascent = fetch([picture])
        losses.append(float(value))
        picture = picture + 0.02 * ascent
    assert losses == sorted(losses)
    return [losses, picture.tolist()]


def models_of_tensors_of_k(folder):
    """A model, and layers that have not been built, on placeholders and variables."""
    model, x = convnet(), data(2, 10, 10, 3)
    image = K.placeholder((None, 10, 10, 3))
    scores = model(image)
    assert K.int_shape(scores) == (None, 4)
    np.testing.assert_allclose(
        K.function([image], [scores])([x])[0], model.predict(x, verbose=0), rtol=1e-4
    )
    trained = K.function([image], [model(image, training=True)])
    # Two calls may drop the same of ten values; eight calls hardly do.
    assert np.ptp([trained([x])[0] for _ in range(8)], axis=0).max() > 1e-4
    canvas = K.variable(x)
    loss = K.sum(K.square(model(canvas)[:, 0] - 1.0))
    step = K.function([], [loss], [K.update_sub(canvas, K.gradients(loss, canvas)[0])])
    losses = [float(step([])[0]) for _ in range(4)]
    assert losses == sorted(losses, reverse=True)
    a, b = K.placeholder((None, 3)), K.placeholder((None, 3))
    dense = keras.layers.Dense(2)
    joined = keras.layers.Concatenate()([dense(a), dense(b), K.tanh(a)])
    settle(dense)
    given = [data(4, 3), data(4, 3, seed=1)]
    (found,) = K.function([a, b], [joined])(given)
    wanted = np.concatenate([*[values(dense(g)) for g in given], np.tanh(given[0])], axis=1)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    return [losses, found.tolist()]


def policy_gradient(folder):
    """A model's weights trained by updates, with rewards and actions as placeholders."""
    i = keras.Input((4,))
    model = keras.Model(i, keras.layers.Dense(3, activation="softmax")(keras.layers.Dense(8)(i)))
    settle(model)
    action, reward = K.placeholder((None, 3)), K.placeholder((None,))
    chosen = K.sum(model.output * action, axis=1)
    loss = K.mean(-K.log(chosen + 1e-10) * reward)
    before = [K.get_value(w) for w in model.trainable_weights]
    grads = K.gradients(loss, model.trainable_weights)
    updates = [
        K.update_sub(w, 0.5 * g) for w, g in zip(model.trainable_weights, grads, strict=True)
    ]
    train = K.function([model.input, action, reward], [loss], updates=updates)
    x = data(6, 4)
    actions = np.eye(3)[[0, 1, 2, 0, 1, 2]]
    losses = [float(train([x, actions, np.ones(6)])[0]) for _ in range(20)]
    assert losses[-1] < 0.5 * losses[0]
    for weight, old in zip(model.trainable_weights, before, strict=True):
        assert np.abs(K.get_value(weight) - old).max() > 1e-3
    likely = model.predict(x, verbose=0)
    np.testing.assert_allclose(likely, values(model(x)), rtol=1e-5)
    assert (likely * actions).sum(axis=1).mean() > 0.6
    model.weights[0].assign(before[0])
    assert abs(float(train([x, actions, np.ones(6)])[0]) - losses[-1]) > 1e-3, "read at each call"
    return losses


def gradient_penalty(folder):
    """The gradient of a gradient, trained on."""
    i = keras.Input((4,))
    h = keras.layers.Dense(8, activation="softplus")(keras.layers.Dense(8, activation="tanh")(i))
    critic = keras.Model(i, keras.layers.Dense(1)(h))
    settle(critic)
    real, fake, mix = K.placeholder((None, 4)), K.placeholder((None, 4)), K.placeholder((None, 1))
    between = mix * real + (1 - mix) * fake
    slopes = K.gradients(critic(between), between)[0]
    penalty = K.mean(K.square(1 - K.sqrt(K.sum(K.square(slopes), axis=1))))
    loss = K.mean(critic(fake)) - K.mean(critic(real)) + 10 * penalty
    weights = critic.trainable_weights
    pairs = zip(weights, K.gradients(loss, weights), strict=True)
    updates = [K.update_sub(w, 0.02 * g) for w, g in pairs if g is not None]
    assert len(updates) == len(weights)
    train = K.function([real, fake, mix], [loss, penalty], updates=updates)
    rng = np.random.default_rng(0)
    fed = [rng.standard_normal((6, 4)), rng.standard_normal((6, 4)), rng.random((6, 1))]
    found = [[float(v) for v in train(fed)] for _ in range(8)]
    assert found[-1][0] < found[0][0]
    return found


def masks(folder):
    """Masks reach recurrent layers in the graph as in the model."""
    ids = keras.Input((None,), dtype="int32")
    embedded = keras.layers.Embedding(9, 4, mask_zero=True)(ids)
    both = keras.layers.Bidirectional(keras.layers.GRU(3))(embedded)
    last = keras.layers.LSTM(3)(keras.layers.Dropout(0.3)(embedded))
    model = keras.Model(ids, keras.layers.Dense(1)(keras.layers.Concatenate()([both, last])))
    settle(model)
    given = np.array([[1, 2, 3, 0, 0], [4, 5, 6, 7, 8]])
    grads = K.gradients(model.output, embedded)[0]
    scores, found = K.function([ids], [model.output, grads])([given])
    np.testing.assert_allclose(scores, model.predict(given, verbose=0), rtol=1e-4, atol=1e-6)
    assert (found[0, 3:] == 0).all()
    assert (np.abs(found[1]).max(axis=-1) > 0).all()
    fed = K.placeholder((None, None), dtype="int32")
    np.testing.assert_allclose(K.function([fed], [model(fed)])([given])[0], scores, rtol=1e-5)
    return found.tolist()


def operations_of_all_kinds(folder):
    """Calls of K, operations of Keras, nested models, several inputs, layers of the user's own."""

    class Phased(keras.layers.Layer):
        def build(self, shape):
            self.scale = self.add_weight(shape=(), initializer="ones", name="scale")

        def call(self, x):
            return K.in_train_phase(x * self.scale * 2.0, x * self.scale)

    a, b = keras.Input((4,)), keras.Input((4,))
    inner = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dropout(0.0)])
    settle(inner)
    mixed = K.concatenate([K.square(a), keras.ops.exp(b)]) * np.float32(0.5)
    halves = keras.ops.split(mixed, 2, axis=1)
    phased = Phased()(inner(halves[0] + halves[1]))
    normed, mean, _ = K.normalize_batch_in_training(phased, np.ones(3), np.zeros(3), [0])
    model = keras.Model([a, b], [K.in_train_phase(phased * 3.0, phased), normed])
    loss = K.sum(model.output[0]) + K.sum(mean) + K.sum(K.square(K.placeholder(()) * normed))
    with pytest.raises(ValueError, match="which has no value; make it one of the inputs"):
        K.function(model.input, [loss])
    loss = K.sum(model.output[0]) + K.sum(K.pow(normed, 3)) + K.sum(mean)
    grads = K.gradients(loss, model.input)
    f = K.function([model.input, K.learning_phase()], [*model.output, *grads])
    given = [data(5, 4), data(5, 4, seed=1)]
    test, train = f([*given, 0]), f([*given, 1])
    for found, wanted in zip(test, model.predict(given, verbose=0), strict=False):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(train[0], 6 * test[0], rtol=1e-5)
    return [y.tolist() for y in test]


def installed(folder):
    """The same as the code of Keras 2 writes it, where `keras.backend` holds the functions of K."""
    model, x = convnet(), data(1, 10, 10, 3)
    with keras3.install():
        from keras import backend as B

        grads = B.gradients(B.mean(model.get_layer("first").output[..., 0]), model.input)[0]
        grads /= B.sqrt(B.mean(B.square(grads))) + 1e-5
        (found,) = B.function([model.input], [grads])([x])
        image = B.placeholder((None, 10, 10, 3))
        (scores,) = B.function([image], [model(image)])([x])
        seeded = B.function([image, B.learning_phase()], [model(image)])
        # Of five entries, two draws drop the same ones now and then; nine draws do not.
        draws = [seeded([x, 1])[0] for _ in range(9)]
        assert max(np.abs(draw - draws[0]).max() for draw in draws) > 1e-5
    np.testing.assert_allclose(np.sqrt(np.mean(found**2)), 1, rtol=1e-2)
    np.testing.assert_allclose(scores, model.predict(x, verbose=0), rtol=1e-4)
    return found.tolist()


def notebook(folder):
    """The cells of a notebook on the backend of Keras 2, one after the other."""
    with keras3.install():
        from keras import backend as B
        from keras.layers import Dense
        from keras.models import Model, Sequential

        assert B.int_shape(B.placeholder(shape=(None, 4, 5))) == (None, 4, 5)
        assert B.ndim(B.placeholder(ndim=3)) == 3
        val = np.random.random((3, 4, 5))  # noqa: NPY002 - as the notebook has it
        np.testing.assert_allclose(B.eval(B.variable(value=val)), val, rtol=1e-6)
        assert B.eval(B.zeros(shape=(3, 4, 5))).sum() == 0
        assert B.eval(B.ones(shape=(3, 4, 5))).sum() == 60
        b = B.random_uniform_variable(shape=(3, 4), low=0, high=1)
        c = B.random_normal_variable(shape=(3, 4), mean=0, scale=1)
        d = B.random_normal_variable(shape=(3, 4), mean=0, scale=1)
        a = b + c * B.abs(d)
        c = B.dot(a, B.transpose(b))
        assert B.int_shape(B.sum(b, axis=1)) == (3,)
        np.testing.assert_allclose(B.eval(B.softmax(b)).sum(axis=-1), 1, rtol=1e-6)
        assert B.int_shape(B.concatenate([b, c], axis=-1)) == (3, 7)
        assert (B.backend(), B.epsilon(), B.floatx()) == (K.backend(), 1e-7, "float32")
        assert B.cast_to_floatx(np.array([1.0, 2.0])).dtype == "float32"
        B.clear_session()
        assert B.dtype(B.learning_phase()) == "bool"
        model = Sequential([keras.Input((3,))])
        for i in range(1, 6):
            model.add(Dense(10, name=f"dense_{i}"))
        settle(model)
        x = np.array([[1, 2, 3]])
        inner = Model(inputs=model.inputs, outputs=model.get_layer("dense_1").output)
        expected = inner.predict(x, verbose=0)
        of_layer = B.function([model.layers[0].input], [model.get_layer("dense_1").output])
        np.testing.assert_allclose(of_layer([x])[0], expected, rtol=1e-5)
        third = B.function([model.layers[0].input, B.learning_phase()], [model.layers[3].output])
        np.testing.assert_allclose(third([x, 0])[0], third([x, 1])[0], rtol=1e-5)
        kvar = B.variable(np.array([[1, 2], [3, 4]]), dtype="float32")
        assert B.eval(kvar).tolist() == B.get_value(kvar).tolist() == [[1, 2], [3, 4]]
        assert B.count_params(kvar) == 4
    return expected.tolist()


PROGRAMS = [
    saliency, grad_cam, filters, deep_dream, models_of_tensors_of_k, policy_gradient,
    gradient_penalty, masks, operations_of_all_kinds, installed, notebook,
]  # fmt: skip
