"""Programs as ONNX files that run without Backplane.

State (variables, random keys) is an input that the file holds a value for, so that the first call
need not feed it, and an output with its next value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx

from backplane.engines.base import Program
from backplane.engines.onnxruntime.builder import Node, Scope, Symbol, building
from backplane.engines.onnxruntime.model import model, tensor

LARGE = 1 << 30
"""The size of the weights, in bytes, from which on they go to a file beside the model: protobuf has
a limit of 2 GiB."""


def export(
    program: Program,
    inputs: Sequence[str],
    outputs: Sequence[str],
    initial: Mapping[str, np.ndarray],
    path: Path,
    name: str,
) -> None:
    """Write a program with names for its inputs and outputs, and values for some of the inputs."""
    made = _model(program, inputs, outputs, name)
    made.graph.initializer.extend([tensor(key, array) for key, array in initial.items()])
    state = {inputs[i]: outputs[j] for i, j in program.state.items()}
    made.metadata_props.add(key="backplane.state", value=json.dumps(state))
    stored = sum(t.ByteSize() for t in made.graph.initializer)
    if stored < LARGE:
        made = onnx.shape_inference.infer_shapes(made, check_type=True, strict_mode=True)
        onnx.checker.check_model(made, full_check=True)
        onnx.save_model(made, path)
        return
    beside = f"{path.name}.data"
    onnx.save_model(made, path, save_as_external_data=True, location=beside)
    onnx.checker.check_model(str(path), full_check=True)


def _model(
    program: Program, inputs: Sequence[str], outputs: Sequence[str], name: str
) -> onnx.ModelProto:
    # Loops that always do, as nobody is there for a second try.
    scope = Scope(loops="Loop")
    with building(scope):
        given = dict(zip(inputs, program.inputs, strict=True))
        symbols = [Symbol(key, spec.dtype, spec.shape) for key, spec in given.items()]
        results = program.function(*symbols)
    for key, x in zip(outputs, results, strict=True):
        scope.nodes.append(Node("Identity", (scope.name_of(x),), (key,), {}))
    return model(scope, given, dict(zip(outputs, program.outputs, strict=True)), name)
