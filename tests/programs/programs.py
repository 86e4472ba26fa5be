"""Whole programs in K, as users wrote them. Each returns numbers that must agree on all engines."""

from __future__ import annotations

from typing import Any

import numpy as np

from backplane import backend as K

Numbers = dict[str, np.ndarray]


def weights(rng: np.random.Generator, *shape: int) -> Any:
    """A variable with small random values."""
    fan_in = int(np.prod(shape[:-1])) or 1
    return K.variable(rng.standard_normal(shape) / np.sqrt(fan_in))


def sgd(loss: Any, variables: list[Any], rate: float) -> list[Any]:
    """Updates of plain gradient descent."""
    return [
        K.update_sub(v, rate * g)
        for v, g in zip(variables, K.gradients(loss, variables), strict=False)
    ]


def convnet(x: Any, rng: np.random.Generator) -> tuple[list[Any], list[Any]]:
    """Two convolutions and a dense layer: activations and weights."""
    kernels = [weights(rng, 3, 3, 3, 8), weights(rng, 3, 3, 8, 8), weights(rng, 8, 4)]
    first = K.relu(K.conv2d(x, kernels[0], padding="same"))
    pooled = K.pool2d(first, (2, 2), strides=(2, 2))
    second = K.relu(K.conv2d(pooled, kernels[1], padding="same"))
    scores = K.dot(K.mean(second, axis=[1, 2]), kernels[2])
    return [first, second, scores], kernels


def deep_dream() -> Numbers:
    """Gradient ascent on an image, for the activations of a layer (Chollet's book, chapter 8)."""
    rng = np.random.default_rng(0)
    image = K.placeholder(shape=(1, None, None, 3))
    layers, _ = convnet(image, rng)
    loss = K.variable(0.0)
    for layer, coefficient in zip(layers[:2], (0.2, 1.5), strict=False):
        scaling = K.prod(K.cast(K.shape(layer), "float32"))
        loss = loss + coefficient * K.sum(K.square(layer[:, 1:-1, 1:-1, :])) / scaling
    grads = K.gradients(loss, image)[0]
    grads /= K.maximum(K.mean(K.abs(grads)), 1e-7)
    fetch = K.function([image], [loss, grads])
    picture = rng.standard_normal((1, 12, 16, 3)).astype("float32")
    losses = []
    for _ in range(5):
        value, ascent = fetch([picture])
        losses.append(value)
        picture = picture + 0.02 * ascent
    return {"losses": np.array(losses), "picture": picture}


def grad_cam() -> Numbers:
    """The heat map of a class: a gradient with respect to a tensor in the middle of the graph."""
    rng = np.random.default_rng(1)
    image = K.placeholder(shape=(1, 12, 12, 3))
    layers, _ = convnet(image, rng)
    output = layers[2][:, 2]
    grads = K.gradients(output, layers[1])[0]
    pooled = K.mean(grads, axis=(0, 1, 2))
    iterate = K.function([image], [pooled, layers[1][0]])
    pooled_value, activations = iterate([rng.standard_normal((1, 12, 12, 3))])
    return {"heatmap": np.maximum((activations * pooled_value).mean(axis=-1), 0)}


def wgan_gp() -> Numbers:
    """A critic with gradient penalty: training needs the gradient of a gradient."""
    rng = np.random.default_rng(2)
    kernels = [weights(rng, 4, 16), weights(rng, 16, 16), weights(rng, 16, 1)]

    def critic(x: Any) -> Any:
        h = K.tanh(K.dot(x, kernels[0]))
        h = K.softplus(K.dot(h, kernels[1]))
        return K.dot(h, kernels[2])

    real, fake = K.placeholder(shape=(None, 4)), K.placeholder(shape=(None, 4))
    mix = K.placeholder(shape=(None, 1))
    between = mix * real + (1 - mix) * fake
    slope = K.gradients(critic(between), [between])[0]
    norm = K.sqrt(K.sum(K.square(slope), axis=1))
    penalty = K.mean(K.square(1 - norm))
    loss = K.mean(critic(fake)) - K.mean(critic(real)) + 10 * penalty
    train = K.function([real, fake, mix], [loss, penalty], updates=sgd(loss, kernels, 0.01))
    found = []
    for _ in range(8):
        values = [rng.standard_normal((6, 4)), rng.standard_normal((6, 4)), rng.random((6, 1))]
        found.append(train(values))
    return {"losses": np.array(found), "weights": K.get_value(kernels[0])}


class LSTM:
    """One layer of long short-term memory (Hochreiter and Schmidhuber 1997, with forget gate)."""

    def __init__(self, rng: np.random.Generator, inputs: int, units: int) -> None:
        self.units = units
        self.kernel = weights(rng, inputs, 4 * units)
        self.recurrent = weights(rng, units, 4 * units)
        self.bias = K.variable(
            np.concatenate([np.zeros(units), np.ones(units), np.zeros(2 * units)])
        )
        self.variables = [self.kernel, self.recurrent, self.bias]

    def step(self, x: Any, states: Any) -> Any:
        h, c = states[:2]
        z = K.bias_add(K.dot(x, self.kernel) + K.dot(h, self.recurrent), self.bias)
        n = self.units
        i, f = K.hard_sigmoid(z[:, :n]), K.hard_sigmoid(z[:, n : 2 * n])
        c = f * c + i * K.tanh(z[:, 2 * n : 3 * n])
        h = K.hard_sigmoid(z[:, 3 * n :]) * K.tanh(c)
        return h, [h, c]


