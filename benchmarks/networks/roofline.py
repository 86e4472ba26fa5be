"""How near a network comes to what the machine can do."""

from __future__ import annotations

from time import process_time
from typing import Any

import numpy as np
from scipy.sparse import issparse

from backplane.core.spec import Spec
from benchmarks.networks.problem import Batch, Network, Sizes

SIDE = 1024
BYTES = 256 * 2**20


def limits() -> dict[str, float]:
    """Operations per second of a product of large matrices, and bytes per second of a copy of a
    large array (read once, written once); float32, one core, the best of ten.
    """
    a, b = (np.ones((SIDE, SIDE), "float32") for _ in range(2))
    source, target = np.ones(BYTES // 4, "float32"), np.ones(BYTES // 4, "float32")
    product = min(_seconds(lambda: np.matmul(a, b)) for _ in range(10))
    copy = min(_seconds(lambda: np.copyto(target, source)) for _ in range(10))
    return {"flops": 2 * SIDE**3 / product, "bytes": 2 * BYTES / copy}


def _seconds(function: Any) -> float:
    start = process_time()
    function()
    return process_time() - start


def work(network: Network, batch: Batch, sizes: Sizes) -> dict[str, int]:
    """Of a training step: floating-point operations, by the estimate that `f.summary()` shows, and
    the bytes that no program can do without: variables, read and written, and data.
    """
    from backplane.compile.stepwise import as_built
    from backplane.core.graph import toposort
    from backplane.views.costs import flops, size
    from benchmarks.networks.programs import k

    step = k.train(network, batch, sizes).call._function.plan
    outputs = as_built([*step.outputs, *step.news], step.defaults)
    count = len(next(iter(batch.values())))
    kept = sum(size(v.spec, count) for v in step.variables)
    written = sum(size(v.spec, count) for v in step.updated)
    return {
        "flops": int(sum(flops(t, count) * _filled(t, batch) for t in toposort(outputs))),
        "bytes": kept + written + sum(map(_bytes, batch.values())),
    }


def _filled(t: Any, batch: Batch) -> float:
    """The share of elements that a product of a sparse matrix reads."""
    # A node with several results has a tuple of specs: none of them is sparse.
    if not any(isinstance(x.spec, Spec) and x.spec.sparse for x in t.inputs):
        return 1.0
    (graph,) = (a for a in batch.values() if issparse(a))
    return graph.nnz / np.prod(graph.shape)


def _bytes(a: Any) -> int:
    return sum(x.nbytes for x in (a.data, a.indices, a.indptr)) if issparse(a) else a.nbytes
