"""The engine: the table, and programs as sessions.

A session takes NumPy arrays and gives NumPy arrays without copying either, and in less time than
through bound buffers. So arrays are the values here, and a variable is handed to a call as the
array that the last one gave. ONNX Runtime's own tensors, which have no operators, are taken too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from onnx import ModelProto

from backplane.core.numbers import show
from backplane.core.spec import Spec
from backplane.engines.arrays.engine import ArrayEngine
from backplane.engines.arrays.native import TakesFunctions
from backplane.engines.base import Engine, natives
from backplane.engines.fast import applies
from backplane.engines.onnxruntime import control, groups, native
from backplane.engines.onnxruntime.builder import Place, Scope, Symbol, building, literal, made_by
from backplane.engines.onnxruntime.export import export
from backplane.engines.onnxruntime.fast import updates
from backplane.engines.onnxruntime.fast.folding import fold
from backplane.engines.onnxruntime.fast.frozen import FAILURES, settled
from backplane.engines.onnxruntime.hosted import host_kernels
from backplane.engines.onnxruntime.library import (
    CPU,
    DIVIDING,
    DTYPES,
    IMPRECISE,
    OPSET,
    THREADS,
    bindings,
    ort,
    ort_value,
    session,
)
from backplane.engines.onnxruntime.model import model, named, named_only
from backplane.engines.programs import Line, Program, located
from backplane.engines.table import NOTHING, Lowering, Table, Value, element_count

Call = Callable[..., tuple[Value, ...]]
FailingLine = Callable[[BaseException], Line | None]

GPUS = frozenset(("CUDAExecutionProvider", "ROCMExecutionProvider", "MIGraphXExecutionProvider"))
"""ONNX Runtime's names of what runs programs on a GPU."""

SMALL = 1 << 15
"""Elements that go in and out of a program up to which one thread is enough."""


MANY = 2000
"""Nodes up to which ONNX Runtime optimizes any model: 0.2 s; for 5000, 1.7 s of 1.9."""


def _first_size(value: Value) -> int:
    """The library's tensors have no length."""
    return len(value) if isinstance(value, np.ndarray) else int(value.shape()[0])


class OnnxRuntime(TakesFunctions, ArrayEngine):
    """ONNX Runtime on the CPU."""

    name = "cntk"
    library = "onnxruntime"
    native_types = (ort.OrtValue,)
    capabilities = frozenset({"unsigned", "freezes"})
    missing_dtypes = frozenset({"bfloat16"})
    index_errors = (bindings.InvalidArgument,)
    shortage = "(?<!pre-)[Aa]llocat"
    holds_arrays = False
    first_size = staticmethod(_first_size)

    def __init__(self) -> None:
        own = updates.TABLE, control.lowerings(self), host_kernels(), natives(self)
        self.table = Table.of_rooms(__package__, *own).wrapped(_specified)

    # --- values -----------------------------------------------------------------------------------

    def spec_of(self, value: Value) -> Spec:
        """Shape and dtype name."""
        if isinstance(value, np.ndarray):
            return Spec(value.shape, value.dtype.name)
        return Spec(tuple(value.shape()), DTYPES[value.element_type()])

    def from_numpy(self, array: np.ndarray, dtype: str | None = None) -> Value:
        """The array itself where it has the dtype: programs write to no operand."""
        return np.asarray(array, dtype, order="C")

    def to_numpy(self, value: Value) -> np.ndarray:
        """A copy of the content."""
        return np.array(value if isinstance(value, np.ndarray) else value.numpy())

    copied = Engine.copied
    """Sessions copy what they return."""

    def constant(self, value: Any, dtype: str | None = None) -> Value:
        """A literal of the model."""
        return literal(np.asarray(value, dtype))

    # The first step of an optimizer copies the initial values, which may be constants of a session.
    adopted = Engine.adopted

    # --- functions of arrays ----------------------------------------------------------------------

    def as_value(self, result: Any) -> Value:
        """An array."""
        return np.asarray(result)

    def native(
        self, function: Lowering, specs: Sequence[Spec], results: Sequence[Spec] | None
    ) -> Lowering:
        """A cut in the program."""
        return native.lowering(function, results)

    def bad_numbers(self, error: BaseException) -> tuple[bool, bool]:
        """The lowering of the check puts the answer into an index (`elementwise.py`)."""
        index = int((_INDEX.search(str(error)) or ("", "0"))[1])
        return bool(index & 1), bool(index & 2)

    # --- programs ---------------------------------------------------------------------------------

    def compile(self, program: Program) -> Call:
        """A session. With the option `native` tensors of ONNX Runtime give such tensors."""
        call, unsure, failing_line = _session(program, "Scan", self)
        if unsure:
            call, failing_line = _with_second_try(call, program, failing_line, self)
        if program.options.get("native"):
            call = _giving_alike(call)
        run = located(call, failing_line)
        if self.freezes(program):
            run.program = program  # type: ignore[attr-defined]
        return run

    def updates_in_place(self, options: Mapping[str, Any]) -> bool:
        """Whether variables are arrays, to which steps can write (`updates.py`)."""
        return not options.get("native")

    def freezes(self, program: Program) -> bool:
        """Whether a program may get a session in which variables are constants. ONNX Runtime rounds
        some constants to float32, and does not optimize programs with float16 (`_session`).
        """
        wished = program.options.get("freeze", True) and not program.options.get("native")
        return wished and not program.state and not program.dtypes & {"float16", "float64"}

    def repeated(self, run: Call) -> Call:
        """A program that may get such a session (`frozen.py`)."""
        program: Program | None = getattr(run, "program", None)
        if program is None:
            return run
        made = settled(program, run, partial(_frozen, program, self))
        return made if made is run else located(made, run.failing_line)  # type: ignore[attr-defined]

    providers: Sequence[str] = (CPU,)
    """ONNX Runtime's names of what runs a program, the preferred one first."""

    def calling(self, made: Any, inputs: Sequence[str], outputs: Sequence[str]) -> Call:
        """A function of values that runs a session."""
        return _call(made.run, inputs, outputs)

    def by_arrays(self, call: Call) -> Call:
        """A function of values, from one that takes and gives arrays."""
        return call

    def devices(self) -> list[str]:
        """A GPU, where ONNX Runtime was built for one, and the CPU."""
        return [*(["gpu:0"] if GPUS.intersection(ort.get_available_providers()) else []), "cpu:0"]

    def for_opset(self, opset: int | None) -> OnnxRuntime:
        """This engine without the lowerings to operators that a version of ONNX does not have."""
        missing = [name for name, since in groups.SINCE.items() if (opset or OPSET) < since]
        if not missing:
            return self
        older = OnnxRuntime()
        for name in missing:
            del older.table[name]
        return older

    export = staticmethod(export)


