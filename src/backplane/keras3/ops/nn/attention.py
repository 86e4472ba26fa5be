"""Attention of Keras 3."""

from __future__ import annotations

from typing import Any

import numpy as np

from backplane import backend as K
from backplane.core.graph import Tensor
from backplane.core.spec import HALVES
from backplane.keras3.call import op
from backplane.keras3.operands import alike, tensor_of
from backplane.ops import elementwise as ew
from backplane.ops import reduction
from backplane.ops.axes import permuted
from backplane.ops.creation import scalar
from backplane.ops.lift import cast_to
from backplane.ops.operators import matrix_product
from backplane.ops.ragged import column, positions, row
from backplane.ops.shaping import expand_dims


def _with_heads(t: Tensor, heads: int) -> Tensor:
    """A bias or mask with the axes (batch, heads, time, source). A missing axis is that of the
    heads if the second one has their number, or else the first one that is missing.
    """
    while t.ndim < 4:
        by_head = t.ndim == 3 and t.spec.shape[1] == heads
        t = expand_dims(t, axes=(2 if by_head else 1 if t.ndim == 3 else 0,))
    return t


@op
def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    scale: Any = None,
    is_causal: bool = False,
    flash_attention: bool | None = None,
    attn_logits_soft_cap: float | None = None,
) -> Tensor:
    """softmax(query · keyᵀ · scale + bias) · value for operands (batch, time, heads, width).

    A key and a value may have fewer heads than the query, if their number divides it. Scores are
    computed in float32 at least.

    Raises:
        ValueError: if an operand does not have 4 axes, or for `flash_attention=True`, which asks
            for a certain kernel.
    """
    query, key, value = alike(query, key, value)
    if {query.ndim, key.ndim, value.ndim} != {4}:
        raise ValueError(
            "`dot_product_attention` only supports 4D inputs. Received: "
            f"query.shape={query.spec.shape}, key.shape={key.spec.shape}, "
            f"value.shape={value.spec.shape}."
        )
    if flash_attention:
        raise ValueError(
            "Flash attention is not supported with backplane: engines choose their kernels "
            "themselves"
        )
    heads = query.spec.shape[2] or 1
    repeats = heads // (key.spec.shape[2] or heads)
    if repeats > 1:
        key, value = (K.repeat_elements(t, repeats, 2) for t in (key, value))
    scores = _scores(query, key, scale)
    if bias is not None:
        scores = scores + cast_to(_with_heads(tensor_of(bias), heads), scores.spec.dtype)
    if attn_logits_soft_cap is not None:
        scores = scores / (1.0 + ew.abs(scores) / float(attn_logits_soft_cap))
    scores = _masked(
        scores, None if mask is None else _with_heads(tensor_of(mask), heads), is_causal
    )
    weights = cast_to(reduction.softmax(scores, axis=3), value.spec.dtype)
    return permuted(matrix_product(weights, permuted(value, (0, 2, 1, 3))), (0, 2, 1, 3))


def _scores(query: Tensor, key: Tensor, scale: Any) -> Tensor:
    """The products of queries and keys (batch, heads, time, source)."""
    if query.spec.dtype in HALVES:
        query, key = cast_to(query, "float32"), cast_to(key, "float32")
    products = matrix_product(permuted(query, (0, 2, 1, 3)), permuted(key, (0, 2, 3, 1)))
    width = key.spec.shape[3]
    if scale is None:
        assert width is not None
        scale = 1.0 / width**0.5
    return products * tensor_of(scale, products.spec.dtype)


def _masked(scores: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
    """The scores, with a large negative number where the mask, or the order of time, hides the
    source.
    """
    if mask is not None:
        mask = cast_to(mask, "bool")
    if is_causal:
        early = row(positions(scores, 3)) <= column(positions(scores, 2))
        early = expand_dims(early, axes=(0, 1))
        mask = early if mask is None else ew.logical_and(mask, early)
    if mask is None:
        return scores
    least = -0.7 * float(np.finfo(scores.spec.dtype).max)
    return ew.where(mask, scores, scalar(least, scores.spec.dtype))
