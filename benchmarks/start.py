"""From the start of a process to the first result: a small function, or a step of the MLP.

    python -m benchmarks.start CORE WORKLOAD STACK CONTENDER

is what is timed: it imports what the contender needs and nothing else.
"""

from __future__ import annotations

import tempfile
from typing import Any

from benchmarks.problem import BACKPLANE, ENGINES, KERAS3, REFERENCE

PROGRAMS = {"start-small": "call", "start-mlp": "mlp-sgd"}

BY_HAND = {
    "call": {
        "numpy": "expression",
        "tensorflow": "tf.function, array in",
        "jax": "jax.jit",
        "torch": "eager",
        "theano": "pytensor.function",
        "cntk": "session.run",
    },
    "mlp-sgd": {
        "numpy": "NumPy in place",
        "tensorflow": "tf.function, update kernels",
        "jax": "jax.jit, donated",
        "torch": "eager, fused optimizer",
        "theano": "pytensor.function, shared",
        "cntk": "whole step, bound",
    },
}
"""For each program and engine, the hand-written one that starts fastest."""

CACHED = "jax, compile cache on"
"""What is called a stack in the results: JAX with its persistent compile cache filled."""


def contenders(workload: str, stacks: list[str]) -> list[tuple[str, str]]:
    """(stack, contender) of everything that is started."""
    found = []
    for stack in stacks:
        if stack in ENGINES:
            found += [(stack, BACKPLANE), (stack, BY_HAND[workload][stack])]
        elif stack == REFERENCE:
            found.append((stack, "reference K"))
        elif stack in KERAS3 and workload != "call":
            found.append((stack, "Keras 3"))
    return found


def run(name: str, stacks: list[str], rounds: int, core: int, say: Any) -> dict[str, Any]:
    """Start every contender once a round; what comes out is plain data for JSON."""
    from benchmarks import interleaved, processes

    workload = PROGRAMS[name]
    every = contenders(workload, stacks)
    seconds: interleaved.Seconds = {key: [] for key in every}
    filled: interleaved.Seconds = {key: [] for key in every if key[0] == "jax"}
    with tempfile.TemporaryDirectory() as cache:
        env = {
            "JAX_COMPILATION_CACHE_DIR": cache,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        }
        for key in filled:  # the first start of each fills the cache
            processes.child("benchmarks.start", key[0], core, workload, *key, **env)
        for turn in range(rounds):
            for key in every:
                say(f"{name}: round {turn + 1} of {rounds}, {' '.join(key)}")
                took, _ = processes.child("benchmarks.start", key[0], core, workload, *key)
                seconds[key].append(took)
            for key in filled:
                took, _ = processes.child("benchmarks.start", key[0], core, workload, *key, **env)
                filled[key].append(took)
    found, cached = (interleaved.summary("s", s, {}) for s in (seconds, filled))
    found["contenders"] += [{**row, "stack": CACHED} for row in cached["contenders"]]
    if cached["ratios"]:
        found["ratios"][CACHED] = cached["ratios"]["jax"]
    return found


def imports(rounds: int, core: int, say: Any) -> dict[str, Any]:
    """What `import backplane` and the K namespace take over an interpreter with NumPy."""
    import sys

    from benchmarks import interleaved, processes
    from benchmarks.workers import environment, pinned

    statements = {
        "interpreter": "pass",
        "import numpy": "import numpy",
        "import numpy, backplane": "import numpy, backplane",
        "from backplane import backend": "from backplane import backend",
    }
    seconds: dict[tuple[str, str], list[float]] = {("numpy", name): [] for name in statements}
    for turn in range(rounds):
        say(f"start-import: round {turn + 1} of {rounds}")
        for name, statement in statements.items():
            code = f"{statement}\nprint('1', flush=True)"
            with pinned(core):
                took, _ = processes.timed([sys.executable, "-c", code], environment("numpy"))
            seconds["numpy", name].append(took)
    return interleaved.summary("ms", seconds, {})


def main() -> None:
    """The child: build one contender and run it once."""
    from benchmarks import processes, workloads

    workload, stack, contender = processes.begin()
    found = workloads.module(workload)
    run = found.contenders(workload, stack)[contender](found.problem(workload))
    run.value(run.call(*run.arguments))
    processes.say("done")


if __name__ == "__main__":
    main()
