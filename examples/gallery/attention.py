"""Attention that one can look at: a network learns to sort numbers, and shows where it looks.

Each of eight outputs asks a question of the eight inputs. The answer is an average of the inputs,
weighted by a softmax: the heat map.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np

from backplane import backend as K

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=3000)
parser.add_argument("--out", default="attention.png")
options = parser.parse_args()

rng = np.random.default_rng(0)
LENGTH, WIDTH = 8, 48
weights = []


def variable(*shape):
    """A weight of the network."""
    weights.append(K.variable(rng.normal(0, np.sqrt(1 / shape[0]), shape)))
    return weights[-1]


x = K.placeholder(shape=(None, LENGTH))
# Each number with its rank: how many of the others are smaller, in soft counting.
apart = K.expand_dims(x, 2) - K.expand_dims(x, 1)
h = K.concatenate([K.expand_dims(x), K.tanh(4.0 * apart)], axis=-1)
h = K.relu(K.dot(h, variable(1 + LENGTH, WIDTH)) + K.zeros((WIDTH,)))
keys = K.dot(K.relu(K.dot(h, variable(WIDTH, WIDTH))), variable(WIDTH, WIDTH))
questions = variable(LENGTH, WIDTH)  # one for each place of the sorted list
scores = K.permute_dimensions(K.dot(keys, K.transpose(questions)), (0, 2, 1))
attention = K.softmax(scores / np.sqrt(WIDTH))  # (batch, place in the result, place in x)
found = K.batch_dot(attention, K.expand_dims(x))[:, :, 0]
wanted = K.placeholder(shape=(None, LENGTH))
loss = K.mean(K.square(found - wanted))

updates = []
for w, g in zip(weights, K.gradients(loss, weights)):
    m, v = K.zeros(K.int_shape(w)), K.zeros(K.int_shape(w))
    m_new, v_new = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * K.square(g)
    updates += [(m, m_new), (v, v_new), (w, w - 2e-3 * m_new / (K.sqrt(v_new) + 1e-7))]
train = K.function([x, wanted], [loss], updates=updates)
look = K.function([x], [found, attention])

for i in range(options.steps):
    numbers = rng.uniform(-1, 1, (64, LENGTH))
    [value] = train([numbers, np.sort(numbers)])
    if i % 500 == 0 or i == options.steps - 1:
        print(f"step {i:5d}  loss {value:.5f}", flush=True)

numbers = np.linspace(-0.9, 0.9, LENGTH)[[3, 6, 0, 7, 1, 5, 2, 4]][None]
result, [heat] = look([numbers])
figure, axes = plt.subplots(figsize=(6, 5), layout="constrained")
picture = axes.imshow(heat, cmap="magma", vmin=0, vmax=1)
axes.set(
    xticks=range(LENGTH), xticklabels=[f"{n:.2f}" for n in numbers[0]], xlabel="given",
    yticks=range(LENGTH), yticklabels=[f"{n:.2f}" for n in result[0]], ylabel="sorted",
    title="where each output looks",
)  # fmt: skip
figure.colorbar(picture)
figure.savefig(options.out, dpi=120, bbox_inches="tight")
