"""A graph as nested boxes: what `K.plot_graph` draws, before anything has a place.

Name scopes, loops and branches are boxes with items of their own. An edge that enters a box ends at
a port of the box, and goes on from there inside. Where an unfolded box would hold too many items,
those of one user line, or else some that follow each other, are put into a box.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from backplane.core.graph import (
    Constant,
    Graph,
    KeySource,
    Placeholder,
    Tensor,
    graphs_of,
    is_scalar,
    toposort,
)
from backplane.core.primitive import OUTPUT
from backplane.core.variable import Variable
from backplane.ops.control import scan_
from backplane.ops.effects import Update
from backplane.views.words import described, line_text, spec_text

MANY, PARTS = 40, 12
"""Items from which on a box is divided further, and the number of parts that this makes."""

GRADIENTS, UPDATES = "gradients", "updates"
"""The boxes of what is computed for gradients, and for updates alone."""

MOST_READERS = 3
"""Items that read a leaf, up to which it is drawn once. Otherwise each of them gets a copy beside
it, because long lines from one place hide everything else."""


@dataclass(slots=True, eq=False)
class Item:
    """Something to draw. Its `kind` decides on its color: `forward`, `gradient`, `state`, `input`,
    `constant`, `output`; `in` and `out` are ports.
    """

    kind: str
    title: str
    detail: str = ""
    tip: str = ""
    box: Box | None = None


@dataclass(slots=True)
class Edge:
    """A tensor on its way from one item to another; ports say where in their boxes it goes on."""

    source: int
    target: int
    label: str
    kind: str
    source_port: str = ""
    target_port: str = ""


@dataclass(slots=True)
class Box:
    """Items and the edges between them; `ports` leads from the keys of ports to their items."""

    items: list[Item] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    ports: dict[str, int] = field(default_factory=dict)

    def count(self) -> int:
        """The number of nodes in it, at any depth."""
        own = [item for item in self.items if item.kind not in ("in", "out")]
        return sum([item.box.count() if item.box else 1 for item in own])


@dataclass(slots=True, eq=False)
class Unit:
    """A node that is drawn: one of the graph, or the mark of an output."""

    item: Item
    operands: list[Tensor]
    path: tuple[str, ...] = ()
    line: str = ""
    node: Tensor | None = None

    @property
    def leaf(self) -> bool:
        """Whether it is computed from nothing."""
        return self.node is not None and self.node.op is None


Places = dict[int, int | None]
"""The items of a box by units' ids; None for a leaf that each reader gets a copy of."""


