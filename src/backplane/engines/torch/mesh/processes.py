"""The processes of a mesh: one for each device, as PyTorch's launcher `torchrun` starts them."""

from __future__ import annotations

import atexit
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from typing import Any

import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous
from torch.distributed.tensor import DeviceMesh, init_device_mesh

from backplane.core.mesh import Mesh
from backplane.engines.torch.devices import default_device

LAUNCH = "torchrun --nproc-per-node {count} script.py"


def grid_of(mesh: Mesh) -> DeviceMesh:
    """The processes in their places; all of them call this. ValueError if there are more or fewer
    than devices in the mesh, or if one has another mesh.
    """
    launch = LAUNCH.format(count=mesh.size)
    if not dist.is_available():
        raise ValueError("K.set_mesh: this build of PyTorch has no torch.distributed")
    if not dist.is_initialized():
        if "RANK" not in os.environ:
            raise ValueError(
                f"K.set_mesh: the mesh {mesh} has {mesh.size} devices, and on PyTorch each device "
                f"has a process of its own; this is a single one. Start them with `{launch}`"
            )
        _connect()
    if dist.get_world_size() != mesh.size:
        raise ValueError(
            f"K.set_mesh: the mesh {mesh} has {mesh.size} devices, and there are "
            f"{dist.get_world_size()} processes; on PyTorch each device has a process of its own. "
            f"Start them with `{launch}`"
        )
    for rank, other in enumerate(gathered(mesh)):
        if other != mesh:
            raise ValueError(
                f"K.set_mesh: the processes have different meshes: process {dist.get_rank()} has "
                f"{mesh}, process {rank} has {other}"
            )
    names, sizes = zip(*mesh.axes, strict=True)
    grid = init_device_mesh(default_device().type, sizes, mesh_dim_names=names)
    for count in range(2, len(names) + 1):
        for several in combinations(names, count):
            grid[several]._flatten()  # DTensor then adds up over these axes in one step.
    return grid


def devices() -> list[str]:
    """The device of each process, under the number of the process."""
    started = dist.is_available() and dist.is_initialized()
    count = dist.get_world_size() if started else int(os.environ.get("WORLD_SIZE", "1"))
    return [f"{default_device().type}:{i}".replace("cuda", "gpu") for i in range(count)]


def connect(address: str | None, count: int | None, index: int | None) -> int:
    """Connect the processes, at the address of the first one or as a launcher says; their number.
    ValueError if nothing tells which process this is.
    """
    if not dist.is_initialized():
        if address is not None:
            if count is None or index is None:
                raise ValueError("beside an address, the number of processes and this one's index")
            atexit.register(_disconnect)
            dist.init_process_group(
                init_method=f"tcp://{address}", world_size=count, rank=index, backend="gloo"
            )
        elif "RANK" in os.environ:
            _connect()
        else:
            raise ValueError(
                "there is no address, and no launcher has started this process; start "
                f"processes with `{LAUNCH.format(count='N')}`"
            )
    return dist.get_world_size()


def _connect() -> None:
    """Connect the processes that a launcher has started, until Python ends.

    `torchrun` keeps one store for all its restarts (PyTorch issue 135712). Processes that it has
    started again could read there where the ended ones have listened, so each start has names of
    its own. Launchers on several machines count their restarts apart. They are left to PyTorch.
    """
    atexit.register(_disconnect)
    restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    alone = os.environ.get("LOCAL_WORLD_SIZE") == os.environ.get("WORLD_SIZE")
    if restarts == "0" or not alone:
        dist.init_process_group()
        return
    store, rank, count = next(rendezvous("env://"))
    named = dist.PrefixStore(f"restart {restarts}", store)
    dist.init_process_group(store=named, rank=rank, world_size=count)


def _disconnect() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


@atexit.register
def _wait_for_threads() -> None:
    """Let gloo's threads free the tensors of the last exchange, for which they need Python.

    A thread that asks for Python while it ends aborts the process (PyTorch issue 190489). DTensor's
    caches keep the connections, so that closing them does not end the threads.
    """
    time.sleep(0.2)


def gathered(thing: Any) -> list[Any]:
    """The `thing` of each process. ValueError in each if they are of different kinds: the processes
    do not make the same calls.
    """
    things: list[Any] = [None] * dist.get_world_size()
    with lost_processes():
        dist.all_gather_object(things, thing)
    for rank, other in enumerate(things):
        if _kind(other) != _kind(things[0]):
            raise ValueError(
                "the processes of a mesh must make the same calls: process 0 sends "
                f"{things[0]!r}, process {rank} sends {other!r}"
            )
    return things


def _kind(thing: Any) -> Any:
    return type(thing), getattr(thing, "shape", None)


class LostProcessError(ConnectionError):
    """Another process of the mesh has ended or does not answer."""


@contextmanager
def lost_processes() -> Iterator[None]:
    """Turn errors of communication into a `LostProcessError`.

    The connections to all processes are closed, so that none waits for this one.
    """
    try:
        yield
    except RuntimeError as error:
        if not _LOST.search(str(error)):
            raise
        _disconnect()
        raise LostProcessError(
            "another process of the mesh has ended, or has not answered for too long. Variables "
            "keep the values from before this call, but those that are split over the mesh can no "
            "longer be read. Start all processes again, and resume from a state that K.save_state "
            "has saved (K.load_state)"
        ) from error


_LOST = re.compile("gloo|nccl|peer|Connection|[Tt]imed out|process group", re.IGNORECASE)
