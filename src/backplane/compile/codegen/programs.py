"""Writes a graph as straight-line Python over an engine's table.

    def program(a0, a1):
        t0 = matmul(a0, a1, transpose_x=False, transpose_y=False)
        t1 = tanh(t0); del t0
        return (t1,)

What this function does depends on the table's lowerings: it evaluates the graph on NumPy arrays,
traces it for JAX and TensorFlow, or builds the graph of PyTensor or ONNX. On engines with
`host_shapes`, sizes, and what is computed from sizes alone, stay Python and NumPy integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import numpy as np

from backplane.compile import passes
from backplane.compile.aliases import is_fixed, writes_over
from backplane.compile.codegen import tiling
from backplane.compile.codegen.buffers import Buffers, passes_over
from backplane.compile.codegen.tiling import Chain, Unit
from backplane.compile.passes.lower import UNREAD
from backplane.compile.source_map import Place, place_of
from backplane.core.graph import Constant, Tensor, is_array, is_scalar, toposort
from backplane.core.primitive import OUTPUT
from backplane.core.source import Source
from backplane.core.spec import is_float
from backplane.engines import get, kernels
from backplane.engines.base import Engine
from backplane.engines.programs import Program
from backplane.engines.table import Entry, Lowering
from backplane.ops.creation import dim, sizes_among
from backplane.ops.elementwise import cast
from backplane.ops.remat import barrier


class Emitter:
    """Writes the source of one program, and binds the objects that it names.

    `inputs` and `outputs` are those of a graph that is lowered for `engine`. `news` are the outputs
    that replace values of variables. `order` holds all nodes, operands before users, if the caller
    knows them. If it `writes`, the program reuses memory that it has made where lowerings take
    `out`. If it `hands_out`, the user gets the results as they are.
    """

    def __init__(
        self,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        engine: Engine,
        *,
        news: Collection[Tensor] = (),
        order: Sequence[Tensor] | None = None,
        writes: bool = False,
        hands_out: bool = False,
    ) -> None:
        self.engine = engine
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self.order = toposort(outputs, stop=inputs) if order is None else order
        job = passes.Job(engine)
        self.writes = writes and passes.applies("reuse", job)
        self.large = math.inf
        """Elements from which on chains run in blocks."""
        if writes and passes.applies("tiling", job):
            self.large = kernels.engines_limit(engine.name, "blocks")
        self.news = news
        self.hands_out = hands_out
        self.names: dict[Tensor, str] = {t: f"a{i}" for i, t in enumerate(inputs)}
        self.source = Source("program")
        self.lowerings: list[Lowering] = []
        self.converters: dict[str, Callable[[Any], Any]] = {}
        self.sizes_from_values = False
        self.host_shapes = "host_shapes" in engine.capabilities
        self.host = sizes_among(self.order) if self.host_shapes else set()
        self.units = self._units()
        self.order = [n for u in self.units for n in (u.members if isinstance(u, Chain) else [u])]
        self.buffers = Buffers(self.order, self.outputs, engine, self.host)
        self.position = self.buffers.position
        self.gone: set[Tensor] = set()
        """Temporaries whose names have been deleted."""
        self.later: list[str] = []
        """The names of the lists of calls that write over operands, which the program returns."""
        self.functions: list[Callable[[Source], None]] = []
        """Writers of the functions of chains, behind the program."""
        self.results: dict[Tensor, dict[int, Tensor]] = {}
        """For each node with several results, those that are used."""
        for node in self.order:
            if node.op is OUTPUT:
                self.results.setdefault(node.inputs[0], {})[node.params["index"]] = node

    def _units(self) -> Sequence[Unit]:
        """The nodes in the order in which they run. The nodes of a chain stand together."""
        all_units: Sequence[Unit] = self.order
        if self.large < math.inf:
            done = set(self.inputs)
            rest = [node for node in self.order if node not in done]
            takes = partial(passes_over, engine=self.engine, host=self.host)
            all_units = tiling.units(rest, self.outputs, takes, self.large)
        return _in_place_last(all_units)

    # --- operands ---------------------------------------------------------------------------------

    def value(self, t: Tensor) -> str:
        """The expression for `t` as a value of the engine."""
        if t is UNREAD:
            return "None"
        if t in self.host:
            return f"{self._from_host(t.spec.dtype)}({self.names[t]})"
        if t not in self.names and isinstance(t, Constant):
            self.names[t] = self._constant(t)
        return self.names[t]

    def _from_host(self, dtype: str) -> str:
        if dtype not in self.converters:
            self.converters[dtype] = partial(self.engine.constant, dtype=dtype)
        return self.source.bind(self.converters[dtype], f"from_host_{dtype}")

    def _constant(self, t: Constant) -> str:
        value = t.value
        if isinstance(value, np.ndarray):
            value = self.engine.constant(value)
        elif not self.engine.owns(value):
            raise TypeError(
                f"a tensor of {type(value).__module__}.{type(value).__name__} is used in a "
                f"program for the engine {self.engine.name!r}: convert it (K.eval gives an array) "
                "or choose its engine with K.engine"
            )
        return self.source.define(value, f"c{len(self.names)}")

    def host_value(self, t: Tensor) -> str:
        """The expression for `t` where it serves as a size, or inside a host computation."""
        if t in self.host:
            return self.names[t]
        if is_scalar(t):
            return repr(t.value.item())
        if is_array(t):
            return self.source.bind(t.value, "h")
        self.sizes_from_values = True
        return self.value(t)

    # --- lines ------------------------------------------------------------------------------------

    def emit(self, whole: bool = True) -> Program:
        """The program, with what is known from its text. It is `whole` unless it runs inside
        another program.
        """
        source, around = self.source, self.engine.around if whole else None
        with source.block(f"def program({', '.join(self.names[t] for t in self.inputs)}):"):
            if around is None:
                self._body()
            else:
                source.names.update(zip(("read", "change", "inside"), around, strict=True))
                source.line("before = read()")
                with source.block("try:"):
                    source.line("change(inside)")
                    self._body()
                with source.block("finally:"):
                    source.line("change(before)")
        return Program(
            self.finished(),
            [t.spec for t in self.inputs],
            [t.spec for t in self.outputs],
            lowerings=self.lowerings,
            source=source.text,
            sizes_from_values=self.sizes_from_values,
            values_from_host=bool(self.converters),
        )

    def _body(self) -> None:
        for unit in self.units:
            self.unit(unit)
        results = [self._result(t) for t in self.outputs]
        if self.later:
            results.append(f"[{', '.join([f'*{name}' for name in self.later])}]")
        listed = "".join([f"{x}, " for x in results])
        self.source.line(f"return ({listed.rstrip()})")

    def _result(self, t: Tensor) -> str:
        """The expression for an output, which users may write to element by element."""
        value = self.value(t)
        if self.hands_out and is_fixed(t):
            return f"{self.source.bind(self.engine.copied, 'copied')}({value})"
        return value

    def finished(self) -> Callable[..., Any]:
        """The function `program` of the text, after the functions of its chains have been added."""
        while self.functions:  # They refer to this emitter, which nobody needs any more.
            with self.source.helper():
                self.functions.pop(0)(self.source)
        return self.source.function("program")

    def unit(self, unit: Unit) -> None:
        """The lines of a node or of a chain."""
        if isinstance(unit, Chain):
            self._chain(unit)
        elif unit not in self.names and unit.op is not None and unit.op is not OUTPUT:
            text = self._line(unit)
            dead = self.buffers.ends.get(self.position[unit], ())
            self.gone.update(dead)
            self._write(text, [t for t in dead if t in self.names], place_of(unit))

    def _write(self, text: str, dead: Sequence[Tensor], place: Place | None = None) -> None:
        names = ", ".join([self.names[t] for t in dead])
        self.source.line(text + (f"; del {names}" if names else ""), place)

    def _chain(self, chain: Chain) -> None:
        """The lines of a chain: block by block where it is large, node by node where it is not."""
        first, last = self.position[chain.members[0]], self.position[chain.members[-1]]
        dead = [t for i in range(first, last + 1) for t in self.buffers.ends.get(i, ())]
        inside = set(chain.members)
        used = inside.difference(dead)
        free = {t for t in chain.whole() if self._is_free(t, first, last)}
        calls, source = self.engine.blocks(), self.source
        pools = {
            t: source.define(calls.recycler(), f"pool_{t.serial}") for t in used if t in self.news
        }
        places = {t: place for t in used if (place := self._place(t))}
        loop = tiling.Loop(chain, used, free, pools, places, self._call)
        name = source.define(None, "chain")  # the name is taken until the text defines it
        operands = [*[self.value(t) for t in loop.operands], *loop.arguments]
        call = f"{name}({', '.join(operands)})"
        if chain.least_size >= self.large:
            self._call_chain(loop, call, [t for t in dead if t not in inside])
        else:
            with source.block(f"if size({self.value(loop.whole[0])}) < {self.large:.0f}:"):
                for node in chain.members:
                    self.unit(node)
            with source.block("else:"):
                self._call_chain(loop, call, [t for t in dead if t not in inside])
        source.names.update(
            {f"reduced_{op}": function for op, function in calls.reduced.items()},
            empty=calls.empty, flat=calls.flat, size=calls.size, rows=calls.rows,
            combined=calls.combined,
        )  # fmt: skip
        self.functions.append(partial(loop.write, name=name))

    def _call_chain(self, loop: tiling.Loop, call: str, dead: Sequence[Tensor]) -> None:
        targets = [self.names.get(t) or self._name(t) for t in loop.results]
        self._write(f"{', '.join(targets)}, = {call}", [t for t in dead if t in self.names])

    def _line(self, node: Tensor) -> str:
        op = node.op
        assert op is not None
        if op is dim and node in self.host:
            name = self._name(node)
            return f"{name} = {self.value(node.inputs[0])}.shape[{node.params['axis']}]"
        if op is cast and node.inputs[0] in self.host and node not in self.host:
            convert = self._from_host(node.spec.dtype)
            return f"{self._name(node)} = {convert}({self.names[node.inputs[0]]})"
        if node in self.host:
            entry = get("numpy").table[op.name]
            operands = [self.host_value(t) for t in node.inputs]
        else:
            entry = self.engine.table[op.name]
            sizes = op.host if op.host is not None and self.host_shapes else len(node.inputs)
            operands = [self.value(t) for t in node.inputs[:sizes]]
            operands += [self.host_value(t) for t in node.inputs[sizes:]]
        if op is barrier and "lazy" in self.engine.capabilities:
            operands += self._alive(node)
        return self._assigned(node, operands, entry)

    def _alive(self, node: Tensor) -> list[str]:
        """Earlier names that `node` does not read: a lazy library would keep them in memory."""
        passed = self.host | self.gone | set(node.inputs)
        return [name for t, name in self.names.items() if t.op is not None and t not in passed]

    def _assigned(self, node: Tensor, operands: list[str], entry: Entry) -> str:
        over = self.buffers.reusable(node, entry, self._is_free) if self.writes else None
        call = self._call(node, operands, self.names[over] if over is not None else None, entry)
        return f"{self._targets(node)} = {call}"

    def _place(self, node: Tensor) -> str | None:
        """The name of the array to which a node must be written, if there is one."""
        return None

    def _is_free(self, t: Tensor, first: int, last: int) -> bool:
        """Whether the nodes from `first` to `last` may write to the memory of `t`."""
        return self.buffers.is_free(t, first, last)

    def _call(
        self, node: Tensor, operands: list[str], out: str | None = None, entry: Entry | None = None
    ) -> str:
        """The call of a node's lowering."""
        op = node.op
        assert op is not None
        entry = entry or self.engine.table[op.name]
        params = dict(node.params)
        if entry.wanted:
            params["wanted"] = tuple(i in self.results.get(node, {}) for i in range(len(node.spec)))
        if entry.builds:
            lowering = entry.function([t.spec for t in node.inputs], **params)
            params = {}
        else:
            lowering = entry.function
        name = op.name
        if entry.over is not None and [out] == operands and is_float(node.spec.dtype):
            lowering, out, name = entry.over, None, f"{name}_"
        self.lowerings.append(lowering)
        named = [
            f"{key}={value!r}" if _has_literal(value) else f"{key}={self.source.bind(value, key)}"
            for key, value in params.items()
        ]
        named += [f"out={out}"] if out else []
        return f"{self.source.bind(lowering, name)}({', '.join([*operands, *named])})"

    def _name(self, node: Tensor) -> str:
        name = self.names[node] = f"t{len(self.names)}"
        return name

    def _targets(self, node: Tensor) -> str:
        assert node.op is not None
        if not node.op.multiple:
            return self._name(node)
        used = self.results.get(node, {})
        targets = [self._name(used[i]) if i in used else "_" for i in range(len(node.spec))]
        if node.op.in_place:
            self.later.append(f"later{len(self.later)}")
            return f"({', '.join(targets)},), {self.later[-1]}"
        return f"{', '.join(targets)},"


def _in_place_last(order: Sequence[Unit]) -> Sequence[Unit]:
    """`order`, with nodes that overwrite operands behind all that may read these, or fail."""
    last = {unit: None for unit in order if isinstance(unit, Tensor) and writes_over(unit)}
    return [*[unit for unit in order if unit not in last], *last] if last else order


def _has_literal(value: object) -> bool:
    if isinstance(value, tuple):
        return all(_has_literal(v) for v in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or type(value) in (bool, int, str)


def emit(
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    engine: Engine,
    *,
    whole: bool = True,
) -> Program:
    """Emit the program of lowered outputs, `whole` unless it runs inside another one."""
    return Emitter(inputs, outputs, engine, writes="out" in engine.capabilities).emit(whole)
