"""The page of a scene, in which boxes are folded and opened by a click."""

from __future__ import annotations

import html
import json
from importlib.resources import files
from typing import Any

from backplane.views import layout
from backplane.views.layout import Plan, item_width
from backplane.views.picture import COLORS, WORDS
from backplane.views.words import filled


def page(whole: Plan, opened: set[int], title: str) -> str:
    """One HTML file with everything in it."""
    data = {
        "plan": _described(whole, opened),
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


def _described(plan: Plan, opened: set[int]) -> dict[str, Any]:
    """A plan as plain lists and dictionaries."""
    items = []
    for i, (item, (x, y)) in enumerate(zip(plan.box.items, plan.places, strict=True)):
        made: dict[str, Any] = {
            "kind": item.kind, "title": item.title, "detail": item.detail, "tip": item.tip,
            "x": round(x, 1), "y": round(y, 1), "w": round(item_width(item), 1),
        }  # fmt: skip
        if i in plan.ways:
            made["way"] = _rounded(plan.ways[i])
        if i in plan.inner:
            made |= {"box": _described(plan.inner[i], opened), "open": id(item) in opened}
        items.append(made)
    edges = [
        {"s": e.source, "t": e.target, "label": e.label, "kind": e.kind,
         "sp": e.source_port, "tp": e.target_port, "bends": _rounded(bends)}
        for e, bends in zip(plan.box.edges, plan.bends, strict=True)
    ]  # fmt: skip
    return {
        "items": items, "edges": edges, "ports": plan.box.ports,
        "w": round(plan.width, 1), "h": round(plan.height, 1),
    }  # fmt: skip


def _rounded(points: list[tuple[float, float]]) -> list[list[float]]:
    return [[round(x, 1), round(y, 1)] for x, y in points]
