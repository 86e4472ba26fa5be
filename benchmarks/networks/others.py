"""A recommender, whose table is much larger than what a step reads, and a network that solves a
differential equation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.networks.problem import Batch, Network, Sizes
from benchmarks.problem import Optimizer

# --- a recommender of two towers ------------------------------------------------------------------


def visits(rng: np.random.Generator, s: Sizes) -> dict[str, np.ndarray]:
    """Who saw what, and whether they liked it."""
    return {
        "x": rng.integers(0, s["users"], s["batch"], dtype="int32"),
        "items": rng.integers(0, s["items"], s["batch"], dtype="int32"),
        "liked": rng.integers(0, 2, (s["batch"], 1)).astype("float32"),
    }


def recommender(L: Any, batch: Batch, s: Sizes) -> Any:
    """The rows of user and item, joined and judged."""
    user = L.lookup(L.table(s["users"], s["width"]), batch["x"])
    item = L.lookup(L.table(s["items"], s["width"]), batch["items"])
    h = L.concat([user, item, user * item])
    for units in s["units"]:
        h = L.relu(L.dense(h, units))
    return L.dense(h, 1)


def recommender_loss(L: Any, batch: Batch, s: Sizes) -> dict[str, Any]:
    """Liked or not."""
    return {"": L.binary(recommender(L, batch, s), batch["liked"])}


RECOMMENDER = Network(
    "recommender, tables of 1,000,000 and 100,000 rows",
    recommender,
    visits,
    {"batch": 256, "users": 1_000_000, "items": 100_000, "width": 32, "units": (128, 64)},
    {"batch": 5, "users": 20, "items": 9, "width": 3, "units": (4,)},
    loss=recommender_loss,
    reads=("x", "items"),
    optimizer=Optimizer(0.1),
)

# --- Burgers' equation, https://arxiv.org/abs/1711.10561 ------------------------------------------


def places(rng: np.random.Generator, s: Sizes) -> dict[str, np.ndarray]:
    """Places and times inside, and where the solution is known at the beginning."""
    x = rng.uniform(-1, 1, (s["points"], 2)).astype("float32")
    start = np.stack([rng.uniform(-1, 1, s["known"]), np.zeros(s["known"])], 1)
    return {
        "x": x,
        "start": start.astype("float32"),
        "known": -np.sin(np.pi * start[:, :1]).astype("float32"),
    }


def _solution(L: Any, x: Any, s: Sizes) -> Any:
    with L.scope("solution"):
        for units in s["units"]:
            x = L.tanh(L.dense(x, units))
        return L.dense(x, 1)


def solution(L: Any, batch: Batch, s: Sizes) -> Any:
    """The solution at places and times."""
    return _solution(L, batch["x"], s)


def burgers(L: Any, batch: Batch, s: Sizes) -> dict[str, Any]:
    """u_t + u · u_x = 0.01 / π · u_xx inside, and the known values at the beginning."""

    def u(x: Any) -> Any:
        return _solution(L, x, s)

    def u_x(x: Any) -> Any:
        return L.gradient(u, x)[:, :1]

    x = L.watched(batch["x"])
    slopes = L.gradient(u, x)
    bent = L.gradient(u_x, x)[:, :1]
    inside = slopes[:, 1:] + u(x) * slopes[:, :1] - 0.01 / np.pi * bent
    start = u(batch["start"]) - batch["known"]
    return {"": L.mean(L.square(inside)) + L.mean(L.square(start))}


PHYSICS = Network(
    "physics-informed network (Burgers' equation)",
    solution,
    places,
    {"points": 1024, "known": 128, "units": (50, 50, 50, 50)},
    {"points": 6, "known": 3, "units": (4, 4)},
    loss=burgers,
)

NETWORKS = {"recommender": RECOMMENDER, "physics": PHYSICS}
