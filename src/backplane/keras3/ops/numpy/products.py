"""Products of tensors: sums over shared axes, outer products, correlation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backplane import backend as K
from backplane.backend._args import as_axis
from backplane.core.graph import Tensor
from backplane.core.spec import HALVES
from backplane.keras3.call import op
from backplane.keras3.operands import alike, tensor_of
from backplane.keras3.ops.numpy.operands import (
    Function,
    cast_all,
    common_type,
    flat,
    float_of,
    like,
    listed,
    single,
    tensors,
)
from backplane.ops import elementwise as ew
from backplane.ops import operators
from backplane.ops.axes import contracted, merge_axes, permuted
from backplane.ops.einsum import einsum as summed_products
from backplane.ops.indexing import flip, pad
from backplane.ops.lift import cast_to
from backplane.ops.linear import matmul as product
from backplane.ops.reduction import mean, sum
from backplane.ops.shaping import expand_dims, squeeze, stack

__all__ = [
    "corrcoef", "correlate", "cross", "dot", "einsum", "inner", "kron", "matmul", "outer",
    "tensordot", "vdot",
]  # fmt: skip


def multiplied(function: Function, *xs: Tensor) -> Tensor:
    """The result of a function that sums products, in the dtype that Keras chooses: bools are true
    where any product is, and the sums of int8 are int32.
    """
    dtypes = {x.spec.dtype for x in xs}
    if dtypes == {"int8"}:
        return function(*cast_all("int32", *xs))
    dtype = common_type(*xs)
    if dtype == "bool":
        return cast_to(function(*cast_all("int32", *xs)), "bool")
    return function(*cast_all(dtype, *xs))


@op
def matmul(x1: Any, x2: Any) -> Tensor:
    """The product of matrices, or of stacks of them, which are broadcast. A vector is a row on the
    left and a column on the right.
    """
    return multiplied(operators.matrix_product, *map(tensor_of, (x1, x2)))


def _over(left: Sequence[int], right: Sequence[int]) -> Function:
    return lambda a, b: contracted(
        a, b, [as_axis(i, a, "axes") for i in left], [as_axis(i, b, "axes") for i in right]
    )


@op(static=("axes",))
def tensordot(x1: Any, x2: Any, axes: Any = 2) -> Tensor:
    """The sum of the products over axes of both operands: over the last ones of the first and the
    first ones of the second if `axes` is a number, or over two lists of axes.
    """
    a, b = (tensor_of(x) for x in (x1, x2))
    if isinstance(axes, int):
        axes = (range(a.ndim - axes, a.ndim), range(axes))
    left, right = map(listed, axes)
    if len(left) != len(right):
        raise ValueError(f"tensordot: axes must name as many axes of x1 as of x2, got {axes}")
    return multiplied(_over(left, right), a, b)


@op
def dot(x1: Any, x2: Any) -> Tensor:
    """The sum of the products over the last axis of the first operand, and the last but one, or the
    only one, of the second operand. With a number, the product.
    """
    a, b = (tensor_of(x) for x in (x1, x2))
    if not a.ndim or not b.ndim:
        return multiplied(ew.mul, a, b)
    return multiplied(_over([-1], [-2 if b.ndim > 1 else -1]), a, b)


@op
def inner(x1: Any, x2: Any) -> Tensor:
    """The sum of the products over the last axes of both operands. With a number, the product."""
    a, b = (tensor_of(x) for x in (x1, x2))
    return multiplied(_over([-1], [-1]) if a.ndim and b.ndim else ew.mul, a, b)


@op
def vdot(x1: Any, x2: Any) -> Tensor:
    """The sum of the products of all elements."""
    return multiplied(_over([0], [0]), *[flat(tensor_of(x)) for x in (x1, x2)])


@op
def outer(x1: Any, x2: Any) -> Tensor:
    """The products of each element of the first operand with each of the second one."""
    a, b = (flat(tensor_of(x)) for x in (x1, x2))
    return multiplied(ew.mul, expand_dims(a, axes=(1,)), expand_dims(b, axes=(0,)))


@op
def einsum(subscripts: str, *operands: Any, **kwargs: Any) -> Tensor:
    """The sum of the products that `subscripts` describe, as in NumPy; sums of int8 are int32.
    Arguments by name, with which NumPy is told how to compute it, have no effect.
    """
    return multiplied(lambda *xs: summed_products(subscripts, *xs), *map(tensor_of, operands))


@op
def kron(x1: Any, x2: Any) -> Tensor:
    """The Kronecker product: the second operand, multiplied by each element of the first one, in
    its place.
    """
    a, b = (tensor_of(x) for x in (x1, x2))
    rank = max(a.ndim, b.ndim)
    a, b = (
        expand_dims(t, axes=tuple(range(rank - t.ndim))) if t.ndim < rank else t for t in (a, b)
    )
    # Each axis of the result is one of `a` and one of `b`.
    a = expand_dims(a, axes=tuple(range(1, 2 * rank, 2))) if rank else a
    b = expand_dims(b, axes=tuple(range(0, 2 * rank, 2))) if rank else b
    return merge_axes(multiplied(ew.mul, a, b), [[i, i + 1] for i in range(0, 2 * rank, 2)])


@op
def cross(
    x1: Any, x2: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Tensor:
    """The cross product of vectors with two or three components, which lie along axes. Of two
    components each, it is only the third component.

    Raises:
        ValueError: for vectors of another number of components.
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = alike(*map(tensor_of, (x1, x2)))
    parts = []
    for t, at in ((a, as_axis(axisa, a)), (b, as_axis(axisb, b))):
        n = t.spec.shape[at]
        if n not in (2, 3):
            raise ValueError(
                f"cross: vectors must have 2 or 3 components, got {n} along axis {at} of a tensor "
                f"of shape {t.spec.shape}"
            )
        lead = (slice(None),) * at
        parts.append([t[(*lead, i)] for i in range(n)])
    (a1, a2, *a3), (b1, b2, *b3) = parts
    third = ew.sub(ew.mul(a1, b2), ew.mul(a2, b1))
    if not a3 and not b3:
        return third
    zero = like(0, third)
    up, other = a3[0] if a3 else zero, b3[0] if b3 else zero
    first = ew.sub(ew.mul(a2, other), ew.mul(up, b2))
    second = ew.sub(ew.mul(up, b1), ew.mul(a1, other))
    return stack([first, second, third], axisc % (third.ndim + 1))


