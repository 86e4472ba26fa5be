"""Places for the items of a scene.

A library for layered graphs puts the items of each box into rows while everything in it is folded.
A box that is open makes its row higher and moves aside what is beside it. Rows, and the order in
them, stay. Everything comes as near to what it is linked with as the space allows. The page of
`K.plot_graph` does the same when somebody clicks.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from backplane.project import library
from backplane.views.scene import Box, Edge, Item

LETTER, HEIGHT, ROW, LOW, GAP, TITLE, PAD = 6.6, 38.0, 88.0, 40.0, 22.0, 26.0, 18.0
"""Pixels: a letter, an item, from row to row, from a row without items to the next, between items,
the title of an open box, around its items."""

Point = tuple[float, float]


@dataclass(slots=True)
class Layout:
    """The places in one box of folded boxes: items, bends of edges, and the ways of ports."""

    box: Box
    places: list[Point]
    bends: list[list[Point]]
    ways: dict[int, list[Point]]
    width: float
    height: float
    inner: dict[int, Layout] = field(default_factory=dict)


def item_width(item: Item) -> float:
    """The width of a folded item."""
    if item.kind in ("in", "out"):
        return 8.0
    letters = max(len(item.title) + 3 * (item.box is not None), len(item.detail) * 0.86, 6)
    return min(letters, 30) * LETTER + 20


def laid_out(box: Box) -> Layout:
    """Lay out a box and all boxes in it."""
    count = len(box.items)
    top, bottom = count, count + 1
    pairs = list(dict.fromkeys([(e.source, e.target) for e in box.edges]))
    ins = [i for i, item in enumerate(box.items) if item.kind == "in"]
    outs = [i for i, item in enumerate(box.items) if item.kind == "out"]
    pairs += [(top, i) for i in ins] + [(i, bottom) for i in outs]
    column = max([item_width(item) for item in box.items], default=60.0) + GAP
    found, bends = _library(_acyclic(pairs), column)
    lonely = [i for i in range(count) if i not in found]
    lowest = max((y for _, y in found.values()), default=-1.0)
    for k, i in enumerate(lonely):
        found[i] = (k % 8 * column, (lowest + 1 + k // 8) * 1.0)
    shown = {i: p for i, p in found.items() if i < count}
    points = [*shown.values(), *[p for path in bends.values() for p in path]]
    left = min((p[0] for p in points), default=0.0)
    rows = _rows(points, [p[1] for i, p in shown.items() if box.items[i].kind not in ("in", "out")])

    def pixel(p: Point) -> Point:
        return p[0] - left + column / 2, rows[p[1]]

    places = [pixel(shown[i]) for i in range(count)]
    edges = [[pixel(p) for p in bends.get((e.source, e.target), ())] for e in box.edges]
    ways = {i: [pixel(p) for p in bends.get((top, i), ())] for i in ins}
    ways |= {i: [pixel(p) for p in bends.get((i, bottom), ())] for i in outs}
    width = max((pixel(p)[0] for p in points), default=0.0) + column / 2
    height = max(rows.values(), default=0.0) + HEIGHT / 2
    inner = {i: laid_out(item.box) for i, item in enumerate(box.items) if item.box is not None}
    return Layout(box, places, edges, ways, width, height, inner)


def _rows(points: Sequence[Point], full: Iterable[float]) -> dict[float, float]:
    """The heights of the middles of layers. A layer without items is low."""
    high, y, rows = set(full), HEIGHT / 2, dict[float, float]()
    for layer in sorted({p[1] for p in points}):
        rows[layer] = y
        y += ROW if layer in high else LOW
    return rows


def _library(
    pairs: Sequence[tuple[int, int]], column: float
) -> tuple[dict[int, Point], dict[tuple[int, int], list[Point]]]:
    """Places in layers, counted from the top, and the bends of long edges, from the library."""
    sugiyama = library("fast_sugiyama", "debug", "K.plot_graph needs a library for layouts")
    middles: dict[int, Point] = {}
    bends: dict[tuple[int, int], list[Point]] = {}
    if not pairs:
        return middles, bends
    layouts: Any = sugiyama.from_edges(
        pairs, minimum_length=1, vertex_spacing=1.0, dummy_vertices=True, dummy_size=0.1,
        ranking_type="minimize", crossing_minimization="barycenter", transpose=True,
        check_layout=False,
    )  # fmt: skip
    start = 0.0
    known = {i for pair in pairs for i in pair}
    for places, _, _, edges in layouts:
        highest = max(y for _, (_, y) in places)
        here = {i: (start + x * column, highest - y) for i, (x, y) in places}
        start = max(x for x, _ in here.values()) + column
        middles |= {i: p for i, p in here.items() if i in known}
        follow = {a: b for a, b in edges or () if a not in known}
        for a, b in edges or ():
            path, end = [], b
            while a in known and end not in known:
                path.append(here[end])
                end = follow[end]
            if path:
                bends[a, end] = path
    return middles, bends


def _acyclic(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The pairs without those that lead back: boxes may need each other in both directions."""
    following: dict[int, list[int]] = {}
    waiting: dict[int, int] = {}
    for a, b in pairs:
        following.setdefault(a, []).append(b)
        waiting[b] = waiting.get(b, 0) + 1
        waiting.setdefault(a, 0)
    ready = deque([i for i, n in waiting.items() if n == 0])
    rank: dict[int, int] = {}
    while len(rank) < len(waiting):
        if not ready:
            ready.append(next(i for i in waiting if i not in rank))
        i = ready.popleft()
        if i in rank:
            continue
        rank[i] = len(rank)
        for b in following.get(i, ()):
            waiting[b] -= 1
            if waiting[b] == 0:
                ready.append(b)
    return [(a, b) for a, b in pairs if rank[a] < rank[b]]


