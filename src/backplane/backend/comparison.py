"""Element-wise comparison.

Operands broadcast by NumPy's rules and are brought to one dtype, as in arithmetic.
"""

from __future__ import annotations

from typing import Any

from backplane.backend._axes import apply
from backplane.backend._call import api
from backplane.core.graph import Tensor
from backplane.ops.lift import promoted

__all__ = ["equal", "greater", "greater_equal", "less", "less_equal", "not_equal"]


@api
def equal(x: Any, y: Any) -> Tensor:
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
    return apply("equal", *promoted(x, y))


@api
def not_equal(x: Any, y: Any) -> Tensor:
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
    return apply("not_equal", *promoted(x, y))


@api
def greater(x: Any, y: Any) -> Tensor:
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
    x, y = promoted(x, y)
    return apply("less", y, x)


@api
def greater_equal(x: Any, y: Any) -> Tensor:
    """Element-wise truth of x >= y; see `K.greater`.

    Args:
        x: Tensor of numbers.
        y: Tensor or number.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.greater_equal(K.constant([1.0, 2.0, 3.0]), 2.0))
        array([False,  True,  True])
    """
    x, y = promoted(x, y)
    return apply("less_equal", y, x)


@api
def less(x: Any, y: Any) -> Tensor:
    """Element-wise truth of x < y; see `K.greater`.

    Args:
        x: Tensor of numbers.
        y: Tensor or number.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.less(K.constant([1.0, 2.0, 3.0]), 2.0))
        array([ True, False, False])
    """
    return apply("less", *promoted(x, y))


@api
def less_equal(x: Any, y: Any) -> Tensor:
    """Element-wise truth of x <= y; see `K.greater`.

    Args:
        x: Tensor of numbers.
        y: Tensor or number.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.less_equal(K.constant([1.0, 2.0, 3.0]), 2.0))
        array([ True,  True, False])
    """
    return apply("less_equal", *promoted(x, y))