class Scene:
    """Builds the boxes of one graph. `roots`: its outputs, with the items that mark them."""

    def __init__(self, roots: Sequence[tuple[Tensor, Item | None]]) -> None:
        self.keys: dict[Tensor, str] = {}
        self.readers: dict[Tensor, list[Unit]] = defaultdict(list)
        self.results: dict[Tensor, dict[Tensor, None]] = defaultdict(dict)
        """Of nodes with several results, those that are read."""
        outputs = [t for t, _ in roots]
        units = self._units(outputs, ())
        read = [t for t, item in roots if item is None or item.kind != "state"]
        for t in {*units} - {*toposort(read)}:
            if units[t].item.kind == "forward":  # It is computed for an update alone.
                units[t].item.kind, units[t].path = "state", (UPDATES, *units[t].path)
        units |= {
            f"end {i}": Unit(item, [t], (UPDATES,) if item.kind == "state" else ())
            for i, (t, item) in enumerate(roots)
            if item is not None
        }
        # Nothing else needs what is computed for updates alone.
        units = dict(sorted(units.items(), key=lambda pair: pair[1].path[:1] == (UPDATES,)))
        self.root = self._all(units)

    def key(self, t: Tensor) -> str:
        """The key of the ports of a tensor."""
        return self.keys.setdefault(t, f"t{len(self.keys)}")

    # --- units ------------------------------------------------------------------------------------

    def _units(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], outside: tuple[str, ...] = ()
    ) -> dict[Any, Unit]:
        """The nodes to draw, in the order in which they were built."""
        order = sorted(toposort(outputs, stop=inputs), key=lambda t: t.serial)
        drawn = [t for t in order if t not in set(inputs) and t.op is not OUTPUT]
        return {t: self._unit(t, outside) for t in drawn if not is_scalar(t)}

    def _unit(self, t: Tensor, outside: tuple[str, ...]) -> Unit:
        where = t.where
        scopes = where.scopes if where is not None else ()
        scopes = scopes[len(outside) :] if scopes[: len(outside)] == outside else scopes
        gradient = where is not None and where.gradient
        path = (GRADIENTS, *scopes) if gradient and not outside else scopes
        line = f"{where.function} {where.line}: {where.text}" if where is not None else ""
        item = Item(_kind(t), _title(t), _detail(t), _tip(t))
        operands = [x for x in t.inputs if not is_scalar(x)]
        if graphs := graphs_of(t):
            item.box = self._loop(t, graphs, where.scopes if where is not None else ())
        return Unit(item, operands, path, line, t)

    # --- boxes ------------------------------------------------------------------------------------

    def _all(self, units: dict[Any, Unit]) -> Box:
        """The box of a whole graph, with nothing outside."""
        for unit in units.values():
            for t in unit.operands:
                self.readers[t].append(unit)
                if t.op is OUTPUT:
                    self.results[t.inputs[0]][t] = None
        return self._box(list(units.values()), units, 0)

    def _box(self, units: Sequence[Unit], known: dict[Any, Unit], depth: int) -> Box:
        """The box of some of the units of a graph."""
        box, place = Box(), Places()
        for name, members, inner_depth in self._groups(units, depth):
            first = members[0]
            if len(members) == 1 and first.leaf and self._has_many_readers(first, depth):
                place[id(first)] = None
                continue
            place |= {id(u): len(box.items) for u in members}
            if len(members) == 1:
                box.items.append(first.item)
                continue
            kinds = {u.item.kind for u in members if not u.leaf}
            inner = self._box(members, known, inner_depth)
            kind = kinds.pop() if len(kinds) == 1 else "state" if name == UPDATES else "forward"
            box.items.append(Item(kind, name, f"{inner.count()} nodes", name, inner))
        self._connect(box, units, known, place)
        return _bundled(box)

    def _has_many_readers(self, leaf: Unit, depth: int) -> bool:
        assert leaf.node is not None
        return len({u.path[: depth + 1] or id(u) for u in self.readers[leaf.node]}) > MOST_READERS

    def _groups(self, units: Sequence[Unit], depth: int) -> Iterator[tuple[str, list[Unit], int]]:
        """Units that share a box, with its name and the depth of what it holds. Units of one box
        follow each other in the order of the graph, so that no box needs itself. Variables and
        constants belong to what reads them first.
        """
        runs = _runs([u for u in units if not u.leaf], lambda u: next(iter(u.path[depth:]), None))
        if len(runs) > MANY:
            runs = [
                part
                for name, members in runs
                for part in ([(name, members)] if name else _runs(members, lambda u: u.line))
            ]
        chunked = len(runs) > MANY
        names = [name for name, _ in runs]
        if chunked:
            runs = _chunks(runs)
        home = {id(u): i for i, (_, members) in enumerate(runs) for u in members}
        added: dict[int, list[Unit]] = defaultdict(list)
        for leaf in (u for u in units if u.leaf):
            assert leaf.node is not None
            first = min([home[id(u)] for u in self.readers[leaf.node] if id(u) in home], default=-1)
            if first >= 0 and runs[first][0] and leaf.item.kind != "input":
                added[first].append(leaf)
            else:
                yield "", [leaf], depth
        for i, (name, members) in enumerate(runs):
            # A box that stands for several runs holds their boxes.
            yield name or "", [*added[i], *members], depth + (not chunked or name in names)

    def _connect(
        self, box: Box, units: Sequence[Unit], known: dict[Any, Unit], place: Places
    ) -> None:
        """The edges between the items of a box, and its ports."""
        inside = {id(u) for u in units}
        edges: dict[tuple[int, int, str], Edge] = {}
        for unit in units:
            target = place[id(unit)]
            if target is None:
                continue
            for i, t in enumerate(unit.operands):
                made = known.get(t.inputs[0] if t.op is OUTPUT else t)
                source = self._source(box, made, place, t, target)
                port = f"operand {i}" if box.items[target] is unit.item else self.key(t)
                if source != target and (source, target, port) not in edges:
                    kind = made.item.kind if made is not None else "forward"
                    label, key = spec_text(t.spec), self.key(t)
                    edges[source, target, port] = Edge(source, target, label, kind, key, port)
        box.edges += edges.values()
        for unit in units:
            at = place[id(unit)]
            for t in self._results(unit):
                if at is not None and any(id(u) not in inside for u in self.readers[t]):
                    end, label, key = len(box.items), spec_text(t.spec), self.key(t)
                    box.ports[f"out {key}"] = end
                    box.edges.append(Edge(at, end, label, unit.item.kind, key))
                    box.items.append(Item("out", "", tip=label))

    def _results(self, unit: Unit) -> Sequence[Tensor]:
        """The results of a unit that others may read."""
        node = unit.node
        if node is None:
            return ()
        return [*self.results[node]] if node.op is not None and node.op.multiple else (node,)

    def _source(self, box: Box, made: Unit | None, place: Places, t: Tensor, target: int) -> int:
        """The item that a tensor comes from: a port, if it comes from outside."""
        copied = made if made is not None and id(made) in place else None
        at = place[id(copied)] if copied is not None else None
        if at is not None:
            return at
        key = self.key(t) if copied is None else f"{target} {self.key(t)}"
        if key not in box.ports:
            box.ports[key] = len(box.items)
            item = Item("in", "", tip=spec_text(t.spec)) if copied is None else replace(copied.item)
            box.items.append(item)
        return box.ports[key]

    # --- loops and branches -----------------------------------------------------------------------

    def _loop(self, node: Tensor, graphs: dict[str, Graph], scopes: tuple[str, ...]) -> Box:
        """The box of a node that holds graphs: its body, or one box for each of its branches."""
        first, *others = graphs.values()
        skip = len(node.inputs) - len(first.inputs)
        if not others:
            return self._body(node, first, skip, scopes)
        box = Box()
        for i in range(skip, len(node.inputs)):
            box.ports[f"operand {i}"] = len(box.items)
            box.items.append(Item("in", "", tip=spec_text(node.inputs[i].spec)))
        for name, graph in graphs.items():
            body = self._body(node, graph, skip, scopes)
            place = len(box.items)
            box.items.append(Item("forward", name, f"{body.count()} nodes", name, body))
            for i in range(skip, len(node.inputs)):
                key = f"operand {i}"
                if key in body.ports:
                    label = spec_text(node.inputs[i].spec)
                    box.edges.append(Edge(box.ports[key], place, label, "forward", key, key))
        return box

    def _body(self, node: Tensor, graph: Graph, skip: int, scopes: tuple[str, ...]) -> Box:
        for i, t in enumerate(graph.inputs):
            self.keys[t] = f"operand {i + skip}"
        known = self._units(graph.outputs, graph.inputs, scopes)
        count = node.params.get("carry", 0) if node.op is scan_ else len(graph.outputs)
        for i, t in enumerate(graph.outputs):
            name = f"state {i}" if i < count and node.op is scan_ else f"result {i}"
            known[f"end {i}"] = Unit(Item("output", name, "", spec_text(t.spec)), [t])
        return self._all(known)