# --- open boxes -----------------------------------------------------------------------------------


class Stretch:
    """A map of one axis that makes intervals longer: each (start, end, wanted length)."""

    def __init__(self, intervals: Iterable[tuple[float, float, float]]) -> None:
        listed = list(intervals)
        self.cuts = sorted({x for start, end, _ in listed for x in (start, end)})
        self.values: list[float] = []
        self.factors: list[float] = []
        at = self.cuts[0] if self.cuts else 0.0
        for a, b in zip(self.cuts, [*self.cuts[1:], math.inf], strict=False):
            inside = [(n / (end - start)) for start, end, n in listed if start <= a < end]
            self.values.append(at)
            self.factors.append(max([1.0, *inside]))
            at += (b - a) * self.factors[-1]

    def __call__(self, x: float) -> float:
        """The new position of a place on the axis."""
        i = bisect_right(self.cuts, x) - 1
        return x if i < 0 else self.values[i] + (x - self.cuts[i]) * self.factors[i]


@dataclass(slots=True)
class Placed:
    """A box with its open boxes: sizes and middles in pixels from its upper left corner."""

    layout: Layout
    width: float
    height: float
    rects: list[tuple[float, float, float, float]]
    """Of each item: the middle, the width and the height."""
    bends: list[list[Point]]
    ways: dict[int, list[Point]]
    inner: dict[int, Placed]

    def port(self, key: str) -> float | None:
        """The position of a port on the border; None if there is no such port."""
        i = self.layout.box.ports.get(key)
        if i is None:
            return None
        way, middle = self.ways.get(i, []), self.rects[i][0]
        return middle if not way else way[0 if self.layout.box.items[i].kind == "in" else -1][0]

    def end(self, i: int, key: str, below: bool) -> Point:
        """The place where a line leaves an item below, or arrives above it: at its port, if the
        item is an open box.
        """
        x, y, width, height = self.rects[i]
        port = self.inner[i].port(key) if i in self.inner else None
        return (x if port is None else x - width / 2 + port), y + height * (below - 0.5)

    def ends(self, edge: Edge) -> tuple[Point, Point]:
        """The places where an edge starts and ends."""
        start = self.end(edge.source, f"out {edge.source_port}", True)
        return start, self.end(edge.target, edge.target_port, False)


