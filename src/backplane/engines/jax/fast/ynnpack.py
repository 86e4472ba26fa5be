"""Whether XLA leaves the convolutions of a program to its library YNNPACK.

The compiler's option holds for a whole program. YNNPACK brings the kernel into its own order at
each call: a convolution takes 0.7 to 0.9 of the time of XLA's own where the kernel is small, and up
to 1.3 where it is large (`jax.ynnpack` in the table of kernels). So the mean over a program
decides. Predictions of U-Net take 0.91 of the time, of ConvLSTM 0.92, of the CTC recognizer 0.95,
of DenseNet-121 0.96; that of ResNet-50, which would take 1.04, keeps XLA's own.

- A program that computes gradients by kernels keeps XLA's own, in float32. Those take up to four
  times as long with YNNPACK where the batch is large.
- In float64 XLA's own are loops over single elements: a step of training takes 0.16 to 0.24 of the
  time with YNNPACK, a convolution alone 0.01 to 0.26.
- Images of few channels decide nothing. Depending on the number of results, a convolution over
  three channels takes 0.4 to 1.7 of the time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr

from backplane.core.spec import Spec
from backplane.engines.kernels import limit
from backplane.engines.programs import Function, Program
from backplane.engines.table import Value

FEW = 8
"""Images of fewer channels decide nothing."""
SMALL = 16
"""YNNPACK takes no convolution that neither reads nor gives more channels."""

Jit = Callable[[bool], Function]
"""Gives a program compiled, with YNNPACK's convolutions or without."""


def chosen(function: Function, specs: Sequence[Spec], jit: Jit) -> Function:
    """`function`, compiled by `jit` as suits the shapes of its inputs, whose specs are given."""
    unknown = [i for i, spec in enumerate(specs) if not spec.is_static]
    forms = cache(jit)
    by_shapes: dict[tuple[Any, ...], Function] = {}

    def run(*inputs: Value) -> tuple[Value, ...]:
        shapes = tuple([inputs[i].shape for i in unknown])
        form = by_shapes.get(shapes)
        if form is None:
            if any(isinstance(x, jax.core.Tracer) for x in inputs):
                return forms(False)(*inputs)  # It is compiled with the trace that it is part of.
            # What is traced here is not traced again: JAX keeps it with the function.
            form = forms(serves(jax.jit(function).trace(*inputs).jaxpr.jaxpr))
            by_shapes[shapes] = form
        return form(*inputs)

    return run


def wide(program: Program) -> bool:
    """Whether all floats are float64, so that YNNPACK serves in training too."""
    return "float64" in program.dtypes and "float32" not in program.dtypes


def serves(program: Jaxpr) -> bool:
    """Whether YNNPACK's convolutions are likely to be faster in a traced program: by the elements
    of its kernels, on average over multiplications. The logarithms are averaged, because each
    doubling makes about the same difference.
    """
    work = total = 0.0
    for x, kernel, y in _convolutions(program):
        if x.dtype == np.float64:
            return True
        if x.dtype == np.float32 and x.shape[-1] >= FEW and max(x.shape[-1], y.shape[-1]) > SMALL:
            elements = math.prod(kernel.shape)
            share = math.prod(y.shape[:-1]) * elements
            work, total = work + share, total + share * math.log(max(elements, 1))
    return work > 0 and math.exp(total / work) < limit("jax.ynnpack")


def _convolutions(program: Jaxpr) -> Iterator[tuple[Any, Any, Any]]:
    """Image, kernel and result of all convolutions that YNNPACK would compute, those in loops
    included: over two axes, and without zeros between elements.
    """
    for equation in program.eqns:
        params = equation.params
        if equation.primitive.name == "conv_general_dilated" and params["lhs_dilation"] == (1, 1):
            x, kernel = equation.invars
            yield x.aval, kernel.aval, equation.outvars[0].aval
        for value in params.values():
            for part in value if isinstance(value, tuple) else (value,):
                inner = part.jaxpr if isinstance(part, ClosedJaxpr) else part
                if isinstance(inner, Jaxpr):
                    yield from _convolutions(inner)
