"""Values of graphs, what graphs consist of, and derivatives by differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from backplane import backend as K
from backplane.core.graph import Placeholder, Tensor, constant, toposort
from backplane.core.spec import Spec
from backplane.ops import elementwise, reduction
from backplane.ops.autodiff import gradients


def leaf(*shape: int | None, dtype: str = "float64") -> Placeholder:
    """A placeholder of that shape."""
    return Placeholder(Spec(shape, dtype))


def values(outputs: Sequence[Tensor], feed: dict[Tensor, Any] | None = None) -> list[np.ndarray]:
    """What `outputs` are where the leaves are as `feed` says."""
    feed = feed or {}
    arrays = [np.asarray(v, t.spec.dtype) for t, v in feed.items()]
    found: list[np.ndarray] = K.function(list(feed), list(outputs))(arrays)
    return found


def value(output: Tensor, feed: dict[Tensor, Any] | None = None) -> np.ndarray:
    """What one output is."""
    return values([output], feed)[0]


def ops(outputs: Sequence[Tensor]) -> Counter[str]:
    """How often each primitive stands in the graph, bodies not counted."""
    return Counter(n.op.name for n in toposort(outputs) if n.op is not None)


def total(x: Tensor, weights: np.ndarray | None = None) -> Tensor:
    """The sum of all elements, each times its weight."""
    if weights is not None:
        x = elementwise.mul(x, constant(weights, x.spec.dtype))
    return reduction.sum(x, axes=tuple(range(x.ndim)), keepdims=False) if x.ndim else x


def slopes(
    function: Callable[..., Any], *arrays: Any, unknown: bool = False, order: int = 2
) -> list[tuple[float, float]]:
    """(by the rules, by differences): derivatives of `function` along random directions.

    The first pair is the derivative of a weighted sum of the float results, the next that of the
    first derivative, up to `order` or until nothing is connected any more.
    """
    rng = np.random.default_rng(5)
    points = [np.asarray(a, "float64") for a in arrays]
    leaves = [leaf(*(None if unknown else n for n in a.shape)) for a in points]
    feed = dict(zip(leaves, points, strict=True))
    found = function(*leaves)
    outputs = found if isinstance(found, list) else [found]
    slope = None
    for t in outputs:
        if t.spec.dtype == "float64":
            term = total(t, rng.uniform(0.5, 1.5, value(t, feed).shape))
            slope = term if slope is None else slope + term
    pairs = []
    for _ in range(order):
        before, slope, directions = slope, None, {}
        for x, g in zip(leaves, gradients([before], leaves), strict=True):
            directions[x] = rng.uniform(-1, 1, feed[x].shape)
            if g is not None:
                assert value(g, feed).shape == feed[x].shape
                term = total(g, directions[x])
                slope = term if slope is None else slope + term
        if slope is None:
            break
        pairs.append((float(value(slope, feed)), _difference(before, feed, directions)))
    return pairs


def _difference(t: Tensor, feed: dict[Tensor, Any], directions: dict[Tensor, Any]) -> float:
    """Central differences of two step sizes, extrapolated."""
    function = K.function(list(feed), [t])

    def at(h: float) -> float:
        return float(function([a + h * directions[x] for x, a in feed.items()])[0])

    def slope(h: float) -> float:
        return (at(h) - at(-h)) / (2 * h)

    return (4 * slope(5e-4) - slope(1e-3)) / 3
