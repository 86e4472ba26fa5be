"""The workloads, by name."""

from __future__ import annotations

import importlib
from types import ModuleType

INTERLEAVED = (
    "call",
    "mlp-sgd",
    "mlp-adam",
    "cnn",
    "lstm",
    "chain",
    "overhead-eager",
    "overhead-eval",
)
"""Workloads whose contenders take turns, block by block."""

SEPARATE = ("start-import", "start-small", "start-mlp", "growth", "memory")
"""Workloads that need a new process for each measurement."""

NAMES = (*INTERLEAVED, *SEPARATE)


def module(name: str) -> ModuleType:
    """The module of an interleaved workload, by its name."""
    return importlib.import_module("benchmarks.workloads." + name.partition("-")[0])
