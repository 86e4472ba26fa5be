"""Values over the processes of a mesh, and how their parts are moved.

A value that lies on the mesh in parts is a DTensor, cut into equal parts. A value that every
process has as a whole is a plain tensor.
"""

from __future__ import annotations

import torch
from torch.distributed.tensor import DeviceMesh, DTensor, Partial, Placement, Replicate, Shard

from backplane.core.mesh import Layout
from backplane.engines.table import Ints, Value
from backplane.engines.torch.mesh.processes import lost_processes

Placements = tuple[Placement, ...]

SENT_AS = {
    torch.bool: torch.uint8, torch.int16: torch.int32, torch.uint16: torch.int32,
    torch.uint32: torch.int64, torch.uint64: torch.int64,
}  # fmt: skip
"""The dtypes that processes on the CPU cannot send each other, and those that hold the same
numbers, or the same bits."""


def placements_of(layout: Layout, mesh: DeviceMesh) -> Placements:
    """A layout in DTensor's terms: which axis of the tensor each axis of the mesh splits."""
    names = mesh.mesh_dim_names or ()
    axis_of = {name: axis for axis, split in enumerate(layout) for name in split}
    return tuple([Shard(axis_of[name]) if name in axis_of else Replicate() for name in names])


def whole(mesh: DeviceMesh) -> Placements:
    """The places of a value that every process has."""
    return (Replicate(),) * mesh.ndim


def block(
    shape: Ints, placements: Placements, mesh: DeviceMesh
) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
    """This process's part of a tensor: start, shape, and whether it is the first to have it."""
    start, sizes, first = [0] * len(shape), list(shape), True
    for axis, place in enumerate(placements):
        rank = mesh.get_local_rank(axis)
        if isinstance(place, Shard):
            sizes[place.dim] //= mesh.size(axis)
            start[place.dim] += rank * sizes[place.dim]
        else:
            first = first and rank == 0
    return tuple(start), tuple(sizes), first


def gathered(x: Value) -> Value:
    """All elements of `x`, as a plain tensor."""
    return part(x, whole(x.device_mesh), x.device_mesh) if isinstance(x, DTensor) else x


def laid_out(x: Value, placements: Placements, mesh: DeviceMesh) -> Value:
    """`x` with its parts moved to other places."""
    return of_parts(part(x, placements, mesh), placements, mesh)


def part(x: Value, placements: Placements, mesh: DeviceMesh) -> Value:
    """This process's part of `x`."""
    if isinstance(x, DTensor):
        return moved(x.to_local(), x.placements, placements, mesh)
    return moved(x, whole(mesh), placements, mesh)


def of_parts(x: Value, placements: Placements, mesh: DeviceMesh) -> Value:
    """The value of which `x` is this process's part."""
    if any(isinstance(p, Partial) for p in placements):
        added = tuple([Replicate() if isinstance(p, Partial) else p for p in placements])
        x, placements = moved(x, placements, added, mesh), added
    if not any(isinstance(p, Shard) for p in placements):
        return x
    return DTensor.from_local(x, mesh, placements, run_check=False)


def moved(x: Value, before: Placements, after: Placements, mesh: DeviceMesh) -> Value:
    """The part of this process after parts have been sent to other places."""
    if before == after:
        return x
    sent = x.to(SENT_AS.get(x.dtype, x.dtype))
    parts = DTensor.from_local(sent, mesh, before, run_check=False)
    with lost_processes():
        return parts.redistribute(placements=after).to_local().to(x.dtype)
