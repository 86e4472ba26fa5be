"""Element-wise primitives: ufuncs, as they are wherever they keep the dtype."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import isfinite
from typing import Any

import numpy as np

from backplane.core.numbers import check, show
from backplane.core.spec import HALVES, Spec, is_float
from backplane.engines.arrays.special import erfinv
from backplane.engines.factorizations import is_half
from backplane.engines.table import Lowering, Table, Value, barrier, check_windows

TABLE = Table.like_numpy(np, {"out": 1})


@TABLE.add("identity", "stop_gradient")
def unchanged(x: Value) -> Value:
    """`x` itself."""
    return x


TABLE.update(Table(barrier=barrier, check_windows=check_windows))


def in_single(build: Callable[..., Lowering], specs: Sequence[Spec], **params: Any) -> Lowering:
    """The lowering that `build(specs, **params)` gives; halves are computed in float32, faster."""
    if specs[0].dtype not in HALVES:
        return build(specs, **params)
    half = np.dtype(specs[0].dtype)
    single = build([s.with_dtype("float32") for s in specs], **params)

    def lower(*xs: Value, out: Value | None = None) -> Value:
        y = single(*[x.astype(np.float32) for x in xs])
        if out is None:
            return y.astype(half)
        np.copyto(out, y, casting="same_kind")
        return out

    return lower


def in_wide(dtype: np.dtype) -> np.dtype:
    """The dtype to add up in, which BLAS knows: float32 for halves."""
    return np.dtype(np.float32) if dtype.name in HALVES else dtype


def on_arrays(function: Lowering, specs: Sequence[Spec]) -> Lowering:
    """`function(*operands, out=None)` of arrays of one dtype, for `specs`; scalars get an axis."""

    def build(specs: Sequence[Spec]) -> Lowering:
        if specs[0].ndim:
            return function
        return lambda *xs: function(*[x.reshape(1) for x in xs])[0]

    return in_single(build, specs)


def _rounding(name: str, ufunc: np.ufunc) -> None:
    """Register a ufunc for rounding. It would make floats of integers, which stay as they are."""
    TABLE.build(name, out=1)(lambda specs: ufunc if is_float(specs[0].dtype) else np.positive)


_rounding("floor", np.floor)
_rounding("round", np.rint)


@TABLE.build("cast", out=1)
def _cast(specs: Sequence[Spec], *, dtype: str) -> Lowering:
    kind = np.dtype(dtype)
    if specs[0].ndim == 0:  # may be a size, a Python int
        return partial(np.asarray, dtype=kind)

    def cast(x: Value, out: Value | None = None) -> Value:
        if out is None:
            return x.astype(kind)
        np.copyto(out, x, casting="unsafe")
        return out

    return cast


@TABLE.build("where", out=3)
def _where(specs: Sequence[Spec]) -> Lowering:
    return select if specs[0].ndim else _where_scalar


def _where_scalar(mask: Value, x: Value, y: Value, out: Value | None = None) -> Value:
    """A choice between whole arrays."""
    if out is None:
        return np.where(mask, x, y)
    np.copyto(out, x if mask else y)
    return out


TABLE.add("atan2", out=1, unless=is_half)(np.arctan2)


@TABLE.add("bitcast")
def _bitcast(x: Value, *, dtype: str) -> Value:
    kind = np.dtype(dtype)
    x = np.ascontiguousarray(x) if x.ndim else x
    if kind.itemsize == x.itemsize:
        return x.view(kind)
    if kind.itemsize < x.itemsize:
        return x[..., None].view(kind)
    return x.view(kind)[..., 0] if x.size else np.empty(x.shape[:-1], kind)


@TABLE.add("print")
def _print(x: Value, *, message: str, style: tuple[Any, ...]) -> Value:
    show(x, message, style)
    return x


@TABLE.add("check_numerics")
def _check_numerics(x: Value, *, message: str) -> Value:
    check(x, message)
    return x


# --- activations ---------------------------------------------------------------------------------


@TABLE.build("relu", out=1)
def _relu(specs: Sequence[Spec]) -> Lowering:
    # An array for the zero: NumPy converts a Python number anew at each call, and NumPy 1 would
    # make a scalar operand float64.
    return partial(np.maximum, np.zeros((), specs[0].dtype))


def sigmoid(x: Value, out: Value | None = None) -> Value:
    """1 / (1 + exp(-x)). It takes a third of SciPy's time."""
    y = np.negative(x, out=out)
    np.exp(y, out=y)  # inf for very negative x, which gives the right 0
    np.add(y, _ONES[y.dtype.char], out=y)
    return np.reciprocal(y, out=y)


