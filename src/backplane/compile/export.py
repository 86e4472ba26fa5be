"""Compiled functions as ONNX models: their inputs, their outputs, and the state between calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from backplane.compile import passes
from backplane.compile.codegen.programs import emit
from backplane.compile.function import Function
from backplane.core.graph import Constant, Placeholder, Tensor, constant, toposort
from backplane.core.registry import engine_of
from backplane.core.spec import Spec
from backplane.engines import get
from backplane.engines.base import Program
from backplane.ops.elementwise import add

ENGINE = "cntk"
NEW = ".new"
"""What the name of a state's next value ends in."""


def export(function: Function, path: str | Path, outputs: Sequence[str] | None, phase: int) -> None:
    """Write `function` as an ONNX model; see `KFunction.to_onnx` for the arguments."""
    names = _Names()
    inputs = [p for i, p in enumerate(function.inputs) if i not in function.switches]
    keys: dict[Tensor, Tensor] = {k: Placeholder(k.spec) for k in function.keys}
    states = [*function.variables, *keys.values()]
    arguments = [*inputs, *states]
    input_names = [names.unique(p.name) for p in [*inputs, *function.variables]]
    input_names += [names.unique("random_key") for _ in keys]
    name_of = dict(zip(arguments, input_names, strict=True))

    news: list[tuple[Tensor, Tensor]] = [*zip(function.updated, function.news, strict=True)]
    news += [(p, _next(p)) for p in keys.values()]
    results = [*function.outputs, *[new for _, new in news]]
    output_names = _output_names(function, outputs, names)
    # A variable that is written and never read is not an input, but its new value is a result.
    output_names += [names.unique(name_of.get(old, old.name) + NEW) for old, _ in news]

    program = _program(function, arguments, results, keys, phase)
    position = {t: i for i, t in enumerate(arguments)}
    count = len(function.outputs)
    state = {position[old]: count + i for i, (old, _) in enumerate(news) if old in position}
    initial = {name_of[v]: v.numpy() for v in function.variables}
    for key, placeholder in zip(function.keys, keys.values(), strict=True):
        initial[name_of[placeholder]] = np.array(key.words(), np.uint32)
    engine: Any = get(ENGINE)
    engine.export(
        program._replace(state=state), input_names, output_names, initial, Path(path), function.name
    )


def _next(key: Tensor) -> Tensor:
    """The key of the next call, whose counter is one larger."""
    return add(key, constant(np.array([0, 0, 1, 0]), "uint32"))


def _program(
    function: Function,
    inputs: Sequence[Tensor],
    results: Sequence[Tensor],
    keys: dict[Tensor, Tensor],
    phase: int,
) -> Program:
    engine = get(ENGINE)
    replace: dict[Tensor, Tensor] = {**function.defaults, **keys}
    for i in function.switches:
        switch = function.inputs[i]
        replace[switch] = constant(phase, switch.spec.dtype)
    for t in toposort(results):
        if isinstance(t, Constant) and not isinstance(t.value, np.ndarray):
            owner = engine_of(t.value)
            assert owner is not None
            replace[t] = constant(owner.to_numpy(t.value))
    lowered = passes.optimized(results, passes.Job(engine, replace)).outputs
    emitted = emit(inputs, lowered, engine)
    specs = [Spec(t.spec.shape, t.spec.dtype) for t in inputs]
    return Program(emitted.function, specs, [t.spec for t in lowered], source=emitted.source)


def _output_names(function: Function, given: Sequence[str] | None, names: _Names) -> list[str]:
    count = len(function.outputs)
    if given is None:
        return [names.unique(f"output_{i}") for i in range(count)]
    if (
        isinstance(given, str)
        or len(given) != count
        or len({*given, *names.taken}) != (count + len(names.taken))
    ):
        raise ValueError(
            f"to_onnx of {function.name!r}: outputs must be {count} names, different from each "
            f"other and from the inputs' ({', '.join(sorted(names.taken))}), got {given!r}"
        )
    return [names.unique(name) for name in given]


class _Names:
    """The names that have been given out."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.taken = set(taken)

    def unique(self, wanted: str) -> str:
        """`wanted`, followed by a number if that name is taken."""
        name, count = wanted, 0
        while name in self.taken:
            count += 1
            name = f"{wanted}_{count}"
        self.taken.add(name)
        return name
