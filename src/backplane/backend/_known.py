"""Integers that are known while a graph is built: sizes computed from constants and known sizes."""

from __future__ import annotations

import numpy as np

from backplane.core.graph import Constant, Tensor
from backplane.core.spec import is_integer
from backplane.ops.creation import dim, scalar

FAR = 64
"""Nodes behind a tensor up to which it is looked at."""


def known_integers(x: Tensor) -> np.ndarray | None:
    """The values of an integer scalar or vector that follow from constants and known sizes alone,
    such as those of `K.prod(K.int_shape(y)[1:])`; None if they depend on anything else.
    """
    if x.ndim > 1 or not is_integer(x.spec.dtype):
        return None
    sizes: dict[Tensor, Tensor] = {}
    waiting, seen = [x], {x}
    while waiting:
        node = waiting.pop()
        if node.op is dim:
            size = node.inputs[0].spec.shape[node.params["axis"]]
            if size is None:
                return None
            sizes[node] = scalar(size, node.spec.dtype)
        elif node.op is None:
            if not isinstance(node, Constant) or not isinstance(node.value, np.ndarray):
                return None
        else:
            waiting += [t for t in node.inputs if t not in seen]
            seen.update(node.inputs)
        if len(seen) > FAR:
            return None
    from backplane.compile.passes.simplify import simplify  # Here: the compiler is a fourth of K.

    (found,) = simplify([x], sizes)
    if isinstance(found, Constant) and isinstance(found.value, np.ndarray):
        return found.value
    return None
