"""Larger programs in classic Keras: what people publish, from visualization to transformers."""

import keras
import numpy as np
from keras import backend as K
from keras import layers as L
from keras.models import Model, Sequential

from programs import images, steps


def convnet():
    """A small network that has learned to tell images apart, and the images."""
    x, y = images()
    i = L.Input(x.shape[1:])
    h = L.Conv2D(4, 3, activation="relu", name="conv1")(i)
    h = L.BatchNormalization()(h)
    h = L.Conv2D(5, 3, activation="tanh", name="conv2")(h)
    h = L.Dropout(0.25)(L.GlobalAveragePooling2D()(h))
    model = Model(i, L.Dense(3, activation="softmax")(h))
    model.compile(keras.optimizers.SGD(lr=0.1), "categorical_crossentropy")
    steps(model, x, y, 10)
    return model, x


def grad_cam(folder):
    """The parts of an image that speak for a class, by the slopes at an inner layer."""
    model, x = convnet()
    score = model.output[:, np.argmax(model.predict(x[:1])[0])]
    last = model.get_layer("conv2")
    grads = K.gradients(score, last.output)[0]
    pooled = K.mean(grads, axis=(0, 1, 2))
    iterate = K.function([model.input, K.learning_phase()], [pooled, last.output[0]])
    weights, activations = iterate([x[:1], 0])
    heatmap = np.maximum(np.mean(activations * weights, axis=-1), 0)
    assert heatmap.shape == (4, 4)
    return [*heatmap.ravel(), *weights]


def filters(folder):
    """What a filter answers to, by gradient ascent from noise; and the saliency of an image."""
    model, x = convnet()
    found = []
    for index in range(2):
        loss = K.mean(model.get_layer("conv2").output[:, :, :, index])
        grads = K.gradients(loss, model.input)[0]
        grads /= K.sqrt(K.mean(K.square(grads))) + 1e-5
        iterate = K.function([model.input], [loss, grads])
        image = np.random.RandomState(3).uniform(size=(1, 8, 8, 2))
        losses = []
        for _ in range(4):
            value, ascent = iterate([image])
            losses.append(float(value))
            image = image + 0.1 * ascent
        assert losses == sorted(losses)
        found += losses
    saliency = K.gradients(K.max(model.output, axis=1), model.input)[0]
    shown = K.function([model.input, K.learning_phase()], [K.max(K.abs(saliency), axis=-1)])
    return found + list(shown([x[:1], 0])[0].ravel())


