"""Dtype names and PyTorch's dtypes, and arithmetic on unsigned integers.

PyTorch stores uint16, uint32 and uint64 but has few kernels for them. Their lowerings run the
signed kernels of the same width on the same bits: modular arithmetic needs nothing else,
comparisons need the sign bit flipped.
"""

from __future__ import annotations

import torch

from backplane.core.spec import DTYPES, Spec
from backplane.engines.base import Lowering, Value

TORCH: dict[str, torch.dtype] = {name: getattr(torch, name) for name in DTYPES}
NAMES: dict[torch.dtype, str] = {dtype: name for name, dtype in TORCH.items()}

SIGNED = {"uint16": torch.int16, "uint32": torch.int32, "uint64": torch.int64}
"""The dtypes that lack kernels, and the signed ones that stand in."""


def modular(spec: Spec, function: Lowering) -> Lowering:
    """`function`, which computes modulo 2**n, for operands of that spec."""
    if spec.dtype not in SIGNED:
        return function
    dtype, signed = TORCH[spec.dtype], SIGNED[spec.dtype]

    def lowering(*operands: Value, out: Value | None = None) -> Value:
        found = function(*[x.view(signed) for x in operands]).view(dtype)
        return found if out is None else out.copy_(found)

    return lowering


def compared(spec: Spec, function: Lowering) -> Lowering:
    """`function`, which compares its operands, for operands of that spec."""
    if spec.dtype not in SIGNED:
        return function
    signed = SIGNED[spec.dtype]
    lowest = torch.iinfo(signed).min
    return lambda *operands, **given: function(
        *[x.view(signed) ^ lowest for x in operands], **given
    )


def ordered(spec: Spec, function: Lowering) -> Lowering:
    """`compared` for a function that returns elements of its operands."""
    if spec.dtype not in SIGNED:
        return function
    dtype, choice = TORCH[spec.dtype], compared(spec, function)
    lowest = torch.iinfo(SIGNED[spec.dtype]).min

    def lowering(*operands: Value, out: Value | None = None) -> Value:
        found = (choice(*operands) ^ lowest).view(dtype)
        return found if out is None else out.copy_(found)

    return lowering


def widened(spec: Spec, function: Lowering) -> Lowering:
    """`function` in int64, where uint16 and uint32 have room, but not uint64."""
    if spec.dtype not in SIGNED:
        return function
    if spec.dtype == "uint64":
        raise NotImplementedError("PyTorch has no kernel for this operation on uint64")
    dtype = TORCH[spec.dtype]

    def lowering(*operands: Value) -> Value:
        return function(*[x.to(torch.int64) for x in operands]).to(dtype)

    return lowering
