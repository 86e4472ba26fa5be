"""Along which axes operations can be computed in parts, for `torch.distributed`.

Each primitive has a rule. It takes the shapes of the operands and the parameters, and gives all
`Split`s that are possible. A primitive without a rule needs its operands whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from backplane.core.primitive import Primitive
from backplane.core.registry import PRIMITIVES
from backplane.engines.table import Axes, Ints

Joined = Literal["sum", "mean", "again", "held", "whole"]


class Split(NamedTuple):
    """One way to compute an operation in parts of equal size."""

    operands: Sequence[int | None]
    """The axis along which each operand is cut. None: each part needs all of the operand."""
    result: int | Joined
    """The axis along which the parts of each result lie one after another. Otherwise each part has
    the shape of the whole, and the whole is their sum or their mean, or the same reduction `again`
    over the parts. With `held`, each part has what it holds of the whole, and zeros elsewhere. With
    `whole` nothing is cut: each part computes the whole."""


Shapes = Sequence[Ints]
"""The shapes of the operands; `()` for those that are not read."""

Splits = Iterable[Split]
Rule = Callable[..., Splits]

RULES: dict[str, Rule] = {}
"""The rules of primitives that are not element-wise."""

ALL = (None, None, 1)
"""The slice of a whole axis."""

UNBIND, STACK = "rows", "stacked"
"""The functions by which loops split sequences into rows and stack results."""


def has_rule(op: Primitive[Any]) -> bool:
    """Whether anything is known about the primitive."""
    return op.elementwise or op.name in RULES


def splits(name: str, shapes: Shapes, **params: Any) -> list[Split]:
    """The ways to compute the primitive `name` in parts."""
    if name in PRIMITIVES and PRIMITIVES[name].elementwise:
        return list(_broadcast(shapes, max(map(len, shapes))))
    return list(RULES[name](shapes, **params)) if name in RULES else []


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, rule))
        return rule

    return register


def _broadcast(shapes: Shapes, leading: int, after: int = 0) -> Iterator[Split]:
    """Splits along the first `leading` axes of a broadcast result; `after` axes follow them."""
    rank = leading + after
    for axis in range(leading):
        own = [axis - rank + len(shape) for shape in shapes]
        sizes = [shape[i] if i >= 0 else 1 for i, shape in zip(own, shapes, strict=True)]
        yield Split([i if n != 1 else None for i, n in zip(own, sizes, strict=True)], axis)


def _same(shapes: Shapes, axes: Iterable[int]) -> Iterator[Split]:
    """All operands and results are cut along the same axis."""
    for axis in axes:
        yield Split([axis for _ in shapes], axis)


def _except(shapes: Shapes, *axes: int) -> Iterator[Split]:
    return _same(shapes, [i for i in range(len(shapes[0])) if i not in axes])


RULES.update(
    flip=lambda shapes, *, axes: _except(shapes, *axes),
    pad=lambda shapes, *, padding, value: _where(shapes, padding, (0, 0)),
    slice=lambda shapes, *, slices: _where(shapes, slices, ALL),
    slice_grad=lambda shapes, *, slices, shape: _where(shapes, slices, ALL),
    check_windows=lambda shapes, *, sizes: _same(shapes, [i for i, n in enumerate(sizes) if n < 2]),
    **dict.fromkeys(
        ("concat", "softmax", "softmax_grad", "log_softmax", "cumsum", "cumprod"),
        lambda shapes, *, axis, **_: _except(shapes, axis),
    ),
    **dict.fromkeys(("top_k", "sort"), lambda shapes, **_: _except(shapes, len(shapes[0]) - 1)),
    **dict.fromkeys(("argmax", "argmin"), lambda shapes, *, axis: _without(shapes, (axis,))),
    squeeze=lambda shapes, *, axes: _without(shapes, axes),
    transpose=lambda shapes, *, perm: [Split([old], new) for new, old in enumerate(perm)],
    rows=lambda shapes: _without(shapes, (0,)),
    stacked=lambda shapes: [Split([i for _ in shapes], i + 1) for i in range(len(shapes[0]))],
)


def _where(shapes: Shapes, amounts: Sequence[Any], nothing: Any) -> Iterator[Split]:
    """Splits along the axes where nothing is added or left out."""
    return _same(shapes, [i for i, amount in enumerate(amounts) if amount == nothing])


def _without(shapes: Shapes, axes: Axes) -> list[Split]:
    """Splits along the axes of an operand that the result keeps; it lacks `axes`."""
    kept = [i for i in range(len(shapes[0])) if i not in axes]
    return [Split([i], place) for place, i in enumerate(kept)]


# --- reductions, and what works along axes --------------------------------------------------------


def _reduction(joined: Joined) -> Rule:
    def rule(shapes: Shapes, *, axes: Axes, keepdims: bool) -> Iterator[Split]:
        kept = [i for i in range(len(shapes[0])) if keepdims or i not in axes]
        yield from [Split([i], kept.index(i)) for i in kept if i not in axes]
        yield from [Split([i], joined) for i in axes]

    return rule


RULES.update(sum=_reduction("sum"), mean=_reduction("mean"))
# The library's collectives drop NaN from maxima, and know no sum of exponentials.
RULES.update(dict.fromkeys(("prod", "max", "min", "any", "all", "logsumexp"), _reduction("again")))


@_rule("sum_to")
def _sum_to(shapes: Shapes, *, shape: Ints) -> Iterator[Split]:
    added = len(shapes[0]) - len(shape)
    for i, n in enumerate(shapes[0]):
        stays = i >= added and shape[i - added] == n
        yield Split([i], i - added if stays else "sum")


# --- products -------------------------------------------------------------------------------------


@_rule("matmul")
def _matmul(shapes: Shapes, *, transpose_x: bool, transpose_y: bool) -> Iterator[Split]:
    a, b = map(len, shapes)
    rank = max(a, b)
    yield from _broadcast(shapes, rank - 2, 2)
    yield Split([a - 1 if transpose_x else a - 2, None], rank - 2)
    yield Split([None, b - 2 if transpose_y else b - 1], rank - 1)
    yield Split([a - 2 if transpose_x else a - 1, b - 1 if transpose_y else b - 2], "sum")


def _convolution(*ways: Split) -> Rule:
    """The rule of a convolution or of its gradients. The first way is by samples, and serves groups
    too. Axes are counted from the end where they are negative.
    """

    def rule(shapes: Shapes, *, groups: int, **_: Any) -> Iterator[Split]:
        rank = len(shapes[0])
        for operands, result in ways[: 1 if groups > 1 else None]:
            axes = [None if i is None else i % rank for i in operands]
            yield Split(axes, result % rank if isinstance(result, int) else result)

    return rule


RULES.update(
    conv=_convolution(Split([0, None], 0), Split([None, -1], -1), Split([-1, -2], "sum")),
    conv_input_grad=_convolution(
        Split([0, None], 0), Split([None, -2], -1), Split([-1, -1], "sum")
    ),
    conv_kernel_grad=_convolution(
        Split([0, 0], "sum"), Split([None, -1], -1), Split([-1, None], -2)
    ),
)


@_rule("max_pool", "max_pool_grad", "max_pool_take", "avg_pool", "avg_pool_grad")
def _pool(shapes: Shapes, **_: Any) -> Splits:
    for axis in (0, max(map(len, shapes)) - 1):
        yield Split([axis if shape else None for shape in shapes], axis)


# --- shapes ---------------------------------------------------------------------------------------


@_rule("reshape")
def _reshape(shapes: Shapes, *, shape: Ints) -> Iterator[Split]:
    """Along the first axis of each run of axes that become a run of other axes."""
    for old, new in _runs(shapes[0], shape):
        yield Split([old], new)


def _runs(old: Ints, new: Ints) -> Iterator[tuple[int, int]]:
    """The first axes of the shortest runs of equal size in `old` and `new`, axes of 1 left out."""
    a = [i for i, n in enumerate(old) if n != 1]
    b = [i for i, n in enumerate(new) if n != 1]
    if 0 in old:
        yield from [(0, 0)] if old[0] == new[0] else []
        return
    i = j = 0
    while i < len(a) and j < len(b):
        yield a[i], b[j]
        x, y = old[a[i]], new[b[j]]
        i, j = i + 1, j + 1
        while x != y:
            if x < y:
                x, i = x * old[a[i]], i + 1
            else:
                y, j = y * new[b[j]], j + 1


@_rule("broadcast_to")
def _broadcast_to(shapes: Shapes, *, shape: Ints) -> Splits:
    added = len(shape) - len(shapes[0])
    return [Split([i], i + added) for i, n in enumerate(shapes[0]) if n == shape[i + added]]


@_rule("expand_dims")
def _expand_dims(shapes: Shapes, *, axes: Axes) -> Splits:
    places = [i for i in range(len(shapes[0]) + len(axes)) if i not in axes]
    return [Split([i], place) for i, place in enumerate(places)]


# --- parts ----------------------------------------------------------------------------------------


@_rule("dynamic_slice", "dynamic_slice_grad")
def _dynamic_slice(shapes: Shapes, *, shape: Ints) -> Splits:
    whole = [i for i, (n, m) in enumerate(zip(shapes[0], shape, strict=True)) if n == m]
    return [Split([i, None], i) for i in whole]


@_rule("pick", "place")
def _pick(shapes: Shapes, *, axis: int, **_: Any) -> Iterator[Split]:
    yield from [split for split in _broadcast(shapes, len(shapes[0])) if split.result != axis]


@_rule("gather")
def _gather(shapes: Shapes, *, axis: int) -> Iterator[Split]:
    x, indices = map(len, shapes)
    yield Split([axis, None], "held")
    yield from [Split([None, i], axis + i) for i in range(indices)]
    yield from [Split([i, None], i) for i in range(axis)]
    yield from [Split([i, None], i + indices - 1) for i in range(axis + 1, x)]


@_rule("scatter_add")
def _scatter_add(shapes: Shapes, *, axis: int, **_: Any) -> Iterator[Split]:
    g, indices = map(len, shapes)
    yield from [Split([axis + i, i], "sum") for i in range(indices)]
    yield from [Split([i, None], i) for i in range(axis)]
    yield from [Split([i, None], i - indices + 1) for i in range(axis + indices, g)]
