"""Losses: crossentropies, and a test whether a target is among the best predictions."""

from __future__ import annotations

import math

import numpy as np

from backplane import config
from backplane.backend._args import as_count, as_int
from backplane.backend._call import api
from backplane.backend._loss_shapes import check_classes, check_numbers, check_pairs
from backplane.backend.activation import float_tensor
from backplane.backend.types import Axis, TensorLike
from backplane.core import context
from backplane.core.graph import Tensor
from backplane.core.primitive import Primitive
from backplane.core.spec import ROUNDING, is_integer
from backplane.ops import elementwise as ew
from backplane.ops import reduction as red
from backplane.ops.creation import like, scalar, shaped, size_at
from backplane.ops.lift import as_tensor, cast_to
from backplane.ops.picking import names_one, pick
from backplane.ops.ragged import column, positions, row
from backplane.ops.shaping import expand_dims, full_like, reshape, squeeze

__all__ = [
    "binary_crossentropy", "categorical_crossentropy", "in_top_k",
    "sparse_categorical_crossentropy",
]  # fmt: skip


def _axis(axis: Axis, output: Tensor) -> int:
    rank = output.ndim
    number = as_int(axis, "axis")
    if not -rank <= number < rank:
        raise ValueError(
            f"axis must be -1 or one of the axes of output, which has {rank} axes; got {axis}"
        )
    return number % rank


def _clipped(x: Tensor) -> Tensor:
    """The probabilities, clipped to [epsilon, 1 - epsilon] so that their logarithms are finite. An
    epsilon that the dtype cannot take from 1 becomes the least that it can.
    """
    dtype = x.spec.dtype
    epsilon = max(config.epsilon(), ROUNDING[dtype])
    return ew.maximum(ew.minimum(x, scalar(1.0 - epsilon, dtype)), scalar(epsilon, dtype))


def _logits(
    what: str, output: Tensor, activation: Primitive[Tensor], from_logits: bool, **params: int
) -> Tensor | None:
    """The logits of the loss `what`, if there are any: `output` if it holds them, else the argument
    of the activation that made it. A loss that is computed from logits is exact even where
    probabilities are close to 0 or 1.
    """
    made = output.op is activation
    if from_logits:
        if made:
            context.warn(
                f"K.{what}: received `from_logits=True`, but `output` is the result of a "
                f"{activation.name}, so it holds probabilities. They are taken for logits, as "
                "asked; leave from_logits out if that is not meant"
            )
        return output
    return output.inputs[0] if made and output.params.items() >= params.items() else None


def _log_probabilities(x: Tensor, axis: int, normalized: bool, from_logits: bool) -> Tensor:
    """Log-probabilities along `axis` of logits or of probabilities."""
    if from_logits:
        return red.log_softmax(x, axis=axis)
    if normalized:
        return ew.log(_clipped(x / red.sum(x, axes=(axis,), keepdims=True)))
    return red.log_softmax(ew.log(_clipped(x)), axis=axis)


@api
def categorical_crossentropy(
    target: TensorLike, output: TensorLike, from_logits: bool = False, axis: Axis = -1
) -> Tensor:
    """Crossentropy between a distribution and a target distribution: -sum(target * log(output)).

    Args:
        target: Tensor of the shape of `output`.
        output: Probabilities or logits. Probabilities are first scaled to sum to 1 along `axis`,
            and then kept away from 0 and 1 by `K.epsilon()`, or by the precision of their dtype if
            that is larger. The result of a softmax is traced back to its logits.
        from_logits: Whether `output` holds logits.
        axis: Axis of the classes.

    Returns:
        A tensor of the shape of `output` without `axis`.

    Raises:
        ValueError: if `output` has no such `axis`, or the shapes do not fit. Class numbers in the
            place of distributions are refused, as far as shapes tell them.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(
        ...     K.categorical_crossentropy(K.constant([0.0, 1.0]), K.constant([0.5, 0.5]))
        ... ).round(4)
        np.float32(0.6931)
    """
    output = float_tensor(output)
    axis = _axis(axis, output)
    target = cast_to(as_tensor(target), output.spec.dtype)
    check_classes(target, output, axis)
    logits = _logits("categorical_crossentropy", output, red.softmax, from_logits, axis=axis)
    x = output if logits is None else logits
    logs = _log_probabilities(x, axis, True, logits is not None)
    return -red.sum(target * logs, axes=(axis,), keepdims=False)


