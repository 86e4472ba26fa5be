"""What the numbers were measured on: the machine by kind, never by name, and the versions."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

PACKAGES = (
    "keras-backplane",
    "numpy",
    "tensorflow-cpu",
    "tensorflow",
    "jax",
    "torch",
    "pytensor",
    "numba",
    "onnxruntime",
    "keras",
)

CONTROLS = (
    "One thread in every library (environment variables, TensorFlow's session options, ONNX "
    "Runtime's session options), every measured process pinned to one and the same core, and only "
    "one of them working at a time.",
    "Contenders take turns in short blocks. In each round every contender runs one block, in "
    "random order, those of one process next to each other. A block's figure is the median of its "
    "samples; a table gives the median over the rounds and, in brackets, the quartiles. Ratios are "
    "formed within each round, and their median is given.",
    "A block first puts parameters and optimizer state back to the same initial values, then makes "
    "calls that are not timed, so that caches hold what the contender uses. All contenders of a "
    "workload get the same batch, from the same arrays, and give the loss as a number.",
    "Flush-to-zero is left as each library sets it. It makes no difference: the state restarts "
    "before each block and none of the values gets near the range of denormals.",
    "Python's garbage collector is off inside blocks, in every contender alike.",
    "Before anything is timed, each contender's numbers are compared with a float64 reference: "
    "results, or the losses of five training steps. With dropout, a second build without it is "
    "compared.",
)
"""What is controlled, in words: the page quotes them."""


def description() -> dict[str, Any]:
    """The machine, Python and the libraries."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "processor": processor(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": memory(),
        "system": platform.system(),
        "python": platform.python_version(),
        "versions": dict(versions()),
    }


VECTORS = {"avx512f": "AVX-512", "avx2": "AVX2"}
"""Instructions for which libraries have kernels of their own, the widest first."""


def processor() -> str:
    """The processor's model, and its widest vector instructions: names of models do not tell."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    lines = [line.partition(":") for line in text.splitlines()]
    known = {key.strip(): value.strip() for key, _, value in reversed(lines)}
    flags = known.get("flags", "").split()
    widest = next((f" with {name}" for flag, name in VECTORS.items() if flag in flags), "")
    return known.get("model name", "unknown") + widest


def memory() -> int | None:
    """Gigabytes of main memory; None where the system does not say."""
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return None
    return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30)


def versions() -> Any:
    """(package, version) of what is installed."""
    for name in PACKAGES:
        try:
            yield name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
