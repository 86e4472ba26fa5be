"""A network that learns a differential equation: u'' = -u with u(0) = 0 and u'(0) = 1.

No solution is shown to the network. The loss is the equation itself, with a second derivative by
`K.gradients` of `K.gradients`, and a third differentiation trains the weights.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np

from backplane import backend as K

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=3000)
parser.add_argument("--out", default="physics_informed.png")
options = parser.parse_args()

rng = np.random.default_rng(0)
t = K.placeholder(shape=(None, 1))
shapes = [(1, 32), (32,), (32, 32), (32,), (32, 1)]
weights = [K.variable(rng.normal(0, 0.6, s) if len(s) == 2 else np.zeros(s)) for s in shapes]
w1, b1, w2, b2, w3 = weights
network = K.dot(K.tanh(K.dot(K.tanh(K.dot(t, w1) + b1), w2) + b2), w3)
u = t + t * t * network  # u(0) = 0 and u'(0) = 1 for any weights

[velocity] = K.gradients(u, [t])
[acceleration] = K.gradients(velocity, [t])
loss = K.mean(K.square(acceleration + u))

# Adam, written by hand.
updates = []
step = K.variable(0.0)
updates.append(K.update_add(step, 1.0))
now = step + 1.0
rate = 3e-3 * K.sqrt(1.0 - K.pow(0.999, now)) / (1.0 - K.pow(0.9, now))
for w, g in zip(weights, K.gradients(loss, weights)):
    m, v = K.zeros(K.int_shape(w)), K.zeros(K.int_shape(w))
    m_new, v_new = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * K.square(g)
    updates += [(m, m_new), (v, v_new), (w, w - rate * m_new / (K.sqrt(v_new) + 1e-8))]
train = K.function([t], [loss], updates=updates)
solve = K.function([t], [u])

points = np.linspace(0, 2 * np.pi, 64)[:, None]
losses = []
for i in range(options.steps):
    losses.append(float(train([points])[0]))
    if i % 500 == 0 or i == options.steps - 1:
        print(f"step {i:4d}  loss {losses[-1]:.3g}", flush=True)
found = solve([points])[0]
print(f"largest error of the solution: {np.abs(found - np.sin(points)).max():.3g}")

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.plot(points, np.sin(points), color="0.8", linewidth=6, label="sin t")
left.plot(points, found, color="C3", label="network")
left.set(xlabel="t", ylabel="u", title="u'' = -u")
left.legend()
right.semilogy(losses)
right.set(xlabel="step", title="mean of (u'' + u)²")
figure.savefig(options.out, dpi=120, bbox_inches="tight")
