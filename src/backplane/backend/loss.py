"""Losses: crossentropies, and whether a target is among the best predictions."""

from __future__ import annotations

from typing import Any

import numpy as np

from backplane import config
from backplane.backend._args import as_int
from backplane.backend._call import api
from backplane.backend.activation import float_tensor
from backplane.core.graph import Tensor, constant
from backplane.core.registry import primitive
from backplane.core.shapes import broadcast
from backplane.core.spec import is_integer
from backplane.ops.lift import as_tensor, cast_to, promoted

__all__ = [
    "binary_crossentropy", "categorical_crossentropy", "in_top_k",
    "sparse_categorical_crossentropy",
]  # fmt: skip


def _axis(axis: Any, output: Tensor, name: str) -> int:
    rank = output.ndim
    number = as_int(axis, f"K.{name}: axis")
    if not -rank <= number < rank:
        raise ValueError(
            f"K.{name}: axis must be -1 or one of the axes of output, which has {rank} axes; got "
            f"{axis}"
        )
    return number % rank


def _clipped(x: Tensor) -> Tensor:
    """Probabilities inside [epsilon, 1 - epsilon], so that their logs are finite."""
    epsilon = config.epsilon()
    high, low = constant(1.0 - epsilon, x.spec.dtype), constant(epsilon, x.spec.dtype)
    result: Tensor = primitive("maximum")(primitive("minimum")(x, high), low)
    return result


def _before(output: Tensor, activation: str) -> Tensor | None:
    """The argument of the activation that made `output`: its loss is computed from the argument,
    which is exact where probabilities are close to 0 or 1.
    """
    if output.op is not None and output.op.name == activation:
        return output.inputs[0]
    return None


def _log_probabilities(output: Tensor, axis: int, normalized: bool, from_logits: bool) -> Tensor:
    """Log-probabilities along `axis` of logits, of a softmax, or of plain probabilities."""
    logits = output if from_logits else _before(output, "softmax")
    if logits is not None and (from_logits or output.params["axis"] == axis):
        result: Tensor = primitive("log_softmax")(logits, axis=axis)
        return result
    if normalized:
        output = output / primitive("sum")(output, axes=(axis,), keepdims=True)
        found: Tensor = primitive("log")(_clipped(output))
        return found
    scaled: Tensor = primitive("log_softmax")(primitive("log")(_clipped(output)), axis=axis)
    return scaled


@api
def categorical_crossentropy(
    target: Any, output: Any, from_logits: bool = False, axis: int = -1
) -> Tensor:
    """Crossentropy between a distribution and a target distribution: -sum(target * log(output)).

    Args:
        target: Tensor of the shape of `output`.
        output: Probabilities, which are first scaled to sum to 1 along `axis` and then kept away
            from 0 and 1 by `K.epsilon()`; or logits. The result of a softmax is traced back to its
            logits.
        from_logits: Whether `output` are logits.
        axis: Axis of the classes.

    Returns:
        A tensor of the shape of `output` without `axis`.

    Raises:
        ValueError: if `axis` is none of the axes of `output`, or the shapes do not fit.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(
        ...     K.categorical_crossentropy(K.constant([0.0, 1.0]), K.constant([0.5, 0.5]))
        ... ).round(4)
        np.float32(0.6931)
    """
    output = float_tensor(output)
    axis = _axis(axis, output, "categorical_crossentropy")
    target = cast_to(as_tensor(target), output.spec.dtype)
    broadcast(target.spec.shape, output.spec.shape)
    logs = _log_probabilities(output, axis, True, from_logits)
    found: Tensor = -primitive("sum")(target * logs, axes=(axis,), keepdims=False)
    return found


@api
def sparse_categorical_crossentropy(
    target: Any, output: Any, from_logits: bool = False, axis: int = -1
) -> Tensor:
    """Crossentropy between a distribution and a class given by its number.

    Args:
        target: Integers of the shape of `output` without `axis` (a last axis of size 1 is dropped).
            Floats are cut to integers. The loss of a number that is no class is NaN.
        output: Probabilities or logits, as in `K.categorical_crossentropy`.
        from_logits: Whether `output` are logits.
        axis: Axis of the classes.

    Returns:
        A tensor of the shape of `output` without `axis`.

    Raises:
        ValueError: if `axis` is none of the axes of `output`, the number of classes is unknown, or
            the shapes do not fit.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(
        ...     K.sparse_categorical_crossentropy(K.constant([1]), K.constant([[0.5, 0.5]]))
        ... ).round(4)
        array([0.6931], dtype=float32)
    """
    name = "sparse_categorical_crossentropy"
    output = float_tensor(output)
    axis = _axis(axis, output, name)
    classes = output.spec.shape[axis]
    if classes is None:
        raise ValueError(f"K.{name}: the number of classes (axis {axis} of output) must be known")
    target = as_tensor(target)
    if not is_integer(target.spec.dtype):
        target = cast_to(target, "int64")
    logs = _log_probabilities(output, axis, False, from_logits)
    rest = tuple(n for i, n in enumerate(output.spec.shape) if i != axis)
    target = _label_shape(target, rest, name)
    target = primitive("expand_dims")(target, axes=(axis,))
    numbers = primitive("reshape")(
        constant(np.arange(classes), target.spec.dtype),
        shape=tuple(classes if i == axis else 1 for i in range(output.ndim)),
    )
    zero = constant(0, logs.spec.dtype)
    hit = primitive("equal")(target, numbers)
    chosen = primitive("sum")(primitive("where")(hit, logs, zero), axes=(axis,), keepdims=False)
    valid = primitive("any")(hit, axes=(axis,), keepdims=False)
    found: Tensor = -primitive("where")(valid, chosen, constant(float("nan"), logs.spec.dtype))
    return found


