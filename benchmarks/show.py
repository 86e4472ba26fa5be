"""Results on the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

SCALE = {"µs": 1e6, "ms": 1e3, "s": 1.0, "MB": 1e-6}


def amount(row: dict[str, float], unit: str) -> str:
    """`2.04 (2.01–2.10)`: median and quartiles in the unit."""
    values = [row[key] * SCALE[unit] for key in ("median", "low", "high")]
    return "{} ({}–{})".format(*(f"{v:.3g}" for v in values))


def workload(console: Console, name: str, found: dict[str, Any]) -> None:
    """A table of the contenders and one of the ratios."""
    if "growth" in found:
        growth(console, found["growth"])
        return
    table = Table(title=name, title_justify="left")
    for heading in ("stack", "contender", f"{found['unit']} (quartiles)"):
        table.add_column(heading)
    for row in found["contenders"]:
        table.add_row(row["stack"], row["name"], amount(row, found["unit"]))
    console.print(table)
    table = Table(title=f"{name}: Backplane over …", title_justify="left")
    kinds = {"hand": "best hand-written", "keras3": "Keras 3", "reference": "reference K"}
    for heading in ("engine", *kinds.values()):
        table.add_column(heading)
    for engine, ratios in found["ratios"].items():
        cells = [cell(ratios.get(kind), kind == "hand") for kind in kinds]
        table.add_row(engine, *cells)
    console.print(table)
    for contender, error in found["failures"].items():
        console.print(f"{contender} failed: {error}", style="red", markup=False)


def growth(console: Console, rows: list[dict[str, Any]]) -> None:
    """Seconds by depth."""
    table = Table(title="growth: seconds to build, compile and call", title_justify="left")
    depths = max((row["depths"] for row in rows), key=len)
    for heading in ("stack", "contender", *map(str, depths), "exponent"):
        table.add_column(heading)
    for row in rows:
        cells = [f"{s:.3g}" for s in row["seconds"]]
        cells += [""] * (len(depths) - len(cells))
        slope = "" if row["exponent"] is None else f"{row['exponent']:.2f}"
        table.add_row(row["stack"], row["name"], *cells, slope)
    console.print(table)


def cell(ratio: dict[str, Any] | None, named: bool) -> str:
    """`1.05 (1.03–1.06) torch.compile`."""
    if ratio is None:
        return ""
    text = f"{ratio['median']:.2f} ({ratio['low']:.2f}–{ratio['high']:.2f})"
    return f"{text} {ratio['name']}" if named else text
