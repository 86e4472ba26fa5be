"""Dtype names and PyTorch's dtypes, and arithmetic on unsigned integers.

PyTorch stores uint16, uint32 and uint64 but has few kernels for them. Their lowerings run the
signed kernels of the same width on the same bits: modular arithmetic needs nothing else,
comparisons need the sign bit flipped.
"""

from __future__ import annotations

from functools import partial

import ml_dtypes
import numpy as np
import torch

from backplane.core.spec import DTYPES, Spec
from backplane.engines.table import Lowering, Value

TORCH: dict[str, torch.dtype] = {name: getattr(torch, name) for name in DTYPES}
NAMES: dict[torch.dtype, str] = {dtype: name for name, dtype in TORCH.items()}

SIGNED = {"uint16": torch.int16, "uint32": torch.int32, "uint64": torch.int64}
"""The dtypes that lack kernels, and the signed ones that stand in."""


def to_array(value: Value) -> np.ndarray:
    """The values of a tensor, on any tape or device. bfloat16 is copied bit by bit."""
    value = value.detach().cpu()
    if value.dtype != torch.bfloat16:
        return value.numpy()
    return value.view(torch.int16).numpy().view(ml_dtypes.bfloat16)


def _by_bits(spec: Spec, function: Lowering, *, flipped: bool, back: bool) -> Lowering:
    """`function`, applied to the operands' bits read as signed numbers.

    With `flipped`, their sign bits are flipped before, so that they are ordered like the unsigned
    numbers. With `back`, the result is turned into an unsigned number again.
    """
    if spec.dtype not in SIGNED:
        return function
    dtype, signed = TORCH[spec.dtype], SIGNED[spec.dtype]
    lowest = torch.iinfo(signed).min

    def as_signed(x: Value) -> Value:
        return x.view(signed) ^ lowest if flipped else x.view(signed)

    def lowering(*operands: Value, out: Value | None = None) -> Value:
        result = function(*map(as_signed, operands))
        if back:
            result = (result ^ lowest if flipped else result).view(dtype)
        return result if out is None else out.copy_(result)

    return lowering


modular = partial(_by_bits, flipped=False, back=True)
"""For a spec, a function that computes modulo 2**n."""
compared = partial(_by_bits, flipped=True, back=False)
"""For a spec, a function that compares its operands."""
ordered = partial(_by_bits, flipped=True, back=True)
"""For a spec, a function that compares its operands and returns elements of them."""


def widened(spec: Spec, function: Lowering) -> Lowering:
    """`function` in int64, which holds all uint16 and uint32, but not all uint64."""
    if spec.dtype not in SIGNED:
        return function
    if spec.dtype == "uint64":
        raise NotImplementedError("PyTorch has no kernel for this operation on uint64")
    dtype = TORCH[spec.dtype]

    def lowering(*operands: Value) -> Value:
        return function(*[x.to(torch.int64) for x in operands]).to(dtype)

    return lowering
