"""Finding the first NaN, and looking at graphs."""

from __future__ import annotations

from backplane.backend._call import api
from backplane.backend.types import TensorLike
from backplane.core.graph import Tensor
from backplane.core.spec import is_float
from backplane.ops import effects
from backplane.ops.lift import as_tensor

__all__ = ["check_numerics"]


@api
def check_numerics(x: TensorLike, message: str = "") -> Tensor:
    """Stop if a tensor has NaN or infinite elements when it is computed.

    The check is part of the program, compiled or not, and gradients pass through it. An addition of
    Backplane: the documents of the Keras backend API do not have it.

    Args:
        x: Tensor. Tensors of integers and bools pass.
        message: Text for the error, such as a name for the tensor.

    Returns:
        A tensor equal to `x`. The check runs only if something is computed from this result.

    Raises:
        FloatingPointError: when the program runs; on every engine it has the message, says whether
            there is NaN, Inf, or both, and names the line that called this function.

    Example:
        >>> from backplane import backend as K
        >>> x = K.placeholder(shape=(2,))
        >>> f = K.function([x], [K.check_numerics(K.log(x), "the logarithm")])
        >>> f([[1.0, 0.0]])
        Traceback (most recent call last):
            ...
        FloatingPointError: the logarithm: the tensor has Inf
    """
    x = as_tensor(x)
    if not is_float(x.spec.dtype):
        return effects.identity(x)
    return effects.check_numerics(x, message=str(message))
