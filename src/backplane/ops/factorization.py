"""Factors of matrices, and equations that are solved by them. All axes but the last two are batch
axes.

Gradients follow M. B. Giles, An extended collection of matrix derivative results for forward and
reverse mode algorithmic differentiation (2008), and I. Murray, Differentiation of the Cholesky
decomposition (arXiv:1602.07527).
"""

from __future__ import annotations

from collections.abc import Sequence

from backplane.core import shapes
from backplane.core.graph import Tensor
from backplane.core.primitive import primitive
from backplane.core.spec import FLOAT, Spec, check_dtype
from backplane.core.traits import Cotangents, Memory, like_first
from backplane.ops import elementwise as ew
from backplane.ops import shaping as sh
from backplane.ops.creation import like, numbers, numbers_along, scalar
from backplane.ops.indexing import part
from backplane.ops.linear import times
from backplane.ops.reduction import count

# --- triangles, identities, products --------------------------------------------------------------


def turned(x: Tensor) -> Tensor:
    """The transposed matrices."""
    n = x.ndim
    return sh.transpose(x, perm=(*range(n - 2), n - 1, n - 2))


def _numbers(x: Tensor, axis: int, dtype: str = "int32") -> Tensor:
    """0, 1, … along an axis of the last two."""
    n = x.spec.shape[axis]
    if n is not None:
        return numbers_along(axis + 2, n, 2, dtype)
    total = count(x, (x.ndim + axis,), dtype)
    return sh.expand_dims(numbers(total, dtype), axes=(0 if axis == -1 else 1,))


def triangle(x: Tensor, *, lower: bool, beyond: int = 0) -> Tensor:
    """The lower or upper triangle of matrices, with the diagonal or, if `beyond` is 1, without."""
    rows, columns = _numbers(x, -2), _numbers(x, -1)
    small, large = (columns, rows) if lower else (rows, columns)
    inside = ew.less(small, large) if beyond else ew.less_equal(small, large)
    return ew.where(inside, x, ew.zero(x))


def diagonal_mask(x: Tensor) -> Tensor:
    """Whether an element of a matrix like those of `x` stands on the diagonal."""
    return ew.equal(_numbers(x, -2), _numbers(x, -1))


def identity_like(x: Tensor) -> Tensor:
    """Identity matrices of the shape of `x`."""
    return sh.broadcast_like(ew.cast(diagonal_mask(x), dtype=x.spec.dtype), x)


def diagonal(x: Tensor) -> Tensor:
    """The diagonals of square matrices."""
    return sh.sum(ew.where(diagonal_mask(x), x, ew.zero(x)), axes=(x.ndim - 1,), keepdims=False)


def symmetric(x: Tensor) -> Tensor:
    """The symmetric part of matrices."""
    return ew.mul(ew.add(x, turned(x)), like(0.5, x))


# --- what the declarations share ------------------------------------------------------------------


def matrices(name: str, x: Spec, square: bool = False) -> None:
    """Check that an operand holds matrices of floats."""
    check_dtype(name, "x", x.dtype, FLOAT)
    if len(x.shape) < 2:
        raise ValueError(f"{name}: x must have at least two axes, got shape {x.shape}")
    rows, columns = x.shape[-2:]
    if square and rows != columns and rows is not None and columns is not None:
        raise ValueError(f"{name}: the matrices in x must be square, got shape {x.shape}")


def known(g: Cotangents, y: Sequence[Tensor]) -> list[Tensor]:
    """The cotangents of results, zeros where there is none."""
    return [sh.zeros_like(t) if c is None else c for c, t in zip(g, y, strict=True)]


# --- Cholesky -------------------------------------------------------------------------------------


@primitive(memory=Memory.FRESH, axes=like_first)
def cholesky(x: Spec) -> Spec:
    """The lower triangular L with L · Lᵀ = x, for symmetric, positive definite x, of which only the
    lower triangle is read. NaN for a matrix that is not positive definite.
    """
    matrices("cholesky", x, square=True)
    return x


