"""What a network dreams of: images that excite its classes, by gradients with respect to the image.

The same small classifier as in grad_cam.py. Its weights stay; the image climbs, and a penalty on
differences between neighbours keeps it smooth.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from backplane import backend as K

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=600)
parser.add_argument("--out", default="deep_dream.png")
options = parser.parse_args()

rng = np.random.default_rng(0)
shapes = [(3, 3, 1, 16), (3, 3, 16, 32), (8 * 8 * 32, 10)]
weights = [K.variable(rng.normal(0, np.sqrt(2 / np.prod(s[:-1])), s)) for s in shapes]


def classify(image):
    """The scores of ten classes."""
    h = K.relu(K.conv2d(image, weights[0], padding="same"))
    h = K.relu(K.conv2d(h, weights[1], padding="same"))
    return K.dot(K.batch_flatten(h), weights[2])


x, y = K.placeholder(shape=(None, 8, 8, 1)), K.placeholder(shape=(None,), dtype="int32")
loss = K.mean(K.sparse_categorical_crossentropy(y, classify(x), from_logits=True))
decay = sum(K.sum(K.square(w)) for w in weights)
slopes = K.gradients(loss + 1e-3 * decay, weights)
train = K.function([x, y], [loss], updates=[(w, w - 0.05 * g) for w, g in zip(weights, slopes)])

digits = load_digits()
images, labels = digits.images[..., None] / 16, digits.target
for i in range(options.steps):
    batch = rng.integers(0, len(images), 64)
    [value] = train([images[batch], labels[batch]])
    if i % 100 == 0 or i == options.steps - 1:
        print(f"step {i:4d}  loss {value:.3f}", flush=True)

# Ten dreams at once, one for each class, from one grey noise.
dream = K.variable(np.repeat(rng.normal(0.5, 0.05, (1, 8, 8, 1)), 10, axis=0))
excitement = K.sum(K.sum(classify(dream) * K.eye(10), axis=-1))
rough = K.sum(K.square(dream[:, 1:] - dream[:, :-1])) + K.sum(
    K.square(dream[:, :, 1:] - dream[:, :, :-1])
)
[slope] = K.gradients(excitement - 1.0 * rough, [dream])
climb = K.function([], [excitement], updates=[(dream, K.clip(dream + 0.02 * slope, 0.0, 1.0))])
for i in range(300):
    [value] = climb([])
    if i % 50 == 0 or i == 299:
        print(f"dream step {i:3d}  excitement {value:.1f}", flush=True)

figure, axes = plt.subplots(1, 10, figsize=(11, 1.6), layout="constrained")
for digit, (place, image) in enumerate(zip(axes, K.get_value(dream))):
    place.imshow(image[..., 0], cmap="magma", interpolation="bicubic")
    place.set_title(f"{digit}")
    place.axis("off")
figure.savefig(options.out, dpi=120, bbox_inches="tight")
