"""Where a network looks: Grad-CAM on handwritten digits.

A convolutional classifier is trained on scikit-learn's digits. Then `K.gradients` of the winning
score by the last feature maps says how much each map matters, and their weighted sum where.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from backplane import backend as K

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=600)
parser.add_argument("--out", default="grad_cam.png")
options = parser.parse_args()

rng = np.random.default_rng(0)
x, y = K.placeholder(shape=(None, 8, 8, 1)), K.placeholder(shape=(None,), dtype="int32")
shapes = [(3, 3, 1, 16), (3, 3, 16, 32), (32, 10)]
weights = [K.variable(rng.normal(0, np.sqrt(2 / np.prod(s[:-1])), s)) for s in shapes]
features = K.relu(K.conv2d(x, weights[0], padding="same"))
features = K.relu(K.conv2d(features, weights[1], padding="same"))
scores = K.dot(K.mean(features, axis=[1, 2]), weights[2])

loss = K.mean(K.sparse_categorical_crossentropy(y, scores, from_logits=True))
updates = []
for w, g in zip(weights, K.gradients(loss, weights)):
    a = K.zeros(K.int_shape(w))
    new = 0.95 * a + 0.05 * K.square(g)
    updates += [(a, new), (w, w - 0.005 * g / (K.sqrt(new) + 1e-7))]
train = K.function([x, y], [loss], updates=updates)

best = K.max(scores, axis=-1)
[slopes] = K.gradients(best, [features])
importance = K.mean(slopes, axis=[1, 2], keepdims=True)
heat = K.relu(K.sum(importance * features, axis=-1))
look = K.function([x], [heat, K.argmax(scores, axis=-1)])

digits = load_digits()
images, labels = digits.images[..., None] / 16, digits.target
for i in range(options.steps):
    batch = rng.integers(0, 1500, 64)
    [value] = train([images[batch], labels[batch]])
    if i % 100 == 0 or i == options.steps - 1:
        print(f"step {i:4d}  loss {value:.3f}", flush=True)
_, found = look([images[1500:]])
print(f"right on images that it has not seen: {np.mean(found == labels[1500:]):.1%}")

shown = [np.flatnonzero(labels[1500:] == digit)[0] + 1500 for digit in range(10)]
maps, found = look([images[shown]])
figure, axes = plt.subplots(2, 10, figsize=(11, 2.6), layout="constrained")
for top, bottom, image, heat_map, guess in zip(*axes, images[shown], maps, found):
    top.imshow(image[..., 0], cmap="gray_r")
    top.set_title(f"{guess}")
    bottom.imshow(image[..., 0], cmap="gray_r")
    bottom.imshow(heat_map, cmap="inferno", alpha=0.6, interpolation="bilinear")
    top.axis("off")
    bottom.axis("off")
figure.savefig(options.out, dpi=120, bbox_inches="tight")
