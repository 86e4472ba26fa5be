"""Reductions, cumulative sums, softmax and sorting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from operator import methodcaller

import numpy as np

from backplane.core.spec import Spec
from backplane.engines.base import Lowering, Table, Value, host_shape
from backplane.engines.numpy.elementwise import on_arrays, unchanged

TABLE = Table()

Axes = tuple[int, ...]


# --- sums ----------------------------------------------------------------------------------------


@TABLE.build("sum")
def summed(specs: Sequence[Spec], *, axes: Axes, keepdims: bool) -> Lowering:
    """The sum over `axes`, in the operand's dtype."""
    (spec,) = specs
    if spec.dtype == "float16":
        total = partial(np.add.reduce, axis=axes, dtype=np.float32, keepdims=keepdims)
        return lambda x: total(x).astype(np.float16)
    reduce = partial(np.add.reduce, axis=axes, dtype=np.dtype(spec.dtype), keepdims=keepdims)
    if spec.dtype not in ("float32", "float64") or len(axes) == spec.ndim:
        return reduce
    if axes == tuple(range(len(axes))):
        return partial(_sum_leading, count=len(axes), keepdims=keepdims)
    if axes == tuple(range(spec.ndim - len(axes), spec.ndim)):
        return partial(_sum_trailing, count=len(axes), keepdims=keepdims, reduce=reduce)
    return reduce


# Sums over all but a few channels (bias gradients, batch normalization) are matrix-vector products:
# BLAS is 2 to 17 times as fast as `np.add.reduce` there, which calls its inner loop for every row.


def _sum_leading(x: Value, *, count: int, keepdims: bool) -> Value:
    shape = x.shape
    rows = math.prod(shape[:count])
    total = np.dot(np.ones(rows, x.dtype), x.reshape(rows, math.prod(shape[count:])))
    return total.reshape((1,) * count + shape[count:] if keepdims else shape[count:])


_LONG = 1024
"""Rows from this length on are left to `np.add.reduce`, whose pairwise sum is more exact."""


def _sum_trailing(x: Value, *, count: int, keepdims: bool, reduce: Lowering) -> Value:
    kept = x.shape[:-count]
    columns = math.prod(x.shape[-count:])
    if columns >= _LONG:
        return reduce(x)
    total = np.dot(x.reshape(math.prod(kept), columns), np.ones(columns, x.dtype))
    return total.reshape(kept + (1,) * count if keepdims else kept)


@TABLE.build("mean")
def _mean(specs: Sequence[Spec], *, axes: Axes, keepdims: bool) -> Lowering:
    (spec,) = specs
    if spec.dtype == "float16":
        single = _mean([spec.with_dtype("float32")], axes=axes, keepdims=keepdims)
        return lambda x: single(x.astype(np.float32)).astype(np.float16)
    total = summed(specs, axes=axes, keepdims=keepdims)
    number = np.dtype(spec.dtype).type

    def mean(x: Value) -> Value:
        return total(x) / number(math.prod([x.shape[axis] for axis in axes]))

    return mean


@TABLE.build("sum_to")
def _sum_to(specs: Sequence[Spec], *, shape: tuple[int | None, ...]) -> Lowering:
    spec = specs[0]
    if None in shape or not spec.is_static:
        return partial(_sum_to_sizes, spec=spec, shape=shape)
    return _sum_down(spec, spec.shape, shape)  # type: ignore[arg-type]


def _sum_to_sizes(x: Value, *dims: Value, spec: Spec, shape: tuple[int | None, ...]) -> Value:
    return _sum_down(spec, x.shape, host_shape(shape, dims))(x)


def _sum_down(spec: Spec, given: tuple[int, ...], wanted: tuple[int, ...]) -> Lowering:
    """The sum of an array of shape `given` down to the shape `wanted`, which broadcasts to it."""
    extra = len(given) - len(wanted)
    leading = tuple(range(extra))
    shrunk = [i + extra for i, n in enumerate(wanted) if n == 1 and given[i + extra] != 1]
    if not leading and not shrunk:
        return unchanged
    total = summed([spec], axes=(*leading, *shrunk), keepdims=bool(shrunk))
    if not leading or not shrunk:
        return total
    return lambda x: total(x).reshape(wanted)


# --- other reductions ----------------------------------------------------------------------------


