"""Lowering: attention without its gradient, by PyTorch's kernel for processors.

The kernel computes the scores block by block and keeps none of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import torch

from backplane.core.spec import Spec
from backplane.engines.table import Lowering, Table, Value
from backplane.engines.torch import devices
from backplane.engines.torch.tracing import only_values_count

TABLE = Table()

FEWEST_KEYS = 128
"""Keys from which on the kernel serves: with 64 it takes 0.9 to 1.2 of single operations."""
LOST = 104.0
"""Numbers below minus this have an exponential of 0 in float32."""

kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu


def _has_no_kernel(specs: Sequence[Spec], *, scale: float, hidden: float | None) -> bool:
    q, k, v, *_ = specs
    keys = k.shape[-2]
    few = keys is not None and keys < FEWEST_KEYS
    other = q.shape[-1] != v.shape[-1] or q.dtype != "float32" or 0 in q.shape
    return few or other or devices.ACCELERATED


@TABLE.build("attention", unless=_has_no_kernel)
def attention(specs: Sequence[Spec], *, scale: float, hidden: float | None) -> Lowering:
    """The kernel, or single operations where it is slower or another result would be right."""
    composed = partial(_composed, scale=scale, hidden=hidden)

    def lowering(q: Value, k: Value, v: Value, *bias_mask: Value) -> Value:
        *batch, keys, width = k.shape
        *images, _, ours = q.shape
        # Without elements the kernel ends the process, and it does not compare sizes.
        fits = keys >= FEWEST_KEYS and q.numel() and k.shape == v.shape
        if not (
            fits and (images, ours) == (batch, width) and only_values_count(q, k, v, *bias_mask)
        ):
            return composed(q, k, v, *bias_mask)
        bias, seen = (bias_mask, None) if hidden is None else _as_bias(bias_mask, hidden)
        try:
            wide = [t.expand(*q.shape[:-1], keys) for t in bias]
        except RuntimeError:  # It makes the scores larger, or does not fit.
            return composed(q, k, v, *bias_mask)
        given = q, k, v, *wide  # The kernel takes two axes before the last two.
        operands = [t if t.dim() == 4 else t.reshape(-1, 1, *t.shape[-2:]) for t in given]
        mask = operands[3] if wide else None
        y, logs = kernel(*operands[:3], 0.0, False, attn_mask=mask, scale=scale)
        if not _is_sure(logs, hidden, keys):
            return composed(q, k, v, *bias_mask)
        y = y if y.dim() == q.dim() else y.reshape(q.shape)
        if seen is None:
            return y
        return torch.where(seen, y, torch.matmul(v.new_full((1, keys), 1 / keys), v))

    return lowering


def _as_bias(bias_mask: Sequence[Value], hidden: float) -> tuple[list[Value], Value | None]:
    """The summands of scores: minus infinity where a mask hides them, so that nothing is left of
    them. If whole rows are hidden by a finite number, so that they weigh all values alike, also
    which rows are not.
    """
    *bias, mask = bias_mask
    seen = mask.any(-1, keepdim=True)
    whole = hidden == -math.inf or bool(seen.all())
    mask = mask if whole else mask | ~seen
    return [torch.where(mask, bias[0] if bias else 0.0, -math.inf)], None if whole else seen


def _is_sure(logs: Value, hidden: float | None, keys: int) -> bool:
    """Whether the kernel's result is that of single operations. `logs` are the logarithms of the
    sums of exponentials. They are 0 where all scores of a row are minus infinity or NaN, for which
    the kernel gives 0. A number that stands for hidden scores must weigh nothing beside others.
    """
    if not torch.all(logs):
        return False
    return hidden is None or float(torch.amin(logs)) > hidden + LOST + math.log(keys)


def _composed(
    q: Value, k: Value, v: Value, *bias_mask: Value, scale: float, hidden: float | None
) -> Value:
    scores = torch.matmul(q, k.mT) * scale
    for t in bias_mask if hidden is None else bias_mask[:-1]:
        scores = scores + t
    if hidden is not None:
        scores = torch.where(bias_mask[-1], scores, hidden)
    return torch.matmul(torch.softmax(scores, -1), v)
