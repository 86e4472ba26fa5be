"""Reductions, softmax and its relatives, matrix products."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from backplane.engines.base import Lowering, Table, Value, host_shape
from backplane.engines.jax.kernel import kernel

Axes = tuple[int, ...]

TABLE = Table(
    log_softmax=jax.nn.log_softmax,
    cumsum=lax.cumsum,
    cumprod=lax.cumprod,
    top_k=lax.top_k,
)


def _reduction(name: str, function: Lowering) -> None:
    """Register a reduction that keeps the dtype by itself."""

    @TABLE.add(name)
    def lowering(x: Value, *, axes: Axes, keepdims: bool) -> Value:
        return function(x, axis=axes, keepdims=keepdims)


_reduction("max", jnp.max)
_reduction("min", jnp.min)
_reduction("mean", jnp.mean)
_reduction("any", jnp.any)
_reduction("all", jnp.all)


@TABLE.add("sum")
def sum_(x: Value, *, axes: Axes, keepdims: bool) -> Value:
    """Without the dtype JAX would add up small integers in larger ones."""
    return jnp.sum(x, axis=axes, dtype=x.dtype, keepdims=keepdims)


@TABLE.add("prod")
def prod(x: Value, *, axes: Axes, keepdims: bool) -> Value:
    """See `sum`."""
    return jnp.prod(x, axis=axes, dtype=x.dtype, keepdims=keepdims)


@TABLE.add("sum_to")
def sum_to(x: Value, *dims: Value, shape: tuple[int | None, ...]) -> Value:
    """One sum over the axes that broadcasting added or stretched."""
    sizes = host_shape(shape, dims)
    return x if x.shape == sizes else _sum_to(x, shape=sizes)


@kernel("shape")
def _sum_to(x: Value, *, shape: tuple[int, ...]) -> Value:
    added = x.ndim - len(shape)
    stretched = [i for i, n in enumerate(x.shape[added:], added) if n != shape[i - added]]
    return lax.reshape(jnp.sum(x, axis=(*range(added), *stretched), dtype=x.dtype), shape)


@TABLE.add("logsumexp")
@kernel("axes", "keepdims")
def logsumexp(x: Value, *, axes: Axes, keepdims: bool) -> Value:
    """Of all -inf it is -inf."""
    return jax.nn.logsumexp(x, axis=axes, keepdims=keepdims)


@TABLE.add("softmax")
@kernel("axis")
def softmax(x: Value, *, axis: int) -> Value:
    """`jax.nn.softmax` without its own rule for the gradient, with which an eager call takes ten
    times as long.
    """
    largest = jnp.max(x, axis=axis, keepdims=True, initial=-jnp.inf)
    powers = jnp.exp(x - lax.stop_gradient(largest))
    return powers / jnp.sum(powers, axis=axis, keepdims=True)


# Positions are found in int32: JAX lowers the search for them when the trace has long left the
# context in which int64 exists.


@TABLE.add("argmax")
@kernel("axis")
def argmax(x: Value, *, axis: int) -> Value:
    """The first of ties; NaN counts as the largest."""
    return lax.convert_element_type(lax.argmax(x, axis, np.int32), np.int64)


@TABLE.add("argmin")
@kernel("axis")
def argmin(x: Value, *, axis: int) -> Value:
    """The first of ties; NaN counts as the smallest."""
    return lax.convert_element_type(lax.argmin(x, axis, np.int32), np.int64)


@TABLE.add("matmul")
@kernel("transpose_x", "transpose_y")
def matmul(x: Value, y: Value, *, transpose_x: bool, transpose_y: bool) -> Value:
    """`lax.dot_general`: a swap of axes only changes which of them are contracted."""
    last = x.ndim - 1
    contracted = ((last - 1 if transpose_x else last,), (last if transpose_y else last - 1,))
    batch = tuple(range(last - 1))
    return lax.dot_general(x, y, (contracted, (batch, batch)))