def _specified(specs: Sequence[Spec], lowering: Lowering) -> Lowering:
    """A lowering that gets symbols which know as much of their shapes as the graph does."""

    def lower(*operands: Symbol | None) -> Any:
        pairs = zip(operands, specs, strict=True)
        known = [None if x is None else x.known(spec) for x, spec in pairs]
        with made_by(sys._getframe(1)):
            return lowering(*known)

    return lower


class _Built(NamedTuple):
    """The nodes of a program, its inputs and outputs by name, and the steps after its session."""

    scope: Scope
    inputs: dict[str, Spec]
    outputs: dict[str, Spec]
    steps: list[updates.Placed]


def _built(program: Program, kind: str, kept: Collection[str] = ()) -> _Built:
    """A program whose loops are of a kind. The inputs that are `kept` are constants."""
    scope = Scope(loops=kind, serial=_threads(program) == 1, frozen=set(kept))
    with building(scope):
        given = [Symbol(f"x{i}", spec.dtype, spec.shape) for i, spec in enumerate(program.inputs)]
        parts = updates.parts_of(given, program.function(*given), program)
        outputs = scope.outputs([*parts.results, *[x for _, x in scope.printed]])
    specs = [*parts.specs, *[Spec(x.shape or (), x.dtype) for _, x in scope.printed]]
    inputs = {key: spec for key, spec in named(given, program.inputs).items() if key not in kept}
    return _Built(scope, inputs, named(outputs, specs), parts.steps)


def _session(program: Program, kind: str, engine: OnnxRuntime) -> tuple[Call, bool, FailingLine]:
    """A session for a kind of loop, whether that may fail, and the finder of an error's line."""
    scope, inputs, outputs, steps = _built(program, kind)
    written = {o for step in steps for o in step.outputs if o is not None}
    count = len(program.outputs) - len(written)
    if not outputs:  # ONNX Runtime takes no model without results.
        return updates.stepping(lambda *inputs: (), steps, count), False, lambda error: None
    start = partial(_started, program, scope, engine)
    names = list(inputs), list(outputs)
    if native.has_calls(scope):
        call = engine.by_arrays(native.in_parts(scope, *names, start))
    else:
        call = engine.calling(start(model(scope, inputs, outputs, "program")), *names)
    if scope.printed:
        call = _printing(call, [how for how, _ in scope.printed])
    call = updates.stepping(call, steps, count)
    # The emitted function, and with it those of its loops, is kept because what its lines mean is
    # forgotten with it.
    return call, scope.unsure, partial(_failing_line, scope.places, program.function)


