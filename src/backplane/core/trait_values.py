"""Values of the traits that say more than yes or no: `Primitive` in `core/tensor.py` has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple


class Memory(Enum):
    """The owner of the memory of a primitive's result, on every engine."""

    FRESH = "fresh"
    """Memory of its own, which no operand shares."""
    VIEW = "view"
    """It may share memory with the first operand, and with no other."""
    ANY = "any"
    """It may share memory with any operand."""


class Precision(Enum):
    """The part that a primitive takes in mixed precision (`compile.precision`)."""

    LOW = "low"
    """Its float32 operands are cast to the low precision: products, which are quick in it."""
    FOLLOWS = "follows"
    """It is computed in the low precision if an operand has it. Weights and numbers beside are
    cast; anything else that is float32 makes it float32."""
    BOUNDS = "bounds"
    """It follows, but not with a number that the low precision does not hold exactly: a clip to 1 −
    1e-7 would be one to 1."""
    FULL = "full"
    """Its operands keep their dtypes: sums, exponentials, whatever must be exact."""


class Fused(NamedTuple):
    """The forms in which programs write a primitive."""

    options: Sequence[Mapping[str, Any]] = ({},)
    """Parameters that tell forms apart. A parameter `axes` is that of the reductions."""
    operands: Sequence[int] = (1,)
    """The numbers of operands that are possible."""
    numbers: Sequence[str] = ()
    """Parameters whose numbers are found in the program."""
    neutral: Mapping[str, float] = MappingProxyType({})
    """Numbers for operands and parameters that the program may leave out."""
    fits: Callable[..., bool] = lambda *specs, **params: True
    """Whether operands of these specs are what the primitive takes."""
    states: int = 0
    """The number of states of a loop, whose other operands are x, two kernels and a bias."""
    parts: Callable[..., tuple[int, int, int]] = lambda **params: (1, 1, 1)
    """The numbers of gates that its kernel, recurrent kernel and bias have columns for."""
    rest: int | None = None
    """The place of the operand for all other terms of a sum (`compile.fuse.products`)."""
