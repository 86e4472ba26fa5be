"""Sizes that change from call to call: 200 batches of 20 lengths train a recurrent network.

    KERAS_BACKEND=jax python -m benchmarks.networks.stream [--buckets]

prints the processor's time of all calls, the median call, and how many calls took twenty times as
long: those compiled. With `--buckets`, lengths are padded to four sizes, by `f.in_buckets`.
"""

from __future__ import annotations

import sys
from time import process_time

import numpy as np

from backplane import backend as K

BATCHES, LENGTHS, UNITS, INPUTS = 200, 20, 32, 8
BUCKETS = [12, 24, 36, 48]


def main() -> None:
    """Measure the engine that is configured."""
    rng = np.random.default_rng(0)
    x, y = K.placeholder((None, None, INPUTS)), K.placeholder((None, 1))
    mask = K.placeholder((None, None))
    shapes = (INPUTS, UNITS), (UNITS, UNITS), (UNITS, 1)
    kernel, recurrent, dense = weights = [K.variable(rng.normal(0, 0.1, s)) for s in shapes]

    def step(row, states):
        h = K.tanh(K.dot(row, kernel) + K.dot(states[0], recurrent))
        return h, [h]

    start = K.tile(K.zeros_like(x[:, 0, :1]), (1, UNITS))
    loss = K.mean(K.square(K.dot(K.rnn(step, x, [start], mask=mask)[0], dense) - y))
    slopes = K.gradients(loss, weights)
    train = K.function(
        [x, mask, y], [loss], [(w, w - 0.01 * g) for w, g in zip(weights, slopes, strict=True)]
    )
    if "--buckets" in sys.argv:
        train = train.in_buckets(BUCKETS)
    taken = []
    for length in rng.integers(0, LENGTHS, BATCHES) * 2 + 5:
        batch = [rng.random((16, length, INPUTS), "float32"), np.ones((16, length), "float32")]
        batch.append(rng.random((16, 1), "float32"))
        before = process_time()
        train(batch)
        taken.append(process_time() - before)
    median = float(np.median(taken))
    slow = sum(t > 20 * median for t in taken)
    print(f"{K.backend()}: {sum(taken):.2f} s, median {median * 1e3:.2f} ms, {slow} slow calls")


if __name__ == "__main__":
    main()
