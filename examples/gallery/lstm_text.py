"""A long short-term memory that learns to write, letter by letter, and how sure it is of each.

The text is the Zen of Python, which every Python carries. `K.rnn` runs the memory over the text,
with the states kept between batches, and again for one letter at a time when it writes.
"""

import argparse
import codecs
import contextlib
import io

import matplotlib.pyplot as plt
import numpy as np

from backplane import backend as K

with contextlib.redirect_stdout(io.StringIO()):
    import this

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=600)
parser.add_argument("--out", default="lstm_text.png")
options = parser.parse_args()

text = codecs.decode(this.s, "rot13")
letters = sorted(set(text))
numbers = np.array([letters.index(c) for c in text])
SIZE, UNITS, STEPS, BATCH = len(letters), 128, 40, 16

rng = np.random.default_rng(0)
shapes = [(SIZE, 4 * UNITS), (UNITS, 4 * UNITS), (UNITS, SIZE)]
weights = [K.variable(rng.normal(0, 1 / np.sqrt(s[0]), s)) for s in shapes]
bias = K.variable(np.repeat([0.0, 1.0, 0.0, 0.0], UNITS))  # remember, to begin with
weights.append(bias)


def step(x, states):
    """One letter: the gates decide what is forgotten, stored and told."""
    h, c = states
    i, f, o, new = (
        (K.dot(x, weights[0]) + K.dot(h, weights[1]) + bias)[:, n * UNITS : (n + 1) * UNITS]
        for n in range(4)
    )
    c = K.sigmoid(f) * c + K.sigmoid(i) * K.tanh(new)
    h = K.sigmoid(o) * K.tanh(c)
    return h, [h, c]


given = K.placeholder(shape=(None, None), dtype="int32")
states = [K.placeholder(shape=(None, UNITS)) for _ in range(2)]
_, told, kept = K.rnn(step, K.one_hot(given, SIZE), states)
scores = K.dot(told, weights[2])
following = K.placeholder(shape=(None, None), dtype="int32")
loss = K.mean(K.sparse_categorical_crossentropy(following, scores, from_logits=True))
updates = []
for w, g in zip(weights, K.gradients(loss, weights)):
    m, v = K.zeros(K.int_shape(w)), K.zeros(K.int_shape(w))
    m_new, v_new = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * K.square(g)
    updates += [(m, m_new), (v, v_new), (w, w - 4e-3 * m_new / (K.sqrt(v_new) + 1e-7))]
train = K.function([given, following, *states], [loss], updates=updates)
write = K.function([given, *states], [K.softmax(scores), *kept])

for i in range(options.steps):
    starts = rng.integers(0, len(text) - STEPS - 1, BATCH)
    windows = numbers[starts[:, None] + np.arange(STEPS + 1)]
    [value] = train([windows[:, :-1], windows[:, 1:], *np.zeros((2, BATCH, UNITS))])
    if i % 100 == 0 or i == options.steps - 1:
        print(f"step {i:4d}  loss {value:.3f}", flush=True)

written, memory, sure = "The", np.zeros((2, 1, UNITS)), []
chances, *memory = write([[[letters.index(c) for c in written]], *memory])
for _ in range(150):
    best = int(np.argmax(chances[0, -1]))
    sure.append(chances[0, -1, best])
    written += letters[best]
    chances, *memory = write([[[best]], *memory])
print(written)

figure, axes = plt.subplots(figsize=(10, 2.6), layout="constrained")
WIDE = 51
for i, (letter, chance) in enumerate(zip(written[3:], sure)):
    axes.text(
        i % WIDE, -(i // WIDE), letter.replace("\n", "¶"), family="monospace", fontsize=15,
        ha="center", va="center", backgroundcolor=plt.cm.RdYlGn(0.15 + 0.7 * chance),
    )  # fmt: skip
axes.set(xlim=(-1, WIDE), ylim=(-3, 0.7), title="what it writes: the greener, the surer")
axes.axis("off")
figure.savefig(options.out, dpi=120, bbox_inches="tight")