@api
def sparse_categorical_crossentropy(
    target: TensorLike,
    output: TensorLike,
    from_logits: bool = False,
    axis: Axis = -1,
    ignore_class: int | None = None,
) -> Tensor:
    """Crossentropy between a distribution and a class given by its number.

    Args:
        target: Integers with the shape of `output` without `axis`. They may also have as many axes
            as `output`, if `axis` or the last one has size 1. Floats are cut to integers. A number
            that is not a class gives a loss of NaN.
        output: Probabilities or logits, as in `K.categorical_crossentropy`.
        from_logits: Whether `output` holds logits.
        axis: Axis of the classes.
        ignore_class: Number that stands for no class, such as -1 or 255. Where the target is that
            number, the loss is 0, and `output` has no influence on any gradient.

    Returns:
        A tensor of the shape of `output` without `axis`.

    Raises:
        ValueError: if `output` has no such `axis`, if the number of classes is unknown, or if the
            shapes do not fit.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(
        ...     K.sparse_categorical_crossentropy(K.constant([1]), K.constant([[0.5, 0.5]]))
        ... ).round(4)
        array([0.6931], dtype=float32)
    """
    output = float_tensor(output)
    axis = _axis(axis, output)
    classes = output.spec.shape[axis]
    if classes is None:
        raise ValueError(f"the number of classes (axis {axis} of output) must be known")
    target = as_tensor(target)
    if not is_integer(target.spec.dtype):
        target = cast_to(target, "int64")
    check_numbers(target, output, axis)
    labels = _labels(target, output, axis)
    if classes > np.iinfo(labels.spec.dtype).max:
        labels = cast_to(labels, "int64")
    logits = _logits("sparse_categorical_crossentropy", output, red.softmax, from_logits, axis=axis)
    x = output if logits is None else logits
    named = names_one(labels, classes)
    if ignore_class is not None:
        ignored = _ignored(labels, as_int(ignore_class, "ignore_class"))
        # Ones are probabilities as well as logits. Whatever stood there, NaN too, is dropped.
        x = ew.where(ignored, ew.one(x), x)
    logs = _log_probabilities(x, axis, False, logits is not None)
    losses = -ew.where(named, pick(logs, labels, axis=axis), like(math.nan, logs))
    if ignore_class is None:
        return squeeze(losses, axes=(axis,))
    losses = squeeze(ew.where(ignored, ew.zero(logs), losses), axes=(axis,))
    # As in tf.keras, whose means over a loss leave out what this mask does.
    losses._keras_mask = squeeze(ew.logical_not(ignored), axes=(axis,))  # type: ignore[attr-defined]
    return losses


def _ignored(labels: Tensor, number: int) -> Tensor:
    """The mask of labels that are `number`, which their dtype may be too narrow for."""
    limits = np.iinfo(labels.spec.dtype)
    if not limits.min <= number <= limits.max:
        return full_like(labels, 0, "bool")
    return ew.equal(labels, like(number, labels))


def _labels(target: Tensor, output: Tensor, axis: int) -> Tensor:
    """The labels in the shape of `output`, but with size 1 along `axis`."""
    given = target.spec.shape
    shape = [1 if i == axis else n for i, n in enumerate(output.spec.shape)]
    if target.ndim == output.ndim - 1:
        target = expand_dims(target, axes=(axis,))
    elif target.ndim != output.ndim or given[axis] != 1:
        sizes = [1 if i == axis else size_at(output, i) for i in range(output.ndim)]
        return shaped(reshape, sizes, target)
    if any(None not in (n, m) and n != m for n, m in zip(target.spec.shape, shape, strict=True)):
        expected = (*shape[:axis], *shape[axis + 1 :])
        raise ValueError(f"target has shape {given}, expected {expected}")
    return target


