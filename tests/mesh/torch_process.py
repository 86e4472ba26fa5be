"""One of several processes of PyTorch on this machine, started by `torchrun` or as it would do it.

python -m mesh.torch_process ADDRESS COUNT INDEX checks|cases|processes FILE NAME…
torchrun -m mesh.torch_process train FOLDER STEPS [DYING DIES_AT]
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist

from backplane import backend as K
from mesh.train import train

RESTARTS = "TORCHELASTIC_RESTART_COUNT"
"""Where `torchrun` tells how often it has started the processes again."""


def failure(check: Callable[[], None]) -> str:
    """What a check raises; nothing if it passes."""
    try:
        check()
    except BaseException:  # noqa: BLE001 - each check is told for itself
        return traceback.format_exc()
    return ""


def tell(task: str, file: Path, names: Sequence[str]) -> None:
    """Write what failed in this process, by the names of checks. Each task imports what it needs:
    a process that trains takes a tenth of its time for the cases.
    """
    if task == "checks":
        from mesh import checks

        failed = {n: checks.failure(checks.CHECKS[n], file.parent) for n in names}
    elif task == "cases":
        from mesh.torch_cases import cases

        failed = {n: failure(check) for n, check in cases().items()}
    else:
        from mesh.torch_checks import ALL

        failed = {n: failure(check) for n, check in ALL.items()}
    file.with_name(f"{file.name}-{dist.get_rank()}").write_text(json.dumps(failed))


def main(*given: str) -> None:
    """Do a task together with the other processes."""
    if "RANK" not in os.environ:  # Not torchrun has started this, but a test.
        address, count, index, *given = given
        host, port = address.split(":")
        os.environ.update(MASTER_ADDR=host, MASTER_PORT=port, WORLD_SIZE=count, RANK=index)
    task, path, *rest = given
    with K.engine("torch"):
        if task != "train":
            dist.init_process_group("gloo", timeout=timedelta(seconds=120))
            tell(task, Path(path), rest)
        else:  # `K.set_mesh` connects the processes.
            index, again = int(os.environ["RANK"]), os.environ.get(RESTARTS) == "1"
            steps, *fault = rest
            dies_at = int(fault[1]) if fault and not again and int(fault[0]) == index else None
            if again and index == 1:
                time.sleep(2)  # The other one is first to look for where this one listens.
            train(int(os.environ["WORLD_SIZE"]), Path(path), index, int(steps), dies_at)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
