"""NumPy's functions on tensors, element by element and along axes, in terms of K."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from backplane.backend import (
    activation,
    arithmetic,
    comparison,
    ordering,
    reduction,
    selection,
    shaping,
)
from backplane.backend._args import as_axis, as_int
from backplane.backend._numpy_table import FUNCTIONS, OPERATORS, in_dtype, listed, of, of_newer
from backplane.backend.activation import float_tensor
from backplane.core.graph import Tensor
from backplane.core.hooks import HOOKS
from backplane.core.shapes import normalize_axes
from backplane.core.spec import is_float
from backplane.ops import elementary as el
from backplane.ops import elementwise as ew
from backplane.ops import reduction as red
from backplane.ops import shaping as sh
from backplane.ops.creation import like
from backplane.ops.lift import as_tensor, cast_to, promoted

Function = Callable[..., Any]


# --- element by element ---------------------------------------------------------------------------


def _unary(function: Any, body: Function, k: str = "") -> None:
    @of(function, k=k)
    def call(x: Any, /, *, dtype: Any = None) -> Tensor:
        y: Tensor = body(in_dtype(dtype, x))
        return y


def _binary(function: Any, body: Function, k: str = "") -> None:
    @of(function, k=k)
    def call(x1: Any, x2: Any, /, *, dtype: Any = None) -> Tensor:
        a, b = promoted(x1, x2)
        y: Tensor = body(in_dtype(dtype, a), in_dtype(dtype, b))
        return y


def _on_floats(body: Function) -> Function:
    return lambda *xs: body(*map(float_tensor, xs))


def _toward_zero(x: Tensor) -> Tensor:
    return ew.mul(ew.sign(x), ew.floor(ew.abs(x))) if is_float(x.spec.dtype) else x


def _truth(x: Any) -> Tensor:
    return cast_to(as_tensor(x), "bool")


_K_UNARY: dict[Any, str] = {
    np.exp: "exp", np.log: "log", np.sqrt: "sqrt", np.square: "square", np.sin: "sin",
    np.cos: "cos", np.sign: "sign", np.rint: "round", np.fabs: "abs",
    np.absolute: "abs",
}  # fmt: skip
for _ufunc, _name in _K_UNARY.items():
    _unary(_ufunc, getattr(arithmetic, _name), k=_name)
_unary(np.tanh, activation.tanh, k="tanh")
_unary("expit", activation.sigmoid, k="sigmoid")
_unary("erf", arithmetic.erf, k="erf")
_unary("erfinv", arithmetic.erfinv, k="erfinv")
_unary("logit", _on_floats(lambda x: ew.sub(ew.log(x), ew.log1p(ew.neg(x)))))
_unary(np.positive, lambda x: x)
_unary(np.conjugate, lambda x: x)
_unary(np.reciprocal, _on_floats(lambda x: ew.div(ew.one(x), x)))
_FORMULAS: dict[Any, Function] = {
    np.expm1: ew.expm1, np.log1p: ew.log1p, np.exp2: el.exp2, np.cbrt: el.cbrt,
    np.log2: partial(el.log_to, 2.0), np.log10: partial(el.log_to, 10.0), np.tan: el.tan,
    np.sinh: el.sinh, np.cosh: el.cosh, np.arcsinh: el.arcsinh, np.arccosh: el.arccosh,
    np.arctanh: el.arctanh, np.isinf: el.is_infinite, np.isfinite: el.is_finite,
}  # fmt: skip
for _ufunc, _body in _FORMULAS.items():
    _unary(_ufunc, _on_floats(_body))
for _ufunc, _body in {np.arcsin: el.arcsin, np.arccos: el.arccos, np.arctan: el.arctan}.items():
    _unary(_ufunc, _on_floats(_body), k="atan2")
_unary(np.floor, ew.floor)
_unary(np.ceil, lambda x: ew.neg(ew.floor(ew.neg(x))))
_unary(np.trunc, _toward_zero)
_unary(np.fix, _toward_zero)
_unary(np.isnan, el.is_nan)
_unary(np.logical_not, lambda x: ew.logical_not(_truth(x)))
for _ufunc, _factor in ((np.deg2rad, math.pi / 180), (np.rad2deg, 180 / math.pi)):
    _unary(_ufunc, _on_floats(lambda x, factor=_factor: ew.mul(x, like(factor, x))))
FUNCTIONS[np.radians], FUNCTIONS[np.degrees] = FUNCTIONS[np.deg2rad], FUNCTIONS[np.rad2deg]

for _ufunc, _operator in OPERATORS.items():
    _binary(_ufunc, HOOKS[_operator])
_unary(np.negative, ew.neg)
_unary(np.invert, HOOKS["invert"])
_binary(np.power, HOOKS["pow"], k="pow")
_binary(np.float_power, _on_floats(ew.pow), k="pow")
_binary(np.arctan2, arithmetic.atan2, k="atan2")
_binary(np.maximum, arithmetic.maximum, k="maximum")
_binary(np.minimum, arithmetic.minimum, k="minimum")
for _name in ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal"):
    _binary(getattr(np, _name), getattr(comparison, _name), k=_name)
_binary(np.logical_and, lambda x, y: ew.logical_and(_truth(x), _truth(y)))
_binary(np.logical_or, lambda x, y: ew.logical_or(_truth(x), _truth(y)))
_binary(np.logical_xor, lambda x, y: ew.not_equal(_truth(x), _truth(y)))
_binary(np.left_shift, partial(el.shifted, ew.shift_left))
_binary(np.right_shift, partial(el.shifted, ew.shift_right))
_binary(np.hypot, _on_floats(el.hypot))
_binary(np.logaddexp, _on_floats(partial(el.log_of_sum, math.e)), k="logsumexp")
_binary(np.logaddexp2, _on_floats(partial(el.log_of_sum, 2.0)), k="logsumexp")


@of(np.round, np.around, k="round")
def _round(a: Any, decimals: int = 0, out: None = None) -> Tensor:
    x, decimals = as_tensor(a), as_int(decimals, "decimals")
    if is_float(x.spec.dtype):
        return el.rounded(x, decimals)
    if decimals >= 0:
        return arithmetic.round(x)
    return cast_to(el.rounded(cast_to(x, "float64"), decimals), x.spec.dtype)


@of(np.clip, k="clip")
def _clip(
    a: Any, a_min: Any = None, a_max: Any = None, out: None = None, *, min: Any = None,
    max: Any = None,
) -> Tensor:  # fmt: skip
    low, high = (min if a_min is None else a_min), (max if a_max is None else a_max)
    return arithmetic.clip(a, low, high)


@of(np.where, k="where")
def _where(condition: Any, x: Any = None, y: Any = None, /) -> Tensor:
    if x is None or y is None:
        raise TypeError(
            "np.where of a condition alone gives indices, whose number would depend on values: "
            "give x and y, or use K.where(condition, x, y)"
        )
    return selection.where(condition, x, y)


@of(np.nan_to_num)
def _nan_to_num(
    x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None
) -> Tensor:
    x = as_tensor(x)
    if not is_float(x.spec.dtype):
        return x
    import ml_dtypes  # Here: it knows the range of bfloat16 too, and only this function asks.

    largest = float(ml_dtypes.finfo(x.spec.dtype).max)
    high = like(largest if posinf is None else posinf, x)
    low = like(-largest if neginf is None else neginf, x)
    y = ew.where(el.is_nan(x), like(nan, x), x)
    y = ew.where(ew.equal(x, like(math.inf, x)), high, y)
    return ew.where(ew.equal(x, like(-math.inf, x)), low, y)


# --- reductions -----------------------------------------------------------------------------------


def _reducing(function: Any, name: str) -> None:
    """A reduction with the arguments `a, axis, dtype, out, keepdims`."""
    body = getattr(reduction, name)

    @of(function, k=name)
    def call(
        a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False
    ) -> Tensor:
        return body(_counted(in_dtype(dtype, a)), axis, keepdims)


def _counted(x: Tensor) -> Tensor:
    return cast_to(x, "int32") if x.spec.dtype == "bool" else x


def _choosing(functions: Sequence[Any], name: str) -> None:
    """A reduction with the arguments `a, axis, out, keepdims`."""
    body = getattr(reduction, name)

    @of(*functions, k=name)
    def call(a: Any, axis: Any = None, out: None = None, keepdims: bool = False) -> Tensor:
        return body(a, axis, keepdims)


for _name in ("sum", "prod", "mean"):
    _reducing(getattr(np, _name), _name)
_choosing([np.max, np.amax], "max")
_choosing([np.min, np.amin], "min")
_choosing([np.any], "any")
_choosing([np.all], "all")


def _spreading(function: Any, name: str, finish: Function) -> None:
    """The variance, or what `finish` makes of it."""
    body = getattr(reduction, name)

    @of(function, k=name)
    def call(
        a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: float = 0,
        keepdims: bool = False,
    ) -> Tensor:  # fmt: skip
        x = float_tensor(in_dtype(dtype, a))
        if not ddof:
            return body(x, axis, keepdims)
        axes = normalize_axes(None if axis is None else listed(axis), x.ndim)
        deviation = x - reduction.mean(x, axis, True)
        squares = reduction.sum(ew.mul(deviation, deviation), axis, keepdims)
        number = ew.sub(red.count(x, axes, x.spec.dtype), like(ddof, x))
        return finish(ew.div(squares, number))


_spreading(np.var, "var", lambda x: x)
_spreading(np.std, "std", ew.sqrt)


def _placing(function: Any, name: str) -> None:
    body = getattr(reduction, name)

    @of(function, k=name)
    def call(a: Any, axis: Any = None, out: None = None, *, keepdims: bool = False) -> Tensor:
        x = as_tensor(a)
        y: Tensor = body(shaping.flatten(x) if axis is None else x, -1 if axis is None else axis)
        if not keepdims:
            return y
        places = range(x.ndim) if axis is None else [as_axis(axis, x)]
        return sh.expand_dims(y, axes=tuple(places))


def _cumulating(function: Any, newer: str, name: str) -> None:
    body = getattr(reduction, name)

    @of(function, k=name)
    def call(a: Any, axis: Any = None, dtype: Any = None, out: None = None) -> Tensor:
        x = _counted(in_dtype(dtype, a))
        y: Tensor = body(shaping.flatten(x), 0) if axis is None else body(x, axis)
        return y

    @of_newer(newer, k=name)
    def standard(x: Any, /, *, axis: Any = None, dtype: Any = None) -> Tensor:
        # As the standard of array libraries says, only vectors may leave the axis out.
        x = as_tensor(x)
        if axis is None and x.ndim != 1:
            raise ValueError(f"np.{newer}: a tensor of {x.ndim} axes needs an axis")
        return call(x, 0 if axis is None else axis, dtype)


_placing(np.argmax, "argmax")
_placing(np.argmin, "argmin")
_cumulating(np.cumsum, "cumulative_sum", "cumsum")
_cumulating(np.cumprod, "cumulative_prod", "cumprod")


def _sorting(function: Any, name: str) -> None:
    body = getattr(ordering, name)

    @of(function, k=name)
    def call(
        a: Any, axis: Any = -1, kind: Any = None, order: None = None, *, stable: Any = None
    ) -> Tensor:
        y: Tensor = body(shaping.flatten(as_tensor(a)), -1) if axis is None else body(a, axis)
        return y


_sorting(np.sort, "sort")
_sorting(np.argsort, "argsort")


@of(np.ptp)
def _ptp(a: Any, axis: Any = None, out: None = None, keepdims: bool = False) -> Tensor:
    return ew.sub(reduction.max(a, axis, keepdims), reduction.min(a, axis, keepdims))


@of(np.count_nonzero)
def _count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    return reduction.sum(cast_to(_truth(a), "int32"), axis, keepdims)


@of(np.average)
def _average(a: Any, axis: Any = None, weights: Any = None, *, keepdims: bool = False) -> Tensor:
    if weights is None:
        return reduction.mean(a, axis, keepdims)
    x, w = promoted(a, weights)
    x, w = float_tensor(x), float_tensor(w)
    if w.ndim == 1 and x.ndim > 1:
        if axis is None:
            raise ValueError("np.average: weights of one axis need an axis")
        position = as_axis(axis, x)
        w = sh.expand_dims(w, axes=tuple(i for i in range(x.ndim) if i != position))
    w = sh.broadcast_like(w, x)
    total = reduction.sum(w, axis, keepdims)
    return ew.div(reduction.sum(ew.mul(x, w), axis, keepdims), total)


@of(np.linalg.norm, k="sqrt")
def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    x = float_tensor(x)
    whole = x.ndim if axis is None else len(listed(axis))
    if ord not in (None, "fro") and whole != 1:
        raise TypeError(
            f"np.linalg.norm: ord={ord!r} of {whole} axes takes no symbolic tensors; give one axis"
        )
    if ord in (None, "fro", 2):
        return ew.sqrt(reduction.sum(ew.mul(x, x), axis, keepdims))
    if ord in (math.inf, -math.inf):
        chosen = reduction.max if ord > 0 else reduction.min
        return chosen(ew.abs(x), axis, keepdims)
    if ord == 1:
        return reduction.sum(ew.abs(x), axis, keepdims)
    if ord == 0:
        return reduction.sum(cast_to(_truth(x), x.spec.dtype), axis, keepdims)
    powers = reduction.sum(ew.pow(ew.abs(x), like(ord, x)), axis, keepdims)
    return ew.pow(powers, like(1 / ord, x))
