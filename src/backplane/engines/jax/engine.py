"""The engine: values, and what running a program takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback
from jax.extend.core import get_opaque_trace_state

from backplane.core.atomic import deferred_signals
from backplane.core.graph import KeySource
from backplane.core.spec import DTYPES, Spec
from backplane.engines.base import Engine, natives
from backplane.engines.fast import applies
from backplane.engines.jax import as_pytrees, control, memory, unknown
from backplane.engines.jax.fast import cpu, ynnpack
from backplane.engines.programs import Function, Program, writing
from backplane.engines.table import Lowering, Table, Value, element_count

WIDE = frozenset(("int64", "uint64", "float64"))
"""Dtypes that JAX has only inside `jax.enable_x64`."""

SMALL = 1 << 10
"""Elements up to which there is memory for a result."""

_NAMES = {jnp.dtype(name): name for name in DTYPES}
"""NumPy puts a name together at each question, which takes 1.7 µs."""


class JaxEngine(Engine):
    """JAX. A program is compiled anew for each set of input shapes, by `jax.jit`."""

    name = "jax"
    takes_arrays = True
    writes_over = True
    library = "jax"
    shortage = "RESOURCE_EXHAUSTED"
    capabilities = frozenset(
        {"host_shapes", "unsigned", "eager", "static", "fuses", "unchecked", "mesh"}
    )

    _idle: Any = None
    """A state of JAX in which nothing was traced."""

    def __init__(self) -> None:
        self.table = Table.of_rooms(__package__, control.lowerings(self), natives(self))

    # --- values ---------------------------------------------------------------------------------

    def owns(self, value: object) -> bool:
        """Whether `value` is a `jax.Array` (what JAX traces with is one too) or a symbolic size."""
        return isinstance(value, jax.Array) or unknown.is_size(value)

    def spec_of(self, value: Value) -> Spec:
        """Shape and dtype. Both are known also while JAX traces, except symbolic sizes."""
        if isinstance(value, jax.core.Tracer):
            return Spec(unknown.sizes(value), value.dtype.name)
        if unknown.is_size(value):
            return Spec((), "int32")
        dtype = value.dtype
        return Spec(value.shape, _NAMES.get(dtype) or dtype.name)

    def is_tracing(self) -> bool:
        """While JAX traces, whatever it makes is a tracer. To make something takes 20 µs; a state
        of JAX in which that was no tracer is recognized in 0.4.
        """
        state = get_opaque_trace_state()
        if state == self._idle:
            return False
        if isinstance(jnp.zeros(()), jax.core.Tracer):
            return True
        self._idle = state
        return False

    def traced_sizes(self, value: Value) -> np.ndarray | None:
        """As NumPy's numbers, so that what is computed from them can still be a size."""
        if not isinstance(value, jax.core.Tracer):
            return None
        return np.array(value.shape, object if None in unknown.sizes(value) else np.int32)

    def known_sizes(self, value: Value) -> np.ndarray | None:
        """The numbers of short vectors of integers that are no tracers."""
        if isinstance(value, jax.core.Tracer) or unknown.is_size(value):
            return None
        return np.asarray(value) if unknown.may_be_sizes(value) and self.is_tracing() else None

    def signature(self, kind: type) -> tuple[str, ...]:
        """Shape and dtype, for arrays with values."""
        return ("{x}.shape", "{x}.dtype") if kind is memory.array_type() else ()

    def from_numpy(self, array: np.ndarray, dtype: str | None = None) -> Value:
        """A copy, on the default device.

        NumPy copies: JAX returns before it has read all. And while a user's function is traced the
        value must not become a part of that trace: a variable may keep it. `jnp.asarray` would
        compile a program for each new shape, in some 15 ms.
        """
        name = dtype or _NAMES.get(array.dtype) or array.dtype.name
        copy = np.array(array, name)
        if name not in WIDE and not self.is_tracing():
            return jax.device_put(copy)
        with memory.wide(), jax.ensure_compile_time_eval():
            return jax.device_put(copy)

    def key(self, source: KeySource) -> Value:
        """Drawn by a call back to Python where a program is traced: JAX itself holds no state."""
        if self.is_tracing():
            return io_callback(source.draw, jax.ShapeDtypeStruct((4,), np.uint32))
        return self.from_numpy(source.draw())

    def fetching(self, spec: Spec) -> Callable[[Value], np.ndarray] | None:
        """A copy to write to. Large results are waited for: a failing copy ends the process."""
        small = spec.is_static and element_count(spec) <= SMALL
        return np.array if small else lambda value: np.array(value.block_until_ready())

    def constant(self, value: Any, dtype: str | None = None) -> Value:
        """The array itself: XLA folds it into the program."""
        return np.asarray(value, dtype)

    def feed(self, array: np.ndarray) -> Value:
        """The array itself: a compiled program takes it faster than anything made of it."""
        return array

    to_numpy = staticmethod(memory.following(lambda value: np.array(jax.block_until_ready(value))))
    latest = staticmethod(memory.latest)
    lend = staticmethod(memory.following(jnp.copy))
    """A copy, because the variable's own memory is donated when a program replaces it."""

    def holds(self, dtype: str) -> bool:
        """JAX cuts wide types to 32 bits, unless it is told not to."""
        return dtype not in WIDE or bool(jax.config.jax_enable_x64)

    def has_value(self, value: Value) -> bool:
        """Whether it is neither a tracer nor a symbolic size."""
        return not (isinstance(value, jax.core.Tracer) or unknown.is_size(value))

    def wait(self, values: Sequence[Value]) -> None:
        """JAX computes asynchronously."""
        try:
            for value in values:  # `jax.block_until_ready` takes longer
                value.block_until_ready()
        except (RuntimeError, ValueError):
            _waited(*values)

    # --- functions of JAX -----------------------------------------------------------------------

    def stand_in(self, spec: Spec) -> Value:
        """Zeros that belong to no trace: the body of a loop may be the first to need them."""
        return np.zeros(spec.shape, spec.dtype)

    def abstract(self, function: Lowering, specs: Sequence[Spec]) -> tuple[list[Spec], bool]:
        """Trace the function."""
        shapes = [jax.ShapeDtypeStruct(s.shape, s.dtype) for s in specs]
        with memory.wide(_needs_64_bits(specs)):
            closed, results = jax.make_jaxpr(function, return_shape=True)(*shapes)
        return [Spec(y.shape, y.dtype.name) for y in results], bool(closed.effects)

    def native(
        self, function: Lowering, specs: Sequence[Spec], results: Sequence[Spec] | None
    ) -> Lowering:
        """The function, run with or without 64-bit types, as when it was traced for its specs."""

        def run(*operands: Value) -> list[Value]:
            with memory.wide(_needs_64_bits(specs)):
                outputs = function(*operands)
                if results is None:
                    return outputs
                return [jnp.asarray(y, s.dtype) for y, s in zip(outputs, results, strict=True)]

        return run

    def pullback(
        self, function: Function, operands: Sequence[Value], cotangents: Sequence[Value]
    ) -> Sequence[Value]:
        """Use `jax.vjp`."""
        return jax.vjp(function, *operands)[1](list(cotangents))

    # --- programs -------------------------------------------------------------------------------

    def devices(self) -> list[str]:
        """All devices of this process."""
        return list(local_devices())

    def compile(self, program: Program) -> Function:
        """`jax.jit`. Variables that keep their shape hand their memory to their new values.

        A program in which values decide on sizes cannot be compiled for given shapes: it runs op by
        op.
        """
        if program.sizes_from_values:
            return memory.following(self.eager(program))
        function, places = _strong(program.function), _donated(program)
        if places:
            options = _options(program, ynnpack.wide(program))
            run = memory.donating(function, places, program.inputs, options, self.look)
            return writing(memory.in_64_bits(run) if _is_wide(program) else run, places.values())
        if _convolves(program) and not _trains(program):

            def jitted(library: bool) -> Function:
                return self.jitted(function, _options(program, library))

            run = ynnpack.chosen(function, program.inputs, jitted)
        else:
            run = self.jitted(function, _options(program, ynnpack.wide(program)))
        run = memory.in_64_bits(run) if _is_wide(program) else run
        return memory.following(run) if program.reads_variables else run

    def jitted(self, function: Function, options: dict[str, str] | None) -> Function:
        """`jax.jit` with options for the compiler."""
        return jax.jit(function, compiler_options=options)

    def look(self, compiled: Any) -> None:
        """Called with the first compiled program of each set of input shapes."""

    def eager(self, program: Program) -> Function:
        """Compile the program by `jax.jit` for arrays with values: that is one dispatch instead of
        one for each operation. While JAX traces, a call becomes part of that trace, step by step.
        """
        function = _strong(program.function)
        run = _for_symbolic_sizes(function)
        if not program.sizes_from_values:
            run = _at_once(jax.jit(function), run)
        return memory.in_64_bits(run) if _is_wide(program) else run


