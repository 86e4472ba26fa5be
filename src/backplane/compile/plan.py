"""The plan of a function: the computation, as it is fixed when the function is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np

from backplane.compile.aliases import alias_root
from backplane.compile.diagnosis import conflict
from backplane.compile.feeds import Feed, feed_for
from backplane.compile.policy import PLAIN, Planned, Policy, planned
from backplane.compile.program import Compiled
from backplane.compile.source_map import explain, in_users_words, place_of, tell
from backplane.core.context import warn
from backplane.core.graph import (
    KeySource,
    Placeholder,
    Tensor,
    constant,
    sorted_once,
    substitute,
    toposort,
)
from backplane.core.mesh import Mesh, check_layout, whole
from backplane.core.spec import Spec
from backplane.core.variable import Variable
from backplane.engines.base import Engine
from backplane.engines.table import NOTHING
from backplane.ops import indexing
from backplane.ops.effects import Update, shard, updates_in
from backplane.ops.shaping import squeeze

Call = Callable[..., list[np.ndarray]]


class Plan:
    """The graph of a function, and what it takes and updates: the arguments are `K.function`'s."""

    @sorted_once()
    def __init__(
        self,
        inputs: Sequence[Any],
        outputs: Sequence[Tensor],
        updates: Sequence[tuple[Variable, Tensor]] = (),
        *,
        engine: Engine,
        name: str | None = None,
        options: tuple[tuple[str, Any], ...] = (),
        policy: Policy = PLAIN,
    ) -> None:
        self.name = name or "function"
        self.engine = engine
        self.options = options
        self.policy = policy
        self.loss_scale: Variable | None = None
        """The variable by which a program with float16 multiplies its loss."""
        results, pairs = self._graph(inputs, outputs, self._all_updates(outputs, updates))
        self.outputs = results[: len(outputs)]
        self._collect_leaves(results)
        self._settle([*self.variables, *pairs])
        self._check_layouts()
        # In the order of the variables, because engines that reuse their memory pair them in order.
        rank = {v: i for i, v in enumerate(self.variables)}
        news = [*zip(pairs, results[len(outputs) :], strict=True)]
        news.sort(key=lambda pair: rank.get(pair[0], len(rank)))
        self.updated = [v for v, _ in news]
        self.news = [new for _, new in news]
        self.feeds: list[Feed] = [
            feed_for(p, i, self.name, policy.parts) for i, p in enumerate(self.inputs)
        ]
        kept = {alias_root(t) for t in self.news}
        self.kept = [p in kept for p in self.inputs]
        self.switches = [i for i, p in enumerate(self.inputs) if p.is_phase()]
        self.batches = [
            i for i, p in enumerate(self.inputs)
            if p.ndim and p.spec.shape[0] is None and not p.spec.sparse
        ]  # fmt: skip
        """The inputs that have a batch axis of unknown size."""
        self.thin: Set[Tensor] = frozenset()
        """The sparse matrices that programs take in compressed rows, since the first call."""
        self.alike: list[Placeholder] = []
        """The placeholders that had one size when the function was first called. Its program
        expects that."""
        # What `compile.function` has made of it.
        self._calls: dict[tuple[Any, ...], Call] = {}
        self._apart: dict[tuple[Any, ...], Call] = {}
        """The calls for batches of other sizes than those that `_calls` expect."""
        self.call: Call | None = None
        """The straight-line call, once there is one that serves whatever is fed."""

    def _all_updates(
        self, outputs: Sequence[Tensor], updates: Sequence[tuple[Variable, Tensor]]
    ) -> dict[Variable, Tensor]:
        """Explicit updates, and those on the way to outputs; the last ones win."""
        passed = updates_in([*outputs, *(value for _, value in updates)])
        every = [*[(u.variable, u) for u in passed], *updates]
        pairs: dict[Variable, Tensor] = dict(every)
        if len(pairs) < len(every):
            lost = {v: t for v, t in every if _value(t) is not _value(pairs[v])}
            for variable, other in lost.items():
                if other not in toposort([pairs[variable]]):
                    warn(
                        f"K.function {self.name!r}: there are two updates of the variable "
                        f"{variable.name!r}, and only the last one counts. Both are computed from "
                        "the old value. To compute the second from the first, build it inside "
                        "`with K.control_dependencies([first]):`"
                    )
        return pairs

    @staticmethod
    def _cut(inputs: Sequence[Any]) -> tuple[list[Placeholder], dict[Tensor, Tensor]]:
        """Placeholders for all inputs, because any tensor may be fed, and what they replace."""
        cuts: dict[Tensor, Tensor] = {}
        placeholders = []
        for t in inputs:
            p = t if isinstance(t, Placeholder) else Placeholder(t.spec, t.name)
            placeholders.append(p)
            if p is not t:
                cuts[t] = p
        return placeholders, cuts

    def _graph(
        self, inputs: Sequence[Any], outputs: Sequence[Tensor], pairs: dict[Variable, Tensor]
    ) -> tuple[list[Tensor], dict[Variable, Tensor]]:
        """The graph that is computed: the outputs and new values, and the latter by variable."""
        self.inputs, cuts = self._cut(inputs)
        if self.policy is not PLAIN:
            outputs, pairs, self.loss_scale = self._planned(outputs, pairs, cuts)
            cuts = {}
        mesh = self.engine.mesh
        if mesh is not None:
            pairs = {v: _laid_out(new, v, mesh) for v, new in pairs.items()}
        results = [*outputs, *pairs.values()]
        return substitute(results, cuts) if cuts else results, pairs

    def _planned(
        self, outputs: Sequence[Tensor], pairs: dict[Variable, Tensor], cuts: dict[Tensor, Tensor]
    ) -> Planned:
        """The graph as the policy changes it."""
        dtype = self.policy.precision
        if dtype in self.engine.missing_dtypes:
            raise NotImplementedError(
                f"K.function {self.name!r}: the engine {self.engine.name!r} has no {dtype}, which "
                "is asked for as the precision"
            )
        try:
            return planned(self.policy, self.inputs, outputs, pairs, cuts)
        except ValueError as error:
            raise ValueError(f"K.function {self.name!r}: {error}") from None

    def _collect_leaves(self, results: Sequence[Tensor]) -> None:
        """Sort the leaves; refuse placeholders that are not fed."""
        fed = set(self.inputs)
        self.variables: list[Variable] = []
        self.keys: list[KeySource] = []
        self.defaults: dict[Tensor, Tensor] = {}
        for node in toposort(results, stop=self.inputs):
            if isinstance(node, Variable):
                self.variables.append(node)
            elif isinstance(node, KeySource):
                self.keys.append(node)
            elif isinstance(node, Placeholder) and node not in fed:
                if node.default is None:
                    raise ValueError(
                        f"K.function {self.name!r}: the result depends on the placeholder "
                        f"{node.name!r} (built at {node.where}), which has no value; make it one "
                        "of the inputs of K.function"
                    )
                self.defaults[node] = constant(node.default, node.spec.dtype)

    def _settle(self, variables: Sequence[Variable]) -> None:
        """Run on the device where the variables are, and bring others there. ValueError if they are
        on several.
        """
        own, places = self.engine, dict[Engine, str]()
        if own.device is not None or own.mesh is not None:
            places[own] = f"the function on {own.device or own.mesh}"
        for v in variables:
            if isinstance(v.home, Engine) and v.home.name == own.name:
                places.setdefault(v.home, f"the variable {v.name!r} on {v.home.device}")
        if len(places) > 1:
            raise ValueError(
                f"K.function {self.name!r}: everything must be on one device, but there are "
                f"{', '.join(places.values())}"
            )
        if places and own.mesh is None:
            (self.engine,) = places
            for v in variables:
                v.home = v.home or self.engine

    def _check_layouts(self) -> None:
        """ValueError if a variable cannot lie on the mesh in its layout."""
        if self.engine.mesh is not None:
            for v in self.variables:
                if v.layout is not None:
                    what = f"K.function {self.name!r}: the variable {v.name!r}"
                    check_layout(v.layout, v.spec.shape, self.engine.mesh, what)

    def fixed(self, switches: tuple[Any, ...]) -> tuple[list[Placeholder], dict[Tensor, Tensor]]:
        """The inputs that are left, and replaced leaves, for values of the learning phase."""
        replace = dict(self.defaults)
        for i, value in zip(self.switches, switches, strict=True):
            replace[self.inputs[i]] = constant(value, self.inputs[i].spec.dtype)
        return [p for i, p in enumerate(self.inputs) if i not in self.switches], replace


