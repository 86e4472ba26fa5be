"""The changes that `K.function` makes to its graph: precision, scaled loss, batch in parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from backplane.compile.accumulation import accumulated
from backplane.compile.precision import Lowering
from backplane.core.graph import Tensor, substitute, toposort
from backplane.core.variable import Variable
from backplane.ops import elementwise as ew
from backplane.ops.autodiff import Slope, slope_of
from backplane.ops.creation import like, scalar
from backplane.ops.reduction import all


class Scaling(NamedTuple):
    """The number by which the cotangent of the loss is multiplied, and gradients are divided."""

    initial: float
    steps: int | None = None
    """After so many steps in a row with finite gradients the number doubles. After a step without
    it halves, and that step changes nothing. None if it stays as it is."""


class Policy(NamedTuple):
    """The way in which a `K.function` runs: precision, scale of the loss, parts of the batch."""

    precision: str | None = None
    """The dtype in which products run."""
    loss_scale: Scaling | None = None
    parts: int = 1
    """Into how many parts the batch is split."""


PLAIN = Policy()

Updates = dict[Variable, Tensor]


def applied(
    policy: Policy,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    updates: Updates,
    cuts: Mapping[Tensor, Tensor],
) -> tuple[list[Tensor], Updates, Variable | None]:
    """The outputs and updates that run in the place of a function's own, and the variable that
    holds the scale of the loss. `cuts` are the tensors that are fed in the place of being computed,
    and their placeholders. ValueError if the loss cannot be scaled, or the batch not be split.
    """
    graph = _Differentiated(list(outputs), updates, cuts)
    scaling = policy.loss_scale if graph.used else None
    scale = None if scaling is None else _variable(scaling.initial, "loss_scale")
    if policy.precision is not None:
        graph.lower(policy.precision, scale)
    finite = [_finite(graph.used)] if scaling is not None and scaling.steps is not None else []
    if policy.parts > 1:
        slopes = {t: slope.of_variable for t, slope in graph.slopes.items()}
        both = [*graph.outputs, *finite]
        both, news = accumulated(inputs, both, graph.updates, slopes, policy.parts)
        graph.updates = dict(zip(graph.updates, news, strict=True))
        graph.outputs, finite = both[: len(outputs)], both[len(outputs) :]
    if finite and scale is not None and scaling is not None:
        kept = {v: ew.where(finite[0], new, v) for v, new in graph.updates.items()}
        graph.updates = kept | _adapted(scale, finite[0], scaling.steps or 1)
    return graph.outputs, graph.updates, scale


class _Differentiated:
    """A graph with its gradients."""

    def __init__(
        self, outputs: list[Tensor], updates: Updates, cuts: Mapping[Tensor, Tensor]
    ) -> None:
        order = toposort([*outputs, *updates.values()])
        marked = {t: slope for t in order if (slope := slope_of(t)) is not None}
        seeds = list(dict.fromkeys([s for slope in marked.values() for s in slope.seeds]))
        every = [*outputs, *updates.values(), *marked, *seeds]
        new = dict(zip(every, substitute(every, cuts), strict=True))
        self.outputs = [new[t] for t in outputs]
        self.updates = {v: new[t] for v, t in updates.items()}
        self.slopes = {
            new[t]: Slope(tuple([new[s] for s in slope.seeds]), slope.of_variable)
            for t, slope in marked.items()
        }
        of_variables = [t for t, slope in self.slopes.items() if slope.of_variable]
        read = set(toposort(self.updates.values(), stop=of_variables))
        self.used = [t for t in of_variables if t in read]
        """The gradients with respect to variables that updates read."""

    def lower(self, dtype: str, scale: Variable | None) -> None:
        """Let products run in `dtype`, and multiply the losses by `scale`."""
        seeds = {s for t in self.used for s in self.slopes[t].seeds} if scale is not None else set()
        self._check_order(seeds)

        def scaled(node: Tensor, made: Tensor) -> Tensor:
            if scale is not None and node in seeds:
                made = ew.mul(made, scale)
            if scale is not None and node in self.slopes:
                return made if seeds.isdisjoint(self.slopes[node].seeds) else ew.div(made, scale)
            return made

        news = list(self.updates.values())
        every = [*self.outputs, *news, *self.slopes]
        lowered = Lowering(dtype, self.slopes.keys(), news).run(every, scaled)
        new = dict(zip(every, lowered, strict=True))
        self.outputs = [new[t] for t in self.outputs]
        self.updates = {v: new[t] for v, t in self.updates.items()}
        self.slopes = {new[t]: slope for t, slope in self.slopes.items()}
        self.used = [new[t] for t in self.used]

    def _check_order(self, seeds: set[Tensor]) -> None:
        for t in self.used if seeds else []:
            inner = seeds.intersection(toposort([t])).difference(self.slopes[t].seeds)
            if inner:
                raise ValueError(
                    f"the loss cannot be scaled, because the gradient {t!r} is computed from other "
                    "gradients that are used too: give loss_scale=1"
                )


def _variable(value: float, name: str, dtype: str = "float32") -> Variable:
    variable = Variable(np.array(value, dtype), name)
    variable.trainable = False
    return variable


def _finite(slopes: Sequence[Tensor]) -> Tensor:
    """Whether all elements of the gradients are finite."""
    finite = [ew.less(ew.abs(t), like(np.inf, t)) for t in slopes]
    each = [all(t, axes=tuple(range(t.ndim)), keepdims=False) if t.ndim else t for t in finite]
    return reduce(ew.logical_and, each)


def _adapted(scale: Variable, finite: Tensor, steps: int) -> Updates:
    """The next scale of the loss, and the number of finite steps since it changed."""
    count = _variable(0, "loss_scale_steps", "int32")
    following = ew.add(count, scalar(1, "int32"))
    full = ew.less_equal(scalar(steps, "int32"), following)
    doubled = ew.mul(scale, scalar(2.0, "float32"))
    halved = ew.maximum(ew.mul(scale, scalar(0.5, "float32")), scalar(1.0, "float32"))
    return {
        scale: ew.where(finite, ew.where(full, doubled, scale), halved),
        count: ew.where(
            ew.logical_and(finite, ew.logical_not(full)), following, scalar(0, "int32")
        ),
    }
