"""Element-wise primitives: `jax.numpy`, whose eager calls take half the time of `jax.lax`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import io_callback

from backplane.core.numbers import complaint, show
from backplane.engines.jax.compiled import compiled
from backplane.engines.programs import emitted_line
from backplane.engines.table import Lowering, Table, Value

TABLE = Table.like_numpy(
    jnp,
    identity=lambda x: x,  # arrays are never written to
    floor=jnp.floor,
    round=jnp.round,
    sigmoid=jax.nn.sigmoid,
    erf=lax.erf,
    atan2=jnp.arctan2,
    bitcast=lambda x, *, dtype: lax.bitcast_convert_type(x, dtype),
    where=jnp.where,
    stop_gradient=lax.stop_gradient,
)


def _without_sign(function: Callable[[Value, Value], Value]) -> Lowering:
    """A function of bits on unsigned integers. XLA's code generator for processors crashes in `&`
    and `|` of signed integers that were narrowed in the same program (jaxlib 0.10.2).
    """

    @compiled()
    def combined(x: Value, y: Value) -> Value:
        if not jnp.issubdtype(x.dtype, jnp.signedinteger):
            return function(x, y)
        bits = jnp.dtype(f"u{x.dtype.name}")
        made = function(*[lax.bitcast_convert_type(v, bits) for v in (x, y)])
        return lax.bitcast_convert_type(made, x.dtype)

    return combined


TABLE.add("bit_and")(_without_sign(jnp.bitwise_and))
TABLE.add("bit_or")(_without_sign(jnp.bitwise_or))


# `lax.erf_inv` is 1e-11 off near ±1 in float64, and its gradient 1e-5 in float32: decomposed.


@TABLE.add("cast")
@compiled("dtype")
def _cast(x: Value, *, dtype: str) -> Value:
    """`lax.convert_element_type`, which also makes a weakly typed value a strongly typed one."""
    return lax.convert_element_type(x, dtype)


# --- the larger and the smaller of two ------------------------------------------------------------
#
# On processors XLA computes a function and the reduction behind it by one kernel of its library
# YNNPACK, whose maximum and minimum take NaN for the other operand (jaxlib 0.10.2 and 0.11.2, rows
# of 9,000 × 7 numbers). A choice by comparison becomes part of the same kernels and keeps NaN. It
# takes 1.0 to 1.2 of the time. The gradients are those of JAX's own functions.


def _chosen(own: Lowering, wins: Callable[[Value, Value], Value]) -> Lowering:
    """A maximum or minimum of floats as a choice, with the gradient of JAX's `own`."""

    def with_slope(choice: Callable[[Value, Value], Value]) -> Lowering:
        chosen = jax.custom_jvp(lambda x, y: lax.select(choice(x, y), x, y))

        @chosen.defjvp
        def _slope(primals: Any, tangents: Any) -> tuple[Value, Value]:
            return chosen(*primals), jax.jvp(own, primals, tangents)[1]

        @compiled()
        def lowering(x: Value, y: Value) -> Value:
            floats = jnp.issubdtype(jnp.result_type(x, y), jnp.floating)
            return chosen(*jnp.broadcast_arrays(x, y)) if floats else own(x, y)

        return lowering

    of_any, of_number = with_slope(lambda x, y: wins(x, y) | (x != x)), with_slope(wins)

    def lowering(x: Value, y: Value) -> Value:
        for a, b in ((x, y), (y, x)):  # A number that is known is no NaN, so nobody looks for one.
            if isinstance(a, np.ndarray) and not a.ndim and a == a:
                return of_number(a, b)
        return of_any(x, y)

    return lowering


TABLE.add("maximum")(_chosen(jnp.maximum, lax.gt))
TABLE.add("minimum")(_chosen(jnp.minimum, lax.lt))


@jax.custom_jvp
def _positive(x: Value) -> Value:
    return lax.select(x < 0, jnp.zeros_like(x), x)


@_positive.defjvp
def _positive_slope(primals: tuple[Value], tangents: tuple[Value]) -> tuple[Value, Value]:
    return _positive(*primals), jax.jvp(jax.nn.relu, primals, tangents)[1]


@TABLE.add("relu")
@compiled()
def _relu(x: Value) -> Value:
    """A choice with the gradient of `jax.nn.relu`, which is 0 at 0."""
    return _positive(x) if jnp.issubdtype(x.dtype, jnp.floating) else jax.nn.relu(x)


@TABLE.add("div")
@compiled()
def _div(x: Value, y: Value) -> Value:
    """Halves are divided in float32: XLA makes `x / (y * y)` of `x / y / y`, which overflows."""
    dtype = jnp.result_type(x, y)
    if dtype != jnp.float16:
        return jnp.divide(x, y)
    quotient = jnp.divide(*[lax.convert_element_type(v, np.float32) for v in (x, y)])
    return lax.convert_element_type(quotient, dtype)


@TABLE.add("softplus")
@compiled()
def _softplus(x: Value) -> Value:
    """`jnp.logaddexp`, whose slope at 0 is right also on JAX's own tape."""
    return jnp.logaddexp(x, jnp.zeros((), x.dtype))


@TABLE.add("barrier")
def barrier(x: Value, *after: Value) -> Value:
    """`x`, which the compiler takes for something else. On a CPU XLA drops its own barriers early,
    so there a branch hides `x`: its predicate is always true, but depends on `after`.
    """
    return lax.platform_dependent(
        x, *after, cpu=_branch, default=lambda *operands: lax.optimization_barrier(operands)[0]
    )


def _branch(x: Value, *after: Value) -> Value:
    for y in after:
        if y.size:
            bits = lax.bitcast_convert_type(y[(0,) * y.ndim].astype("float32"), "int32")
            x = lax.cond((bits & 1) < 2, lambda x: x, jnp.zeros_like, x)
    return x


@TABLE.add("print")
def _print(x: Value, *, message: str, style: tuple[Any, ...]) -> Value:
    """Let the host print `x` whenever the program gets here, compiled or not."""
    jax.debug.callback(lambda value: show(np.asarray(value), message, style), x)
    return x


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether JAX logs an error that a check has raised, and that K raises anyway."""
    return bool(record.exc_info and isinstance(record.exc_info[1], FloatingPointError))


logging.getLogger("jax._src.callback").addFilter(lambda record: not _is_ours(record))


@TABLE.add("check_numerics")
def check_numerics(
    x: Value, *, message: str, everywhere: Callable[[Lowering], Lowering] = lambda ask: ask
) -> Value:
    """The host looks at the answers. Its own answer is tied to the result, so that nobody gets the
    one without the other. `everywhere` makes the question one that every device asks.
    """
    line = emitted_line()

    def answered(has_nan: Value, has_inf: Value) -> np.ndarray:
        if has_nan or has_inf:
            raise complaint(message, has_nan, has_inf, line)
        return np.zeros((), np.bool_)

    y = lax.stop_gradient(x)
    flags = jnp.isnan(y).any(), jnp.isinf(y).any()
    answer = everywhere(partial(io_callback, answered, jax.ShapeDtypeStruct((), np.bool_)))(*flags)
    return lax.optimization_barrier((x, answer))[0]
