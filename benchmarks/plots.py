"""Plots of the results, as SVG that is the same whenever the results are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.problem import BACKPLANE, ENGINES, REFERENCE
from benchmarks.show import SCALE

COLORS = {"ours": "#1f6feb", "hand": "#8b949e", "keras3": "#d29922", "reference": "#a371f7"}


def draw(name: str, found: dict[str, Any], folder: Path) -> Path | None:
    """One plot for a workload; its file, or None where there is nothing to draw."""
    plt = _library(name)
    figure = _growth(plt, found) if "growth" in found else _bars(plt, found)
    return _saved(plt, figure, folder / f"{name}.svg")


def _library(salt: str) -> Any:
    """Matplotlib's plots, as SVG with names that depend on the salt only."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": salt, "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot as plt

    return plt


def ratios(found: dict[str, dict[str, float]], file: Path) -> Path:
    """A row for each name, a dot for each engine: what is right of 1 is slower than its rival."""
    plt = _library(file.stem)
    names = list(reversed(found))
    figure, axes = plt.subplots(figsize=(7.5, 1.2 + 0.26 * len(names)))
    for engine in ENGINES:
        dots = [(found[name][engine], i) for i, name in enumerate(names) if engine in found[name]]
        if dots:
            axes.plot(*zip(*dots, strict=True), "o", label=engine, markersize=5, alpha=0.8)
    axes.axvline(1, color="#8b949e", linewidth=1)
    axes.set(xscale="log", xlabel="time of a step over the rival's")
    axes.set_yticks(range(len(names)), names)
    axes.legend(fontsize=8, frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1))
    axes.spines[["top", "right"]].set_visible(False)
    return _saved(plt, figure, file)


def _saved(plt: Any, figure: Any, file: Path) -> Path:
    figure.savefig(file, metadata={"Date": None, "Creator": None}, bbox_inches="tight")
    plt.close(figure)
    # The library leaves blanks at the ends of lines, which nobody wants in a repository.
    lines = file.read_text(encoding="utf-8").splitlines()
    file.write_text("\n".join(line.rstrip() for line in lines) + "\n", encoding="utf-8")
    return file


def kind(row: dict[str, Any]) -> str:
    """The colour group of a contender."""
    if row["name"].startswith(BACKPLANE):
        return "ours"
    if row["stack"] == REFERENCE:
        return "reference"
    return "keras3" if row["stack"].startswith("keras3-") else "hand"


def _bars(plt: Any, found: dict[str, Any]) -> Any:
    """A bar for each contender, engine by engine, with the quartiles."""
    rows = list(reversed(found["contenders"]))
    scale = SCALE[found["unit"]]
    figure, axes = plt.subplots(figsize=(7.5, 0.8 + 0.21 * len(rows)))
    middle = [row["median"] * scale for row in rows]
    spread = [
        [(row["median"] - row["low"]) * scale for row in rows],
        [(row["high"] - row["median"]) * scale for row in rows],
    ]
    labels = [f"{row['stack'].removeprefix('keras3-')}: {row['name']}" for row in rows]
    colors = [COLORS[kind(row)] for row in rows]
    axes.barh(range(len(rows)), middle, xerr=spread, color=colors, height=0.7)
    axes.set_yticks(range(len(rows)), labels)
    axes.set_xlabel(found["unit"])
    if max(middle) > 30 * min(middle):
        axes.set_xscale("log")
    axes.margins(y=0.01)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _growth(plt: Any, found: dict[str, Any]) -> Any:
    """Seconds over depth, both logarithmic; an engine has one colour."""
    figure, axes = plt.subplots(figsize=(7.5, 4.5))
    palette = plt.get_cmap("tab10").colors
    order = [*ENGINES, REFERENCE]
    for row in found["growth"]:
        ours = row["name"] == BACKPLANE
        axes.plot(
            row["depths"],
            row["seconds"],
            color=palette[order.index(row["stack"])],
            linestyle="-" if ours else "--",
            marker="o" if ours else None,
            markersize=3,
            label=f"{row['stack']}: {row['name']}",
        )
    axes.set(xscale="log", yscale="log", xlabel="depth", ylabel="seconds")
    axes.legend(fontsize=7, ncols=2, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
