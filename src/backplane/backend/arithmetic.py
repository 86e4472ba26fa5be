"""Element-wise arithmetic, comparison and conversion.

The operands of functions of two tensors broadcast by NumPy's rules and are brought to one dtype.
Tensors decide it, and Python numbers, lists and arrays beside a tensor follow (see
`ops.lift.promoted`).
"""

from __future__ import annotations

from backplane.backend._args import as_dtype
from backplane.backend._call import api
from backplane.backend.activation import float_tensor, is_number
from backplane.backend.types import DType, TensorLike
from backplane.core import context
from backplane.core.graph import Tensor, with_given_name
from backplane.core.spec import is_float
from backplane.ops import effects
from backplane.ops import elementwise as ew
from backplane.ops.angles import atan2 as angle
from backplane.ops.lift import as_tensor, cast_to, promoted
from backplane.ops.operators import power
from backplane.ops.shaping import is_broadcast

__all__ = [
    "abs", "atan2", "cast", "clip", "cos", "erf", "erfinv", "exp", "identity", "log", "maximum",
    "minimum", "pow", "round", "sign", "sin", "sqrt", "square",
]  # fmt: skip


@api
def abs(x: TensorLike) -> Tensor:
    """Element-wise absolute value.

    Args:
        x: Tensor of numbers.

    Returns:
        A tensor of the shape and dtype of `x`; its gradient at 0 is 0.

    Raises:
        TypeError: if `x` holds bools.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.abs(K.constant([-1.5, 2.0])))
        array([1.5, 2. ], dtype=float32)
    """
    return ew.abs(as_tensor(x))


@api
def sqrt(x: TensorLike) -> Tensor:
    """Element-wise square root, 0 for negative elements.

    Args:
        x: Tensor; integers and bools become `K.floatx()`.

    Returns:
        A float tensor of the shape of `x`. NaN stays NaN. The gradient is 0 where `x` is negative,
        and infinite at 0.

    Source: the documents' NumPy implementation, which replaces the NaN of a negative element by 0.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.sqrt(K.constant([4.0, -1.0])))
        array([2., 0.], dtype=float32)
    """
    x = float_tensor(x)
    return ew.sqrt(ew.maximum(x, ew.zero(x)))


@api
def square(x: TensorLike) -> Tensor:
    """Element-wise square.

    Args:
        x: Tensor of numbers.

    Returns:
        A tensor of the shape and dtype of `x`.

    Raises:
        TypeError: if `x` holds bools.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.square(K.constant([-3.0, 2.0])))
        array([9., 4.], dtype=float32)
    """
    x = as_tensor(x)
    return ew.mul(x, x)


@api
def exp(x: TensorLike) -> Tensor:
    """Element-wise exponential.

    Args:
        x: Tensor; integers and bools become `K.floatx()`.

    Returns:
        A float tensor of the shape of `x`.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.exp(K.constant([0.0])))
        array([1.], dtype=float32)
    """
    return ew.exp(float_tensor(x))


@api
def log(x: TensorLike) -> Tensor:
    """Element-wise natural logarithm: minus infinity for 0, NaN for negative elements.

    Args:
        x: Tensor; integers and bools become `K.floatx()`.

    Returns:
        A float tensor of the shape of `x`.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.log(K.constant([1.0])))
        array([0.], dtype=float32)
    """
    return ew.log(float_tensor(x))


@api
def sin(x: TensorLike) -> Tensor:
    """Element-wise sine of angles in radians.

    Args:
        x: Tensor; integers and bools become `K.floatx()`.

    Returns:
        A float tensor of the shape of `x`.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.sin(K.constant([0.0])))
        array([0.], dtype=float32)
    """
    return ew.sin(float_tensor(x))


@api
def cos(x: TensorLike) -> Tensor:
    """Element-wise cosine of angles in radians.

    Args:
        x: Tensor; integers and bools become `K.floatx()`.

    Returns:
        A float tensor of the shape of `x`.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.cos(K.constant([0.0])))
        array([1.], dtype=float32)
    """
    return ew.cos(float_tensor(x))


