"""PyTorch where it computes: where tensors are, on a device that the user chose, or over a mesh."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from backplane.core.mesh import Mesh
from backplane.engines.base import Engine
from backplane.engines.placement import OnDevice
from backplane.engines.programs import Function
from backplane.engines.table import Value
from backplane.engines.torch import devices
from backplane.engines.torch.engine import TorchEngine


class Torch(TorchEngine):
    """PyTorch, which knows its devices and meshes of them."""

    def mesh_devices(self) -> list[str]:
        """One for each process."""
        from backplane.engines.torch.mesh import processes  # Here, as in `with_mesh`.

        return processes.devices()

    def connect(self, address: str | None, count: int | None, index: int | None) -> int:
        """`torch.distributed`."""
        from backplane.engines.torch.mesh import processes  # Here, as in `with_mesh`.

        return processes.connect(address, count, index)

    def with_mesh(self, mesh: Mesh) -> Engine:
        """Programs over several processes, by `torch.distributed`."""
        # Here: a program on one device needs none of it.
        from backplane.engines.torch.mesh.on_mesh import MeshEngine

        return MeshEngine(self, mesh)


class DeviceEngine(OnDevice, Torch):
    """PyTorch, whose programs run on one device."""

    named = staticmethod(devices.named)

    def here(self) -> AbstractContextManager[Any]:
        """PyTorch's default device."""
        return self.native_device

    def _run_here(self, run: Function) -> Function:
        return run if devices.ACCELERATED else super()._run_here(run)

    def moved(self, value: Value) -> Value:
        """A copy on the device, or the value itself if it is there."""
        return value.to(self.native_device)


Torch.device_engine = DeviceEngine
ENGINE = Torch()
