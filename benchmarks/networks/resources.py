"""What networks need: two threads against one, memory, and the time to the first loss, beside
programs by hand.

    python -m benchmarks.networks.resources all [ENGINE …] [--only NETWORK,…]

measures all three and writes the first section of `docs/measurements.md`; `threads`, `memory` and
`first` measure one of them. Each figure comes from a process of its own. `threads` is the least
time of a training step with one thread and with two, which needs an idle machine. `memory` is the
most that a process held during three steps, less what it held before the network was built. `first`
is the processor's time from an empty program to the first loss, and where it goes.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import click

from benchmarks import machine, processes, sections
from benchmarks.memory import held
from benchmarks.networks import NETWORKS as WHOLE
from benchmarks.networks import resources_page
from benchmarks.networks.causes import UnexplainedError
from benchmarks.networks.workers import Server, parts, programs
from benchmarks.problem import BACKPLANE, ENGINES, KERAS3
from benchmarks.workers import KEEP_MEMORY, ONE_THREAD

NETWORKS = {"threads": ("unet", "gpt"), "costs": ("resnet50", "gpt")}
"""A convolutional network, and one of products of matrices."""
SECONDS, LEAST = 2.0, 5
"""How long steps are timed, and how many at least."""
STEPS = 3
MODULE = "benchmarks.networks.resources"
LEFT_OUT = ("by hand, compiled",)
"""Programs that compile for minutes."""

FILE = Path(__file__).parents[1] / "results" / "resources.json"

Row = dict[str, Any]


# --- the child ------------------------------------------------------------------------------------


def _threads(count: int) -> dict[str, str]:
    """The environment of a process whose library has so many threads."""
    if count == 1:
        return ONE_THREAD
    counts = {name: str(count) for name, value in ONE_THREAD.items() if value == "1"}
    return {**counts, "TF_NUM_INTEROP_THREADS": "1", "XLA_FLAGS": ""}


def measured() -> None:
    """The child: seconds of a step, or what the first steps cost."""
    _, what, cores, stack, network, program, size = processes.begin()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, map(int, cores.split(",")))
    server = Server(stack, network, program, size)
    processes.say(_least(server, size) if what == "threads" else costs(server, program))


def _least(server: Server, size: str) -> float:
    """The least seconds of a step."""
    server.first()
    run = server.runs["step"]
    taken: list[float] = []
    while len(taken) < LEAST or (sum(taken) < SECONDS and size == "full"):
        start = perf_counter()
        run.call(*run.arguments)
        taken.append(perf_counter() - start)
    return min(taken)


def costs(server: Server, program: str) -> Row:
    """Seconds to the first loss, those of each phase if it is a program in K, and bytes."""
    before = held("VmRSS") - held("RssFile")
    found: Row = {}
    if program == BACKPLANE:
        # Here: other stacks have no engine.
        from benchmarks.networks.first import split

        found["phases"] = split(server)
        found["first"] = sum(found["phases"].values())
    else:
        start = process_time()
        server.first()
        found["first"] = process_time() - start
    run = server.runs["step"]
    for _ in range(STEPS - 1):
        run.call(*run.arguments)
    return found | {"bytes": held("VmHWM") - held("RssFile") - before}


# --- the parent -----------------------------------------------------------------------------------


def _child(what: str, threads: int, stack: str, network: str, program: str, size: str) -> Any:
    every = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0, 1]
    cores = every[-threads:]
    arguments = what, ",".join(map(str, cores)), stack, network, program, size
    # Memory is measured as programs hold it by default.
    extra = _threads(threads) | (KEEP_MEMORY if what == "threads" else {})
    return processes.child(MODULE, stack, cores[-1], "child", *arguments, **extra)[1]


def _measure(what: str, stack: str, network: str, program: str, size: str) -> Row:
    row: Row = {"network": network, "stack": stack, "program": program, "error": ""}
    try:
        if what == "threads":
            both = [_child(what, n, stack, network, program, size) for n in (1, 2)]
            return row | {"seconds": both}
        return row | _child(what, 1, stack, network, program, size)
    except RuntimeError as error:
        return row | {"error": str(error)}


def _programs(what: str, engines: Sequence[str], only: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Stack, network and program of what is to be measured."""
    for network in only or NETWORKS[what]:
        # The first loss of Keras 3 is a goal, too.
        keras = [s for s in KERAS3 if s.removeprefix("keras3-") in engines]
        for stack in (*engines, *(keras if what == "costs" else ())):
            for program in programs(network, stack):
                if program not in LEFT_OUT and "step" in parts(WHOLE[network], program):
                    yield stack, network, program


def _shown(row: Row) -> str:
    what = f"{row['network']} on {row['stack']}, {row['program']}: "
    if row["error"]:
        return what + row["error"]
    if "seconds" in row:
        one, two = row["seconds"]
        return f"{what}{one * 1e3:.3g} ms, two threads {two * 1e3:.3g} ms, gain {one / two:.2f}"
    own = [f"{name} {seconds:.2f}" for name, seconds in row.get("phases", {}).items()]
    return f"{what}{row['bytes'] / 1e6:.0f} MB, first {row['first']:.2f} s; {', '.join(own)}"


def updated(data: Row, kind: str, rows: Sequence[Row]) -> Row:
    """The results, with rows in the place of older ones of the same programs."""

    def key(row: Row) -> tuple[str, ...]:
        return row["network"], row["stack"], row["program"]

    new = {key(row) for row in rows}
    kept = [row for row in data.get(kind, []) if key(row) not in new]
    return data | {kind: [*kept, *rows]}


def _known(context: Any, option: Any, text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    if unknown := sorted({*names} - {*WHOLE}):
        raise click.BadParameter(f"{', '.join(unknown)}; there are {', '.join(WHOLE)}")
    return names


@click.command()
@click.argument("what", type=click.Choice(["all", "threads", "memory", "first", "page"]))
@click.argument("engines", nargs=-1, type=click.Choice(ENGINES))
@click.option("--only", default="", callback=_known, help="Names of networks.")
@click.option("--tiny", is_flag=True, help="Small sizes: a look whether all of it runs.")
@click.option("--output", default=FILE, type=click.Path(path_type=Path), help="Another JSON file.")
def main(what: str, engines: tuple[str, ...], only: list[str], tiny: bool, output: Path) -> None:
    """Measure, and write the results and docs/measurements.md; `page` only writes the page.

    `memory` and `first` come from the same processes, so each of them measures both. Exits with 1
    if a program fails, or a goal that is missed has no cause in `resources_causes.toml`.
    """
    data: Row = json.loads(output.read_text("utf-8")) if output.exists() else {}
    failed = False
    kinds = {"all": ("threads", "costs"), "threads": ("threads",), "page": ()}
    for kind in kinds.get(what, ("costs",)):
        load = ", ".join(f"{n:.1f}" for n in os.getloadavg())
        click.echo(f"{kind}: load {load} at the start, {os.cpu_count()} cores")
        data |= {"machine": machine.description(), "load": {**data.get("load", {}), kind: load}}
        for stack, network, program in _programs(kind, engines or ENGINES, only):
            row = _measure(kind, stack, network, program, "tiny" if tiny else "full")
            click.echo(_shown(row))
            failed |= bool(row["error"])
            data = updated(data, kind, [row])
            if not tiny:  # Small sizes are no result.
                output.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    if not tiny and output == FILE:
        try:
            page = resources_page.text(data)
        except UnexplainedError as error:
            raise click.ClickException(str(error)) from None
        sections.write("resources", page)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    measured() if sys.argv[2:3] == ["child"] else main()
