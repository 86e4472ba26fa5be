"""Branches and loops: `ifelse` and `Scan`, over closed graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.ifelse import IfElse
from pytensor.scan.op import Scan, ScanInfo

from backplane.core.graph import Graph
from backplane.core.spec import Spec
from backplane.engines.base import Engine, Lowering, Table, Value
from backplane.engines.pytensor.library import number, size, type_of, with_shape

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

    @table.build("scan")
    def scan(
        specs: Sequence[Spec], *, body: Graph, carry: int, xs: int, reverse: bool, length: Any
    ) -> Lowering:
        return _Scanned(engine, body, carry, xs, reverse, length)

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


class _Scanned:
    """The lowering of one `scan`."""

    def __init__(
        self, engine: Engine, body: Graph, carry: int, xs: int, reverse: bool, length: int | None
    ) -> None:
        self.engine, self.body, self.carry, self.xs = engine, body, carry, xs
        self.back = slice(None, None, -1 if reverse else None)
        self.length = length

    def __call__(self, *operands: Value) -> list[Value]:
        """The final carry, then the stacked ys."""
        carry, xs = self.carry, self.xs
        state = _typed(operands[:carry], self.body.inputs)
        rows, consts = operands[carry : carry + xs], operands[carry + xs :]
        count = size(rows[0], 0) if xs else number(self.length or 0, "int64")
        loop = self._loop(state, rows, consts)
        traces = [_trace(x, count) for x in state]
        ys = len(self.body.outputs) - carry
        results = loop(
            count, *[x[self.back] for x in rows], *traces, *[count] * ys, *consts, return_list=True
        )
        finals = [trace[-1] for trace in results[:carry]]
        stacks = [with_shape(y, (_known(count), *y.type.shape[1:])) for y in results[carry:]]
        return [*finals, *[y[self.back] for y in stacks]]

    def _loop(
        self, state: Sequence[Value], rows: Sequence[Value], consts: Sequence[Value]
    ) -> Value:
        """The operation, from its step on fresh variables."""
        inner_state = [x.type() for x in state]
        inner_rows = [x.type.clone(shape=x.type.shape[1:])() for x in rows]
        inner_consts = [x.type() for x in consts]
        results = self.engine.callable(self.body)(*inner_state, *inner_rows, *inner_consts)
        following = _typed(results[: self.carry], self.body.inputs)
        info = _info(
            xs=len(rows), carry=len(state), ys=len(results) - self.carry, consts=len(consts)
        )
        inputs = [*inner_rows, *inner_state, *inner_consts]
        return Scan(inputs, [*following, *results[self.carry :]], info, mode=_flagged())


def _trace(x: Value, count: Value) -> Value:
    """Room for a state and what each of `count` steps makes of it."""
    room = pt.empty((count + 1, *[size(x, i) for i in range(x.ndim)]), dtype=x.dtype)
    return pt.set_subtensor(room[:1], x[None])


def _known(count: Value) -> int | None:
    return int(count.data) if isinstance(count, pt.TensorConstant) else None
