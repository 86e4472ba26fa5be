"""Sparse matrices: tensors whose spec says `sparse`.

A function that can do nothing better with a sparse operand gets it through `lift.as_tensor`, which
puts `to_dense` before it; so only these primitives, and `identity`, ever meet one. They decompose
to `identity`: an engine without kernels of its own for sparse matrices holds them as dense ones.
"""

from __future__ import annotations

from backplane.core.graph import Tensor
from backplane.core.primitive import primitive
from backplane.core.spec import Spec
from backplane.core.traits import Memory, like_first
from backplane.ops.effects import identity


@primitive(memory=Memory.VIEW, linear=(0,), axes=like_first)
def to_dense(x: Spec) -> Spec:
    """The elements of a sparse matrix as a dense one."""
    return Spec(x.shape, x.dtype)


@primitive(memory=Memory.VIEW, linear=(0,), axes=like_first)
def to_sparse(x: Spec) -> Spec:
    """The elements of a dense matrix as a sparse one."""
    if len(x.shape) != 2:
        raise ValueError(f"to_sparse: x must have 2 axes, got shape {x.shape}")
    return Spec(x.shape, x.dtype, sparse=True)


def _same(x: Tensor) -> Tensor:
    return identity(x)


to_dense.vjps(lambda g, y, x: g)
to_sparse.vjps(lambda g, y, x: g)
to_dense.decompose(_same)
to_sparse.decompose(_same)
