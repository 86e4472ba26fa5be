"""`python -m benchmarks.scaling`: measures on this machine and prints tables in Markdown."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.scaling import cost
from benchmarks.scaling.cost import Device, Link, Network
from benchmarks.scaling.worker import Task

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from mesh.processes import free_port, run_all  # noqa: E402 - the path comes first

NETWORKS = ("mlp", "convnet", "transformer")
SMALL, LARGE = Network(512, 4), Network(1024, 8)
ROWS = 256
"""Rows for each device."""
SIZES = [2**k for k in (10, 14, 18, 20, 22, 24)]


def run(
    engine: str, do: str, processes: int = 1, devices: int = 1, mesh: Any = None, **arguments: Any
) -> Any:
    """The result of a task in so many processes with so many devices each; that of the first."""
    port = free_port()
    tasks = [Task(engine, port, processes, i, mesh, do, arguments) for i in range(processes)]
    settings = {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": str(devices)}
    commands = [["-m", "benchmarks.scaling.worker", json.dumps(task._asdict())] for task in tasks]
    ended = run_all(commands, settings, 900)
    for process in ended:
        if process.code:
            raise click.ClickException(process.output[-2000:])
    return json.loads(ended[0].printed.splitlines()[-1])


def table(heads: Sequence[str], rows: Iterator[Sequence[str]]) -> None:
    """Print a table in Markdown."""
    print("\n| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


PLACES = {
    "jax": [(1, 8, {"batch": 8}), (1, 8, {"batch": 4, "model": 2}), (4, 1, {"batch": 4})],
    "torch": [(4, 1, {"batch": 4}), (4, 1, {"batch": 2, "model": 2})],
}
"""Processes, devices in each, and the mesh."""


def equality(engine: str) -> Iterator[Sequence[str]]:
    """The largest relative difference of 100 losses from those of one device."""
    for name in NETWORKS:
        alone = np.array(run(engine, "losses", name=name))
        found = [np.array(run(engine, "losses", *place, name=name)) for place in PLACES[engine]]
        yield [name, *[f"{np.abs(losses / alone - 1).max():.1e}" for losses in found]]


def weak(engine: str) -> Iterator[Sequence[str]]:
    """A step with the same rows for each device, by the clock and in all processors' time."""
    for processes, devices in ((1, 1), (1, 2), (1, 4), (1, 8), (2, 1), (4, 1)):
        n = processes * devices
        if devices > 1 and engine != "jax":
            continue
        mesh = {"batch": n} if n > 1 else None
        arguments = {**SMALL._asdict(), "rows": ROWS * n}
        found = run(engine, "train", processes, devices, mesh, **arguments)
        used = found["processor"] * processes / (ROWS * n) * 1e6
        yield [str(processes), str(devices), f"{found['fastest'] * 1e3:.0f} ms", f"{used:.0f} µs"]


def memory(engine: str) -> Iterator[Sequence[str]]:
    """By how much each of four processes grows, if weights are whole or split."""
    for mesh, layouts in (
        ({"batch": 4}, False),
        ({"batch": 2, "model": 2}, True),
        ({"model": 4}, True),
    ):
        found = run(engine, "train", 4, 1, mesh, **LARGE._asdict(), rows=64, layouts=layouts)
        by = [mesh.get(axis, 1) for axis in ("batch", "model")]
        told = LARGE.memory(64, *by)
        yield [str(mesh), f"{told / 1e6:.0f} MB", f"{found['bytes'] / 1e6:.0f} MB"]


def fault(engine: str) -> Iterator[Sequence[str]]:
    """How long the others live after one of four processes has died."""
    for what, fault in (("the first is killed", "0 12"), ("another is killed", "2 12"),
                        ("another raises an error", "2 12 raises")):  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            before = ["-m", f"mesh.{engine}_process", f"127.0.0.1:{free_port()}", "4"]
            task = ["train", folder, "20", *fault.split()]
            settings = {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "1"}
            ended = run_all([[*before, str(i), *task] for i in range(4)], settings, 300)
            died = (Path(folder) / "dies").stat().st_mtime
        yield [what, f"{max(process.at for process in ended) - died:.1f} s"]


COMPARED = (
    (SMALL, 2, "batch"), (SMALL, 4, "batch"), (LARGE, 2, "batch"), (SMALL, 2, "model"),
    (SMALL, 4, "model"),
)  # fmt: skip


