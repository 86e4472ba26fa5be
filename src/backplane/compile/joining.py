"""The sum of the gradients of slices that make up a whole is their concatenation."""

from __future__ import annotations

from typing import NamedTuple

from backplane.core.graph import Tensor
from backplane.core.registry import primitive

MOST = 256
"""Slices that are looked at: the sum of n of them is met n − 1 times."""

ALL = (None, None, 1)


class _Part(NamedTuple):
    """`g` from `start` to `stop` along `axis` of a tensor of `shape`, the rest zeros."""

    shape: tuple[int | None, ...]
    axis: int
    start: int
    stop: int
    g: Tensor


def joined(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
    """For x + y: a `concat`, if the terms are gradients of slices that cover one axis exactly."""
    parts: list[_Part] = []
    waiting = list(inputs)
    while waiting:
        t = waiting.pop()
        if t.op is None or len(parts) == MOST:
            return None
        if t.op.name == "add":
            waiting += t.inputs
            continue
        part = _part(t) if t.op.name == "slice_grad" else None
        if part is None or (parts and part[:2] != parts[0][:2]):
            return None
        parts.append(part)
    parts.sort(key=lambda part: part.start)
    shape, axis = parts[0][:2]
    bounds = [0, *[part.stop for part in parts]]
    if [part.start for part in parts] != bounds[:-1] or bounds[-1] != shape[axis]:
        return None
    op, pieces, params = primitive("concat"), tuple([part.g for part in parts]), {"axis": axis}
    return Tensor(op, pieces, params, op.infer(pieces, params), node.where)


def _part(t: Tensor) -> _Part | None:
    """A gradient of a slice of a single axis of known size, without gaps."""
    shape = t.spec.shape
    cut = [i for i, part in enumerate(t.params["slices"]) if part != ALL]
    if len(cut) != 1:
        return None
    axis = cut[0]
    n, (start, stop, step) = shape[axis], t.params["slices"][axis]
    if n is None or step != 1:
        return None
    first, end, _ = slice(start, stop).indices(n)
    return _Part(shape, axis, first, end, t.inputs[0]) if first < end else None
