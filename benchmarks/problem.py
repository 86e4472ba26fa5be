"""What is measured: a problem, and a run of it by one contender.

A workload module in `benchmarks.workloads` states a problem once and offers contenders for it, by
stack. A stack is what shares a process: an engine with its Backplane program and its hand-written
ones, Keras 3 on one of its backends, or the reference K.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

ENGINES = ("numpy", "tensorflow", "jax", "torch", "theano", "cntk")
KERAS3 = ("keras3-tensorflow", "keras3-jax", "keras3-torch")
REFERENCE = "reference"
STACKS = (*ENGINES, *KERAS3, REFERENCE)

LIBRARY = {
    "numpy": "NumPy",
    "tensorflow": "TensorFlow",
    "jax": "JAX",
    "torch": "PyTorch",
    "theano": "PyTensor",
    "cntk": "ONNX Runtime",
}
"""Engine → the library that people know it by."""

BACKPLANE = "Backplane"


def _nothing() -> None:
    """A run without state has nothing to reset."""


@dataclass
class Run:
    """A contender, built and ready: what is timed is `call(*arguments)`.

    `reset` puts parameters and optimizer state back to their initial values; `value` makes the
    number or array that is compared out of what a call returns.
    """

    call: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    reset: Callable[[], None] = _nothing
    value: Callable[[Any], Any] = np.asarray


Builder = Callable[[Any], Run]


@dataclass(frozen=True)
class Optimizer:
    """SGD with momentum (`adam=False`) or Adam, with the constants that Keras has as defaults."""

    rate: float
    momentum: float = 0.0
    adam: bool = False
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-7


@dataclass(frozen=True)
class Training:
    """A training step on one batch: the same initial parameters and data for every contender."""

    parameters: Sequence[np.ndarray]
    x: np.ndarray
    y: np.ndarray
    optimizer: Optimizer
    dropout: float = 0.0
    sizes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """How a workload is timed: a block is `warmup` calls and then `samples` samples of `inner`
    calls each.
    """

    samples: int
    inner: int = 1
    warmup: int = 2
    tolerance: float = 1e-4
    unit: str = "ms"
