"""ONNX Runtime where it computes: on the CPU, or on a device that the user chose.

On such a device, values are tensors of ONNX Runtime in its memory, and sessions take and give such
tensors. So variables stay there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from backplane.engines.base import Engine
from backplane.engines.onnxruntime.engine import GPUS, Call, OnnxRuntime
from backplane.engines.onnxruntime.library import CPU, bindings, ort
from backplane.engines.table import Value


class DeviceEngine(OnnxRuntime):
    """ONNX Runtime, whose programs run on one device."""

    takes_arrays = False
    writes_over = False
    capabilities = OnnxRuntime.capabilities - {"freezes"}  # values on devices are no arrays

    def __init__(self, name: str) -> None:
        super().__init__()
        self.device = name
        kind, _, index = name.partition(":")
        gpus = [p for p in ort.get_available_providers() if p in GPUS and kind == "gpu"]
        # What a GPU has no kernel for runs on the CPU.
        self.providers = (*gpus, CPU)
        place = bindings.OrtDevice.cuda() if gpus else bindings.OrtDevice.cpu()
        self._place = bindings.OrtDevice(place, bindings.OrtDevice.default_memory(), int(index))

    def from_numpy(self, array: np.ndarray, dtype: str | None = None) -> Value:
        """A copy on the device."""
        copy = np.array(array, dtype or array.dtype.name, order="C")
        return ort.OrtValue(bindings.OrtValue.ortvalue_from_numpy(copy, self._place), copy)

    def to_numpy(self, value: Value) -> np.ndarray:
        """A copy of the content."""
        return np.array(value.numpy())

    feed = Engine.feed
    fetching = Engine.fetching
    # No program writes to a value: steps by NumPy do not reach the memory of a device.
    lend = Engine.lend
    updates_in_place = Engine.updates_in_place

    def detached(self, value: Value) -> Value:
        """A copy on the device."""
        return self.from_numpy(value.numpy())

    def calling(self, made: Any, inputs: Sequence[str], outputs: Sequence[str]) -> Call:
        """A function that binds tensors to the inputs; results are made on the device."""
        place = self._place

        def run(*values: Value) -> tuple[Value, ...]:
            binding = bindings.SessionIOBinding(made)
            for name, value in zip(inputs, values, strict=True):
                binding.bind_ortvalue_input(name, value._ortvalue)
            for name in outputs:
                binding.bind_output(name, place)
            try:
                # Copies of arrays to CUDA, and kernels, may be under way when a call returns, and
                # another session does not wait for them.
                binding.synchronize_inputs()
                made.run_with_iobinding(binding, None)
                binding.synchronize_outputs()
            except RuntimeError as error:
                # The library's own errors have lost their kind here.
                raise bindings.InvalidArgument(str(error)) from error
            return tuple([ort.OrtValue(value) for value in binding.get_outputs()])

        return run

    def by_arrays(self, call: Call) -> Call:
        """Functions of Python compute with arrays, so what goes in and out is copied."""

        def run(*values: Value) -> tuple[Value, ...]:
            return tuple([self.from_numpy(y) for y in call(*[x.numpy() for x in values])])

        return run


OnnxRuntime.device_engine = DeviceEngine
ENGINE = OnnxRuntime()
