"""A process that holds one program of one network: its training step and its prediction."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Callable
from time import perf_counter, process_time
from typing import Any

import numpy as np

from benchmarks.memory import held
from benchmarks.networks import NETWORKS
from benchmarks.networks.problem import Network
from benchmarks.problem import BACKPLANE, KERAS3, Run
from benchmarks.workers import ON_GPU, serve

STEPS = 20
"""So many losses are compared."""
SETTLED = 20
"""Predictions before those that are measured: ONNX Runtime makes constants of weights meanwhile."""
SECONDS = 1.0
"""About how long a block takes."""

BY_HAND: dict[str, dict[str, dict[str, bool]]] = {
    "numpy": {"by hand": {}},
    "tensorflow": {"by hand": {}, "by hand, XLA": {"xla": True}},
    "torch": {"by hand": {}, "by hand, compiled": {"compiled": True}},
    "jax": {"by hand": {}, "by hand, XLA's convolutions": {"own_convolutions": True}},
    "cntk": {"by hand, exported from PyTorch": {}},
}
"""The hand-written programs of a stack, and how each is made."""
IN_NUMPY = ("unet", "gpt", "gpt-768", "bert")
"""The networks for which NumPy has layers by hand."""
WRITTEN_OUT = {"by hand, XLA"}
"""Programs that write out the steps of recurrences, which they take minutes to compile."""
EXPORTED = "by hand, exported from PyTorch"
PREDICTING = {EXPORTED}
"""Programs without training."""
LACKING = {
    "by hand, XLA": {"diffusion": "a gradient of nearest-neighbour resizing"},
    EXPORTED: {
        "mamba": "RMS normalization", "mamba-2": "RMS normalization", "llama": "RMS normalization",
        "conformer": "lists of computed sizes", "message-passing": "`index_add_` of repeated rows",
    },
}  # fmt: skip
"""What a library, or PyTorch's exporter, lacks for the program of a network."""
MODULES = {"cntk": "onnxruntime"}
"""Where the hand-written programs of a stack are, if not under its name."""

Seconds = dict[str, float]


def programs(name: str, stack: str) -> list[str]:
    """The names of the programs that a stack has for a network."""
    if stack in KERAS3:
        return ["Keras 3"] if NETWORKS[name].keras3 else []
    network, found = NETWORKS[name], [BACKPLANE, *BY_HAND.get(stack, {})]
    left_out = {program for program, lacks in LACKING.items() if name in lacks}
    if network.recurrent:
        left_out |= WRITTEN_OUT
    if stack == "numpy" and name not in IN_NUMPY:
        left_out.add("by hand")
    if network.own_kernels:
        left_out |= WRITTEN_OUT | PREDICTING
    return [p for p in found if p not in left_out and parts(network, p)]


def parts(network: Network, program: str) -> list[str]:
    """What a program of a network does."""
    predict = ["predict"] if network.forward is not None else []
    return predict if program in PREDICTING else ["step", *predict]


class Server:
    """The child's end."""

    def __init__(self, stack: str, name: str, program: str, tiny: str) -> None:
        if ON_GPU in os.environ and "torch" in stack:
            importlib.import_module("torch").set_default_device("cuda")
        self.network = NETWORKS[name]
        self.sizes = self.network.chosen(tiny == "tiny")
        self.batch = self.network.data(np.random.default_rng(0), self.sizes)
        kind = "k" if program == BACKPLANE else MODULES.get(stack, stack)
        kind = "keras3" if stack in KERAS3 else kind
        self.module = importlib.import_module(f"benchmarks.networks.programs.{kind}")
        self.how = {} if kind == "k" else BY_HAND.get(stack, {}).get(program, {})
        self.runs: dict[str, Run] = {}
        self._warm_up("step" in parts(self.network, program))

    def _warm_up(self, trains: bool) -> None:
        """Have the library imported and used: that belongs to no network."""
        by_hand = self.module.__name__.endswith(".numpy")
        network = NETWORKS["gpt" if by_hand else "wavenet" if self.network.keras3 else "vae"]
        sizes = network.chosen(tiny=True)
        make = self.module.train if trains else self.module.predict
        run = make(network, network.data(np.random.default_rng(0), sizes), sizes)
        run.call(*run.arguments)

    def train(self) -> dict[str, Any]:
        """Build the step. How long the first one takes, the losses, and the most memory held."""
        before = held("VmRSS") - held("RssFile")
        first, losses = _timed(self.first)
        run = self.runs["step"]
        losses += [_numbers(run.call(*run.arguments)) for _ in range(STEPS - 1)]
        return {"first": first, "losses": losses, "peak": held("VmHWM") - held("RssFile") - before}

    def first(self) -> list[list[float]]:
        """Build the training step and run it once."""
        run = self.module.train(self.network, self.batch, self.sizes, **self.how)
        self.runs["step"] = run
        return [_numbers(run.call(*run.arguments))]

    def predict(self) -> float:
        """Build the prediction; the mean of its magnitudes, to be compared."""
        self.runs["predict"] = run = self.module.predict(
            self.network, self.batch, self.sizes, **self.how
        )
        for _ in range(SETTLED):
            found = run.call(*run.arguments)
        return float(np.abs(np.asarray(found[0] if type(found) is list else found)).mean())

    def block(self, what: str) -> Seconds:
        """Seconds per call on both clocks: the medians over a block of calls."""
        run = self.runs[what]
        run.reset()
        once, _ = _timed(lambda: run.call(*run.arguments))
        count = int(min(max(SECONDS / max(once["wall"], 1e-6), 3), 50))
        gc.collect()
        gc.disable()
        try:
            taken = [_timed(lambda: run.call(*run.arguments))[0] for _ in range(count)]
        finally:
            gc.enable()
        return {clock: float(np.median([t[clock] for t in taken])) for clock in ("wall", "cpu")}

    def used(self) -> float:
        """Seconds of the processor that this process has taken so far."""
        return process_time()

    def work(self) -> dict[str, int]:
        """What a training step must do at least."""
        from benchmarks.networks import roofline

        return roofline.work(self.network, self.batch, self.sizes)

    def limits(self) -> dict[str, float]:
        """What the machine can do."""
        from benchmarks.networks import roofline

        return roofline.limits()


def _timed(function: Callable[[], Any]) -> tuple[Seconds, Any]:
    wall, cpu = perf_counter(), process_time()
    found = function()
    return {"wall": perf_counter() - wall, "cpu": process_time() - cpu}, found


def _numbers(losses: Any) -> list[float]:
    return [float(x) for x in np.ravel(np.asarray(losses, dtype="float64"))]


if __name__ == "__main__":
    serve(Server, *sys.argv[1:])
