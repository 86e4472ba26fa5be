"""Reshaping, broadcasting and sums, order of axes, joining, and how rules say "like x"."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

from backplane.core import shapes
from backplane.core.graph import Tensor, constant, is_array
from backplane.core.primitive import Primitive, moving, primitive
from backplane.core.sizes import origin, same_shape
from backplane.core.spec import NUMBER, Spec, check_dtype
from backplane.core.traits import Axis, Memory, Stacked, later_axes, other_axes, reduced
from backplane.ops.creation import (
    check_sizes,
    full,
    given,
    scalar,
    shaped_as,
    size_at,
    stacked_shape,
)
from backplane.ops.effects import identity
from backplane.ops.indexing import dynamic_slice, part

Axes = tuple[int, ...]
Sizes = tuple[int | None, ...]


# --- reshape --------------------------------------------------------------------------------------


def _reshaped_axis(node: Tensor, axis: int) -> Sequence[Axis]:
    """The trait `axes`: a size that is an operand, or a -1 that must be x's one unknown size."""
    shape = node.params["shape"]
    if shape[axis] != -1:
        return given(node, axis)
    x = node.inputs[0]
    others = [n for n in x.spec.shape if n is not None]
    if len(others) != x.ndim - 1 or None in shape:
        return ()
    if shapes.product(others) != shapes.product([n for n in shape if n != -1]):
        return ()
    return [(x, x.spec.shape.index(None))]


@moving(Memory.VIEW, _reshaped_axis, host=1, on_host=True, stacks=stacked_shape)
def reshape(x: Spec, *dims: Spec, shape: Sizes) -> Spec:
    """The same elements, in row-major order, in another shape. One size may be -1, which follows
    from the others.
    """
    if dims or None in shape:
        check_sizes("reshape", shape, dims)
    return Spec(shapes.reshape(x.shape, shape), x.dtype)


reshape.vjps(lambda g, y, x, *dims, shape: reshape_like(g, x))


def reshape_like(x: Tensor, like: Tensor) -> Tensor:
    """`x` in the shape of `like`, which must have as many elements."""
    shape = like.spec.shape
    if None not in shape:
        return x if x.spec.shape == shape else reshape(x, shape=shape)
    if same_shape(x, like):
        return x
    # One -1 needs no look at `like`, which need not be kept then; with a 0 it would be ambiguous.
    if shape.count(None) == 1 and 0 not in shape:
        return reshape(x, shape=tuple(-1 if n is None else n for n in shape))
    return shaped_as(reshape, like, x)


# --- broadcasting, and sums as its inverse --------------------------------------------------------


def _stacked_broadcast(node: Tensor, operands: Sequence[Stacked]) -> Tensor | None:
    """The trait `stacks`: time stays in front of the axes that only `shape` has."""
    x, stacked, _ = operands[0]
    missing = len(node.params["shape"]) + 1 - x.ndim
    if missing < 0:
        return None
    if stacked and missing:
        x = expand_dims(x, axes=tuple(range(1, 1 + missing)))
    return stacked_shape(node, [Stacked(x, stacked), *operands[1:]])


def is_broadcast(shape: Sizes, whole: Sizes) -> bool:
    """Whether a tensor of `shape` can be broadcast to the shape `whole`, as far as is known."""
    return len(shape) <= len(whole) and all(
        n == m or n in (1, None) or m is None
        for n, m in zip(reversed(shape), reversed(whole), strict=False)
    )


@moving(Memory.VIEW, given, host=1, on_host=True, stacks=_stacked_broadcast)
def broadcast_to(x: Spec, *dims: Spec, shape: Sizes) -> Spec:
    """The operand, repeated along new leading axes and along axes of size 1, by NumPy's rules."""
    if dims or None in shape:
        check_sizes("broadcast_to", shape, dims)
    if not is_broadcast(x.shape, shape):
        raise ValueError(f"broadcast_to: shape {x.shape} cannot be broadcast to {shape}")
    return Spec(shape, x.dtype)


def reduction(
    name: str, doc: str, accepted: frozenset[str], chosen: bool = False, **traits: Any
) -> Primitive[Tensor]:
    """A primitive that reduces `axes`. If `chosen`, it picks elements, of which it needs some."""

    def rule(x: Spec, *, axes: Axes, keepdims: bool) -> Spec:
        check_dtype(name, "x", x.dtype, accepted)
        if not axes:
            raise ValueError(f"{name}: axes must not be empty")
        shapes.check_axes(name, axes, len(x.shape))
        if chosen:
            check_elements(name, x, axes)
        return Spec(shapes.reduce(x.shape, axes, keepdims), x.dtype)

    rule.__doc__ = doc
    declare: Callable[[Any], Primitive[Tensor]] = primitive(
        name=name, memory=Memory.FRESH, reduction=True, axes=reduced, stacks=later_axes("axes"),
        **traits,
    )  # fmt: skip
    return declare(rule)


