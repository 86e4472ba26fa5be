"""JAX on a device that the user chose."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import jax

from backplane.engines.jax.engine import JaxEngine, local_devices
from backplane.engines.placement import OnDevice
from backplane.engines.table import Value


class DeviceEngine(OnDevice, JaxEngine):
    """JAX, whose programs run on one device."""

    def named(self, name: str) -> jax.Device:
        """One of `jax.local_devices`."""
        return local_devices()[name]

    def here(self) -> AbstractContextManager[Any]:
        """JAX's default device."""
        return jax.default_device(self.place)

    def moved(self, value: Value) -> Value:
        """A copy on the device, or the value itself if it is there."""
        return jax.device_put(value, self.place)
