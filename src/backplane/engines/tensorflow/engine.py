"""The engine: TensorFlow's values, its table, and programs as concrete functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np

from backplane.core.context import current
from backplane.core.graph import KeySource
from backplane.core.native import UnknownRankError
from backplane.core.sparse import SparseTensor
from backplane.core.spec import DTYPES, Spec
from backplane.engines import yielding
from backplane.engines.base import Engine, natives
from backplane.engines.placement import OnDevice
from backplane.engines.programs import Function, Program, located
from backplane.engines.table import Lowering, Table, Value, knowing_shapes
from backplane.engines.tensorflow import control, empty, factorizations, native, random
from backplane.engines.tensorflow.fast import direct, updates
from backplane.engines.tensorflow.library import tf

STAND_INS = "stand_ins"
"""The name of the graph in which a user's function is traced for its shapes."""

_ARRAY_DTYPES = {name: np.dtype(tf.dtypes.as_dtype(name).as_numpy_dtype) for name in DTYPES}


class TensorFlow(Engine):
    """TensorFlow 2."""

    name = "tensorflow"
    library = "tensorflow"
    native_types = (tf.Tensor, tf.Variable)
    writes_over = True
    capabilities = frozenset({"unsigned", "eager", "once"})
    index_errors = (tf.errors.InvalidArgumentError,)
    shortage = "OOM|allocate"
    largest_size = 2**31 - 1

    def __init__(self) -> None:
        own = control.lowerings(self), factorizations.lowerings(self), natives(self)
        self.table = Table.of_rooms(__package__, *own)

    def spec_of(self, value: Value) -> Spec:
        """Shape and dtype; sizes may be unknown inside a `tf.function`, the rank may not."""
        shape = value.shape
        if shape.rank is None:
            raise UnknownRankError(
                f"{value!r} has an unknown number of axes: use tf.ensure_shape first"
            )
        return Spec(tuple(shape.as_list()), value.dtype.name)

    def signature(self, kind: type) -> tuple[str, ...]:
        """The parts of eager tensors' specs: to make a `TensorShape` takes 3 µs."""
        return direct.SIGNATURE if kind is direct.EagerTensor else ()

    def from_numpy(self, array: np.ndarray, dtype: str | None = None) -> Value:
        """A tensor with a copy of the array."""
        if dtype is not None:
            array = array.astype(_ARRAY_DTYPES[dtype], copy=False)
        return direct.tensor(array)

    def is_tracing(self) -> bool:
        """Whether operations go to the graph of a function."""
        return not tf.executing_eagerly()

    def key(self, source: KeySource) -> Value:
        """While a function is traced, a key that a variable counts."""
        return random.counted(source) if self.is_tracing() else self.from_numpy(source.draw())

    def to_numpy(self, value: Value) -> np.ndarray:
        """A copy of the tensor's content."""
        array = value.numpy()
        return array if type(array) is np.ndarray else np.asarray(array)

    def has_value(self, value: Value) -> bool:
        """Whether it is neither a tensor of a graph nor, while a function is traced, a variable."""
        return hasattr(value, "numpy") and not (self.is_variable(value) and self.is_tracing())

    def is_variable(self, value: Value) -> bool:
        """Whether it is a `tf.Variable`."""
        return isinstance(value, tf.Variable)

    def assign(self, variable: Value, value: Value) -> Value:
        """`Variable.assign`; in a `tf.function`, at each run."""
        return variable.assign(value)

    kept = staticmethod(updates.kept)
    lend = staticmethod(updates.content)

    stand_in_sizes = ()

    def stand_in(self, spec: Spec) -> Value:
        """A placeholder of the graph that `abstract` makes, also where a loop is traced in it."""
        graph = tf.compat.v1.get_default_graph()
        while graph.name != STAND_INS:
            graph = graph.outer_graph
        with graph.as_default():
            return tf.compat.v1.placeholder(spec.dtype, spec.shape)

    def abstract(self, function: Lowering, specs: Sequence[Spec]) -> tuple[list[Spec], bool]:
        """Trace the function."""
        graph = tf.__internal__.FuncGraph(STAND_INS)
        with graph.as_default():
            inferred, _ = super().abstract(function, specs)
        return inferred, native.is_stateful(graph)

    def as_value(self, result: Any) -> Value:
        """A tensor; rows that were picked by their numbers are made dense."""
        return tf.convert_to_tensor(result)

    def sparse(self, parts: SparseTensor) -> Any:
        """A `tf.SparseTensor`. Only known sizes tell TensorFlow the rank of reductions."""
        bound = current().bound
        if bound is not None and bound.size is not None:
            parts = parts._replace(dense_shape=[bound.size] * parts.dense_shape.shape[0])
        return tf.SparseTensor(*parts)

    def sparse_parts(self, result: Any) -> Any:
        """The parts of a `tf.SparseTensor`."""
        if not isinstance(result, tf.SparseTensor):
            return result
        return SparseTensor(result.indices, result.values, result.dense_shape)

    pullback = staticmethod(native.pullback)

    def native(
        self, function: Lowering, specs: Sequence[Spec], results: Sequence[Spec] | None
    ) -> Lowering:
        """The function on tensors that know as much of their shapes as the graph does."""
        return knowing_shapes(function, specs, results, native.known)

    def devices(self) -> list[str]:
        """All devices: accelerators first."""
        logical = tf.config.list_logical_devices()
        names = [d.name.removeprefix("/device:").lower() for d in logical]
        return sorted(names, key=lambda name: name.startswith("cpu"))

    def has_kernels(self, options: Mapping[str, Any]) -> bool:
        """XLA has none for the loss of CTC."""
        return not options.get("compile")

    def prepare(self, kind: type) -> Mapping[Any, str]:
        """TensorFlow asks the other class for swapped operators, which comparisons lack."""
        yielding.yield_to(kind, tf.Tensor, (*yielding.BITS, *yielding.COMPARISONS))
        return super().prepare(kind)

    def compile(self, program: Program) -> Function:
        """Trace the program once. Unknown sizes stay open.

        With `compile=True`, XLA compiles the whole program, with `compile=False` nothing. By
        default it compiles only the arithmetic of updates of large variables. A program that most
        likely runs `once` is traced only when it has run some times.
        """
        places = updates.in_place(program)
        if program.options.get("compile"):  # XLA writes no rows in place.
            program = program._replace(tables=frozenset())
        graphs: list[Any] = []
        make = partial(_traced, program, places, graphs)
        if program.options.get("once") and _LOOPS.isdisjoint(program.operations):
            make = partial(_stepwise_at_first, program, places, make)
        run = updates.keeping(make, program, places)
        return located(run, partial(direct.failing_line, graphs))