def _reduction(name: str, ufunc: np.ufunc) -> None:
    def build(specs: Sequence[Spec], *, axes: Axes, keepdims: bool) -> Lowering:
        return partial(ufunc.reduce, axis=axes, keepdims=keepdims)

    TABLE.build(name)(build)


_reduction("max", np.maximum)
_reduction("min", np.minimum)
_reduction("any", np.logical_or)
_reduction("all", np.logical_and)


@TABLE.build("prod")
def _prod(specs: Sequence[Spec], *, axes: Axes, keepdims: bool) -> Lowering:
    dtype = np.dtype(specs[0].dtype)
    return partial(np.multiply.reduce, axis=axes, dtype=dtype, keepdims=keepdims)


@TABLE.build("argmax")
def _argmax(specs: Sequence[Spec], *, axis: int) -> Lowering:
    return methodcaller("argmax", axis)


@TABLE.build("argmin")
def _argmin(specs: Sequence[Spec], *, axis: int) -> Lowering:
    return methodcaller("argmin", axis)


def _cumulative(name: str, ufunc: np.ufunc) -> None:
    def build(specs: Sequence[Spec], *, axis: int, reverse: bool) -> Lowering:
        accumulate = partial(ufunc.accumulate, axis=axis, dtype=np.dtype(specs[0].dtype))
        if not reverse:
            return accumulate
        back = (slice(None),) * axis + (slice(None, None, -1),)
        return lambda x: accumulate(x[back])[back]

    TABLE.build(name)(build)


_cumulative("cumsum", np.add)
_cumulative("cumprod", np.multiply)


# --- softmax -------------------------------------------------------------------------------------


def _largest(spec: Spec, axes: Axes) -> Callable[[Value], Value]:
    """The maximum over `axes`, kept as axes of size 1; -inf where there is nothing."""
    lowest = np.dtype(spec.dtype).type(-np.inf)
    return partial(np.maximum.reduce, axis=axes, keepdims=True, initial=lowest)


def _in_single(build: Callable[[Spec], Lowering], spec: Spec) -> Lowering:
    """`build(spec)`, in float32 where the operand is float16."""
    wide = spec.with_dtype("float32") if spec.dtype == "float16" else spec
    return on_arrays(build(wide), [spec])


@TABLE.build("softmax")
def _softmax(specs: Sequence[Spec], *, axis: int) -> Lowering:
    def build(spec: Spec) -> Lowering:
        largest = _largest(spec, (axis,))
        total = summed([spec], axes=(axis,), keepdims=True)

        def softmax(x: Value) -> Value:
            y = x - largest(x)
            np.exp(y, out=y)
            y /= total(y)
            return y

        return softmax

    return _in_single(build, specs[0])


@TABLE.build("log_softmax")
def _log_softmax(specs: Sequence[Spec], *, axis: int) -> Lowering:
    def build(spec: Spec) -> Lowering:
        largest = _largest(spec, (axis,))
        total = summed([spec], axes=(axis,), keepdims=True)

        def log_softmax(x: Value) -> Value:
            y = x - largest(x)
            y -= np.log(total(np.exp(y)))
            return y

        return log_softmax

    return _in_single(build, specs[0])


@TABLE.build("logsumexp")
def _logsumexp(specs: Sequence[Spec], *, axes: Axes, keepdims: bool) -> Lowering:
    def build(spec: Spec) -> Lowering:
        largest = _largest(spec, axes)
        total = summed([spec], axes=axes, keepdims=True)
        number = np.dtype(spec.dtype).type

        def logsumexp(x: Value) -> Value:
            shift = largest(x)
            # Where all are -inf, or one is inf, the difference would be NaN.
            shift[~np.isfinite(shift)] = number(0)
            y = x - shift
            y = np.log(total(np.exp(y, out=y)))
            y += shift
            return y if keepdims else y.squeeze(axes)

        return logsumexp

    return _in_single(build, specs[0])


# --- sorting -------------------------------------------------------------------------------------


@TABLE.add("top_k")
def _top_k(x: Value, *, k: int) -> list[Value]:
    # A stable ascending sort of the reversed row, read backwards: descending, first of ties first.
    indices = np.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1][..., :k]
    indices = x.shape[-1] - 1 - indices
    return [np.take_along_axis(x, indices, -1), indices.astype(np.int32)]
