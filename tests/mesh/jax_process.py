"""One of several processes of JAX on this machine: what `mesh.checks` or `mesh.train` does.

python -m mesh.jax_process ADDRESS COUNT INDEX checks FILE NAME…
python -m mesh.jax_process ADDRESS COUNT INDEX train FOLDER STEPS [DYING DIES_AT [raises]]
"""

import sys
from pathlib import Path

import jax

PATIENCE = 10
"""Seconds without a sign of life after which a process counts as lost."""

if __name__ == "__main__":
    address, count, index, task, *rest = sys.argv[1:]
    jax.distributed.initialize(
        address, int(count), int(index),
        heartbeat_timeout_seconds=PATIENCE, shutdown_timeout_seconds=PATIENCE,
    )  # fmt: skip
    from backplane import backend as K

    if task == "checks":
        from mesh import checks

        file, *names = rest
        checks.main("jax", f"{file}-{index}", *names)
    else:
        from mesh.train import train

        folder, steps, *fault = rest
        dies_at = int(fault[1]) if fault and fault[0] == index else None
        with K.engine("jax"):
            train(
                len(jax.devices()), Path(folder), int(index), int(steps), dies_at,
                raises=fault[2:] == ["raises"],
            )  # fmt: skip
