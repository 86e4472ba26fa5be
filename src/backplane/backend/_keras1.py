"""The spellings of Keras 1, and their meaning today.

K functions know nothing of Keras 1. If a call of `backplane.backend` raises a TypeError or
ValueError, `modern` looks at it once more. If it is spelled as in Keras 1, it is made again in
today's spelling, and a DeprecationWarning says how to write it. So a call that succeeds costs
nothing. The functions of `backplane.keras1` have Keras 1's own parameters, and `translated` gives
those of today for them.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from backplane import config
from backplane.backend.inspection import ndim
from backplane.backend.shaping import permute_dimensions
from backplane.backend.types import DataFormat
from backplane.core.hooks import HOOKS
from backplane.core.tracebacks import hide

F = TypeVar("F", bound=Callable[..., Any])

RENAMED: dict[str, str | None] = {
    "X": "x",
    "border_mode": "padding",
    "dim": "axis",
    "dim_ordering": "data_format",
    "filter_dilation": "dilation_rate",
    "filter_shape": None,
    "high": "maxval",
    "image_shape": None,
    "low": "minval",
    "nb_classes": "num_classes",
    "rate": "dilation_rate",
    "std": "stddev",
    "stride": "strides",
    "variable": "x",
    "volume_shape": None,
    "xs": "ops",
}
"""Parameters of Keras 1 and what they are called today; None: only a hint, not needed any more."""

SIGNATURES = {
    "atrous_conv2d": "x, kernel, rate=1, border_mode='valid', dim_ordering='default',"
    " image_shape=None, filter_shape=None",
    "batch_get_value": "xs",
    "batch_normalization": "x, mean, var, beta, gamma, epsilon=0.001",
    "binary_crossentropy": "output, target, from_logits=False",
    "categorical_crossentropy": "output, target, from_logits=False",
    "conv1d": "x, kernel, stride=1, border_mode='valid', image_shape=None, filter_shape=None",
    "conv2d": "x, kernel, strides=(1, 1), border_mode='valid', dim_ordering='default',"
    " image_shape=None, filter_shape=None, filter_dilation=(1, 1)",
    "conv3d": "x, kernel, strides=(1, 1, 1), border_mode='valid', dim_ordering='default',"
    " volume_shape=None, filter_shape=None, filter_dilation=(1, 1, 1)",
    "ctc_decode": "y_pred, input_length, greedy=True, beam_width=100, top_paths=1",
    "expand_dims": "x, dim=-1",
    "get_session": "",
    "in_test_phase": "x, alt",
    "in_train_phase": "x, alt",
    "l2_normalize": "x, axis",
    "lesser": "x, y",
    "lesser_equal": "x, y",
    "map_fn": "fn, elems, name=None",
    "moving_average_update": "variable, value, momentum",
    "one_hot": "indices, nb_classes",
    "pack": "x",
    "placeholder": "shape=None, ndim=None, dtype=None, sparse=False, name=None",
    "pool2d": "x, pool_size, strides=(1, 1), border_mode='valid', dim_ordering='default',"
    " pool_mode='max'",
    "pool3d": "x, pool_size, strides=(1, 1, 1), border_mode='valid', dim_ordering='default',"
    " pool_mode='max'",
    "print_tensor": "x, message=''",
    "random_normal": "shape, mean=0.0, std=1.0, dtype=None, seed=None",
    "random_uniform": "shape, low=0.0, high=1.0, dtype=None, seed=None",
    "relu": "x, alpha=0.0, max_value=None",
    "resize_images": "X, height_factor, width_factor, dim_ordering",
    "resize_volumes": "X, depth_factor, height_factor, width_factor, dim_ordering",
    "rnn": "step_function, inputs, initial_states, go_backwards=False, mask=None,"
    " constants=None, unroll=False, input_length=None",
    "separable_conv2d": "x, depthwise_kernel, pointwise_kernel, strides=(1, 1),"
    " border_mode='valid', dim_ordering='default'",
    "softmax": "x",
    "sparse_categorical_crossentropy": "output, target, from_logits=False",
    "spatial_2d_padding": "x, padding=(1, 1), dim_ordering='default'",
    "spatial_3d_padding": "x, padding=(1, 1, 1), dim_ordering='default'",
    "stack": "x",
    "temporal_padding": "x, padding=1",
    "variable": "value, dtype=None, name=None",
}
"""The parameters of Keras 1, of the functions where they differ from today's."""

TODAY = {
    "atrous_conv2d": "conv2d",
    "lesser": "less",
    "lesser_equal": "less_equal",
    "pack": "stack",  # until Keras 1.1
}
"""Functions of Keras 1 that have another name today."""


@functools.cache
def signature(function: str) -> inspect.Signature:
    """The signature in Keras 1 of a function that `SIGNATURES` lists."""
    return inspect.signature(eval(f"lambda {SIGNATURES[function]}: None"))


KERNELS = {
    "atrous_conv2d": ("kernel",),
    "conv2d": ("kernel",),
    "conv3d": ("kernel",),
    "separable_conv2d": ("depthwise_kernel", "pointwise_kernel"),
}
"""Kernels that Keras 1 wrote (out, in, rows, columns) where channels come first."""

PADDINGS = {"temporal_padding": 1, "spatial_2d_padding": 2, "spatial_3d_padding": 3}
"""Functions whose `padding` was an int, or an int per axis, for both sides; by number of axes."""

ORDERINGS: dict[str, DataFormat] = {"tf": "channels_last", "th": "channels_first"}


