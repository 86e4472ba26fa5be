"""Larger models: what gradients keep in memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from backplane.backend._trees import flatten, map_leaves
from backplane.core.graph import Tensor, constant
from backplane.core.tracebacks import boundary
from backplane.ops.remat import rematerialized

__all__ = ["remat"]

P = ParamSpec("P")
R = TypeVar("R")


@boundary
def remat(fn: Callable[P, R]) -> Callable[P, R]:
    """A function whose inner tensors gradients compute again, in place of keeping them.

    A gradient reads tensors of the forward computation, so all of them stay in memory until then.
    Of a part of a model that was built by the returned function, only the arguments and results
    stay, and other tensors that `fn` uses from around it. That costs one more forward computation
    of the part. Values and gradients do not change: random numbers, such as those of `K.dropout`,
    are the same ones again. `K.print_tensor` prints once.
    An addition of Backplane: the documents of the Keras backend API do not have it.

    Args:
        fn: Function that builds tensors from tensors. It returns a tensor, or nested lists, tuples
            and dicts of them.

    Returns:
        A function with the arguments and results of `fn`. Called on native tensors, it just calls
        `fn`.

    Raises:
        TypeError: if `fn` is no function.

    Example:
        >>> from backplane import backend as K
        >>> x, w = K.placeholder((None, 4)), K.variable([[0.1] * 4] * 4)
        >>> block = K.remat(lambda h: K.tanh(K.dot(K.sin(K.dot(h, w)), w)))
        >>> y = block(block(x))
        >>> f = K.function([x], K.gradients(K.sum(y), [w]))
        >>> f([[[1.0, 2.0, 3.0, 4.0]]])[0].shape
        (4, 4)
    """
    if not callable(fn):
        raise TypeError(f"K.remat: fn must be a function, got {fn!r}")

    @wraps(fn)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        mark = constant(0).serial
        results = fn(*args, **kwargs)
        built = [t for t in flatten(results) if isinstance(t, Tensor) and t.op is not None]
        try:
            new = dict(zip(built, rematerialized(built, mark), strict=True)) if built else {}
        except ValueError as error:
            raise ValueError(f"K.remat: {error}") from None
        return map_leaves(lambda t: new.get(t, t) if isinstance(t, Tensor) else t, results)

    return run