_ONES = {char: np.ones((), char) for char in "fd"}
"""NumPy converts a Python number anew at each call."""


TABLE.build("sigmoid", out=4)(lambda specs: on_arrays(sigmoid, specs))
TABLE.build("erfinv")(lambda specs: on_arrays(erfinv, specs))


@TABLE.add("relu_grad", out=3)
def _relu_grad(g: Value, y: Value, out: Value | None = None) -> Value:
    return masked(y > 0, g, out)


@TABLE.add("mul_no_nan", out=2)
def _mul_no_nan(x: Value, y: Value, out: Value | None = None) -> Value:
    """A plain product where the sum of `x` is finite; a mask would write memory twice."""
    if isfinite(np.add.reduce(x, axis=None)):
        return np.multiply(x, y, out=out)
    mask = y != 0
    return masked(mask, np.multiply(x, y, out=out), out)


def _scaled(slope: Value, g: Value, out: Value | None) -> Value:
    """`slope` times `g`, over the memory of `slope` where it has the shape of the product."""
    if out is None and slope.shape == g.shape:
        out = slope
    return np.multiply(slope, g, out=out)


def _sigmoid_grad(g: Value, y: Value, out: Value | None = None) -> Value:
    slope = 1 - y
    slope *= y
    return _scaled(slope, g, out)


def _tanh_grad(g: Value, y: Value, out: Value | None = None) -> Value:
    slope = y * y
    np.subtract(1, slope, out=slope)
    return _scaled(slope, g, out)


# They are as fast decomposed, but to write a program takes longer then: a step of 200 layers 46 ms
# instead of 37.
TABLE.build("sigmoid_grad", out=3)(lambda specs: on_arrays(_sigmoid_grad, specs))
TABLE.build("tanh_grad", out=3)(lambda specs: on_arrays(_tanh_grad, specs))


# --- choices by a mask, without a branch for each element ----------------------------------------

# `np.where` branches: on a random mask of a million float32 it takes 4.1 ms. The bit operations
# below take 0.5 (`masked`) and 1.1 (`select`). For few elements its single call is the faster one.

SMALL = 4096
"""Below this number of elements `np.where` is faster."""

_BITS = {size: np.dtype(f"i{size}") for size in (1, 2, 4, 8)}


def masked(mask: Value, x: Value, out: Value | None = None) -> Value:
    """`x` where `mask`, else 0 (also where `x` is NaN or infinite); in `out` if that is given."""
    if x.size < SMALL and out is None:
        return np.where(mask, x, x.dtype.type(0))
    bits = _BITS[x.itemsize]
    whole = out is None and mask.shape == x.shape
    # -1, all bits set, where True; as wide as the result, it gives its memory to that.
    ones = np.negative(mask.view(np.int8), dtype=bits if whole else None)
    memory = ones if whole else None if out is None else out.view(bits)
    return np.bitwise_and(x.view(bits), ones, out=memory).view(x.dtype)


def select(mask: Value, x: Value, y: Value, out: Value | None = None) -> Value:
    """`x` where `mask`, else `y`; all three broadcast, to the shape of `out` if that is given."""
    if mask.size < SMALL and out is None:
        return np.where(mask, x, y)
    bits = _BITS[x.itemsize]
    ones = np.negative(mask.view(np.int8), dtype=bits)
    u, v = x.view(bits), y.view(bits)
    chosen = (u ^ v) & ones
    return np.bitwise_xor(chosen, v, out=None if out is None else out.view(bits)).view(x.dtype)
