"""Reading lines of digits without knowing where each digit stands: CTC.

The example writes lines of two to four of scikit-learn's digits with gaps of any width. A
recurrent network reads the columns from left to right, `K.ctc_batch_cost` compares it with the
digits alone, and `K.ctc_decode` reads.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from backplane import backend as K

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=700)
parser.add_argument("--out", default="ctc_ocr.png")
options = parser.parse_args()

rng = np.random.default_rng(0)
digits = load_digits()
images, labels = digits.images / 16, digits.target
COLUMNS, UNITS, BATCH, CLASSES = 44, 64, 32, 11  # ten digits, and the blank, which comes last


def lines(count, first, last):
    """Images of lines, their digits and how many each has."""
    drawn = np.zeros((count, COLUMNS, 8))
    written, lengths = np.zeros((count, 4), int), rng.integers(2, 5, (count, 1))
    for i in range(count):
        at = rng.integers(0, 3)
        for j in range(lengths[i, 0]):
            k = rng.integers(first, last)
            drawn[i, at : at + 8] = images[k].T
            written[i, j] = labels[k]
            at += 8 + rng.integers(0, 4)
    return drawn, written, lengths


x = K.placeholder(shape=(None, COLUMNS, 8))
written = K.placeholder(shape=(None, 4), dtype="int32")
lengths = K.placeholder(shape=(None, 1), dtype="int32")
weights = []


def variable(*shape):
    """A weight of the network."""
    weights.append(K.variable(rng.normal(0, np.sqrt(1 / np.prod(shape[:-1])), shape)))
    return weights[-1]


seen = K.relu(K.conv1d(x, variable(5, 8, UNITS), padding="same"))


def read(columns, backwards):
    """A gated recurrence over the columns."""
    w, u = variable(UNITS, 2 * UNITS), variable(UNITS, 2 * UNITS)

    def step(column, states):
        both = K.dot(column, w) + K.dot(states[0], u)
        gate, new = K.sigmoid(both[:, :UNITS]), K.tanh(both[:, UNITS:])
        h = gate * states[0] + (1.0 - gate) * new
        return h, [h]

    return K.rnn(step, columns, [K.zeros_like(columns[:, 0])], go_backwards=backwards)[1]


forth, back = read(seen, False), K.reverse(read(seen, True), 1)
guesses = K.softmax(K.dot(K.concatenate([forth, back]), variable(2 * UNITS, CLASSES)))
steps = K.ones_like(lengths) * COLUMNS
loss = K.mean(K.ctc_batch_cost(written, guesses, steps, lengths))
updates = []
for w, g in zip(weights, K.gradients(loss, weights)):
    m, v = K.zeros(K.int_shape(w)), K.zeros(K.int_shape(w))
    m_new, v_new = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * K.square(g)
    updates += [(m, m_new), (v, v_new), (w, w - 3e-3 * m_new / (K.sqrt(v_new) + 1e-7))]
train = K.function([x, written, lengths], [loss], updates=updates)
[decoded], _ = K.ctc_decode(guesses, K.flatten(steps))
reader = K.function([x, lengths], [decoded, guesses])

for i in range(options.steps):
    [value] = train(list(lines(BATCH, 0, 1500)))
    if i % 100 == 0 or i == options.steps - 1:
        print(f"step {i:4d}  loss {value:.3f}", flush=True)

drawn, truth, length = lines(200, 1500, 1797)
found, chances = reader([drawn, length])
texts = ["".join(str(d) for d in row if d >= 0) for row in found]
right = ["".join(map(str, row[:n])) for row, [n] in zip(truth, length)]
print(f"lines read without a mistake: {np.mean([a == b for a, b in zip(texts, right)]):.0%}")

figure, axes = plt.subplots(2, 4, figsize=(11, 4), layout="constrained", height_ratios=[1, 2])
for top, bottom, image, text, chance in zip(*axes, drawn, texts, chances):
    top.imshow(image.T, cmap="gray_r")
    top.set_title(f"read: {text}")
    top.axis("off")
    bottom.imshow(chance.T, cmap="viridis", aspect="auto")
    bottom.set(yticks=range(11), yticklabels=[*range(10), "–"], xticks=[])
figure.savefig(options.out, dpi=120, bbox_inches="tight")