def modern(function: str, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """The keyword arguments of a failed call in today's spelling; None if the call was not spelled
    as in Keras 1. The warning names the line that called the caller of this function. TypeError if
    an argument is given twice; ValueError for an unknown `dim_ordering`.
    """
    parameters = signature(function).parameters if function in SIGNATURES else {}
    if len(args) > len(parameters) or not parameters:
        return None
    given = [(n, v, False) for n, v in zip(parameters, args, strict=False)]
    given += [(n, v, True) for n, v in kwargs.items()]
    if not any(_is_old(function, *argument) for argument in given):
        return None
    call: dict[str, Any] = {}
    advice: list[str] = []
    for name, value, named in given:
        new = RENAMED.get(name, name) if name in parameters else name
        if new is None:
            advice.append(f"no {name}")
            continue
        if new in call:
            raise TypeError(f"K.{function}: {new} is given twice")
        call[new] = _value(function, name, value)
        if _is_old(function, name, value, named):
            advice.append(
                _described(new, call[new]) + (f" instead of {name}" if new != name else "")
            )
    _arrange(function, call, advice, "data_format" in kwargs)
    warnings.warn(
        f"K.{function} is called in the spelling of Keras 1. Write {', '.join(advice)}",
        DeprecationWarning,
        stacklevel=3,
    )
    return call


HOOKS["modern"] = modern


def translated(function: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of today for those of a call in Keras 1's spelling."""
    names = {name: RENAMED.get(name, name) for name in given}
    call = {new: _value(function, n, given[n]) for n, new in names.items() if new is not None}
    _arrange(function, call, [], decided=False)
    return call


def _described(name: str, value: object) -> str:
    return f"{name}={value!r}" if isinstance(value, str | int | float | tuple) else name


def _is_old(function: str, name: str, value: object, named: bool) -> bool:
    """Whether an argument shows that the call has Keras 1's spelling. `named` tells that it was
    given by keyword.

    An argument given by position has Keras 1's name for that position here, which alone proves
    nothing.
    """
    if named and name in RENAMED:
        return name in signature(function).parameters
    if name == "dim_ordering":
        return isinstance(value, str) and value in (*ORDERINGS, "default")
    if name == "padding" and function in PADDINGS:
        return _both_sides(value, PADDINGS[function]) is not None
    if name == "epsilon" and function == "batch_normalization":
        # By position, it stands where `axis` stands today.
        return isinstance(value, float) and not named
    return False


def _value(function: str, name: str, value: object) -> Any:
    """An argument in today's form."""
    if name == "dim_ordering":
        return as_data_format(function, value)
    if name == "padding" and function in PADDINGS:
        pairs = _both_sides(value, PADDINGS[function])
        if pairs is not None:
            return pairs[0] if function == "temporal_padding" else pairs
    return value


def as_data_format(function: str, dim_ordering: object) -> DataFormat:
    """The data format that a `dim_ordering` means; ValueError if it means none."""
    if dim_ordering == "default":
        dim_ordering = config.image_data_format()
    known = ORDERINGS | {name: name for name in ORDERINGS.values()}
    if not isinstance(dim_ordering, str) or dim_ordering not in known:
        raise ValueError(
            f"K.{function}: dim_ordering must be 'tf', 'th' or 'default', got {dim_ordering!r}"
        )
    return known[dim_ordering]


def _both_sides(padding: Any, axes: int) -> tuple[tuple[int, int], ...] | None:
    """A padding with one int per axis, as pairs (before, after); None if it is something else."""
    listed = padding if isinstance(padding, list | tuple) else [padding]
    if len(listed) != axes or (axes == 1 and isinstance(padding, list | tuple)):
        return None
    if not all(isinstance(n, int) and not isinstance(n, bool) for n in listed):
        return None
    return tuple((n, n) for n in listed)


def _arrange(function: str, call: dict[str, Any], advice: list[str], decided: bool) -> None:
    """Give a call the layout that Keras 1 meant. `decided`: it names today's data format."""
    if function == "conv1d":
        call.setdefault("data_format", "channels_last")
    if function not in KERNELS or decided:
        return
    call.setdefault("data_format", config.image_data_format())
    if call["data_format"] != "channels_first":
        return
    for kernel in KERNELS[function]:
        if kernel in call:
            rank = ndim(call[kernel])
            call[kernel] = permute_dimensions(call[kernel], (*range(2, rank), 1, 0))
            advice.append(f"a {kernel} of (spatial axes, in, out)")


def deprecated(advice: str) -> Callable[[F], F]:
    """Decorator for functions that only Keras 1 had: each call warns and gives `advice`."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def wrapper(*args: object, **kwargs: object) -> Any:
            warnings.warn(
                f"K.{function.__name__} is a function of Keras 1: write {advice}",
                DeprecationWarning,
                stacklevel=2,
            )
            try:
                return function(*args, **kwargs)
            except Exception as error:
                hide(error)
                raise

        return wrapper  # type: ignore[return-value]

    return decorate


def accepting(function: F) -> F:
    """Decorator for functions without `api` whose parameters have new names since Keras 1."""

    @functools.wraps(function)
    def wrapper(*args: object, **kwargs: object) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            fits = isinstance(error, TypeError)
            call = modern(function.__name__, args, kwargs) if fits else None
            if call is None:
                hide(error)
                raise
        return wrapper(**call)

    return wrapper  # type: ignore[return-value]