def _bundled(box: Box) -> Box:
    """The box with one port in the place of many that belong to the same items inside."""
    ends: dict[int, set[int]] = defaultdict(set)
    for e in box.edges:
        ends[e.source].add(e.target)
        ends[e.target].add(e.source)
    bundles: dict[Any, list[int]] = defaultdict(list)
    for i, item in enumerate(box.items):
        if item.kind in ("in", "out"):
            bundles[item.kind, frozenset(ends[i])].append(i)
    port = {
        i: bundle[0] for bundle in bundles.values() if len(bundle) > MOST_READERS for i in bundle
    }
    label = {i: f"{len(bundle)} tensors" for bundle in bundles.values() for i in bundle}
    kept = [i for i in range(len(box.items)) if port.get(i, i) == i]
    new = {i: kept.index(port.get(i, i)) for i in range(len(box.items))}
    for e in box.edges:
        bundled = [i for i in (e.source, e.target) if i in port]
        e.label = label[bundled[0]] if bundled else e.label
        e.source, e.target = new[e.source], new[e.target]
    box.items = [box.items[i] for i in kept]
    box.ports = {key: new[i] for key, i in box.ports.items()}
    return box


def _runs(units: Sequence[Unit], key: Callable[[Unit], str | None]) -> list[tuple[Any, list[Unit]]]:
    """The units in runs of equal keys, those without a key one by one."""
    runs: list[tuple[Any, list[Unit]]] = []
    for name, group in groupby(units, key):
        members = list(group)
        runs += [(None, [u]) for u in members] if name is None else [(name, members)]
    return runs


