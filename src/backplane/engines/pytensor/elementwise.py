"""Element-wise primitives.

What is missing here is decomposed, so that any linker of PyTensor can compile it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytensor.tensor as pt
from pytensor.gradient import disconnected_grad
from pytensor.raise_op import Assert

from backplane.core.spec import is_float
from backplane.engines.arrays.elementwise import unchanged
from backplane.engines.pytensor.library import number
from backplane.engines.table import Table, Value


def in_single(function: Callable[..., Value], *xs: Value, **params: Any) -> Value:
    """`function` of float16 operands, computed in float32: SciPy and BLAS have no float16."""
    if xs[0].dtype != "float16":
        return function(*xs, **params)
    wide = [pt.cast(x, "float32") for x in xs]
    return pt.cast(function(*wide, **params), "float16")


TABLE = Table(
    neg=pt.neg,
    abs=pt.abs,
    sign=pt.sign,
    exp=pt.exp,
    expm1=pt.expm1,
    log=pt.log,
    log1p=pt.log1p,
    sqrt=pt.sqrt,
    sin=pt.sin,
    cos=pt.cos,
    tanh=pt.tanh,
    logical_not=pt.invert,
    add=pt.add,
    sub=pt.sub,
    mul=pt.mul,
    div=pt.true_div,
    floordiv=pt.int_div,
    mod=pt.mod,
    pow=pt.pow,
    maximum=pt.maximum,
    minimum=pt.minimum,
    equal=pt.eq,
    not_equal=pt.neq,
    less=pt.lt,
    less_equal=pt.le,
    logical_and=pt.and_,
    logical_or=pt.or_,
    bit_and=pt.and_,
    bit_or=pt.or_,
    bit_xor=pt.xor,
    where=pt.switch,
    stop_gradient=disconnected_grad,
    identity=unchanged,
    cast=pt.cast,
    sigmoid=partial(in_single, pt.sigmoid),
    erf=partial(in_single, pt.erf),
    erfinv=partial(in_single, pt.erfinv),
    # Toward minus infinity; PyTensor would make floats of whole numbers.
    floor=lambda x: pt.floor(x) if is_float(x.dtype) else pt.tensor_copy(x),
    # To the nearest whole number, halves to the even one.
    round=lambda x: pt.round(x, mode="half_to_even") if is_float(x.dtype) else pt.tensor_copy(x),
    relu=lambda x: pt.maximum(x, number(0, x.dtype)),
)


@TABLE.add("check_windows")
def check_windows(x: Value, *, sizes: tuple[int, ...]) -> Value:
    """`x` itself, once it is sure that it has so many elements along its axes."""
    fits = [pt.ge(x.shape[axis], size) for axis, size in enumerate(sizes) if size]
    return Assert("the window does not fit")(x, *fits)
