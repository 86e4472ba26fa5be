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

    def __init__(self, name: str) -> None:
        super().__init__()
        self.device = name
        self._place = local_devices()[name]

    def here(self) -> AbstractContextManager[Any]:
        """JAX's default device."""
        return jax.default_device(self._place)

    def moved(self, value: Value) -> Value:
        """A copy on the device, or the value itself if it is there."""
        return jax.device_put(value, self._place)
