"""Pooling in one to three dimensions and its gradients. Axes are (batch, *spatial, channels).

The gradients are primitives. The gradient of `max_pool` reads the result and the private positions
that the forward pass found, so an engine need not search for the maxima again. `max_pool_grad` and
`max_pool_take` are each other's gradient, and so are `avg_pool` and `avg_pool_grad`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from typing import Unpack

from backplane.core.graph import Tensor
from backplane.core.primitive import moving, primitive
from backplane.core.spec import FLOAT, NUMBER, Spec, check_dtype, neutral
from backplane.core.traits import Memory, Precision
from backplane.core.windows import Ints, Padding, Pooling
from backplane.ops import elementwise as ew
from backplane.ops import windows as win
from backplane.ops.convolution import batch_of_first
from backplane.ops.creation import (
    Amount,
    check_sizes,
    filled,
    full,
    given,
    scalar,
    shaped,
    shaped_as,
    sizes_of,
)
from backplane.ops.indexing import check_fit
from backplane.ops.reduction import argmax
from backplane.ops.shaping import Sizes, stack
from backplane.ops.windows import Layout


def _result_shape(name: str, x: Sizes, *, pool: Ints, strides: Ints, padding: Padding) -> Sizes:
    win.check_rank(name, x)
    if len(pool) != len(x) - 2:
        raise ValueError(f"{name}: pool must be {len(x) - 2} ints for x of shape {x}, got {pool}")
    windows = win.windows_of(name, pool, strides, (1,) * len(pool), padding)
    if any(not isinstance(w.padding, str) and max(w.padding) >= w.size for w in windows):
        # At least one element of each window must belong to the tensor.
        raise ValueError(f"{name}: padding {padding} must be smaller than the window {pool}")
    return (x[0], *win.output_sizes(name, x[1:-1], windows), x[-1])


# --- maximum --------------------------------------------------------------------------------------


@primitive(
    multiple=True,
    precision=Precision.FOLLOWS,
    memory=Memory.FRESH,
    axes=lambda result, axis: batch_of_first(result.inputs[0], axis),
)
def max_pool(x: Spec, **window: Unpack[Pooling]) -> list[Spec]:
    """The maximum of each window, in which padding never wins, and where it is: positions that only
    the engine understands, of the first maximum in row-major order.
    """
    check_dtype("max_pool", "x", x.dtype, NUMBER)
    shape = _result_shape("max_pool", x.shape, **window)
    return [Spec(shape, x.dtype), Spec(shape, "int64")]


@moving(Memory.FRESH, lambda node, axis: [(node.inputs[1], axis)])
def max_pool_grad(g: Spec, x: Spec, y: Spec, positions: Spec, **window: Unpack[Pooling]) -> Spec:
    """The gradient of `max_pool` with respect to `x`: `g` goes to the first maximum of each
    window.
    """
    check_dtype("max_pool_grad", "g", g.dtype, FLOAT)
    shape = _result_shape("max_pool_grad", x.shape, **window)
    for what, operand in (("g", g), ("y", y), ("positions", positions)):
        check_fit("max_pool_grad", what, operand, shape)
    return Spec(x.shape, g.dtype)


@moving(Memory.FRESH, lambda node, axis: [(node.inputs[2], axis)])
def max_pool_take(v: Spec, x: Spec, y: Spec, positions: Spec, **window: Unpack[Pooling]) -> Spec:
    """The elements of `v` at the first maximum of each window of `x`: the transpose of
    `max_pool_grad`.
    """
    check_dtype("max_pool_take", "v", v.dtype, FLOAT)
    shape = _result_shape("max_pool_take", x.shape, **window)
    check_fit("max_pool_take", "v", v, x.shape)
    for what, operand in (("y", y), ("positions", positions)):
        check_fit("max_pool_take", what, operand, shape)
    return Spec(shape, v.dtype)


max_pool.vjps(lambda g, y, x, **window: max_pool_grad(g[0], x, *y, **window))
max_pool_grad.vjps(lambda c, y, g, *at, **window: max_pool_take(c, *at, **window))
max_pool_take.vjps(lambda c, y, v, *at, **window: max_pool_grad(c, *at, **window))


# --- mean -----------------------------------------------------------------------------------------


@primitive(memory=Memory.VIEW, linear=(0,), axes=batch_of_first)
def avg_pool(x: Spec, **window: Unpack[Pooling]) -> Spec:
    """The mean of each window. Padding does not count."""
    check_dtype("avg_pool", "x", x.dtype, FLOAT)
    return Spec(_result_shape("avg_pool", x.shape, **window), x.dtype)


@primitive(host=1, memory=Memory.VIEW, linear=(0,), axes=given)
def avg_pool_grad(g: Spec, *dims: Spec, shape: Sizes, **window: Unpack[Pooling]) -> Spec:
    """The gradient of `avg_pool` with respect to its operand, which has `shape`."""
    check_dtype("avg_pool_grad", "g", g.dtype, FLOAT)
    check_sizes("avg_pool_grad", shape, dims)
    wanted = _result_shape("avg_pool_grad", shape, **window)
    check_fit("avg_pool_grad", "g", g, wanted)
    return Spec(shape, g.dtype)


avg_pool.vjps(lambda g, y, x, **window: shaped_as(avg_pool_grad, x, g, **window))
avg_pool_grad.vjps(lambda c, y, g, *dims, shape, **window: avg_pool(c, **window))


# --- decompositions -------------------------------------------------------------------------------


def _laid(sizes: Sequence[Amount], pool: Ints, strides: Ints, padding: Padding) -> Layout:
    return win.layout(sizes, pool, strides, padding)


def _reduced(x: Tensor, laid: Layout, combine: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """The padded `x` combined over its windows, one axis after another."""
    for axis, w in enumerate(laid.windows, 1):
        x = reduce(combine, [win.read(x, (axis, w, offset)) for offset in range(w.size)])
    return x


def _inside(laid: Layout, value: float, dtype: str) -> Tensor:
    """`value` wherever there is no padding, and 0 there; batch and channel axes have size 1."""
    return laid.pad(shaped(full, [1, *laid.sizes, 1], value=value, dtype=dtype), 0)


@max_pool.decompose
def _(x: Tensor, **window: Unpack[Pooling]) -> list[Tensor]:
    laid = _laid(win.spatial_sizes(x), **window)
    x = laid.pad(x, neutral(x.spec.dtype, "max"))
    # Nothing reads these positions, so they are never computed: the decomposed gradients may get
    # those of any engine, and find the maxima again. But `max_pool` has two results.
    positions = argmax(stack([laid.read(x, at) for at in laid.offsets()], 0), axis=0)
    return [_reduced(x, laid, ew.maximum), positions]


def _hits(x: Tensor, y: Tensor, laid: Layout) -> Iterator[tuple[Ints, Tensor]]:
    """For each place in a window: the windows whose first maximum is there."""
    # A window of nothing but the lowest number must not find its maximum in the padding.
    inside = _inside(laid, True, "bool") if laid.is_padded else None
    x = laid.pad(x, neutral(x.spec.dtype, "max"))
    before: Tensor | None = None
    for at in laid.offsets():
        hit = ew.equal(laid.read(x, at), y)
        if inside is not None:
            hit = ew.logical_and(hit, laid.read(inside, at))
        yield at, hit if before is None else ew.logical_and(hit, ew.logical_not(before))
        before = hit if before is None else ew.logical_or(before, hit)


@max_pool_grad.decompose
def _(g: Tensor, x: Tensor, y: Tensor, positions: Tensor, **window: Unpack[Pooling]) -> Tensor:
    laid = _laid(win.spatial_sizes(x), **window)
    zero = ew.zero(g)
    parts = [laid.write(ew.where(hit, g, zero), at) for at, hit in _hits(x, y, laid)]
    return laid.crop(reduce(ew.add, parts), sizes_of(x))


@max_pool_take.decompose
def _(v: Tensor, x: Tensor, y: Tensor, positions: Tensor, **window: Unpack[Pooling]) -> Tensor:
    laid = _laid(win.spatial_sizes(x), **window)
    v = laid.pad(v, 0)
    taken: Tensor = ew.zero(v)
    for at, hit in _hits(x, y, laid):
        taken = ew.where(hit, laid.read(v, at), taken)
    return taken


def _counts(laid: Layout, dtype: str) -> Tensor:
    """The number of elements of each window that are not padding."""
    if not laid.is_padded:
        return scalar(laid.elements, dtype)
    return _reduced(_inside(laid, 1, dtype), laid, ew.add)


@partial(ew.in_single, avg_pool)  # Sums of halves lose all digits.
def _(x: Tensor, **window: Unpack[Pooling]) -> Tensor:
    laid = _laid(win.spatial_sizes(x), **window)
    return ew.div(_reduced(laid.pad(x, 0), laid, ew.add), _counts(laid, x.spec.dtype))


@partial(ew.in_single, avg_pool_grad)  # Sums of halves lose all digits.
def _(g: Tensor, *dims: Tensor, shape: Sizes, **window: Unpack[Pooling]) -> Tensor:
    sizes = filled(shape, dims)
    laid = _laid(sizes[1:-1], **window)
    share = ew.div(g, _counts(laid, g.spec.dtype))
    for axis, w in enumerate(laid.windows, 1):
        parts = [win.write(share, laid.padded, (axis, w, offset)) for offset in range(w.size)]
        share = reduce(ew.add, parts)
    return laid.crop(share, sizes)
