"""Keras' backend functions of the module `linalg`: factors of matrices, equations, norms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from backplane import backend as K
from backplane.backend._args import as_axis
from backplane.core.graph import Tensor
from backplane.core.spec import HALVES, is_float
from backplane.keras3.call import eager_engine, op, users
from backplane.keras3.operands import alike, float_of, tensor_of
from backplane.keras3.ops.conversion import to_array
from backplane.keras3.tensor import Tensor as Symbolic
from backplane.ops import elementwise as ew
from backplane.ops import factorization as fa
from backplane.ops import reduction as red
from backplane.ops import shaping as sh
from backplane.ops.control import scan
from backplane.ops.creation import numbers, scalar
from backplane.ops.indexing import part
from backplane.ops.lift import cast_to
from backplane.ops.linear import times
from backplane.ops.spectra import eigh_of, svd_of
from backplane.ops.spectra import svd as singular

# --- factors --------------------------------------------------------------------------------------


def cholesky(a: Any, upper: bool = False) -> Any:
    """The lower triangular L with L · Lᵀ = a, or its transpose.

    Raises:
        ValueError: if `a` is not positive definite. In models and steps the result is NaN then.
    """
    found: Any = _cholesky(a, upper)
    if not isinstance(found, Symbolic | Tensor) and np.isnan(to_array(found)).any():
        raise ValueError(
            "Cholesky decomposition failed. The input might not be a valid positive definite "
            "matrix."
        )
    return found


@op
def _cholesky(a: Any, upper: bool) -> Tensor:
    found = fa.cholesky(float_of(a))
    return fa.turned(found) if upper else found


@op
def cholesky_inverse(a: Any, upper: bool = False) -> Tensor:
    """The inverse of the matrix whose Cholesky factor is `a`."""
    a = float_of(a)
    inverse = fa.triangular_solve(
        a, fa.identity_like(a), lower=not upper, transpose=False, unit=False
    )
    return times(inverse, inverse, ty=True) if upper else times(inverse, inverse, tx=True)


@op
def det(a: Any) -> Tensor:
    """The determinants of square matrices."""
    sign, diagonal = fa.determinant_parts(float_of(a))
    return ew.mul(sign, red.prod(diagonal, axes=(diagonal.ndim - 1,), keepdims=False))


def eig(x: Any) -> Any:
    """The eigenvalues and eigenvectors of square matrices, on values only: they may be complex, and
    no graph holds complex numbers. Then they are NumPy arrays; where all are real, tensors.
    """
    if isinstance(x, Symbolic | Tensor):
        raise TypeError(
            "keras.ops.eig has no symbolic form: eigenvalues may be complex. Use keras.ops.eigh "
            "for symmetric matrices"
        )
    values = to_array(x)
    if not is_float(values.dtype.name):
        values = values.astype(K.floatx())
    wide = values.astype("float32") if values.dtype.name in HALVES else values
    found = np.linalg.eig(wide)
    if any(np.iscomplexobj(t) for t in found):
        return tuple(found)
    return tuple([eager_engine().from_numpy(np.asarray(t, values.dtype)) for t in found])


@op
def eigh(x: Any) -> tuple[Tensor, Tensor]:
    """The eigenvalues of symmetric matrices in ascending order, and their eigenvectors as columns.
    The element of a vector that is farthest from 0 is positive.
    """
    values, vectors = eigh_of(float_of(x))
    return values, vectors


@op
def lu_factor(x: Any) -> tuple[Tensor, Tensor]:
    """The factors L · U in one matrix, and with which row each row was swapped before."""
    factors, order = fa.lu(float_of(x))
    rows, columns = factors.spec.shape[-2:]
    count = None if rows is None or columns is None else min(rows, columns)
    return factors, _swaps(order, count)


def _swaps(order: Tensor, count: int | None) -> Tensor:
    """The swaps, one after the other, that put the numbers 0, 1, … into this order."""
    axis = order.ndim - 1
    front = (axis, *range(axis))
    wanted = sh.transpose(order, perm=front)
    total = red.count(order, (axis,), "int32")
    start = numbers(total)
    rows = sh.broadcast_like(start, order)

    def step(carry: list[Tensor], x: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        now, (number, target) = carry[0], x
        target = sh.expand_dims(target, axes=(axis,))
        here, there = ew.equal(start, number), ew.equal(now, target)
        swapped = sh.sum(ew.where(here, now, ew.zero(now)), axes=(axis,), keepdims=True)
        place = sh.sum(ew.where(there, start, ew.zero(start)), axes=(axis,), keepdims=False)
        after = ew.where(there, swapped, now)
        return [ew.where(here, target, after)], [place]

    places = scan(step, [rows], [start, wanted])[1][0]
    found = sh.transpose(places, perm=(*range(1, axis + 1), 0))
    if count is None:
        return found
    return part(found, -1, None, count)


@op
def qr(x: Any, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """The factors Q · R, Q with orthonormal columns and R upper triangular."""
    if mode not in {"reduced", "complete"}:
        raise ValueError(
            "`mode` argument value not supported. Expected one of {'reduced', 'complete'}. "
            f"Received: mode={mode}"
        )
    q, r = fa.qr(float_of(x), complete=mode == "complete")
    return q, r


@op
def svd(x: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """The factors U · diag(s) · Vᵀ as (U, s, Vᵀ), or s alone. The element of each column of U that
    is farthest from 0 is positive.
    """
    x = float_of(x)
    return tuple(svd_of(x, full=full_matrices)) if compute_uv else factors_of(x)[1]


def factors_of(x: Tensor) -> list[Tensor]:
    """U, s and Vᵀ, with signs as the library chooses them."""
    return singular(x, full=False)


# --- equations ------------------------------------------------------------------------------------


@op
def inv(a: Any) -> Tensor:
    """The inverses of matrices; infinite or NaN for a singular one."""
    a = float_of(a)
    return fa.solve(a, fa.identity_like(a), transpose=False)


@op
def solve(a: Any, b: Any) -> Tensor:
    """The x with a · x = b, for a matrix or a vector b."""
    return _solved(a, b, lambda a, b: fa.solve(a, b, transpose=False))


@op
def solve_triangular(a: Any, b: Any, lower: bool = False) -> Tensor:
    """The x with a · x = b, where only one triangle of a is read."""
    return _solved(
        a, b, lambda a, b: fa.triangular_solve(a, b, lower=lower, transpose=False, unit=False)
    )


def _solved(a: Any, b: Any, function: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    a, b = map(float_of, alike(a, b))
    if b.ndim != a.ndim - 1:
        return function(a, b)
    last = b.ndim
    return sh.squeeze(function(a, sh.expand_dims(b, axes=(last,))), axes=(last,))


@op
def lstsq(a: Any, b: Any, rcond: float | None = None) -> Tensor:
    """The shortest x for which a · x is nearest to b. Singular values up to `rcond` times the
    largest count as 0.
    """
    a, b = map(float_of, alike(a, b))
    epsilon = float(np.finfo(_numpy(a)).eps)
    limit = _largest_size(a) * epsilon if rcond is None else rcond
    vector = b.ndim == 1
    b = sh.expand_dims(b, axes=(1,)) if vector else b
    x = times(_pseudo_inverse(a, limit), b)
    return sh.squeeze(x, axes=(1,)) if vector else x


@op
def pinv(x: Any, rcond: float | None = None) -> Tensor:
    """The pseudo-inverses of matrices. Singular values up to `rcond` times the largest one count
    as 0.
    """
    x = _matrices(x)
    epsilon = float(np.finfo(_numpy(x)).eps)
    limit = 10 * _largest_size(x) * epsilon if rcond is None else rcond
    return _pseudo_inverse(x, limit)


@op
def matrix_rank(x: Any, tol: float | None = None) -> Tensor:
    """The numbers of singular values above `tol`, by default above what rounding makes of 0."""
    x = _matrices(x)
    s = factors_of(x)[1]
    axes = (s.ndim - 1,)
    if tol is None:
        share = _largest_size(x) * float(np.finfo(_numpy(x)).eps)
        limit = ew.mul(red.max(s, axes=axes, keepdims=True), scalar(share, s.spec.dtype))
    else:
        limit = sh.full_like(s, tol)
    return sh.sum(cast_to(ew.less(limit, s), "int32"), axes=axes, keepdims=False)


def _numpy(x: Tensor) -> str:
    """A dtype whose precision NumPy knows: halves are computed in float32."""
    return x.spec.dtype if x.spec.dtype == "float64" else "float32"


def _matrices(x: Any) -> Tensor:
    found = float_of(x)
    if found.ndim < 2:
        raise ValueError(
            f"Expected input to have rank >= 2. Received input with shape {found.spec.shape}."
        )
    return found


def _largest_size(x: Tensor) -> int:
    sizes = x.spec.shape[-2:]
    known = [n for n in sizes if n is not None]
    if len(known) < 2:
        raise ValueError(
            f"the last two sizes of x must be known while a graph is built, got {x.spec.shape}"
        )
    return max(known)


def _pseudo_inverse(x: Tensor, limit: float) -> Tensor:
    u, s, vt = factors_of(x)
    axes = (s.ndim - 1,)
    largest = red.max(s, axes=axes, keepdims=True)
    kept = ew.less(ew.mul(largest, scalar(limit, s.spec.dtype)), s)
    inverse = ew.where(kept, ew.div(ew.one(s), ew.where(kept, s, ew.one(s))), ew.zero(s))
    scaled = ew.mul(fa.turned(vt), sh.expand_dims(inverse, axes=axes))
    return times(scaled, u, ty=True)


# --- norms ----------------------------------------------------------------------------------------


@op(static=("axis",))
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The norm of vectors along one axis, or of matrices in two axes; by default of all
    elements.
    """
    x = float_of(x)
    if axis is None and ord is None:
        return ew.sqrt(_total(ew.mul(x, x), keepdims))
    if axis is None:
        axis = tuple(range(x.ndim))
    given = axis if isinstance(axis, list | tuple) else (axis,)
    axes = tuple([as_axis(i, x) for i in given])
    if len(axes) == 1:
        return _vector_norm(x, ord, axes[0], keepdims)
    if len(axes) != 2 or axes[0] == axes[1]:
        raise ValueError(
            f"norm: `axis` must name one axis, or two that differ, got {axis} for a tensor of "
            f"shape {x.spec.shape}"
        )
    return _matrix_norm(x, ord, axes, keepdims)