def _stepwise_at_first(
    program: Program, places: updates.Places, make: updates.Making, handles: Collection[int]
) -> Function:
    """The program over handles as it was emitted, until it has run so often that a graph pays."""
    steps = updates.stepwise(program, places, handles)
    if len(program.operations) <= SHORT:
        return steps
    chosen, left = steps, FEW

    def run(*inputs: Value) -> tuple[Value, ...]:
        nonlocal chosen, left
        left -= 1
        if left < 0 and chosen is steps and tf.executing_eagerly():
            chosen = make(handles)
        return chosen(*inputs)

    return run


def _traced(
    program: Program, places: updates.Places, graphs: list[Any], handles: Collection[int]
) -> Function:
    """The program over handles, first as a function for few rows, if it may be run twice: its graph
    is half as large, and TensorFlow's optimizer sees what follows a kernel.
    """
    general = partial(_function, program, places, graphs, handles)
    if program.options.get("compile"):  # XLA drops checks.
        return general()[0]
    usual, operations = general(few_rows=True)
    messages = [tf.get_static_value(op.inputs[1]) for op in operations if op.type == "Assert"]
    if control.MANY_ROWS.encode() not in messages:
        return usual
    repeatable = all(
        not op.op_def.is_stateful or op.type in _REPEATABLE or op.name.startswith(updates.SCOPE)
        for op in operations
    )
    return _else(usual, general) if repeatable else general()[0]


