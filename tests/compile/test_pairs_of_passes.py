"""Small programs that train give the same numbers without any one pass, and without any two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane import engines
from backplane.compile.codegen import tiling
from backplane.compile.passes import NAMES, without
from backplane.compile.program import clear_programs
from backplane.engines import kernels
from programs.programs import Numbers, sgd, weights

ALL = [*[(name,) for name in NAMES], *combinations(NAMES, 2)]
FEW = [off for off in ALL if "simplify" in off]
"""For the other engines. What `simplify` leaves in graphs, the other passes must bear."""
REFERENCE = "numpy"
INSTALLED = [name for name in engines.names() if engines.installed(name)]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Programs of a few elements go through blocks."""
    monkeypatch.setitem(kernels.FORCED, "numpy.blocks", 8)
    monkeypatch.setattr(tiling, "BLOCK", 64)
    clear_programs()
    yield
    clear_programs()


def pooled() -> Numbers:
    """A convolution with a border, a bias, a relu and a max-pooling, whose results are read by the
    loss and, with their positions, by two gradients.
    """
    rng = np.random.default_rng(0)
    x = K.placeholder(shape=(None, 6, 6, 2))
    kernel, bias, scale = weights(rng, 3, 3, 2, 3), weights(rng, 3), K.ones((3,))
    y = K.bias_add(K.conv2d(K.spatial_2d_padding(x), kernel), bias)
    mean, variance = K.mean(y, [0, 1, 2]), K.var(y, [0, 1, 2])
    y = K.relu(scale * (y - mean) / K.sqrt(variance + 1e-3))
    maxima = K.pool2d(y, (2, 2), strides=(2, 2))
    loss = K.mean(K.square(maxima))
    saliency = K.gradients(K.max(maxima), [x])[0]
    step = K.function([x], [loss, saliency], updates=sgd(loss, [kernel, bias, scale], 0.1))
    data = rng.standard_normal((2, 6, 6, 2))
    return {"losses": np.array([step([data])[0] for _ in range(2)]), "saliency": step([data])[1]}


def recurrent() -> Numbers:
    """An embedding and a masked loop with gates that are slices, trained with momentum."""
    rng = np.random.default_rng(1)
    words = K.placeholder(shape=(None, 4), dtype="int32")
    table, kernel, inner = weights(rng, 7, 3), weights(rng, 3, 4), weights(rng, 2, 4)
    momentum = [K.zeros(K.int_shape(w)) for w in (table, kernel, inner)]

    def step(row: Any, states: Any) -> Any:
        z = K.dot(row, kernel) + K.dot(states[0], inner)
        h = K.sigmoid(z[:, :2]) * states[0] + K.tanh(z[:, 2:])
        return h, [h]

    start = K.dot(K.zeros_like(K.gather(table, words[:, 0])), kernel)[:, :2]
    mask = K.not_equal(words, 0)
    last, outputs, _ = K.rnn(step, K.gather(table, words), [start], mask=mask)
    loss = K.mean(K.square(last - 1.0)) + 0.1 * K.mean(K.pow(outputs, 2))
    updates = []
    for w, m, g in zip(
        (table, kernel, inner), momentum, K.gradients(loss, [table, kernel, inner]), strict=True
    ):
        new = 0.9 * m - 0.1 * g
        updates += [K.update(m, new), K.update_add(w, new)]
    f = K.function([words], [loss, last], updates=updates)
    data = np.array([[1, 2, 3, 0], [4, 2, 0, 0]])
    losses = [f([data])[0] for _ in range(3)]
    return {"losses": np.array(losses), "last": f([data])[1]}


def branched() -> Numbers:
    """A branch that runs or not, a loop of several results, and the gradient of a gradient."""
    rng = np.random.default_rng(2)
    x, choice = K.placeholder(shape=(None, 3)), K.placeholder(shape=(), dtype="bool")
    w = weights(rng, 3, 3)
    h = K.switch(choice, lambda: K.tanh(K.dot(x, w)) * 1.0, lambda: K.dot(x, w) + 0.0)
    rows, squares = K.map_fn(lambda r: [K.tanh(r), K.square(r)], h, dtype=["float32", "float32"])
    slope = K.gradients(K.sum(rows * squares), [x])[0]
    loss = K.mean(squares) + K.mean(K.square(slope))
    f = K.function([x, choice], [loss, slope], updates=sgd(loss, [w], 0.05))
    data = rng.standard_normal((2, 3))
    losses = [f([data, flag])[0] for flag in (True, False, True)]
    return {"losses": np.array(losses), "slope": f([data, True])[1]}


PROGRAMS = [pooled, recurrent, branched]


@pytest.mark.parametrize("name", INSTALLED)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs_without_two_passes(name: str, program: Callable[[], Numbers]) -> None:
    with engines.use(name):
        wanted = program()
        for off in ALL if name == REFERENCE else FEW:
            with without(*off):
                found = program()
            for key, want in wanted.items():
                np.testing.assert_allclose(
                    found[key], want, rtol=1e-4, atol=1e-5, err_msg=f"{key} without {off}"
                )
