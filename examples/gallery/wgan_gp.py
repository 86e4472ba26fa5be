"""A Wasserstein GAN with gradient penalty, which learns a ring of eight clouds.

The penalty is a gradient of the critic by its input, inside of the loss: training differentiates
through it, so this needs second derivatives.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np

from backplane import backend as K

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=2500)
parser.add_argument("--out", default="wgan_gp.png")
options = parser.parse_args()

rng = np.random.default_rng(0)
K.set_random_seed(1)
BATCH = 256


def network(sizes):
    """A function from tensors to tensors, and its weights."""
    weights = []
    for n, m in zip(sizes, sizes[1:]):
        weights += [K.variable(rng.normal(0, np.sqrt(2 / n), (n, m))), K.zeros((m,))]

    def apply(h):
        for i in range(0, len(weights), 2):
            h = K.dot(h, weights[i]) + weights[i + 1]
            h = h if i == len(weights) - 2 else K.relu(h, alpha=0.2)
        return h

    return apply, weights


def adam(loss, weights, rate):
    """Updates with short memory, as such games need."""
    updates = []
    for w, g in zip(weights, K.gradients(loss, weights)):
        m, v = K.zeros(K.int_shape(w)), K.zeros(K.int_shape(w))
        m_new, v_new = 0.5 * m + 0.5 * g, 0.99 * v + 0.01 * K.square(g)
        updates += [(m, m_new), (v, v_new), (w, w - rate * m_new / (K.sqrt(v_new) + 1e-7))]
    return updates


generate, of_generator = network([4, 96, 96, 2])
judge, of_critic = network([2, 96, 96, 1])

real = K.placeholder(shape=(BATCH, 2))
fake = generate(K.random_normal((BATCH, 4)))
between = K.random_uniform((BATCH, 1))
mixed = between * real + (1.0 - between) * K.stop_gradient(fake)
[slope] = K.gradients(judge(mixed), [mixed])
penalty = K.mean(K.square(K.sqrt(K.sum(K.square(slope), axis=1) + 1e-12) - 1.0))
distance = K.mean(judge(real)) - K.mean(judge(fake))
train_critic = K.function([real], [distance], updates=adam(penalty - distance, of_critic, 2e-3))
train_generator = K.function([], [], updates=adam(-K.mean(judge(fake)), of_generator, 5e-4))
draw = K.function([], [generate(K.random_normal((2000, 4)))])


def clouds(count):
    """Points around eight places of a ring."""
    angles = rng.integers(0, 8, count) * np.pi / 4
    return 2 * np.stack([np.cos(angles), np.sin(angles)], 1) + rng.normal(0, 0.08, (count, 2))


snapshots = {}
for i in range(options.steps + 1):
    if i in {0, options.steps // 10, options.steps // 3, options.steps}:
        snapshots[i] = draw([])[0]
    for _ in range(5):
        [apart] = train_critic([clouds(BATCH)])
    train_generator([])
    if i % 250 == 0:
        print(f"step {i:4d}  distance that the critic sees {apart:.3f}", flush=True)

figure, axes = plt.subplots(1, len(snapshots), figsize=(11, 3), layout="constrained")
for place, (i, points) in zip(np.atleast_1d(axes), snapshots.items()):
    place.scatter(*clouds(1000).T, s=2, color="0.8")
    place.scatter(*points.T, s=2, color="C3", alpha=0.5)
    place.set(title=f"step {i}", xlim=(-3, 3), ylim=(-3, 3), aspect="equal", xticks=[], yticks=[])
figure.savefig(options.out, dpi=120, bbox_inches="tight")