def _vector_norm(x: Tensor, ord: Any, axis: int, keepdims: bool) -> Tensor:
    options: dict[str, Any] = {"axes": (axis,), "keepdims": keepdims}
    sizes = ew.abs(x)
    if ord is None or ord == 2:
        return ew.sqrt(sh.sum(ew.mul(x, x), **options))
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")
    if math.isinf(ord):
        return (red.max if ord > 0 else red.min)(sizes, **options)
    if ord == 0:
        return sh.sum(cast_to(ew.not_equal(x, ew.zero(x)), x.spec.dtype), **options)
    if ord == 1:
        return sh.sum(sizes, **options)
    power = scalar(ord, x.spec.dtype)
    total = sh.sum(ew.pow(sizes, power), **options)
    return ew.pow(total, scalar(1 / ord, x.spec.dtype))


def _matrix_norm(x: Tensor, ord: Any, axes: Sequence[int], keepdims: bool) -> Tensor:
    both: dict[str, Any] = {"axes": tuple(sorted(axes)), "keepdims": keepdims}
    if ord is None or ord == "fro":
        return ew.sqrt(sh.sum(ew.mul(x, x), **both))
    if ord in ("nuc", 2, -2):
        rest = [i for i in range(x.ndim) if i not in axes]
        s = factors_of(sh.transpose(x, perm=(*rest, *axes)))[1]
        reduction = {"nuc": sh.sum, 2: red.max, -2: red.min}[ord]
        found = reduction(s, axes=(s.ndim - 1,), keepdims=False)
        return sh.expand_dims(found, axes=both["axes"]) if keepdims else found
    if ord not in (1, -1, math.inf, -math.inf):
        raise ValueError(f"Invalid norm order {ord!r} for matrices")
    rows, columns = axes
    added, compared = (rows, columns) if ord in (1, -1) else (columns, rows)
    totals = sh.sum(ew.abs(x), axes=(added,), keepdims=True)
    found = (red.max if ord > 0 else red.min)(totals, axes=(compared,), keepdims=True)
    return found if keepdims else sh.squeeze(found, axes=both["axes"])