_REPEATABLE = frozenset(
    (
        "Assert", "AssignVariableOp", "Placeholder", "ReadVariableOp", "ResourceGather",
        "ResourceScatterAdd",
    )
)  # fmt: skip
"""Operations marked as having state whose effect is on our variables alone, after all checks."""


def _else(usual: Function, general: Callable[[], tuple[Function, Sequence[Any]]]) -> Function:
    """The program for few rows, until it meets many; from then on the general one."""
    made: list[Function] = []

    def run(*inputs: Value) -> tuple[Value, ...]:
        if not made and tf.executing_eagerly():
            try:
                return usual(*inputs)
            except tf.errors.InvalidArgumentError as error:
                if control.MANY_ROWS not in error.message:
                    raise
        if not made:
            with tf.init_scope():
                made.append(general()[0])
        return made[0](*inputs)

    return run


def _function(
    program: Program,
    places: updates.Places,
    graphs: list[Any],
    handles: Collection[int],
    few_rows: bool = False,
) -> tuple[Function, Sequence[Any]]:
    """The program over handles, as a concrete function that joins `graphs`, and its operations."""
    whole = program.options.get("compile")
    fuse = whole is None and not tf.config.list_logical_devices("GPU")
    signature = [
        tf.TensorSpec((), tf.resource) if i in handles else tf.TensorSpec(spec.shape, spec.dtype)
        for i, spec in enumerate(program.inputs)
    ]
    function: Any = tf.function(
        control.held(updates.traced(program, places, handles, fuse)),
        input_signature=signature,
        autograph=False,
        jit_compile=whole,
    )
    concrete = _concrete(function, few_rows, for_xla=bool(whole))
    graphs.append(concrete.graph)
    if whole and "CheckNumerics" in native.operations(concrete.graph):
        raise NotImplementedError(
            "K.check_numerics: with compile=True, XLA drops the check. Leave out this option"
        )
    eager = updates.stepwise(program, places, handles)
    operations = concrete.graph.get_operations()
    run = direct.call(concrete, eager, control.EMPTY_STACK, any(map(empty.is_empty, operations)))
    if any(map(empty.fails, operations)):
        run = empty.eager_when_empty(run, eager, program)
    return run, operations


def _concrete(function: Any, few_rows: bool, for_xla: bool) -> Any:
    """The concrete function, traced again with checks if a kernel may get no elements."""
    with control.own_program(few_rows, for_xla):
        concrete = function.get_concrete_function()
    operations = concrete.graph.get_operations()
    risky = any(map(empty.fails, operations)) and any(map(empty.may_empty, operations))
    if for_xla or not risky:
        return concrete
    with control.own_program(few_rows, checked=True):
        return tf.function(
            function.python_function, input_signature=function.input_signature, autograph=False
        ).get_concrete_function()


SHORT = 8
"""Operations up to which a program is not worth a graph for a few calls. One takes some 8 µs by
itself; a graph takes 22 µs at each call, but 6 ms and more to make: at 8 operations as much as 200
calls take longer without it."""
FEW = 32
"""Calls for which a longer program is not worth a graph. One of 400 operations takes 200 ms to
make, and saves 5 ms at each call."""

_LOOPS = frozenset(("scan", "while_loop"))


class DeviceEngine(OnDevice, TensorFlow):
    """TensorFlow, whose programs run on one device."""

    def here(self) -> AbstractContextManager[Any]:
        """`tf.device`."""
        return tf.device(self.device)

    def moved(self, value: Value) -> Value:
        """A copy on the device, or the value itself if it is there."""
        with self.here():
            return tf.identity(value)


TensorFlow.device_engine = DeviceEngine
ENGINE = TensorFlow()
