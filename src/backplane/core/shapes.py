"""Shape algebra: pure functions of static shapes, where None stands for an unknown size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

Size = int | None
Sizes = tuple[Size, ...]
Axes = tuple[int, ...]


def show(shape: Sequence[Size]) -> str:
    """A shape as error messages spell it."""
    return str(tuple(shape))


def broadcast_size(a: Size, b: Size) -> Size:
    """The size of an axis that is broadcast from two operands; ValueError if they do not fit."""
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    if a is None or b is None:
        return b if a is None else a
    raise ValueError(f"sizes {a} and {b}")


def broadcast(*shapes: Sequence[Size]) -> Sizes:
    """The shape of an element-wise result, by NumPy's rules. ValueError if shapes do not fit."""
    first, *others = shapes
    others = [s for s in others if s and s != first]  # Nothing to stretch: most operands.
    if not others:
        return tuple(first)
    if not first and len(others) == 1:
        return tuple(others[0])
    rank = max(len(s) for s in shapes)
    result: list[Size] = [1] * rank
    try:
        for shape in shapes:
            start = rank - len(shape)
            for i, n in enumerate(shape):
                result[start + i] = broadcast_size(result[start + i], n)
    except ValueError:
        *some, last = [show(s) for s in shapes]
        raise ValueError(f"shapes {', '.join(some)} and {last} do not broadcast together") from None
    return tuple(result)


def broadcast_axes(shape: Sequence[Size], whole: Sequence[Size]) -> tuple[Axes, Axes]:
    """The effect of a broadcast from `shape` to `whole`: the axes of `whole` that it adds in front,
    and those that it stretches from size 1. Unknown sizes count as equal.
    """
    extra = len(whole) - len(shape)
    stretched = [i for i, n in enumerate(shape, extra) if n == 1 != whole[i]]
    return tuple(range(extra)), tuple(stretched)


def reduce(shape: Sequence[Size], axes: Sequence[int], keepdims: bool) -> Sizes:
    """The shape after reducing `axes`."""
    if keepdims:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


MOST_ELEMENTS = 2**60
"""More would need more bytes than 64 bits count."""


def check_elements(shape: Sequence[Size]) -> None:
    """Raise ValueError if a tensor of this shape has more elements than any machine can hold."""
    total = 1
    for n in shape:
        if n is not None:
            total *= n
    if total > MOST_ELEMENTS:
        raise ValueError(f"a tensor of shape {show(shape)} has more than 2**60 elements")


def elements(shape: Sequence[Size], unknown: int = 1) -> int:
    """The number of elements, if each unknown size is `unknown`."""
    return prod([unknown if n is None else n for n in shape])


def product(shape: Sequence[Size]) -> Size:
    """The number of elements; None if it is unknown. One known zero makes it zero."""
    total = elements(shape)
    return None if total and None in shape else total


def add(a: Size, b: Size) -> Size:
    """Sum of sizes."""
    return None if a is None or b is None else a + b


def merge_size(a: Size, b: Size, what: str) -> Size:
    """The size that two sources, which must agree, tell; the ValueError names `what` disagrees."""
    if a is None or b is None or a == b:
        return b if a is None else a
    raise ValueError(f"{what}: {a} and {b} differ")


def slice_size(n: Size, start: int | None, stop: int | None, step: int) -> Size:
    """The number of elements that a Python slice with a positive step reads."""
    return None if n is None else len(range(*slice(start, stop, step).indices(n)))


def reshape(shape: Sequence[Size], target: Sequence[Size]) -> Sizes:
    """The shape after a reshape to `target`, which may hold one -1. ValueError if it cannot fit."""
    total = product(shape)
    if list(target).count(-1) > 1:
        raise ValueError(f"cannot reshape {show(shape)} to {show(target)}: more than one -1")
    known = product([n for n in target if n != -1])
    if -1 not in target:
        if total is not None and known is not None and total != known:
            raise ValueError(
                f"cannot reshape {show(shape)} ({total} elements) to {show(target)} ({known} "
                f"elements)"
            )
        return tuple(target)
    missing: Size = None
    if total is not None and known is not None:
        if known == 0 or total % known:
            raise ValueError(f"cannot reshape {show(shape)} ({total} elements) to {show(target)}")
        missing = total // known
    return tuple(missing if n == -1 else n for n in target)


def normalize_axis(axis: int, rank: int, name: str = "axis") -> int:
    """The axis, counted from the front. The ValueError names the argument and the range."""
    axis = int(axis)
    if not -rank <= axis < rank:
        raise ValueError(f"{name} {axis} is out of range for a tensor with {rank} axes")
    return axis % rank if rank else 0


def normalize_axes(
    axes: int | Sequence[int] | None, rank: int, name: str = "axis"
) -> tuple[int, ...]:
    """The axes, sorted, counted from the front; None: all. ValueError if one is named twice."""
    if axes is None:
        return tuple(range(rank))
    listed = list(axes) if isinstance(axes, Iterable) else [axes]
    normalized = tuple(sorted(normalize_axis(a, rank, name) for a in listed))
    if len(set(normalized)) != len(normalized):
        raise ValueError(f"{name} {tuple(listed)} names an axis twice")
    return normalized


def check_axes(name: str, axes: Sequence[int], rank: int) -> None:
    """Check the axes that a primitive takes: sorted, not negative, none named twice."""
    before = -1
    for axis in axes:
        if not before < axis < rank:
            raise ValueError(
                f"{name}: axes {tuple(axes)} must be sorted, distinct and below the rank {rank}"
            )
        before = axis
