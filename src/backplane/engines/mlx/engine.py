"""The engine: values, and what running a program takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from threading import get_ident, main_thread
from typing import Any

import mlx.core as mx
import numpy as np

from backplane.core.spec import Spec
from backplane.engines import yielding
from backplane.engines.arrays.control import Rows, loops
from backplane.engines.base import Engine, natives
from backplane.engines.mlx import elementwise, factorizations, slices
from backplane.engines.mlx.values import MLX, NAMES, from_numpy, to_numpy, zeros
from backplane.engines.placement import OnDevice
from backplane.engines.programs import Function, Program
from backplane.engines.table import Lowering, Table, Value

ROWS = Rows(
    list, lambda rows: mx.stack(list(rows)), lambda shape, dtype: mx.zeros(shape, MLX[dtype]),
    after=lambda rows, state: mx.depends(list(rows), list(state)),
)  # fmt: skip
"""Loops are Python's own, over lazy arrays."""


MAIN = main_thread().ident
"""The thread that evaluates what others have made."""


class MLXEngine(Engine):
    """MLX. An emitted program builds MLX's lazy graph, which is evaluated at its end; with the
    option `compile`, `mx.compile` keeps that graph and fuses it.
    """

    name = "mlx"
    library = "mlx"
    native_types = (mx.array,)
    hashable = ("{x}.shape", "{x}.dtype")
    capabilities = frozenset({"host_shapes", "unsigned", "eager", "unchecked", "lazy"})
    shortage = "allocate"
    largest_size = 2**31 - 1

    def __init__(self) -> None:
        own = factorizations.lowerings(self), loops(self, ROWS), natives(self)
        self.table = Table.of_rooms(__package__, *own)

    # --- values ---------------------------------------------------------------------------------

    def spec_of(self, value: Value) -> Spec:
        """Shape and dtype, known also while MLX traces."""
        dtype = value.dtype
        return Spec(tuple(value.shape), NAMES.get(dtype) or str(dtype).removeprefix("mlx.core."))

    from_numpy = staticmethod(from_numpy)
    to_numpy = staticmethod(to_numpy)
    """Copies. All devices share their memory, and a lazy value is computed when it is copied."""

    def fetching(self, spec: Spec) -> Callable[[Value], np.ndarray]:
        """NumPy's own function, which copies."""
        return to_numpy if spec.dtype == "bfloat16" else np.array

    def lend(self, value: Value) -> Value:
        """Another object for the same value: a user may assign to its elements."""
        return elementwise.identity(value)

    copied = lend

    def wait(self, values: Sequence[Value]) -> None:
        """Compute what is lazy."""
        mx.eval(*values)

    # --- functions of MLX -----------------------------------------------------------------------

    def stand_in(self, spec: Spec) -> Value:
        """Zeros, which are never computed."""
        return zeros(spec.shape, MLX[spec.dtype])

    def abstract(self, function: Lowering, specs: Sequence[Spec]) -> tuple[list[Spec], bool]:
        """The results of a function; on the processor if it takes float64."""
        with mx.stream(mx.cpu) if any(s.dtype == "float64" for s in specs) else nullcontext():
            return super().abstract(function, specs)

    def pullback(
        self, function: Function, operands: Sequence[Value], cotangents: Sequence[Value]
    ) -> Sequence[Value]:
        """Use `mx.vjp`."""
        return mx.vjp(function, list(operands), list(cotangents))[1]

    # --- programs -------------------------------------------------------------------------------

    def devices(self) -> list[str]:
        """The GPU, where there is one, and the CPU."""
        kinds = (("gpu", mx.gpu), ("cpu", mx.cpu))
        return [f"{name}:0" for name, kind in kinds if mx.is_available(kind)]

    def compile(self, program: Program) -> Function:
        """The program, and the evaluation of all that it returns.

        `mx.compile` is left to the caller (`K.function(…, compile=True)`): on a processor it calls
        the system's C++ compiler, which takes a second or two for each fused kernel.
        """
        function = program.function
        if program.options.get("compile") and not program.sizes_from_values:
            function = mx.compile(function)
        function = _placed(program, function)

        def run(*inputs: Value) -> tuple[Value, ...]:
            results = function(*inputs)
            mx.eval(results)
            return results

        return run

    def eager(self, program: Program) -> Function:
        """The callable that runs a program on native values: lazily, as MLX itself does. Other
        threads than the main one evaluate, since no other can evaluate what is lazy there.
        """
        function = _placed(program, program.function)

        def run(*inputs: Value) -> tuple[Value, ...]:
            results = function(*inputs)
            if get_ident() != MAIN and all(map(self.has_value, results)):
                mx.eval(results)
            return results

        return run

    def prepare(self, kind: type) -> Mapping[Any, str]:
        """MLX (0.32) refuses operands that it does not know, and takes those that have a
        `__float__` for complex numbers. It refuses arrays as bounds of slices too.
        """
        names = (*yielding.ARITHMETIC, *yielding.BITS, *yielding.COMPARISONS, *yielding.IN_PLACE)
        yielding.yield_to(kind, mx.array, names)
        slices.take_arrays()
        return NAMES


def _placed(program: Program, function: Function) -> Function:
    """`function` on the processor if float64 occurs in it, which MLX has nowhere else."""
    if "float64" not in program.dtypes:
        return function

    def run(*inputs: Value) -> tuple[Value, ...]:
        with mx.stream(mx.cpu):
            return function(*inputs)

    return run


class DeviceEngine(OnDevice, MLXEngine):
    """MLX, whose programs run on one device. All devices share their memory."""

    def here(self) -> AbstractContextManager[Any]:
        """A stream of the device."""
        return mx.stream(mx.gpu if self.device.startswith("gpu") else mx.cpu)

    def moved(self, value: Value) -> Value:
        """The value itself."""
        return value


MLXEngine.device_engine = DeviceEngine
ENGINE = MLXEngine()
