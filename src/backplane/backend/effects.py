"""Printing while a program runs."""

from __future__ import annotations

from typing import Any

from backplane.backend._call import api
from backplane.core.graph import Tensor
from backplane.core.registry import primitive
from backplane.ops.lift import as_tensor


@api
def print_tensor(x: Any, message: str = "") -> Tensor:
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
    result: Tensor = primitive("print")(as_tensor(x), message=str(message))
    return result
