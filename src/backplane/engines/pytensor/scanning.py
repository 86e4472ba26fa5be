"""PyTensor's `Scan` as a Python loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply

from backplane.core.spec import Spec
from backplane.engines.base import Value
from backplane.engines.pytensor.calls import Call
from backplane.engines.pytensor.library import spec_of

Step = Callable[..., Sequence[Value]]


def scan_call(node: Apply, function_of: Callable[[Any], Step]) -> Call | None:
    """The call of a loop over single steps; None for those that look further back."""
    info = node.op.info
    if info.n_mit_mot or info.n_mit_sot:
        return None
    graph = node.op.fgraph
    loop = _Loop(info, function_of(graph), [spec_of(x) for x in graph.outputs])
    # The room for the states is known by their first rows; lengths of ys are all the same.
    inputs = node.inputs
    skipped = set(node.op.outer_nitsot(inputs)) - set(inputs[:1])
    kept = [
        x for i, x in enumerate(inputs) if not (_is_length(i, info) or (x in skipped and False))
    ]
    return Call(loop if len(node.outputs) > 1 else loop.single, kept)


def _is_length(position: int, info: Any) -> bool:
    first = 1 + info.n_seqs + info.n_sit_sot + info.n_untraced_sit_sot
    return first <= position < first + info.n_nit_sot


class _Loop:
    """Runs the steps of one scan: (count, sequences, rooms, untraced states, constants)."""

    def __init__(self, info: Any, step: Step, outputs: Sequence[Spec]) -> None:
        self.step = step
        self.seqs = info.n_seqs
        self.traced, self.untraced, self.ys = (
            info.n_sit_sot,
            info.n_untraced_sit_sot,
            info.n_nit_sot,
        )
        self.until = info.as_while
        self.stacked = outputs[self.traced : self.traced + self.ys]

    def single(self, *operands: Value) -> Value:
        """The only result."""
        return self(*operands)[0]

    def __call__(self, count: Value, *operands: Value) -> list[Value]:
        """The traces of the states, the stacks, the final untraced states."""
        seqs, traced, ys = self.seqs, self.traced, self.ys
        rooms = operands[seqs : seqs + traced]
        start = seqs + traced
        state = [room[0] for room in rooms]
        free = operands[start : start + self.untraced]
        consts = operands[start + self.untraced :]
        steps = int(count)
        rows = (
            zip(*[x[:steps] for x in operands[:seqs]], strict=True) if seqs else repeat((), steps)
        )
        stacks: list[Value] | None = None
        done = 0
        for done, row in enumerate(rows, 1):
            results = self.step(*row, *state, *free, *consts)
            state, made = results[:traced], results[traced : traced + ys]
            free = results[traced + ys : traced + ys + self.untraced]
            for room, x in zip(rooms, state, strict=True):
                room[done] = x
            if stacks is None:
                stacks = [np.empty((steps, *y.shape), y.dtype) for y in made]
            for stack, y in zip(stacks, made, strict=True):
                stack[done - 1] = y
            if self.until and results[-1]:
                break
        if stacks is None:
            stacks = self._empty(operands[:seqs], state, free, consts)
        elif done < steps:
            stacks = [stack[:done] for stack in stacks]
            rooms = tuple([room[: done + 1] for room in rooms])
        return [*rooms, *stacks, *free]

    def _empty(self, seqs: Any, state: Any, free: Any, consts: Any) -> list[Value]:
        """The stacks of no steps; a step on zeros tells sizes that the types do not."""
        if all(spec.is_static for spec in self.stacked):
            return [np.empty((0, *spec.shape), spec.dtype) for spec in self.stacked]
        row = [np.zeros(x.shape[1:], x.dtype) for x in seqs]
        results = self.step(*row, *state, *free, *consts)[self.traced : self.traced + self.ys]
        return [np.empty((0, *y.shape), y.dtype) for y in results]
