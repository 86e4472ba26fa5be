"""Networks over graphs: convolutions by a sparse matrix, and messages along edges, with attention
to them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.networks.problem import Batch, Network, Sizes

# --- a graph convolution network, https://arxiv.org/abs/1609.02907 --------------------------------


def _edges(rng: np.random.Generator, s: Sizes) -> tuple[np.ndarray, np.ndarray]:
    sources, targets = rng.integers(0, s["nodes"], (2, s["edges"]), dtype="int32")
    return sources, targets


def _nodes(rng: np.random.Generator, s: Sizes) -> dict[str, Any]:
    return {
        "x": rng.standard_normal((s["nodes"], s["width"]), "float32"),
        "labels": rng.integers(0, s["classes"], s["nodes"], dtype="int32"),
    }


def adjacency(rng: np.random.Generator, s: Sizes) -> dict[str, Any]:
    """Nodes, their classes, and a matrix that takes the mean over each node's neighbours."""
    sources, targets = _edges(rng, s)
    shape = s["nodes"], s["nodes"]
    edges = sparse.coo_matrix((np.ones(s["edges"]), (targets, sources)), shape).tocsr()
    degrees = np.maximum(edges.sum(1), 1)
    graph = sparse.csr_matrix(edges.multiply(1 / degrees), dtype="float32")
    return {**_nodes(rng, s), "graph": graph}


def convolved(L: Any, batch: Batch, s: Sizes) -> Any:
    """Two convolutions."""
    h = L.relu(L.propagate(batch["graph"], L.dense(batch["x"], s["width"])))
    return L.propagate(batch["graph"], L.dense(h, s["classes"]))


CONVOLUTION = Network(
    "graph convolution, 5,000 nodes, 50,000 edges",
    convolved,
    adjacency,
    {"nodes": 5000, "edges": 50_000, "width": 64, "classes": 8},
    {"nodes": 12, "edges": 30, "width": 5, "classes": 3},
    reads=("x", "graph"),
    own_kernels=True,
)

# --- messages, https://arxiv.org/abs/1704.01212, and attention, https://arxiv.org/abs/1710.10903 --


def edges(rng: np.random.Generator, s: Sizes) -> dict[str, Any]:
    """Nodes, their classes, and edges between them."""
    sources, targets = _edges(rng, s)
    return {**_nodes(rng, s), "sources": sources, "targets": targets}


def attended(L: Any, batch: Batch, s: Sizes) -> Any:
    """Messages that both ends of an edge make, and a mean that attention weights."""
    sources, targets, nodes = batch["sources"], batch["targets"], s["nodes"]
    x = batch["x"]
    sent, met = (L.dense(x, s["width"]) for _ in range(2))
    messages = L.relu(L.at(sent, sources) + L.at(met, targets))
    h = L.relu(L.segment_sum(messages, targets, nodes))
    h = L.dense(h, s["width"])
    scores = L.at(L.dense(h, s["heads"]), sources) + L.at(L.dense(h, s["heads"]), targets)
    scores = L.leaky_relu(scores)
    most = L.stop(L.segment_max(scores, targets, nodes))
    weights = L.exp(scores - L.at(most, targets))
    total = L.segment_sum(weights, targets, nodes)
    weights = weights / L.at(total, targets)
    heads = L.reshape(L.at(h, sources), s["heads"], s["width"] // s["heads"])
    weighted = L.reshape(heads * L.reshape(weights, s["heads"], 1), s["width"])
    return L.dense(L.relu(L.segment_sum(weighted, targets, nodes)), s["classes"])


MESSAGES = Network(
    "message passing and graph attention, 5,000 nodes, 50,000 edges",
    attended,
    edges,
    {"nodes": 5000, "edges": 50_000, "width": 64, "heads": 4, "classes": 8},
    {"nodes": 12, "edges": 30, "width": 6, "heads": 2, "classes": 3},
    reads=("x", "sources", "targets"),
)

NETWORKS = {"graph-convolution": CONVOLUTION, "message-passing": MESSAGES}