def masked_lstm() -> Numbers:
    """An LSTM over padded sequences of unknown length: padding must not matter."""
    rng = np.random.default_rng(3)
    cell, dense = LSTM(rng, 3, 5), weights(rng, 5, 1)
    x, y = K.placeholder(shape=(None, None, 3)), K.placeholder(shape=(None, 1))
    mask = K.any(K.not_equal(x, 0.0), axis=-1)
    start = K.zeros_like(x[:, 0, :1]) * K.zeros((1, 5))
    last, outputs, _ = K.rnn(cell.step, x, [start, start], mask=mask)
    loss = K.mean(K.square(K.dot(last, dense) - y))
    train = K.function([x, y], [loss], updates=sgd(loss, [*cell.variables, dense], 0.1))
    predict = K.function([x], [last, outputs])
    losses = []
    for steps in (4, 6, 4, 6):
        batch = rng.standard_normal((3, steps, 3))
        batch[0, -2:] = 0
        losses.append(train([batch, batch.sum(axis=(1, 2))[:, None] / 10])[0])
    short = rng.standard_normal((2, 3, 3))
    padded = np.concatenate([short, np.zeros((2, 4, 3))], axis=1)
    np.testing.assert_allclose(predict([short])[0], predict([padded])[0], rtol=1e-5, atol=1e-6)
    return {"losses": np.array(losses), "outputs": predict([padded])[1]}


def stateful_lstm() -> Numbers:
    """An LSTM whose states are variables that each call hands on to the next."""
    rng = np.random.default_rng(4)
    cell = LSTM(rng, 2, 3)
    h, c = K.zeros((2, 3)), K.zeros((2, 3))
    x = K.placeholder(shape=(2, 4, 2))
    last, _, states = K.rnn(cell.step, x, [h, c])
    run = K.function([x], [last], updates=[(h, states[0]), (c, states[1])])
    data = rng.standard_normal((2, 8, 2))
    run([data[:, :4]])
    second = run([data[:, 4:]])[0]
    whole = K.placeholder(shape=(2, 8, 2))
    at_once = K.rnn(cell.step, whole, [K.zeros((2, 3)), K.zeros((2, 3))])[0]
    np.testing.assert_allclose(
        second, K.function([whole], [at_once])([data])[0], rtol=1e-5, atol=1e-6
    )
    K.batch_set_value([(h, np.zeros((2, 3))), (c, np.zeros((2, 3)))])
    return {"second": second, "after reset": run([data[:, :4]])[0]}


def vae() -> Numbers:
    """A variational autoencoder (Kingma and Welling 2014), its noise drawn portably."""
    rng = np.random.default_rng(5)
    enc, mean_w, log_w = weights(rng, 6, 8), weights(rng, 8, 2), weights(rng, 8, 2)
    dec, out = weights(rng, 2, 8), weights(rng, 8, 6)
    variables = [enc, mean_w, log_w, dec, out]
    x = K.placeholder(shape=(None, 6))
    h = K.elu(K.dot(x, enc))
    z_mean, z_log_var = K.dot(h, mean_w), K.dot(h, log_w)
    K.set_random_seed(7, portable=True)
    noise = K.random_normal(K.shape(z_mean))
    K.set_random_seed(None)
    z = z_mean + K.exp(0.5 * z_log_var) * noise
    decoded = K.sigmoid(K.dot(K.elu(K.dot(z, dec)), out))
    reconstruction = K.sum(K.binary_crossentropy(x, decoded), axis=-1)
    divergence = -0.5 * K.sum(1 + z_log_var - K.square(z_mean) - K.exp(z_log_var), axis=-1)
    loss = K.mean(reconstruction + divergence)
    train = K.function([x], [loss], updates=sgd(loss, variables, 0.05))
    data = (rng.random((10, 6)) > 0.5).astype("float32")
    losses = [train([data])[0] for _ in range(10)]
    assert losses[-1] < losses[0]
    return {"losses": np.array(losses), "weights": K.get_value(out)}


def ctc_recognizer() -> Numbers:
    """A recurrent recognizer of label sequences, trained by CTC and decoded greedily."""
    rng = np.random.default_rng(6)
    cell, dense = LSTM(rng, 4, 8), weights(rng, 8, 4)
    x = K.placeholder(shape=(3, 6, 4))
    labels = K.placeholder(shape=(3, 2), dtype="int32")
    lengths = K.constant([[6], [5], [4]], dtype="int32")
    label_lengths = K.constant([[2], [2], [1]], dtype="int32")
    hidden = K.rnn(cell.step, x, [K.zeros((3, 8)), K.zeros((3, 8))])[1]
    scores = K.softmax(K.dot(hidden, dense))
    loss = K.mean(K.ctc_batch_cost(labels, scores, lengths, label_lengths))
    train = K.function([x, labels], [loss], updates=sgd(loss, [*cell.variables, dense], 0.5))
    data, truth = rng.standard_normal((3, 6, 4)), np.array([[0, 1], [2, 2], [1, 0]])
    losses = [train([data, truth])[0] for _ in range(25)]
    assert losses[-1] < 0.7 * losses[0]
    return {"losses": np.array(losses), "scores": K.function([x], [scores])([data])[0]}


PROGRAMS = [
    deep_dream,
    grad_cam,
    wgan_gp,
    masked_lstm,
    stateful_lstm,
    vae,
    ctc_recognizer,
]
