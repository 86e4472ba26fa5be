"""Tensors in words, and pages with words."""

from __future__ import annotations

import os
import re
from importlib.resources.abc import Traversable
from typing import Any

from backplane.core.context import Where
from backplane.core.graph import Constant, KeySource, Placeholder, Tensor, is_scalar
from backplane.core.primitive import OUTPUT
from backplane.core.spec import Spec
from backplane.core.variable import Variable


def described(t: Tensor) -> str:
    """A description of a tensor: its kind and name, its number, or the primitive that gives it."""
    if isinstance(t, Constant):
        return f"the number {t.value.item():g}" if is_scalar(t) else "a constant"
    if t.op is not None:
        op = t.inputs[0].op if t.op is OUTPUT else t.op
        assert op is not None
        return f"result {t.params['index']} of {op.name}" if t.op is OUTPUT else op.name
    kinds = ((Variable, "variable"), (KeySource, "random key"), (Placeholder, "placeholder"))
    kind = next((word for known, word in kinds if isinstance(t, known)), "tensor")
    return f"{kind} {t.name!r}" if isinstance(t._name, str) else kind


def shape_text(spec: Spec) -> str:
    """A shape as `(?, 128)`."""
    sizes = ["?" if n is None else str(n) for n in spec.shape]
    return f"({', '.join(sizes)}{',' * (len(sizes) == 1)})"


def spec_text(spec: Any) -> str:
    """A dtype and a shape, or those of several results."""
    specs = [spec] if isinstance(spec, Spec) else spec
    return ", ".join([f"{s.dtype} {shape_text(s)}" for s in specs])


def line_text(where: Where | None, most: int = 0) -> str:
    """A line of the user's code by the name of its file, with at most so many letters of it."""
    if where is None:
        return "(no line)"
    text = where.text
    text = f"{text[:most]}…" if most and len(text) > most else text
    return f"{os.path.basename(where.filename)}:{where.line} {text}"


def size_text(count: float) -> str:
    """A number of bytes with a unit."""
    return in_unit(count, " B", " kB", " MB", " GB")


def count_text(count: float) -> str:
    """A large number in short, such as `1.5 M`."""
    return in_unit(count, "", " k", " M", " G", " T")


def in_unit(count: float, unit: str, *larger: str) -> str:
    """The number in the first of these units in which it is below 1000; each is 1000 times the one
    before.
    """
    if count < 1000 or not larger:
        return f"{count:.3g}{unit}"
    return in_unit(count / 1000, *larger)


class Text(str):
    """A text that consoles and notebooks show as it is."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(self)}</pre>"


def filled(page: Traversable, **parts: str) -> str:
    """The text of a page, with each part in the place of its name, as in `{{title}}`."""
    return re.sub(r"{{(\w+)}}", lambda name: parts[name[1]], page.read_text(encoding="utf-8"))
