"""Element-wise operations.

`raw_ops` are TensorFlow's kernels without the Python wrappers around them: the same results, tapes
and traces in about half the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backplane.core.numbers import show
from backplane.core.spec import Spec
from backplane.engines.programs import emitted_line
from backplane.engines.table import Lowering, Table, Value
from backplane.engines.tensorflow.constants import number
from backplane.engines.tensorflow.library import HALVES, computed_in, opaque, raw, tf

_SIGNED = dict.fromkeys((tf.uint8, tf.uint16, tf.uint32, tf.uint64), tf.int64)
"""The dtypes in which unsigned integers, which lack kernels, are computed. They wrap around alike
there."""


def _of_floats(kernel: Lowering) -> Lowering:
    """`kernel` for floats. Integers stay as they are."""
    return lambda x: kernel(x=x) if x.dtype.is_floating else raw.Identity(input=x)


_SCALED = frozenset(("AddN", "AddV2", "Identity", "Mul", "Neg", "RealDiv", "StopGradient", "Sub"))
"""Operations that TensorFlow's optimizer may write as a product with a constant."""


def _maximum(x: Value, y: Value) -> Value:
    """The larger ones. TensorFlow's optimizer takes max(a · x, x) for a leaky ReLU, also where the
    number a is larger than 1: there it is the smaller one.
    """
    if x.dtype.is_floating and tf.is_symbolic_tensor(x) and tf.is_symbolic_tensor(y):
        kinds = {x.op.type, y.op.type}
        if kinds & _SCALED and "Const" not in kinds:
            x = opaque(x)
    return tf.maximum(x, y)


def _add(x: Value, y: Value) -> Value:
    """The sum. TensorFlow's optimizer takes a row for the bias of a product of matrices. Its kernel
    for a transposed matrix takes vectors alone: "bias must be 1-dimensional".
    """
    if tf.is_symbolic_tensor(x) and tf.is_symbolic_tensor(y):
        if x.op.type == "MatMul":
            x, y = _with_bias(x, y)
        elif y.op.type == "MatMul":
            y, x = _with_bias(y, x)
    return raw.AddV2(x=x, y=y)


def _with_bias(product: Value, bias: Value) -> tuple[Value, Value]:
    """A product and what is added to it, such that the optimizer may join them or cannot."""
    if bias.shape.rank == 2 and bias.shape[0] == 1:
        return product, raw.Reshape(tensor=bias, shape=[-1])
    left = product.op.inputs[0].op.type
    transposed = product.op.get_attr("transpose_a") or left == "Transpose"
    return (opaque(product) if transposed and bias.shape.rank != 1 else product), bias


TABLE = Table(
    identity=lambda x: raw.Identity(input=x),
    stop_gradient=tf.stop_gradient,
    floor=_of_floats(raw.Floor),
    round=_of_floats(raw.Round),
    exp=lambda x: raw.Exp(x=x),
    expm1=tf.math.expm1,
    log=lambda x: raw.Log(x=x),
    log1p=tf.math.log1p,
    sqrt=lambda x: raw.Sqrt(x=x),
    sin=tf.sin,
    cos=tf.cos,
    atan2=computed_in(HALVES, lambda y, x: raw.Atan2(y=y, x=x)),
    bitcast=lambda x, *, dtype: raw.Bitcast(input=x, type=tf.dtypes.as_dtype(dtype)),
    tanh=tf.tanh,
    sigmoid=lambda x: raw.Sigmoid(x=x),
    softplus=lambda x: raw.Softplus(features=x),
    relu=tf.nn.relu,
    sigmoid_grad=lambda g, y: raw.SigmoidGrad(y=y, dy=g),
    tanh_grad=lambda g, y: raw.TanhGrad(y=y, dy=g),
    # TensorFlow's optimizer makes `>` of a negated `<=`, and so on, which is wrong for NaN.
    logical_not=lambda x: raw.Equal(x=x, y=number(0, "bool")),
    add=_add,
    mul=lambda x, y: raw.Mul(x=x, y=y),
    mul_no_nan=lambda x, y: raw.MulNoNan(x=x, y=y),
    div=tf.realdiv,
    mod=lambda x, y: raw.FloorMod(x=x, y=y),
    pow=computed_in(_SIGNED, lambda x, y: raw.Pow(x=x, y=y)),
    neg=computed_in(_SIGNED, lambda x: raw.Neg(x=x)),
    sub=computed_in(_SIGNED, lambda x, y: raw.Sub(x=x, y=y)),
    maximum=_maximum,
    minimum=tf.minimum,
    equal=lambda x, y: raw.Equal(x=x, y=y),
    not_equal=lambda x, y: raw.NotEqual(x=x, y=y),
    less=lambda x, y: raw.Less(x=x, y=y),
    less_equal=lambda x, y: raw.LessEqual(x=x, y=y),
    logical_and=tf.logical_and,
    logical_or=tf.logical_or,
    bit_and=tf.bitwise.bitwise_and,
    bit_or=tf.bitwise.bitwise_or,
    bit_xor=tf.bitwise.bitwise_xor,
    shift_left=tf.bitwise.left_shift,
    shift_right=tf.bitwise.right_shift,
    where=lambda c, x, y: raw.SelectV2(condition=c, t=x, e=y),
    abs=lambda x: raw.Identity(input=x) if x.dtype in _SIGNED else raw.Abs(x=x),
)


