"""Where the time to the first loss of a program in K goes.

The phases are told apart by clocks around functions of Backplane, each of which counts its own time
only. What the library compiles, and whatever else it does once, is the rest: the first call less
our own work in it and less the second call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from time import process_time
from typing import Any

from backplane import backend as K
from backplane import engines
from backplane.compile import function, program
from backplane.compile.codegen.programs import Emitter
from benchmarks.networks.layers.k import Layers
from benchmarks.networks.layers.weights import Weights
from benchmarks.networks.resources_page import (
    CODE,
    DATA,
    GRADIENTS,
    GRAPH,
    LIBRARY,
    PASSES,
    PHASES,
    RUN,
    VARIABLES,
)  # fmt: skip
from benchmarks.networks.workers import Server


class Clocks:
    """The seconds of each phase. Of phases inside of each other, only the inner one counts."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self._inner: list[float] = []

    @contextmanager
    def counting(self, phase: str) -> Iterator[None]:
        """Context manager: what happens inside belongs to the phase."""
        start = process_time()
        self._inner.append(0.0)
        try:
            yield
        finally:
            taken = process_time() - start
            self.seconds[phase] += taken - self._inner.pop()
            if self._inner:
                self._inner[-1] += taken

    @contextmanager
    def around(self, owner: Any, name: str, phase: str) -> Iterator[None]:
        """Context manager: inside, the calls of a function belong to the phase."""
        known: Callable[..., Any] = getattr(owner, name)
        own = name in vars(owner)

        def counted(*args: Any, **kwargs: Any) -> Any:
            with self.counting(phase):
                return known(*args, **kwargs)

        setattr(owner, name, counted)
        try:
            yield
        finally:
            if own:
                setattr(owner, name, known)
            else:
                delattr(owner, name)


def split(server: Server) -> dict[str, float]:
    """The processor's seconds of each phase of the first step of a program in K."""
    clocks, engine = Clocks(), engines.get(K.backend())
    places = [
        (Weights, "_weight", DATA), (Layers, "make", VARIABLES), (K, "zeros", VARIABLES),
        (K, "gradients", GRADIENTS), (function, "compiled", PASSES),
        (program, "emitter_for", CODE), (Emitter, "emit", CODE), (function, "straight", CODE),
        (engine, "compile", LIBRARY),
    ]  # fmt: skip
    with ExitStack() as stack:
        for place in places:
            stack.enter_context(clocks.around(*place))
        with clocks.counting(GRAPH):
            run = server.module.train(server.network, server.batch, server.sizes)
        with clocks.counting(LIBRARY):
            run.call(*run.arguments)
    server.runs["step"] = run
    start = process_time()
    run.call(*run.arguments)
    step = process_time() - start
    # The second step may take longer than the first, if others slow the machine down.
    clocks.seconds[RUN] = min(step, clocks.seconds[LIBRARY])
    clocks.seconds[LIBRARY] -= clocks.seconds[RUN]
    return clocks.seconds
