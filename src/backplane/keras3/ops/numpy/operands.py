"""Helpers that the functions of these chapters share: operands, their dtypes, axes, places."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from backplane.backend._args import as_axes, as_axis
from backplane.core.graph import Tensor
from backplane.core.spec import HALVES, bits, is_float, is_integer
from backplane.keras3.operands import alike as alike
from backplane.keras3.operands import dtype_of, result_type, tensor_of
from backplane.ops import elementwise as ew
from backplane.ops.axes import merge_axes
from backplane.ops.creation import like as like
from backplane.ops.creation import scalar
from backplane.ops.lift import cast_to
from backplane.ops.ragged import positions, size_of

Function = Callable[..., Any]

SCALARS = (bool, int, float)
"""Python numbers: they never widen the dtype of a tensor."""


def floatx() -> str:
    """The default dtype of floats, in Keras' settings."""
    from keras.src.backend.config import floatx as found

    return found()


def float_of(x: Any) -> Tensor:
    """The operand as a tensor of the float dtype that Keras gives a function of it: int64 becomes
    `floatx()`, and all others what `result_type` says: float32 of float64, where it is not kept.
    """
    x = tensor_of(x)
    kind = x.spec.dtype
    return cast_to(x, floatx() if kind == "int64" else result_type(kind, float))


def tensors(*xs: Any) -> list[Any]:
    """The operands as tensors, but for Python numbers, which are left."""
    return [x if isinstance(x, SCALARS) else tensor_of(x) for x in xs]


def common_type(*xs: Any, also: Sequence[Any] = ()) -> str:
    """The dtype of a result of these operands, and of operands of the dtypes `also`."""
    return result_type(*[type(x) if isinstance(x, SCALARS) else dtype_of(x) for x in xs], *also)


def cast_all(dtype: str, *xs: Any) -> list[Tensor]:
    """Tensors and numbers, all in `dtype`."""
    return [scalar(x, dtype) if isinstance(x, SCALARS) else cast_to(x, dtype) for x in xs]


def floats(*xs: Any) -> list[Tensor]:
    """The operands as tensors of the one float dtype that Keras chooses for them."""
    given = tensors(*xs)
    return cast_all(common_type(*given, also=[float]), *given)


def compared(*xs: Any) -> list[Tensor]:
    """The operands of a comparison. Equal dtypes stay as they are: Keras' rules would make 32 bits
    of 64, and numbers that differ might be equal then.
    """
    given = tensors(*xs)
    kinds = {x.spec.dtype if isinstance(x, Tensor) else None for x in given}
    return given if len(kinds) == 1 and None not in kinds else alike(*given)


def integers_or_floats(x: Any) -> Tensor:
    """The operand as a tensor of numbers: bools become int32."""
    x = tensor_of(x)
    return cast_to(x, "int32") if x.spec.dtype == "bool" else x


def wide(dtype: str) -> str:
    """The dtype of a sum: counters have 32 bits at least."""
    if is_float(dtype) or bits(dtype) >= 32:
        return dtype
    return "uint32" if dtype.startswith("u") else "int32"


def single(dtype: str) -> str:
    """The dtype in which a mean is computed: 16 bits would overflow."""
    return "float32" if dtype in HALVES else dtype


def is_floating(x: Tensor) -> bool:
    """Whether it holds floats."""
    return is_float(x.spec.dtype)


def is_whole(x: Tensor) -> bool:
    """Whether it holds integers."""
    return is_integer(x.spec.dtype)


def truth(x: Any) -> Tensor:
    """The operand as bools: everything but 0 is true."""
    return cast_to(tensor_of(x), "bool")


# --- axes -----------------------------------------------------------------------------------------


def listed(value: Any) -> list[Any]:
    """A list of what may be a single value."""
    return list(value) if isinstance(value, list | tuple | range) else [value]


def flat(x: Tensor) -> Tensor:
    """The elements, row by row, as a vector."""
    return merge_axes(x, [range(x.ndim)])


def along(x: Tensor, axis: Any) -> tuple[Tensor, int]:
    """The tensor and the axis that a function works along: with None, all elements are one axis."""
    if axis is None:
        return flat(x), 0
    return x, as_axis(axis, x)


def reduced(reduction: ew.Op, x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    """`x` reduced along `axis`, or `x` itself if that names no axis."""
    axes = as_axes(axis, x)
    return reduction(x, axes=axes, keepdims=bool(keepdims)) if axes else x


def lined_up(vector: Tensor, axis: int, rank: int) -> Tensor:
    """A vector along `axis` of a tensor of `rank` axes: all other axes have size 1."""
    from backplane.ops.shaping import expand_dims

    others = tuple(i for i in range(rank) if i != axis)
    return expand_dims(vector, axes=others) if others else vector


def places(x: Tensor, axis: int) -> Tensor:
    """The numbers 0, 1, … along `axis` of `x`: int32, and all other axes have size 1."""
    return lined_up(positions(x, axis), axis, x.ndim)


def length(x: Tensor, axis: int) -> Tensor:
    """The size of an axis as an int32 scalar."""
    return size_of(x, axis)
