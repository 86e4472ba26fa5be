"""Operations of `keras.ops.nn` on tensors of K, and layers that need more than operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from backplane import backend as K
from backplane.backend._convolution_nd import Convolution
from backplane.backend.pooling import pooled
from backplane.core.graph import Tensor
from backplane.core.spec import bits
from backplane.interop.keras3 import translations as tr
from backplane.ops import elementwise as ew
from backplane.ops.creation import size_at
from backplane.ops.einsum import einsum
from backplane.ops.lift import as_tensor, cast_to
from backplane.ops.ragged import positions
from backplane.ops.reduction import log_softmax, softmax
from backplane.ops.shaping import expand_dims

# --- windows --------------------------------------------------------------------------------------


def _convolution(op: Any, x: Tensor) -> Convolution:
    return Convolution(x.ndim - 2, op.strides, op.padding, op.data_format, op.dilation_rate)


def _conv(op: Any, x: Tensor, kernel: Tensor) -> Tensor:
    x, kernel = tr.alike(x, kernel)
    made = _convolution(op, x)
    channels = x.spec.shape[1 if made.channels_first else -1]
    groups = 1 if channels is None else channels // kernel.spec.shape[-2]  # type: ignore[operator]
    return made.dense(x, kernel, groups)


def _depthwise(op: Any, x: Tensor, kernel: Tensor) -> Tensor:
    return _convolution(op, x).depthwise(*tr.alike(x, kernel))


def _separable(op: Any, x: Tensor, depthwise: Tensor, pointwise: Tensor) -> Tensor:
    return _convolution(op, x).separable(*tr.alike(x, depthwise, pointwise))


def _transposed(op: Any, x: Tensor, kernel: Tensor) -> Tensor:
    made = _convolution(op, x)
    sizes = [-1] * x.ndim
    if op.output_padding is not None:
        sizes = _padded_sizes(op, x, kernel, made)
    x, kernel = tr.alike(x, kernel)
    return made.transposed(x, kernel, sizes)


def _padded_sizes(op: Any, x: Tensor, kernel: Tensor, made: Convolution) -> list[Any]:
    """The sizes of the result of a transposed convolution with `output_padding`."""
    count = x.ndim - 2
    more = op.output_padding
    paddings = [more] * count if isinstance(more, int) else list(more)
    first = 2 if made.channels_first else 1
    sizes: list[Any] = [-1] * x.ndim
    for i, (stride, rate, extra) in enumerate(
        zip(made.strides, made.dilation, paddings, strict=True)
    ):
        span = (kernel.spec.shape[i] - 1) * rate + 1  # type: ignore[operator]
        cut = 2 * (span // 2) if op.padding == "same" else 0
        if span - cut + extra < 1:
            raise tr.refused("the operation ConvTranspose with so small an output_padding")
        sizes[first + i] = (size_at(x, first + i) - 1) * stride + span - cut + extra
    return sizes


def _pool(mode: str) -> tr.Function:
    def function(op: Any, x: Tensor) -> Tensor:
        strides = op.pool_size if op.strides is None else op.strides
        count = x.ndim - 2
        return pooled(count, x, op.pool_size, strides, op.padding, op.data_format, mode)

    return function


def _resized(op: Any, x: Tensor) -> Tensor:
    more = op.antialias or op.crop_to_aspect_ratio or op.pad_to_aspect_ratio
    axes = (
        [x.ndim - 2, x.ndim - 1] if op.data_format == "channels_first" else [x.ndim - 3, x.ndim - 2]
    )
    sizes = [x.spec.shape[a] for a in axes]
    if more or op.interpolation not in ("nearest", "bilinear") or None in sizes:
        raise tr.refused(f"the operation Resize with {op.interpolation!r} or unknown sizes")
    for axis, size, wanted in zip(axes, sizes, op.size, strict=True):
        weights = cast_to(as_tensor(_weights(size, wanted, op.interpolation)), x.spec.dtype)  # type: ignore[arg-type]
        letters = "abcdefg"[: x.ndim]
        made = letters.replace(letters[axis], "z")
        x = einsum(f"z{letters[axis]},{letters}->{made}", weights, x)
    return x


def _weights(size: int, wanted: int, interpolation: str) -> np.ndarray[Any, Any]:
    """How much each of `size` pixels weighs in each of `wanted` pixels. The center of a pixel is
    half a pixel from its border.
    """
    centers = (np.arange(wanted) + 0.5) * size / wanted - 0.5
    if interpolation == "nearest":
        return np.eye(size, dtype="float32")[np.floor(centers + 0.5).astype(int)]
    distance = abs(centers.clip(0, size - 1)[:, None] - np.arange(size))
    return np.maximum(1 - distance, 0).astype("float32")


# --- normalization --------------------------------------------------------------------------------


def _at(value: Any, x: Tensor, axes: Sequence[int]) -> Tensor:
    """A tensor over some axes of `x`, so that it broadcasts to `x`."""
    value = cast_to(as_tensor(value), x.spec.dtype)
    others = tuple([i for i in range(x.ndim) if i not in axes])
    return expand_dims(value, axes=others) if others else value


def _batch_norm(
    op: Any, x: Tensor, mean: Any, variance: Any, offset: Any = None, scale: Any = None
) -> Tensor:
    axes = [op.axis % x.ndim]
    factor = 1.0 / K.sqrt(_at(variance, x, axes) + op.epsilon)
    if scale is not None:
        factor = factor * _at(scale, x, axes)
    shift = -_at(mean, x, axes) * factor
    return x * factor + (shift if offset is None else shift + _at(offset, x, axes))


def _layer_norm(op: Any, x: Tensor, gamma: Any = None, beta: Any = None) -> Tensor:
    axes = tr.axes_of(x, op.axis)
    wide = cast_to(x, "float32") if bits(x.spec.dtype) < 32 else x
    epsilon = K.epsilon() if op.epsilon is None else op.epsilon
    variance = K.var(wide, axes, keepdims=True)
    y = wide if op.rms_scaling else wide - K.mean(wide, axes, keepdims=True)
    y = y / K.sqrt(variance + epsilon)
    if gamma is not None:
        y = y * _at(gamma, wide, axes)
    if beta is not None and not op.rms_scaling:
        y = y + _at(beta, wide, axes)
    return cast_to(y, x.spec.dtype)


def _rms_norm(op: Any, x: Tensor, scale: Any = None) -> Tensor:
    axes = tr.axes_of(x, op.axis)
    epsilon = K.epsilon() if op.epsilon is None else op.epsilon
    wide = cast_to(x, "float32") if bits(x.spec.dtype) < 32 else x
    y = wide / K.sqrt(K.mean(K.square(wide), axes, keepdims=True) + epsilon)
    return cast_to(y if scale is None else y * _at(scale, wide, axes), x.spec.dtype)


def _normalized(op: Any, x: Tensor) -> Tensor:
    if op.order != 2:
        raise tr.refused(f"the operation Normalize of order {op.order}")
    axis = None if op.axis is None else tr.listed(op.axis)
    squares = K.sum(K.square(x), axis, keepdims=True)
    epsilon = K.epsilon() if op.epsilon is None else op.epsilon
    return x / K.sqrt(K.maximum(squares, epsilon**2))


# --- attention and softmax ------------------------------------------------------------------------


def _softmax(function: tr.Function) -> tr.Function:
    return lambda op, x: function(x, axis=op.axis % x.ndim)


def _attention(
    op: Any, query: Tensor, key: Tensor, value: Tensor, bias: Any = None, mask: Any = None,
    scale: Any = None,
) -> Tensor:  # fmt: skip
    heads = query.spec.shape[2] // key.spec.shape[2]  # type: ignore[operator]
    if heads > 1:
        key, value = (K.repeat_elements(t, heads, 2) for t in (key, value))
    if op.attn_logits_soft_cap is not None:
        raise tr.refused("the operation DotProductAttention with attn_logits_soft_cap")
    width = query.spec.shape[3]
    scale = 1.0 / width**0.5 if scale is None else scale  # type: ignore[operator]
    scores = einsum("btnh,bsnh->bnts", query, key) * scale
    if bias is not None:
        scores = scores + cast_to(bias, scores.spec.dtype)
    if op.is_causal:
        t, s = (positions(scores, axis) for axis in (2, 3))
        early = K.expand_dims(K.expand_dims(s <= expand_dims(t, axes=(1,)), 0), 0)
        mask = early if mask is None else ew.logical_and(cast_to(mask, "bool"), early)
    if mask is not None:
        scores = K.switch(cast_to(mask, "bool"), scores, K.zeros_like(scores) + _least(scores))
    weights = softmax(scores, axis=3)
    return einsum("bnts,bsnh->btnh", weights, value)


def _least(x: Tensor) -> float:
    """The score of what a mask hides. Its exponential is 0."""
    return -3e4 if x.spec.dtype == "float16" else -1e30


def _softmax_layer(layer: Any, x: Tensor, mask: Any = None) -> Tensor:
    axes = tr.axes_of(x, layer.axis)
    if mask is not None:
        mask = K.greater(cast_to(mask, x.spec.dtype), 0.5)
        x = ew.where(mask, x, K.zeros_like(x) + _least(x))
    y = softmax(x, axis=axes[0]) if len(axes) == 1 else K.exp(x - K.logsumexp(x, axes, True))
    return y if mask is None else y * cast_to(mask, x.spec.dtype)


# --- losses ---------------------------------------------------------------------------------------


def _one_hot(op: Any, x: Any) -> Tensor:
    if op.sparse:
        raise tr.refused("the operation OneHot with sparse=True")
    codes = K.one_hot(x, op.num_classes)
    codes = cast_to(codes, keras.backend.standardize_dtype(op.dtype or K.floatx()))
    axis = op.axis % codes.ndim
    if axis == codes.ndim - 1:
        return codes
    order = list(range(codes.ndim - 1))
    return K.permute_dimensions(codes, [*order[:axis], codes.ndim - 1, *order[axis:]])


NN: dict[str, tr.Function] = {
    "Conv": _conv, "DepthwiseConv": _depthwise, "SeparableConv": _separable,
    "ConvTranspose": _transposed, "MaxPool": _pool("max"), "AveragePool": _pool("avg"),
    "Resize": _resized,
    "BatchNorm": _batch_norm, "LayerNorm": _layer_norm, "RMSNorm": _rms_norm,
    "Normalize": _normalized, "Softmax": _softmax(softmax), "LogSoftmax": _softmax(log_softmax),
    "DotProductAttention": _attention, "OneHot": _one_hot,
    "BinaryCrossentropy": lambda op, t, y: K.binary_crossentropy(t, y, op.from_logits),
    "CategoricalCrossentropy":
        lambda op, t, y: K.categorical_crossentropy(t, y, op.from_logits, op.axis),
    "SparseCategoricalCrossentropy":
        lambda op, t, y: K.sparse_categorical_crossentropy(t, y, op.from_logits, op.axis),
}  # fmt: skip

OPERATIONS = {**tr.ELEMENTWISE, **tr.REDUCTIONS, **tr.SHAPES, **NN}
"""From the name of an operation's class to a function of the operation and its operands."""

LAYERS: dict[type, tr.Function] = {keras.layers.Softmax: _softmax_layer}
"""From the class of a layer that asks Keras' backend for more than operations to its function."""
