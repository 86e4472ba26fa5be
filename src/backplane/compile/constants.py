"""Constant folding: the values of small nodes whose operands are constants."""

from __future__ import annotations

import numpy as np

from backplane.core.graph import Constant, Graph, Tensor, constant
from backplane.core.shapes import product
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
    entry = get("numpy").table.get(op.name)
    small = (product(node.spec.shape) or 0) <= FOLD_LIMIT
    if not small or entry is None or any(isinstance(v, Graph) for v in node.params.values()):
        return None
    if "bfloat16" in (node.spec.dtype, *[t.spec.dtype for t in inputs]):
        return None  # NumPy does not compute with it.
    values = [t.value for t in inputs]  # type: ignore[attr-defined]
    if not all(isinstance(v, np.ndarray) and v.size <= FOLD_LIMIT for v in values):
        return None
    specs = [t.spec for t in inputs]
    if not entry.serves(specs, node.params):
        return None
    with np.errstate(all="ignore"):
        result = entry.lowering(specs, node.params)(*values)
    return constant(np.asarray(result), node.spec.dtype)
