"""The engine over the processes of a mesh."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch.distributed as dist
from torch.distributed.tensor import DTensor

from backplane.core.mesh import Layout, Mesh
from backplane.core.spec import Spec
from backplane.core.variable import Block
from backplane.engines.arrays.control import loops
from backplane.engines.base import Engine
from backplane.engines.programs import Function, Program
from backplane.engines.roles.processes import Read
from backplane.engines.table import Ints, Value
from backplane.engines.torch.control import ROWS
from backplane.engines.torch.dtypes import TORCH
from backplane.engines.torch.engine import TorchEngine, without_autocast, without_tape
from backplane.engines.torch.mesh import parts, processes, sharding


class MeshEngine(TorchEngine):
    """PyTorch over several processes, each of which runs the same program on its part."""

    capabilities = TorchEngine.capabilities - {"blocks", "steps"}
    writes_over = False

    def __init__(self, plain: TorchEngine, mesh: Mesh) -> None:
        self.mesh, self.grid = mesh, processes.grid_of(mesh)
        self.table = sharding.over(self.grid, mesh, plain.table)
        self.table.update(loops(self, sharding.rows(self.grid, ROWS)))

    # --- processes ------------------------------------------------------------------------------

    @property
    def process(self) -> int:
        """As the launcher counts them."""
        return dist.get_rank()

    def everyone(self, array: np.ndarray) -> np.ndarray:
        """Sent as Python objects, so that processes which are at different places find out."""
        return np.stack(processes.gathered(array))

    # --- values ---------------------------------------------------------------------------------

    def placed(self, value: Any, dtype: str, layout: Layout | None) -> Value:
        """The process's own part of an array or of a DTensor that lies otherwise."""
        if isinstance(value, DTensor):
            value = value.full_tensor()
        made = value.detach() if self.owns(value) else self.from_numpy(value, dtype)
        made = made.to(TORCH[dtype])
        if layout is None:
            return made
        places = parts.placements_of(layout, self.grid)
        return parts.laid_out(made, places, self.grid)

    # Parts are not written over.
    adopted = Engine.adopted
    updates_in_place = Engine.updates_in_place
    lend = TorchEngine.detached

    def parts(self, value: Value) -> list[Block] | None:
        """This process's part. If several processes have the same part, the first one saves it."""
        if not isinstance(value, DTensor):
            return None
        start, _, first = parts.block(value.shape, value.placements, self.grid)
        return [(start, super().to_numpy(value.to_local()))] if first else []

    def assembled(self, read: Read, shape: Ints, dtype: str, layout: Layout) -> Value:
        """Each process reads its part."""
        places = parts.placements_of(layout, self.grid)
        start, size, _ = parts.block(shape, places, self.grid)
        array = read([slice(a, a + n) for a, n in zip(start, size, strict=True)])
        return parts.of_parts(self.from_numpy(array, dtype), places, self.grid)

    def to_numpy(self, value: Value) -> np.ndarray:
        """A copy of all parts."""
        return super().to_numpy(parts.gathered(value))

    def fetch(self, value: Value) -> np.ndarray:
        """All parts put together."""
        return super().fetch(parts.gathered(value))

    def fetching(self, spec: Spec) -> Callable[[Value], np.ndarray]:
        """`fetch`."""
        return self.fetch

    # --- programs -------------------------------------------------------------------------------

    def compile(self, program: Program) -> Function:
        """The program as it is, off the tape, in its dtypes. ValueError for `torch.compile`, which
        does not follow the moves of parts.
        """
        if program.options.get("compile"):
            raise ValueError("K.function: on a mesh, PyTorch has no option `compile`; leave it out")
        return without_autocast(without_tape(program.function))
