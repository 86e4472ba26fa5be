"""`K.plot_graph`: a graph as an SVG, a PNG or a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from backplane.compile.function import Function
from backplane.compile.passes.prune import prune
from backplane.core.graph import Tensor
from backplane.core.spec import Spec
from backplane.ops.effects import Update
from backplane.project import library
from backplane.views.layout import Layout, laid_out, opened, placed
from backplane.views.page import page
from backplane.views.picture import svg
from backplane.views.scene import Box, Edge, Item, Scene
from backplane.views.words import spec_text

Root = tuple[Tensor, Item | None]


def roots_of_function(function: Function) -> list[Root]:
    """The outputs and updates of a function, with their marks."""
    whole = function.plan
    marks = [Item("output", f"output {i}") for i in range(len(whole.outputs))]
    marks += [Item("state", f"update {v.name}") for v in whole.updated]
    values = [t.inputs[0] if isinstance(t, Update) else t for t in whole.news]
    return _pruned([*whole.outputs, *values], marks)


def roots_of_tensors(tensors: Sequence[Tensor]) -> list[Root]:
    """Tensors, with marks where there are several."""
    several = len(tensors) > 1
    return _pruned(
        tensors, [Item("output", f"output {i}") if several else None for i in range(len(tensors))]
    )


def _pruned(tensors: Sequence[Tensor], marks: Sequence[Item | None]) -> list[Root]:
    """The roots, whose loops compute only what somebody reads."""
    return list(zip(prune(tensors), marks, strict=True))


def _as_svg(layout: Layout, title: str, most: int) -> bytes:
    return svg(placed(layout, opened(layout, most)), title).encode()


def _as_png(layout: Layout, title: str, most: int) -> bytes:
    resvg = library("resvg_py", "debug", "K.plot_graph needs a library for PNG")
    whole = placed(layout, opened(layout, most))
    # The width is limited, because a picture takes four bytes a pixel.
    sharp: dict[str, Any] = {"zoom": 2} if whole.width < MOST_PIXELS / 2 else {"width": MOST_PIXELS}
    return bytes(resvg.svg_to_bytes(svg_string=svg(whole, title), **sharp))


MOST_PIXELS = 8000


WRITERS: dict[str, Callable[[Layout, str, int], bytes]] = {
    ".svg": _as_svg,
    ".png": _as_png,
    ".html": lambda layout, title, most: page(layout, opened(layout, most), title).encode(),
}


class Picture(str):
    """An SVG, which notebooks show."""

    def __repr__(self) -> str:
        return f"<SVG of {len(self)} characters>"

    def _repr_svg_(self) -> str:
        return str(self)


def draw(roots: Sequence[Root], title: str, to_file: Any, most: int) -> Picture:
    """The picture of a graph as an SVG, also written to a file if one is named. ValueError for
    endings other than those of `WRITERS`.
    """
    return _drawn(lambda: Scene(roots).root, title, to_file, most)


def draw_model(outputs: Sequence[Any], title: str, to_file: Any, most: int) -> Picture:
    """The picture of a model of Keras 3, whose nodes are layers and operations."""
    return _drawn(lambda: _model(outputs), title, to_file, most)


def _drawn(build: Callable[[], Box], title: str, to_file: Any, most: int) -> Picture:
    ending = ".svg" if to_file is None else Path(to_file).suffix
    if ending not in WRITERS:
        known = ", ".join(WRITERS)
        raise ValueError(f"K.plot_graph: to_file must end in one of {known}, got {str(to_file)!r}")
    scene = laid_out(build())
    if to_file is not None:
        Path(to_file).write_bytes(WRITERS[ending](scene, title, most))
    return Picture(_as_svg(scene, title, most).decode())


def _model(outputs: Sequence[Any]) -> Box:
    """The operations that lead to KerasTensors, found by the history that Keras keeps in them."""
    box, place = Box(), dict[Any, int]()
    waiting = list(outputs)
    while waiting:
        operation, index, _ = waiting.pop()._keras_history
        if (operation, index) not in place:
            place[operation, index] = len(box.items)
            kind = "forward" if operation._inbound_nodes[index].input_tensors else "input"
            item = Item(kind, operation.name, type(operation).__name__, repr(operation))
            box.items.append(item)
            waiting += operation._inbound_nodes[index].input_tensors
    for (operation, index), target in place.items():
        for t in operation._inbound_nodes[index].input_tensors:
            source = place[t._keras_history[:2]]
            label = spec_text(Spec(tuple(t.shape), t.dtype))
            box.edges.append(Edge(source, target, label, box.items[source].kind))
    return box