def model(engine: str) -> None:
    """The model of the cost, fitted to this machine and compared with measured steps."""
    measured = []
    for n in (2, 4):
        seconds = run(engine, "reduce", n, 1, {"batch": n}, sizes=SIZES)
        measured += [(size, n, s) for size, s in zip(SIZES, seconds, strict=True)]
    link = cost.fitted("loopback", measured)
    print(
        f"\nA message over loopback takes {link.latency * 1e6:.0f} µs, and 1 s for "
        f"{link.bandwidth / 1e9:.2f} GB."
    )
    places = dict.fromkeys([(SMALL, 1), *[(network, n) for network, n, _ in COMPARED]])
    devices = {place: beside(engine, *place) for place in places}
    heads = ["network", "processes beside", "10⁹ operations per second", "ns to update a weight"]
    table(heads, speeds(devices))
    heads = ["network", "processes", "computing", "communication", "sum (ms)", "measured", "ratio"]
    table(heads, compared(engine, devices, link))
    table(["link", "split", "1 Tflop/s", "50 Tflop/s", "400 Tflop/s"], limits())


def beside(engine: str, network: Network, n: int) -> Device:
    """What each of `n` processes does while all of them train for themselves, by steps on few and
    on many rows. They share the cores, the caches and the memory.
    """
    steps = []
    for rows in (ROWS // 4, ROWS):
        with tempfile.TemporaryDirectory() as folder:
            found = run(engine, "train", n, **network._asdict(), rows=rows, beside=(folder, n))
        steps.append((rows, found["median"]))
    return cost.measured_device(network, steps)


Devices = Mapping[tuple[Network, int], Device]


def named(network: Network) -> str:
    """The name of a network in a table."""
    return f"{network.layers} × {network.width}²"


def speeds(devices: Devices) -> Iterator[Sequence[str]]:
    """What was measured of the processes."""
    for (network, n), device in devices.items():
        yield [named(network), f"{n}", f"{device.speed / 1e9:.0f}", f"{device.update * 1e9:.1f}"]


def compared(engine: str, devices: Devices, link: Link) -> Iterator[Sequence[str]]:
    """Steps as the model tells them and as they are measured, each process on one core."""
    for network, n, axis in COMPARED:
        rows = ROWS * n if axis == "batch" else ROWS
        split = (n, 1) if axis == "batch" else (1, n)
        computing, sending = cost.step(network, rows, *split, devices[network, n], link)
        arguments = {**network._asdict(), "rows": rows, "layouts": axis == "model"}
        measured = run(engine, "train", n, 1, {axis: n}, **arguments)["median"]
        told = [f"{s * 1e3:.0f}" for s in (computing, sending, computing + sending, measured)]
        ratio = f"{(computing + sending) / measured:.2f}"
        yield [named(network), f"{n} by `{axis}`", *told, ratio]


def limits() -> Iterator[Sequence[str]]:
    """Up to how many devices computing takes half of the step or more."""
    network = Network(8192, 32)
    for link in cost.PUBLIC_LINKS:
        for axis, rows, grow in (
            ("batch", 1024, True),
            ("batch", 8192, False),
            ("model", 8192, False),
        ):
            found = [
                cost.last_useful(network, rows, axis, device, link, grow)
                for device in cost.PUBLIC_DEVICES
            ]
            what = f"`{axis}`, {rows} rows {'each' if grow else 'in all'}"
            yield [link.name, what, *[f"{n}" if n < 4096 else "4096 or more" for n in found]]


@click.command()
@click.option("--engine", type=click.Choice(list(PLACES)), default="jax")
@click.option("--only", type=click.Choice(["equality", "weak", "memory", "fault", "model"]))
def main(engine: str, only: str | None) -> None:
    """Measure how programs on a mesh scale."""
    print(f"{engine}, {os.cpu_count()} cores")
    parts: dict[str, Any] = {
        "equality": (["network", *[f"{p} × {d}: {m}" for p, d, m in PLACES[engine]]], equality),
        "weak": (["processes", "devices in each", "step", "processor time per row"], weak),
        "memory": (["mesh", "by the model", "growth of a process"], memory),
        "fault": (["of four processes", "the last process has ended after"], fault),
    }
    for name, (heads, rows) in parts.items():
        if only in (None, name):
            table(heads, rows(engine))
    if only in (None, "model"):
        model(engine)


if __name__ == "__main__":
    main()
