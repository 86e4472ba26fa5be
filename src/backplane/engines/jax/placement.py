"""JAX where it computes: on its default device, on one that the user chose, or over a mesh."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import jax

from backplane.core.mesh import Mesh
from backplane.engines.base import Engine
from backplane.engines.jax.engine import JaxEngine, local_devices
from backplane.engines.placement import OnDevice
from backplane.engines.table import Value


class Jax(JaxEngine):
    """JAX, which knows its devices and meshes of them."""

    def mesh_devices(self) -> list[str]:
        """All devices of JAX's default platform."""
        return [f"{d.platform}:{d.id}" for d in jax.devices()]

    def connect(self, address: str | None, count: int | None, index: int | None) -> int:
        """`jax.distributed`."""
        jax.distributed.initialize(address, count, index)
        return jax.process_count()

    def with_mesh(self, mesh: Mesh) -> Engine:
        """Programs over all devices, by XLA's partitioner."""
        # Here: a program on one device needs none of it.
        from backplane.engines.jax.mesh.sharding import MeshEngine

        return MeshEngine(mesh)


class DeviceEngine(OnDevice, Jax):
    """JAX, whose programs run on one device."""

    def named(self, name: str) -> jax.Device:
        """One of `jax.local_devices`."""
        return local_devices()[name]

    def here(self) -> AbstractContextManager[Any]:
        """JAX's default device."""
        return jax.default_device(self.native_device)

    def moved(self, value: Value) -> Value:
        """A copy on the device, or the value itself if it is there."""
        return jax.device_put(value, self.native_device)


Jax.device_engine = DeviceEngine
ENGINE = Jax()
