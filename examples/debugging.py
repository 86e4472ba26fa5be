"""A network whose loss becomes NaN, and what the debugging kit shows of it.

    python examples/debugging.py [FOLDER]

prints the summary, the emitted program, a profile, and where the NaN comes from. It writes pictures
of the training step and of a loop, and a flame graph, to FOLDER, by default the present one.
`docs/debugging.md` shows its output.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from backplane import backend as K

rng = np.random.default_rng(0)
x = K.placeholder(shape=(None, 784), name="x")
y = K.placeholder(shape=(None, 10), name="y")
with K.name_scope("hidden"):
    w = K.variable(rng.normal(0, 0.05, (784, 128)), name="w")
    b = K.zeros((128,), name="b")
    h = K.relu(K.dot(x, w) + b)
with K.name_scope("readout"):
    v = K.variable(rng.normal(0, 0.05, (128, 10)), name="v")
    p = K.softmax(K.dot(h, v))
with K.name_scope("loss"):
    loss = -K.mean(K.sum(y * K.log(p), axis=-1))
weights = [w, b, v]
slopes = K.gradients(loss, weights)
steps = [K.update_sub(weight, 0.1 * slope) for weight, slope in zip(weights, slopes, strict=True)]
train = K.function([x, y], [loss], updates=steps, name="train")

sequence = K.placeholder(shape=(8, 30, 16), name="sequence")
u = K.variable(np.eye(16), name="u")


def step(row, states):
    z = K.tanh(row + K.dot(states[0], u))
    return z, [z]


with K.name_scope("rnn"):
    last, _, _ = K.rnn(step, sequence, [sequence[:, 0] * 0.0])
chosen = K.switch(K.sum(last) > 0.0, lambda: K.log(last), lambda: K.square(last))


def main(folder: Path) -> None:
    images = rng.uniform(size=(64, 784))
    labels = np.eye(10)[rng.integers(0, 10, 64)]
    print(train.summary(unknown=64))
    print(train.source())
    profile = train.profile(images, labels)
    print(profile)
    profile.flame(folder / "flame.svg")
    profile.flame(folder / "flame.html")
    profile.trace(folder / "trace.json")
    for ending in ("svg", "html"):
        K.plot_graph(train, to_file=folder / f"training-step.{ending}")
        K.plot_graph(chosen, to_file=folder / f"loop.{ending}")

    images[3] = 1e5  # a picture that somebody forgot to scale
    try:
        with K.debug():
            for _ in range(3):
                train([images, labels])
    except FloatingPointError as error:
        print(error)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
