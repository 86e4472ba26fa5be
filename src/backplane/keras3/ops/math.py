"""Keras' backend functions of the module `math`: segments, the largest elements, error functions.
It also has what `signals.py` defines.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from backplane.core.graph import Tensor
from backplane.core.spec import HALVES
from backplane.keras3.call import op
from backplane.keras3.operands import alike, float_of, tensor_of
from backplane.keras3.ops.conversion import to_array
from backplane.keras3.ops.linalg import norm as norm  # Keras before 3.15 asks for them here.
from backplane.keras3.ops.linalg import qr as qr
from backplane.keras3.ops.linalg import solve as solve
from backplane.keras3.ops.numpy import take_along_axis
from backplane.keras3.ops.numpy.operands import length, reduced
from backplane.keras3.ops.signals import (
    _get_complex_tensor_from_tuple as _get_complex_tensor_from_tuple,
)
from backplane.keras3.ops.signals import extract_sequences as extract_sequences
from backplane.keras3.ops.signals import fft as fft
from backplane.keras3.ops.signals import fft2 as fft2
from backplane.keras3.ops.signals import ifft2 as ifft2
from backplane.keras3.ops.signals import irfft as irfft
from backplane.keras3.ops.signals import istft as istft
from backplane.keras3.ops.signals import rfft as rfft
from backplane.keras3.ops.signals import stft as stft
from backplane.keras3.tensor import Tensor as Symbolic
from backplane.ops import elementwise as ew
from backplane.ops import reduction as red
from backplane.ops import scattering
from backplane.ops import shaping as sh
from backplane.ops.creation import scalar
from backplane.ops.factorization import determinant_parts
from backplane.ops.lift import cast_to

# --- segments -------------------------------------------------------------------------------------


def _number_of_segments(segment_ids: Any, num_segments: Any) -> int:
    """The number that was given, or one more than the largest id, which only values tell."""
    if num_segments is not None:
        return int(num_segments)
    if isinstance(segment_ids, Symbolic):
        raise ValueError(
            "Argument `num_segments` must be set in models and steps: there the ids have no "
            "values. Received: num_segments=None"
        )
    return int(np.max(to_array(segment_ids))) + 1


def segment_sum(
    data: Any, segment_ids: Any, num_segments: int | None = None, sorted: bool = False
) -> Any:
    """The sum of the rows of `data` for each segment. Rows whose id names no segment are left out,
    and a segment without rows is 0.
    """
    return _segment_sum(data, segment_ids, _number_of_segments(segment_ids, num_segments))


def segment_max(
    data: Any, segment_ids: Any, num_segments: int | None = None, sorted: bool = False
) -> Any:
    """The maximum of the rows of `data` for each segment; the least number if there are none."""
    return _segments(data, segment_ids, _number_of_segments(segment_ids, num_segments), "max")


def segment_min(
    data: Any, segment_ids: Any, num_segments: int | None = None, sorted: bool = False
) -> Any:
    """The minimum of the rows of `data` for each segment; the largest number if there are none."""
    return _segments(data, segment_ids, _number_of_segments(segment_ids, num_segments), "min")


def segment_prod(
    data: Any, segment_ids: Any, num_segments: int | None = None, sorted: bool = False
) -> Any:
    """The product of the rows of `data` for each segment; 1 if there are none."""
    return _segments(data, segment_ids, _number_of_segments(segment_ids, num_segments), "product")


@op
def _segment_sum(data: Any, segment_ids: Any, number: int) -> Tensor:
    return scattering.segment_sum(tensor_of(data), tensor_of(segment_ids), number)


@op
def _segments(data: Any, segment_ids: Any, number: int, by: Any) -> Tensor:
    rows, ids = tensor_of(data), tensor_of(segment_ids)
    if rows.spec.dtype == "bool":  # As numbers they have a maximum, a minimum and a product.
        return cast_to(scattering.segments(cast_to(rows, "uint8"), ids, number, by), "bool")
    return scattering.segments(rows, ids, number, by)


# --- the largest elements -------------------------------------------------------------------------


@op(static=("k",))
def top_k(x: Any, k: int, sorted: bool = True) -> tuple[Tensor, Tensor]:
    """The k largest elements along the last axis, in descending order, and their positions."""
    x = tensor_of(x)
    kind = x.spec.dtype
    values, positions = red.top_k(cast_to(x, "uint8") if kind == "bool" else x, k=int(k))
    return cast_to(values, kind), positions


@op(static=("k",))
def in_top_k(targets: Any, predictions: Any, k: int) -> Tensor:
    """Whether fewer than k predictions are larger than that of the target. NaN is the least. A
    target that is no class is not among them.
    """
    predictions, targets = float_of(predictions), tensor_of(targets)
    last = targets.ndim
    is_class = ew.less_equal(ew.zero(targets), targets) & ew.less(
        targets, cast_to(length(predictions, last), targets.spec.dtype)
    )
    classes = ew.where(is_class, targets, ew.zero(targets))
    chosen = take_along_axis(predictions, sh.expand_dims(classes, axes=(last,)), axis=-1)
    lowest = scalar(-math.inf, chosen.spec.dtype)
    chosen = ew.where(ew.not_equal(chosen, chosen), lowest, chosen)
    larger = cast_to(ew.less(chosen, predictions), "int32")
    count = sh.sum(larger, axes=(last,), keepdims=False)
    return is_class & ew.less(count, scalar(int(k), "int32"))


@op(static=("axis",))
def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The logarithm of the sum of exponentials along the axes, or of all."""
    return reduced(red.logsumexp, float_of(x), axis, keepdims)


