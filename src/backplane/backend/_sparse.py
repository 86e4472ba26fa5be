"""Sparse tensors as values: which elements are there, and what they are."""

from __future__ import annotations

from typing import Any


class SparseTensor:
    """A sparse tensor in coordinate form, as TensorFlow has it, of tensors or native values."""

    __slots__ = ("dense_shape", "indices", "values")

    def __init__(self, indices: Any, values: Any, dense_shape: Any) -> None:
        self.indices = indices
        """int64 (entries, axes): where each entry is, in row-major order."""
        self.values = values
        """(entries,): the entries."""
        self.dense_shape = dense_shape
        """int64 (axes,): the shape of the dense tensor."""

    @property
    def dtype(self) -> Any:
        """The dtype of the entries."""
        return self.values.dtype

    def __repr__(self) -> str:
        parts = f"indices={self.indices}, values={self.values}, dense_shape={self.dense_shape}"
        return f"SparseTensor({parts})"
