"""Blocks of timed calls, and what is made of their times."""

from __future__ import annotations

import gc
import os
import statistics
from collections.abc import Sequence
from itertools import repeat
from time import perf_counter, process_time

import numpy as np

from benchmarks.problem import Plan, Run

CLOCK = "BENCHMARKS_CLOCK"
"""The variable that tells the processes which clock to read: `wall` (if unset) or `cpu`."""


def on_cpu() -> bool:
    """Whether processor time is measured: it does not grow while others use the core, so on a busy
    machine only that can be compared.
    """
    return os.environ.get(CLOCK) == "cpu"


def block(run: Run, plan: Plan) -> float:
    """Seconds per call: the median of the samples of one block.

    The state is reset first, so that every contender does the same arithmetic on the same numbers
    in every block, and no decaying moment ever becomes a denormal. Calls that are not timed bring
    the buffers back into the cache after another contender's turn. The garbage collector is off.
    """
    call, arguments = run.call, run.arguments
    now = process_time if on_cpu() else perf_counter
    run.reset()
    for _ in range(plan.warmup * plan.inner):
        call(*arguments)
    gc.collect()
    gc.disable()
    try:
        seconds = []
        for _ in range(plan.samples):
            start = now()
            for _ in repeat(None, plan.inner):
                call(*arguments)
            seconds.append((now() - start) / plan.inner)
    finally:
        gc.enable()
    return statistics.median(seconds)


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median and quartiles."""
    low, middle, high = np.quantile(np.asarray(values, dtype="float64"), [0.25, 0.5, 0.75])
    return {"median": float(middle), "low": float(low), "high": float(high)}


def ratio(values: Sequence[float], others: Sequence[float]) -> dict[str, float]:
    """Median and quartiles of the ratio within each round."""
    return spread([a / b for a, b in zip(values, others, strict=True)])


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Slope of log(seconds) over log(size): 1 is linear growth."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