def check_elements(name: str, x: Spec, axes: Axes) -> None:
    """ValueError if it is known that there is nothing to choose from."""
    if 0 in [x.shape[i] for i in axes] and 0 not in shapes.reduce(x.shape, axes, False):
        raise ValueError(f"{name}: no elements along axes {axes} of a tensor of shape {x.shape}")


def kept_axes(y: Tensor, axes: Axes, keepdims: bool) -> Tensor:
    """A reduced tensor whose reduced axes have size 1, so that it broadcasts with the operand."""
    return y if keepdims else expand_dims(y, axes=axes)


def spread(g: Tensor, x: Tensor, axes: Axes, keepdims: bool) -> Tensor:
    """A reduced tensor repeated along the reduced axes of `x`."""
    leading = axes == tuple(range(len(axes)))
    return broadcast_like(g if leading and not keepdims else kept_axes(g, axes, keepdims), x)


sum = reduction(
    "sum", "The sum of the elements, in the dtype of x.", NUMBER, on_host=True, linear=(0,)
)
sum.vjps(lambda g, y, x, *, axes, keepdims: spread(g, x, axes, keepdims))


@primitive(host=1, memory=Memory.VIEW, linear=(0,), axes=given, stacks=_stacked_broadcast)
def sum_to(x: Spec, *dims: Spec, shape: Sizes) -> Spec:
    """`x` summed down to `shape`, from which it was broadcast: added axes go, stretched axes get
    size 1.
    """
    if dims or None in shape:
        check_sizes("sum_to", shape, dims)
    if not is_broadcast(shape, x.shape):
        raise ValueError(f"sum_to: shape {x.shape} is no broadcast of {shape}")
    return Spec(shape, x.dtype)


broadcast_to.vjps(lambda g, y, x, *dims, shape: sum_to_like(g, x, y))
sum_to.vjps(lambda g, y, x, *dims, shape: broadcast_like(g, x))


def broadcast_like(x: Tensor, like: Tensor) -> Tensor:
    """`x` broadcast to the shape of `like`."""
    return x if same_shape(x, like) else shaped_as(broadcast_to, like, x)


def sum_to_like(g: Tensor, like: Tensor, y: Tensor) -> Tensor:
    """The cotangent `g` of `y`, summed down to the shape of the operand `like` that was broadcast
    to `y`.

    If nothing was broadcast, no node is built, and if the axes are known, a plain `sum`. Only an
    unknown size that may be 1 needs `sum_to`, which looks at the sizes.
    """
    shape, whole = like.spec.shape, y.spec.shape
    if shape == whole and (None not in shape or same_shape(like, y)):
        return g
    leading, stretched = shapes.broadcast_axes(shape, whole)
    for i, n in enumerate(shape):
        there = i + len(leading)
        if n is None and whole[there] != 1 and origin(like, i) != origin(y, there):
            return shaped_as(sum_to, like, g)
    if stretched:
        g = sum(g, axes=(*leading, *stretched), keepdims=True)
        return squeeze(g, axes=leading) if leading else g
    return sum(g, axes=leading, keepdims=False) if leading else g


def full_like(x: Tensor, value: object, dtype: str | None = None) -> Tensor:
    """A tensor of the shape of `x`, and of its dtype unless one is given, filled with a number."""
    return shaped_as(full, x, value=value, dtype=dtype or x.spec.dtype)


def zeros_like(x: Tensor, dtype: str | None = None) -> Tensor:
    """Zeros of the shape of `x`."""
    return full_like(x, 0, dtype)


def ones_like(x: Tensor, dtype: str | None = None) -> Tensor:
    """Ones of the shape of `x`."""
    return full_like(x, 1, dtype)


# --- axes -----------------------------------------------------------------------------------------


def _stacked_transpose(node: Tensor, operands: Sequence[Stacked]) -> Tensor:
    return transpose(operands[0].tensor, perm=(0, *[i + 1 for i in node.params["perm"]]))


@moving(
    Memory.VIEW,
    lambda node, axis: [(node.inputs[0], node.params["perm"][axis])],
    stacks=_stacked_transpose,
)
def transpose(x: Spec, *, perm: tuple[int, ...]) -> Spec:
    """Axes in another order: axis i of the result is axis perm[i] of `x`."""
    if sorted(perm) != list(range(len(x.shape))):
        raise ValueError(
            f"transpose: perm {perm} is not a permutation of the axes of shape {x.shape}"
        )
    return Spec(tuple([x.shape[i] for i in perm]), x.dtype)


@transpose.vjp
def _(g: Tensor, y: Tensor, x: Tensor, *, perm: tuple[int, ...]) -> Tensor:
    return transpose(g, perm=tuple(perm.index(i) for i in range(len(perm))))


def _expanded_axis(node: Tensor, axis: int) -> Sequence[Axis]:
    return [(node.inputs[0], axis - builtins.sum(a < axis for a in node.params["axes"]))]


