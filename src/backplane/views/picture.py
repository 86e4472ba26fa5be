"""The SVG of a scene."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

from backplane.views.layout import HEIGHT, TITLE, Placed, Point
from backplane.views.scene import Edge, Item

COLORS = {
    "forward": ("#e8effb", "#4a74b8"),
    "gradient": ("#fdeee0", "#cf7a2c"),
    "state": ("#e3f4e8", "#35915a"),
    "input": ("#efe9fa", "#7a5cb5"),
    "constant": ("#f0f1f3", "#7b858f"),
    "output": ("#fdf3c9", "#a8891a"),
}
"""By kind of item: the inside and the border."""

WORDS = {
    "input": "input", "state": "state", "forward": "forward", "gradient": "gradient",
    "output": "output",
}  # fmt: skip
LEGEND = 34.0


def svg(whole: Placed, title: str) -> str:
    """The picture, with a legend below it."""
    width, height = max(whole.width, 520.0), whole.height + LEGEND
    dx = (width - whole.width) / 2
    body = "".join(_box(whole, dx, 0.0))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img" '
        f'font-family="Inter, system-ui, DejaVu Sans, sans-serif" font-size="12">'
        f"<title>{html.escape(title)}</title>"
        f'<rect width="100%" height="100%" rx="6" fill="#ffffff"/>{body}'
        f"{''.join(_legend(whole.height + 12))}</svg>"
    )


def _legend(y: float) -> Iterator[str]:
    x = 18.0
    for kind, word in WORDS.items():
        fill, line = COLORS[kind]
        yield (
            f'<rect x="{x}" y="{y}" width="12" height="12" rx="3" fill="{fill}" stroke="{line}"/>'
            f'<text x="{x + 18}" y="{y + 10}" font-size="11" fill="#4a5561">{word}</text>'
        )
        x += 34 + 6.4 * len(word)


def _box(box: Placed, x: float, y: float) -> Iterator[str]:
    """The contents of a box with this upper left corner: edges, then open boxes, then items."""
    items = box.layout.box.items
    edges = zip(box.layout.box.edges, box.bends, strict=True)
    yield from dict.fromkeys([_edge(box, edge, bends, x, y) for edge, bends in edges])
    for i, inner in box.inner.items():
        cx, cy, width, height = box.rects[i]
        left, top = x + cx - width / 2, y + cy - height / 2
        yield _frame(items[i], left, top, width, height)
        yield from _box(inner, left, top)
    for i, way in box.ways.items():
        yield _way(box, i, way, x, y)
    yield from _labels(box, x, y)
    for i, item in enumerate(items):
        if i not in box.inner:
            yield _item(item, x + box.rects[i][0], y + box.rects[i][1], box.rects[i][2])


def _frame(item: Item, left: float, top: float, width: float, height: float) -> str:
    fill, line = COLORS[item.kind]
    return (
        f'<g><title>{html.escape(item.tip)}</title><rect x="{left:.1f}" y="{top:.1f}" '
        f'width="{width:.1f}" height="{height:.1f}" rx="9" fill="{fill}" fill-opacity="0.38" '
        f'stroke="{line}" stroke-opacity="0.55" stroke-dasharray="5 3"/>'
        f'<text x="{left + 12:.1f}" y="{top + TITLE - 8:.1f}" font-weight="600" fill="{line}">'
        f"{html.escape(_short(item.title, width - 24))}</text></g>"
    )


def _short(text: str, width: float) -> str:
    letters = max(int(width / 6.9), 3)
    return text if len(text) <= letters else text[: letters - 1] + "…"


def _item(item: Item, x: float, y: float, width: float) -> str:
    if item.kind in ("in", "out"):
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" fill="#8a95a1"/>'
    fill, line = COLORS[item.kind]
    left, top, folded = x - width / 2, y - HEIGHT / 2, item.box is not None
    behind = (
        f'<rect x="{left + 3:.1f}" y="{top + 3:.1f}" width="{width:.1f}" height="{HEIGHT}" rx="7" '
        f'fill="{fill}" stroke="{line}" stroke-opacity="0.6"/>'
        if folded
        else ""
    )
    title, detail = _short(item.title, width - 12), _short(item.detail, (width - 10) * 1.14)
    shift = -3.5 if item.detail else 4.0
    lower = (
        f'<text x="{x:.1f}" y="{y + 11:.1f}" text-anchor="middle" font-size="10" '
        f'fill="#5c6874">{html.escape(detail)}</text>'
        if item.detail
        else ""
    )
    return (
        f'<g><title>{html.escape(item.tip)}</title>{behind}<rect x="{left:.1f}" y="{top:.1f}" '
        f'width="{width:.1f}" height="{HEIGHT}" rx="7" fill="{fill}" stroke="{line}"/>'
        f'<text x="{x:.1f}" y="{y + shift:.1f}" text-anchor="middle" '
        f'font-weight="{600 if folded else 500}" fill="#1f2a36">{html.escape(title)}</text>'
        f"{lower}</g>"
    )


def _curve(points: Sequence[Point], kind: str, arrow: bool) -> str:
    """A smooth line through points, vertical at each of them."""
    (x, y), *rest = points
    parts = [f"M{x:.1f} {y:.1f}"]
    for u, v in rest:
        middle = (y + v) / 2
        parts.append(f"C{x:.1f} {middle:.1f} {u:.1f} {middle:.1f} {u:.1f} {v:.1f}")
        x, y = u, v
    line = COLORS[kind][1]
    tip = f"M{x - 3.4:.1f} {y - 6.5:.1f}L{x:.1f} {y:.1f}L{x + 3.4:.1f} {y - 6.5:.1f}Z"
    head = f'<path d="{tip}" fill="{line}"/>'
    return (
        f'<path d="{"".join(parts)}" fill="none" stroke="{line}" stroke-opacity="0.75" '
        f'stroke-width="1.3"/>{head if arrow else ""}'
    )


def _edge(box: Placed, edge: Edge, bends: Sequence[Point], x: float, y: float) -> str:
    start, end = box.ends(edge)
    points = [start, *bends, end]
    target = box.layout.box.items[edge.target]
    curve = _curve([(x + u, y + v) for u, v in points], edge.kind, target.kind != "out")
    return f"<g><title>{html.escape(edge.label)}</title>{curve}</g>"


def _labels(box: Placed, x: float, y: float) -> Iterator[str]:
    """The dtypes and shapes of tensors, where they leave nodes, or arrive from a folded box."""
    labels: dict[Point, str] = {}
    ports: dict[int, set[str]] = {}
    for edge in box.layout.box.edges:
        ports.setdefault(edge.source, set()).add(edge.source_port)
    for edge in box.layout.box.edges:
        if box.layout.box.items[edge.source].kind == "in":
            continue
        (x1, y1), (x2, y2) = box.ends(edge)
        arriving = len(ports[edge.source]) > 1 and edge.source not in box.inner
        labels.setdefault((x2 + 7, y2 - 9) if arriving else (x1 + 6, y1 + 12), edge.label)
    for (u, v), label in labels.items():
        yield (
            f'<text x="{x + u:.1f}" y="{y + v:.1f}" font-size="9.5" fill="#4a5561" '
            f'stroke="#ffffff" stroke-width="3" paint-order="stroke">{html.escape(label)}</text>'
        )


def _way(box: Placed, i: int, way: Sequence[Point], x: float, y: float) -> str:
    """The line between a port and the border of its box."""
    px, py = box.rects[i][:2]
    if box.layout.box.items[i].kind == "in":
        points = [*way, (px, py)]
        points = [(points[0][0], 0.0), *points]
    else:
        points = [(px, py), *way]
        points = [*points, (points[-1][0], box.height)]
    return _curve([(x + u, y + v) for u, v in points], "constant", False)
