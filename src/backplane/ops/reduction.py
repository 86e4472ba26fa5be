"""Reductions, elements in order, cumulative operations, and normalisation along axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial, reduce

from backplane.core import shapes
from backplane.core.graph import Tensor
from backplane.core.primitive import primitive
from backplane.core.spec import BOOL, FLOAT, NUMBER, Spec, check_dtype
from backplane.core.traits import (
    Memory,
    Precision,
    later_axes,
    like_first,
    reduced,
    results_like,
)
from backplane.ops import elementwise as ew
from backplane.ops import shaping as sh
from backplane.ops.control import scan
from backplane.ops.creation import dim, full, like, numbers, scalar, shaped, shaped_as, sizes_of
from backplane.ops.effects import stop_gradient
from backplane.ops.indexing import scatter_add, shifted
from backplane.ops.shaping import Axes, reduction
from backplane.ops.shaping import sum as sum


def count(x: Tensor, axes: Sequence[int], dtype: str) -> Tensor:
    """The number of elements along `axes`."""
    sizes = [x.spec.shape[i] for i in axes]
    known = shapes.elements(sizes)
    unknown = [dim(x, axis=i) for i, n in zip(axes, sizes, strict=True) if n is None]
    factors = [n if dtype == "int32" else ew.cast(n, dtype=dtype) for n in unknown]
    if known != 1 or not factors:
        factors.append(scalar(known, dtype))
    return reduce(ew.mul, factors)


# --- means and products ---------------------------------------------------------------------------

mean = reduction("mean", "The sum of the elements divided by their number.", FLOAT, linear=(0,))


@mean.vjp
def _(g: Tensor, y: Tensor, x: Tensor, *, axes: Axes, keepdims: bool) -> Tensor:
    return sh.spread(ew.div(g, count(x, axes, x.spec.dtype)), x, axes, keepdims)


@partial(ew.in_single, mean)
def _(x: Tensor, *, axes: Axes, keepdims: bool) -> Tensor:
    return ew.div(sum(x, axes=axes, keepdims=keepdims), count(x, axes, x.spec.dtype))


prod = reduction("prod", "The product of the elements, in the dtype of x.", NUMBER, on_host=True)


@prod.vjp
def _(g: Tensor, y: Tensor, x: Tensor, *, axes: Axes, keepdims: bool) -> Tensor:
    # One axis after another: the product of all other elements of a row is the product of those
    # before times that of those after. This is exact even where elements are 0.
    stages = [x]
    for axis in axes[:-1]:
        stages.append(prod(stages[-1], axes=(axis,), keepdims=True))
    g = sh.kept_axes(g, axes, keepdims)
    for axis, stage in zip(reversed(axes), reversed(stages), strict=True):
        g = ew.mul(g, ew.mul(_before(stage, axis), _before(stage, axis, reverse=True)))
    return g


def _before(x: Tensor, axis: int, reverse: bool = False) -> Tensor:
    """Each element's product of those before it along `axis`, or after it if `reverse`."""
    return cumprod(
        shifted(x, axis=axis, by=-1 if reverse else 1, fill=1), axis=axis, reverse=reverse
    )


# --- extremes -------------------------------------------------------------------------------------

max = reduction(
    "max", "The largest element; ties share the gradient equally.", NUMBER, chosen=True,
    on_host=True, precision=Precision.FOLLOWS,
)  # fmt: skip
min = reduction(
    "min", "The smallest element; ties share the gradient equally.", NUMBER, chosen=True,
    on_host=True, precision=Precision.FOLLOWS,
)  # fmt: skip


def _extreme_vjp(g: Tensor, y: Tensor, x: Tensor, *, axes: Axes, keepdims: bool) -> Tensor:
    chosen = ew.cast(ew.equal(x, sh.kept_axes(y, axes, keepdims)), dtype=x.spec.dtype)
    ties = sum(chosen, axes=axes, keepdims=True)
    return ew.mul(chosen, ew.div(sh.kept_axes(g, axes, keepdims), ties))


max.vjps(_extreme_vjp)
min.vjps(_extreme_vjp)

any = reduction("any", "Whether any element is true.", BOOL)
all = reduction("all", "Whether all elements are true.", BOOL)


