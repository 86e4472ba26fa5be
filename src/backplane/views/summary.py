"""`f.summary()`: what a function takes, gives, keeps and costs."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from backplane.compile.plan import Plan
from backplane.compile.stepwise import as_built
from backplane.core.graph import Tensor, nested, toposort
from backplane.core.primitive import OUTPUT
from backplane.core.shapes import elements
from backplane.views.costs import flops, peak, size
from backplane.views.words import Text, count_text, described, shape_text, size_text


def rendered(*parts: Any) -> Text:
    """A renderable of rich, as plain text."""
    console = Console(width=100, color_system=None, force_terminal=False, file=io.StringIO())
    with console.capture() as capture:
        for part in parts:
            console.print(part, highlight=False, markup=False)
    return Text("\n".join([line.rstrip() for line in capture.get().splitlines()]))


def summary(plan: Plan, unknown: int = 1) -> Text:
    """The summary of a function. Unknown sizes count as `unknown`."""
    outputs = as_built([*plan.outputs, *plan.news], plan.defaults)
    order = toposort(outputs)
    nodes = _computed(order)
    table = Table("", "name", "shape", "dtype", box=box.SIMPLE, pad_edge=False)
    groups = (
        ("input", plan.inputs, True),
        ("output", plan.outputs, False),
        ("state", plan.variables, True),
    )
    updated = set(plan.updated)
    for kind, tensors, named in groups:
        for i, t in enumerate(tensors):
            name = t.name if named else described(t)
            what = "updated state" if t in updated else kind
            table.add_row(
                what if len(tensors) == 1 else f"{what} {i}", name, shape_text(t.spec), t.dtype
            )
    kinds = Counter([t.op.name for t in _computed(nested(order)) if t.op is not None])
    weights = [v for v in plan.variables if v.trainable]
    state = sum(size(v.spec, unknown) for v in plan.variables)
    facts = Table(box=None, show_header=False, pad_edge=False)
    most = ", ".join([f"{n} {k}" for k, n in kinds.most_common(8)]) + ", …" * (len(kinds) > 8)
    count = len(plan.variables)
    held = f"{_count(plan.variables, unknown):,} in {count} variable{'s' * (count != 1)}"
    rows = {
        "nodes": f"{sum(kinds.values())}: {most}",
        "gradients": f"{sum(bool(t.where and t.where.gradient) for t in nodes)} of these nodes",
        "parameters": f"{held}, {_count(weights, unknown):,} trainable, {size_text(state)}",
        "results": f"{size_text(peak(order, outputs, unknown))} at most at one time",
        "work": f"{count_text(sum(flops(t, unknown) for t in nodes))} FLOPs a call",
    }
    for name, text in rows.items():
        facts.add_row(name, text)
    title = f"{plan.name}, for the engine {plan.engine.name}"
    note = f"Results and work are estimates; unknown sizes (?) count as {unknown}."
    return rendered(title, table, facts, "", note)


def _computed(nodes: Iterable[Tensor]) -> list[Tensor]:
    return [t for t in nodes if t.op is not None and t.op is not OUTPUT]


def _count(tensors: Sequence[Tensor], unknown: int) -> int:
    return sum([elements(t.spec.shape, unknown) for t in tensors])