@op
def cdist(x: Any, y: Any) -> Tensor:
    """The distances between each row of `x` and each row of `y`."""
    x, y = alike(float_of(x), float_of(y))
    if x.ndim < 2 or y.ndim < 2:
        raise ValueError("`cdist` inputs must have rank >= 2")
    if x.spec.shape[-1] != y.spec.shape[-1]:
        raise ValueError("Last dimension of inputs to `cdist` must match")
    left = sh.expand_dims(x, axes=(x.ndim - 1,))
    right = sh.expand_dims(y, axes=(y.ndim - 2,))
    diff = ew.sub(left, right)
    return ew.sqrt(sh.sum(ew.mul(diff, diff), axes=(diff.ndim - 1,), keepdims=False))


# --- functions of numbers -------------------------------------------------------------------------


@op
def rsqrt(x: Any) -> Tensor:
    """1 / √x."""
    x = float_of(x)
    return ew.div(ew.one(x), ew.sqrt(x))


@op
def erf(x: Any) -> Tensor:
    """The error function."""
    return ew.erf(float_of(x))


@op
def erfc(x: Any) -> Tensor:
    """1 − `erf`, exact for large x, where that difference has no digits."""
    x = float_of(x)
    if x.spec.dtype in HALVES:
        return cast_to(_erfc(cast_to(x, "float32")), x.spec.dtype)
    return _erfc(x)


def _erfc(x: Tensor) -> Tensor:
    """Above 1 the rational approximations of erfc(x) · e^x².

    Source: the coefficients of `erfc` in S. L. Moshier's Cephes library, ndtr.c
    (https://www.netlib.org/cephes/).
    """
    dtype = x.spec.dtype
    a = ew.minimum(ew.maximum(x, scalar(1, dtype)), scalar(30, dtype))
    near = ew.div(
        ew.polynomial(
            a, 2.46196981473530512524e-10, 5.64189564831068821977e-1, 7.46321056442269912687e0,
            4.86371970985681366614e1, 1.96520832956077098242e2, 5.26445194995477358631e2,
            9.34528527171957607540e2, 1.02755188689515710272e3, 5.57535335369399327526e2,
        ),
        ew.polynomial(
            a, 1.0, 1.32281951154744992508e1, 8.67072140885989742329e1, 3.54937778887819891062e2,
            9.75708501743205489753e2, 1.82390916687909736289e3, 2.24633760818710981792e3,
            1.65666309194161350182e3, 5.57535340817727675546e2,
        ),
    )  # fmt: skip
    far = ew.div(
        ew.polynomial(
            a, 5.64189583547755073984e-1, 1.27536670759978104416e0, 5.01905042251180477414e0,
            6.16021097993053585195e0, 7.40974269950448939160e0, 2.97886665372100240670e0,
        ),
        ew.polynomial(
            a, 1.0, 2.26052863220117276590e0, 9.39603524938001434673e0, 1.20489539808096656605e1,
            1.70814450747565897222e1, 9.60896809063285878198e0, 3.36907645100081516050e0,
        ),
    )  # fmt: skip
    tail = ew.mul(ew.exp(ew.neg(ew.mul(a, a))), ew.where(ew.less(a, scalar(8, dtype)), near, far))
    return ew.where(ew.less(scalar(1, dtype), x), tail, ew.sub(scalar(1, dtype), ew.erf(x)))


@op
def erfinv(x: Any) -> Tensor:
    """The inverse of `erf`."""
    return ew.erfinv(float_of(x))


@op
def logdet(x: Any) -> Tensor:
    """The logarithms of the absolute values of determinants."""
    _, diagonal = determinant_parts(float_of(x))
    return sh.sum(ew.log(ew.abs(diagonal)), axes=(diagonal.ndim - 1,), keepdims=False)
