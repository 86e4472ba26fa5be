"""Primitives that PyTensor has no operation for, as one `Op` over the shared array lowerings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from pytensor.gradient import DisconnectedType, disconnected_type
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.tensor import as_tensor_variable

from backplane.core.registry import primitive
from backplane.core.spec import Spec, is_float
from backplane.core.traits import Memory
from backplane.engines import get
from backplane.engines.arrays.fast import updates
from backplane.engines.base import Engine
from backplane.engines.factorizations import gradient_graph, is_half
from backplane.engines.pytensor.fast.updates import loop
from backplane.engines.pytensor.library import type_of
from backplane.engines.table import Axes, Lowering, Table, Value

LOWERINGS = Table.of_rooms(
    "backplane.engines.arrays",
    {
        name: entry._replace(function=partial(entry.function, loop=loop))
        for name, entry in updates.TABLE.items()
    },
)
"""The array lowerings. Loops and branches come from the engine `numpy`, which computes what they
hold."""

COMPOSED = frozenset(("relu_grad", "sigmoid_grad", "tanh_grad", "mul_no_nan"))
"""Primitives that are decomposed into operations of PyTensor."""

Wanted = tuple[bool, ...] | None
"""A flag for each result that is read; None for all of them."""


class ArrayOp(Op):
    """A primitive computed by a function on NumPy arrays.

    Every linker of PyTensor can call it; PyTensor differentiates through it by our own gradient
    rules.
    """

    __props__ = ("name", "parameters", "specs", "wanted")

    def __init__(
        self,
        engine: Engine,
        name: str,
        specs: Sequence[Spec],
        params: Mapping[str, Any],
        wanted: Wanted,
    ) -> None:
        self.engine = engine
        self.name = name
        self.specs = tuple(specs)
        self.params = dict(params)
        self.parameters = tuple(params.items())
        self.primitive = primitive(name)
        self.multiple = self.primitive.multiple
        if self.primitive.memory is not Memory.FRESH or self.primitive.in_place:
            self.view_map = {0: [0]}
        results = self._result_specs()
        self.wanted = wanted or (True,) * len(results)
        self.types = [type_of(spec) for spec in self._kept(results)]
        entry = LOWERINGS.get(name) or get("numpy").table[name]
        given = {**self.params, "wanted": self.wanted} if entry.wanted else self.params
        self.function = entry.lowering(self.specs, given)
        """A function of arrays for the operands, which gives one array or several."""

    def _result_specs(self) -> Sequence[Spec]:
        results = self.primitive.infer_rule(*self.specs, **self.params)
        if self.name == "max_pool":
            # Positions are private: the smallest type that holds the number of a tap.
            dtype = np.min_scalar_type(math.prod(self.params["pool"])).name
            return [results[0], results[1].with_dtype(dtype)]
        return results if self.multiple else [results]

    def _kept(self, results: Sequence[Any]) -> list[Any]:
        """The results that are wanted."""
        return [y for y, yes in zip(results, self.wanted, strict=True) if yes]

    def __str__(self) -> str:
        return self.name

    def make_node(self, *inputs: Any) -> Apply:
        """Apply it to operands; those that it does not read are None, or anything."""
        operands = [as_tensor_variable(0 if x is None else x) for x in inputs]
        return Apply(self, operands, [t() for t in self.types])

    def compute(self, *values: Value) -> Any:
        """The result of arrays, or a list of the wanted results."""
        if self.primitive.in_place:
            results, calls = self.function(*values)
            self.engine.commit(calls)
            return results
        return self._kept(self.function(*values)) if self.multiple else self.function(*values)

    def perform(self, node: Apply, inputs: Sequence[Value], output_storage: Any) -> None:
        """The method that PyTensor's own linkers call."""
        results = self.compute(*inputs)
        for cell, y in zip(output_storage, results if self.multiple else [results], strict=True):
            cell[0] = np.asarray(y)

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Gradients flow from float results to float operands."""
        flows = self.primitive.differentiable
        to = [is_float(t.dtype) and flows for t in self.types]
        return [[yes and is_float(x.type.dtype) for yes in to] for x in node.inputs]

    def pullback(
        self, inputs: Sequence[Value], outputs: Sequence[Value], cotangents: Sequence[Value]
    ) -> list[Value]:
        """The gradient rule of the primitive, lowered to PyTensor."""
        kept = [i for i, yes in enumerate(self.wanted) if yes]
        flowing = {
            i: g for i, g in zip(kept, cotangents, strict=True)
            if not isinstance(g.type, DisconnectedType) and is_float(g.dtype)
        }  # fmt: skip
        graph, has = gradient_graph(self.name, self.specs, self.params, flowing.__contains__)
        values = iter(self.engine.callable(graph)(*inputs, *flowing.values()))
        return [next(values) if yes else disconnected_type() for yes in has]


def _completed(name: str, specs: Sequence[Spec]) -> list[Spec]:
    """The specs of all operands: those that no lowering reads arrive as None."""
    if name == "max_pool_grad":
        g, x, _, positions = specs
        return [g, x, g, positions.with_dtype("int64")]
    if name == "max_pool_take":
        v, _, _, positions = specs
        return [v, v, positions.with_dtype(v.dtype), positions.with_dtype("int64")]
    return [Spec(s.shape, s.dtype) for s in specs]


def lowering(
    engine: Engine, name: str, specs: Sequence[Spec], *, wanted: Wanted = None, **params: Any
) -> Lowering:
    """A primitive as an `ArrayOp`, as a function of variables."""
    op = ArrayOp(engine, name, _completed(name, specs), params, wanted)

    def lower(*operands: Value) -> Any:
        results = op(*operands, return_list=True)
        if op.primitive.in_place:
            return results, ()  # The calls that write come out of the linked program.
        if not op.multiple:
            return results[0]
        given = iter(results)
        return [next(given) if yes else None for yes in op.wanted]

    return lower


def _is_decomposed(
    specs: Sequence[Spec], *, axis: int = 0, axes: Axes | None = None, **_: Any
) -> bool:
    """Whether it is known that the axes of an operand have elements, or it holds halves."""
    return is_half(specs) or all(specs[0].shape[i] for i in ((axis,) if axes is None else axes))


def array_ops(engine: Engine, rooms: Table) -> Table:
    """Lowerings to `ArrayOp` of what PyTensor's own rooms lack."""
    table = Table()
    for name in LOWERINGS.keys() - rooms.keys() - COMPOSED:
        entry = LOWERINGS[name]
        facts = {"reads": entry.reads, "wanted": entry.wanted, "unless": entry.unless}
        table.build(name, **facts)(partial(lowering, engine, name))
    for name in ("softmax", "log_softmax", "logsumexp"):
        # Their decompositions, which other linkers compile, take the maximum of each row.
        table[name] = table[name]._replace(unless=_is_decomposed)
    return table
