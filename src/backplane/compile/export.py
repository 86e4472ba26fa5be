"""Compiled functions as ONNX models: their inputs, their outputs, and the state between calls."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from backplane.compile import passes
from backplane.compile.codegen.programs import emit
from backplane.compile.plan import Plan
from backplane.core.graph import GIVEN_NAME, Constant, Placeholder, Tensor, constant, toposort
from backplane.core.spec import Spec
from backplane.engines import engine_of, get
from backplane.engines.base import Engine
from backplane.ops.elementwise import add

ENGINE = "cntk"
NEW = ".new"
"""The end of the name of a state's next value."""


class Wishes(NamedTuple):
    """The arguments of `KFunction.to_onnx`, but for the path."""

    outputs: Sequence[str] | None = None
    phase: int = 0
    inputs: Sequence[str] | None = None
    freeze: bool = False
    opset: int | None = None


def export(plan: Plan, path: str | PathLike[str], wishes: Wishes) -> None:
    """Write a function as an ONNX model; see `KFunction.to_onnx` for the arguments."""
    names = _Names()
    inputs = plan.fed
    keys: dict[Tensor, Tensor] = {k: Placeholder(k.spec) for k in plan.keys}
    writer: Any = get(ENGINE)
    engine = writer.for_opset(wishes.opset)
    results, nexts = _lowered(plan, keys, wishes.phase, engine)
    read = set(toposort(results))
    keys = {k: p for k, p in keys.items() if p in read}
    variables = [v for v in plan.variables if v in read]
    arguments = [*inputs, *variables, *keys.values()]
    input_names = _chosen(
        plan, "inputs", wishes.inputs, [_given(p) or p.name for p in inputs], names
    )
    input_names += [names.unique(_given(v) or v.name) for v in variables]
    input_names += [names.unique("random_key") for _ in keys]
    name_of = dict(zip(arguments, input_names, strict=True))

    count = len(plan.outputs)
    defaults = [(t.op and _given(t)) or f"output_{i}" for i, t in enumerate(plan.outputs)]
    output_names = _chosen(plan, "outputs", wishes.outputs, defaults, names)
    states = [*plan.updated, *keys.values()]
    # A variable that is written and never read is not an input, but its new value is a result.
    output_names += [names.unique(name_of.get(t, _given(t) or t.name) + NEW) for t in states]

    position = {t: i for i, t in enumerate(arguments)}
    state = {position[old]: count + i for i, old in enumerate(states) if old in position}
    initial = {name_of[v]: v.numpy() for v in variables}
    initial |= {name_of[p]: np.array(k.words(), np.uint32) for k, p in keys.items()}  # type: ignore[attr-defined]
    constant_ones = set(variables) - set(plan.updated) if wishes.freeze else set()
    program = emit(arguments, [*results, *[nexts[p] for p in keys.values()]], engine)
    specs = [Spec(t.spec.shape, t.spec.dtype) for t in arguments]
    engine.export(
        program._replace(inputs=specs, state=state), input_names, output_names, initial,
        {name_of[v] for v in constant_ones}, Path(path), plan.name, wishes.opset,
    )  # fmt: skip


def _given(t: Tensor) -> str | None:
    """The name that the user gave to a tensor."""
    return t.__dict__.get(GIVEN_NAME)


def _next(key: Tensor) -> Tensor:
    """The key of the next call, whose counter is one larger."""
    return add(key, constant(np.array([0, 0, 1, 0]), "uint32"))


def _lowered(
    plan: Plan, keys: dict[Tensor, Tensor], phase: int, engine: Engine
) -> tuple[list[Tensor], dict[Tensor, Tensor]]:
    """The outputs and new values of variables in primitives of the engine, and the next keys."""
    results = [*plan.outputs, *plan.news, *map(_next, keys.values())]
    replace = {**plan.replaced([phase] * len(plan.switches)), **keys}
    for t in toposort(results):
        if isinstance(t, Constant) and (owner := engine_of(t.value)) is not None:
            replace[t] = constant(owner.to_numpy(t.value))
    lowered = passes.optimized(results, passes.Job(engine, replace)).outputs
    count = len(lowered) - len(keys)
    return lowered[:count], dict(zip(keys.values(), lowered[count:], strict=True))


def _chosen(
    plan: Plan,
    what: str,
    given: Sequence[str] | None,
    default: Sequence[str],
    names: _Names,
) -> list[str]:
    """The names of inputs or outputs, given or by default. ValueError if there are not as many as
    tensors, or one is taken.
    """
    if given is None:
        return [names.unique(name) for name in default]
    count = len(default)
    if (
        isinstance(given, str)
        or len(given) != count
        or len({*given, *names.taken}) != (count + len(names.taken))
    ):
        taken = f" and from {', '.join(sorted(names.taken))}" if names.taken else ""
        raise ValueError(
            f"to_onnx of {plan.name!r}: {what} must be a list of {count} "
            f"name{'s' * (count != 1)}, different from each other{taken}, got {given!r}"
        )
    return [names.unique(name) for name in given]


class _Names:
    """The names that have been given out."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def unique(self, wanted: str) -> str:
        """`wanted`, followed by a number if that name is taken."""
        name, count = wanted, 0
        while name in self.taken:
            count += 1
            name = f"{wanted}_{count}"
        self.taken.add(name)
        return name
