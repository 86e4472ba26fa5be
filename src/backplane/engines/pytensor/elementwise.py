"""Element-wise primitives.

What is missing here is decomposed, so that any linker of PyTensor can compile it.
"""

from __future__ import annotations

from functools import partial

import pytensor.tensor as pt
from pytensor.gradient import disconnected_grad
from pytensor.raise_op import Assert

from backplane.core.spec import is_float
from backplane.engines.arrays.elementwise import unchanged
from backplane.engines.pytensor.library import number
from backplane.engines.table import Table, Value, in_wider

in_single = partial(in_wider, pt.cast, {"float16": "float32"})
"""Makes a function that computes float16 in float32: SciPy and BLAS have no float16."""

_SAME_NAMES = (
    "neg", "abs", "sign", "exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tanh", "add",
    "sub", "mul", "mod", "pow", "maximum", "minimum", "cast",
)  # fmt: skip
"""Primitives that PyTensor calls as we do."""

TABLE = Table(
    **{name: getattr(pt, name) for name in _SAME_NAMES},
    logical_not=pt.invert,
    div=pt.true_div,
    floordiv=pt.int_div,
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
    sigmoid=in_single(pt.sigmoid),
    erf=in_single(pt.erf),
    erfinv=in_single(pt.erfinv),
    atan2=in_single(pt.arctan2),
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
