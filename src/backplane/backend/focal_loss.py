"""Focal losses: crossentropies in which examples that are predicted well count less.

Source: T.-Y. Lin, P. Goyal, R. Girshick, K. He, P. Dollár: Focal loss for dense object detection
(ICCV 2017). Names and defaults are those of tf.keras 2.15.
"""

from __future__ import annotations

from backplane.backend._call import api
from backplane.backend._loss_shapes import check_classes, check_pairs
from backplane.backend.activation import float_tensor
from backplane.backend.loss import _axis, _clipped, _logits, binary_crossentropy
from backplane.backend.types import Axis, TensorLike
from backplane.core.graph import Tensor
from backplane.ops import elementwise as ew
from backplane.ops import reduction as red
from backplane.ops.lift import as_tensor, cast_to
from backplane.ops.shaping import reshape

__all__ = ["binary_focal_crossentropy", "categorical_focal_crossentropy"]


def _like(value: TensorLike, output: Tensor) -> Tensor:
    """A number or a tensor in the dtype of `output`."""
    return cast_to(as_tensor(value, output.spec.dtype), output.spec.dtype)


@api
def binary_focal_crossentropy(
    target: TensorLike,
    output: TensorLike,
    apply_class_balancing: bool = False,
    alpha: TensorLike = 0.25,
    gamma: TensorLike = 2.0,
    from_logits: bool = False,
) -> Tensor:
    """Element-wise crossentropy of probabilities of two outcomes, times (1 - p) ** gamma, where p
    is the probability of the outcome that happened.

    An addition of Backplane, from tf.keras 2.15: the documents of the Keras backend API do not have
    it.

    Args:
        target: Tensor of the shape of `output`.
        output: Probabilities or logits, as in `K.binary_crossentropy`.
        apply_class_balancing: Whether class 1 is weighted by `alpha`, and class 0 by 1 - `alpha`.
        alpha: Weight of class 1, in [0, 1].
        gamma: How much less examples count that are predicted well. With 0 the result is that of
            `K.binary_crossentropy`.
        from_logits: Whether `output` holds logits.

    Returns:
        A tensor of the shape of `output`.

    Example:
        >>> from backplane import backend as K
        >>> p = K.constant([0.9, 0.5])
        >>> K.eval(K.binary_focal_crossentropy(K.constant([1.0, 1.0]), p)).round(4)
        array([0.0011, 0.1733], dtype=float32)
    """
    output = float_tensor(output)
    target = _like(target, output)
    check_pairs(target, output)  # So that errors name this function.
    losses = binary_crossentropy(target, output, from_logits)
    p = ew.sigmoid(output) if from_logits else output
    p = _clipped(p)  # The slope of the power at 0 may be infinite.
    missing = 1.0 - (target * p + (1.0 - target) * (1.0 - p))
    losses = missing ** _like(gamma, output) * losses
    if apply_class_balancing:
        weight = _like(alpha, output)
        losses = (target * weight + (1.0 - target) * (1.0 - weight)) * losses
    return losses


@api
def categorical_focal_crossentropy(
    target: TensorLike,
    output: TensorLike,
    alpha: TensorLike = 0.25,
    gamma: TensorLike = 2.0,
    from_logits: bool = False,
    axis: Axis = -1,
) -> Tensor:
    """Crossentropy between a distribution and a target distribution, with each class weighted by
    its missing probability: -sum(alpha * (1 - output) ** gamma * target * log(output)).

    An addition of Backplane, from tf.keras 2.15: the documents of the Keras backend API do not have
    it.

    Args:
        target: Tensor of the shape of `output`.
        output: Probabilities or logits. Probabilities are first scaled to sum to 1 along `axis`,
            and then kept away from 0 and 1 by `K.epsilon()`.
        alpha: Weight of all classes, or a vector with a weight for each class.
        gamma: How much less examples count that are predicted well. With 0, and `alpha` 1, the
            result is that of `K.categorical_crossentropy`.
        from_logits: Whether `output` holds logits.
        axis: Axis of the classes.

    Returns:
        A tensor of the shape of `output` without `axis`.

    Raises:
        ValueError: if `output` has no such `axis`, or the shapes do not fit.

    Example:
        >>> from backplane import backend as K
        >>> target, p = K.constant([[0.0, 1.0]]), K.constant([[0.5, 0.5]])
        >>> K.eval(K.categorical_focal_crossentropy(target, p)).round(4)
        array([0.0433], dtype=float32)
    """
    output = float_tensor(output)
    axis = _axis(axis, output)
    target = _like(target, output)
    check_classes(target, output, axis)
    if target.ndim != output.ndim or not output.spec.accepts(target.spec):
        raise ValueError(
            f"target must have the shape of output, {output.spec.shape}, got {target.spec.shape}"
        )
    _logits("categorical_focal_crossentropy", output, red.softmax, from_logits)
    p = red.softmax(output, axis=axis) if from_logits else output
    p = _clipped(p / red.sum(p, axes=(axis,), keepdims=True))
    weights = _like(alpha, output)
    if weights.ndim == 1:
        weights = reshape(weights, shape=(-1, *[1] * (output.ndim - 1 - axis)))
    focal = weights * (1.0 - p) ** _like(gamma, output)
    return -red.sum(focal * target * ew.log(p), axes=(axis,), keepdims=False)
