"""Branches and loops over closed graphs.

In our own mode each is one `ArrayOp`, and NumPy's loops run it. PyTensor's own modes, and users'
graphs, get PyTensor's operations `IfElse` and `Scan`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import partial
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.ifelse import IfElse
from pytensor.scan.op import Scan, ScanInfo

from backplane.core.context import assigned
from backplane.core.graph import Graph
from backplane.core.spec import Spec
from backplane.engines.base import Engine, calls_natives
from backplane.engines.programs import Scanning
from backplane.engines.pytensor.array_op import lowering
from backplane.engines.pytensor.library import number, size, type_of, with_shape
from backplane.engines.table import Lowering, Table, Value

Step = Callable[..., Sequence[Value]]

FOREVER = int(np.iinfo(np.int64).max)
"""The number of steps of a loop that ends by its condition."""

_OURS: ContextVar[bool] = ContextVar("backplane_pytensor_own_mode", default=False)


def in_mode(ours: bool) -> AbstractContextManager[None]:
    """Context manager: the graph that is built inside is for our own mode, or one of PyTensor's."""
    return assigned(_OURS, ours)


def lowerings(engine: Engine) -> Table:
    """The table of control flow; `engine` makes graphs callable."""
    theirs: dict[str, Lowering] = {"cond": _cond, "while_loop": _while_loop, "scan": _scan}
    return Table(
        {"builds": True}, **{name: partial(_built, engine, name, f) for name, f in theirs.items()}
    )


def _built(
    engine: Engine, name: str, theirs: Lowering, specs: Sequence[Spec], **params: Any
) -> Lowering:
    def lower(*operands: Value) -> list[Value]:
        # NumPy's loops cannot call functions of PyTensor.
        own = _OURS.get() and not any(map(calls_natives, params.values()))
        ours = lowering(engine, name, specs, **params) if own else None
        results = theirs(engine, *operands, **params) if ours is None else ours(*operands)
        return list(results)

    return lower


def _cond(
    engine: Engine, predicate: Value, *operands: Value, then: Graph, orelse: Graph
) -> list[Value]:
    branches = [*engine.callable(then)(*operands), *engine.callable(orelse)(*operands)]
    return IfElse(len(then.outputs))(predicate, *branches, return_list=True)


def _while_loop(
    engine: Engine, *operands: Value, test: Graph, body: Graph, carry: int
) -> list[Value]:
    goes_on, step = engine.callable(test), engine.callable(body)
    state, consts = _typed(operands[:carry], body.inputs), operands[carry:]
    inner = [x.type() for x in (*state, *consts)]
    following = _typed(step(*inner), body.inputs[:carry])
    ends = pt.invert(goes_on(*following, *inner[carry:])[0])
    info = _info(untraced=carry, consts=len(consts), until=True)
    loop = Scan(inner, [*following, ends], info, mode=_flagged())
    count = pt.switch(goes_on(*state, *consts)[0], number(FOREVER, "int64"), number(0, "int64"))
    return loop(count, *state, *consts, return_list=True)


def _scan(engine: Engine, *operands: Value, **given: Any) -> list[Value]:
    loop = Scanning(**given)
    body, carry = loop.body, loop.carry
    initial, rows, consts = loop.parts(operands)
    state = _typed(initial, body.inputs)
    count = size(rows[0], 0) if rows else number(loop.length or 0, "int64")
    back = slice(None, None, -1 if loop.reverse else None)
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