# --- derivatives ----------------------------------------------------------------------------------


@op
def jvp(fun: Any, primals: Any, tangents: Any, has_aux: bool = False) -> Any:
    """The results of `fun` for the primals, and their derivatives along the tangents.

    The gradient by the primals is linear in the cotangent, so its own gradient by that, along the
    tangents, is the derivative along them.
    """
    xs = [tensor_of(x) for x in primals]
    found = users(fun)(*xs)
    aux = None
    if has_aux:
        found, aux = found
    listed = list(found) if isinstance(found, list | tuple) else [found]
    listed = [tensor_of(y) for y in listed]
    changes = [_along(y, xs, tangents) for y in listed]
    single = not isinstance(found, list | tuple)
    kind = tuple if single else type(found)
    results = (listed[0], changes[0]) if single else (kind(listed), kind(changes))
    return (*results, aux) if has_aux else results


def _along(y: Tensor, xs: Sequence[Tensor], tangents: Sequence[Any]) -> Tensor:
    seed = sh.zeros_like(y)
    slopes = K.gradients(_total(ew.mul(y, seed)), xs)
    terms = [
        ew.mul(g, cast_to(tensor_of(t), g.spec.dtype))
        for g, t in zip(slopes, tangents, strict=True)
        if g is not None
    ]
    if not terms:
        return sh.zeros_like(y)
    total = reduce(ew.add, map(_total, terms))
    found = K.gradients(total, [seed])[0]
    return sh.zeros_like(y) if found is None else found


def _total(x: Tensor, keepdims: bool = False) -> Tensor:
    """The sum of all elements."""
    return sh.sum(x, axes=tuple(range(x.ndim)), keepdims=keepdims) if x.ndim else x
