"""Branches and loops: `ifelse` and `Scan` over closed graphs, and `Scan` as a loop in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.ifelse import IfElse
from pytensor.scan.op import Scan, ScanInfo
from pytensor.tensor.basic import AllocEmpty
from pytensor.tensor.subtensor import IncSubtensor

from backplane.core.graph import Graph
from backplane.core.spec import Spec
from backplane.engines.arrays.buffers import LOOPS
from backplane.engines.arrays.linear import for_steps
from backplane.engines.base import Engine, Table, Value
from backplane.engines.pytensor.calls import Call
from backplane.engines.pytensor.library import number, size, spec_of, type_of, with_shape

Step = Callable[..., Sequence[Value]]

FOREVER = int(np.iinfo(np.int64).max)
"""The number of steps of a loop that ends by its condition."""


def loops(engine: Engine) -> Table:
    """The lowerings of `cond`, `scan` and `while_loop`; `engine` makes graphs callable."""
    table = Table()

    @table.add("cond")
    def cond(predicate: Value, *operands: Value, then: Graph, orelse: Graph) -> list[Value]:
        branches = [*engine.callable(then)(*operands), *engine.callable(orelse)(*operands)]
        results: list[Value] = IfElse(len(then.outputs))(predicate, *branches, return_list=True)
        return results

    @table.add("while_loop")
    def while_loop(*operands: Value, test: Graph, body: Graph, carry: int) -> list[Value]:
        goes_on, step = engine.callable(test), engine.callable(body)
        state, consts = _typed(operands[:carry], body.inputs), operands[carry:]
        inner = [x.type() for x in (*state, *consts)]
        following = _typed(step(*inner), body.inputs[:carry])
        ends = pt.invert(goes_on(*following, *inner[carry:])[0])
        info = _info(untraced=carry, consts=len(consts), until=True)
        loop = Scan(inner, [*following, ends], info, mode=_flagged())
        count = pt.switch(goes_on(*state, *consts)[0], number(FOREVER, "int64"), number(0, "int64"))
        results: list[Value] = loop(count, *state, *consts, return_list=True)
        return results

    @table.add("scan")
    def scan(
        *operands: Value, body: Graph, carry: int, xs: int, reverse: bool, length: int | None
    ) -> list[Value]:
        state = _typed(operands[:carry], body.inputs)
        rows, consts = operands[carry : carry + xs], operands[carry + xs :]
        count = size(rows[0], 0) if xs else number(length or 0, "int64")
        back = slice(None, None, -1 if reverse else None)
        results = _scan_of(engine.callable(body), body, state, rows, consts)(
            count,
            *[x[back] for x in rows],
            *[_trace(x, count) for x in state],
            *[count] * (len(body.outputs) - carry),
            *consts,
            return_list=True,
        )
        known = int(count.data) if isinstance(count, pt.TensorConstant) else None
        stacks = [with_shape(y, (known, *y.type.shape[1:]))[back] for y in results[carry:]]
        return [*[trace[-1] for trace in results[:carry]], *stacks]

    return table


def _info(
    *, xs: int = 0, carry: int = 0, ys: int = 0, untraced: int = 0, consts: int, until: bool = False
) -> Any:
    return ScanInfo(
        n_seqs=xs,
        mit_mot_in_slices=(),
        mit_mot_out_slices=(),
        mit_sot_in_slices=(),
        sit_sot_in_slices=((-1,),) * carry,
        n_nit_sot=ys,
        n_untraced_sit_sot=untraced,
        n_non_seqs=consts,
        as_while=until,
    )


def _flagged() -> str | None:
    """The mode for steps that PyTensor compiles itself: the one that its flags name, if any."""
    mode: str = pytensor.config.mode
    return None if mode == "Mode" else mode


def _typed(values: Sequence[Value], like: Sequence[Any]) -> list[Value]:
    """`values` in exactly the types of the graph: a state keeps its type from step to step."""
    return [
        type_of(t.spec).filter_variable(with_shape(x, t.spec.shape))
        for x, t in zip(values, like, strict=False)
    ]


def _scan_of(
    step: Step, body: Graph, state: Sequence[Value], rows: Sequence[Value], consts: Sequence[Value]
) -> Value:
    """The operation, from its step on new variables."""
    inner_state = [x.type() for x in state]
    inner_rows = [x.type.clone(shape=x.type.shape[1:])() for x in rows]
    inner_consts = [x.type() for x in consts]
    results = step(*inner_state, *inner_rows, *inner_consts)
    following = _typed(results[: len(state)], body.inputs)
    ys = results[len(state) :]
    info = _info(xs=len(rows), carry=len(state), ys=len(ys), consts=len(consts))
    inputs = [*inner_rows, *inner_state, *inner_consts]
    return Scan(inputs, [*following, *ys], info, mode=_flagged())


def _trace(x: Value, count: Value) -> Value:
    """Room for a state and what each of `count` steps makes of it."""
    room = pt.empty((count + 1, *[size(x, i) for i in range(x.ndim)]), dtype=x.dtype)
    return pt.set_subtensor(room[:1], x[None])


# --- as a loop in Python --------------------------------------------------------------------------


def scan_call(
    node: Apply, function_of: Callable[[Any], Step], only_last: Sequence[bool]
) -> Call | None:
    """The call of a loop over single steps; None for those that look further back.

    `only_last` says of which results nothing but the last row is read.
    """
    op, info, inputs = node.op, node.op.info, node.inputs
    if info.n_mit_mot or info.n_mit_sot:
        return None
    loop = _Steps(info, function_of(op.fgraph), [spec_of(x) for x in op.fgraph.outputs], only_last)
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


class _Steps:
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
