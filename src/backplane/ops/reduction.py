"""Reductions, cumulative operations, and normalisation along axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from backplane.core import shapes
from backplane.core.graph import Tensor
from backplane.core.primitive import primitive
from backplane.core.spec import BOOL, FLOAT, NUMBER, Spec, check_dtype
from backplane.core.traits import Memory, later_axes, like_first
from backplane.ops.control import scan
from backplane.ops.creation import arange, dim, fill_dims, full, scalar
from backplane.ops.effects import stop_gradient
from backplane.ops.elementwise import (
    Op,
    add,
    cast,
    div,
    equal,
    exp,
    log,
    mul,
    one,
    sub,
    where,
    zero,
)
from backplane.ops.elementwise import abs as absolute
from backplane.ops.indexing import ALL, pad, scatter_add, slice
from backplane.ops.shaping import (
    Axes,
    check_elements,
    expand_dims,
    kept_axes,
    reduction,
    reshape,
    reshape_like,
    spread,
    squeeze,
    transpose,
)
from backplane.ops.shaping import sum as sum


def count(x: Tensor, axes: Axes) -> Tensor:
    """The number of elements that are reduced, as a scalar of the dtype of `x`."""
    sizes = [x.spec.shape[i] for i in axes]
    known = math.prod(n for n in sizes if n is not None)
    if None not in sizes:
        return scalar(known, x.spec.dtype)
    total: Tensor | None = None
    for i, n in zip(axes, sizes, strict=True):
        if n is None:
            size = cast(dim(x, axis=i), dtype=x.spec.dtype)
            total = size if total is None else mul(total, size)
    assert total is not None
    return total if known == 1 else mul(total, scalar(known, x.spec.dtype))


# --- means and products ---------------------------------------------------------------------------

mean = reduction("mean", "The sum of the elements divided by their number.", FLOAT, linear=(0,))


@mean.vjp
def _(g: Tensor, y: Tensor, x: Tensor, *, axes: Axes, keepdims: bool) -> Tensor:
    return spread(div(g, count(x, axes)), x, axes, keepdims)


@mean.decompose
def _(x: Tensor, *, axes: Axes, keepdims: bool) -> Tensor:
    return div(sum(x, axes=axes, keepdims=keepdims), count(x, axes))


prod = reduction("prod", "The product of the elements, in the dtype of x.", NUMBER, on_host=True)


@prod.vjp
def _(g: Tensor, y: Tensor, x: Tensor, *, axes: Axes, keepdims: bool) -> Tensor:
    # One axis after another: the product of all other elements of a row is the product of those
    # before times that of those after. This is exact even where elements are 0.
    stages = [x]
    for axis in axes[:-1]:
        stages.append(prod(stages[-1], axes=(axis,), keepdims=True))
    g = kept_axes(g, axes, keepdims)
    for axis, stage in zip(reversed(axes), reversed(stages), strict=True):
        g = mul(g, mul(_before(stage, axis), _before(stage, axis, reverse=True)))
    return g


def _before(x: Tensor, axis: int, reverse: bool = False) -> Tensor:
    """For each element, the product of those before it along `axis`, or of those after it if
    `reverse`.
    """
    return cumprod(_shifted(x, axis, 1, reverse), axis=axis, reverse=reverse)


def _shifted(x: Tensor, axis: int, value: int, reverse: bool) -> Tensor:
    """The elements moved on by one place along `axis`, or back if `reverse`. The place that becomes
    free gets `value`.
    """
    ends = ((0, 1), (1, None, 1)) if reverse else ((1, 0), (None, -1, 1))
    padding = tuple(ends[0] if i == axis else (0, 0) for i in range(x.ndim))
    slices = tuple(ends[1] if i == axis else ALL for i in range(x.ndim))
    return slice(pad(x, padding=padding, value=value), slices=slices)


# --- extremes -------------------------------------------------------------------------------------

max = reduction(
    "max", "The largest element; ties share the gradient equally.", NUMBER, chosen=True,
    on_host=True,
)  # fmt: skip
min = reduction(
    "min", "The smallest element; ties share the gradient equally.", NUMBER, chosen=True,
    on_host=True,
)  # fmt: skip


def _extreme_vjp(g: Tensor, y: Tensor, x: Tensor, *, axes: Axes, keepdims: bool) -> Tensor:
    chosen = cast(equal(x, kept_axes(y, axes, keepdims)), dtype=x.spec.dtype)
    ties = sum(chosen, axes=axes, keepdims=True)
    return mul(chosen, div(kept_axes(g, axes, keepdims), ties))


max.vjps(_extreme_vjp)
min.vjps(_extreme_vjp)

any = reduction("any", "Whether any element is true.", BOOL)
all = reduction("all", "Whether all elements are true.", BOOL)


def _position(name: str, doc: str) -> Op:
    def rule(x: Spec, *, axis: int) -> Spec:
        shapes.check_axes(name, (axis,), len(x.shape))
        check_elements(name, x, (axis,))
        return Spec(x.shape[:axis] + x.shape[axis + 1 :], "int64")

    rule.__doc__ = doc
    return primitive(
        name=name,
        memory=Memory.FRESH,
        axes=lambda node, i: [(node.inputs[0], i + (i >= node.params["axis"]))],
        stacks=later_axes("axis"),
    )(rule)


argmax = _position(
    "argmax", "The position (int64) of the largest element along `axis`, the first of ties."
)
argmin = _position(
    "argmin", "The position (int64) of the smallest element along `axis`, the first of ties."
)


@primitive(multiple=True, memory=Memory.FRESH)
def top_k(x: Spec, *, k: int) -> list[Spec]:
    """The k largest elements along the last axis, in descending order, and their positions
    (int32).
    """
    check_dtype("top_k", "x", x.dtype, NUMBER)
    size = x.shape[-1] if x.shape else 0
    if not x.shape or not 0 <= k <= (k if size is None else size):
        raise ValueError(
            f"top_k: k = {k} does not fit the last axis of a tensor of shape {x.shape}"
        )
    return [Spec((*x.shape[:-1], k), x.dtype), Spec((*x.shape[:-1], k), "int32")]


@top_k.vjp
def _(g: Sequence[Tensor | None], y: Sequence[Tensor], x: Tensor, *, k: int) -> Tensor | None:
    # Rows are laid one after another, so that positions are positions in one long vector.
    values, positions = g[0], y[1]
    if values is None or k == 0:
        return None
    n = x.spec.shape[-1]
    size: Tensor = dim(x, axis=x.ndim - 1) if n is None else scalar(n, "int32")
    flat = reshape(x, shape=(-1,))
    rows = reshape(positions, shape=(-1, k))
    total = dim(flat, axis=0)
    starts = arange(scalar(0, "int32"), total, size, dtype="int32")
    places = reshape(add(rows, expand_dims(starts, axes=(1,))), shape=(-1,))
    dims, shape = fill_dims(flat, flat.spec.shape)
    summed = scatter_add(reshape(values, shape=(-1,)), places, *dims, shape=shape, axis=0)
    return reshape_like(summed, x)


# --- cumulative -----------------------------------------------------------------------------------


def _along_axis(rule: Any, name: str | None = None, linear: Sequence[int] = ()) -> Op:
    """A primitive with a parameter `axis` whose result has the shape of its operand."""
    return primitive(
        name=name, memory=Memory.FRESH, linear=linear, axes=like_first, stacks=later_axes("axis")
    )(rule)


def _cumulative(name: str, doc: str, linear: Sequence[int] = ()) -> Op:
    def rule(x: Spec, *, axis: int, reverse: bool) -> Spec:
        check_dtype(name, "x", x.dtype, NUMBER)
        shapes.check_axes(name, (axis,), len(x.shape))
        return x

    rule.__doc__ = doc
    return _along_axis(rule, name, linear)


cumsum = _cumulative(
    "cumsum", "For each element, the sum of the elements up to it along `axis`.", linear=(0,)
)
cumsum.vjps(lambda g, y, x, *, axis, reverse: cumsum(g, axis=axis, reverse=not reverse))

cumprod = _cumulative(
    "cumprod", "For each element, the product of the elements up to it along `axis`."
)


@cumprod.vjp
def _(g: Tensor, y: Tensor, x: Tensor, *, axis: int, reverse: bool) -> Tensor:
    # ∂/∂x_k = (Π_{j<k} x_j) · s_k, where s_k = g_k + x_{k+1} · s_{k+1}: no division, hence exact
    # where elements are 0.
    following = _shifted(x, axis, 0, reverse=not reverse)
    front = (axis, *[i for i in range(x.ndim) if i != axis])
    back = tuple(front.index(i) for i in range(x.ndim))
    s = _recurrence(transpose(g, perm=front), transpose(following, perm=front), not reverse)
    return mul(_before(x, axis, reverse), transpose(s, perm=back))


def _recurrence(g: Tensor, a: Tensor, reverse: bool) -> Tensor:
    """All s_t = g_t + a_t · s_{t−1} along the first axis, starting from 0, or backward if
    `reverse`.
    """

    def step(carry: list[Tensor], x: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        new = add(x[0], mul(x[1], carry[0]))
        return [new], [new]

    shape = g.spec.shape[1:]
    sizes = [dim(g, axis=i + 1) for i, n in enumerate(shape) if n is None]
    start = full(*sizes, shape=shape, value=0, dtype=g.spec.dtype)
    return scan(step, [start], [g, a], reverse=reverse)[1][0]


# --- normalisation along axes ---------------------------------------------------------------------


@_along_axis
def softmax(x: Spec, *, axis: int) -> Spec:
    """The exponentials along `axis`, scaled to sum to one."""
    check_dtype("softmax", "x", x.dtype, FLOAT)
    shapes.check_axes("softmax", (axis,), len(x.shape))
    return x


@softmax.vjp
def _(g: Tensor, y: Tensor, x: Tensor, *, axis: int) -> Tensor:
    return mul(sub(g, sum(mul(g, y), axes=(axis,), keepdims=True)), y)


@softmax.decompose
def _(x: Tensor, *, axis: int) -> Tensor:
    e = exp(sub(x, stop_gradient(max(x, axes=(axis,), keepdims=True))))
    return div(e, sum(e, axes=(axis,), keepdims=True))


@_along_axis
def log_softmax(x: Spec, *, axis: int) -> Spec:
    """The logarithm of `softmax`, exact even where `softmax` is tiny."""
    check_dtype("log_softmax", "x", x.dtype, FLOAT)
    shapes.check_axes("log_softmax", (axis,), len(x.shape))
    return x


@log_softmax.vjp
def _(g: Tensor, y: Tensor, x: Tensor, *, axis: int) -> Tensor:
    return sub(g, mul(exp(y), sum(g, axes=(axis,), keepdims=True)))


@log_softmax.decompose
def _(x: Tensor, *, axis: int) -> Tensor:
    z = sub(x, stop_gradient(max(x, axes=(axis,), keepdims=True)))
    return sub(z, log(sum(exp(z), axes=(axis,), keepdims=True)))


logsumexp = reduction("logsumexp", "The logarithm of the sum of exponentials, stable.", FLOAT)


def _finite(x: Tensor) -> Tensor:
    """`x` with 0 in the place of infinities, so that it can be subtracted from equal infinities."""
    return where(equal(absolute(x), scalar(math.inf, x.spec.dtype)), zero(x), x)


@logsumexp.vjp
def _(g: Tensor, y: Tensor, x: Tensor, *, axes: Axes, keepdims: bool) -> Tensor:
    # The softmax of x. Its terms exp(x - y) are scaled to sum to 1, because the rounding of a large
    # y is a common factor of all of them.
    terms = exp(sub(x, stop_gradient(_finite(kept_axes(y, axes, keepdims)))))
    total = sum(terms, axes=axes, keepdims=True)
    total = where(equal(total, zero(total)), one(total), total)
    return mul(div(kept_axes(g, axes, keepdims), total), terms)


@logsumexp.decompose
def _(x: Tensor, *, axes: Axes, keepdims: bool) -> Tensor:
    shift = stop_gradient(_finite(max(x, axes=axes, keepdims=True)))
    y = log(sum(exp(sub(x, shift)), axes=axes, keepdims=True))
    y = add(y, shift)
    return y if keepdims else squeeze(y, axes=axes)
