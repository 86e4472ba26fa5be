"""Element-wise primitives: `jax.numpy`, whose eager calls take half the time of `jax.lax`."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from backplane.engines.base import Table, Value
from backplane.engines.jax.kernel import kernel

TABLE = Table(
    identity=lambda x: x,  # arrays are never written to
    neg=jnp.negative,
    abs=jnp.abs,
    sign=jnp.sign,
    floor=jnp.floor,
    round=jnp.round,
    exp=jnp.exp,
    expm1=jnp.expm1,
    log=jnp.log,
    log1p=jnp.log1p,
    sqrt=jnp.sqrt,
    sin=jnp.sin,
    cos=jnp.cos,
    tanh=jnp.tanh,
    sigmoid=jax.nn.sigmoid,
    erf=lax.erf,
    logical_not=jnp.logical_not,
    add=jnp.add,
    sub=jnp.subtract,
    mul=jnp.multiply,
    div=jnp.true_divide,
    floordiv=jnp.floor_divide,
    mod=jnp.remainder,
    pow=jnp.power,
    maximum=jnp.maximum,
    minimum=jnp.minimum,
    equal=jnp.equal,
    not_equal=jnp.not_equal,
    less=jnp.less,
    less_equal=jnp.less_equal,
    logical_and=jnp.logical_and,
    logical_or=jnp.logical_or,
    bit_and=jnp.bitwise_and,
    bit_or=jnp.bitwise_or,
    bit_xor=jnp.bitwise_xor,
    shift_left=jnp.left_shift,
    shift_right=jnp.right_shift,
    where=jnp.where,
    stop_gradient=lax.stop_gradient,
)


# `lax.erf_inv` is 1e-11 off near ±1 in float64, and its gradient 1e-5 in float32: decomposed.


@TABLE.add("cast")
@kernel("dtype")
def _cast(x: Value, *, dtype: str) -> Value:
    """`lax.convert_element_type`, which also makes a weakly typed value a strongly typed one."""
    return lax.convert_element_type(x, dtype)


@TABLE.add("relu")
@kernel()
def _relu(x: Value) -> Value:
    """A maximum with a rule of its own for the gradient, which is 0 at 0. XLA does not fuse a
    choice by `x <= 0` into a reduction.
    """
    return jax.nn.relu(x)


@TABLE.add("softplus")
@kernel()
def _softplus(x: Value) -> Value:
    """`jnp.logaddexp`, whose slope at 0 is right also on JAX's own tape."""
    return jnp.logaddexp(x, jnp.zeros((), x.dtype))


@TABLE.add("print")
def _print(x: Value, *, message: str) -> Value:
    """Printed by the host whenever the program gets here, compiled or not."""
    jax.debug.callback(partial(print, message), x)
    return x
