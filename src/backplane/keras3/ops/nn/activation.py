"""Activations of Keras 3.

Source of the formulas: https://keras.io/api/ops/nn/
"""

from __future__ import annotations

from typing import Any

import numpy as np

from backplane import backend as K
from backplane.core.graph import Tensor
from backplane.keras3.call import op
from backplane.keras3.operands import float_of, tensor_of
from backplane.ops import elementwise as ew
from backplane.ops import groups, reduction
from backplane.ops.axes import moved
from backplane.ops.indexing import part
from backplane.ops.lift import as_tensor, cast_to
from backplane.ops.shaping import reshape, reshape_like

SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946
"""The two constants of SELU. Source: https://arxiv.org/abs/1706.02515, section 2."""


@op
def relu(x: Any) -> Tensor:
    """max(x, 0)."""
    x = tensor_of(x)
    return ew.relu(cast_to(x, "int32") if x.spec.dtype == "bool" else x)


@op
def relu6(x: Any) -> Tensor:
    """min(max(x, 0), 6)."""
    return K.relu(tensor_of(x), max_value=6.0)


@op
def sigmoid(x: Any) -> Tensor:
    """1 / (1 + exp(−x))."""
    return ew.sigmoid(float_of(x))


@op
def sparse_sigmoid(x: Any) -> Tensor:
    """(x + 1) / 2, limited to 0 and 1."""
    return K.clip((float_of(x) + 1.0) / 2.0, 0.0, 1.0)


@op
def tanh(x: Any) -> Tensor:
    """The hyperbolic tangent."""
    return ew.tanh(float_of(x))


@op
def tanh_shrink(x: Any) -> Tensor:
    """X − tanh(x)."""
    x = float_of(x)
    return x - ew.tanh(x)


@op
def softplus(x: Any) -> Tensor:
    """log(1 + exp(x))."""
    return ew.softplus(float_of(x))


@op
def softsign(x: Any) -> Tensor:
    """X / (1 + |x|)."""
    return ew.softsign(float_of(x))


@op
def soft_shrink(x: Any, threshold: float = 0.5) -> Tensor:
    """The operand moved toward 0 by `threshold`, and 0 where it is nearer to 0 than that."""
    x = float_of(x)
    below = ew.where(x < -threshold, x + threshold, ew.zero(x))
    return ew.where(x > threshold, x - threshold, below)


@op
def sparse_plus(x: Any) -> Tensor:
    """(x + 1)² / 4 between −1 and 1, 0 below, x above."""
    x = float_of(x)
    above = ew.where(x >= 1.0, x, K.square(x + 1.0) / 4.0)
    return ew.where(x <= -1.0, ew.zero(x), above)


@op
def silu(x: Any) -> Tensor:
    """X · sigmoid(x)."""
    x = float_of(x)
    return x * ew.sigmoid(x)


@op
def squareplus(x: Any, b: float = 4) -> Tensor:
    """(x + √(x² + b)) / 2."""
    x = float_of(x)
    return (x + ew.sqrt(x * x + float(b))) / 2.0


@op
def log_sigmoid(x: Any) -> Tensor:
    """The logarithm of the sigmoid, stable for large |x|."""
    return -ew.softplus(-float_of(x))


@op
def leaky_relu(x: Any, negative_slope: float = 0.2) -> Tensor:
    """The operand where it is positive, `negative_slope` times it elsewhere."""
    return K.relu(float_of(x), negative_slope)


def _hard_sigmoid(x: Tensor) -> Tensor:
    return K.relu(x + 3.0, max_value=6.0) / 6.0


@op
def hard_sigmoid(x: Any) -> Tensor:
    """relu6(x + 3) / 6."""
    return _hard_sigmoid(float_of(x))


@op
def hard_silu(x: Any) -> Tensor:
    """X · hard_sigmoid(x)."""
    x = float_of(x)
    return x * _hard_sigmoid(x)


@op
def elu(x: Any, alpha: float = 1.0) -> Tensor:
    """The operand where it is positive, alpha · (exp(x) − 1) elsewhere."""
    return K.elu(float_of(x), alpha)


