"""Batches that threads make: values are computed in the thread that made them.

A library whose values are lazy, such as MLX, computes them where they are needed. Threads of Keras
make batches, and the main thread needs them. MLX cannot compute there what another thread began.
"""

from __future__ import annotations

import functools
from typing import Any

from keras.src import tree
from keras.src.trainers.data_adapters import py_dataset_adapter

from backplane.keras3.call import eager_engine

_own = py_dataset_adapter.get_index


@functools.wraps(_own)
def _get_index(uid: int, i: int) -> Any:
    batch = _own(uid, i)
    engine = eager_engine()
    if "lazy" in engine.capabilities:
        engine.wait([value for value in tree.flatten(batch) if engine.owns(value)])
    return batch


def let_threads_compute() -> None:
    """Let the threads of a `PyDataset` compute what they give."""
    py_dataset_adapter.get_index = _get_index
