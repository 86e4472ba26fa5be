"""Element-wise comparison.

Operands broadcast by NumPy's rules and are brought to one dtype, as in arithmetic.
"""

from __future__ import annotations

from backplane.backend._call import api
from backplane.backend.types import TensorLike
from backplane.core.graph import Tensor
from backplane.ops import elementwise as ew
from backplane.ops.lift import promoted

__all__ = ["equal", "greater", "greater_equal", "less", "less_equal", "not_equal"]


@api
def equal(x: TensorLike, y: TensorLike) -> Tensor:
    """Element-wise equality of two tensors.

    Args:
        x: Tensor of any dtype.
        y: Tensor or number.

    Returns:
        A bool tensor of the broadcast shape; NaN equals nothing.

    Raises:
        ValueError: if the shapes do not broadcast.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.equal(K.constant([1.0, 2.0]), 2.0))
        array([False,  True])
    """
    return ew.equal(*promoted(x, y))


@api
def not_equal(x: TensorLike, y: TensorLike) -> Tensor:
    """Element-wise inequality of two tensors.

    Args:
        x: Tensor of any dtype.
        y: Tensor or number.

    Returns:
        A bool tensor of the broadcast shape; NaN differs from everything.

    Raises:
        ValueError: if the shapes do not broadcast.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.not_equal(K.constant([1.0, 2.0]), 2.0))
        array([ True, False])
    """
    return ew.not_equal(*promoted(x, y))


@api
def greater(x: TensorLike, y: TensorLike) -> Tensor:
    """Element-wise truth of x > y.

    Args:
        x: Tensor of numbers.
        y: Tensor or number.

    Returns:
        A bool tensor of the broadcast shape; False where an element is NaN.

    Raises:
        ValueError: if the shapes do not broadcast.
        TypeError: if both hold bools.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.greater(K.constant([1.0, 2.0, 3.0]), 2.0))
        array([False, False,  True])
    """
    return ew.less(*promoted(x, y)[::-1])


@api
def greater_equal(x: TensorLike, y: TensorLike) -> Tensor:
    """Element-wise truth of x >= y; see `K.greater`.

    Args:
        x: Tensor of numbers.
        y: Tensor or number.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.greater_equal(K.constant([1.0, 2.0, 3.0]), 2.0))
        array([False,  True,  True])
    """
    return ew.less_equal(*promoted(x, y)[::-1])


@api
def less(x: TensorLike, y: TensorLike) -> Tensor:
    """Element-wise truth of x < y; see `K.greater`.

    Args:
        x: Tensor of numbers.
        y: Tensor or number.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.less(K.constant([1.0, 2.0, 3.0]), 2.0))
        array([ True, False, False])
    """
    return ew.less(*promoted(x, y))


@api
def less_equal(x: TensorLike, y: TensorLike) -> Tensor:
    """Element-wise truth of x <= y; see `K.greater`.

    Args:
        x: Tensor of numbers.
        y: Tensor or number.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.less_equal(K.constant([1.0, 2.0, 3.0]), 2.0))
        array([ True,  True, False])
    """
    return ew.less_equal(*promoted(x, y))
