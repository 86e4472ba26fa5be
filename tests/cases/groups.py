"""Primitives for groups of operations: normalization, attention, CTC, recurrent layers."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from backplane.backend._call import api
from backplane.core.registry import primitive
from backplane.ops.lift import as_tensor
from cases.primitives import op
from cases.record import bools, case, floats, values


def gelu(x: np.ndarray, approximate: bool) -> np.ndarray:
    inner = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    curve = np.tanh(inner) if approximate else np.vectorize(math.erf)(x / np.sqrt(2))
    return 0.5 * x * (1 + curve)


def normalized(x: np.ndarray, *parameters: np.ndarray, axes: Any, epsilon: float) -> Any:
    mean, variance = (f(x, axis=axes, keepdims=True) for f in (np.mean, np.var))
    scale = 1 / np.sqrt(variance + epsilon)
    gamma, beta = parameters or (1.0, 0.0)
    return [(x - mean) * scale * gamma + beta, mean, variance, scale]


for approximate in (False, True):
    op("gelu", floats(2, 3), id=str(approximate), oracle=gelu, approximate=approximate, smooth=True)
op("silu", floats(2, 3), oracle=lambda x: x / (1 + np.exp(-x)), smooth=True)
op(
    "hard_silu",
    values([[-4.0, -2.5, -1.0], [0.5, 2.0, 5.0]]),
    oracle=lambda x: x * np.clip(x + 3, 0, 6) / 6,
    kinks=[([[-3.0, 3.0, -4.0, 4.0]], [[0.0, 1.0, 0.0, 1.0]])],
)
op(
    "normalize", floats(2, 3, 2, 4), floats(2, 4), floats(1, 2, 4), id="groups", axes=(1, 3),
    epsilon=0.125, oracle=normalized, smooth=True,
)  # fmt: skip
op(
    "rms_normalize", floats(2, 3, 4), floats(4), axes=(2,), epsilon=0.125, grad=False,
    oracle=lambda x, gamma, axes, epsilon: (
        x / np.sqrt(np.mean(x * x, axes, keepdims=True) + epsilon) * gamma
    ),
)  # fmt: skip


def attended(q: Any, k: Any, v: Any, *bias_mask: Any, scale: float, hidden: float | None) -> Any:
    bias, mask = (bias_mask, []) if hidden is None else (bias_mask[:-1], bias_mask[-1:])
    scores = scale * q @ k.swapaxes(-1, -2) + sum(bias)
    for t in mask:
        scores = np.where(t, scores, hidden)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


for name, keys, more, hidden in (
    ("plain", 5, [], None),
    ("bias", 5, [floats(3, 5)], None),
    ("mask", 5, [bools(2, 1, 5)], -1e9),
    ("both", 5, [floats(2, 3, 1), bools(3, 5)], -1e4),
    ("many-keys", 130, [floats(1, 3, 130), bools(2, 1, 130)], -1e9),
):
    op(
        "attention", floats(2, 3, 4), floats(2, keys, 4), floats(2, keys, 4), *more, id=name,
        scale=0.5, hidden=hidden, oracle=attended, grad=False, batch=False,
    )  # fmt: skip
for name, axes in (("rows", (2,)), ("columns", (0, 1))):
    op(
        "normalize", floats(2, 3, 4), floats(4), floats(4), id=name, axes=axes, epsilon=0.125,
        oracle=normalized, smooth=True,
    )  # fmt: skip


def aligned(scores: Any, labels: Any, steps: Any, counts: Any) -> list[np.ndarray]:
    """CTC by all paths. Slopes are the probabilities of classes less those on the right paths."""
    losses, slopes = np.zeros(len(scores)), np.zeros(scores.shape)
    p = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    blank = scores.shape[-1] - 1
    for i, (n, count) in enumerate(zip(steps, counts, strict=True)):
        on_paths = np.zeros((n, blank + 1))
        total = 0.0
        for path in itertools.product(range(blank + 1), repeat=n):
            if [k for k, _ in itertools.groupby(path) if k != blank] == [*labels[i, :count]]:
                weight = float(np.prod(p[i, range(n), path]))
                on_paths[range(n), path] += weight
                total += weight
        losses[i] = -math.log(total) if total else math.inf
        slopes[i, :n] = p[i, :n] - on_paths / total if total else 0
    return [losses, slopes]


ALIGNED = [values(np.array(x, "int32")) for x in ([[1, 0], [1, 1], [2, 2]], [4, 3, 2], [2, 2, 0])]


@api
def _aligned(scores: Any, *others: Any) -> Any:
    scores = as_tensor(scores)
    wide = scores if scores.spec.dtype == "float64" else primitive("cast")(scores, dtype="float32")
    return primitive("ctc_loss")(wide, *map(as_tensor, others))


NO_PATH = [ALIGNED[0], values(np.array([1, 2, 0], "int32")), ALIGNED[2]]
for name, others in (("fits", ALIGNED), ("no-path", NO_PATH)):
    case(
        "ops.ctc_loss", floats(3, 4, 3), *others, id=name, oracle=aligned, smooth=name == "fits",
        grad=name == "fits", fn=lambda K, *operands: _aligned(*operands),
    )  # fmt: skip


def lstm(x: Any, h: Any, c: Any, kernel: Any, recurrent: Any, bias: Any) -> list[np.ndarray]:
    ys = []
    for row in x:
        i, f, g, o = np.split(row @ kernel + h @ recurrent + bias, 4, axis=1)
        sigmoid_i, sigmoid_f, sigmoid_o = (1 / (1 + np.exp(-t)) for t in (i, f, o))
        c = sigmoid_f * c + sigmoid_i * np.tanh(g)
        h = sigmoid_o * np.tanh(c)
        ys.append(h)
    return [np.array(ys).reshape(len(x), *h.shape), h, c]


WEIGHTS = [floats(2, 8), floats(2, 8), floats(8)]
op("lstm", floats(3, 4, 2), floats(4, 2), floats(4, 2), *WEIGHTS, oracle=lstm, smooth=True)
op(
    "lstm", floats(0, 4, 2), floats(4, 2), floats(4, 2), *WEIGHTS,
    id="no-steps", oracle=lstm, grad=False,
)  # fmt: skip


def gru(
    x: Any, h: Any, kernel: Any, recurrent: Any, bias: Any, reset_after: bool
) -> list[np.ndarray]:
    ys, units = [], h.shape[1]
    gates, m = bias[: 3 * units], bias[3 * units :]
    for row in x:
        a_z, a_r, a_n = np.split(row @ kernel + gates, 3, axis=1)
        h_z, h_r, h_n = np.split(h @ recurrent, 3, axis=1)
        z, r = 1 / (1 + np.exp(-a_z - h_z)), 1 / (1 + np.exp(-a_r - h_r))
        inner = r * (h_n + m) if reset_after else (r * h) @ recurrent[:, 2 * units :]
        h = z * h + (1 - z) * np.tanh(a_n + inner)
        ys.append(h)
    return [np.array(ys).reshape(len(x), *h.shape), h]


for reset_after in (True, False):
    weights = [floats(2, 6), floats(2, 6), floats(6 + 2 * reset_after)]
    for steps in (3, 0):
        op(
            "gru", floats(steps, 4, 2), floats(4, 2), *weights, id=f"{steps}-steps-{reset_after}",
            oracle=gru, reset_after=reset_after, smooth=steps > 0, grad=steps > 0,
        )  # fmt: skip