@api
def binary_crossentropy(
    target: TensorLike, output: TensorLike, from_logits: bool = False
) -> Tensor:
    """Element-wise crossentropy of probabilities of two outcomes:
    -(target * log(output) + (1 - target) * log(1 - output)).

    Args:
        target: Tensor of the shape of `output`, or one that broadcasts to it.
        output: Probabilities or logits. Probabilities are kept away from 0 and 1 by `K.epsilon()`,
            or by the precision of their dtype if that is larger. The result of a sigmoid is traced
            back to its logits.
        from_logits: Whether `output` holds logits.

    Returns:
        A tensor of the broadcast shape.

    Raises:
        ValueError: if the shapes do not fit, or if each target would meet every output, as those of
            shape (n,) would meet outputs of shape (n, 1).

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.binary_crossentropy(K.constant([1.0]), K.constant([0.5]))).round(4)
        array([0.6931], dtype=float32)
    """
    output = float_tensor(output)
    target = cast_to(as_tensor(target), output.spec.dtype)
    check_pairs(target, output)
    logits = _logits("binary_crossentropy", output, ew.sigmoid, from_logits)
    if logits is None:
        p = _clipped(output)
        return -(target * ew.log(p) + (1.0 - target) * ew.log1p(-p))
    # max(z, 0) - z * target + log(1 + exp(-|z|)). Here max(z, 0) is z * up and -|z| is
    # z * (1 - 2 * up): unlike `maximum` and `abs` they have the slopes of the smooth sum at 0.
    up = cast_to(logits >= 0.0, logits.spec.dtype)
    return logits * (up - target) + ew.log1p(ew.exp(logits * (1.0 - 2.0 * up)))


@api
def in_top_k(predictions: TensorLike, targets: TensorLike, k: int) -> Tensor:
    """Whether the target class is among the `k` best predictions.

    Args:
        predictions: Float tensor (batch, classes).
        targets: Integer tensor (batch,).
        k: How many predictions count. Predictions that tie for the last place all count.

    Returns:
        Bool tensor (batch,). It is False, too, if the target is not a class, or its prediction is
        NaN or infinite.

    Raises:
        ValueError: if the ranks or the numbers of samples do not fit.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.in_top_k(K.constant([[0.1, 0.6, 0.3]]), K.constant([2], dtype="int32"), 2))
        array([ True])
    """
    predictions, targets = float_tensor(predictions), as_tensor(targets)
    if predictions.ndim != 2 or targets.ndim != 1:
        raise ValueError(
            "predictions must have 2 axes and targets 1, got shapes "
            f"{predictions.spec.shape} and {targets.spec.shape}"
        )
    n, m = targets.spec.shape[0], predictions.spec.shape[0]
    if None not in (n, m) and n != m:
        raise ValueError(f"targets has {n} samples, and predictions has {m}")
    if not is_integer(targets.spec.dtype):
        raise TypeError(f"targets must be integers, got {targets.spec.dtype}")
    numbers = cast_to(positions(predictions, 1), "int64")
    here = ew.equal(column(cast_to(targets, "int64")), row(numbers))
    finite = (predictions - predictions) >= 0.0
    nothing = ew.zero(predictions)
    chosen = red.sum(ew.where(here, predictions, nothing), axes=(1,), keepdims=True)
    better = cast_to(chosen < predictions, "int32")
    count = red.sum(better, axes=(1,), keepdims=False)
    valid = red.any(here, axes=(1,), keepdims=False) & red.all(finite, axes=(1,), keepdims=False)
    return valid & (count < scalar(min(as_count(k, "k"), 2**31 - 1), "int32"))
