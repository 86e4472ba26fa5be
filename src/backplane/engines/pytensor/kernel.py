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

from backplane.core.graph import Graph, Placeholder
from backplane.core.registry import primitive
from backplane.core.spec import Spec, is_float
from backplane.engines.arrays import convolution, indexing, pooling, random, sums, updates
from backplane.engines.base import Engine, Entry, Lowering, Table, Value
from backplane.engines.pytensor.library import type_of
from backplane.engines.pytensor.reductions import sum_down
from backplane.engines.pytensor.steps import loop

KERNELS = Table(shift_left=np.left_shift, shift_right=np.right_shift)
for _part in (convolution, pooling, random, indexing):
    KERNELS.update(_part.TABLE)
for _name, _entry in updates.TABLE.items():
    KERNELS[_name] = Entry(partial(_entry.function, loop=loop))
KERNELS.build("sum_to")(sums.sum_to)


@KERNELS.add("print")
def _print(x: Value, *, message: str) -> Value:
    print(message, x)
    return x


class Kernel(Op):
    """A primitive computed by a function on NumPy arrays.

    Every linker of PyTensor can call it; PyTensor differentiates through it by our own gradient
    rules.
    """

    __props__ = ("name", "parameters", "specs", "reads", "wanted")

    def __init__(
        self,
        engine: Engine,
        name: str,
        specs: Sequence[Spec],
        params: Mapping[str, Any],
        reads: tuple[int, ...],
        wanted: tuple[bool, ...] | None,
    ) -> None:
        self.engine = engine
        self.name = name
        self.specs = tuple(specs)
        self.params = dict(params)
        self.parameters = tuple(params.items())
        self.reads = reads
        self.wanted = wanted
        self.multiple = primitive(name).multiple
        self.types = [type_of(s) for s in self._result_specs()]
        self.function = self._function()

    def _result_specs(self) -> list[Spec]:
        results = primitive(self.name).infer_rule(*self.specs, **self.params)
        if not self.multiple:
            return [results]
        if self.name == "max_pool":
            # Positions are private: the smallest type that holds the number of a tap.
            dtype = np.min_scalar_type(math.prod(self.params["pool"])).name
            results = [results[0], results[1].with_dtype(dtype)]
        return [spec for spec, yes in zip(results, self._wanted(len(results)), strict=True) if yes]

    def _wanted(self, count: int) -> tuple[bool, ...]:
        return self.wanted or (True,) * count

    def _function(self) -> Lowering:
        """From arrays for the operands that are read to one array, or several."""
        entry = KERNELS[self.name]
        params = self.params if not entry.wanted else {**self.params, "wanted": self.wanted}
        if entry.builds:
            function = entry.function(self.specs, **params)
        else:
            function = partial(entry.function, **params) if params else entry.function
        if len(self.reads) == len(self.specs):
            return function

        def spread(*values: Value) -> Value:
            operands = [None] * len(self.specs)
            for i, value in zip(self.reads, values, strict=True):
                operands[i] = value
            return function(*operands)

        return spread

    def __str__(self) -> str:
        return self.name

    def make_node(self, *inputs: Any) -> Apply:
        """Apply it to the operands that are read."""
        return Apply(self, [as_tensor_variable(x) for x in inputs], [t() for t in self.types])

    def compute(self, *values: Value) -> Any:
        """The result of arrays, or a list of the wanted results."""
        if not self.multiple:
            return self.function(*values)
        results = self.function(*values)
        return [y for y, yes in zip(results, self._wanted(len(results)), strict=True) if yes]

    def perform(self, node: Apply, inputs: Sequence[Value], output_storage: Any) -> None:
        """What PyTensor's own linkers call."""
        results = self.compute(*inputs)
        for cell, y in zip(output_storage, results if self.multiple else [results], strict=True):
            cell[0] = np.asarray(y)

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Gradients flow from float results to float operands."""
        to = [is_float(t.dtype) for t in self.types]
        return [
            to
            if is_float(x.type.dtype) and primitive(self.name).differentiable
            else [False] * len(to)
            for x in node.inputs
        ]

    def pullback(
        self, inputs: Sequence[Value], outputs: Sequence[Value], cotangents: Sequence[Value]
    ) -> list[Value]:
        """The gradient rule of the primitive, lowered to PyTensor."""
        leaves = [Placeholder(spec) for spec in self.specs]
        result: Any = primitive(self.name)(*leaves, **self.params)
        listed = result if self.multiple else [result]
        kept = [i for i, yes in enumerate(self._wanted(len(listed))) if yes]
        flowing = [
            (i, g) for i, g in zip(kept, cotangents, strict=True)
            if not isinstance(g.type, DisconnectedType) and is_float(listed[i].spec.dtype)
        ]  # fmt: skip
        seeds = {i: Placeholder(listed[i].spec) for i, _ in flowing}
        node = listed[0].inputs[0] if self.multiple else result
        wanted = [i in self.reads and is_float(s.dtype) for i, s in enumerate(self.specs)]
        given = [seeds.get(i) for i in range(len(listed))]
        parts = (given, listed) if self.multiple else (given[0], result)
        by_operand = node.op.cotangents(*parts, node, wanted) if flowing else []
        found = [by_operand[i] if i < len(by_operand) else None for i in self.reads]
        graph = Graph([*leaves, *seeds.values()], [g for g in found if g is not None])
        operands: list[Value] = [None] * len(leaves)
        for i, x in zip(self.reads, inputs, strict=True):
            operands[i] = x
        values = iter(self.engine.callable(graph)(*operands, *[g for _, g in flowing]))
        return [disconnected_type() if g is None else next(values) for g in found]


def _completed(name: str, specs: Sequence[Spec]) -> list[Spec]:
    """The specs of all operands: those that no lowering reads arrive without."""
    if name == "max_pool_grad":
        g, x, _, positions = specs
        return [g, x, g, positions.with_dtype("int64")]
    if name == "max_pool_take":
        v, _, _, positions = specs
        return [v, v, positions.with_dtype(v.dtype), positions.with_dtype("int64")]
    return [Spec(s.shape, s.dtype) for s in specs]


def _lowering(engine: Engine, name: str, entry: Entry) -> Lowering:
    """What `Table.build` takes: specs and parameters to a function of variables."""

    def build(specs: Sequence[Spec], *, wanted: Any = None, **params: Any) -> Lowering:
        reads = entry.reads or tuple(range(len(specs)))
        kernel = Kernel(engine, name, _completed(name, specs), params, reads, wanted)

        def lower(*operands: Value) -> Any:
            results = kernel(*[operands[i] for i in reads], return_list=True)
            if not kernel.multiple:
                return results[0]
            given = iter(results)
            return [next(given) if yes else None for yes in wanted or (True,) * len(results)]

        return lower

    return build


def kernels(engine: Engine) -> Table:
    """Lowerings to `Kernel`."""
    table = Table()
    for name, entry in KERNELS.items():
        build = _lowering(engine, name, entry)
        table[name] = Entry(build, reads=entry.reads, builds=True, wanted=entry.wanted)
    at_run = table["sum_to"].function

    @table.build("sum_to")
    def sum_to(specs: Sequence[Spec], *, shape: tuple[int | None, ...]) -> Lowering:
        return sum_down(specs[0].shape, shape) or at_run(specs, shape=shape)

    return table
