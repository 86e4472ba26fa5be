"""Devices of tensors. Tensors keep their device; new ones go to PyTorch's default device."""

from __future__ import annotations

import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

from backplane.engines.programs import Function
from backplane.engines.table import Value

ACCELERATED: bool = torch.accelerator.is_available()
"""Whether tensors may be elsewhere than on the CPU. If not, nothing looks for devices."""

_CPU = torch.device("cpu")

_preferred: torch.device | None = None
"""The device of new tensors if nobody chose one of PyTorch: set by `prefer_accelerator`."""


def names() -> list[str]:
    """All devices: accelerators first. PyTorch's name for NVIDIA's is `cuda`; here it is `gpu`."""
    if not ACCELERATED:
        return ["cpu:0"]
    kind = torch.accelerator.current_accelerator().type
    kind = "gpu" if kind == "cuda" else kind
    return [*(f"{kind}:{i}" for i in range(torch.accelerator.device_count())), "cpu:0"]


def named(name: str) -> torch.device:
    """The device of one of these names."""
    return torch.device(name.replace("gpu", "cuda"))


def default_device() -> torch.device:
    """PyTorch's default device; looking it up takes longer than a small product."""
    if not ACCELERATED:
        return _CPU
    if _preferred is None or any(
        isinstance(mode, DeviceContext) for mode in _get_current_function_mode_stack()
    ):
        return torch.get_default_device()
    return _preferred


def prefer_accelerator() -> None:
    """Have new tensors go to the first accelerator. Apple's is left out: it has no float64."""
    global _preferred
    if ACCELERATED and torch.accelerator.current_accelerator().type != "mps":
        _preferred = named(names()[0])


def following_inputs(function: Function, makes: bool, place: torch.device | None) -> Function:
    """`function` on `place`; without one, on the device of the first input that is not on the CPU,
    or on the default device.

    The inputs are moved to that device, except numbers and those of dtype uint32. These are keys of
    random numbers, which are read on the CPU. PyTorch is told the device only if the function makes
    tensors of nothing (`makes`) or of keys, because it then looks at every call: 9 µs of an
    addition, on a machine with an H100.
    """

    def run(*inputs: Value) -> tuple[Value, ...]:
        device = place or next((x.device for x in inputs if not x.is_cpu), None) or default_device()
        if place is None and device.type == "cpu":
            return function(*inputs)
        moved = [x.to(device) if _is_moved(x, device) else x for x in inputs]
        if makes or any(x.is_cpu and x.ndim for x in moved):
            with torch.device(device):
                return function(*moved)
        return function(*moved)

    return run


def _is_moved(x: Value, device: torch.device) -> bool:
    return x.device != device and x.ndim > 0 and x.dtype != torch.uint32