def local_devices() -> dict[str, jax.Device]:
    """The devices of this process by name, those that JAX uses by itself first."""
    devices = jax.local_devices()
    if jax.default_backend() != "cpu":
        devices = [*devices, *jax.local_devices(backend="cpu")]
    return {f"{d.platform}:{d.id}": d for d in devices}


def _needs_64_bits(specs: Sequence[Spec]) -> bool:
    return bool(jax.config.jax_enable_x64) or any(spec.dtype in WIDE for spec in specs)


_waited = memory.following(lambda *values: jax.block_until_ready(values))


def _at_once(compiled: Function, steps: Function) -> Function:
    """`compiled` on arrays with values, `steps` where any argument belongs to a trace."""
    array, tracer = memory.array_type(), jax.core.Tracer

    def run(*inputs: Value) -> tuple[Value, ...]:
        for x in inputs:
            if type(x) is not array and (isinstance(x, tracer) or unknown.is_size(x)):
                return steps(*inputs)
        results = compiled(*inputs)
        traced = bool(results) and isinstance(results[0], tracer)
        if traced and all(map(unknown.may_be_sizes, (*inputs, *results))):
            # JAX takes no size that it has computed in a trace: what is known stays known.
            with deferred_signals(), jax.ensure_compile_time_eval():
                return compiled(*inputs)
        return results

    return run


