"""The elements of rows in order."""

from __future__ import annotations

from collections.abc import Sequence

from backplane.core.graph import Tensor
from backplane.core.primitive import primitive
from backplane.core.spec import NUMBER, Spec, check_dtype
from backplane.core.traits import Memory
from backplane.ops.families import results_like
from backplane.ops.reduction import in_rows


@primitive(multiple=True, memory=Memory.FRESH, axes=results_like(0, 0))
def sort(x: Spec) -> list[Spec]:
    """The elements along the last axis in ascending order, and their positions before (int32).
    Equal elements keep their order, and NaN come last.
    """
    check_dtype("sort", "x", x.dtype, NUMBER)
    if not x.shape:
        raise ValueError("sort: x must have at least one axis, got a scalar")
    return [x, Spec(x.shape, "int32")]


@sort.vjp
def _(g: Sequence[Tensor | None], y: Sequence[Tensor], x: Tensor) -> Tensor | None:
    return None if g[0] is None else in_rows(g[0], y[1], x)
