"""The engine: values, and what running a program takes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor

from backplane.core.graph import KeySource
from backplane.core.mesh import Layout
from backplane.core.spec import Spec
from backplane.engines.arrays.control import loops
from backplane.engines.base import Engine, natives
from backplane.engines.programs import Blocks, Function, Program
from backplane.engines.table import Lowering, Table, Value
from backplane.engines.torch import convolution, devices, linear, native, tracing
from backplane.engines.torch.control import ROWS
from backplane.engines.torch.dtypes import NAMES, SIGNED, TORCH, to_array
from backplane.engines.torch.fast import attention, updates
from backplane.engines.torch.fast.blocks import BLOCKS

if hasattr(os, "register_at_fork"):
    # In a forked child, OpenMP would wait for the threads of the parent.
    os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))


class TorchEngine(Engine):
    """PyTorch. The emitted program runs as it is, or through `torch.compile`."""

    name = "torch"
    library = "torch"
    native_types = (torch.Tensor,)
    hashable = ("{x}.shape", "{x}.dtype")
    """The shape may not be hashable while PyTorch's compiler traces."""
    index_errors = (IndexError, RuntimeError)
    shortage = "allocate memory|out of memory"
    writes_over = True
    capabilities = frozenset({"host_shapes", "unsigned", "eager", "steps", "mesh"}) | (
        frozenset() if devices.ACCELERATED else {"blocks"}
    )

    native_device: torch.device | None = None
    """The device on which all programs run, if there is one."""

    def __init__(self) -> None:
        running_graphs = Table.joined(loops(self, ROWS), natives(self))
        self.table = Table.of_rooms(__package__, attention.TABLE, updates.TABLE, running_graphs)
        self._running_graphs = frozenset(running_graphs)

    # --- values ---------------------------------------------------------------------------------

    def spec_of(self, value: Value) -> Spec:
        """Sizes are unknown where PyTorch's compiler traces with symbolic ones, and where
        `torch.jit.trace` does, but for those of parameters.
        """
        sizes: Any
        if isinstance(value, torch.nn.Parameter) and tracing.in_jit_trace():
            sizes = tracing.present_sizes(value)
        else:
            sizes = tuple([n if type(n) is int else None for n in value.shape])
        return Spec(sizes, NAMES.get(value.dtype) or str(value.dtype).removeprefix("torch."))

    def present_spec(self, value: Value) -> Spec:
        """All sizes are known where `torch.jit.trace` records."""
        spec = self.spec_of(value)
        known = tracing.in_jit_trace() and None in spec.shape
        return Spec(tracing.present_sizes(value), spec.dtype) if known else spec

    def is_tracing(self) -> bool:
        """Whether `torch.jit.trace` records."""
        return tracing.in_jit_trace()

    def has_value(self, value: Value) -> bool:
        """Whether the program is neither exported nor transformed by `torch.func`."""
        return not (
            torch._C._functorch.is_functorch_wrapped_tensor(value) or isinstance(value, FakeTensor)
        )

    def from_numpy(self, array: np.ndarray, dtype: str | None = None) -> Value:
        """A copy, on the default device."""
        if tracing.in_jit_trace():
            return tracing.beside(self.from_numpy, array, dtype)
        name = dtype or array.dtype.name
        if name == "bfloat16":
            value = torch.from_numpy(np.array(array, np.float32, order="C")).to(torch.bfloat16)
        else:
            value = torch.from_numpy(np.array(array, name, order="C"))
        return value.to(devices.default_device()) if devices.ACCELERATED else value

    def key(self, source: KeySource) -> Value:
        """A key for a recorded call, which nobody reads: samples come from PyTorch's own generator
        at each run. TypeError if the source has a seed, because a record keeps no count of its
        runs.
        """
        if not tracing.is_recorded():
            return super().key(source)
        if source.given:
            raise TypeError(
                "samples with a seed (of the call, or of K.set_random_seed) cannot be part of a "
                "program that PyTorch records. Leave the seed out: then PyTorch's own generator "
                "draws, which torch.manual_seed sets"
            )
        return torch.zeros(4, dtype=torch.uint32)

    def constant(self, value: Any, dtype: str | None = None) -> Value:
        """A tensor made of the number directly, without NumPy. A size that `torch.jit.trace`
        follows is a tensor already.
        """
        if dtype is not None and isinstance(value, torch.Tensor):
            return value.to(TORCH[dtype])
        if dtype is not None and type(value) is int and dtype not in SIGNED:
            return torch.scalar_tensor(value, dtype=TORCH[dtype])
        return super().constant(value, dtype)

    def feed(self, array: np.ndarray) -> Value:
        """A tensor in the array's memory, where PyTorch can have that. It would warn of read-only
        memory, although a program never writes to what it is fed.
        """
        if array.flags.writeable and not devices.ACCELERATED:
            try:
                return torch.from_numpy(array)
            except (TypeError, ValueError):  # bfloat16, another byte order, a negative stride
                pass
        return self.from_numpy(array)

    def to_numpy(self, value: Value) -> np.ndarray:
        """A copy, whose axes are in their order in memory, whatever that of the tensor is."""
        return np.array(self.fetch(value), order="C")

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

    lend = staticmethod(updates.lent)

    def apart(self, value: Value, borrowed: Sequence[Value]) -> Value:
        """A copy of a tensor in the memory of a variable."""
        if isinstance(value, torch.Tensor) and any(
            torch._C._is_alias_of(value, b) for b in borrowed
        ):
            return value.clone()
        return value

    def copied(self, value: Value) -> Value:
        """A new tensor."""
        return value.clone()

    def adopted(self, array: np.ndarray, dtype: str, layout: Layout | None) -> Value:
        """A tensor, to which steps of optimizers may write, in the array's memory: a copy of 1 GB
        took 3 s where the system was slow to give pages. Products, and steps of Adam, take the same
        time within 3 % on the memory that NumPy aligns for itself. The last axis may come first in
        memory, as in kernels of convolutions.
        """
        laid = array if array.ndim < 3 or array.flags.c_contiguous else np.moveaxis(array, -1, 0)
        own = array.flags.owndata and laid.flags.c_contiguous and array.dtype.name == dtype
        shares = own and not tracing.in_jit_trace()
        value = self.feed(array) if shares else self.placed(array, dtype, layout)
        return updates.adopted(value)

    # --- functions of PyTorch -------------------------------------------------------------------

    def stand_in(self, spec: Spec) -> Value:
        """A tensor without memory, where `abstract` runs."""
        return torch.empty(spec.shape, dtype=TORCH[spec.dtype])

    def abstract(self, function: Lowering, specs: Sequence[Spec]) -> tuple[list[Spec], bool]:
        """Run the function on PyTorch's fake tensors."""
        return native.abstract(lambda: super(TorchEngine, self).abstract(function, specs)[0])

    pullback = staticmethod(native.pullback)

    def native(
        self, function: Lowering, specs: Sequence[Spec], results: Sequence[Spec] | None
    ) -> Lowering:
        """The function. PyTorch's compiler knows no context variables."""
        user: Any = function
        reads = getattr(user, "reads_context", False)
        run: Lowering = torch.compiler.disable(user.__call__) if reads else user
        return run

    # --- programs -------------------------------------------------------------------------------

    def updates_in_place(self, options: Mapping[str, Any]) -> bool:
        """Whether PyTorch's optimizer kernels serve: `torch.compile` fuses by itself."""
        return not options.get("compile")

    def blocks(self) -> Blocks:
        """PyTorch's calls."""
        return BLOCKS

    def devices(self) -> list[str]:
        """All devices: accelerators first."""
        return devices.names()

    def prepare(self, kind: type) -> Mapping[Any, str]:
        """New tensors go to the first accelerator, if the default device is the CPU."""
        devices.prefer_accelerator()
        return super().prepare(kind)

    def compile(self, program: Program) -> Function:
        """The program as it is, or through `torch.compile` if the option `compile` is given: True,
        the name of a mode, or pairs of its arguments.

        Nothing that a program reads is on PyTorch's tape (`detached`, `lend`). So the tape is
        switched off, which takes 0.4 µs, only for programs with lowerings that look for it.
        `torch.autocast` is off for programs whose products it would change.
        """
        function = program.function
        wish = program.options.get("compile")
        if wish:
            function = torch.compile(function, **_compile_arguments(wish))
        function = self._placed(program, function)
        runs_more = wish or not self._running_graphs.isdisjoint(program.operations)
        if runs_more or any(map(linear.asks_for_tape, program.lowerings)):
            function = without_tape(function)
        multiplies = runs_more or not PRODUCTS.isdisjoint(program.operations)
        return without_autocast(function) if multiplies else function

    def eager(self, program: Program) -> Function:
        """Run a program on native values, on the device on which they are."""
        return self._placed(program, program.function)

    def _placed(self, program: Program, function: Function) -> Function:
        if not devices.ACCELERATED:
            return function
        makers = MAKERS | self._running_graphs
        makes = program.values_from_host or not makers.isdisjoint(program.operations)
        wish = program.options.get("compile")
        return devices.following_inputs(function, bool(makes or wish), self.native_device)