def _position(name: str, x: Spec, axis: int) -> Spec:
    shapes.check_axes(name, (axis,), len(x.shape))
    sh.check_elements(name, x, (axis,))
    return Spec(x.shape[:axis] + x.shape[axis + 1 :], "int64")


@primitive(memory=Memory.FRESH, axes=reduced, stacks=later_axes("axis"))
def argmax(x: Spec, *, axis: int) -> Spec:
    """The position (int64) of the largest element along `axis`, the first of ties."""
    return _position("argmax", x, axis)


@primitive(memory=Memory.FRESH, axes=reduced, stacks=later_axes("axis"))
def argmin(x: Spec, *, axis: int) -> Spec:
    """The position (int64) of the smallest element along `axis`, the first of ties."""
    return _position("argmin", x, axis)


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


top_k.vjp(lambda g, y, x, *, k: None if g[0] is None or k == 0 else in_rows(g[0], y[1], x))


def in_rows(g: Tensor, positions: Tensor, x: Tensor) -> Tensor:
    """Zeros like `x`, to which the elements of `g` are added at `positions` along the last axis."""
    # Rows are laid one after another, so that positions are positions in one long vector.
    flat = sh.reshape(x, shape=(-1,))
    rows, size = count(x, range(x.ndim - 1), "int32"), count(x, (x.ndim - 1,), "int32")
    starts = ew.mul(numbers(rows), size)
    starts = shaped(sh.reshape, [*sizes_of(x)[:-1], 1], starts)
    places = sh.reshape(ew.add(positions, starts), shape=(-1,))
    summed = shaped_as(scatter_add, flat, sh.reshape(g, shape=(-1,)), places, axis=0)
    return sh.reshape_like(summed, x)


@primitive(multiple=True, memory=Memory.FRESH, axes=results_like(0, 0))
def sort(x: Spec) -> list[Spec]:
    """The elements along the last axis in ascending order, and their positions before (int32).
    Equal elements keep their order, and NaN come last.
    """
    check_dtype("sort", "x", x.dtype, NUMBER)
    if not x.shape:
        raise ValueError("sort: x must have at least one axis, got a scalar")
    return [x, Spec(x.shape, "int32")]


sort.vjp(lambda g, y, x: None if g[0] is None else in_rows(g[0], y[1], x))


# --- cumulative -----------------------------------------------------------------------------------


def _along(name: str, x: Spec, axis: int, accepted: frozenset[str]) -> Spec:
    """The result of a primitive that works along one axis and keeps the shape."""
    check_dtype(name, "x", x.dtype, accepted)
    shapes.check_axes(name, (axis,), len(x.shape))
    return x


@primitive(memory=Memory.FRESH, linear=(0,), axes=like_first, stacks=later_axes("axis"))
def cumsum(x: Spec, *, axis: int, reverse: bool) -> Spec:
    """For each element, the sum of the elements up to it along `axis`."""
    return _along("cumsum", x, axis, NUMBER)


cumsum.vjps(lambda g, y, x, *, axis, reverse: cumsum(g, axis=axis, reverse=not reverse))


@primitive(memory=Memory.FRESH, axes=like_first, stacks=later_axes("axis"))
def cumprod(x: Spec, *, axis: int, reverse: bool) -> Spec:
    """For each element, the product of the elements up to it along `axis`."""
    return _along("cumprod", x, axis, NUMBER)


@cumprod.vjp
def _(g: Tensor, y: Tensor, x: Tensor, *, axis: int, reverse: bool) -> Tensor:
    # ∂/∂x_k = (Π_{j<k} x_j) · s_k, where s_k = g_k + x_{k+1} · s_{k+1}: no division, hence exact
    # where elements are 0.
    following = shifted(x, axis=axis, by=1 if reverse else -1, fill=0)
    front = (axis, *[i for i in range(x.ndim) if i != axis])
    back = tuple(front.index(i) for i in range(x.ndim))
    s = _recurrence(sh.transpose(g, perm=front), sh.transpose(following, perm=front), not reverse)
    return ew.mul(_before(x, axis, reverse), sh.transpose(s, perm=back))


