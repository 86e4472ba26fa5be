"""The processes of a mesh: one for each device, as PyTorch's launcher `torchrun` starts them."""

from __future__ import annotations

import os
from itertools import combinations, zip_longest
from typing import Any

import torch.distributed as dist
from torch.distributed.tensor import DeviceMesh, init_device_mesh

from backplane.core.mesh import Mesh
from backplane.engines.torch.devices import default_device

LAUNCH = "torchrun --nproc-per-node {count} script.py"


def grid_of(mesh: Mesh) -> DeviceMesh:
    """The processes in their places. All of them call this.

    Raises:
        ValueError: if there are more or fewer processes than devices in the mesh, or if another
            process has another mesh.
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
        dist.init_process_group()
    if dist.get_world_size() != mesh.size:
        raise ValueError(
            f"K.set_mesh: the mesh {mesh} has {mesh.size} devices, and there are "
            f"{dist.get_world_size()} processes; on PyTorch each device has a process of its own. "
            f"Start them with `{launch}`"
        )
    if differs := _differing(mesh):
        raise ValueError(f"K.set_mesh: the processes have different meshes: {differs}")
    names, sizes = zip(*mesh.axes, strict=True)
    grid = init_device_mesh(default_device().type, sizes, mesh_dim_names=names)
    for count in range(2, len(names) + 1):
        for several in combinations(names, count):
            grid[several]._flatten()  # DTensor then adds up over these axes in one step.
    return grid


def check_program(text: str) -> None:
    """Compare the program that is compiled now with those of the other processes.

    Raises:
        ValueError: in every process, if they differ.
    """
    if differs := _differing(tuple(text.splitlines())):
        raise ValueError(
            "the processes of a mesh must make the same calls, and run different programs now: "
            f"{differs}"
        )


def _differing(thing: Any) -> str:
    """How the `thing` of another process differs from that of process 0; nothing if it does not."""
    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, thing)
    for rank, other in enumerate(found):
        if other != found[0]:
            one, another = _first_difference(found[0], other)
            return f"process 0 has {one}, process {rank} has {another}"
    return ""


def _first_difference(one: Any, another: Any) -> tuple[Any, Any]:
    if isinstance(one, Mesh):
        return one, another
    lines = zip_longest(one, another, fillvalue="no such line")
    return next((f"`{a.strip()}`", f"`{b.strip()}`") for a, b in lines if a != b)
