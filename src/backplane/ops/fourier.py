"""Discrete Fourier transforms. Complex numbers are pairs of reals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from backplane.core.graph import Tensor
from backplane.core.primitive import primitive
from backplane.core.spec import FLOAT, Spec, check_dtype
from backplane.core.traits import Cotangents, Memory, results_like
from backplane.ops import elementwise as ew
from backplane.ops import shaping as sh
from backplane.ops.axes import contracted
from backplane.ops.creation import numbers, scalar
from backplane.ops.reduction import count

Pair = tuple[Tensor, Tensor]
"""The real and the imaginary part."""


@primitive(multiple=True, memory=Memory.FRESH, axes=results_like(0, 0))
def fft(re: Spec, im: Spec) -> list[Spec]:
    """The Fourier transform along the last axis: Σ_t x_t · e^(−2πi·kt/n) for k = 0, …, n − 1."""
    check_dtype("fft", "re", re.dtype, FLOAT)
    if re.dtype != im.dtype or not re.accepts(im):
        raise ValueError(
            "fft: the real and the imaginary part must have one shape and one dtype, got shapes "
            f"{re.shape} and {im.shape}, dtypes {re.dtype} and {im.dtype}"
        )
    if not re.shape:
        raise ValueError("fft: re and im must have at least one axis, got scalars")
    shape = tuple([m if n is None else n for n, m in zip(re.shape, im.shape, strict=True)])
    return [Spec(shape, re.dtype)] * 2


@fft.vjp
def _(g: Cotangents, y: Sequence[Tensor], re: Tensor, im: Tensor) -> Cotangents:
    a, b = [sh.zeros_like(t) if c is None else c for c, t in zip(g, y, strict=True)]
    return list(backward(a, b))


def backward(re: Tensor, im: Tensor) -> Pair:
    """The sums with e^(+2πi·kt/n): `fft` of swapped parts, swapped."""
    b, a = fft(im, re)
    return a, b


def inverse_fft(re: Tensor, im: Tensor) -> Pair:
    """The inverse of `fft`: `backward`, divided by the number of elements."""
    a, b = backward(re, im)
    n = count(re, (re.ndim - 1,), re.spec.dtype)
    return ew.div(a, n), ew.div(b, n)


@partial(ew.in_single, fft)
def _(re: Tensor, im: Tensor) -> list[Tensor]:
    """Products with the transform's matrix; angles of kt modulo n stay exact for large numbers."""
    dtype = re.spec.dtype
    n = count(re, (re.ndim - 1,), "int64")
    k = numbers(n, "int64")
    turns = ew.mod(ew.mul(sh.expand_dims(k, axes=(1,)), sh.expand_dims(k, axes=(0,))), n)
    share = ew.div(ew.cast(turns, dtype="float64"), ew.cast(n, dtype="float64"))
    angle = ew.mul(share, scalar(2 * math.pi, "float64"))
    cos, sin = [ew.cast(f(angle), dtype=dtype) for f in (ew.cos, ew.sin)]

    def product(x: Tensor, matrix: Tensor) -> Tensor:
        return sh.reshape_like(contracted(x, matrix, [x.ndim - 1], [0]), x)

    return [
        ew.add(product(re, cos), product(im, sin)),
        ew.sub(product(im, cos), product(re, sin)),
    ]
