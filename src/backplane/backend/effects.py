"""Printing while a program runs."""

from __future__ import annotations

from backplane.backend._call import api
from backplane.backend.types import TensorLike
from backplane.core.graph import Tensor
from backplane.ops.effects import print_
from backplane.ops.lift import as_tensor


@api
def print_tensor(x: TensorLike, message: str = "") -> Tensor:
    """Print a message and the value of a tensor whenever it is computed.

    Args:
        x: Tensor.
        message: Text to print before the value.

    Returns:
        A tensor equal to `x`. Only what is computed from it prints.

    Example:
        >>> from backplane import backend as K
        >>> y = K.eval(K.print_tensor(K.constant([1.0, 2.0]), message="x is:"))
        x is: [1. 2.]
    """
    return print_(as_tensor(x), message=str(message))
