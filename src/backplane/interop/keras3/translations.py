"""Operations of `keras.ops` on tensors of K: elementwise, reductions, shapes and products.

Each table maps the name of an operation's class to a function of the operation, for its settings,
and of the operands.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np

from backplane import backend as K
from backplane.backend.activation import float_tensor
from backplane.core.graph import Tensor
from backplane.core.spec import bits, is_float
from backplane.ops import elementwise as ew
from backplane.ops.creation import shaped, size_at
from backplane.ops.einsum import einsum
from backplane.ops.groups import gelu
from backplane.ops.indexing import flip, gather, pad
from backplane.ops.lift import as_tensor, cast_to
from backplane.ops.ragged import positions
from backplane.ops.reduction import top_k
from backplane.ops.shaping import broadcast_to, expand_dims, full_like, reshape, squeeze, transpose

Function = Callable[..., Any]


def refused(what: str) -> NotImplementedError:
    """The error about something for which there is no translation."""
    return NotImplementedError(
        f"{what} of Keras has no translation into K. Keras writes such models itself: "
        "keras.Model(inputs, outputs).export(path, format='onnx')"
    )


# --- elementwise ----------------------------------------------------------------------------------


def _unary(function: Function) -> Function:
    return lambda op, x: function(x)


def _of_float(function: Function) -> Function:
    return lambda op, x: function(float_tensor(x))


def _dtype(x: Any) -> Any:
    return x.spec.dtype if isinstance(x, Tensor) else getattr(x, "dtype", type(x))


def alike(*xs: Any) -> list[Tensor]:
    """Operands in the dtype that Keras chooses for them."""
    dtype = keras.backend.result_type(*map(_dtype, xs))
    return [cast_to(as_tensor(x), dtype) for x in xs]


def _binary(function: Function) -> Function:
    return lambda op, x, y: function(*alike(x, y))


def _divided(x: Tensor, y: Tensor) -> Tensor:
    return ew.div(float_tensor(x), float_tensor(y))


def _bools(function: Function) -> Function:
    return lambda op, *xs: function(*[cast_to(as_tensor(x), "bool") for x in xs])


def _where(op: Any, condition: Any, x: Any, y: Any) -> Tensor:
    return ew.where(cast_to(as_tensor(condition), "bool"), *alike(x, y))


def _clip(op: Any, x: Tensor) -> Tensor:
    x = cast_to(x, "int32") if x.spec.dtype == "bool" else x
    return ew.minimum(ew.maximum(x, *_as(x, op.x_min)), *_as(x, op.x_max))


def _as(x: Tensor, *values: Any) -> list[Tensor]:
    return [cast_to(as_tensor(v), x.spec.dtype) for v in values]


def _glu(op: Any, x: Tensor) -> Tensor:
    halves = SimpleNamespace(indices_or_sections=2, axis=op.axis)
    value, gate = _split(halves, x)
    return value * ew.sigmoid(gate)


def _relu(op: Any, x: Tensor) -> Tensor:
    return K.relu(x, op.negative_slope, op.max_value, op.threshold)


def _selu(x: Tensor) -> Tensor:
    alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
    return scale * K.elu(x, alpha)


_FLOATS: dict[str, Function] = {
    "Exp": ew.exp, "Log": ew.log, "Sqrt": ew.sqrt, "Sin": ew.sin, "Cos": ew.cos,
    "Tanh": ew.tanh, "Erf": ew.erf, "Erfinv": ew.erfinv, "Sigmoid": ew.sigmoid,
    "Softplus": ew.softplus, "Softsign": ew.softsign, "Selu": _selu,
    "Silu": lambda x: x * ew.sigmoid(x), "LogSigmoid": lambda x: -ew.softplus(-x),
    "HardSigmoid": lambda x: K.clip(x / 6.0 + 0.5, 0.0, 1.0),
    "HardSilu": lambda x: x * K.clip(x / 6.0 + 0.5, 0.0, 1.0),
    "HardTanh": lambda x: K.clip(x, -1.0, 1.0), "TanhShrink": lambda x: x - ew.tanh(x),
    "Mish": lambda x: x * ew.tanh(ew.softplus(x)),
    "SparsePlus": lambda x: ew.where(x < 1.0, K.square(K.maximum(x + 1.0, 0.0)) / 4.0, x),
    "SparseSigmoid": lambda x: K.clip((x + 1.0) / 2.0, 0.0, 1.0),
}  # fmt: skip
ELEMENTWISE: dict[str, Function] = {
    "Absolute": _unary(lambda x: abs(x)), "Negative": _unary(lambda x: -x),
    "Sign": _unary(K.sign), "Square": _unary(lambda x: x * x), "Floor": _of_float(ew.floor),
    "Ceil": _of_float(lambda x: -ew.floor(-x)), "Relu": _unary(K.relu),
    "Relu6": _unary(lambda x: K.relu(x, max_value=6.0)), "LogicalNot": _bools(ew.logical_not),
    "Reciprocal": _of_float(lambda x: 1.0 / x), "Rsqrt": _of_float(lambda x: 1.0 / ew.sqrt(x)),
    "Log1p": _of_float(lambda x: ew.log1p(x)), "Expm1": _of_float(lambda x: ew.expm1(x)),
    "Log2": _of_float(lambda x: ew.log(x) / log(2)),
    "Log10": _of_float(lambda x: ew.log(x) / log(10)),
    "Isnan": _of_float(lambda x: ew.not_equal(x, x)), "Copy": _unary(K.identity),
    "StopGradient": _unary(K.stop_gradient),
    **{name: _of_float(function) for name, function in _FLOATS.items()},
    "Add": _binary(lambda x, y: x + y), "Subtract": _binary(ew.sub),
    "Multiply": _binary(lambda x, y: x * y), "Maximum": _binary(ew.maximum),
    "Minimum": _binary(ew.minimum), "FloorDivide": _binary(ew.floordiv), "Mod": _binary(ew.mod),
    "Power": _binary(lambda x, y: x**y), "Divide": _binary(_divided),
    "TrueDivide": _binary(_divided), "Equal": _binary(ew.equal),
    "NotEqual": _binary(ew.not_equal), "Less": _binary(ew.less),
    "LessEqual": _binary(ew.less_equal), "Greater": _binary(lambda x, y: ew.less(y, x)),
    "GreaterEqual": _binary(lambda x, y: ew.less_equal(y, x)),
    "LogicalAnd": _bools(ew.logical_and), "LogicalOr": _bools(ew.logical_or),
    "Elu": lambda op, x: K.elu(x, op.alpha), "ReLU": _relu,
    "Gelu": lambda op, x: gelu(x, approximate=op.approximate),
    "Celu": lambda op, x: op.alpha * K.elu(x / op.alpha),
    "LeakyRelu": lambda op, x: K.relu(x, op.negative_slope),
    "Glu": _glu, "Squareplus": lambda op, x: (x + ew.sqrt(x * x + op.b)) / 2.0,
    "SoftShrink": lambda op, x: K.sign(x) * K.maximum(abs(x) - op.threshold, 0.0),
    "HardShrink": lambda op, x: x * K.cast(abs(x) > op.threshold, x.spec.dtype),
    "Where": _where, "Clip": _clip,
    "Cast": lambda op, x: cast_to(x, keras.backend.standardize_dtype(op.dtype)),
    "ConvertToTensor": lambda op, x: x if op.dtype is None else cast_to(x, op.dtype),
    "OnesLike": lambda op, x: full_like(x, 1, op.dtype),
    "ZerosLike": lambda op, x: full_like(x, 0, op.dtype),
}  # fmt: skip


# --- reductions -----------------------------------------------------------------------------------


def _axes(x: Tensor, axis: Any) -> Any:
    return None if axis is None else list(axis) if isinstance(axis, list | tuple) else axis


def _reduction(function: Function) -> Function:
    return lambda op, x: function(x, _axes(x, op.axis), op.keepdims)


def _total(function: Function) -> Function:
    """A sum or a product. As in Keras, it counts in 32 bits at least."""

    def total(op: Any, x: Tensor) -> Tensor:
        small = not is_float(x.spec.dtype) and bits(x.spec.dtype) < 32
        wide = "uint32" if x.spec.dtype.startswith("u") else "int32"
        return function(cast_to(x, wide) if small else x, _axes(x, op.axis), op.keepdims)

    return total


def _position(function: Function) -> Function:
    def find(op: Any, x: Tensor) -> Tensor:
        axis = 0 if op.axis is None else op.axis
        found = cast_to(function(reshape(x, shape=(-1,)) if op.axis is None else x, axis), "int32")
        return K.expand_dims(found, axis) if op.keepdims and op.axis is not None else found

    return find


def _cumulated(op: Any, x: Tensor) -> Tensor:
    summed = K.cumsum(x if op.axis is not None else reshape(x, shape=(-1,)), op.axis or 0)
    return summed if op.dtype is None else cast_to(summed, op.dtype)


def _moments(op: Any, x: Tensor) -> list[Tensor]:
    axes = _axes(x, op.axes)
    return [K.mean(x, axes, op.keepdims), K.var(x, axes, op.keepdims)]


REDUCTIONS: dict[str, Function] = {
    **{
        name: _reduction(getattr(K, name.lower()))
        for name in ("Mean", "Var", "Std", "Max", "Min", "Any", "All", "Logsumexp")
    },
    "Sum": _total(K.sum), "Prod": _total(K.prod),
    "Argmax": _position(K.argmax), "Argmin": _position(K.argmin), "Moments": _moments,
    "Cumsum": _cumulated,
    "TopK": lambda op, x: top_k(x, k=op.k),
}  # fmt: skip


# --- shapes ---------------------------------------------------------------------------------------


def _reshape(op: Any, x: Tensor) -> Tensor:
    sizes = [-1 if n is None else n for n in listed(op.newshape)]
    return K.reshape(x, sizes)


def listed(value: Any) -> list[Any]:
    """A list of what may be a single value."""
    return list(value) if isinstance(value, list | tuple | range) else [value]


def _reordered(x: Tensor, order: Callable[..., np.ndarray], *axes: Any) -> Tensor:
    """`x` with its axes in the order into which a function of NumPy brings those of an array."""
    array = np.empty(range(x.ndim))  # The size of each axis is its number.
    return transpose(x, perm=order(array, *axes).shape)


def axes_of(x: Tensor, axis: Any) -> tuple[int, ...]:
    """The axes that an operation names: sorted, and counted from the front. None means all."""
    axes = range(x.ndim) if axis is None else listed(axis)
    return tuple(sorted(a % x.ndim for a in axes))


def _expanded(op: Any, x: Tensor) -> Tensor:
    axes = listed(op.axis)
    rank = x.ndim + len(axes)
    return expand_dims(x, axes=tuple(sorted(a % rank for a in axes)))


def _squeezed(op: Any, x: Tensor) -> Tensor:
    ones = [i for i, n in enumerate(x.spec.shape) if n == 1]
    axes = axes_of(x, ones if op.axis is None else op.axis)
    return squeeze(x, axes=axes) if axes else x


def _split(op: Any, x: Tensor) -> list[Tensor]:
    axis = op.axis % x.ndim
    ends = op.indices_or_sections
    if isinstance(ends, int):
        size = x.spec.shape[axis]
        if size is None:
            raise refused("the operation Split along an axis of unknown size")
        ends = range(size // ends, size, size // ends)
    lead = (slice(None),) * axis
    return [x[(*lead, slice(a, b))] for a, b in zip([0, *ends], [*ends, None], strict=True)]


def _unstacked(op: Any, x: Tensor) -> list[Tensor]:
    axis = op.axis % x.ndim
    lead = (slice(None),) * axis
    return [x[(*lead, i)] for i in range(op.num or x.spec.shape[axis])]


def _padded(op: Any, x: Tensor, constant_values: Any = None) -> Tensor:
    if op.mode != "constant":
        raise refused(f"the operation Pad with mode {op.mode!r}")
    widths = np.broadcast_to(np.asarray(op.pad_width, int), (x.ndim, 2)).tolist()
    return pad(x, padding=tuple((a, b) for a, b in widths), value=float(constant_values or 0))


def _repeated(op: Any, x: Tensor) -> Tensor:
    if not isinstance(op.repeats, int):
        raise refused("the operation Repeat with a number for each element")
    if op.axis is None:
        return K.repeat_elements(reshape(x, shape=(-1,)), op.repeats, 0)
    return K.repeat_elements(x, op.repeats, op.axis)


def _taken(op: Any, x: Any, indices: Any) -> Tensor:
    x, indices = as_tensor(x), as_tensor(indices)
    if op.axis is None:
        x = reshape(x, shape=(-1,))
    axis = (op.axis or 0) % x.ndim
    size = size_at(x, axis)
    wrapped = ew.where(K.less(indices, 0), indices + K.cast(size, indices.spec.dtype), indices)
    return gather(x, wrapped, axis=axis)


def _triangle(lower: bool) -> Function:
    def function(op: Any, x: Tensor) -> Tensor:
        rows, columns = (positions(x, a) for a in (x.ndim - 2, x.ndim - 1))
        distance = columns - expand_dims(rows, axes=(1,)) - op.k
        inside = distance <= 0 if lower else distance >= 0
        return x * K.cast(inside, x.spec.dtype)

    return function


def _arange(op: Any, start: Any, stop: Any = None, step: Any = None) -> Tensor:
    start, stop = (0, start) if stop is None else (start, stop)
    return K.arange(start, stop, 1 if step is None else step, dtype=op.dtype or "int32")


def _tensordot(op: Any, x: Any, y: Any) -> Tensor:
    x, y = alike(x, y)
    axes = op.axes
    if isinstance(axes, int):
        axes = (range(x.ndim - axes, x.ndim), range(axes))
    left, right = ([a % t.ndim for a in listed(ax)] for ax, t in zip(axes, (x, y), strict=True))
    names = [chr(ord("a") + i) for i in range(x.ndim + y.ndim)]
    a, b = names[: x.ndim], names[x.ndim :]
    for i, j in zip(left, right, strict=True):
        b[j] = a[i]
    kept = [n for n in (*a, *b) if not (n in a and n in b)]
    return einsum(f"{''.join(a)},{''.join(b)}->{''.join(kept)}", x, y)


SHAPES: dict[str, Function] = {
    "Reshape": _reshape, "Transpose": lambda op, x: _reordered(x, np.transpose, op.axes),
    "Moveaxis": lambda op, x: _reordered(x, np.moveaxis, op.source, op.destination),
    "Swapaxes": lambda op, x: _reordered(x, np.swapaxes, op.axis1, op.axis2),
    "ExpandDims": _expanded, "Squeeze": _squeezed,
    "Concatenate": lambda op, xs: K.concatenate(alike(*xs), op.axis),
    "Stack": lambda op, xs: K.stack(alike(*xs), op.axis), "Split": _split,
    "Unstack": _unstacked, "Pad": _padded, "Repeat": _repeated, "Take": _taken,
    "Tile": lambda op, x: K.tile(x, op.repeats),
    "Flip": lambda op, x: flip(x, axes=axes_of(x, op.axis)),
    "BroadcastTo": lambda op, x: shaped(broadcast_to, list(op.shape), x),
    "Ravel": lambda op, x: reshape(x, shape=(-1,)), "GetItem": lambda op, x, key: x[key],
    "Tril": _triangle(True), "Triu": _triangle(False), "Arange": _arange,
    "Matmul": _binary(lambda x, y: x @ y), "Tensordot": _tensordot,
    "Einsum": lambda op, *xs: einsum(op.subscripts, *alike(*xs)),
}  # fmt: skip
