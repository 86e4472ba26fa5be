"""Element-wise primitives: ufuncs, as they are wherever they keep the dtype."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import methodcaller
from typing import Any

import numpy as np

from backplane.core.spec import Spec, is_float
from backplane.engines.arrays.products import for_blas, steady
from backplane.engines.arrays.selection import masked, select
from backplane.engines.arrays.sums import unchanged
from backplane.engines.base import Entry, Lowering, Table, Value, check_windows
from backplane.engines.numpy.erfinv import erfinv

TABLE = Table()
for _name, _ufunc in {
    "neg": np.negative,
    "abs": np.absolute,
    "sign": np.sign,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "logical_not": np.logical_not,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.true_divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "pow": np.power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
}.items():
    TABLE[_name] = Entry(_ufunc, out=1)


def on_arrays(function: Lowering, specs: Sequence[Spec]) -> Lowering:
    """`function(*operands, out=None)`, which works on arrays of equal shape and dtype, for operands
    of `specs`.

    Scalars get an axis for it. float16 is computed in float32, which is faster and rounds once.
    """
    if specs[0].dtype == "float16":
        single = on_arrays(function, [s.with_dtype("float32") for s in specs])
        widen = methodcaller("astype", np.float32)
        return lambda *xs, out=None: _narrow(single(*map(widen, xs)), out)
    if specs[0].ndim == 0:
        return lambda *xs: function(*[x.reshape(1) for x in xs])[0]
    return function


def _narrow(x: Value, out: Value | None) -> Value:
    """`x` as float16, in `out` if that is given."""
    if out is None:
        return x.astype(np.float16)
    np.copyto(out, x, casting="same_kind")
    return out


def _kernel(name: str, passes: int) -> Callable[[Lowering], Lowering]:
    """Decorator: register a function on arrays that takes `out`."""

    def register(function: Lowering) -> Lowering:
        TABLE.build(name, out=passes)(lambda specs: on_arrays(function, specs))
        return function

    return register


TABLE.add("identity")(unchanged)
TABLE.add("stop_gradient")(unchanged)
TABLE.add("check_windows")(check_windows)


@TABLE.build("floor", out=1)
def _floor(specs: Sequence[Spec]) -> Lowering:
    return np.floor if is_float(specs[0].dtype) else np.positive


@TABLE.build("round", out=1)
def _round(specs: Sequence[Spec]) -> Lowering:
    return np.rint if is_float(specs[0].dtype) else np.positive


@TABLE.build("cast", out=1)
def _cast(specs: Sequence[Spec], *, dtype: str) -> Lowering:
    kind = np.dtype(dtype)
    if specs[0].ndim == 0:  # may be a size, a Python int
        return partial(np.asarray, dtype=kind)

    def cast(x: Value, out: Value | None = None) -> Value:
        if out is None:
            return x.astype(kind)
        np.copyto(out, x, casting="unsafe")
        return out

    return cast


@TABLE.build("where", out=3)
def _where(specs: Sequence[Spec]) -> Lowering:
    return select if specs[0].ndim else _where_scalar


def _where_scalar(mask: Value, x: Value, y: Value, out: Value | None = None) -> Value:
    """A choice between whole arrays."""
    if out is None:
        return np.where(mask, x, y)
    np.copyto(out, x if mask else y)
    return out


@TABLE.add("print")
def _print(x: Value, *, message: str) -> Value:
    print(message, x)
    return x


# --- activations ---------------------------------------------------------------------------------


@TABLE.build("relu", out=1)
def _relu(specs: Sequence[Spec]) -> Lowering:
    # An array for the zero: NumPy converts a Python number anew at each call, and NumPy 1 would
    # make a scalar operand float64.
    return partial(np.maximum, np.zeros((), specs[0].dtype))


@_kernel("sigmoid", passes=4)
def _sigmoid(x: Value, out: Value | None = None) -> Value:
    y = np.negative(x, out=out)
    np.exp(y, out=y)  # inf for very negative x, which gives the right 0
    np.add(y, _ONES[y.dtype.char], out=y)
    return np.reciprocal(y, out=y)


_ONES = {char: np.ones((), char) for char in "fd"}
"""NumPy converts a Python number anew at each call."""


@_kernel("softplus", passes=6)
def _softplus(x: Value, out: Value | None = None) -> Value:
    """max(x, 0) + log(1 + exp(-|x|))."""
    positive = np.maximum(x, 0)
    y = np.absolute(x, out=out)
    np.negative(y, out=y)
    np.exp(y, out=y)
    np.log1p(y, out=y)
    y += positive
    return y


TABLE.build("erfinv")(lambda specs: on_arrays(erfinv, specs))


@TABLE.add("relu_grad", out=3)
def _relu_grad(g: Value, y: Value, out: Value | None = None) -> Value:
    return masked(y > 0, g, out)


@TABLE.add("mul_no_nan", out=4)
def _mul_no_nan(x: Value, y: Value, out: Value | None = None) -> Value:
    mask = y != 0
    return masked(mask, np.multiply(x, y, out=out), out)


@_kernel("sigmoid_grad", passes=3)
def _sigmoid_grad(g: Value, y: Value, out: Value | None = None) -> Value:
    x = 1 - y
    x *= y
    return np.multiply(x, g, out=x if out is None else out)


@_kernel("tanh_grad", passes=3)
def _tanh_grad(g: Value, y: Value, out: Value | None = None) -> Value:
    x = y * y
    np.subtract(1, x, out=x)
    return np.multiply(x, g, out=x if out is None else out)


# --- matrix products -----------------------------------------------------------------------------


@TABLE.build("matmul", into=True, steady=steady)
def _matmul(specs: Sequence[Spec], *, transpose_x: bool, transpose_y: bool) -> Lowering:
    if specs[0].dtype == "float16":
        # Neither BLAS nor NumPy has a float16 product worth the name.
        singles = [s.with_dtype("float32") for s in specs]
        product = _matmul(singles, transpose_x=transpose_x, transpose_y=transpose_y)
        single = methodcaller("astype", np.float32)
        return lambda x, y, out=None: _narrow(product(single(x), single(y)), out)
    if specs[0].ndim > 2:
        return partial(_batch_matmul, transpose_x=transpose_x, transpose_y=transpose_y)
    # On two axes `dot` is the same product, faster to call (the method 0.35 µs, `np.dot` 0.45,
    # `np.matmul` 0.75), and copies operands whose strides BLAS cannot take (a broadcast gradient);
    # `np.matmul` would leave BLAS for those.
    return _DOTS[transpose_x, transpose_y]


_DOTS: dict[tuple[bool, bool], Callable[..., Any]] = {
    (False, False): np.ndarray.dot,
    (True, False): lambda x, y, out=None: x.T.dot(y, out),
    (False, True): lambda x, y, out=None: x.dot(y.T, out),
    (True, True): lambda x, y, out=None: x.T.dot(y.T, out),
}


def _batch_matmul(
    x: Value, y: Value, *, transpose_x: bool, transpose_y: bool, out: Value | None = None
) -> Value:
    x, y = for_blas(x), for_blas(y)
    return np.matmul(
        x.swapaxes(-1, -2) if transpose_x else x,
        y.swapaxes(-1, -2) if transpose_y else y,
        out=out,
    )
