"""A decorator that makes one operation of a lowering of several steps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax

from backplane.engines.table import Lowering, Shape, Value, host_shape


def compiled(*parameters: str) -> Callable[[Lowering], Lowering]:
    """Decorator: compile a function of several steps, `parameters` being its static arguments.

    An eager call then costs one dispatch, as one of `jax.numpy`'s functions does, which are made
    the same way. Inside of a trace the steps are traced into the surrounding program.
    """
    return partial(jax.jit, static_argnames=parameters, inline=True)


def sized(operands: int, *parameters: str) -> Callable[[Lowering], Lowering]:
    """Decorator: `compiled` with the parameter `shape`.

    The lowering takes the sizes that `shape` leaves open behind its `operands`; the function gets
    the whole shape.
    """

    def decorate(function: Lowering) -> Lowering:
        run = compiled("shape", *parameters)(function)

        def lowering(*values: Value, shape: Shape, **params: object) -> Value:
            whole = host_shape(shape, values[operands:])
            return run(*values[:operands], shape=whole, **params)

        return lowering

    return decorate
