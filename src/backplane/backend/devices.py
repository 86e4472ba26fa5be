"""Devices on which functions run, and precision."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from backplane import engines
from backplane.backend._args import as_dtype
from backplane.backend._errors import described, explained
from backplane.backend.types import DType, LossScale
from backplane.compile.policy import PLAIN, Policy, Scaling
from backplane.core import context
from backplane.core.tracebacks import boundary

__all__ = ["device", "list_devices", "mixed_precision"]

LOW = ("bfloat16", "float16")

DYNAMIC = Scaling(2.0**15, 2000)
"""The scale to begin with is that of PyTorch's and Keras' own scalers; so are the steps."""


def list_devices() -> list[str]:
    """The devices that the engine in force can compute on.

    An addition of Backplane: the documents of the Keras backend API do not have it.

    Returns:
        List of names for `K.device`, such as `"gpu:0"` and `"cpu:0"`. Accelerators come first.

    Example:
        >>> from backplane import backend as K
        >>> with K.engine("numpy"):
        ...     K.list_devices()
        ['cpu:0']
    """
    return engines.current().devices()


@boundary
def device(name: str) -> AbstractContextManager[object]:
    """Context manager: variables that are made inside are on a device, and functions that are made
    inside run there.

    A function runs where its variables are, also if it is made elsewhere. Variables that are on no
    device, such as the slots of an optimizer, go to the device of the first function that uses
    them. What is fed is copied to the device once, and results are copied back once.
    An addition of Backplane: the documents of the Keras backend API do not have it.

    Args:
        name: One of `K.list_devices()`. `"gpu"` is `"gpu:0"`, and `"cuda:0"` and `"/gpu:0"` mean
            the same. The device is one of the engine in force; on other engines the block changes
            nothing.

    Raises:
        ValueError: if the engine has no such device.

    Example:
        >>> from backplane import backend as K
        >>> with K.device(K.list_devices()[0]):
        ...     w = K.variable([1.0, 2.0])
        >>> K.eval(2.0 * w)
        array([2., 4.], dtype=float32)
    """
    try:
        chosen = engines.current().on_device(_canonical(name))
    except ValueError as error:
        raise ValueError(f"K.device: name must be that of a device: {error}") from None
    return context.changed(device=chosen)


def _canonical(name: str) -> str:
    """The name in the form of `list_devices`."""
    if not isinstance(name, str):
        raise TypeError(f"K.device: name must be a string such as 'gpu:0', got {described(name)}")
    device = name.lower().removeprefix("/").removeprefix("device:").replace("cuda", "gpu")
    return device if ":" in device else f"{device}:0"


@explained
def mixed_precision(
    dtype: DType | None, loss_scale: LossScale = None
) -> AbstractContextManager[Any]:
    """Context manager: functions that `K.function` makes inside run their products in a low
    precision.

    Matrix products and convolutions run in `dtype`, and what follows from them element by element
    too. Sums, means, exponentials, logarithms, softmax, losses and updates run in float32.
    Variables, what is fed and what is returned keep their dtypes, and `K.floatx()` is what it was.
    An addition of Backplane: the documents of the Keras backend API do not have it.

    Args:
        dtype: `"bfloat16"`, `"float16"`, or None for the precision of the graph itself.
        loss_scale: By what to multiply the loss, so that its gradients do not vanish in float16:
            a number, `"dynamic"`, or a dict with `initial` (32768) and `steps` (2000). A dynamic
            scale doubles after so many steps. If a gradient is not finite, the scale halves, and
            the call changes no other variable. By default it is dynamic for float16, and there is
            none for bfloat16.

    Raises:
        ValueError: for another dtype, or a scale that is not positive.

    Example:
        >>> from backplane import backend as K
        >>> x, w = K.placeholder((None, 2)), K.variable([[0.5], [0.25]])
        >>> with K.mixed_precision("float16"):
        ...     f = K.function([x], [K.dot(x, w)])
        >>> f([[[1.0, 1.0]]])[0].dtype, K.floatx()
        (dtype('float32'), 'float32')
    """
    return context.changed(policy=_policy(dtype, loss_scale))


def policy_of(precision: DType | None, loss_scale: LossScale, accumulate: int) -> Policy:
    """The policy for these arguments of `K.function`, inside of `mixed_precision` or not. The
    ValueError names the argument that does not fit.
    """
    if type(accumulate) is not int or accumulate < 1:
        raise ValueError(f"accumulate must be a whole number, 1 or more, got {accumulate!r}")
    chosen: Policy = context.current().policy or PLAIN
    if precision is not None or loss_scale is not None:
        low = chosen.precision if precision is None else precision
        chosen = _policy(low, loss_scale, "precision")
    return chosen if accumulate == 1 else chosen._replace(parts=accumulate)


def _policy(precision: DType | None, loss_scale: LossScale, what: str = "dtype") -> Policy:
    if precision is None:
        if loss_scale is not None:
            raise ValueError(f"loss_scale needs a precision, one of {', '.join(LOW)}")
        return PLAIN
    try:
        dtype = as_dtype(precision)
    except ValueError:
        dtype = ""
    if dtype not in LOW:
        raise ValueError(f"{what} must be one of {', '.join(LOW)}, got {precision!r}")
    if loss_scale is None:
        return Policy(dtype, DYNAMIC if dtype == "float16" else None)
    return Policy(dtype, _scale(loss_scale))


def _scale(wish: Any) -> Scaling | None:
    """The scale that is asked for; None for 1, which changes nothing."""
    known = {"initial": DYNAMIC.initial, "steps": DYNAMIC.steps}
    if wish == "dynamic":
        return DYNAMIC
    if isinstance(wish, Mapping) and wish.keys() <= known.keys():
        initial, steps = (known | dict(wish)).values()
    elif isinstance(wish, int | float) and not isinstance(wish, bool):
        initial, steps = wish, None
    else:
        initial = steps = 0
    if not (initial > 0 and (steps is None or (type(steps) is int and steps > 0))):
        raise ValueError(
            f"loss_scale must be a positive number, 'dynamic', or a dict with initial and "
            f"steps, got {wish!r}"
        )
    return None if (initial, steps) == (1, None) else Scaling(float(initial), steps)
