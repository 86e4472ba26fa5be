"""What a network is to the benchmark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from benchmarks.problem import Optimizer

ADAM = Optimizer(1e-4, adam=True, epsilon=1e-10)
"""PyTorch adds epsilon elsewhere: a small one keeps the numbers comparable."""
MOMENTUM = Optimizer(2e-5, momentum=0.9)
"""So slow that rounding is not amplified to other losses within 20 steps."""

Batch = Mapping[str, Any]
Sizes = Mapping[str, Any]


def _labelled(network: Network, layers: Any, batch: Batch, sizes: Sizes) -> dict[str, Any]:
    return {"": layers.cross_entropy(network.forward(layers, batch, sizes), batch["labels"])}


@dataclass(frozen=True)
class Network:
    """A network, its data and how it is trained.

    `forward(layers, batch, sizes)` gives what is predicted. `losses` gives a loss for each scope of
    weights; without one it is the cross-entropy of what is predicted and `batch["labels"]`.
    `data(rng, sizes)` gives the batch.
    """

    title: str
    forward: Callable[[Any, Batch, Sizes], Any] | None
    data: Callable[[np.random.Generator, Sizes], dict[str, np.ndarray]]
    sizes: Sizes
    tiny: Sizes
    """What differs in `sizes` where only the numbers are checked."""
    loss: Callable[[Any, Batch, Sizes], dict[str, Any]] | None = None
    optimizer: Optimizer = ADAM
    reads: Sequence[str] = ("x",)
    """What a prediction reads of a batch."""
    keras3: bool = False
    """Whether there is a rival made of Keras 3's layers."""
    recurrent: bool = False
    """Whether steps follow each other, each on the state that the last one left."""
    own_kernels: bool = False
    """Whether programs by hand use kernels of their library that neither XLA nor ONNX has."""
    tolerance: float = 2e-3
    """How far losses may be apart after 20 steps: training amplifies rounding."""

    def losses(self, layers: Any, batch: Batch, sizes: Sizes) -> dict[str, Any]:
        """From each scope of weights to the loss that they are trained by."""
        layers.begin()
        return (self.loss or (lambda *a: _labelled(self, *a)))(layers, batch, sizes)

    def predicted(self, layers: Any, batch: Batch, sizes: Sizes) -> Any:
        """What the network predicts."""
        assert self.forward is not None
        layers.begin()
        return self.forward(layers, batch, sizes)

    def inputs(self, batch: Batch) -> dict[str, Any]:
        """The part of a batch that a prediction reads."""
        return {name: batch[name] for name in self.reads}

    def chosen(self, tiny: bool) -> dict[str, Any]:
        """The sizes."""
        return {**self.sizes, **self.tiny} if tiny else dict(self.sizes)


def with_graphs(batch: Batch, prepare: Callable[[Any], Any]) -> dict[str, Any]:
    """A batch whose sparse matrices are as a library wants them."""
    return {name: prepare(a) if issparse(a) else a for name, a in batch.items()}
