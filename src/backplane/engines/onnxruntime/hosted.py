"""The parts of a program that Python runs between sessions: primitives that ONNX has no operation
for, and loops and branches whose bodies contain such primitives or call users' functions. Each of
their bodies is a program of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from backplane.core.graph import Graph, toposort
from backplane.core.registry import primitive
from backplane.core.spec import Spec
from backplane.engines import get
from backplane.engines.arrays.control import Rows, loops
from backplane.engines.base import Engine, calls_natives
from backplane.engines.factorizations import is_half
from backplane.engines.onnxruntime import native
from backplane.engines.programs import Program
from backplane.engines.table import Lowering, Table

Build = Callable[..., Lowering]

ROWS = Rows(lambda x: [x[i, ...] for i in range(len(x))], np.stack, np.zeros)


FACTORIZATIONS = ("cholesky", "triangular_solve", "lu", "qr", "svd", "eigh", "eig")
ON_HOST: dict[str, Callable[..., bool] | None] = {
    "bitcast": None,
    "rows_matmul": lambda specs: specs[0].dtype not in ("float32", "float64"),
    **dict.fromkeys(FACTORIZATIONS, is_half),
}
"""The primitives that the kernels of the engine `numpy` compute, with what is left to
decompositions. ONNX has no operation for them. Products of sparse matrices are sums of rows by
index otherwise, which take 5 times as long in ONNX Runtime."""


def host_kernels() -> Table:
    """Lowerings that leave these primitives to the host."""
    table = Table()
    for name, unless in ON_HOST.items():
        table.build(name, unless=unless)(partial(_on_host, name))
    return table


def _on_host(name: str, specs: Sequence[Spec], **params: Any) -> Lowering:
    op = primitive(name)
    run = get("numpy").table[name].lowering(specs, params)
    what = f"{name}, which ONNX has no operation for and the host computes,"
    if op.multiple:
        return native.lowering(run, op.infer_rule(*specs, **params), what)
    lower = native.lowering(lambda *xs: [run(*xs)], [op.infer_rule(*specs, **params)], what)
    return lambda *operands: lower(*operands)[0]


def or_hosted(name: str, build: Build, engine: Engine) -> Build:
    """`build`, for graphs that call no function of a user; for others Python's own control flow."""

    def choose(specs: Sequence[Spec], **params: Any) -> Lowering:
        if not any(
            calls_natives(value, lambda t: t.op is not None and t.op.name in ON_HOST)
            for value in params.values()
        ):
            return build(engine, specs, **params)
        programs: Any = _Programs(engine)
        function = loops(programs, ROWS)[name].function(specs, **params)
        return native.lowering(function, list(_results(**params)))

    return choose


class _Programs:
    """An engine as far as the lowerings of `arrays` need one."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def callable(self, graph: Graph) -> Callable[..., Any]:
        """A function of arrays that runs a graph as a program."""
        inputs, outputs = ([t.spec for t in listed] for listed in (graph.inputs, graph.outputs))
        specs: list[Any] = [t.spec for t in toposort(graph.outputs)]
        dtypes = frozenset([spec.dtype for spec in specs if isinstance(spec, Spec)])
        return self.engine.compile(
            Program(self.engine.callable(graph), inputs, outputs, dtypes=dtypes)
        )


def _results(
    then: Graph | None = None, body: Graph | None = None, carry: int = 0, **others: Any
) -> Iterator[Spec]:
    """The ranks and dtypes of what a branch or a loop gives."""
    graph = then or body
    assert graph is not None
    for i, t in enumerate(graph.outputs):
        stacked = body is not None and i >= carry
        yield Spec((None,) * (t.ndim + stacked), t.spec.dtype)