def placed(layout: Layout, opened: set[int], root: bool = True) -> Placed:
    """Make room in a layout for the boxes that are open, which `opened` names by `id`."""
    box = layout.box
    inner = {
        i: placed(p, opened, False) for i, p in layout.inner.items() if id(box.items[i]) in opened
    }
    sizes = [_size(item, inner.get(i)) for i, item in enumerate(box.items)]
    reach = _reach(layout, inner, [width for width, _ in sizes])
    across = _across(layout, inner, reach)
    rows = [(layout.places[i][1], inner[i].height) for i in inner]
    down = Stretch([(y - HEIGHT / 2, y + HEIGHT / 2, height) for y, height in rows])
    dy = PAD if root else TITLE + PAD + 8

    def row(y: float) -> Point:
        return down(y - HEIGHT / 2) + dy, down(y + HEIGHT / 2) + dy

    def moved(path: Sequence[Point]) -> list[Point]:
        return [(across[p] + PAD, y) for p in path for y in row(p[1])]

    rects = [
        (across[i] + PAD, sum(row(y)) / 2, *size)
        for i, ((_, y), size) in enumerate(zip(layout.places, sizes, strict=True))
    ]

    def along(i: int, x: float, below: bool) -> list[Point]:
        """The line from an item to the edge of its row, if a box beside it makes the row higher."""
        _, y, _, height = rects[i]
        edge = row(layout.places[i][1])[below]
        return [(x, edge)] if abs(edge - y) > max(height, HEIGHT) / 2 + 1 else []

    ways = {i: moved(path) for i, path in layout.ways.items()}
    ends = [across[i] + right for i, (_, right) in enumerate(reach)]
    ends += [x for key, x in across.items() if isinstance(key, tuple)]
    width = max(ends, default=0.0) + 2 * PAD
    height = down(layout.height) + dy + PAD + (0 if root else 8)
    made = Placed(layout, width, height, rects, [], ways, inner)
    for e, path in zip(box.edges, layout.bends, strict=True):
        (start, _), (end, _) = made.ends(e)
        made.bends.append(
            [*along(e.source, start, True), *moved(path), *along(e.target, end, False)]
        )
    return made


def _size(item: Item, inside: Placed | None) -> tuple[float, float]:
    if inside is not None:
        return inside.width, inside.height
    return item_width(item), 8.0 if item.kind in ("in", "out") else HEIGHT


Key = int | Point
"""An entry of a row: the number of an item, or a bend of an edge as the layout has it."""


def _reach(
    layout: Layout, inner: dict[int, Placed], widths: Sequence[float]
) -> list[tuple[float, float]]:
    """The reach of each item to the left and right, with what is written below it."""
    letters = dict.fromkeys(range(len(widths)), 0)
    for e in layout.box.edges:
        i = e.target if layout.box.items[e.target].kind == "out" else e.source
        if i not in inner and layout.box.items[i].kind != "in":
            letters[i] = max(letters[i], len(e.label))
    return [(w / 2, max(w / 2, letters[i] * SMALL_LETTER)) for i, w in enumerate(widths)]


SMALL_LETTER, SWEEPS = 5.4, 17
"""Pixels of a letter beside an edge, and how often items move towards what they are linked with."""


