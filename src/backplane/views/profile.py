"""`f.profile()`: the time and memory of each op, user line and name scope."""

from __future__ import annotations

import json
import timeit
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from rich import box
from rich.table import Table

from backplane.compile import passes
from backplane.compile.function import Function
from backplane.compile.stepwise import Step, Stepper, call_stepwise
from backplane.core.graph import Tensor
from backplane.core.variable import Variable, arrays, assign
from backplane.engines.base import Engine
from backplane.views.costs import size
from backplane.views.flame import flame_html, flame_svg
from backplane.views.summary import rendered
from backplane.views.words import in_unit, line_text, size_text, spec_text

MOST_ROWS = 15


class Record(NamedTuple):
    """One run of one op."""

    op: str
    line: str
    scope: tuple[str, ...]
    seconds: float
    bytes: int
    """The size of its results."""
    result: str
    """Their dtypes and shapes."""
    where: str


class Profile:
    """The result of `f.profile`. Printed, it shows three tables.

    Attributes:
        records: One for each run of an op in a call: its name, the user's line, name scope, the
            shortest time that it took, in seconds, and the bytes of its results.
        call: The seconds of a whole call, compiled as usual.
    """

    def __init__(self, name: str, engine: str, fuses: bool) -> None:
        self.name, self.engine, self.fuses = name, engine, fuses
        self.records: list[Record] = []
        self.call = 0.0

    @property
    def seconds(self) -> float:
        """The seconds of all ops of one call, one by one."""
        return sum([r.seconds for r in self.records])

    def by(self, key: str) -> list[tuple[str, int, float, int]]:
        """The records grouped by `"op"`, `"line"` or `"scope"` (else ValueError), slowest first:
        (group, runs in a call, seconds in a call, bytes of the results in a call).
        """
        if key not in ("op", "line", "scope"):
            raise ValueError(f"Profile.by: key must be 'op', 'line' or 'scope', got {key!r}")
        groups: dict[str, list[Record]] = {}
        for r in self.records:
            name = "/".join(r.scope) or "(no scope)" if key == "scope" else getattr(r, key)
            groups.setdefault(name, []).append(r)
        rows = [
            (name, len(group), sum(r.seconds for r in group), sum(r.bytes for r in group))
            for name, group in groups.items()
        ]
        return sorted(rows, key=lambda row: -row[2])

    def __str__(self) -> str:
        note = f"{self.name} on the engine {self.engine}: {_time(self.call)} a call. "
        fused = "The engine fuses ops in a call; here each" if self.fuses else "Here each op"
        note += f"{fused} ran by itself, {_time(self.seconds)} in all."
        return str(rendered(note, *[self._table(key) for key in ("op", "line", "scope")]))

    __repr__ = __str__

    def _table(self, key: str) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column(key, no_wrap=True, max_width=52)
        for heading in ("runs", "time", "share", "results"):
            table.add_column(heading, justify="right", no_wrap=True)
        rows, total = self.by(key), self.seconds or 1.0
        for name, runs, seconds, count in rows[:MOST_ROWS]:
            share = f"{seconds / total:.1%}"
            table.add_row(name, str(runs), _time(seconds), share, size_text(count))
        if rest := rows[MOST_ROWS:]:
            seconds = sum([row[2] for row in rest])
            table.add_row(f"{len(rest)} more", "", _time(seconds), f"{seconds / total:.1%}", "")
        return table

    def _repr_html_(self) -> str:
        return flame_svg(self._tree(), self._title())

    def _title(self) -> str:
        return f"{self.name} on {self.engine}, op by op: {_time(self.seconds)}"

    def _tree(self) -> dict[str, Any]:
        """Seconds by scope, line and op, each inside the one before."""
        tree: dict[str, Any] = {}
        for r in self.records:
            inside = tree
            for part in (*r.scope, r.line):
                inside = inside.setdefault(part, {})
            inside[r.op] = inside.get(r.op, 0.0) + r.seconds
        return tree

    def flame(self, to_file: Any) -> None:
        """Write a flame graph: scopes, user lines and ops, as wide as the time that they take.

        Args:
            to_file: Path that ends in `.svg` or `.html`. In the HTML page a click enlarges a part.

        Raises:
            ValueError: for another ending.
        """
        path = Path(to_file)
        writers = {".svg": flame_svg, ".html": flame_html}
        if path.suffix not in writers:
            raise ValueError(f"Profile.flame: to_file must end in .svg or .html, got {str(path)!r}")
        path.write_text(writers[path.suffix](self._tree(), self._title()), encoding="utf-8")

    def trace(self, to_file: Any) -> None:
        """Write the ops in their order, as JSON in Chrome's trace format. Perfetto
        (ui.perfetto.dev), Chrome (chrome://tracing) and Speedscope open it.

        Args:
            to_file: Path, which by custom ends in `.json`.
        """
        starts = accumulate((r.seconds for r in self.records), initial=0.0)
        events = [
            {
                "name": r.op, "cat": "/".join(r.scope) or "op", "ph": "X", "pid": 1, "tid": 1,
                "ts": round(start * 1e6, 3), "dur": round(r.seconds * 1e6, 3),
                "args": {"line": r.where, "result": r.result, "bytes": r.bytes},
            }
            for r, start in zip(self.records, starts, strict=False)
        ]  # fmt: skip
        name = {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": self._title()}}
        text = json.dumps({"traceEvents": [name, *events], "displayTimeUnit": "ms"}, indent=0)
        Path(to_file).write_text(text, encoding="utf-8")


def profile(function: Function, values: Sequence[Any], repeat: int) -> Profile:
    """Profile a call. Variables and random numbers are afterwards as they were before."""
    plan = function.plan
    engine = plan.engine
    made = Profile(plan.name, engine.name, "fuses" in engine.capabilities)
    runs: list[list[Record]] = []

    def watch(step: Step) -> None:
        if step.node.op is not None:
            runs[-1].append(_record(step, engine))

    def optimized(outputs: Sequence[Tensor], replace: Mapping[Tensor, Tensor]) -> list[Tensor]:
        return passes.optimized(outputs, passes.Job(engine, replace)).outputs

    touched: list[Variable] = list(dict.fromkeys([*plan.variables, *plan.updated]))
    before, counters = arrays(touched), [key.counter for key in plan.keys]
    try:
        made.call = _whole(function, values, repeat)
        stepper = Stepper(engine, watch)
        for _ in range(repeat + 1):
            runs.append([])
            call_stepwise(plan, values, stepper, optimized, function.first.thin)
    finally:
        assign(touched, before)
        for key, counter in zip(plan.keys, counters, strict=True):
            key.counter = counter
    # The first run compiles. Random numbers may make a loop or branch of another run longer.
    length = len(runs[1])
    same = [run for run in runs[1:] if len(run) == length]
    made.records = [min(each, key=lambda r: r.seconds) for each in zip(*same, strict=True)]
    return made


def _whole(function: Function, values: Sequence[Any], repeat: int) -> float:
    """The seconds of the quickest of some whole calls."""
    function(list(values))
    return min(timeit.repeat(lambda: function(list(values)), number=1, repeat=max(repeat, 3)))


def _record(step: Step, engine: Engine) -> Record:
    node, where = step.node, step.node.where
    assert node.op is not None
    specs = [engine.spec_of(value) for value in step.results]
    scope = where.scopes if where is not None else ()
    if where is not None and where.gradient:
        scope = ("gradients", *scope)
    return Record(
        node.op.name, line_text(where), scope, step.seconds,
        sum([size(spec, 1) for spec in specs]), spec_text(specs), str(where),
    )  # fmt: skip


def _time(seconds: float) -> str:
    return in_unit(seconds * 1e6, " µs", " ms", " s")
