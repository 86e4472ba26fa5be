"""Flame graphs: nested times as boxes, each as wide as the time that it takes."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any, NamedTuple

from backplane.views.words import filled

WIDTH, ROW, LETTER, MARGIN = 1200, 22, 6.7, 12
"""Pixels: the picture, a row, a letter of the font, the margin."""

COLORS = ("#cfd8e3", "#f6d9a8", "#f2b880", "#e8986b", "#dd7a5f")
"""By depth: everything, scopes and lines, ops."""


class Part(NamedTuple):
    """A box of the flame graph."""

    name: str
    depth: int
    start: float
    seconds: float


def total(tree: Any) -> float:
    """The seconds of a part and of all that is in it."""
    return sum(map(total, tree.values())) if isinstance(tree, Mapping) else float(tree)


def parts(name: str, tree: Any, depth: int = 0, start: float = 0.0) -> Iterator[Part]:
    """The boxes of a tree, slowest first among neighbours."""
    yield Part(name, depth, start, total(tree))
    if isinstance(tree, Mapping):
        for child, inside in sorted(tree.items(), key=lambda item: -total(item[1])):
            yield from parts(child, inside, depth + 1, start)
            start += total(inside)


def flame_svg(tree: Mapping[str, Any], title: str) -> str:
    """The flame graph as an SVG."""
    rectangles = list(parts("all", tree))
    whole, depth = rectangles[0].seconds or 1.0, max(p.depth for p in rectangles) + 1
    scale = (WIDTH - 2 * MARGIN) / whole
    boxes = "".join([_box(p, scale, whole) for p in rectangles if p.seconds * scale >= 0.3])
    height = 2 * MARGIN + ROW * (depth + 1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="ui-monospace, DejaVu Sans Mono, monospace" font-size="11">'
        f'<rect width="100%" height="100%" fill="#ffffff"/>'
        f'<text x="{MARGIN}" y="{MARGIN + 10}" font-size="13" font-weight="bold" '
        f'font-family="Inter, DejaVu Sans, sans-serif">{html.escape(title)}</text>{boxes}</svg>'
    )


def _box(part: Part, scale: float, whole: float) -> str:
    x, width = MARGIN + part.start * scale, part.seconds * scale
    y = MARGIN + ROW * (part.depth + 1)
    letters = int((width - 8) / LETTER)
    text = part.name if len(part.name) <= letters else part.name[: max(letters - 1, 0)] + "…"
    label = f'<text x="{x + 4:.2f}" y="{y + 14}">{html.escape(text)}</text>' if letters >= 3 else ""
    told = f"{part.name}\n{part.seconds * 1e6:,.1f} µs, {part.seconds / whole:.1%}"
    color = COLORS[min(part.depth, len(COLORS) - 1)]
    return (
        f'<g class="part"><title>{html.escape(told)}</title><rect x="{x:.2f}" y="{y}" '
        f'width="{max(width - 0.6, 0.3):.2f}" height="{ROW - 1.5}" rx="2" fill="{color}"/>'
        f"{label}</g>"
    )


def flame_html(tree: Mapping[str, Any], title: str) -> str:
    """The flame graph as a page of its own, in which a click enlarges a box."""
    page = files("backplane.views") / "flame.html"
    return filled(page, title=html.escape(title), svg=flame_svg(tree, title))
