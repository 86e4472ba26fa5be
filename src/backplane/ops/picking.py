"""One element along an axis: what a label picks, and where its gradient goes."""

from __future__ import annotations

from collections.abc import Sequence

from backplane.core import shapes
from backplane.core.graph import Tensor
from backplane.core.primitive import moving
from backplane.core.spec import FLOAT, INTEGER, Spec, check_dtype
from backplane.core.traits import Memory, Stacked, broadcasting
from backplane.ops.creation import like, numbers_along, scalar
from backplane.ops.elementwise import equal, less, less_equal, logical_and, where
from backplane.ops.shaping import expand_dims, sum, sum_to_like


def _along(name: str, x: Spec, labels: Spec, axis: int, size: int) -> Spec:
    """The spec of `x` broadcast with `labels`, with `size` elements along `axis`."""
    check_dtype(name, "the first operand", x.dtype, FLOAT)
    shapes.check_axes(name, (axis,), len(x.shape))
    check_dtype(name, "labels", labels.dtype, INTEGER)
    if len(labels.shape) != len(x.shape) or labels.shape[axis] != 1:
        raise ValueError(
            f"{name}: labels must have {len(x.shape)} axes and size 1 along axis {axis}, got "
            f"shape {labels.shape}"
        )
    one = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    whole = shapes.broadcast(one, labels.shape)
    return Spec((*whole[:axis], size, *whole[axis + 1 :]), x.dtype)


def _stacked(node: Tensor, operands: Sequence[Stacked]) -> Tensor:
    """The trait `stacks`: operands are broadcast along time."""
    assert node.op is not None
    x, labels = [t.tensor if t.stacked else expand_dims(t.tensor, axes=(0,)) for t in operands]
    return node.op(x, labels, **{**node.params, "axis": node.params["axis"] + 1})


@moving(Memory.FRESH, broadcasting, stacks=_stacked)
def pick(x: Spec, labels: Spec, *, axis: int) -> Spec:
    """The element of `x` along `axis` that each label names; 0 if there is none. `labels` have size
    1 along `axis`, and so has the result. The other axes are broadcast.
    """
    return _along("pick", x, labels, axis, 1)


@moving(Memory.FRESH, broadcasting, stacks=_stacked)
def place(g: Spec, labels: Spec, *, axis: int, size: int) -> Spec:
    """The gradient of `pick`: `size` elements along `axis`, zeros but for that which the label
    names, which is `g`.
    """
    if len(g.shape) > axis >= 0 and g.shape[axis] != 1:
        raise ValueError(f"place: g must have size 1 along axis {axis}, got shape {g.shape}")
    return _along("place", g, labels, axis, size)


def _placed(g: Tensor, y: Tensor, x: Tensor, labels: Tensor, *, axis: int) -> Tensor:
    size = x.spec.shape[axis]
    if size is None:
        raise ValueError(f"pick: for a gradient, the size of axis {axis} of x must be known")
    return _summed(place(g, labels, axis=axis, size=size), x)


def _summed(sums: Tensor, like: Tensor) -> Tensor:
    return sum_to_like(sums, like, sums)


pick.vjps(_placed)
place.vjps(lambda c, y, g, labels, *, axis, size: _summed(pick(c, labels, axis=axis), g))


def _hits(labels: Tensor, axis: int, size: int) -> Tensor:
    return equal(labels, numbers_along(axis, size, labels.ndim, labels.spec.dtype))


@pick.decompose
def _(x: Tensor, labels: Tensor, *, axis: int) -> Tensor:
    size = x.spec.shape[axis]
    assert size is not None
    chosen = where(_hits(labels, axis, size), x, like(0, x))
    return sum(chosen, axes=(axis,), keepdims=True)


@place.decompose
def _(g: Tensor, labels: Tensor, *, axis: int, size: int) -> Tensor:
    return where(_hits(labels, axis, size), g, like(0, g))


def names_one(labels: Tensor, size: int) -> Tensor:
    """Whether each label names one of `size` elements."""
    dtype = labels.spec.dtype
    return logical_and(less_equal(scalar(0, dtype), labels), less(labels, scalar(size, dtype)))
