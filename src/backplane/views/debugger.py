"""`K.debug`: runs functions op by op, and tells where the first NaN or Inf comes from."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from backplane.compile.plan import Plan
from backplane.compile.source_map import calls_of
from backplane.compile.stepwise import Step, Stepper, as_built, call_stepwise
from backplane.core.graph import Tensor
from backplane.core.numbers import Numbers, numbers
from backplane.engines.base import Engine
from backplane.engines.table import Value
from backplane.views.words import described


class Finding(NamedTuple):
    """A tensor with NaN or Inf whose operands have none: there the trouble begins."""

    tensor: Tensor
    result: Numbers
    operands: Sequence[tuple[Tensor, Numbers]]
    run: str
    """The function that ran, and the number of its calls so far."""
    loops: Sequence[tuple[Tensor, int]]
    """The loops around it, outermost first, and their steps, counted from 0."""

    def __str__(self) -> str:
        node, count = self.tensor, math.prod(self.result.shape)
        what = f"{node.op.name} gives" if node.op is not None else f"{described(node)} holds"
        lines = [f"K.debug: {what} {self.result.trouble} among {count} numbers, in {self.run}"]
        if node.where is not None:
            lines.append(("in the gradient of " * node.where.gradient) + calls_of(node.where))
        for loop, step in self.loops:
            assert loop.op is not None
            lines.append(f"in step {step} of the {loop.op.name} built at {loop.where}")
        lines.append(f"result: {self.result}")
        lines += [
            f"operand {i}: {facts} ({described(t)})" for i, (t, facts) in enumerate(self.operands)
        ]
        return "\n  ".join(lines)


class Debugger:
    """The object that `K.debug` gives, which runs the functions inside of its block.

    Attributes:
        findings: What was found, once for each line of the user's code and primitive. `str` of a
            finding tells all about it.
    """

    def __init__(self, stop: bool = True, inf: bool = True) -> None:
        self.stop = stop
        self.inf = inf
        self.findings: list[Finding] = []
        self._seen: set[Any] = set()
        self._runs: Counter[str] = Counter()
        self._run = ""

    def __repr__(self) -> str:
        nothing = f"K.debug: no NaN{' or Inf' if self.inf else ''} so far"
        return "\n".join(map(str, self.findings)) or nothing

    # --- running ----------------------------------------------------------------------------------

    def call(self, plan: Plan, values: Sequence[Any]) -> list[np.ndarray]:
        """Call a function op by op."""
        return call_stepwise(plan, values, self._stepper(plan.engine, plan.name))

    def program(
        self,
        engine: Engine,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        replace: Mapping[Tensor, Tensor],
    ) -> Callable[..., tuple[Value, ...]]:
        """A function that runs the graph of an eager call op by op."""
        graph = as_built(outputs, replace)

        def run(*values: Value) -> tuple[Value, ...]:
            stepper = self._stepper(engine, "eager calls")
            return tuple(stepper.run(graph, dict(zip(inputs, values, strict=True))))

        return run

    def _stepper(self, engine: Engine, name: str) -> Stepper:
        self._runs[name] += 1
        self._run = f"call {self._runs[name]} of {name!r} on {engine.name}"
        return Stepper(engine, lambda step: self._look(step, engine))

    # --- looking ----------------------------------------------------------------------------------

    def _is_bad(self, facts: Numbers) -> bool:
        return bool(facts.nans or (self.inf and facts.infs))

    def _look(self, step: Step, engine: Engine) -> None:
        """Report a step whose result has bad numbers, unless an operand has some too."""
        facts = [numbers(engine.to_numpy(y)) for y in step.results]
        bad = next(filter(self._is_bad, facts), None)
        if bad is None:
            return
        pairs = zip(step.node.inputs, step.operands, strict=True)
        operands = [(t, numbers(np.asarray(engine.to_numpy(value)))) for t, value in pairs]
        if not any(self._is_bad(facts) for _, facts in operands):
            self._report(Finding(step.node, bad, operands, self._run, step.loops))

    def _report(self, finding: Finding) -> None:
        node = finding.tensor
        key = node if node.op is None else (node.op, node.where)
        if self.stop or key not in self._seen:
            self._seen.add(key)
            self.findings.append(finding)
            if self.stop:
                raise FloatingPointError(str(finding))
            print(finding, file=sys.stderr)
