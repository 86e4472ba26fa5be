"""Singular values and eigenvalues of matrices. All axes but the last two are batch axes.

Gradients follow M. B. Giles, An extended collection of matrix derivative results for forward and
reverse mode algorithmic differentiation (2008). Vectors of equal values are not determined: what
would be divided by their difference, 0, counts as 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from backplane.core.graph import Tensor
from backplane.core.primitive import primitive
from backplane.core.spec import Spec
from backplane.core.traits import Cotangents, Memory
from backplane.ops import elementwise as ew
from backplane.ops import shaping as sh
from backplane.ops.creation import like
from backplane.ops.effects import stop_gradient
from backplane.ops.factorization import (
    known,
    matrices,
    smaller,
    symmetric,
    turned,
)
from backplane.ops.indexing import pad, part
from backplane.ops.linear import times
from backplane.ops.reduction import max


@primitive(multiple=True, memory=Memory.FRESH)
def svd(x: Spec, *, full: bool) -> list[Spec]:
    """The factors U · diag(s) · Vᵀ = x: [U, s, Vᵀ], the singular values s in descending order. For
    m × n matrices and k = min(m, n), U is m × k and Vᵀ k × n, or m × m and n × n if `full`. The
    library chooses the signs of pairs of vectors.
    """
    matrices("svd", x)
    batch, (m, n) = x.shape[:-2], x.shape[-2:]
    k = smaller(m, n)
    u, v = (m, n) if full else (k, k)
    return [
        Spec((*batch, m, u), x.dtype), Spec((*batch, k), x.dtype), Spec((*batch, v, n), x.dtype)
    ]  # fmt: skip


def _row(s: Tensor) -> Tensor:
    return sh.expand_dims(s, axes=(s.ndim - 1,))


def _column(s: Tensor) -> Tensor:
    return sh.expand_dims(s, axes=(s.ndim,))


def _inverse(x: Tensor) -> Tensor:
    """1 / x, and 0 where x is 0."""
    nothing = ew.equal(x, ew.zero(x))
    return ew.where(nothing, ew.zero(x), ew.div(ew.one(x), ew.where(nothing, ew.one(x), x)))


@svd.vjp
def _(g: Cotangents, y: Sequence[Tensor], x: Tensor, *, full: bool) -> Tensor:
    u, s, vt = y
    m, n = x.spec.shape[-2:]
    if full and (m is None or m != n) and (g[0] is not None or g[2] is not None):
        raise ValueError(
            f"svd: there is no gradient of the full vectors of {m} × {n} matrices, the last of "
            "which are not determined; use full_matrices=False"
        )
    if g[0] is None and g[2] is None:
        assert g[1] is not None
        if full and (m is None or m != n):
            u, s, vt = svd(x, full=False)
        return times(ew.mul(u, _row(g[1])), vt)
    to_u, to_s, to_vt = known(g, y)
    squares = ew.mul(s, s)
    gaps = _inverse(ew.sub(_row(squares), _column(squares)))
    left, right = times(u, to_u, tx=True), times(vt, to_vt, ty=True)
    j, k = ew.mul(gaps, ew.sub(left, turned(left))), ew.mul(gaps, ew.sub(right, turned(right)))
    inner = ew.add(ew.mul(j, _row(s)), ew.mul(_column(s), k))
    cotangent = times(ew.add(times(u, inner), ew.mul(u, _row(to_s))), vt)
    if m is None or m != n:
        inverse = _inverse(s)
        beside = ew.mul(ew.sub(to_u, times(u, left)), _row(inverse))
        beyond = ew.mul(ew.sub(to_vt, times(turned(right), vt)), _column(inverse))
        cotangent = ew.add(cotangent, ew.add(times(beside, vt), times(u, beyond)))
    return cotangent


ew.in_single(svd)


@primitive(multiple=True, memory=Memory.FRESH)
def eigh(x: Spec) -> list[Spec]:
    """The eigenvalues of symmetric matrices in ascending order, and matrices whose columns are the
    eigenvectors. Only the lower triangle is read. The library chooses the signs of vectors.
    """
    matrices("eigh", x, square=True)
    size = x.shape[-1] if x.shape[-2] is None else x.shape[-2]
    return [Spec((*x.shape[:-2], size), x.dtype), x]


@eigh.vjp
def _(g: Cotangents, y: Sequence[Tensor], x: Tensor) -> Tensor:
    w, v = y
    if g[1] is None:
        assert g[0] is not None
        return times(ew.mul(v, _row(g[0])), v, ty=True)
    to_w, to_v = known(g, y)
    gaps = _inverse(ew.sub(_row(w), _column(w)))
    inner = ew.mul(gaps, times(v, to_v, tx=True))
    cotangent = ew.add(times(v, inner), ew.mul(v, _row(to_w)))
    return symmetric(times(cotangent, v, ty=True))


ew.in_single(eigh)


@primitive(multiple=True, memory=Memory.FRESH)
def eig(x: Spec) -> list[Spec]:
    """The eigenvalues of square matrices, in the library's order, and matrices whose columns are
    the eigenvectors. They are complex: [real part of the values, imaginary part, real part of the
    vectors, imaginary part]. There is no gradient, because it would need complex equations.
    """
    matrices("eig", x, square=True)
    size = x.shape[-1] if x.shape[-2] is None else x.shape[-2]
    values = Spec((*x.shape[:-2], size), x.dtype)
    return [values, values, x, x]


ew.in_single(eig)


# --- vectors whose signs are the same on every engine ---------------------------------------------


def svd_of(x: Tensor, *, full: bool) -> list[Tensor]:
    """`svd`, where the element of each column of U that is farthest from 0 is positive."""
    u, s, vt = svd(x, full=full)
    signs = _signs(u)
    u = ew.mul(u, signs)
    pairs = turned(signs)
    if full:
        rows, columns = x.spec.shape[-2:]
        if rows != columns or rows is None:
            return [u, s, _signed_rows(vt, pairs)]
    return [u, s, ew.mul(vt, pairs)]


def _signed_rows(vt: Tensor, signs: Tensor) -> Tensor:
    """The rows of `vt`, as far as there are signs for them; others are left."""
    have, wanted = signs.spec.shape[-2], vt.spec.shape[-2]
    if have is None or wanted is None:
        raise ValueError("svd: for full factors the last two sizes of x must be known")
    if have >= wanted:
        return ew.mul(vt, part(signs, -2, None, wanted))
    border = (*[(0, 0)] * (signs.ndim - 2), (0, wanted - have), (0, 0))
    return ew.mul(vt, pad(signs, padding=border, value=1))


def eigh_of(x: Tensor) -> list[Tensor]:
    """`eigh`, where the element of each vector that is farthest from 0 is positive."""
    w, v = eigh(x)
    return [w, ew.mul(v, _signs(v))]


def _signs(vectors: Tensor) -> Tensor:
    """For each column 1 or −1, the sign of its element that is farthest from 0."""
    sizes = ew.abs(vectors)
    axes = (vectors.ndim - 2,)
    largest = ew.equal(sizes, max(sizes, axes=axes, keepdims=True))
    pivots = sh.sum(ew.where(largest, vectors, ew.zero(vectors)), axes=axes, keepdims=True)
    signs = ew.where(ew.less(pivots, ew.zero(pivots)), like(-1, pivots), ew.one(pivots))
    return stop_gradient(signs)
