"""Short ways into TensorFlow's runtime.

A `ConcreteFunction` binds arguments by name, flattens and packs structures, records tapes and
interpolates error messages at every call; a compiled program needs none of that. `tf.constant`
checks for shapes and structures that an array does not have. What is used here is what every
generated operation of TensorFlow's Python package uses; where a release lacks it, the public way
serves.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np

from backplane.engines.base import Function, Line
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

_LARGE = 1 << 16
_ALIGNMENT = 64


def tensor(array: np.ndarray) -> Value:
    """A tensor with a copy of the array's content, eager also where a `tf.function` is traced: what
    is emitted then is used again elsewhere.
    """
    # TensorFlow shares the memory of an aligned array and copies any other: give it a copy that it
    # can share, where copying twice would cost.
    array = _aligned_copy(array) if array.nbytes > _LARGE else array.copy()
    if context is None:
        with tf.init_scope():
            return tf.constant(array)
    current = context.context()
    current.ensure_initialized()
    return EagerTensor(array, current.device_name or _default_device(), None)


@cache
def _default_device() -> str | None:
    """The empty name moves a tensor to the first accelerator; None, which is faster, leaves it."""
    return "" if len(tf.config.list_logical_devices()) > 1 else None


def _aligned_copy(array: np.ndarray) -> np.ndarray:
    memory = np.empty(array.nbytes + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


_NODE = re.compile(r"\{\{node ([^}]+)\}\}")


def failing_line(graph: Any, error: BaseException) -> Line | None:
    """The line of the emitted program that made the operation which an error names."""
    for name in _NODE.findall(str(error)):
        try:
            frames = graph.get_operation_by_name(name).traceback
        except KeyError:  # an operation inside a loop, or made by TensorFlow's optimizer
            continue
        for frame in reversed(frames):
            if frame.filename.startswith("<backplane program"):
                return frame.filename, frame.lineno
    return None


def call(function: Any, traced: Function, retry: str) -> Function:
    """A function of flat tensors that runs a concrete function whose result is a flat tuple.

    After an error whose message contains `retry` it runs the Python function that was `traced`.
    """
    if context is None:
        return function
    current = context.context()
    name = function.name.decode()
    count = len(function.outputs)
    captured = function.captured_inputs
    options = current.function_call_options.as_attrs()
    attributes = tuple(item for pair in options.items() for item in pair)

    def run(*inputs: Value) -> tuple[Value, ...]:
        if not current.executing_eagerly() or record.could_possibly_record():
            return function(*inputs)
        try:
            return tuple(execute(name, count, [*inputs, *captured], attributes, current))
        except tf.errors.InvalidArgumentError as error:
            if retry not in error.message:
                raise
            return traced(*inputs)

    return run
