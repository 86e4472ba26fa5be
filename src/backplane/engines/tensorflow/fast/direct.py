"""Short ways into TensorFlow's runtime.

A `ConcreteFunction` binds arguments by name, flattens and packs structures, records tapes and
interpolates error messages at every call; a compiled program needs none of that. What is used here
is what every generated operation of TensorFlow's Python package uses; where a release lacks it, the
public way serves.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from ctypes import addressof, c_char
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from backplane.engines.fast import applies
from backplane.engines.programs import Function, Line
from backplane.engines.table import Value
from backplane.engines.tensorflow.library import tf

try:
    from tensorflow.python.eager import context, record
    from tensorflow.python.eager.execute import execute
    from tensorflow.python.framework.ops import EagerTensor as EagerTensor
except ImportError:  # pragma: no cover - none of the supported releases
    context = None
    EagerTensor = None

SIGNATURE = "{x}._shape_tuple()", "{x}._datatype_enum()"
"""Shape and dtype of an eager tensor, as TensorFlow's own operations read them."""

_ALIGNMENT = 64
_from_dlpack = tf.experimental.dlpack.from_dlpack


def tensor(array: np.ndarray) -> Value:
    """A tensor with a copy of the array's content, eager also where a `tf.function` is traced: what
    is emitted then is used again elsewhere.

    The tensor shares the memory of an aligned copy. `tf.constant` would run Python within its C
    code, and loses there what a handler of a signal raises: its caller then sees a `SystemError`.
    """
    copy = _aligned_copy(array)
    if copy.dtype.kind != "V":
        made = _from_dlpack(copy.__dlpack__())
        return made if not accelerated() else _copied(made)
    # DLPack knows no more than NumPy does of its own: bfloat16 and its like go as their bits.
    made = _from_dlpack(copy.view(f"u{copy.itemsize}").__dlpack__())
    return _copied(made, array.dtype.name)


@cache
def accelerated() -> bool:
    """Whether TensorFlow puts tensors elsewhere than into the processor's memory."""
    return len(tf.config.list_logical_devices()) > 1


def _copied(value: Value, dtype: str | None = None) -> Value:
    """The same bits in a tensor of that dtype, on the device of the moment."""
    with tf.init_scope():
        return tf.identity(value) if dtype is None else tf.bitcast(value, dtype)


def _aligned_copy(array: np.ndarray) -> np.ndarray:
    """A copy where TensorFlow's kernels may read it, in the machine's order of bytes."""
    memory = np.empty(array.nbytes + _ALIGNMENT, np.uint8)
    # NumPy's own ways to the address take three times as long, which a small program notices.
    start = -addressof(c_char.from_buffer(memory.data)) % _ALIGNMENT
    dtype = array.dtype if array.dtype.isnative else array.dtype.newbyteorder("=")
    copy: np.ndarray = np.ndarray(array.shape, dtype, memory, start)
    copy[...] = array
    return copy


_NODE = re.compile(r"(?:\{\{function_node ([^}]+)\}\})?\{\{node ([^}]+)\}\}")
"""A node in the message of an error, after the function it is in."""


def failing_line(graphs: Sequence[Any], error: BaseException) -> Line | None:
    """The line of the emitted program that made the operation which an error names."""
    for graph, (function, name) in product(graphs, _NODE.findall(str(error))):
        called = getattr(graph, "_functions", {}).get(function)
        try:
            frames = getattr(called, "graph", graph).get_operation_by_name(name).traceback
        except KeyError:  # made by TensorFlow's optimizer
            continue
        for frame in reversed(frames or ()):
            if frame.filename.startswith("<backplane program"):
                return frame.filename, frame.lineno
    return None


def call(function: Any, traced: Function, retry: str, careful: bool = False) -> Function:
    """A function of flat tensors that runs a concrete function whose result is a flat tuple.

    After an error whose message contains `retry` it runs the Python function that was `traced`. If
    it is `careful`, TensorFlow does not rewrite the arithmetic.
    """
    # Calls that TensorFlow makes by itself take its own configuration.
    elsewhere = traced if careful else function
    if context is None or not applies("tensorflow.direct"):
        return _retrying(elsewhere, traced, retry)
    runtime = context.context()
    name = function.name.decode()
    count = len(function.outputs)
    captured = function.captured_inputs
    options = runtime.function_call_options.as_attrs()
    if careful:
        options["config_proto"] = _without_arithmetic(options["config_proto"])
    attributes = tuple(item for pair in options.items() for item in pair)

    def run(*inputs: Value) -> tuple[Value, ...]:
        if not runtime.executing_eagerly() or record.could_possibly_record():
            return elsewhere(*inputs)
        try:
            return tuple(execute(name, count, [*inputs, *captured], attributes, runtime))
        except tf.errors.InvalidArgumentError as error:
            if retry not in error.message:
                raise
            return traced(*inputs)

    run.function = function  # type: ignore[attr-defined]  # TensorFlow would forget it
    return run


def _retrying(function: Function, traced: Function, retry: str) -> Function:
    def run(*inputs: Value) -> tuple[Value, ...]:
        try:
            return function(*inputs)
        except tf.errors.InvalidArgumentError as error:
            if retry not in error.message:
                raise
            return traced(*inputs)

    return run


def _without_arithmetic(config: bytes) -> bytes:
    """The configuration of a call, without the optimizer that rewrites arithmetic."""
    proto = tf.compat.v1.ConfigProto.FromString(config)
    rewrites = proto.graph_options.rewrite_options
    rewrites.arithmetic_optimization = type(rewrites).OFF
    serialized: bytes = proto.SerializeToString()
    return serialized