@moving(Memory.VIEW, _expanded_axis, on_host=True, stacks=later_axes("axes"))
def expand_dims(x: Spec, *, axes: tuple[int, ...]) -> Spec:
    """The operand with new axes of size 1. `axes` are their places in the result."""
    rank = len(x.shape) + len(axes)
    shapes.check_axes("expand_dims", axes, rank)
    sizes = iter(x.shape)
    return Spec(tuple([1 if i in axes else next(sizes) for i in range(rank)]), x.dtype)


@moving(Memory.VIEW, reduced, on_host=True, stacks=later_axes("axes"))
def squeeze(x: Spec, *, axes: tuple[int, ...]) -> Spec:
    """The operand without `axes`, each of which has size 1."""
    shapes.check_axes("squeeze", axes, len(x.shape))
    for axis in axes:
        if x.shape[axis] not in (1, None):
            raise ValueError(
                f"squeeze: axis {axis} of a tensor of shape {x.shape} does not have size 1"
            )
    return Spec(tuple([n for i, n in enumerate(x.shape) if i not in axes]), x.dtype)


expand_dims.vjps(lambda g, y, x, *, axes: squeeze(g, axes=axes))
squeeze.vjps(lambda g, y, x, *, axes: expand_dims(g, axes=axes))


# --- joining --------------------------------------------------------------------------------------


@moving(
    Memory.FRESH, other_axes, linear=(), on_host=True, stacks=later_axes("axis"),
    shortcut=lambda *xs, axis: identity(xs[0]) if len(xs) == 1 else None,
)  # fmt: skip
def concat(*xs: Spec, axis: int) -> Spec:
    """The operands one after another along `axis`. All other sizes are equal."""
    if not xs:
        raise ValueError("concat: needs at least one tensor")
    first = xs[0]
    sizes = list(first.shape)
    shapes.check_axes("concat", (axis,), len(sizes))
    for x in xs[1:]:
        if x.dtype != first.dtype:
            raise TypeError(f"concat: dtypes {first.dtype} and {x.dtype} differ; cast one of them")
        if len(x.shape) != len(sizes):
            raise ValueError(f"concat: shapes {first.shape} and {x.shape} have different ranks")
        for i, n in enumerate(x.shape):
            if i == axis:
                sizes[i] = shapes.add(sizes[i], n)
            elif n != sizes[i]:
                what = f"concat: along axis {i} of shapes {first.shape} and {x.shape}"
                sizes[i] = shapes.merge_size(sizes[i], n, what)
    return Spec(tuple(sizes), first.dtype)


@concat.vjp
def _(g: Tensor, y: Tensor, *xs: Tensor, axis: int) -> list[Tensor]:
    sizes = [x.spec.shape[axis] for x in xs]
    if sizes.count(None) > 1:
        return _dynamic_parts(g, xs, axis)
    return [part(g, axis, *_ends(sizes, k)) for k in range(len(xs))]


def item(x: Tensor, index: int) -> Tensor:
    """`x[index]`, for an index that is not negative."""
    return squeeze(part(x, 0, index, index + 1), axes=(0,))


def scalars_in(vector: Tensor) -> list[Tensor] | None:
    """The scalars that a vector was made of, as the vector of a shape is; None for any other."""
    scalars: list[Tensor] = []
    for piece in vector.inputs if vector.op in (concat, identity) else (vector,):
        if is_array(piece):
            scalars += [constant(v) for v in piece.value]
        elif piece.op is expand_dims and not piece.inputs[0].ndim:
            scalars.append(piece.inputs[0])
        else:
            return None
    return scalars


def _ends(sizes: Sequence[int | None], k: int) -> tuple[int | None, int | None]:
    """The start and the stop of part `k`. After the one unknown size it is counted from the end."""
    n = sizes[k]
    before, after = (
        builtins.sum(m for m in part if m is not None) for part in (sizes[:k], sizes[k + 1 :])
    )
    if n == 0:
        return 0, 0
    if None in sizes[:k]:
        return -after - (n or 0), -after or None
    return before, -after or None if n is None else before + n


def _dynamic_parts(g: Tensor, xs: Sequence[Tensor], axis: int) -> list[Tensor]:
    """The parts of `g` where the sizes of several operands are unknown."""
    zero = scalar(0, "int32")
    offset: Tensor = zero
    parts = []
    for x in xs:
        starts = stack([offset if i == axis else zero for i in range(g.ndim)], 0)
        parts.append(shaped_as(dynamic_slice, x, g, starts))
        offset = offset + size_at(x, axis)
    return parts


def stack(xs: Sequence[Tensor], axis: int) -> Tensor:
    """Tensors of equal shapes and dtypes, joined along a new axis."""
    return concat(*[expand_dims(x, axes=(axis,)) for x in xs], axis=axis)
