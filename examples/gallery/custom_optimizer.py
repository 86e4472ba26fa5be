"""Five optimizers as lists of updates, on a valley that bends (Rosenbrock's function).

An optimizer in K is nothing but new values for variables. `K.function` recognises the usual ones
and runs them in one pass over each weight; new ones, like the last here, need no permission.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np

from backplane import backend as K

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=400)
parser.add_argument("--out", default="custom_optimizer.png")
options = parser.parse_args()


def valley(p):
    """Rosenbrock's function, which is 0 at (1, 1)."""
    x, y = p[0], p[1]
    return K.square(1.0 - x) + 20.0 * K.square(y - K.square(x))


def gradient_descent(p, g):
    return [(p, p - 0.002 * g)]


def momentum(p, g):
    v = K.zeros((2,))
    new = 0.9 * v - 0.001 * g
    return [(v, new), (p, p + new)]


def rmsprop(p, g):
    a = K.zeros((2,))
    new = 0.9 * a + 0.1 * K.square(g)
    return [(a, new), (p, p - 0.01 * g / (K.sqrt(new) + 1e-7))]


def adam(p, g):
    m, v, t = K.zeros((2,)), K.zeros((2,)), K.variable(0.0)
    now, m_new, v_new = t + 1.0, 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * K.square(g)
    rate = 0.03 * K.sqrt(1.0 - K.pow(0.999, now)) / (1.0 - K.pow(0.9, now))
    return [(t, now), (m, m_new), (v, v_new), (p, p - rate * m_new / (K.sqrt(v_new) + 1e-8))]


def sign_with_memory(p, g):
    """Steps of one length, in the direction of an average of signs."""
    m = K.zeros((2,))
    new = 0.8 * m + 0.2 * K.sign(g)
    return [(m, new), (p, p - 0.01 * new)]


figure, (axes, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
xs, ys = np.meshgrid(np.linspace(-1.8, 1.8, 200), np.linspace(-0.8, 2.6, 200))
surface = (1 - xs) ** 2 + 20 * (ys - xs**2) ** 2
axes.contour(xs, ys, np.log1p(surface), 18, colors="0.8", linewidths=0.8)
for optimizer in (gradient_descent, momentum, rmsprop, adam, sign_with_memory):
    p = K.variable([-1.4, 2.0])
    loss = valley(p)
    walk = K.function([], [loss], updates=optimizer(p, K.gradients(loss, [p])[0]))
    path, heights = [K.get_value(p)], []
    for _ in range(options.steps):
        heights.append(walk([])[0])
        path.append(K.get_value(p))
    name = optimizer.__name__.replace("_", " ")
    axes.plot(*np.array(path).T, label=name)
    right.semilogy(heights, label=name)
    print(f"{name}: {K.eval(valley(p)):.4g} after {options.steps} steps")
axes.plot(1, 1, "k*", markersize=12)
axes.set(title="Five ways down a bent valley")
right.set(title="height", xlabel="step")
right.legend()
figure.savefig(options.out, dpi=120, bbox_inches="tight")
