"""Networks on records: many tables, features that are chosen, and mixtures."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.networks.problem import Batch, Network, Sizes
from benchmarks.problem import Optimizer

# --- DeepFM, https://arxiv.org/abs/1703.04247 -----------------------------------------------------


def clicks(rng: np.random.Generator, s: Sizes) -> dict[str, np.ndarray]:
    """A row for each field, and whether there was a click."""
    x = rng.integers(0, s["rows"], (s["batch"], s["fields"]), dtype="int32")
    if not s["apart"]:
        x += np.arange(s["fields"], dtype="int32") * s["rows"]
    return {"x": x, "clicked": rng.integers(0, 2, (s["batch"], 1)).astype("float32")}


def _fields(L: Any, x: Any, width: int, s: Sizes) -> Any:
    """(samples, fields, width): a table for each field, or one for all."""
    if not s["apart"]:
        return L.lookup(L.table(s["fields"] * s["rows"], width), x)
    tables = [L.table(s["rows"], width) for _ in range(s["fields"])]
    found = [L.lookup(table, x[:, i]) for i, table in enumerate(tables)]
    return L.reshape(L.concat(found), s["fields"], width)


def deepfm(L: Any, batch: Batch, s: Sizes) -> Any:
    """Products of all pairs of fields, and dense layers."""
    v = _fields(L, batch["x"], s["width"], s)
    first = L.sum_over(_fields(L, batch["x"], 1, s), 1)
    pairs = L.square(L.sum_over(v, 1)) - L.sum_over(L.square(v), 1)
    h = L.reshape(v, s["fields"] * s["width"])
    for units in s["units"]:
        h = L.relu(L.dense(h, units))
    return first + L.dense(h, 1) + 0.5 * L.sum_over(pairs, 1)[:, None]


def deepfm_loss(L: Any, batch: Batch, s: Sizes) -> dict[str, Any]:
    """Clicked or not."""
    return {"": L.binary(deepfm(L, batch, s), batch["clicked"])}


_SIZES = {"batch": 256, "fields": 26, "rows": 100_000, "width": 16, "units": (128, 64)}
_TINY = {"batch": 5, "fields": 3, "rows": 7, "width": 3, "units": (4,)}

DEEPFM = Network(
    "DeepFM, 26 fields in one table of 2,600,000 rows",
    deepfm,
    clicks,
    {**_SIZES, "apart": False},
    _TINY,
    loss=deepfm_loss,
    optimizer=Optimizer(0.1),
)
DEEPFM_26 = Network(
    "DeepFM, 26 tables of 100,000 rows",
    deepfm,
    clicks,
    {**_SIZES, "apart": True},
    _TINY,
    loss=deepfm_loss,
    optimizer=Optimizer(0.1),
)

# --- Wide & Deep, https://arxiv.org/abs/1606.07792 ------------------------------------------------


def visitors(rng: np.random.Generator, s: Sizes) -> dict[str, np.ndarray]:
    """Categories, crossed categories, numbers, and whether they bought."""
    shape = s["batch"], s["fields"]
    return {
        "x": rng.integers(0, s["rows"], shape, dtype="int32"),
        "crossed": rng.integers(0, s["crossings"], shape, dtype="int32"),
        "numbers": rng.standard_normal((s["batch"], s["numbers"]), "float32"),
        "bought": rng.integers(0, 2, (s["batch"], 1)).astype("float32"),
    }


def wide_deep(L: Any, batch: Batch, s: Sizes) -> Any:
    """A linear model of crossed categories beside dense layers over embeddings."""
    wide = L.sum_over(L.lookup(L.table(s["crossings"], 1), batch["crossed"]), 1)
    tables = [L.table(s["rows"], s["width"]) for _ in range(s["fields"])]
    found = [L.lookup(table, batch["x"][:, i]) for i, table in enumerate(tables)]
    h = L.concat([*found, batch["numbers"]])
    for units in s["units"]:
        h = L.relu(L.dense(h, units))
    return wide + L.dense(h, 1)


def wide_deep_loss(L: Any, batch: Batch, s: Sizes) -> dict[str, Any]:
    """Bought or not."""
    return {"": L.binary(wide_deep(L, batch, s), batch["bought"])}


WIDE_DEEP = Network(
    "Wide & Deep, 8 tables of 1,000 rows, 100,000 crossings",
    wide_deep,
    visitors,
    {
        "batch": 256, "fields": 8, "rows": 1000, "width": 32, "numbers": 13, "crossings": 100_000,
        "units": (256, 128, 64),
    },
    {
        "batch": 5, "fields": 3, "rows": 7, "width": 3, "numbers": 2, "crossings": 20,
        "units": (4,),
    },
    loss=wide_deep_loss,
    optimizer=Optimizer(0.1),
    reads=("x", "crossed", "numbers"),
)  # fmt: skip

# --- TabNet, https://arxiv.org/abs/1908.07442 -----------------------------------------------------


def records(rng: np.random.Generator, s: Sizes) -> dict[str, np.ndarray]:
    """Numbers and classes."""
    return {
        "x": rng.standard_normal((s["batch"], s["features"]), "float32"),
        "labels": rng.integers(0, s["classes"], s["batch"], dtype="int32"),
    }


def _sparsemax(L: Any, z: Any, size: int) -> Any:
    """The nearest point of the simplex, https://arxiv.org/abs/1602.02068."""
    ordered = L.descending(z)
    ranks = L.constant("ranks", lambda: np.arange(1, size + 1, dtype="float32"))
    inside = L.stop(L.positive(1.0 + ranks * ordered - L.cumsum(ordered, 1)))
    limit = (L.sum_over(inside * ordered, 1) - 1.0) / L.sum_over(inside, 1)
    return L.relu(z - limit[:, None])


