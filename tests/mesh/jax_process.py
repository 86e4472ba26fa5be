"""One of several processes of JAX on this machine: what `mesh.checks` or `mesh.train` does.

python -m mesh.jax_process ADDRESS COUNT INDEX checks FILE NAME…
python -m mesh.jax_process ADDRESS COUNT INDEX train FOLDER STEPS [DYING DIES_AT [raises]]
"""

import os
import sys
from pathlib import Path

import jax

from backplane import backend as K
from mesh.train import train

PATIENCE = 10
"""Seconds without a sign of life after which a process counts as lost."""


def main(address: str, count: str, index: str, task: str, *rest: str) -> None:
    """Do a task together with the other processes."""
    # A forked process has its settings after the import.
    if devices := os.environ.get("JAX_NUM_CPU_DEVICES"):
        jax.config.update("jax_num_cpu_devices", int(devices))
    jax.distributed.initialize(
        address, int(count), int(index),
        heartbeat_timeout_seconds=PATIENCE, shutdown_timeout_seconds=PATIENCE,
    )  # fmt: skip
    if task == "checks":
        from mesh import checks  # Only now are there settings.

        file, *names = rest
        checks.main("jax", f"{file}-{index}", *names)
    else:
        folder, steps, *fault = rest
        dies_at = int(fault[1]) if fault and fault[0] == index else None
        with K.engine("jax"):
            train(
                len(jax.devices()), Path(folder), int(index), int(steps), dies_at,
                raises=fault[2:] == ["raises"],
            )  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
