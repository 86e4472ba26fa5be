"""PyTensor's `Scan` as a Python loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Variable
from pytensor.tensor.basic import AllocEmpty
from pytensor.tensor.subtensor import IncSubtensor

from backplane.core.spec import Spec
from backplane.engines.arrays.buffers import LOOPS
from backplane.engines.arrays.linear import for_steps
from backplane.engines.base import Value
from backplane.engines.pytensor.calls import Call
from backplane.engines.pytensor.library import spec_of

Step = Callable[..., Sequence[Value]]


def scan_call(
    node: Apply, function_of: Callable[[Any], Step], only_last: Sequence[bool]
) -> Call | None:
    """The call of a loop over single steps; None for those that look further back.

    `only_last` says of which results nothing but the last row is read.
    """
    op, info, inputs = node.op, node.op.info, node.inputs
    if info.n_mit_mot or info.n_mit_sot:
        return None
    loop = _Loop(info, function_of(op.fgraph), [spec_of(x) for x in op.fgraph.outputs], only_last)
    operands = [
        inputs[0],
        *op.outer_seqs(inputs),
        *map(_first_row, op.outer_sitsot(inputs)),
        *op.outer_untraced_sit_sot(inputs),
        *op.outer_non_seqs(inputs),
    ]
    return Call(loop if len(node.outputs) > 1 else loop.single, operands, view=True)


def _first_row(room: Variable) -> Variable:
    """What a state starts with, as a row: found without making the room that it is put into."""
    node = room.owner
    if node is not None and isinstance(node.op, IncSubtensor) and node.op.set_instead_of_inc:
        made = node.inputs[0].owner
        if made is not None and isinstance(made.op, AllocEmpty):
            return node.inputs[1]
    return room


class _Loop:
    """Runs the steps of one scan: (count, sequences, first rows, untraced states, constants)."""

    def __init__(
        self, info: Any, step: Step, outputs: Sequence[Spec], only_last: Sequence[bool]
    ) -> None:
        self.step = step
        self.seqs = info.n_seqs
        self.traced, self.ys, self.free = info.n_sit_sot, info.n_nit_sot, info.n_untraced_sit_sot
        self.places = [*[0] * self.traced, *[-1] * self.ys]
        self.until = info.as_while
        self.only_last = only_last
        self.stacked = outputs[self.traced : self.traced + self.ys]

    def single(self, *operands: Value) -> Value:
        """The only result."""
        return self(*operands)[0]

    def __call__(self, count: Value, *operands: Value) -> list[Value]:
        """The traces of the states, the stacks, the final untraced states."""
        seqs, traced, ys = self.seqs, self.traced, self.ys
        first = operands[seqs : seqs + traced]
        state = [*[x[0] for x in first], *operands[seqs + traced : seqs + traced + self.free]]
        consts = for_steps(operands[seqs + traced + self.free :])
        steps, done = int(count), 0
        rows = self._rows(operands[:seqs], steps)
        stacks: list[Value] | None = None
        for done, row in enumerate(rows, 1):
            results = self.step(*row, *state, *consts)
            made = results[: traced + ys]
            state = [*results[:traced], *results[traced + ys : traced + ys + self.free]]
            if stacks is None:
                stacks = self._stacks(steps, first, made)
            for stack, y, place in zip(stacks, made, self.places, strict=True):
                if stack is not None:
                    stack[done + place] = y
            if self.until and results[-1]:
                break
        if stacks is None:
            stacks = self._empty(operands[:seqs], first, state, consts)
        elif done < steps:
            stacks = [x if x is None else x[: len(x) - steps + done] for x in stacks]
        return [*self._traces(stacks, state), *stacks[traced:], *state[traced:]]

    @staticmethod
    def _rows(sequences: Sequence[Value], steps: int) -> Any:
        if not sequences:
            return repeat((), steps)
        return zip(*[x[:steps] for x in sequences], strict=True)

    def _stacks(self, steps: int, first: Sequence[Value], made: Sequence[Value]) -> list[Value]:
        """Room for what each step makes; the states' begins with their first rows."""
        stacks: list[Value] = []
        for i, y in enumerate(made):
            if i >= self.traced:
                stacks.append(LOOPS.empty((steps, *y.shape), y.dtype))
            elif self.only_last[i]:
                stacks.append(None)
            else:
                stacks.append(LOOPS.empty((steps + 1, *y.shape), y.dtype))
                stacks[i][0] = first[i][0]
        return stacks

    def _traces(self, stacks: Sequence[Value], state: Sequence[Value]) -> list[Value]:
        pairs = zip(stacks[: self.traced], state, strict=False)
        return [(x,) if stack is None else stack for stack, x in pairs]

    def _empty(self, sequences: Any, first: Any, state: Any, consts: Any) -> list[Value]:
        """The results of no steps; a step on zeros tells sizes that the types do not."""
        shapes: Any = [spec.shape for spec in self.stacked]
        if not all(spec.is_static for spec in self.stacked):
            row = [np.zeros(x.shape[1:], x.dtype) for x in sequences]
            ys = self.step(*row, *state, *consts)[self.traced : self.traced + self.ys]
            shapes = [y.shape for y in ys]
        pairs = zip(shapes, self.stacked, strict=True)
        return [*[x[:1] for x in first], *[np.empty((0, *s), spec.dtype) for s, spec in pairs]]
