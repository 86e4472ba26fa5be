"""Crossentropies and codes of classes of Keras 3.

Probabilities are limited by Keras' epsilon, and never traced back to their logits, so that eager
and compiled losses agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backplane import backend as K
from backplane.core.graph import Tensor
from backplane.core.spec import is_float
from backplane.keras3.call import op
from backplane.keras3.operands import alike, float_of, standard, tensor_of
from backplane.keras3.ops.conversion import to_array
from backplane.keras3.settings import epsilon
from backplane.ops import elementwise as ew
from backplane.ops import reduction
from backplane.ops.axes import moved
from backplane.ops.creation import scalar
from backplane.ops.lift import cast_to
from backplane.ops.picking import names_one, pick
from backplane.ops.shaping import expand_dims, squeeze


def _limited(p: Tensor) -> Tensor:
    return K.clip(p, epsilon(), 1.0 - epsilon())


def _agree(given: Sequence[int | None], wanted: Sequence[int | None]) -> bool:
    """Whether two shapes are equal, as far as they are known."""
    return len(given) == len(wanted) and all(
        None in pair or pair[0] == pair[1] for pair in zip(given, wanted, strict=True)
    )


def _same_shape(target: Tensor, output: Tensor, rank: int | None = None) -> None:
    """ValueError unless the shapes agree up to `rank` axes, as far as they are known."""
    given, wanted = target.spec.shape, output.spec.shape[:rank]
    if not _agree(given, wanted):
        until = "" if rank is None else " up until the last dimension"
        raise ValueError(
            f"Arguments `target` and `output` must have the same shape{until}. Received: "
            f"target.shape={given}, output.shape={output.spec.shape}"
        )


def _has_axes(what: str, output: Tensor) -> None:
    if not output.ndim:
        raise ValueError(f"{what} must be at least rank 1. Received: output.shape=()")


def _logs(output: Tensor, axis: int, from_logits: bool) -> Tensor:
    """The logarithms of probabilities along `axis`."""
    if from_logits:
        return reduction.log_softmax(output, axis=axis)
    total = reduction.sum(output, axes=(axis,), keepdims=True)
    return ew.log(_limited(ew.div(output, total)))


@op
def categorical_crossentropy(
    target: Any, output: Any, from_logits: bool = False, axis: int = -1
) -> Tensor:
    """−Σ target · log(output) along `axis`.

    Raises:
        ValueError: if the shapes differ.
    """
    target, output = tensor_of(target), float_of(output)
    _same_shape(target, output)
    _has_axes("Arguments `target` and `output`", output)
    axis = axis % output.ndim
    target, logs = alike(target, _logs(output, axis, from_logits))
    return -reduction.sum(target * logs, axes=(axis,), keepdims=False)


@op
def sparse_categorical_crossentropy(
    target: Any, output: Any, from_logits: bool = False, axis: int = -1
) -> Tensor:
    """−log(output) of the classes that `target` names; 0 for a number that is no class.

    Raises:
        ValueError: if the shapes do not fit, or if the number of classes is unknown.
    """
    target, output = cast_to(tensor_of(target), "int32"), float_of(output)
    _has_axes("Argument `output`", output)
    if target.ndim == output.ndim and target.spec.shape[-1] == 1:
        target = squeeze(target, axes=(target.ndim - 1,))
    _same_shape(target, output, -1)
    axis = axis % output.ndim
    classes = output.spec.shape[axis]
    if classes is None:
        raise ValueError("sparse_categorical_crossentropy: the number of classes must be known")
    labels = expand_dims(target, axes=(axis,))
    chosen = pick(_logs(output, axis, from_logits), labels, axis=axis)
    losses = ew.where(names_one(labels, classes), -chosen, ew.zero(chosen))
    return squeeze(losses, axes=(axis,))


@op
def binary_crossentropy(target: Any, output: Any, from_logits: bool = False) -> Tensor:
    """−target · log(output) − (1 − target) · log(1 − output).

    Raises:
        ValueError: if the shapes differ.
    """
    target, output = tensor_of(target), float_of(output)
    _same_shape(target, output)
    target, output = alike(target, output)
    if from_logits:
        return target * ew.softplus(-output) + (1.0 - target) * ew.softplus(output)
    output = _limited(output)
    return -(target * ew.log(output) + (1.0 - target) * ew.log(1.0 - output))


# --- codes of classes -----------------------------------------------------------------------------


def _coded(x: Tensor, num_classes: int, axis: int, dtype: Any) -> Tensor:
    x = cast_to(x, "int32") if is_float(x.spec.dtype) or x.spec.dtype == "bool" else x
    codes = cast_to(K.one_hot(x, num_classes), standard(dtype))
    return moved(codes, codes.ndim - 1, axis % codes.ndim)


def _refuse_sparse(name: str, sparse: bool) -> None:
    if sparse:
        raise ValueError(
            f"{name}: Unsupported value `sparse=True` with backend backplane, which has no sparse "
            "tensors of Keras"
        )


def one_hot(
    x: Any, num_classes: int | None, axis: int = -1, dtype: Any = None, sparse: bool = False
) -> Any:
    """A code of `num_classes` numbers along a new axis: 1 at the class, 0 elsewhere. A number that
    is no class gives zeros. Without `num_classes`, the largest number in `x` is the last class.
    """
    _refuse_sparse("one_hot", sparse)
    classes = num_classes or int(to_array(x).max(initial=-1)) + 1
    return _one_hot(x, classes, axis, dtype)


@op
def _one_hot(x: Any, num_classes: int, axis: int, dtype: Any) -> Tensor:
    return _coded(tensor_of(x), num_classes, axis, dtype)


@op
def multi_hot(
    x: Any, num_classes: int, axis: int = -1, dtype: Any = None, sparse: bool = False
) -> Tensor:
    """1 for each class that the operand names, 0 for the others."""
    _refuse_sparse("multi_hot", sparse)
    x = tensor_of(x)
    codes = _coded(x, num_classes, axis, "bool")
    return cast_to(K.any(codes, axis=1 if x.ndim > 1 else 0), standard(dtype))


@op
def psnr(x1: Any, x2: Any, max_val: Any) -> Tensor:
    """The ratio of signal and noise in decibels: 20 log₁₀(max_val) − 10 log₁₀(mean((x1 − x2)²)).

    Raises:
        ValueError: if the shapes differ.
    """
    x1, x2 = alike(float_of(x1), float_of(x2))
    if not _agree(x1.spec.shape, x2.spec.shape):
        raise ValueError(
            f"Input shapes {x1.spec.shape} and {x2.spec.shape} must match for PSNR calculation."
        )
    decibels = scalar(10.0 / 2.302585092994046, x1.spec.dtype)
    most = tensor_of(max_val, x1.spec.dtype)
    return decibels * (2.0 * ew.log(most) - ew.log(K.mean(K.square(x1 - x2))))
