"""The types in the signatures of K, for annotations in code that uses it.

    from backplane.backend.types import Axes, TensorLike

    def rms(x: TensorLike, axis: Axes = None) -> Tensor: ...

These names are for type checkers and readers. Nothing is checked against them at run time. Some
functions accept more than their types say: a whole float for an int, because R has no other
numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import numpy as np

from backplane.core.graph import Tensor
from backplane.core.variable import Variable

__all__ = [
    "Axes", "Axis", "CausalPadding", "DType", "DataFormat", "File", "Interpolation", "LossScale",
    "MeshAxes", "NativeDType", "NativeT", "NativeTensor", "Numbers", "Padding", "Pair", "PoolMode",
    "Shape", "Size", "Sizes", "StaticShape", "Symbolic", "Tensor", "TensorLike", "Tree", "Variable",
]  # fmt: skip


class NativeTensor(Protocol):
    """A tensor of an engine, an array, or an object of another library that stands for a tensor."""

    @property
    def shape(self) -> Any:
        """The sizes, in the engine's own form."""

    @property
    def dtype(self) -> Any:
        """The dtype, as the engine's own object."""


class NativeDType(Protocol):
    """The dtype object of an engine, such as `torch.float32`."""

    @property
    def itemsize(self) -> int:
        """Bytes per element."""


NativeT = TypeVar("NativeT", bound=NativeTensor)
"""A native tensor that comes back as one of the same kind."""

Numbers: TypeAlias = "float | Sequence[Numbers]"
"""A number (an int or a bool too), or a nested list of numbers."""

TensorLike: TypeAlias = "Tensor | NativeTensor | Numbers"
"""Whatever K computes with: symbolic tensors, variables, native tensors, arrays, numbers, lists."""

Tree: TypeAlias = "TensorLike | Sequence[Tree] | Mapping[str, Tree]"
"""A tensor, or a nested list, tuple or dict of tensors."""

File: TypeAlias = "str | PathLike[str]"
"""The path of a file."""

LossScale: TypeAlias = "float | Literal['dynamic'] | Mapping[str, float] | None"
"""By what a loss is multiplied: a number, `"dynamic"`, or a dict with `initial` and `steps`."""

MeshAxes: TypeAlias = "str | Sequence[str] | None"
"""The split of one axis of a tensor: an axis of the mesh, several of them, or nothing."""

Symbolic: TypeAlias = "Tensor | Numbers"
"""Operands of functions that make symbolic tensors: tensors and numbers, but no tensors of an
engine."""

Size: TypeAlias = "int | Tensor | NativeTensor"
"""A size that is known, or an integer scalar tensor that holds it."""

Shape: TypeAlias = "int | Sequence[Size | None] | Tensor | NativeTensor"
"""A shape as functions take it: sizes, or an integer vector tensor such as `K.shape(x)`."""

Seed: TypeAlias = "int | Tensor | NativeTensor | None"
"""A seed, or a random key."""

StaticShape: TypeAlias = tuple[int | None, ...]
"""A shape as functions give it: None for each size that is not known before a value is fed."""

DType: TypeAlias = str | type | np.dtype[Any] | NativeDType
"""The name of a dtype (`"float32"`), or an object that has such a name."""

Axis: TypeAlias = int
"""One axis; negative ones count from the end."""

Axes: TypeAlias = int | Sequence[int] | None
"""One axis or several; None means all of them."""

Sizes: TypeAlias = int | Sequence[int]
"""One number for all spatial axes, or one for each: strides, dilation rates, windows."""

Pair: TypeAlias = Sequence[Size]
"""The number of elements to add before an axis, and the number to add after it."""

Padding: TypeAlias = Literal["valid", "same"]
"""`"valid"`: only windows that lie inside; `"same"`: zeros around, so that the strides alone decide
how many windows there are."""

CausalPadding: TypeAlias = Literal["valid", "same", "causal"]
"""`Padding`, or `"causal"`: zeros in front only, so that no output sees a later input."""

DataFormat: TypeAlias = Literal["channels_first", "channels_last"]
"""The place of the channels among the axes of an image."""

PoolMode: TypeAlias = Literal["max", "avg"]
"""Whether pooling takes the maximum or the mean of each window."""

Interpolation: TypeAlias = Literal["nearest", "bilinear"]
"""The method that finds pixels between the given ones."""
