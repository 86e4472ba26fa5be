"""Networks whose state goes from step to step: state spaces, a differential equation, a tagger."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.networks.language import text
from benchmarks.networks.problem import Batch, Network, Sizes

# --- a selective state space, https://arxiv.org/abs/2312.00752 ------------------------------------


def mamba(L: Any, batch: Batch, s: Sizes) -> Any:
    """Blocks that choose at each step what to keep."""
    inner, states = 2 * s["width"], s["states"]
    x = L.lookup(L.table(s["words"], s["width"]), batch["x"])
    for _ in range(s["layers"]):
        h = L.dense(L.rms_norm(x), 2 * inner, bias=False)
        u, gate = h[..., :inner], h[..., inner:]
        u = L.silu(L.channels_last(L.depthwise_row(L.image(u), 4, causal=True)))
        rows = L.dense(u, s["rank"] + 2 * states, bias=False)
        delta = L.softplus(L.dense(rows[..., : s["rank"]], inner))
        b, c = rows[..., s["rank"] : s["rank"] + states], rows[..., s["rank"] + states :]
        a = -L.exp(L.weight((inner, states), "plain", 0.5))
        y = L.selective(u, delta, a, b, c) + u * L.vector(inner, 1.0)
        x = x + L.dense(y * L.silu(gate), s["width"], bias=False)
    return L.dense(L.rms_norm(x), s["words"], bias=False)


MAMBA = Network(
    "selective state space, 2 layers of width 64",
    mamba,
    text,
    {"batch": 8, "steps": 64, "words": 256, "width": 64, "states": 16, "rank": 4, "layers": 2},
    {"batch": 2, "steps": 5, "words": 11, "width": 4, "states": 3, "rank": 2, "layers": 1},
    recurrent=True,
)

# --- the same by chunks, https://arxiv.org/abs/2405.21060 -----------------------------------------


def _chunked(L: Any, x: Any, decay: Any, b: Any, c: Any, s: Sizes) -> Any:
    """The recurrence as products inside of chunks, and a short loop over the chunks.

    `x` is (samples, steps, heads · features), `decay` (samples, steps, heads) and negative; `b` and
    `c` are (samples, steps, states).
    """
    size, heads = s["chunk"], s["heads"]
    count, wide = s["steps"] // size, 2 * s["width"] // heads
    x = L.transpose(L.reshape(x, count, size, heads, wide), 0, 1, 3, 2, 4)
    decay = L.transpose(L.reshape(decay, count, size, heads), 0, 1, 3, 2)
    b, c = (L.reshape(rows, count, 1, size, s["states"]) for rows in (b, c))
    total = L.cumsum(decay, 3)
    far = L.constant("later", lambda: np.triu(np.full((size, size), -1e9, "float32"), 1))
    inside = L.exp(total[..., :, None] - total[..., None, :] + far)
    turned = L.transpose(b, 0, 1, 2, 4, 3)
    y = ((c @ turned) * inside) @ x
    last = total[..., -1:]
    added = (turned * L.exp(last - total)[..., None, :]) @ x
    kept = L.exp(last)[..., None]
    state, before = added[:, 0], [0.0 * added[:, 0]]
    for i in range(1, count):
        before.append(state)
        state = kept[:, i] * state + added[:, i]
    states = L.reshape(L.concat(before, 1), count, heads, s["states"], wide)
    y = y + L.exp(total)[..., None] * (c @ states)
    return L.reshape(L.transpose(y, 0, 1, 3, 2, 4), s["steps"], heads * wide)


def mamba_2(L: Any, batch: Batch, s: Sizes) -> Any:
    """Blocks whose heads forget at one rate each."""
    inner, states, heads = 2 * s["width"], s["states"], s["heads"]
    x = L.lookup(L.table(s["words"], s["width"]), batch["x"])
    for _ in range(s["layers"]):
        h = L.dense(L.rms_norm(x), 2 * inner + 2 * states + heads, bias=False)
        gate, rows = h[..., :inner], h[..., inner : 2 * inner + 2 * states]
        rows = L.silu(L.channels_last(L.depthwise_row(L.image(rows), 4, causal=True)))
        u, b, c = rows[..., :inner], rows[..., inner : inner + states], rows[..., inner + states :]
        delta = L.softplus(h[..., 2 * inner + 2 * states :] + L.vector(heads))
        decay = -delta * L.exp(L.vector(heads))
        heads_of = L.reshape(u, s["steps"], heads, inner // heads)
        fed = L.reshape(heads_of * delta[..., None], s["steps"], inner)
        y = _chunked(L, fed, decay, b, c, s) + u * L.vector(inner, 1.0)
        x = x + L.dense(L.rms_norm(y * L.silu(gate)), s["width"], bias=False)
    return L.dense(L.rms_norm(x), s["words"], bias=False)


MAMBA_2 = Network(
    "state space by chunks of 32 steps, 2 layers of width 64",
    mamba_2,
    text,
    {
        "batch": 8, "steps": 128, "chunk": 32, "words": 256, "width": 64, "states": 16, "heads": 4,
        "layers": 2,
    },
    {
        "batch": 2, "steps": 6, "chunk": 3, "words": 11, "width": 4, "states": 3, "heads": 2,
        "layers": 1,
    },
)  # fmt: skip

# --- an ordinary differential equation, https://arxiv.org/abs/1806.07366 --------------------------


def points(rng: np.random.Generator, s: Sizes) -> dict[str, np.ndarray]:
    """Points and their classes."""
    return {
        "x": rng.standard_normal((s["batch"], s["width"]), "float32"),
        "labels": rng.integers(0, s["classes"], s["batch"], dtype="int32"),
    }


def ode(L: Any, batch: Batch, s: Sizes) -> Any:
    """Points that flow for a while, by the classical Runge-Kutta method."""

    def slope(x: Any) -> Any:
        with L.scope("slope"):
            return L.dense(L.tanh(L.dense(x, s["units"])), s["width"])

    def step(x: Any) -> Any:
        h = 1.0 / s["steps"]
        a = slope(x)
        b = slope(x + 0.5 * h * a)
        c = slope(x + 0.5 * h * b)
        d = slope(x + h * c)
        return x + h / 6.0 * (a + 2.0 * b + 2.0 * c + d)

    return L.dense(L.repeated(step, batch["x"], s["steps"]), s["classes"])


ODE = Network(
    "differential equation, 20 steps of Runge and Kutta",
    ode,
    points,
    {"batch": 128, "width": 32, "units": 64, "steps": 20, "classes": 10},
    {"batch": 3, "width": 4, "units": 5, "steps": 3, "classes": 3},
    recurrent=True,
)

# --- a tagger, https://arxiv.org/abs/1508.01991 ---------------------------------------------------


def tagged(rng: np.random.Generator, s: Sizes) -> dict[str, np.ndarray]:
    """Sentences and their tags, one-hot."""
    shape = s["batch"], s["steps"]
    tags = rng.integers(0, s["tags"], shape)
    return {
        "x": rng.integers(0, s["words"], shape, dtype="int32"),
        "tags": np.eye(s["tags"], dtype="float32")[tags],
    }


def tagger(L: Any, batch: Batch, s: Sizes) -> Any:
    """The scores of tags, after a GRU in both directions."""
    x = L.lookup(L.table(s["words"], s["width"]), batch["x"])
    there, _ = L.gru(x, s["units"])
    back, _ = L.gru(x, s["units"], reverse=True)
    return L.dense(L.concat([there, back]), s["tags"])


def tagger_loss(L: Any, batch: Batch, s: Sizes) -> dict[str, Any]:
    """A conditional random field: how likely the right tags are among all series of tags."""
    scores, tags = tagger(L, batch, s), batch["tags"]
    moves = L.weight((s["tags"], s["tags"]), "plain", 0.1)
    right = L.row_sum(scores * tags) + L.row_sum((tags[:, :-1] @ moves) * tags[:, 1:])
    return {"": L.mean(L.chain(scores, moves) - right)}


TAGGER = Network(
    "tagger: a GRU in both directions and a conditional random field",
    tagger,
    tagged,
    {"batch": 16, "steps": 40, "words": 5000, "width": 64, "units": 64, "tags": 12},
    {"batch": 3, "steps": 5, "words": 11, "width": 4, "units": 3, "tags": 3},
    loss=tagger_loss,
    recurrent=True,
)

NETWORKS = {"mamba": MAMBA, "mamba-2": MAMBA_2, "ode": ODE, "tagger": TAGGER}
