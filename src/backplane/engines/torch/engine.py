"""The engine: values, and what running a program takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from backplane.core.spec import Spec
from backplane.engines.arrays.control import loops
from backplane.engines.base import Blocks, Engine, Function, Program, Table, Value
from backplane.engines.torch import devices, linear, updates
from backplane.engines.torch.blocks import BLOCKS
from backplane.engines.torch.control import ROWS
from backplane.engines.torch.dtypes import NAMES, SIGNED, TORCH, to_array


class TorchEngine(Engine):
    """PyTorch. The emitted program runs as it is, or through `torch.compile`."""

    name = "torch"
    library = "torch"
    writes_over = True
    capabilities = frozenset(
        ("host_shapes", "float16", "bfloat16", "unsigned", "eager", "tape", "steps")
    ) | (frozenset() if devices.ACCELERATED else {"blocks"})
    # PyTorch warns of read-only memory, although a program never writes to what it is fed, and
    # takes no negative strides.
    feeds_at_once = None if devices.ACCELERATED else ("{x}.flags.carray", torch.from_numpy)

    def __init__(self) -> None:
        running_graphs = loops(self, ROWS)
        self.table = Table.of_rooms(__package__, updates.TABLE, running_graphs)
        self._running_graphs = frozenset(running_graphs)

    # --- values ---------------------------------------------------------------------------------

    def owns(self, value: object) -> bool:
        """Whether `value` is a `torch.Tensor`."""
        return isinstance(value, torch.Tensor)

    def spec_of(self, value: Value) -> Spec:
        """Sizes are unknown where PyTorch's compiler traces with symbolic ones."""
        sizes = tuple([n if type(n) is int else None for n in value.shape])
        return Spec(sizes, NAMES[value.dtype])

    def signature(self, kind: type) -> tuple[str, ...]:
        """Shape and dtype. Where PyTorch's compiler traces, a shape may not be hashable."""
        return "{x}.shape", "{x}.dtype"

    def from_numpy(self, array: np.ndarray, dtype: str | None = None) -> Value:
        """A copy, on the default device."""
        name = dtype or array.dtype.name
        if name == "bfloat16":
            value = torch.from_numpy(np.array(array, np.float32, order="C")).to(torch.bfloat16)
        else:
            value = torch.from_numpy(np.array(array, name, order="C"))
        return value.to(devices.default_device()) if devices.ACCELERATED else value

    def from_host(self, value: Any, dtype: str) -> Value:
        """A number without the way through NumPy."""
        if type(value) is int and dtype not in SIGNED:
            return torch.scalar_tensor(value, dtype=TORCH[dtype])
        return super().from_host(value, dtype)

    def feed(self, array: np.ndarray) -> Value:
        """A tensor in the array's memory, where PyTorch can have that."""
        if array.flags.writeable and not devices.ACCELERATED:
            try:
                return torch.from_numpy(array)
            except (TypeError, ValueError):  # bfloat16, another byte order, a negative stride
                pass
        return self.from_numpy(array)

    def to_numpy(self, value: Value) -> np.ndarray:
        """A copy."""
        return np.array(self.fetch(value))

    def fetch(self, value: Value) -> np.ndarray:
        """An array in the tensor's memory, where NumPy can have that."""
        try:
            return value.numpy()
        except (TypeError, RuntimeError):  # bfloat16, another device, a tensor on the tape
            return to_array(value)

    def fetching(self, spec: Spec) -> Callable[[Value], np.ndarray]:
        """PyTorch's own function: results are on no tape."""
        plain = spec.dtype != "bfloat16" and not devices.ACCELERATED
        return torch.Tensor.numpy if plain else self.fetch

    def detached(self, value: Value) -> Value:
        """The same memory, off the tape."""
        return value.detach()

    def lend(self, value: Value) -> Value:
        """A copy of what a later step of an optimizer writes to. Of other values a tensor of its
        own in the same memory: whether the tape follows that one is the user's business.
        """
        return value.clone() if updates.may_be_written(value) else value.detach()

    # --- programs -------------------------------------------------------------------------------

    def updates_in_place(self, options: Mapping[str, Any]) -> bool:
        """By PyTorch's kernels of optimizers; its compiler fuses the operations by itself."""
        return not options.get("compile")

    def blocks(self) -> Blocks:
        """PyTorch's calls."""
        return BLOCKS

    def writes(self, options: Mapping[str, Any]) -> bool:
        """Where nothing watches: a tape never does, PyTorch's compiler reuses memory by itself."""
        return not (options.get("compile") or devices.ACCELERATED)

    def devices(self) -> list[str]:
        """All devices: accelerators first."""
        return devices.names()

    def compile(self, program: Program) -> Function:
        """The program; with the option `compile`, by `torch.compile`: True, the name of a mode, or
        pairs of arguments of it.

        Nothing that a program reads is on PyTorch's tape (`detached`, `lend`), so that the tape
        must be off only for those who look for it: that takes 0.4 µs.
        """
        function = program.function
        wish = program.options.get("compile")
        if wish:
            function = torch.compile(function, **_compile_arguments(wish))
        function = self._placed(function)
        return _without_tape(function) if wish or self._asks_for_tape(program) else function

    def _asks_for_tape(self, program: Program) -> bool:
        asks = any(map(linear.asks_for_tape, program.lowerings))
        return asks or not self._running_graphs.isdisjoint(program.operations)

    def eager(self, program: Program) -> Function:
        """What runs a program on native values: on their device, whichever that is."""
        return self._placed(program.function)

    @staticmethod
    def _placed(function: Function) -> Function:
        return devices.following_inputs(function) if devices.ACCELERATED else function


def _compile_arguments(wish: Any) -> dict[str, Any]:
    if wish is True:
        return {}
    return {"mode": wish} if isinstance(wish, str) else dict(wish)


def _without_tape(function: Function) -> Function:
    """`function` with gradients off.

    Not in inference mode: its results could never be used with the tape afterwards, and entering it
    takes longer. The two calls into `torch._C` do what `torch.no_grad` does, in a sixth of its
    time.
    """
    is_on, switch = torch.is_grad_enabled, torch._C._set_grad_enabled

    def run(*inputs: Value) -> tuple[Value, ...]:
        if not is_on():
            return function(*inputs)
        switch(False)
        try:
            return function(*inputs)
        finally:
            switch(True)

    return run


ENGINE = TorchEngine()
