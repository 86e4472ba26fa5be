"""The page of a scene, in which boxes are folded and opened by a click."""

from __future__ import annotations

import html
import json
from importlib.resources import files
from typing import Any

from backplane.views import layout
from backplane.views.layout import Layout, item_width
from backplane.views.picture import COLORS, WORDS
from backplane.views.words import filled


def page(whole: Layout, opened: set[int], title: str) -> str:
    """One HTML file with everything in it."""
    data = {
        "layout": _described(whole, opened),
        "colors": COLORS,
        "words": WORDS,
        "sizes": {
            name: getattr(layout, name.upper())
            for name in ("height", "gap", "title", "pad", "small_letter", "sweeps")
        },
    }
    # No text of the graph can end the script.
    made = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
    text = files("backplane.views") / "graph.html"
    return filled(text, title=html.escape(title), data=made)


def _described(laid: Layout, opened: set[int]) -> dict[str, Any]:
    """A layout as plain lists and dictionaries."""
    items = []
    for i, (item, (x, y)) in enumerate(zip(laid.box.items, laid.places, strict=True)):
        made: dict[str, Any] = {
            "kind": item.kind, "title": item.title, "detail": item.detail, "tip": item.tip,
            "x": round(x, 1), "y": round(y, 1), "w": round(item_width(item), 1),
        }  # fmt: skip
        if i in laid.ways:
            made["way"] = _rounded(laid.ways[i])
        if i in laid.inner:
            made |= {"box": _described(laid.inner[i], opened), "open": id(item) in opened}
        items.append(made)
    edges = [
        {"s": e.source, "t": e.target, "label": e.label, "kind": e.kind,
         "sp": e.source_port, "tp": e.target_port, "bends": _rounded(bends)}
        for e, bends in zip(laid.box.edges, laid.bends, strict=True)
    ]  # fmt: skip
    return {
        "items": items, "edges": edges, "ports": laid.box.ports,
        "w": round(laid.width, 1), "h": round(laid.height, 1),
    }  # fmt: skip


def _rounded(points: list[tuple[float, float]]) -> list[list[float]]:
    return [[round(x, 1), round(y, 1)] for x, y in points]