def _frozen(program: Program, engine: OnnxRuntime, arrays: Mapping[int, np.ndarray]) -> Call | None:
    """A function of the other inputs that runs a session in which `arrays` are constants, by their
    positions. None if ONNX Runtime would not optimize it, or a session is not all that runs.
    """
    kept = {f"x{i}": array for i, array in arrays.items()}
    scope, inputs, outputs, _ = _built(program, "Scan", kept)
    if not outputs or scope.printed or native.has_calls(scope):
        return None
    if applies("onnxruntime.folding"):
        fold(scope, list(outputs))
    made = model(scope, inputs, outputs, "program", kept)
    if not _pays(made):
        return None
    return engine.calling(_started(program, scope, engine, made, kept), list(inputs), list(outputs))


def _started(
    program: Program,
    scope: Scope,
    engine: OnnxRuntime,
    made: ModelProto,
    kept: Mapping[str, np.ndarray] = NOTHING,
) -> Any:
    """A session of a model, which may be a part of the program."""
    without = {
        *(IMPRECISE if "float64" in program.dtypes else ()),
        *(DIVIDING if scope.stacks else ()),
    }

    # Without kernels for float16, the processor computes in float32. The optimizer leaves out the
    # rounding in between, so a maximum would not equal the element that it was taken from.
    rounds = "float16" in program.dtypes and not GPUS.intersection(engine.providers)
    return session(
        made.SerializeToString(),
        _threads(program),
        _pays(made) and not rounds,
        without,
        engine.providers,
        {name: kept[name] for name in named_only(made)},
    )


def _pays(made: ModelProto) -> bool:
    """Whether ONNX Runtime should optimize a model. That takes a time that grows with the square of
    the number of nodes. It gains much only around convolutions, whose layouts ONNX Runtime chooses.
    """
    nodes = made.graph.node
    return len(nodes) <= MANY or any("Conv" in node.op_type for node in nodes)


_INDEX = re.compile(r"idx=(\d+)")
_NODE = re.compile(r"Name:'(?:fused )?(v\d+)")


def _failing_line(places: Mapping[str, Place], program: Call, error: BaseException) -> Line | None:
    """The line of the emitted program that made the node which an error names: the innermost."""
    names = reversed(_NODE.findall(str(error)))
    return next((places[x].line for x in names if x in places), None)


def _threads(program: Program) -> int:
    """The number of threads: one for small programs. Each session has its own pool of threads,
    which takes milliseconds to make. A pool for all sessions would also be forced on sessions that
    the user makes.
    """
    specs = [*program.inputs, *program.outputs]
    small = all(spec.is_static for spec in specs) and sum(map(element_count, specs)) <= SMALL
    return 1 if small else THREADS


def _call(run: Callable[..., Any], inputs: Sequence[str], outputs: Sequence[str]) -> Call:
    """A function of the inputs that runs a session. It is written as text that names the inputs,
    because making their dictionary in a loop takes three times as long.
    """
    arguments = ", ".join(inputs)
    feeds = ", ".join([f"{name!r}: {name}" for name in inputs])
    names = {"run": run, "outputs": list(outputs)}
    return eval(f"lambda {arguments}: run(outputs, {{{feeds}}}, None)", names)


def _printing(call: Call, messages: Sequence[tuple[str, tuple[Any, ...]]]) -> Call:
    """Print the last results instead of returning them."""

    def run(*values: Value) -> tuple[Value, ...]:
        results = call(*values)
        count = len(results) - len(messages)
        for (message, style), value in zip(messages, results[count:], strict=True):
            show(value, message, style)
        return results[:count]

    return run


def _with_second_try(
    call: Call, program: Program, failing_line: FailingLine, engine: OnnxRuntime
) -> tuple[Call, FailingLine]:
    """If a call fails, maybe for a loop without steps, try slower loops, whose errors count."""
    second: list[tuple[Call, FailingLine]] = []

    def run(*values: Value) -> tuple[Value, ...]:
        try:
            return call(*values)
        except FAILURES:
            if not second:
                made, _, line = _session(program, "Loop", engine)
                second.append((made, line))
            return second[0][0](*values)

    return run, lambda error: (second[0][1] if second else failing_line)(error)


def _giving_alike(call: Call) -> Call:
    """Tensors of ONNX Runtime if any are given, arrays otherwise."""

    def run(*values: Value) -> tuple[Value, ...]:
        results = call(*values)
        if any(type(value) is ort.OrtValue for value in values):
            return tuple([ort_value(array) for array in results])
        return results

    return run