@api
def atan2(y: TensorLike, x: TensorLike) -> Tensor:
    """Element-wise angles, in radians, between the positive x-axis and the points (x, y).

    An addition of Backplane: the documents of the Keras backend API do not have it.

    Args:
        y: Tensor of numbers; integers and bools become `K.floatx()`.
        x: Tensor of numbers; the same. `K.atan2(y, 1.0)` is the inverse of the tangent.

    Returns:
        A float tensor of the broadcast shape, from -pi to pi. Signs of zeros count, as in
        `numpy.arctan2`.

    Raises:
        ValueError: if the shapes do not broadcast.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.atan2(K.constant([1.0, -1.0]), K.constant([0.0, -1.0]))).round(4)
        array([ 1.5708, -2.3562], dtype=float32)
    """
    return angle(*map(float_tensor, promoted(y, x)))


@api
def erf(x: TensorLike) -> Tensor:
    """Element-wise error function: 2 / sqrt(pi) times the integral of exp(-t ** 2) from 0 to x.

    An addition of Backplane: the documents of the Keras backend API do not have it.

    Args:
        x: Tensor of numbers; integers and bools become `K.floatx()`.

    Returns:
        A float tensor of the shape of `x`.

    Source: https://dlmf.nist.gov/7.2.E1.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.erf(K.constant([0.0, 0.5]))).round(4)
        array([0.    , 0.5205], dtype=float32)
    """
    return ew.erf(float_tensor(x))


@api
def erfinv(x: TensorLike) -> Tensor:
    """Element-wise inverse of the error function: the y for which erf(y) = x.

    An addition of Backplane: the documents of the Keras backend API do not have it.

    Args:
        x: Tensor of numbers inside (-1, 1); integers and bools become `K.floatx()`.

    Returns:
        A float tensor of the shape of `x`.

    Source: the derivative, sqrt(pi) / 2 * exp(y ** 2), is that of the inverse of
    https://dlmf.nist.gov/7.2.E1.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.erfinv(K.constant([0.0, 0.5]))).round(4)
        array([0.    , 0.4769], dtype=float32)
    """
    return ew.erfinv(float_tensor(x))


@api
def sign(x: TensorLike) -> Tensor:
    """Element-wise sign: -1, 0 or 1.

    Args:
        x: Tensor of numbers.

    Returns:
        A tensor of the shape and dtype of `x`; its gradient is 0.

    Raises:
        TypeError: if `x` holds bools.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.sign(K.constant([-3.0, 0.0, 2.0])))
        array([-1.,  0.,  1.], dtype=float32)
    """
    return ew.sign(as_tensor(x))


@api
def round(x: TensorLike) -> Tensor:
    """Element-wise rounding to the nearest whole number; halves go to the even one.

    Args:
        x: Tensor of numbers; integers stay as they are.

    Returns:
        A tensor of the shape and dtype of `x`. No gradient passes through it: `K.gradients` gives
        None.

    Raises:
        TypeError: if `x` holds bools.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.round(K.constant([0.5, 1.5, 1.7])))
        array([0., 2., 2.], dtype=float32)
    """
    return ew.round(as_tensor(x))


@api
def pow(x: TensorLike, a: TensorLike) -> Tensor:
    """Element-wise power.

    Args:
        x: Tensor or number, the base.
        a: Number or tensor, the exponent.

    Returns:
        A tensor of the broadcast shape. A fractional power of a negative number is NaN. 0 to the
        power 0 is 1, with gradient 0.

    Raises:
        ValueError: if the shapes do not broadcast, or integers are raised to a negative number.
        TypeError: if both operands hold bools.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.pow(K.constant([2.0, 3.0]), 2))
        array([4., 9.], dtype=float32)
    """
    return power(x, a, "K.pow")


