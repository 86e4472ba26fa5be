"""ONNX Runtime and ONNX, imported without a word, and the settings of all sessions."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import onnxruntime as ort
from onnx import TensorProto
from onnxruntime.capi import onnxruntime_pybind11_state as bindings

from backplane.core import spec
from backplane.engines.table import NOTHING

OPSET = 22
"""The opset of all models, which ONNX Runtime 1.20 and later know."""
IR_VERSION = 10

_SILENT = 4  # log only what is fatal; failures are raised as exceptions anyway

ort.set_default_logger_severity(_SILENT)
ort.disable_telemetry_events()


def _threads() -> int:
    """The threads of a session: as many as OpenMP libraries are told, else one per core (0)."""
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    return int(wanted) if wanted.isdecimal() else 0


THREADS = _threads()

_NAMES = {"float32": "FLOAT", "float64": "DOUBLE"}
ELEMENT_TYPES = {name: getattr(TensorProto, _NAMES.get(name, name.upper())) for name in spec.DTYPES}
"""ONNX' number of each dtype."""

DTYPES = {number: name for name, number in ELEMENT_TYPES.items()}


IMPRECISE = frozenset({"MatMulScaleFusion"})
"""Optimizers of ONNX Runtime that make float64 imprecise. This one stores the factor of a product
of matrices, as in `K.dot(x, y) / 3`, as a float32."""

DIVIDING = frozenset({"MatmulTransposeFusion"})
"""Optimizers that may end the process. This one transposes within products of stacks, and divides
by the number of rows, which may be 0. Attention takes the same time without it."""


CPU = "CPUExecutionProvider"


def session(
    model: bytes,
    threads: int = THREADS,
    optimize: bool = True,
    without: Collection[str] = (),
    providers: Sequence[str] = (CPU,),
    contents: Mapping[str, np.ndarray] = NOTHING,
) -> bindings.InferenceSession:
    """A session of ONNX Runtime, `without` some of its optimizers. The Python class around it is
    left out: its `run` takes a microsecond more per input.

    `contents` has the arrays of constants that the model only names. The session reads their memory
    and does not keep it alive.
    """
    options = ort.SessionOptions()
    options.log_severity_level = _SILENT
    options.intra_op_num_threads = threads
    if not optimize:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    # Planning which buffers to share takes time that grows with the square of the program, and the
    # arena hands freed ones out again anyway: steps measured the same without.
    options.enable_mem_reuse = False
    options.enable_mem_pattern = False
    if contents:
        values = [ort_value(array) for array in contents.values()]
        options.add_external_initializers(list(contents), values)
    made = bindings.InferenceSession(options, model, False, False)
    made.initialize_session(list(providers), [{}] * len(providers), set(without))
    return made


_CPU = bindings.OrtDevice(bindings.OrtDevice.cpu(), bindings.OrtDevice.default_memory(), 0)


def ort_value(array: np.ndarray) -> ort.OrtValue:
    """A tensor of ONNX Runtime over the memory of the array, which it keeps alive."""
    return ort.OrtValue(bindings.OrtValue.ortvalue_from_numpy(array, _CPU), array)


__all__ = [
    "CPU", "DIVIDING", "DTYPES", "ELEMENT_TYPES", "IMPRECISE", "IR_VERSION", "OPSET", "THREADS",
    "bindings", "ort", "ort_value", "session",
]  # fmt: skip
