"""Refuses shapes that a loss would broadcast to something that nobody means."""

from __future__ import annotations

from collections.abc import Sequence

from backplane.core.graph import Tensor
from backplane.core.shapes import Size, broadcast, show


def check_pairs(target: Tensor, output: Tensor) -> None:
    """For an element-wise loss: ValueError if every target would meet every output."""
    ours, theirs = target.spec.shape, output.spec.shape
    if not (ours and theirs and ours[-1] == theirs[-1]):
        _refuse_class_numbers(ours, theirs, len(theirs) - 1)
    broadcast(ours, theirs)
    if _grows(ours, theirs) and _grows(theirs, ours):
        raise ValueError(
            f"target has shape {show(ours)} and output has shape {show(theirs)}, so each target "
            "would meet every output. Both must have the same shape: K.expand_dims(x, -1) adds an "
            "axis of size 1, and K.squeeze(x, -1) removes it"
        )


def check_classes(target: Tensor, output: Tensor, axis: int) -> None:
    """For a loss that adds up over classes: ValueError if `target` is no distribution over them."""
    ours, theirs = target.spec.shape, output.spec.shape
    _refuse_class_numbers(ours, theirs, axis)
    position = axis - len(theirs)
    given, classes = ours[position] if -position <= len(ours) else None, theirs[axis]
    if given is not None and classes is not None and given != classes:
        if given == 1:
            raise _numbers(ours, theirs, classes, ours[:-1])
        hint = "; K.binary_crossentropy takes one probability for each target" * (classes == 1)
        raise ValueError(
            f"target has shape {show(ours)}, so {given} classes, and output has shape "
            f"{show(theirs)}: both must have the same classes{hint}"
        )
    broadcast(ours, theirs)


def check_numbers(target: Tensor, output: Tensor, axis: int) -> None:
    """For a loss of class numbers: ValueError if `target` has a number for each class."""
    ours, theirs = target.spec.shape, output.spec.shape
    classes = theirs[axis]
    if classes not in (1, None) and _may_equal(ours, theirs) and ours[axis] == classes:
        raise ValueError(
            f"target has the shape of output, {show(ours)}: one number for each class. Use "
            "K.categorical_crossentropy for such targets, or K.argmax(target) to get class numbers"
        )


def _refuse_class_numbers(ours: Sequence[Size], theirs: Sequence[Size], axis: int) -> None:
    """ValueError if `ours` is `theirs` without the axis of several classes. A vector as long as
    there are classes is something else: what all samples have in common.
    """
    classes, rest = theirs[axis] if theirs else 1, (*theirs[:axis], *theirs[axis + 1 :])
    if classes == 1 or not ours or not _may_equal(ours, rest):
        return
    if None not in ours and ours[-1] == theirs[-1] and tuple(ours) != rest:
        return
    raise _numbers(ours, theirs, classes, ours)


def _numbers(
    ours: Sequence[Size], theirs: Sequence[Size], classes: Size, labels: Sequence[Size]
) -> ValueError:
    depth = "classes" if classes is None else classes
    return ValueError(
        f"target of shape {show(ours)} would be class numbers for output of shape {show(theirs)}. "
        "Use K.sparse_categorical_crossentropy for class numbers, or make targets of the shape of "
        f"output by K.one_hot(target, {depth}) from integers of shape {show(labels)}"
    )


def _may_equal(a: Sequence[Size], b: Sequence[Size]) -> bool:
    return len(a) == len(b) and all(
        n is None or m is None or n == m for n, m in zip(a, b, strict=True)
    )


def _grows(shape: Sequence[Size], other: Sequence[Size]) -> bool:
    """Whether broadcasting repeats elements of `shape`; unknown sizes, of batches, are hardly 1."""
    extra = len(other) - len(shape)
    more = any(n != 1 for n in other[: max(extra, 0)])
    pairs = zip(reversed(shape), reversed(other), strict=False)
    return more or any(n == 1 != m for n, m in pairs)
