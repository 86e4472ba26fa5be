"""Moments and batch normalization of Keras 3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from backplane import backend as K
from backplane.core.graph import Tensor
from backplane.core.spec import HALVES
from backplane.keras3.call import op
from backplane.keras3.operands import alike, float_of, tensor_of
from backplane.ops.lift import cast_to
from backplane.ops.shaping import expand_dims, squeeze


@op
def moments(
    x: Any, axes: int | Sequence[int], keepdims: bool = False, synchronized: bool = False
) -> tuple[Tensor, Tensor]:
    """The mean and the variance over `axes`. Those of halves are computed in float32.

    Raises:
        NotImplementedError: for `synchronized`: the devices of a mesh compute one program here, so
            its moments are those of the whole batch already.
    """
    if synchronized:
        raise NotImplementedError(
            "Argument synchronized=True is not supported with backplane: the moments of a step are "
            "those of the whole batch, on all devices of a mesh"
        )
    x = float_of(x)
    dtype = x.spec.dtype
    wide = cast_to(x, "float32") if dtype in HALVES else x
    listed = [axes] if isinstance(axes, int) else list(axes)
    if not listed:
        return x, K.zeros_like(x)
    mean, variance = K.mean(wide, listed, True), K.var(wide, listed, True)
    if dtype in HALVES:
        most = float(np.finfo("float16").max)
        mean, variance = (cast_to(K.clip(t, -most, most), dtype) for t in (mean, variance))
    if keepdims:
        return mean, variance
    gone = tuple(sorted(a % x.ndim for a in listed))
    return squeeze(mean, axes=gone), squeeze(variance, axes=gone)


@op
def batch_normalization(
    x: Any,
    mean: Any,
    variance: Any,
    axis: int,
    offset: Any = None,
    scale: Any = None,
    epsilon: float = 1e-3,
) -> Tensor:
    """(x − mean) / √(variance + epsilon) · scale + offset, where all but x vary along `axis`
    only.
    """
    given = [t for t in (mean, variance, offset, scale) if t is not None]
    x, *others = alike(tensor_of(x), *given)
    around = tuple(i for i in range(x.ndim) if i != axis % x.ndim)
    mean, variance, *more = [expand_dims(t, axes=around) if around else t for t in others]
    factor = 1.0 / K.sqrt(variance + epsilon)
    if scale is not None:
        factor = factor * more[-1]
    shift = -mean * factor
    return x * factor + (shift if offset is None else shift + more[0])
