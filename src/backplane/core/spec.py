"""The spec of a tensor: its shape and dtype, which are known before it has a value."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

HALVES = ("float16", "bfloat16")
FLOATS = (*HALVES, "float32", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
DTYPES = frozenset(("bool", *FLOATS, *SIGNED, *UNSIGNED))
ROUNDING = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}
"""The relative error of rounding to a dtype: the distance from 1 to the number below it."""
KEY = "key<"
"""The beginning of the dtypes of JAX's random keys. Only random functions read such tensors."""

_FLOATS = frozenset(FLOATS)
_INTEGERS = frozenset(SIGNED + UNSIGNED)


class DType(str):
    """The name of a dtype: a string with what Keras code reads from engine dtypes."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The plain name, such as `"float32"`."""
        return str.__str__(self)

    @property
    def base_dtype(self) -> DType:
        """Itself: there are no reference dtypes."""
        return self

    _is_ref_dtype = False
    """The attribute that functions of TensorFlow 1 ask before they write to a variable."""

    @property
    def is_floating(self) -> bool:
        """Whether it is a float type."""
        return self in _FLOATS

    @property
    def is_integer(self) -> bool:
        """Whether it is a signed or unsigned integer type."""
        return self in _INTEGERS


class Shape(tuple[int | None, ...]):
    """A static shape: a tuple with None for unknown sizes. It also has TensorFlow's methods."""

    __slots__ = ()

    @property
    def ndims(self) -> int:
        """The number of axes."""
        return len(self)

    rank = ndims

    def as_list(self) -> list[int | None]:
        """The sizes as a list."""
        return list(self)

    def is_fully_defined(self) -> bool:
        """Whether every size is known."""
        return None not in self


class Spec(NamedTuple):
    """The shape and dtype of a tensor. The rank is always known; an unknown size is None.

    `sparse` marks a two-dimensional tensor that engines may hold in a sparse format.
    """

    shape: tuple[int | None, ...]
    dtype: str
    sparse: bool = False

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        """Whether every size is known."""
        return None not in self.shape

    def with_shape(self, shape: tuple[int | None, ...]) -> Spec:
        """A dense spec of the same dtype and another shape."""
        return Spec(shape, self.dtype)

    def with_dtype(self, dtype: str) -> Spec:
        """A dense spec of the same shape and another dtype."""
        return Spec(self.shape, dtype)

    def accepts(self, other: Spec) -> bool:
        """Whether a value of spec `other` may serve where this spec is promised."""
        return (
            self.dtype == other.dtype
            and len(self.shape) == len(other.shape)
            and all(
                a is None or b is None or a == b
                for a, b in zip(self.shape, other.shape, strict=False)
            )
        )


def is_float(dtype: str) -> bool:
    """Whether `dtype` is a float type: the types that gradients flow through."""
    return dtype in _FLOATS


def is_integer(dtype: str) -> bool:
    """Whether `dtype` is a signed or unsigned integer type (bool is none)."""
    return dtype in _INTEGERS


def neutral(dtype: str, by: str) -> float:
    """The number that changes nothing: in a "product", a "min" or a "max" of elements."""
    if by == "product":
        return 1
    if is_float(dtype):
        return -math.inf if by == "max" else math.inf
    limits = np.iinfo(dtype)
    return int(limits.min if by == "max" else limits.max)


def bits(dtype: str) -> int:
    """Width of an element in bits; bool counts as 8."""
    digits = "".join(c for c in dtype if c.isdigit())
    return int(digits) if digits else 8


def promote(a: str, b: str) -> str:
    """The dtype of an operation on two tensors of dtypes `a` and `b`.

    bool gives way to integers, and integers give way to floats, so an integer tensor never widens a
    float (NumPy and Theano make int32 + float32 a float64). The wider of two floats wins, and
    float16 with bfloat16 makes float32. A signed with an unsigned integer makes the next wider
    signed type, int64 at most.
    """
    if a == b:
        return a
    if a == "bool" or b == "bool":
        return b if a == "bool" else a
    if (a in _FLOATS) != (b in _FLOATS):
        return a if a in _FLOATS else b
    wider = a if bits(a) >= bits(b) else b
    if a in _FLOATS:
        return "float32" if bits(a) == bits(b) else wider
    if (a in SIGNED) == (b in SIGNED):
        return wider
    signed, unsigned = (a, b) if a in SIGNED else (b, a)
    if bits(signed) > bits(unsigned):
        return signed
    return f"int{min(2 * bits(unsigned), 64)}"


# --- sets of dtypes -------------------------------------------------------------------------------

FLOAT = frozenset(FLOATS)
INTEGER = frozenset(SIGNED + UNSIGNED)
NUMBER = FLOAT | INTEGER
BOOL = frozenset(("bool",))

_WORDS = {FLOAT: "floats", INTEGER: "integers", NUMBER: "numbers", BOOL: "bools"}


def check_dtype(name: str, argument: str, dtype: str, accepted: frozenset[str]) -> None:
    """TypeError unless `dtype` is one of `accepted`, which is one of the sets above."""
    if dtype not in accepted:
        raise TypeError(
            f"{name}: {argument} must hold {_WORDS[accepted]}, got dtype {dtype}; cast it"
        )
