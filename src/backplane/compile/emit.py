"""Emission: a graph as straight-line Python over an engine's table.

    def program(a0, a1):
        t0 = matmul(a0, a1, transpose_x=False, transpose_y=False)
        t1 = tanh(t0); del t0
        return (t1,)

One function evaluates the graph on NumPy arrays, traces it for JAX and TensorFlow, and builds the
graph of PyTensor or ONNX, according to what the table's lowerings take. On engines with
`host_shapes` sizes, and what is computed from sizes alone, stay Python and NumPy integers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from backplane.compile import chains
from backplane.compile.chains import Chain, Unit, shape_key, units
from backplane.compile.lines import remember
from backplane.compile.memory import Memory
from backplane.compile.passes import finished, simplified
from backplane.compile.simplify import UNREAD
from backplane.core.context import Where
from backplane.core.graph import Constant, Graph, Tensor, toposort
from backplane.core.primitive import OUTPUT
from backplane.core.spec import is_float
from backplane.engines import get
from backplane.engines.base import Engine, Entry, Lowering, Steps, set_emitter

HOST_OPS = frozenset(
    (
        "add",
        "sub",
        "mul",
        "floordiv",
        "mod",
        "maximum",
        "minimum",
        "neg",
        "abs",
        "cast",
        "equal",
        "not_equal",
        "less",
        "less_equal",
        "logical_not",
        "logical_and",
        "logical_or",
        "where",
        "concat",
        "reshape",
        "expand_dims",
        "squeeze",
        "slice",
        "gather",
        "sum",
        "prod",
        "max",
        "min",
        "identity",
        "stop_gradient",
        "broadcast_to",
        "flip",
    )
)
"""Primitives that may run on the host where all their operands are sizes or constants."""

if TYPE_CHECKING:
    from backplane.compile.blocks import Line

_count = itertools.count()


class Emitted:
    """An emitted program."""

    def __init__(
        self,
        function: Callable[..., tuple[Any, ...]],
        source: str,
        lowerings: Sequence[Lowering],
        sizes_from_values: bool,
    ) -> None:
        self.function = function
        self.source = source
        self.lowerings = lowerings
        """The functions that it calls."""
        self.sizes_from_values = sizes_from_values
        """Whether the size of a tensor is taken from the value of another, not from its size."""


class Emitter:
    """Writes the source of one program and binds the objects that it names."""

    def __init__(
        self,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        engine: Engine,
        whole: bool,
        news: Collection[Tensor],
        order: list[Tensor] | None,
        writes: bool,
    ) -> None:
        self.engine = engine
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self.order = toposort(outputs, stop=inputs) if order is None else order
        self.namespace: dict[str, Any] = {}
        self.writes = writes
        self.names: dict[Tensor, str] = {t: f"a{i}" for i, t in enumerate(inputs)}
        self.bound: dict[int, str] = {}
        self.lowerings: list[Lowering] = []
        self.lines: list[str] = []
        self.margin = "    "
        self.built_at: dict[int, tuple[str, Where | None]] = {}
        self.host = self._host_nodes() if "host_shapes" in engine.capabilities else set()
        self.units = self._units()
        self.order = [n for u in self.units for n in (u.members if isinstance(u, Chain) else [u])]
        if self.writes:
            self.memory = Memory(self.order, self.outputs, self._passes)
        self.position = {node: i for i, node in enumerate(self.order)}
        self.uses = self._last_uses()
        self.functions: list[Line] = []
        self.results = self._results()
        self.whole = whole
        self.news = news
        self.sizes_from_values = False

    def _units(self) -> Sequence[Unit]:
        """The nodes in the order in which they run, those of a chain together."""
        found: Sequence[Unit] = self.order
        if self.writes and "blocks" in self.engine.capabilities:
            done = set(self.inputs)
            rest = [node for node in self.order if node not in done]
            found = units(rest, self.outputs, self._passes)
        return _in_place_last(found)

    def _passes(self, node: Tensor) -> int:
        """How many passes over memory an element-wise lowering takes that takes `out`."""
        if node.op is None or node in self.host:
            return 0
        entry = self.engine.table.get(node.op.name)
        return entry.out if entry is not None and entry.out and node.spec.shape else 0

    def _host_nodes(self) -> set[Tensor]:
        """Nodes whose value follows from sizes alone."""
        host: set[Tensor] = set()
        for node in self.order:
            if node.op is None or node.op is OUTPUT:
                continue
            if node.op.name == "dim":
                host.add(node)
            elif node.op.name in HOST_OPS and not is_float(node.spec.dtype):
                known = [t in host or _small_constant(t) for t in node.inputs]
                if all(known) and any(t in host for t in node.inputs):
                    host.add(node)
        return host

    def _results(self) -> dict[Tensor, dict[int, Tensor]]:
        """For each node with several results, those that are used."""
        results: dict[Tensor, dict[int, Tensor]] = {}
        for node in self.order:
            if node.op is OUTPUT:
                results.setdefault(node.inputs[0], {})[node.params["index"]] = node
        return results

    # --- names ------------------------------------------------------------------------------------

    def bind(self, thing: Any, stem: str) -> str:
        """A global name for `thing`."""
        name = self.bound.get(id(thing))
        if name is None:
            stem = "".join(c if c.isalnum() else "_" for c in stem)
            name = self.bound[id(thing)] = (
                stem if stem not in self.namespace else f"{stem}_{len(self.bound)}"
            )
            self.namespace[name] = thing
        return name

    def value(self, t: Tensor) -> str:
        """The expression for `t` as a value of the engine."""
        if t is UNREAD:
            return "None"
        if t in self.host:
            convert = self.bind(self._from_host(t.spec.dtype), f"from_host_{t.spec.dtype}")
            return f"{convert}({self.names[t]})"
        if t not in self.names and isinstance(t, Constant):
            return self._constant(t)
        return self.names[t]

    def _from_host(self, dtype: str) -> Callable[[Any], Any]:
        converters = self.namespace.setdefault("__converters__", {})
        if dtype not in converters:
            converters[dtype] = partial(self.engine.from_host, dtype=dtype)
        return converters[dtype]  # type: ignore[no-any-return]

    def _constant(self, t: Constant) -> str:
        name = self.names[t] = f"c{len(self.names)}"
        native = t.value
        if isinstance(native, np.ndarray):
            native = self.engine.constant(native)
        elif not self.engine.owns(native):
            raise TypeError(
                f"a tensor of {type(native).__module__}.{type(native).__name__} is used in a "
                f"program for the engine {self.engine.name!r}: convert it (K.eval gives an array) "
                "or choose its engine with K.engine"
            )
        self.namespace[name] = native
        return name

    def host_value(self, t: Tensor) -> str:
        """The expression for `t` where a size is taken, or inside a host computation."""
        if t in self.host:
            return self.names[t]
        if isinstance(t, Constant) and isinstance(t.value, np.ndarray):
            if t.value.ndim == 0:
                return repr(t.value.item())
            return self.bind(t.value, "h")
        self.sizes_from_values = True
        return self.value(t)

    # --- lines ------------------------------------------------------------------------------------

    def emit(self) -> Emitted:
        """The program as a Python function."""
        arguments = ", ".join(self.names[t] for t in self.inputs)
        self.lines.append(f"def program({arguments}):")
        around = self.engine.around if self.whole else None
        if around:
            self.namespace.update(enter=around[0], leave=around[1])
            self.lines += ["    before = enter()", "    try:"]
            self.margin = "        "
        for unit in self.units:
            if isinstance(unit, Chain):
                self._chain(unit)
            else:
                self._node(unit)
        results = [self.value(t) for t in self.outputs]
        comma = "," if len(results) == 1 else ""
        self.lines.append(f"{self.margin}return ({', '.join(results)}{comma})")
        if around:
            self.lines += ["    finally:", "        leave(before)"]
        for text, node in self.functions:
            self.lines.append(text)
            self._mark(node)
        return Emitted(*self._compiled(), self.lowerings, self.sizes_from_values)

    def _node(self, node: Tensor) -> None:
        """The line of one node."""
        if node in self.names or node.op is None or node.op is OUTPUT:
            return
        text = self._line(node)
        i = self.position[node]
        self._write(text, [t for t in self.uses.get(i, ()) if t in self.names])
        self._mark(node)

    def _write(self, text: str, dead: Sequence[Tensor]) -> None:
        names = ", ".join([self.names[t] for t in dead])
        self.lines.append(self.margin + text + (f"; del {names}" if names else ""))

    def _mark(self, node: Tensor | None) -> None:
        """Note which node the last line computes, for error messages."""
        if node is not None and node.op is not None:
            self.built_at[len(self.lines)] = (node.op.name, node.where)

    def _chain(self, chain: Chain) -> None:
        """A chain: block by block where it is large, node by node where it is not."""
        # Not imported at the top: small programs hold no chains.
        from backplane.compile.blocks import Blocks

        first, last = self.position[chain.members[0]], self.position[chain.members[-1]]
        dead = [t for i in range(first, last + 1) for t in self.uses.get(i, ())]
        inside = set(chain.members)
        used = inside.difference(dead)
        free = [t for t in chain.whole() if self._is_free(t, first, last)]
        pools = {t: f"pool_{len(self.namespace)}_{t.serial}" for t in used if t in self.news}
        calls = self.engine.blocks()
        self.namespace.update({pool: calls.rooms() for pool in pools.values()})
        blocks = Blocks(chain, used, free, pools, self._call)
        name = f"chain_{len(self.namespace)}"
        margin = self.margin
        if not chain.surely_large:
            size = f"size({self.value(blocks.whole[0])})"
            self.lines.append(f"{margin}if {size} < {chains.LARGE}:")
            self.margin = margin + "    "
            for node in chain.members:
                self._node(node)
            self.lines.append(f"{margin}else:")
        operands = ", ".join([self.value(t) for t in blocks.operands])
        targets = [self.names.get(t) or self._name(t) for t in blocks.results]
        call = f"{', '.join(targets)}, = {name}({operands})"
        self._write(call, [t for t in dead if t not in inside and t in self.names])
        self.margin = margin
        self.namespace.update(
            {f"reduced_{name}": function for name, function in calls.reduced.items()},
            empty=calls.empty, flat=calls.flat, size=calls.size, rows=calls.rows,
            combined=calls.combined,
        )  # fmt: skip
        self.namespace[name] = None  # taken, until the text defines it
        self.functions += blocks.lines(name)

    def _compiled(self) -> tuple[Callable[..., tuple[Any, ...]], str]:
        source = "\n".join(self.lines) + "\n"
        filename = f"<backplane program {next(_count)}>"
        exec(compile(source, filename, "exec"), self.namespace)
        function: Callable[..., tuple[Any, ...]] = self.namespace["program"]
        remember(function, filename, source, self.built_at)
        return function, source

    def _last_uses(self) -> dict[int, list[Tensor]]:
        """For each position, the intermediate values that are read there for the last time."""
        kept = set(self.outputs)
        last: dict[Tensor, int] = {}
        for i, node in enumerate(self.order):
            for t in node.inputs if node.op is not OUTPUT else ():
                last[t] = i
        uses: dict[int, list[Tensor]] = {}
        for t, i in last.items():
            if t.op is not None and t not in kept and t not in self.host:
                uses.setdefault(i, []).append(t)
        return uses

    def _line(self, node: Tensor) -> str:
        op = node.op
        assert op is not None
        if op.name == "dim" and node in self.host:
            name = self._name(node)
            return f"{name} = {self.value(node.inputs[0])}.shape[{node.params['axis']}]"
        if op.name == "cast" and node.inputs[0] in self.host and node not in self.host:
            convert = self.bind(self._from_host(node.spec.dtype), f"from_host_{node.spec.dtype}")
            return f"{self._name(node)} = {convert}({self.names[node.inputs[0]]})"
        if node in self.host:
            entry = get("numpy").table[op.name]
            operands = [self.host_value(t) for t in node.inputs]
        else:
            entry = self.engine.table[op.name]
            sizes = (
                op.host
                if op.host is not None and "host_shapes" in self.engine.capabilities
                else None
            )
            operands = [
                self.host_value(t) if sizes is not None and i >= sizes else self.value(t)
                for i, t in enumerate(node.inputs)
            ]
        return self._assigned(node, operands, entry)

    def _assigned(self, node: Tensor, operands: list[str], entry: Entry) -> str:
        call = self._call(node, operands, self._out(node, entry), entry)
        return f"{self._targets(node)} = {call}"

    def _out(self, node: Tensor, entry: Entry) -> str | None:
        """A temporary that is read here for the last time and may hold the result."""
        if self.writes and entry.out == 1 and node.spec.shape:
            i, dtype, key = self.position[node], node.spec.dtype, None
            for t in node.inputs:
                if t.spec.dtype == dtype and self._is_free(t, i, i):
                    key = key or shape_key(node)
                    if key is not None and shape_key(t) == key:
                        return self.names[t]
        return None

    def _is_free(self, t: Tensor, first: int, last: int) -> bool:
        """Whether the nodes from `first` to `last` may write to the memory of `t`."""
        # An operand that is another view of what is written to would be copied first, by NumPy, or
        # refused.
        return self.memory.dies(t, first, last) and not self.memory.is_shared(t, first)

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
        named = [f"{key}={self._literal(value, key)}" for key, value in params.items()]
        named += [f"out={out}"] if out else []
        return f"{self.bind(lowering, name)}({', '.join([*operands, *named])})"

    def _literal(self, value: Any, key: str) -> str:
        return repr(value) if _has_literal(value) else self.bind(value, key)

    def _name(self, node: Tensor) -> str:
        name = self.names[node] = f"t{len(self.names)}"
        return name

    def _targets(self, node: Tensor) -> str:
        assert node.op is not None
        if not node.op.multiple:
            return self._name(node)
        used = self.results.get(node, {})
        targets = [self._name(used[i]) if i in used else "_" for i in range(len(node.spec))]
        return ", ".join(targets) + ("," if len(targets) == 1 else "")


def _in_place_last(order: Sequence[Unit]) -> Sequence[Unit]:
    """`order`, but what writes over its operands after all that may still read them, or fail."""
    last = {unit: None for unit in order if isinstance(unit, Tensor) and _writes(unit)}
    return [*[unit for unit in order if unit not in last], *last] if last else order


def _writes(node: Tensor) -> bool:
    op = node.inputs[0].op if node.op is OUTPUT else node.op
    return op is not None and op.in_place


def _small_constant(t: Tensor) -> bool:
    return isinstance(t, Constant) and isinstance(t.value, np.ndarray) and t.value.size <= 64


def _has_literal(value: Any) -> bool:
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
    news: Collection[Tensor] = (),
    order: list[Tensor] | None = None,
    writes: bool = False,
) -> Emitted:
    """Emit the program from `inputs` to `outputs`, both already lowered for `engine`; not a `whole`
    one, if it only runs inside another. `news` are the outputs that replace values of variables,
    `order` all nodes, inputs before users, where that is known. It `writes` to memory that it has
    made, where lowerings take `out`: always on engines with that capability.
    """
    writes = writes or "out" in engine.capabilities
    return Emitter(inputs, outputs, engine, whole, set(news), order, writes).emit()


def closed(graph: Graph, engine: Engine) -> list[Tensor]:
    """The outputs of a closed graph, ready for emission."""
    # Eager calls run these graphs too, and the engine's own tape must see where it stops.
    _, outputs = simplified(graph.outputs, keep_stops=True)
    return finished(outputs, engine, keep_stops=True)


def callable_of(graph: Graph, engine: Engine) -> Callable[..., tuple[Any, ...]]:
    """A function over engine values that evaluates a closed graph; made once per engine."""
    found = graph.cache.get(engine)
    if found is None:
        emitted = emit(graph.inputs, closed(graph, engine), engine, whole=False)
        found = graph.cache[engine] = emitted.function
    return found


def steps_of(body: Graph, engine: Engine, carry: int, xs: int) -> Steps:
    """A loop's body as steps that write to memory that is kept; made once per engine."""
    key = engine, carry, xs
    found = body.cache.get(key)
    if found is None:
        from backplane.compile.steps import emitted  # only few programs have loops

        found = body.cache[key] = emitted(body, closed(body, engine), engine, carry, xs)
    return found


set_emitter(callable_of, steps_of)