class Positions(L.Layer):
    """Adds a trained vector to each place of a sequence, and hands the mask on."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, shape):
        self.table = self.add_weight(shape=(16, shape[-1]), initializer="uniform", name="positions")
        super().build(shape)

    def call(self, x):
        return x + K.expand_dims(self.table[: K.shape(x)[1]], 0)

    def compute_output_shape(self, shape):
        return shape


class LayerNormalization(L.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, shape):
        self.gamma = self.add_weight(shape=(shape[-1],), initializer="ones", name="gamma")
        self.beta = self.add_weight(shape=(shape[-1],), initializer="zeros", name="beta")
        super().build(shape)

    def call(self, x):
        mean = K.mean(x, axis=-1, keepdims=True)
        variance = K.mean(K.square(x - mean), axis=-1, keepdims=True)
        return self.gamma * (x - mean) / K.sqrt(variance + K.epsilon()) + self.beta

    def compute_output_shape(self, shape):
        return shape


class Attention(L.Layer):
    """Attention with several heads. Masked places get no weight."""

    def __init__(self, heads, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.heads = heads

    def build(self, shape):
        size = shape[-1]
        self.kernels = [
            self.add_weight(shape=(size, size), initializer="glorot_uniform", name=name)
            for name in ("query", "key", "value", "output")
        ]
        super().build(shape)

    def split(self, x):
        size = K.int_shape(x)[-1] // self.heads
        x = K.reshape(x, (-1, K.shape(x)[1], self.heads, size))
        return K.reshape(K.permute_dimensions(x, (0, 2, 1, 3)), (-1, K.shape(x)[1], size))

    def call(self, x, mask=None):
        query, key, value = (self.split(K.dot(x, kernel)) for kernel in self.kernels[:3])
        scores = K.batch_dot(query, key, axes=[2, 2]) / K.int_shape(query)[-1] ** 0.5
        if mask is not None:
            seen = K.repeat_elements(K.cast(mask, K.floatx()), self.heads, axis=0)
            scores -= 1e9 * (1.0 - K.expand_dims(seen, 1))
        mixed = K.batch_dot(K.softmax(scores), value)
        mixed = K.reshape(mixed, (-1, self.heads, K.shape(x)[1], K.int_shape(value)[-1]))
        mixed = K.permute_dimensions(mixed, (0, 2, 1, 3))
        mixed = K.reshape(mixed, (-1, K.shape(x)[1], K.int_shape(x)[-1]))
        return K.dot(mixed, self.kernels[3])

    def compute_output_shape(self, shape):
        return shape


def bert(folder):
    """A small BERT: it guesses hidden words of padded sentences, and which sentence follows."""
    rng = np.random.RandomState(6)
    words = rng.randint(2, 12, size=(8, 9))
    for row, length in zip(words, rng.randint(5, 10, size=8), strict=True):
        row[length:] = 0
    hidden = (rng.uniform(size=words.shape) < 0.3) & (words > 0)
    hidden[:, 1] = True
    segments = np.repeat([[0] * 4 + [1] * 5], 8, axis=0)
    tokens, kinds = L.Input((None,), name="tokens"), L.Input((None,), name="segments")
    chosen = L.Input((None,), name="chosen")
    table = L.Embedding(12, 8, mask_zero=True)
    h = L.add([table(tokens), L.Embedding(2, 8)(kinds)])
    h = LayerNormalization()(Positions()(h))
    for _ in range(2):
        h = LayerNormalization()(L.add([h, L.Dropout(0.1)(Attention(2)(h))]))
        dense = L.TimeDistributed(L.Dense(8))(L.TimeDistributed(L.Dense(16, activation="relu"))(h))
        h = LayerNormalization()(L.add([h, dense]))
    first = L.Lambda(lambda x: x[:, 0], output_shape=(8,))(h)
    follows = L.Dense(1, activation="sigmoid", name="follows")(first)
    guess = L.TimeDistributed(L.Dense(12, activation="softmax"), name="guess")(h)
    model = Model([tokens, kinds, chosen], [guess, follows])

    def of_hidden(y_true, y_pred):
        return K.sparse_categorical_crossentropy(y_true, y_pred) * chosen

    model.compile(
        keras.optimizers.Adam(lr=0.02), {"guess": of_hidden, "follows": "binary_crossentropy"}
    )
    fed = [np.where(hidden, 1, words), segments, hidden.astype("float32")]
    targets = [words[:, :, None], rng.randint(2, size=(8, 1))]
    curve = steps(model, fed, targets, 25)
    assert curve[24] < 0.7 * curve[0]
    longer = [np.concatenate([a, np.zeros_like(a[:, :3])], axis=1) for a in fed]
    guesses = model.predict(fed)[0]
    again = model.predict(longer)[0][:, :9]
    np.testing.assert_allclose(again[words > 0], guesses[words > 0], rtol=1e-4, atol=1e-6)
    return curve + list(guesses[0, 1])


def ocr(folder):
    """A reader of lines of text: convolutions, both directions, CTC in a Lambda, and decoding."""
    rng = np.random.RandomState(7)
    glyphs = rng.uniform(size=(4, 4, 6))
    labels = np.array([[0, 1, 2], [2, 0, 4], [3, 3, 1], [1, 4, 4]])
    lengths = np.array([[3], [2], [3], [1]])
    lines = np.zeros((4, 24, 6, 1))
    for line, row, length in zip(lines, labels, lengths[:, 0], strict=True):
        for place, label in enumerate(row[:length]):
            line[2 + place * 7 : 6 + place * 7, :, 0] = glyphs[label]
    image = L.Input((24, 6, 1), name="image")
    h = L.Conv2D(6, 3, padding="same", activation="relu")(image)
    h = L.MaxPooling2D((2, 2))(h)
    h = L.Reshape((12, 18))(h)
    h = L.Bidirectional(L.GRU(8, return_sequences=True), merge_mode="sum")(h)
    read = L.Dense(5, activation="softmax")(h)
    truth = L.Input((3,), name="labels")
    steps_there, labels_there = L.Input((1,)), L.Input((1,))

    def loss(args):
        scores, *others = args
        return K.ctc_batch_cost(others[0], scores[:, 2:, :], others[1], others[2])

    cost = L.Lambda(loss, output_shape=(1,), name="ctc")([read, truth, steps_there, labels_there])
    model = Model([image, truth, steps_there, labels_there], cost)
    model.compile(keras.optimizers.Adam(lr=0.05), {"ctc": lambda y_true, y_pred: y_pred})
    fed = [lines, labels, np.full((4, 1), 10), lengths]
    curve = steps(model, fed, np.zeros(4), 100)
    assert curve[99] < 0.2 * curve[0]
    scores = Model(image, read).predict(lines)[:, 2:]
    decoded, likely = K.ctc_decode(scores, np.full(4, 10), greedy=True)
    for row, label, length in zip(K.get_value(decoded[0]), labels, lengths[:, 0], strict=True):
        assert [n for n in row if n >= 0] == list(label[:length])
    return curve[:20] + list(np.ravel(K.get_value(likely)))


def notebook(folder):
    """The cells of a notebook on the backend, one after the other."""
    K.placeholder(shape=(2, 4, 5))
    K.placeholder(shape=(None, 4, 5))
    assert K.ndim(K.placeholder(ndim=3)) == 3
    val = np.random.random((3, 4, 5))  # noqa: NPY002 - as the notebook has it
    np.testing.assert_allclose(K.eval(K.variable(value=val)), val, rtol=1e-6)
    assert K.eval(K.zeros(shape=(3, 4, 5))).sum() == 0
    assert K.eval(K.ones(shape=(3, 4, 5))).sum() == 60
    b = K.random_uniform_variable(shape=(3, 4), low=0, high=1)
    c = K.random_normal_variable(shape=(3, 4), mean=0, scale=1)
    d = K.random_normal_variable(shape=(3, 4), mean=0, scale=1)
    a = b + c * K.abs(d)
    c = K.dot(a, K.transpose(b))
    assert K.int_shape(K.sum(b, axis=1)) == (3,)
    np.testing.assert_allclose(K.eval(K.softmax(b)).sum(axis=-1), 1, rtol=1e-6)
    assert K.int_shape(K.concatenate([b, c], axis=-1)) == (3, 7)
    assert (K.epsilon(), K.floatx()) == (1e-7, "float32")
    assert K.cast_to_floatx(np.array([1.0, 2.0], dtype="float64")).dtype == "float32"
    K.clear_session()
    assert K.dtype(K.learning_phase()) == "bool"
    model = Sequential()
    model.add(L.Dense(10, input_shape=(3,), name="dense_1"))
    for i in range(2, 6):
        model.add(L.Dense(10, name=f"dense_{i}"))
    inner = Model(inputs=model.input, outputs=model.get_layer("dense_1").output)
    expected = inner.predict(np.array([[1, 2, 3]]))
    of_layer = K.function([model.layers[0].input], [model.get_layer("dense_1").output])
    found = of_layer([np.array([[1, 2, 3]])])[0]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    x = np.array([[1, 2, 3]])
    third = K.function([model.layers[0].input, K.learning_phase()], [model.layers[3].output])
    np.testing.assert_allclose(third([x, 0])[0], third([x, 1])[0])
    kvar = K.variable(np.array([[1, 2], [3, 4]]), dtype="float32")
    assert K.eval(kvar).tolist() == K.get_value(kvar).tolist() == [[1, 2], [3, 4]]
    assert K.count_params(kvar) == 4
    return list(found[0])


PROGRAMS = {f.__name__: f for f in (grad_cam, filters, bert, ocr, notebook)}
