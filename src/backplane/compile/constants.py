"""Constant folding: the values of small nodes whose operands are constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from backplane.core.graph import Constant, Tensor, constant, graphs_of
from backplane.core.shapes import product
from backplane.core.spec import Spec
from backplane.engines import get

FOLD_LIMIT = 64
"""Largest number of elements of a constant computed at compile time."""


def fold(node: Tensor, inputs: tuple[Tensor, ...]) -> Constant | None:
    """The value of a small node that has only constants as inputs; None for all other nodes."""
    op = node.op
    if op is None or not inputs or not all(isinstance(t, Constant) for t in inputs):
        return None
    if op.multiple or op.effect or op.varies or not node.spec.is_static:
        return None
    if (product(node.spec.shape) or 0) > FOLD_LIMIT or graphs_of(node):
        return None
    if "bfloat16" in (node.spec.dtype, *[t.spec.dtype for t in inputs]):
        return None  # NumPy does not compute with it.
    values = [t.value for t in inputs]  # type: ignore[attr-defined]
    if not all(isinstance(v, np.ndarray) and v.size <= FOLD_LIMIT for v in values):
        return None
    result = by_numpy(node, [t.spec for t in inputs], values)
    return None if result is None else constant(np.asarray(result), node.spec.dtype)


def by_numpy(node: Tensor, specs: Sequence[Spec], values: Sequence[np.ndarray]) -> Any:
    """The result of a node for operands of these specs; None if NumPy has no kernel for them."""
    entry = get("numpy").table.get(node.op.name) if node.op else None
    if entry is None or not entry.serves(specs, node.params):
        return None
    with np.errstate(all="ignore"):
        return entry.lowering(specs, node.params)(*values)