def _chosen(L: Any, x: Any, width: int) -> Any:
    """Gated layers: one that all decisions share, and one of each decision."""
    with L.scope("shared"):
        h = L.dense(x, 2 * width, bias=False)
    h = L.glu(L.batch_norm(h))
    return (h + L.glu(L.batch_norm(L.dense(h, 2 * width, bias=False)))) * 0.5**0.5


def tabnet(L: Any, batch: Batch, s: Sizes) -> Any:
    """Decisions one after the other, each on features that the last one chose."""
    width, features = s["width"], s["features"]
    x = L.batch_norm(batch["x"])
    a = _chosen(L, x, 2 * width)[:, width:]
    left: Any = 1.0
    total: Any = 0.0
    for _ in range(s["decisions"]):
        scores = L.batch_norm(L.dense(a, features, bias=False))
        mask = _sparsemax(L, left * scores, features)
        left = left * (1.3 - mask)
        h = _chosen(L, mask * x, 2 * width)
        total, a = total + L.relu(h[:, :width]), h[:, width:]
    return L.dense(total, s["classes"])


TABNET = Network(
    "TabNet, 3 decisions on 64 features",
    tabnet,
    records,
    {"batch": 512, "features": 64, "width": 32, "decisions": 3, "classes": 8},
    {"batch": 6, "features": 5, "width": 3, "decisions": 2, "classes": 3},
    tolerance=0.02,
)

# --- a mixture density network, https://publications.aston.ac.uk/id/eprint/373 --------------------


def curves(rng: np.random.Generator, s: Sizes) -> dict[str, np.ndarray]:
    """Numbers, and what may follow from them."""
    x = rng.standard_normal((s["batch"], s["inputs"]), "float32")
    return {"x": x, "y": rng.standard_normal((s["batch"], 1), "float32")}


def mixture(L: Any, batch: Batch, s: Sizes) -> Any:
    """Weights, means and logarithms of widths of normal distributions."""
    h = batch["x"]
    for units in s["units"]:
        h = L.tanh(L.dense(h, units))
    return L.dense(h, 3 * s["parts"])


def mixture_loss(L: Any, batch: Batch, s: Sizes) -> dict[str, Any]:
    """How unlikely the data are."""
    found, parts = mixture(L, batch, s), s["parts"]
    scores, mean, width = (found[:, i * parts : (i + 1) * parts] for i in range(3))
    apart = (batch["y"] - mean) * L.exp(-width)
    logs = scores - width - 0.5 * L.square(apart) - 0.5 * float(np.log(2 * np.pi))
    return {"": L.mean(L.logsumexp(scores) - L.logsumexp(logs))}


MIXTURE = Network(
    "mixture density network, 10 parts",
    mixture,
    curves,
    {"batch": 256, "inputs": 8, "units": (128, 128), "parts": 10},
    {"batch": 4, "inputs": 2, "units": (4,), "parts": 2},
    loss=mixture_loss,
)

NETWORKS = {
    "deepfm": DEEPFM,
    "deepfm-26": DEEPFM_26,
    "wide-deep": WIDE_DEEP,
    "tabnet": TABNET,
    "mixture": MIXTURE,
}