def _for_symbolic_sizes(function: Function) -> Function:
    """`function`, called with symbolic sizes too. Where it fails for them, only the shapes of its
    results are found. What it computes from sizes alone is sizes again.
    """

    def run(*inputs: Value) -> tuple[Value, ...]:
        if any(map(unknown.is_size, inputs)):
            sizes = unknown.computed(function, inputs)
            if sizes is not None:
                return sizes
        try:
            return function(*inputs)
        except Exception:
            names = unknown.variables(inputs)
            if not names:
                raise
        return unknown.inferred(function, inputs, names)

    return run


def _convolves(program: Program) -> bool:
    return "= conv" in program.source and jax.default_backend() == "cpu"


def _trains(program: Program) -> bool:
    return "= conv_kernel_grad" in program.source


def _options(program: Program, library: bool) -> dict[str, str] | None:
    """Options for the compiler; see `cpu.convolution_options`."""
    if not (_convolves(program) and applies("jax.cpu")):
        return None
    return cpu.convolution_options(_trains(program), library)


def _is_wide(program: Program) -> bool:
    return not WIDE.isdisjoint(program.dtypes)


def _donated(program: Program) -> dict[int, int]:
    """The inputs whose memory an output of equal type may take over, and those outputs.

    There are none while JAX looks for NaN, because a call may then fail after it has run.
    """
    if jax.config.jax_debug_nans or jax.config.jax_debug_infs:
        return {}
    pairs = [(i, o) for i, o in program.state.items() if program.inputs[i] == program.outputs[o]]
    return {i: o for i, o in pairs if program.inputs[i].is_static}


def _strong(function: Function) -> Function:
    """`function` with results whose dtype is their own.

    A weakly typed one, as JAX makes of Python's numbers, would give way to another operand's.
    """

    def run(*inputs: Value) -> tuple[Value, ...]:
        results = function(*inputs)
        for y in results:
            if type(y) is np.ndarray or y.aval.weak_type:
                return tuple([jax.lax.convert_element_type(y, y.dtype) for y in results])
        return results

    return run


as_pytrees.register()