def _across(
    layout: Layout, inner: dict[int, Placed], reach: Sequence[tuple[float, float]]
) -> dict[Key, float]:
    """The middle of each item and bend on the horizontal axis, from 0 on.

    Items go to the mean of what they are linked with above them, then below, and so on. In a row,
    each moves as little from there as the others allow.
    """
    links = _links(layout, inner)
    x: dict[Key, float] = {i: place[0] for i, place in enumerate(layout.places)}
    x |= {p: p[0] for path in [*layout.bends, *layout.ways.values()] for p in path}
    sides = {k: reach[k] if isinstance(k, int) else (0.0, 0.0) for k in x}
    rows: dict[float, list[Key]] = {}
    for key in sorted(x, key=x.__getitem__):
        y = layout.places[key][1] if isinstance(key, int) else key[1]
        rows.setdefault(y, []).append(key)
    layers = [rows[y] for y in sorted(rows)]
    for sweep in range(SWEEPS):
        # The last sweep puts everything between what is above and what is below.
        looking = links if sweep == SWEEPS - 1 else (links[sweep % 2],)
        for row in layers if sweep % 2 == 0 else reversed(layers):
            wanted = []
            for key in row:
                near = [x[other] + by for side in looking for other, by in side.get(key, ())]
                wanted.append(sum(near) / len(near) if near else x[key])
            x.update(zip(row, _apart(wanted, [sides[key] for key in row]), strict=True))
    left = min([x[key] - sides[key][0] for key in x], default=0.0)
    return {key: place - left for key, place in x.items()}


Links = dict[Key, list[tuple[Key, float]]]


def _links(layout: Layout, inner: dict[int, Placed]) -> tuple[Links, Links]:
    """The links of each item and bend to those above and below it, and the distance to the right
    that each wants: lines meet open boxes at ports, not at their middles.
    """

    def off(i: int, key: str) -> float:
        at = inner[i].port(key) if i in inner else None
        return 0.0 if at is None else at - inner[i].width / 2

    above, below = Links(), Links()
    chains: list[tuple[list[Key], float, float]] = []
    for e, bends in zip(layout.box.edges, layout.bends, strict=True):
        if layout.places[e.source][1] < layout.places[e.target][1]:
            start, end = off(e.source, f"out {e.source_port}"), off(e.target, e.target_port)
            chains.append(([e.source, *bends, e.target], start, end))
    for i, way in layout.ways.items():
        entering = layout.box.items[i].kind == "in"
        chains.append(([*way, i] if entering else [i, *way], 0.0, 0.0))
    for chain, start, end in chains:
        for n, (a, b) in enumerate(itertools.pairwise(chain)):
            by = (start if n == 0 else 0.0) - (end if n == len(chain) - 2 else 0.0)
            above.setdefault(b, []).append((a, by))
            below.setdefault(a, []).append((b, -by))
    return above, below


def _apart(wanted: Sequence[float], reach: Sequence[tuple[float, float]]) -> list[float]:
    """The places in a row that are nearest to the wanted ones, by squares, and keep order and room.

    It is isotonic regression: neighbours that come too near are pooled.
    """
    rooms = [a[1] + b[0] + GAP for a, b in itertools.pairwise(reach)]
    offsets = [0.0, *itertools.accumulate(rooms)]
    pools: list[tuple[float, int]] = []  # sum and count
    for place, offset in zip(wanted, offsets, strict=True):
        total, count = place - offset, 1
        while pools and pools[-1][0] / pools[-1][1] > total / count:
            total, count = total + pools[-1][0], count + pools[-1][1]
            pools.pop()
        pools.append((total, count))
    means = [total / count for total, count in pools for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]


def opened(layout: Layout, most: int) -> set[int]:
    """The boxes to open so that about `most` items are seen: outer and small ones first."""
    found: set[int] = set()
    seen, level = len(layout.box.items), [layout]
    while level:
        boxes: list[Any] = sorted(
            [(len(p.box.items), i, p, parent) for parent in level for i, p in parent.inner.items()],
            key=lambda row: row[0],
        )
        level = []
        for count, i, p, parent in boxes:
            if seen + count <= most:
                seen += count
                found.add(id(parent.box.items[i]))
                level.append(p)
    return found