# --- correlation ----------------------------------------------------------------------------------


@op
def corrcoef(x: Any) -> Tensor:
    """The correlation coefficients of the rows of a matrix."""
    given = float_of(x)
    x = cast_to(given, single(given.spec.dtype))
    rows = expand_dims(x, axes=(0,)) if x.ndim == 1 else x
    centred = ew.sub(rows, mean(rows, axes=(1,), keepdims=True))
    covariance = product(centred, centred, transpose_x=False, transpose_y=True)
    spread = ew.sqrt(sum(ew.mul(centred, centred), axes=(1,), keepdims=True))
    found = ew.div(ew.div(covariance, spread), permuted(spread, (1, 0)))
    found = ew.minimum(ew.maximum(found, like(-1, found)), like(1, found))
    found = squeeze(found, axes=(0, 1)) if x.ndim == 1 else found
    return cast_to(found, given.spec.dtype)


@op
def correlate(x1: Any, x2: Any, mode: str = "valid") -> Tensor:
    """The sums of the products of a vector with another one that is moved along it: at all places
    where they meet ("full"), where the shorter one lies inside ("valid"), or at as many places as
    the longer one has elements ("same").

    Raises:
        ValueError: for another mode, or if no vector has a known size.
    """
    given = tensors(x1, x2)
    dtype = common_type(*given)
    dtype = "float64" if dtype == "int64" else dtype if dtype in (*HALVES, "float64") else "float32"
    a, b = cast_all(dtype, *given)
    n, m = (t.spec.shape[0] for t in (a, b))
    if n is None and m is None:
        raise ValueError("correlate: the size of one of the vectors must be known")
    if m is None or (n is not None and m > n):
        return flip(correlate(b, a, mode), axes=(0,))
    borders = {"valid": (0, 0), "full": (m - 1, m - 1), "same": (m // 2, m - 1 - m // 2)}
    if mode not in borders:
        raise ValueError(f"correlate: mode must be one of {', '.join(borders)}, got {mode!r}")
    signal = expand_dims(pad(a, padding=(borders[mode],), value=0.0), axes=(0, 2))
    found = K.conv1d(signal, expand_dims(b, axes=(1, 2)), padding="valid")
    return squeeze(found, axes=(0, 2))