def _label_shape(target: Tensor, rest: tuple[int | None, ...], name: str) -> Tensor:
    """Labels in the shape of the losses."""
    if target.ndim == len(rest) + 1 and target.spec.shape[-1] in (1, None):
        target = primitive("squeeze")(target, axes=(target.ndim - 1,))
    elif target.ndim != len(rest):
        if target.ndim == 0 or None in rest[1:]:
            raise ValueError(
                f"K.{name}: target has shape {tuple(target.spec.shape)}, expected {rest}"
            )
        target = primitive("reshape")(target, shape=tuple(-1 if n is None else n for n in rest))
    for n, m in zip(target.spec.shape, rest, strict=True):
        if n is not None and m is not None and n != m:
            raise ValueError(
                f"K.{name}: target has shape {tuple(target.spec.shape)}, expected {rest}"
            )
    return target


@api
def binary_crossentropy(target: Any, output: Any, from_logits: bool = False) -> Tensor:
    """Element-wise crossentropy of probabilities of two outcomes:
    -(target * log(output) + (1 - target) * log(1 - output)).

    Args:
        target: Tensor that broadcasts with `output`.
        output: Probabilities, kept away from 0 and 1 by `K.epsilon()`; or logits. The result of a
            sigmoid is traced back to its logits.
        from_logits: Whether `output` are logits.

    Returns:
        A tensor of the broadcast shape.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.binary_crossentropy(K.constant([1.0]), K.constant([0.5]))).round(4)
        array([0.6931], dtype=float32)
    """
    output = float_tensor(output)
    target = cast_to(as_tensor(target), output.spec.dtype)
    logits = output if from_logits else _before(output, "sigmoid")
    if logits is not None:
        # log(1 + exp(z)) - t z, both terms finite for any z.
        result: Tensor = primitive("softplus")(logits) - target * logits
        return result
    p = _clipped(output)
    log = primitive("log")
    found: Tensor = -(target * log(p) + (1.0 - target) * log(1.0 - p))
    return found


@api
def in_top_k(predictions: Any, targets: Any, k: int) -> Tensor:
    """Whether the target class is among the `k` best predictions.

    Args:
        predictions: Float tensor (batch, classes).
        targets: Integer tensor (batch,).
        k: How many predictions count; equal ones at the edge all count.

    Returns:
        Bool tensor (batch,): False too for targets that are no class, and where a prediction is NaN
        or infinite.

    Raises:
        ValueError: if the ranks do not fit.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.in_top_k(K.constant([[0.1, 0.6, 0.3]]), K.constant([2], dtype="int32"), 2))
        array([ True])
    """
    predictions, targets = float_tensor(predictions), as_tensor(targets)
    if predictions.ndim != 2 or targets.ndim != 1:
        raise ValueError(
            "K.in_top_k: predictions must have 2 axes and targets 1, got shapes "
            f"{tuple(predictions.spec.shape)} and {tuple(targets.spec.shape)}"
        )
    if not is_integer(targets.spec.dtype):
        raise TypeError(f"K.in_top_k: targets must be integers, got {targets.spec.dtype}")
    classes = predictions.spec.shape[1]
    size = primitive("dim")(predictions, axis=1) if classes is None else constant(classes, "int32")
    numbers = primitive("arange")(constant(0, "int32"), size, constant(1, "int32"), dtype="int32")
    here = primitive("equal")(
        primitive("expand_dims")(cast_to(targets, "int64"), axes=(1,)),
        primitive("expand_dims")(cast_to(numbers, "int64"), axes=(0,)),
    )
    finite = primitive("equal")(*promoted(predictions - predictions, 0.0))
    zero = constant(0, predictions.spec.dtype)
    chosen = primitive("sum")(primitive("where")(here, predictions, zero), axes=(1,), keepdims=True)
    better = cast_to(primitive("less")(chosen, predictions), "int32")
    count = primitive("sum")(better, axes=(1,), keepdims=False)
    valid = primitive("logical_and")(
        primitive("any")(here, axes=(1,), keepdims=False),
        primitive("all")(finite, axes=(1,), keepdims=False),
    )
    limit = constant(as_int(k, "K.in_top_k: k"), "int32")
    result: Tensor = primitive("logical_and")(valid, primitive("less")(count, limit))
    return result