@api
def clip(x: TensorLike, min_value: TensorLike | None, max_value: TensorLike | None) -> Tensor:
    """Element-wise restriction to an interval.

    Args:
        x: Tensor of numbers.
        min_value: Lower bound: a number, a tensor that broadcasts to the shape of `x`, or None.
        max_value: Upper bound, likewise. If both bounds are numbers, a `max_value` below
            `min_value` counts as `min_value`. If they are tensors, the lower bound wins.

    Returns:
        A tensor of the shape of `x`. Float bounds make an integer `x` float. The gradient passes
        inside of the interval and on its bounds.

    Raises:
        ValueError: if the shape of a bound would change the shape of `x`.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.clip(K.constant([-2.0, 0.5, 2.0]), -1.0, 1.0))
        array([-1. ,  0.5,  1. ], dtype=float32)
    """
    if is_number(min_value) and is_number(max_value):
        max_value = min_value if max_value < min_value else max_value
    bounds = [v for v in (min_value, max_value) if v is not None]
    clipped, *given = promoted(x, *bounds)
    for bound in given:
        _check_bound(clipped, bound)
    if max_value is not None:
        clipped = ew.minimum(clipped, given[-1])
    return clipped if min_value is None else ew.maximum(clipped, given[0])


def _check_bound(x: Tensor, bound: Tensor) -> None:
    """Refuse a bound that would broadcast `x` to another shape."""
    shape, own = bound.spec.shape, x.spec.shape
    if not is_broadcast(shape, own):
        raise ValueError(f"a bound of shape {shape} does not broadcast to the shape {own} of x")


@api
def maximum(x: TensorLike, y: TensorLike) -> Tensor:
    """Element-wise maximum of two tensors; NaN wins.

    Args:
        x: Tensor of numbers.
        y: Tensor or number.

    Returns:
        A tensor of the broadcast shape. Where both are equal the gradient goes to `x` alone.

    Raises:
        ValueError: if the shapes do not broadcast.
        TypeError: if both hold bools.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.maximum(K.constant([1.0, 4.0]), 2.0))
        array([2., 4.], dtype=float32)
    """
    return ew.maximum(*promoted(x, y))


@api
def minimum(x: TensorLike, y: TensorLike) -> Tensor:
    """Element-wise minimum of two tensors; NaN wins.

    Args:
        x: Tensor of numbers.
        y: Tensor or number.

    Returns:
        A tensor of the broadcast shape. Where both are equal the gradient goes to `x` alone.

    Raises:
        ValueError: if the shapes do not broadcast.
        TypeError: if both hold bools.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.minimum(K.constant([1.0, 4.0]), 2.0))
        array([1., 2.], dtype=float32)
    """
    return ew.minimum(*promoted(x, y))


@api
def cast(x: TensorLike, dtype: DType) -> Tensor:
    """Convert the elements of a tensor to another dtype.

    Args:
        x: Tensor, array, number or list.
        dtype: Name of the dtype, or a NumPy or engine dtype.

    Returns:
        A tensor of the shape of `x`, or `x` itself if it has that dtype. Floats become integers by
        rounding toward zero, and bools by `x != 0`. The gradient passes only between float types.

    Raises:
        ValueError: if `dtype` is unknown.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.cast(K.constant([1.9, -1.9]), "int32"))
        array([ 1, -1], dtype=int32)
    """
    name = as_dtype(dtype)
    # Plain numbers must not lose digits by passing through floatx().
    return cast_to(as_tensor(x, name if is_float(name) else None), name)


@api
def identity(x: TensorLike, name: str | None = None) -> Tensor:
    """A tensor with the content of another.

    Args:
        x: Tensor or variable.
        name: Name of the tensor.

    Returns:
        A new tensor of the same shape, dtype and content.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.identity(K.constant([1.0, 2.0])))
        array([1., 2.], dtype=float32)
    """
    result = effects.identity(x if isinstance(x, Tensor) and x.spec.sparse else as_tensor(x))
    if name is not None:
        with_given_name(result, name)._name = context.unique_name(name)
    return result
