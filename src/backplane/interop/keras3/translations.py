"""Operations of `keras.ops` on tensors of K: elementwise, reductions, shapes and products.

Each table maps the name of an operation's class to a function of the operation, for its settings,
and of the operands.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log, sqrt
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np

from backplane import backend as K
from backplane.core.graph import Tensor
from backplane.core.spec import bits, is_float
from backplane.interop.keras3.einsum import einsum
from backplane.ops import elementwise as ew
from backplane.ops.creation import arange, scalar, shaped, size_at
from backplane.ops.indexing import flip, gather, pad
from backplane.ops.lift import as_tensor, cast_to
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


def _float(x: Any) -> Tensor:
    x = as_tensor(x)
    return x if is_float(x.spec.dtype) else cast_to(x, K.floatx())


def _unary(function: Function) -> Function:
    return lambda op, x: function(x)


def _of_float(function: Function) -> Function:
    return lambda op, x: function(_float(x))


def _dtype(x: Any) -> Any:
    return x.spec.dtype if isinstance(x, Tensor) else getattr(x, "dtype", type(x))


def alike(*xs: Any) -> list[Tensor]:
    """Operands in the dtype that Keras chooses for them."""
    dtype = keras.backend.result_type(*map(_dtype, xs))
    return [cast_to(as_tensor(x), dtype) for x in xs]


def _binary(function: Function) -> Function:
    return lambda op, x, y: function(*alike(x, y))


def _divided(x: Tensor, y: Tensor) -> Tensor:
    return ew.div(_float(x), _float(y))


def _bools(function: Function) -> Function:
    return lambda op, *xs: function(*[cast_to(as_tensor(x), "bool") for x in xs])


def _tanh_gelu(x: Tensor) -> Tensor:
    inner: Tensor = sqrt(2 / np.pi) * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1.0 + K.tanh(inner))


def _gelu(op: Any, x: Tensor) -> Tensor:
    return _tanh_gelu(x) if op.approximate else 0.5 * x * (1.0 + K.erf(x / sqrt(2)))


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
    "Elu": lambda op, x: K.elu(x, op.alpha), "Gelu": _gelu, "ReLU": _relu,
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
    """Sums and products: Keras counts in 32 bits at least."""

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


def _transpose(op: Any, x: Tensor) -> Tensor:
    axes = range(x.ndim)[::-1] if op.axes is None else [a % x.ndim for a in op.axes]
    return transpose(x, perm=tuple(axes))


def _moved(op: Any, x: Tensor) -> Tensor:
    sources, targets = ([a % x.ndim for a in listed(axes)] for axes in (op.source, op.destination))
    perm = [i for i in range(x.ndim) if i not in sources]
    for target, source in sorted(zip(targets, sources, strict=True)):
        perm.insert(target, source)
    return transpose(x, perm=tuple(perm))


def _swapped(op: Any, x: Tensor) -> Tensor:
    perm = list(range(x.ndim))
    perm[op.axis1], perm[op.axis2] = perm[op.axis2], perm[op.axis1]
    return transpose(x, perm=tuple(perm))


def _expanded(op: Any, x: Tensor) -> Tensor:
    axes = listed(op.axis)
    rank = x.ndim + len(axes)
    return expand_dims(x, axes=tuple(sorted(a % rank for a in axes)))


def _squeezed(op: Any, x: Tensor) -> Tensor:
    ones = [i for i, n in enumerate(x.spec.shape) if n == 1]
    axes = ones if op.axis is None else [a % x.ndim for a in listed(op.axis)]
    return squeeze(x, axes=tuple(sorted(axes))) if axes else x


def _concatenated(op: Any, xs: Any) -> Tensor:
    return K.concatenate(alike(*xs), op.axis)


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


def _flipped(op: Any, x: Tensor) -> Tensor:
    axes = range(x.ndim) if op.axis is None else [a % x.ndim for a in listed(op.axis)]
    return flip(x, axes=tuple(sorted(axes)))


def _triangle(lower: bool) -> Function:
    def function(op: Any, x: Tensor) -> Tensor:
        rows, columns = (places(size_at(x, a)) for a in (x.ndim - 2, x.ndim - 1))
        distance = columns - expand_dims(rows, axes=(1,)) - op.k
        inside = distance <= 0 if lower else distance >= 0
        return x * K.cast(inside, x.spec.dtype)

    return function


def places(size: Any) -> Tensor:
    """0, 1, … for each place of an axis."""
    zero, one = scalar(0, "int32"), scalar(1, "int32")
    stop = size if isinstance(size, Tensor) else scalar(size, "int32")
    return arange(zero, stop, one, dtype="int32")


def _arange(op: Any, start: Any, stop: Any = None, step: Any = None) -> Tensor:
    start, stop = (0, start) if stop is None else (start, stop)
    return K.arange(start, stop, 1 if step is None else step, dtype=op.dtype or "int32")


def _dotted(op: Any, x: Any, y: Any) -> Tensor:
    x, y = alike(x, y)
    return x @ y


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
    "Reshape": _reshape, "Transpose": _transpose, "Moveaxis": _moved, "Swapaxes": _swapped,
    "ExpandDims": _expanded, "Squeeze": _squeezed, "Concatenate": _concatenated,
    "Stack": lambda op, xs: K.stack(alike(*xs), op.axis), "Split": _split,
    "Unstack": _unstacked, "Pad": _padded, "Repeat": _repeated, "Take": _taken,
    "Tile": lambda op, x: K.tile(x, op.repeats), "Flip": _flipped,
    "BroadcastTo": lambda op, x: shaped(broadcast_to, list(op.shape), x),
    "Ravel": lambda op, x: reshape(x, shape=(-1,)), "GetItem": lambda op, x, key: x[key],
    "Tril": _triangle(True), "Triu": _triangle(False), "Arange": _arange,
    "Matmul": _dotted, "Tensordot": _tensordot,
    "Einsum": lambda op, *xs: einsum(op.subscripts, *alike(*xs)),
}  # fmt: skip