def _chunks(runs: list[tuple[Any, list[Unit]]]) -> list[tuple[Any, list[Unit]]]:
    """Runs put together so that a box holds no more than `MANY`."""
    size = max(2, -(-len(runs) // PARTS))
    parts = []
    for whole, members in groupby(runs, lambda run: run[0] in (GRADIENTS, UPDATES)):
        listed = list(members)
        step = 1 if whole else size
        parts += [listed[i : i + step] for i in range(0, len(listed), step)]
    chunks = []
    for part in parts:
        names = [name or members[0].line or members[0].item.title for name, members in part]
        title = names[0] if names[0] == names[-1] else f"{names[0]} … {names[-1]}"
        chunks.append((title, [u for _, members in part for u in members]))
    return chunks


def _kind(t: Tensor) -> str:
    if isinstance(t, Variable | Update):
        return "state"
    if isinstance(t, Placeholder | KeySource):
        return "input"
    if t.op is None:
        return "constant"
    return "gradient" if t.where is not None and t.where.gradient else "forward"


def _title(t: Tensor) -> str:
    if isinstance(t, Update):
        return f"update {t.variable.name}"
    if isinstance(t, Constant):
        return "constant"
    if t.op is None:
        return t.name if isinstance(t._name, str) else described(t)
    numbers = [f"{x.value.item():.4g}" if is_scalar(x) else "·" for x in t.inputs]
    return f"{t.op.name}({', '.join(numbers)})" if set(numbers) - {"·"} else t.op.name


def _detail(t: Tensor) -> str:
    """The parameters of a primitive; of a leaf, its dtype and shape."""
    if t.op is None:
        return spec_text(t.spec)
    shown = {
        k: v for k, v in t.params.items()
        if not isinstance(v, Graph) and k not in ("dtype", "shape", "style")
        and v is not False and v is not None
    }  # fmt: skip
    return ", ".join([f"{k}={v}" if v is not True else k for k, v in shown.items()])


def _tip(t: Tensor) -> str:
    lines = [f"{_title(t)}: {spec_text(t.spec)}", *([_detail(t)] if t.op is not None else [])]
    if t.where is not None:
        lines += ["in the gradient of"] * t.where.gradient
        lines += [f"{where.function}, {line_text(where)}" for where in t.where.chain()]
    return "\n".join([line for line in lines if line])
