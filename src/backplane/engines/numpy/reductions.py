"""Reductions, cumulative sums, softmax and sorting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from operator import methodcaller

import numpy as np

from backplane.core.spec import Spec
from backplane.engines.arrays.sums import sum_to, summed
from backplane.engines.base import Lowering, Table, Value
from backplane.engines.numpy.elementwise import on_arrays

TABLE = Table()

Axes = tuple[int, ...]


# --- sums ----------------------------------------------------------------------------------------


TABLE.build("sum")(summed)


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


TABLE.build("sum_to")(sum_to)


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