@TABLE.add("cast")
def _cast(x: Value, *, dtype: str) -> Value:
    wanted = tf.dtypes.as_dtype(dtype)
    return x if x.dtype == wanted else raw.Cast(x=x, DstT=wanted)


@TABLE.add("barrier")
def barrier(x: Value, *after: Value) -> Value:
    """An identity that waits for `after`: Grappler keeps those with control inputs."""
    with tf.control_dependencies(after):
        return raw.Identity(input=x)


@TABLE.add("print")
def _print(x: Value, *, message: str, style: tuple[Any, ...]) -> Value:
    """`x`, printed by the host when it is computed: `tf.print` has a form of its own."""
    done = tf.numpy_function(lambda value: show(value, message, style), [x], [])
    with tf.control_dependencies(done if isinstance(done, list) else [done]):
        return raw.Identity(input=x)


@TABLE.add("check_numerics")
def _check_numerics(x: Value, *, message: str) -> Value:
    """TensorFlow's own check, whose error becomes that of other engines, with the emitted line."""
    line = emitted_line()
    at = f" [{line[0]}:{line[1]}]" if line else ""
    return raw.CheckNumerics(tensor=x, message=f"{message}{at}")


@TABLE.add("sign")
def _sign(x: Value) -> Value:
    if x.dtype in _SIGNED:
        return tf.cast(raw.NotEqual(x=x, y=tf.zeros_like(x)), x.dtype)
    return raw.Sign(x=x)


# --- where a kernel gives other values -----------------------------------------------------------

# `Erfinv` has no digits near 0 (it is 3e-5 off at 1e-3 in float32): decomposed.


@TABLE.add("erf")
def _erf(x: Value) -> Value:
    """The error function. From 6 on it is ±1; the kernel for float64 makes NaN of infinities."""
    if x.dtype == tf.float64:
        x = tf.clip_by_value(x, number(-6, "float64"), number(6, "float64"))
    return raw.Erf(x=x)


@TABLE.add("relu_grad")
def _relu_grad(g: Value, y: Value) -> Value:
    """`g` where `y` is positive, else 0, even if `g` is infinite: `ReluGrad` gives NaN there."""
    zero = number(0, y.dtype.name)
    # Without this the executor would compute the mask in the forward pass, as soon as y is there,
    # and would hold it until here.
    with tf.control_dependencies([g]):
        positive = raw.Greater(x=y, y=zero)
    return _masked(g, positive)


def _masked(g: Value, mask: Value) -> Value:
    """`g` where the mask is True, and 0 elsewhere, also in the place of NaN and infinity. To select
    between `g` and one number takes up to three times as long.
    """
    return raw.MulNoNan(x=g, y=raw.Cast(x=mask, DstT=g.dtype))


@TABLE.add("clipped_relu")
def _clipped_relu(x: Value, *, high: float) -> Value:
    if high == 6:
        return raw.Relu6(features=x)
    return raw.Minimum(x=raw.Relu(features=x), y=number(high, x.dtype.name))


@TABLE.add("clipped_relu_grad")
def _clipped_relu_grad(g: Value, y: Value, *, high: float) -> Value:
    """As `relu_grad`: where `Relu6Grad` has 0, it makes NaN of an infinite `g`."""
    zero = number(0, y.dtype.name)
    with tf.control_dependencies([g]):
        below, above = raw.LessEqual(x=y, y=zero), raw.LessEqual(x=number(high, y.dtype.name), y=y)
    return _masked(g, raw.LogicalNot(x=raw.LogicalOr(x=below, y=above)))


def _has_rounded_slope(specs: Sequence[Spec], *, slope: float) -> bool:
    """The kernels hold the slope in float32."""
    return specs[0].dtype == "float64"


@TABLE.add("leaky_relu", unless=_has_rounded_slope)
def _leaky_relu(x: Value, *, slope: float) -> Value:
    return raw.LeakyRelu(features=x, alpha=slope)


@TABLE.add("leaky_relu_grad", unless=_has_rounded_slope)
def _leaky_relu_grad(g: Value, x: Value, *, slope: float) -> Value:
    return raw.LeakyReluGrad(gradients=g, features=x, alpha=slope)


@TABLE.add("floordiv")
def _floordiv(x: Value, y: Value) -> Value:
    """The quotient that fits `mod`. `FloorDiv` of floats, floor(x / y), may be off by one."""
    if not x.dtype.is_floating:
        return raw.FloorDiv(x=x, y=y)
    x, y = tf.stop_gradient(x), tf.stop_gradient(y)
    quotient = x / y
    whole = tf.round((x - raw.FloorMod(x=x, y=y)) / y)
    zero = tf.zeros_like(y)
    below = tf.minimum(tf.sign(x) * tf.sign(y), zero) + zero * x  # NaN if x is infinite
    whole = raw.SelectV2(condition=tf.math.is_inf(y), t=below, e=whole)
    return raw.SelectV2(condition=raw.Equal(x=y, y=zero), t=quotient, e=whole)
