"""The plan of a function: the computation, as it is fixed when the function is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from backplane.compile.aliases import alias_roots
from backplane.compile.feeds import Feed, feed_for
from backplane.compile.policy import PLAIN, Policy, Updates, applied
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
from backplane.core.variable import Variable
from backplane.engines.base import Engine
from backplane.ops.effects import Update, shard


class Plan(NamedTuple):
    """The work of a function: its graph, its inputs, and the variables that it reads and updates.
    `plan_of` makes it. Nothing changes it afterwards.
    """

    name: str
    engine: Engine
    inputs: Sequence[Placeholder]
    outputs: Sequence[Tensor]
    updated: Sequence[Variable]
    """The variables that get new values: first those that are read, in the order of `variables`,
    because engines that reuse their memory pair them in order."""
    news: Sequence[Tensor]
    """Their new values."""
    variables: Sequence[Variable]
    """The variables that are read."""
    keys: Sequence[KeySource]
    defaults: Mapping[Tensor, Tensor]
    """The values of placeholders that are not fed."""
    feeds: Sequence[Feed]
    """For each input, what checks and converts its value."""
    options: tuple[tuple[str, Any], ...]
    """Wishes of the user that only some engines know."""
    parts: int
    """Into how many parts the batch is split."""
    loss_scale: Variable | None
    """The variable by which a program with float16 multiplies its loss."""

    @property
    def graph(self) -> list[Tensor]:
        """The results of programs: the new values of variables, then the outputs."""
        return [*self.news, *self.outputs]

    @property
    def switches(self) -> list[Placeholder]:
        """The inputs that are learning phases. Each of their values has a program of its own."""
        return [p for p in self.inputs if p.is_phase()]

    @property
    def batches(self) -> list[int]:
        """The inputs that have a batch axis of unknown size."""
        return [
            i for i, p in enumerate(self.inputs)
            if p.ndim and p.spec.shape[0] is None and not p.spec.sparse
        ]  # fmt: skip

    @property
    def retained(self) -> list[bool]:
        """For each input, whether a variable may keep its memory, so that what is fed is copied."""
        roots = alias_roots(self.news)
        return [p in roots for p in self.inputs]

    @property
    def fed(self) -> list[Placeholder]:
        """The inputs that programs take: all but the learning phases."""
        return [p for p in self.inputs if not p.is_phase()]

    def replaced(self, switches: Sequence[Any]) -> dict[Tensor, Tensor]:
        """The leaves that are constants for values of the learning phases."""
        fixed = zip(self.switches, switches, strict=True)
        return {**self.defaults, **{p: constant(x, p.spec.dtype) for p, x in fixed}}


@sorted_once()
def plan_of(
    inputs: Sequence[Any],
    outputs: Sequence[Tensor],
    updates: Sequence[tuple[Variable, Tensor]] = (),
    *,
    engine: Engine,
    name: str | None = None,
    options: tuple[tuple[str, Any], ...] = (),
    policy: Policy = PLAIN,
) -> Plan:
    """The plan of a function; see `K.function` for the arguments. ValueError if a placeholder is
    not fed, or variables cannot be where the function runs.
    """
    name = name or "function"
    what = f"K.function {name!r}"
    placeholders, cuts = _cut(inputs)
    pairs, scale = _all_updates(outputs, updates, what), None
    if policy is not PLAIN:
        graph = placeholders, outputs, pairs, cuts
        outputs, pairs, scale = _applied(policy, engine, what, *graph)
        cuts = {}
    if engine.mesh is not None:
        pairs = {v: _laid_out(new, v, engine.mesh) for v, new in pairs.items()}
    results = [*outputs, *pairs.values()]
    results = substitute(results, cuts) if cuts else results
    variables, keys, defaults = _leaves(results, placeholders, what)
    engine = _settled([*variables, *pairs], engine, what)
    for v in variables:
        if engine.mesh is not None and v.layout is not None:
            check_layout(v.layout, v.spec.shape, engine.mesh, f"{what}: the variable {v.name!r}")
    rank = {v: i for i, v in enumerate(variables)}
    news = [*zip(pairs, results[len(outputs) :], strict=True)]
    news.sort(key=lambda pair: rank.get(pair[0], len(rank)))
    return Plan(
        name,
        engine,
        tuple(placeholders),
        outputs=tuple(results[: len(outputs)]),
        updated=tuple([v for v, _ in news]),
        news=tuple([new for _, new in news]),
        variables=tuple(variables),
        keys=tuple(keys),
        defaults=defaults,
        feeds=tuple([feed_for(p, i, name, policy.parts) for i, p in enumerate(placeholders)]),
        options=options,
        parts=policy.parts,
        loss_scale=scale,
    )


def _all_updates(
    outputs: Sequence[Tensor], updates: Sequence[tuple[Variable, Tensor]], what: str
) -> Updates:
    """Explicit updates, and those on the way to outputs; the last ones win."""
    order = toposort([*outputs, *[value for _, value in updates]])
    every = [*[(u.variable, u) for u in order if isinstance(u, Update)], *updates]
    pairs: Updates = dict(every)
    if len(pairs) < len(every):
        lost = {v: t for v, t in every if _value(t) is not _value(pairs[v])}
        for variable, other in lost.items():
            if other not in toposort([pairs[variable]]):
                warn(
                    f"{what}: there are two updates of the variable {variable.name!r}, and only "
                    "the last one counts. Both are computed from the old value. To compute the "
                    "second from the first, build it inside "
                    "`with K.control_dependencies([first]):`"
                )
    return pairs


def _value(new: Tensor) -> Tensor:
    """The tensor that an update writes."""
    return new.inputs[0] if isinstance(new, Update) else new


def _cut(inputs: Sequence[Any]) -> tuple[list[Placeholder], dict[Tensor, Tensor]]:
    """Placeholders for all inputs, because any tensor may be fed, and what they replace."""
    made = [t if isinstance(t, Placeholder) else Placeholder(t.spec, t.name) for t in inputs]
    return made, {t: p for t, p in zip(inputs, made, strict=True) if p is not t}


def _applied(
    policy: Policy, engine: Engine, what: str, *graph: Any
) -> tuple[list[Tensor], Updates, Variable | None]:
    """`applied`, whose errors name the function."""
    if policy.precision in engine.missing_dtypes:
        raise NotImplementedError(
            f"{what}: the engine {engine.name!r} has no {policy.precision}, which is asked for as "
            "the precision"
        )
    try:
        return applied(policy, *graph)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None


def _laid_out(new: Tensor, variable: Variable, mesh: Mesh) -> Tensor:
    """The new value of a variable in the layout of the old one."""
    layout = variable.layout or whole(variable.ndim)
    check_layout(layout, variable.spec.shape, mesh, f"the variable {variable.name!r}")
    return shard(new, layout=layout)


def _leaves(
    results: Sequence[Tensor], inputs: Sequence[Placeholder], what: str
) -> tuple[list[Variable], list[KeySource], dict[Tensor, Tensor]]:
    """The variables, the keys, and the values of placeholders that are not fed."""
    fed = set(inputs)
    variables: list[Variable] = []
    keys: list[KeySource] = []
    defaults: dict[Tensor, Tensor] = {}
    for node in toposort(results, stop=inputs):
        if isinstance(node, Variable):
            variables.append(node)
        elif isinstance(node, KeySource):
            keys.append(node)
        elif isinstance(node, Placeholder) and node not in fed:
            if node.default is None:
                raise ValueError(
                    f"{what}: the result depends on the placeholder {node.name!r} (built at "
                    f"{node.where}), which has no value; make it one of the inputs of K.function"
                )
            defaults[node] = constant(node.default, node.spec.dtype)
    return variables, keys, defaults


def _settled(variables: Sequence[Variable], own: Engine, what: str) -> Engine:
    """The engine on the device where the variables are, to which others are brought. ValueError if
    they are on several.
    """
    places = dict[Engine, str]()
    if own.device is not None or own.mesh is not None:
        places[own] = f"the function on {own.device or own.mesh}"
    for v in variables:
        if isinstance(v.home, Engine) and v.home.name == own.name:
            places.setdefault(v.home, f"the variable {v.name!r} on {v.home.device}")
    if len(places) > 1:
        raise ValueError(
            f"{what}: everything must be on one device, but there are {', '.join(places.values())}"
        )
    if not places or own.mesh is not None:
        return own
    (engine,) = places
    for v in variables:
        v.home = v.home or engine
    return engine