@op
def selu(x: Any) -> Tensor:
    """`elu` with the slope and scale that keep the variance of normalized inputs."""
    return SELU_SCALE * K.elu(float_of(x), SELU_ALPHA)


@op
def gelu(x: Any, approximate: bool = True) -> Tensor:
    """X · P(X ≤ x) for a standard normal X, or its approximation by a tangent."""
    return groups.gelu(float_of(x), approximate=bool(approximate))


@op
def celu(x: Any, alpha: float = 1.0) -> Tensor:
    """The operand where it is positive, alpha · (exp(x / alpha) − 1) elsewhere."""
    x = float_of(x)
    below = alpha * ew.expm1(ew.minimum(x, ew.zero(x)) / alpha)
    return ew.where(x > 0.0, x, below)


@op
def glu(x: Any, axis: int = -1) -> Tensor:
    """The first half of the operand along `axis` times the sigmoid of the second half.

    Raises:
        ValueError: if the size along `axis` is unknown or odd.
    """
    x = float_of(x)
    axis = axis % x.ndim
    size = x.spec.shape[axis]
    if size is None or size % 2:
        raise ValueError(f"glu: the size along axis {axis} must be even, got shape {x.spec.shape}")
    value, gate = part(x, axis, 0, size // 2), part(x, axis, size // 2, size)
    return value * ew.sigmoid(gate)


@op
def hard_tanh(x: Any) -> Tensor:
    """The operand, limited to −1 and 1."""
    return K.clip(float_of(x), -1.0, 1.0)


@op
def hard_shrink(x: Any, threshold: float = 0.5) -> Tensor:
    """The operand where |x| > `threshold`, 0 elsewhere."""
    x = float_of(x)
    return ew.where(ew.abs(x) > threshold, x, ew.zero(x))


@op
def threshold(x: Any, threshold: float, default_value: float) -> Tensor:
    """The operand where it is above `threshold`, `default_value` elsewhere."""
    x = float_of(x)
    return ew.where(x > threshold, x, tensor_of(default_value, x.spec.dtype))


def _along(x: Tensor, axis: Any, function: Any) -> Tensor:
    """A function along one axis; along all elements if `axis` is None."""
    if axis is not None:
        return function(x, axis=axis % x.ndim)
    return reshape_like(function(reshape(x, shape=(-1,)), axis=0), x)


@op
def softmax(x: Any, axis: int | None = -1) -> Tensor:
    """Exponentials along `axis`, scaled to sum to 1."""
    return _along(float_of(x), axis, reduction.softmax)


@op
def log_softmax(x: Any, axis: int | None = -1) -> Tensor:
    """The logarithm of `softmax`, stable for large |x|."""
    return _along(float_of(x), axis, reduction.log_softmax)


@op
def sparsemax(x: Any, axis: int = -1) -> Tensor:
    """max(x − τ, 0) along `axis`, where τ is Keras': it is that of the projection onto the
    probability simplex if at most one element is left.

    Source: https://arxiv.org/abs/1602.02068, algorithm 1. Keras adds up cumulative sums in place
    of the elements of the support (3.15, all backends), and its models rely on its numbers.

    Raises:
        ValueError: if the size along `axis` is unknown.
    """
    x = float_of(x)
    last = x.ndim - 1
    axis = axis % x.ndim
    size = x.spec.shape[axis]
    if size is None:
        raise ValueError(f"sparsemax: the size along axis {axis} must be known")
    z = moved(x, axis, last)
    ordered, _ = reduction.top_k(z, k=size)
    summed = reduction.cumsum(ordered, axis=last, reverse=False)
    counts = as_tensor(np.arange(1, size + 1, dtype=x.spec.dtype))
    support = ordered - (summed - 1.0) / counts > 0.0
    size_of_support = K.sum(cast_to(support, x.spec.dtype), axis=last, keepdims=True)
    kept = ew.where(support, summed, ew.zero(summed))
    threshold = (K.sum(kept, axis=last, keepdims=True) - 1.0) / size_of_support
    return moved(ew.relu(z - threshold), last, axis)
