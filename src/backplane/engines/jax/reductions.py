"""Reductions, running sums, softmax and its relatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from backplane.core.shapes import broadcast_axes
from backplane.engines.fast import applies
from backplane.engines.jax.compiled import compiled, sized
from backplane.engines.jax.fast import sorting
from backplane.engines.table import Axes, Lowering, Table, Value


def _reduction(function: Callable[..., Value], **options: Any) -> Lowering:
    """A reduction of JAX."""

    def lowering(x: Value, *, axes: Axes, keepdims: bool) -> Value:
        return function(x, axis=axes, keepdims=keepdims, **options)

    return lowering


def extreme(function: Callable[..., Value]) -> Lowering:
    """A maximum or minimum, NaN where any element is. XLA's own of 64 × 64 numbers passes NaN over
    on CPUs (jaxlib 0.10.2), unlike that of a few. Looking for NaN makes it 2.4 to 3.6 times as long
    for 1M to 6M float32. A `lax.reduce` that compares as it should is quicker along some axes, but
    has no gradient of its own, and XLA refuses it for arrays in parts.
    """

    def lowering(x: Value, *, axes: Axes, keepdims: bool) -> Value:
        y = function(x, axis=axes, keepdims=keepdims)
        if not jnp.issubdtype(x.dtype, jnp.floating):
            return y
        return jnp.where(jnp.any(jnp.isnan(x), axis=axes, keepdims=keepdims), jnp.nan, y)

    return lowering


def _position(find: Callable[..., Value]) -> Lowering:
    """The position of the first extreme element; NaN counts as one.

    The search runs in int32, because JAX lowers it only after the trace has left the context in
    which int64 exists.
    """

    @compiled("axis")
    def lowering(x: Value, *, axis: int) -> Value:
        return lax.convert_element_type(find(x, axis, np.int32), np.int64)

    return lowering


TABLE = Table(
    # With a `dtype`, JAX would add up bfloat16 in bfloat16.
    sum=_reduction(jnp.sum, promote_integers=False),
    prod=_reduction(jnp.prod, promote_integers=False),
    mean=_reduction(jnp.mean),
    max=extreme(jnp.max),
    min=extreme(jnp.min),
    any=_reduction(jnp.any),
    all=_reduction(jnp.all),
    argmax=_position(lax.argmax),
    argmin=_position(lax.argmin),
    cumsum=lax.cumsum,
    cumprod=lax.cumprod,
    top_k=lax.top_k,
)


@TABLE.add("sum_to")
@sized(1)
def _sum_to(x: Value, *, shape: tuple[int, ...]) -> Value:
    """One sum over the axes that broadcasting added or stretched."""
    if x.shape == shape:
        return x
    added, stretched = broadcast_axes(shape, x.shape)
    return lax.reshape(jnp.sum(x, axis=(*added, *stretched), promote_integers=False), shape)


def _summable(x: Value) -> Value:
    """`x` in a dtype in which the sum of many exponentials is finite."""
    return x.astype(jnp.float32) if x.dtype == jnp.float16 else x


@TABLE.add("log_softmax")
@compiled("axis")
def _log_softmax(x: Value, *, axis: int) -> Value:
    return jax.nn.log_softmax(_summable(x), axis).astype(x.dtype)


@TABLE.add("logsumexp")
@compiled("axes", "keepdims")
def _logsumexp(x: Value, *, axes: Axes, keepdims: bool) -> Value:
    """The logarithm of the sum of exponentials: -inf if all elements are."""
    return jax.nn.logsumexp(_summable(x), axis=axes, keepdims=keepdims).astype(x.dtype)


@TABLE.add("softmax")
@compiled("axis")
def _softmax(x: Value, *, axis: int) -> Value:
    """`jax.nn.softmax` without its gradient rule, which slows eager calls tenfold."""
    largest = jnp.max(x, axis=axis, keepdims=True, initial=-jnp.inf)
    powers = jnp.exp(x - lax.stop_gradient(largest))
    return (powers / jnp.sum(_summable(powers), axis=axis, keepdims=True)).astype(x.dtype)


@TABLE.add("sort")
@compiled()
def _sort(x: Value) -> list[Value]:
    """`lax.sort` of the elements together with their positions, or of both in one integer."""
    if x.dtype.itemsize <= 4 and jax.default_backend() == "cpu" and applies("jax.sorting"):
        _, positions = sorting.in_order(sorting.as_integers(x))
        return [jnp.take_along_axis(x, positions, -1, mode="promise_in_bounds"), positions]
    positions = lax.broadcasted_iota("int32", x.shape, x.ndim - 1)
    return list(lax.sort((x, positions), is_stable=True, num_keys=1))