MAKERS = frozenset(("full", "arange", "random_uniform", "random_normal"))
"""The primitives that make tensors of nothing, besides those that run graphs."""

PRODUCTS = frozenset((*linear.TABLE, *convolution.TABLE))
"""The primitives that `torch.autocast` computes in half precision."""


def without_autocast(function: Function) -> Function:
    """`function` in the dtypes of its program, whatever surrounds the call."""
    is_on = torch._C._is_any_autocast_enabled
    devices_of = dict.fromkeys(("cpu", devices.default_device().type))

    def run(*inputs: Value) -> tuple[Value, ...]:
        if not is_on():
            return function(*inputs)
        with ExitStack() as off:
            for device in devices_of:
                off.enter_context(torch.autocast(device, enabled=False))
            return function(*inputs)

    return run


def _compile_arguments(wish: Any) -> dict[str, Any]:
    if wish is True:
        return {}
    return {"mode": wish} if isinstance(wish, str) else dict(wish)


def without_tape(function: Function) -> Function:
    """`function` with gradients off.

    Not in inference mode: its results could never be used with the tape afterwards, and entering it
    takes longer. The two calls into `torch._C` do what `torch.no_grad` does, in a sixth of its
    time.
    """
    is_on, switch = torch.is_grad_enabled, torch._C._set_grad_enabled

    def run(*inputs: Value) -> tuple[Value, ...]:
        if not is_on():
            return function(*inputs)
        try:  # An interrupt may come at the end of a call into C.
            switch(False)
            return function(*inputs)
        finally:
            switch(True)

    return run
