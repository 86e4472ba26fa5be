"""The content of one image in the texture of another, by gradients with respect to the image.

The example draws both images. Features are a bank of oriented filters at three scales, which need
no training; the style is which of them occur together (their Gram matrix), the content is where.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np

from backplane import backend as K

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=500)
parser.add_argument("--out", default="style_transfer.png")
options = parser.parse_args()

SIZE = 64
rows, columns = np.mgrid[:SIZE, :SIZE] / SIZE * 2 - 1
radius = np.hypot(rows, columns)
content = np.stack([radius < 0.7, (radius < 0.7) & (rows < 0), radius < 0.3], -1) * 0.5 + 0.25
waves = np.sin(24 * (columns + 0.15 * np.sin(9 * rows)))
style = np.stack([0.5 + 0.5 * waves, 0.5 + 0.4 * np.roll(waves, 3, 0), 0.4 - 0.3 * waves], -1)


def filters(count, size, channels):
    """Waves in all directions, for mixtures of the channels."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:size, :size] - size // 2
    bank = np.empty((size, size, channels, count))
    for i in range(count):
        angle, phase = np.pi * i / count, rng.uniform(0, 2 * np.pi)
        wave = np.cos(1.6 * (x * np.cos(angle) + y * np.sin(angle)) + phase)
        wave = (wave - wave.mean()) * np.exp(-(x**2 + y**2) / size)
        bank[..., i] = wave[..., None] * rng.normal(0, 1, channels)
    return K.variable(bank / np.sqrt(np.sum(bank**2, axis=(0, 1, 2))))


banks = [filters(32, 7, 3) for _ in range(3)]


def features(image):
    """What the filters see at three scales."""
    seen = []
    for bank in banks:
        seen.append(K.relu(K.conv2d(image, bank, padding="same")))
        image = K.pool2d(image, (2, 2), strides=(2, 2), pool_mode="avg")
    return seen


def gram(maps):
    """How often filters answer together."""
    flat = K.reshape(maps, (-1, K.int_shape(maps)[-1]))
    return K.dot(K.transpose(flat), flat) / K.cast(K.shape(flat)[0], "float32")


wanted = [K.variable(K.eval(gram(f))) for f in features(K.constant(style[None]))]
image = K.variable(content[None] + np.random.default_rng(1).normal(0, 0.05, (1, SIZE, SIZE, 3)))
texture = sum(K.mean(K.square(gram(f) - g)) for f, g in zip(features(image), wanted))
smooth = K.pool2d(image, (8, 8), strides=(8, 8), pool_mode="avg")
coarse = K.eval(K.pool2d(K.constant(content[None]), (8, 8), strides=(8, 8), pool_mode="avg"))
place = K.mean(K.square(smooth - coarse))
rough = K.mean(K.square(image[:, 1:] - image[:, :-1])) + K.mean(
    K.square(image[:, :, 1:] - image[:, :, :-1])
)
loss = 100.0 * texture + 6.0 * place + 0.5 * rough
[g] = K.gradients(loss, [image])
m, v = K.zeros(K.int_shape(image)), K.zeros(K.int_shape(image))
m_new, v_new = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * K.square(g)
moved = K.clip(image - 0.004 * m_new / (K.sqrt(v_new) + 1e-8), 0.0, 1.0)
paint = K.function([], [loss], updates=[(m, m_new), (v, v_new), (image, moved)])
for i in range(options.steps):
    [value] = paint([])
    if i % 50 == 0 or i == options.steps - 1:
        print(f"step {i:4d}  loss {value:.3f}", flush=True)

figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
shown = {"content": content, "style": style, "both": K.get_value(image)[0]}
for axis, (title, pixels) in zip(axes, shown.items()):
    axis.imshow(np.clip(pixels, 0, 1))
    axis.set_title(title)
    axis.axis("off")
figure.savefig(options.out, dpi=120, bbox_inches="tight")