@cholesky.vjp
def _(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    inner = triangle(times(y, g, tx=True), lower=True)
    inner = ew.where(diagonal_mask(y), ew.mul(inner, like(0.5, y)), inner)
    left = triangular_solve(y, inner, lower=True, transpose=True, unit=False)
    both = triangular_solve(y, turned(left), lower=True, transpose=True, unit=False)
    return symmetric(both)


ew.in_single(cholesky)

# --- equations ------------------------------------------------------------------------------------


def _equations(name: str, a: Spec, b: Spec) -> Spec:
    matrices(name, a, square=True)
    if a.dtype != b.dtype:
        raise TypeError(f"{name}: a has dtype {a.dtype} and b {b.dtype}; cast one of them")
    if len(a.shape) != len(b.shape):
        raise ValueError(f"{name}: a and b need equal ranks, got shapes {a.shape} and {b.shape}")
    what = f"{name}: axes of shapes {a.shape} and {b.shape}"
    sizes = [shapes.merge_size(m, n, what) for m, n in zip(a.shape[:-1], b.shape[:-1], strict=True)]
    return Spec((*sizes, b.shape[-1]), b.dtype)


@primitive(memory=Memory.FRESH, linear=(1,))
def triangular_solve(a: Spec, b: Spec, *, lower: bool, transpose: bool, unit: bool) -> Spec:
    """The x with a · x = b, or aᵀ · x = b, for triangular a, of which only one triangle is read. If
    `unit`, ones are read for its diagonal.
    """
    return _equations("triangular_solve", a, b)


@triangular_solve.vjp
def _(
    g: Tensor, y: Tensor, a: Tensor, b: Tensor, *, lower: bool, transpose: bool, unit: bool
) -> Cotangents:
    to_b = triangular_solve(a, g, lower=lower, transpose=not transpose, unit=unit)
    to_a = times(y, to_b, ty=True) if transpose else times(to_b, y, ty=True)
    return [triangle(ew.neg(to_a), lower=lower, beyond=int(unit)), to_b]


ew.in_single(triangular_solve)


@primitive(memory=Memory.FRESH, linear=(1,))
def solve(a: Spec, b: Spec, *, transpose: bool) -> Spec:
    """The x with a · x = b, or aᵀ · x = b. If a is singular, elements are infinite or NaN."""
    return _equations("solve", a, b)


@solve.vjp
def _(g: Tensor, y: Tensor, a: Tensor, b: Tensor, *, transpose: bool) -> Cotangents:
    to_b = solve(a, g, transpose=not transpose)
    to_a = times(y, to_b, ty=True) if transpose else times(to_b, y, ty=True)
    return [ew.neg(to_a), to_b]


@solve.decompose
def _(a: Tensor, b: Tensor, *, transpose: bool) -> Tensor:
    factors, order = lu(a)
    if transpose:
        z = triangular_solve(factors, b, lower=False, transpose=True, unit=False)
        z = triangular_solve(factors, z, lower=True, transpose=True, unit=True)
        return times(permutation_matrix(order, a.spec.dtype), z, tx=True)
    z = times(permutation_matrix(order, a.spec.dtype), b)
    z = triangular_solve(factors, z, lower=True, transpose=False, unit=True)
    return triangular_solve(factors, z, lower=False, transpose=False, unit=False)


# --- LU -------------------------------------------------------------------------------------------


@primitive(multiple=True, memory=Memory.FRESH)
def lu(x: Spec) -> list[Spec]:
    """The factors L · U of matrices whose rows are put in another order first, so that no pivot is
    smaller than what stands below it. L has ones on its diagonal, and both stand in one matrix. The
    second result is that order (int32): row i of the product is row `order[i]` of x.
    """
    matrices("lu", x)
    return [x, Spec(x.shape[:-1], "int32")]


def permutation_matrix(order: Tensor, dtype: str) -> Tensor:
    """The matrix P for which row i of P · x is row `order[i]` of x."""
    rows, row = [sh.expand_dims(order, axes=(order.ndim - i,)) for i in (0, 1)]
    return ew.cast(ew.equal(rows, _numbers(row, -1)), dtype=dtype)


@lu.vjp
def _(g: Cotangents, y: Sequence[Tensor], x: Tensor) -> Tensor | None:
    if g[0] is None:
        return None
    rows, columns = x.spec.shape[-2:]
    if rows is not None and columns is not None and rows != columns:
        raise ValueError(f"lu: the gradient needs square matrices, x has shape {x.spec.shape}")
    factors, order = y
    unit = ew.add(triangle(factors, lower=True, beyond=1), identity_like(factors))
    upper = triangle(factors, lower=False)
    to_l, to_u = triangle(g[0], lower=True, beyond=1), triangle(g[0], lower=False)
    below = triangle(times(unit, to_l, tx=True), lower=True, beyond=1)
    above = triangle(times(to_u, upper, ty=True), lower=False)
    inner = triangular_solve(factors, ew.add(below, above), lower=True, transpose=True, unit=True)
    # … · U⁻ᵀ
    inner = turned(
        triangular_solve(factors, turned(inner), lower=False, transpose=False, unit=False)
    )
    return times(permutation_matrix(order, x.spec.dtype), inner, tx=True)


ew.in_single(lu)


def determinant_parts(x: Tensor) -> tuple[Tensor, Tensor]:
    """The sign of determinants, and the diagonals of U, whose products they are otherwise."""
    factors, order = lu(x)
    return _parity(order, x.spec.dtype), diagonal(factors)


def _parity(order: Tensor, dtype: str) -> Tensor:
    """1 for an even permutation, −1 for an odd one: by the number of pairs in the wrong order."""
    rows = sh.expand_dims(order, axes=(order.ndim,))
    columns = sh.expand_dims(order, axes=(order.ndim - 1,))
    wrong = triangle(ew.cast(ew.less(columns, rows), dtype="int32"), lower=False, beyond=1)
    pairs = sh.sum(wrong, axes=(order.ndim - 1, order.ndim), keepdims=False)
    odd = ew.equal(ew.mod(pairs, scalar(2, "int32")), scalar(1, "int32"))
    return ew.where(odd, scalar(-1, dtype), scalar(1, dtype))


# --- QR -------------------------------------------------------------------------------------------


@primitive(multiple=True, memory=Memory.FRESH)
def qr(x: Spec, *, complete: bool) -> list[Spec]:
    """The factors Q · R = x, Q with orthonormal columns and R upper triangular. For m × n matrices
    Q is m × min(m, n), or m × m if `complete`. The diagonal of R has the signs that Householder's
    reflections give.
    """
    matrices("qr", x)
    batch, (m, n) = x.shape[:-2], x.shape[-2:]
    k = m if complete else smaller(m, n)
    return [Spec((*batch, m, k), x.dtype), Spec((*batch, k, n), x.dtype)]


def smaller(m: int | None, n: int | None) -> int | None:
    """The smaller of two sizes, if both are known."""
    return None if m is None or n is None else min(m, n)


@qr.vjp
def _(g: Cotangents, y: Sequence[Tensor], x: Tensor, *, complete: bool) -> Tensor:
    m, n = x.spec.shape[-2:]
    if m is None or n is None:
        raise ValueError(
            f"qr: for a gradient, the last two sizes of x must be known, got shape {x.spec.shape}"
        )
    if complete and m > n:
        raise ValueError(
            f"qr: there is no gradient of complete factors of {m} × {n} matrices, whose last "
            "columns are not determined; use reduced ones"
        )
    (to_q, to_r), (q, r) = known(g, y), y
    if m >= n:
        return _qr_back(to_q, to_r, q, r)
    # x = Q · [U | V]: the last columns are plain products.
    rest, to_v = part(x, -1, m, n), part(to_r, -1, m, n)
    to_q = ew.add(to_q, times(rest, to_v, ty=True))
    first = _qr_back(to_q, part(to_r, -1, 0, m), q, part(r, -1, 0, m))
    return sh.concat(first, times(q, to_v), axis=x.ndim - 1)


def _qr_back(to_q: Tensor, to_r: Tensor, q: Tensor, r: Tensor) -> Tensor:
    inner = ew.sub(times(r, to_r, ty=True), times(to_q, q, tx=True))
    mirrored = ew.add(triangle(inner, lower=True), turned(triangle(inner, lower=True, beyond=1)))
    total = ew.add(to_q, times(q, mirrored))
    # … · R⁻ᵀ
    cotangent = triangular_solve(r, turned(total), lower=False, transpose=False, unit=False)
    return turned(cotangent)


ew.in_single(qr)
