"""The engine: PyTensor graphs from our programs, compiled in a mode of PyTensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.io import In, Out
from pytensor.compile.mode import get_default_mode
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.traversal import graph_inputs

from backplane.core.source import marked
from backplane.core.spec import Spec
from backplane.engines.arrays.engine import ArrayEngine
from backplane.engines.base import natives
from backplane.engines.programs import Function, Program, emitted_line
from backplane.engines.pytensor import control, native
from backplane.engines.pytensor.array_op import array_ops
from backplane.engines.pytensor.fast.linker import ARRAYS
from backplane.engines.pytensor.library import spec_of, type_of, with_shape
from backplane.engines.table import Lowering, Table, Value, knowing_shapes


class PyTensorEngine(ArrayEngine):
    """Values are NumPy arrays where programs run, and PyTensor's variables where they are built."""

    name = "theano"
    library = "pytensor"
    capabilities = frozenset({"unsigned", "steps"})
    missing_dtypes = frozenset({"bfloat16"})

    def __init__(self) -> None:
        rooms = Table.of_rooms(__package__, control.lowerings(self), natives(self))
        self.table = Table.joined(rooms, array_ops(self, rooms)).wrapped(_noted)

    def owns(self, value: object) -> bool:
        """Whether `value` is a tensor variable of PyTensor: shared, constant or computed."""
        return isinstance(value, Variable) and isinstance(value.type, pt.TensorType)

    def spec_of(self, value: Value) -> Spec:
        """Shape and dtype of a variable or an array."""
        if isinstance(value, Variable):
            return spec_of(value)
        return Spec(value.shape, value.dtype.name)

    def is_symbolic(self, value: Value) -> bool:
        """Whether `value` is a variable of PyTensor."""
        return isinstance(value, Variable)

    def has_value(self, value: Value) -> bool:
        """Whether it is an array, or depends on no inputs but shared variables."""
        leaves = graph_inputs([value]) if isinstance(value, Variable) else []
        return all(isinstance(x, SharedVariable | Constant) for x in leaves)

    def is_variable(self, value: Value) -> bool:
        """Whether it is a shared variable."""
        return isinstance(value, SharedVariable)

    def assign(self, variable: Value, value: Value) -> Value:
        """An array becomes the value; of a computed value the pair that `pytensor.function` takes
        among its `updates`.
        """
        if isinstance(value, Variable):
            return variable, value
        return variable.set_value(value)

    def to_numpy(self, value: Value) -> np.ndarray:
        """A copy of an array; the value of a variable that depends on no inputs."""
        return np.array(value.eval() if isinstance(value, Variable) else value)

    def constant(self, value: Any, dtype: str | None = None) -> Value:
        """A constant of PyTensor, of the array's dtype."""
        return pt.constant(np.asarray(value, dtype))

    # --- functions of PyTensor -------------------------------------------------------------------

    stand_in_sizes = ()

    def stand_in(self, spec: Spec) -> Value:
        """A variable."""
        return type_of(spec)()

    def abstract(self, function: Lowering, specs: Sequence[Spec]) -> tuple[list[Spec], bool]:
        """Read the types of the graph that the function makes."""
        results = function(*map(self.stand_in, specs))
        native.refuse_random(results)
        return [spec_of(y) for y in results], False

    def as_value(self, result: Any) -> Value:
        """A variable."""
        return pt.as_tensor_variable(result)

    copied = staticmethod(pt.tensor_copy)
    pullback = staticmethod(native.pullback)
    origin = staticmethod(native.origin)

    def native(
        self, function: Lowering, specs: Sequence[Spec], results: Sequence[Spec] | None
    ) -> Lowering:
        """The function on variables that know as much of their shapes as the graph does."""
        return knowing_shapes(function, specs, results, with_shape)

    # --- programs ---------------------------------------------------------------------------------

    def updates_in_place(self, options: Mapping[str, Any]) -> bool:
        """Whether our own mode runs it: PyTensor's linkers do not know what `ArrayOp` writes to."""
        return _mode(options) is ARRAYS

    def compile(self, program: Program) -> Function:
        """The program as a PyTensor function, by the mode that `_mode` chooses."""
        mode = _mode(program.options)
        with pytensor.config.change_flags(traceback__limit=0), control.in_mode(mode is ARRAYS):
            inputs = [type_of(spec)() for spec in program.inputs]
            results = program.function(*inputs)[: len(program.outputs)]
            outputs = [pt.as_tensor_variable(x) for x in results]
            shared = [x for x in graph_inputs(outputs) if isinstance(x, SharedVariable)]
            run = _function([*inputs, *shared], outputs, mode)
        if not shared:
            return run
        return lambda *values: run(*values, *[x.get_value(borrow=True) for x in shared])

    def eager(self, program: Program) -> Function:
        """The program on users' variables: what it builds is part of their graph."""

        def run(*inputs: Value) -> tuple[Value, ...]:
            return program.function(*[pt.as_tensor_variable(x) for x in inputs])

        return run


def _noted(specs: Sequence[Spec], lowering: Lowering) -> Lowering:
    """A lowering that notes in PyTensor's nodes to which line of a program they belong."""

    def lower(*operands: Value) -> Any:
        results = lowering(*operands)
        line = emitted_line()
        place = line and marked(*line)
        waiting = [results]
        while place is not None and waiting:
            x = waiting.pop()
            if isinstance(x, list | tuple):
                waiting += x
            elif (node := getattr(x, "owner", None)) and not hasattr(node.tag, "place"):
                node.tag.place = place
                waiting += node.inputs
        return results

    return lower


def _mode(options: Mapping[str, Any]) -> Any:
    """Our own mode, unless PyTensor's flags or `compile=True` ask for one of PyTensor's.

    PyTensor's default mode takes seconds to compile a small function, and minutes for a deep one.
    """
    config = pytensor.config
    chosen = config.mode != "Mode" or config.linker != "auto" or config.optimizer != "o4"
    return get_default_mode() if chosen or options.get("compile") else ARRAYS


def _function(inputs: Sequence[Value], outputs: Sequence[Value], mode: Any) -> Function:
    """`pytensor.function` without its copy of the graph, whose recursion limits depth."""
    ours = mode is ARRAYS
    compiled = mode.function_maker(
        [In(x) for x in inputs],
        [Out(x, borrow=ours) for x in outputs],
        mode=mode,
        fgraph=FunctionGraph(inputs, outputs, clone=False),
        no_fgraph_prep=ours,
        on_unused_input="ignore",
        trust_input=True,
    ).create()
    # What ours links to is a function of the inputs; PyTensor's own cells would only copy.
    return compiled.vm.jit_fn if ours else compiled


ENGINE = PyTensorEngine()