def _recurrence(g: Tensor, a: Tensor, reverse: bool) -> Tensor:
    """All s_t = g_t + a_t · s_{t−1} along the first axis, from 0, or backward if `reverse`."""

    def step(carry: list[Tensor], x: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        new = ew.add(x[0], ew.mul(x[1], carry[0]))
        return [new], [new]

    start = shaped(full, sizes_of(g)[1:], value=0, dtype=g.spec.dtype)
    return scan(step, [start], [g, a], reverse=reverse)[1][0]


# --- normalisation along axes ---------------------------------------------------------------------


@primitive(memory=Memory.FRESH, axes=like_first, stacks=later_axes("axis"))
def softmax(x: Spec, *, axis: int) -> Spec:
    """The exponentials along `axis`, scaled to sum to one."""
    return _along("softmax", x, axis, FLOAT)


@primitive(memory=Memory.FRESH, axes=like_first, stacks=later_axes("axis"))
def log_softmax(x: Spec, *, axis: int) -> Spec:
    """The logarithm of `softmax`, exact even where `softmax` is tiny."""
    return _along("log_softmax", x, axis, FLOAT)


@primitive(
    memory=Memory.FRESH, axes=like_first, stacks=later_axes("axis"), linear=(0,), scales=True
)
def softmax_grad(g: Spec, y: Spec, *, axis: int) -> Spec:
    """The gradient of `softmax` from its result y: (g − Σ g · y) · y, summed along `axis`."""
    return ew.like_both("softmax_grad", g, y)


def _total(g: Tensor, y: Tensor, axis: int) -> Tensor:
    return sum(ew.mul(g, y), axes=(axis,), keepdims=True)


softmax.vjps(lambda g, y, x, *, axis: softmax_grad(g, y, axis=axis))
softmax_grad.vjps(
    lambda c, z, g, y, *, axis: softmax_grad(c, y, axis=axis),
    lambda c, z, g, y, *, axis: ew.sub(
        ew.mul(c, ew.sub(g, _total(g, y, axis))), ew.mul(g, _total(c, y, axis))
    ),
)


softmax_grad.decompose(lambda g, y, *, axis: ew.mul(ew.sub(g, _total(g, y, axis)), y))


def _largest(x: Tensor, axis: int) -> Tensor:
    # Without elements there is no largest one, and nothing to scale.
    return x if x.spec.shape[axis] == 0 else max(x, axes=(axis,), keepdims=True)


@partial(ew.in_single, softmax)
def _(x: Tensor, *, axis: int) -> Tensor:
    e = ew.exp(ew.sub(x, stop_gradient(_largest(x, axis))))
    return ew.div(e, sum(e, axes=(axis,), keepdims=True))


@log_softmax.vjp
def _(g: Tensor, y: Tensor, x: Tensor, *, axis: int) -> Tensor:
    return ew.sub(g, ew.mul(ew.exp(y), sum(g, axes=(axis,), keepdims=True)))


@partial(ew.in_single, log_softmax)
def _(x: Tensor, *, axis: int) -> Tensor:
    z = ew.sub(x, stop_gradient(_largest(x, axis)))
    return ew.sub(z, ew.log(sum(ew.exp(z), axes=(axis,), keepdims=True)))


logsumexp = reduction("logsumexp", "The logarithm of the sum of exponentials, stable.", FLOAT)


def _finite(x: Tensor) -> Tensor:
    """`x` with 0 in the place of infinities, so that it can be subtracted from equal infinities."""
    return ew.where(ew.equal(ew.abs(x), like(math.inf, x)), ew.zero(x), x)


@logsumexp.vjp
def _(g: Tensor, y: Tensor, x: Tensor, *, axes: Axes, keepdims: bool) -> Tensor:
    # The softmax of x. Its terms exp(x - y) are scaled to sum to 1, because the rounding of a large
    # y is a common factor of all of them.
    terms = ew.exp(ew.sub(x, stop_gradient(_finite(sh.kept_axes(y, axes, keepdims)))))
    total = sum(terms, axes=axes, keepdims=True)
    total = ew.where(ew.equal(total, ew.zero(total)), ew.one(total), total)
    return ew.mul(ew.div(sh.kept_axes(g, axes, keepdims), total), terms)


@partial(ew.in_single, logsumexp)
def _(x: Tensor, *, axes: Axes, keepdims: bool) -> Tensor:
    shift = stop_gradient(_finite(max(x, axes=axes, keepdims=True)))
    y = ew.log(sum(ew.exp(ew.sub(x, shift)), axes=axes, keepdims=True))
    y = ew.add(y, shift)
    return y if keepdims else sh.squeeze(y, axes=axes)