def _value(new: Tensor) -> Tensor:
    """The tensor that an update writes."""
    return new.inputs[0] if isinstance(new, Update) else new


def _laid_out(new: Tensor, variable: Variable, mesh: Mesh) -> Tensor:
    """The new value of a variable in the layout of the old one."""
    layout = variable.layout or whole(variable.ndim)
    check_layout(layout, variable.spec.shape, mesh, f"the variable {variable.name!r}")
    return shard(new, layout=layout)


class Variant(NamedTuple):
    """One compiled program of a function. It does not refer to the function, which holds it."""

    program: Compiled
    copied: list[bool]
    """The outputs that share memory with something else, so that users get copies."""
    lent: list[bool]
    """The new values that share memory with something else."""
    engine: Engine
    inputs: Sequence[Tensor]
    graph: Sequence[Tensor]
    """New values and outputs, to explain errors: nothing for a function without inputs, all of
    whose sizes were known when the graph was built."""
    thin: Mapping[Tensor, Callable[[Any], Any]] = NOTHING
    """By placeholder and variable in compressed rows: what makes their parts (`compile.sparse`)."""

    def failed(self, error: Exception, values: Sequence[Any]) -> None:
        """Add to an error which primitive failed and where it was built. If the shapes of the
        values do not fit together, raise a ValueError in its place, the same on every engine; if an
        index is out of range, an IndexError.
        """
        shapes = map(self._shape, values)
        given = {p: p.spec._replace(shape=s) for p, s in zip(self.inputs, shapes, strict=True)}
        fault = conflict(self.graph, given)
        if fault is None or not fault.certain:
            place = explain(error, self.engine, self.program.run)
            if fault is None or not fault.explains(place.where if place else None):
                return
        place = place_of(fault.node)
        better = in_users_words(fault.error, place)
        tell(better, self.engine, place)
        raise better from error

    def _shape(self, value: Any) -> tuple[int | None, ...]:
        known = self.engine.spec_of(value) if self.engine.owns(value) else value
        return tuple(known.shape)


def signature(
    function: Plan, inputs: Sequence[Tensor], replace: dict[Tensor, Tensor]
) -> tuple[list[Tensor], dict[int, int], dict[Tensor, Tensor]]:
    """The inputs of a function's program, its outputs that replace inputs, and replaced leaves."""
    # Keys travel as one array, so a call converts once, however many random ops there are.
    packed = Placeholder(Spec((len(function.keys), 4), "uint32"))
    replace = {**replace, **{k: _row(packed, i) for i, k in enumerate(function.keys)}}
    fed = [*inputs, *([packed] if function.keys else []), *function.variables]
    first = len(fed) - len(function.variables)
    position = {v: first + i for i, v in enumerate(function.variables)}
    state = {position[v]: i for i, v in enumerate(function.updated) if v in position}
    return fed, state, replace


def _row(packed: Tensor, index: int) -> Tensor:
    part = indexing.slice(packed, slices=((index, index + 1, 1), (None, None, 1)))
    return squeeze(part, axes=(0,))
