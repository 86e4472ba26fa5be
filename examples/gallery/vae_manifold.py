"""A variational autoencoder of handwritten digits, and the plane of images that it has found.

The digits are scikit-learn's, 8 × 8. The noise comes from `K.random_normal`, the loss is the
evidence bound: crossentropy of the pixels and the divergence of the code from a normal
distribution.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from backplane import backend as K

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=3000)
parser.add_argument("--out", default="vae_manifold.png")
options = parser.parse_args()

rng = np.random.default_rng(0)
K.set_random_seed(0)
weights = []


def dense(inputs, outputs):
    """A dense layer without activation, as a function. Its weights join the list."""
    w = K.variable(rng.normal(0, np.sqrt(1 / inputs), (inputs, outputs)))
    b = K.zeros((outputs,))
    weights.extend([w, b])
    return lambda x: K.dot(x, w) + b


x = K.placeholder(shape=(None, 64))
hidden = K.relu(dense(64, 128)(x))
mean, log_var = dense(128, 2)(hidden), dense(128, 2)(hidden)
code = mean + K.exp(0.5 * log_var) * K.random_normal(K.shape(mean))
first, last = dense(2, 128), dense(128, 64)


def decode(z):
    """Logits of the pixels."""
    return last(K.relu(first(z)))


pixels = K.sum(K.binary_crossentropy(x, decode(code), from_logits=True), axis=1)
divergence = 0.5 * K.sum(K.square(mean) + K.exp(log_var) - log_var - 1.0, axis=1)
loss = K.mean(pixels + divergence)

updates = []
for w, g in zip(weights, K.gradients(loss, weights)):
    m, v = K.zeros(K.int_shape(w)), K.zeros(K.int_shape(w))
    m_new, v_new = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * K.square(g)
    updates += [(m, m_new), (v, v_new), (w, w - 2e-3 * m_new / (K.sqrt(v_new) + 1e-7))]
train = K.function([x], [loss], updates=updates)
encode = K.function([x], [mean])
z = K.placeholder(shape=(None, 2))
draw = K.function([z], [K.sigmoid(decode(z))])

images, labels = load_digits(return_X_y=True)
images = images / 16
for i in range(options.steps):
    [value] = train([images[rng.integers(0, len(images), 128)]])
    if i % 500 == 0 or i == options.steps - 1:
        print(f"step {i:5d}  loss {value:.2f}", flush=True)

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.8), layout="constrained")
places = left.scatter(*encode([images])[0].T, c=labels, cmap="tab10", s=6, vmin=-0.5, vmax=9.5)
figure.colorbar(places, ax=left, ticks=range(10))
left.set(title="where the digits lie")
side = np.linspace(-2, 2, 15)
plane = draw([[(a, b) for b in side[::-1] for a in side]])[0].reshape(15, 15, 8, 8)
plane = np.pad(plane, [(0, 0), (0, 0), (1, 1), (1, 1)])
right.imshow(plane.swapaxes(1, 2).reshape(150, 150), cmap="gray_r")
right.set(title="what lies there", xticks=[], yticks=[])
figure.savefig(options.out, dpi=120, bbox_inches="tight")
