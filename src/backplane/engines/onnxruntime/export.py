"""Programs as ONNX files that run without Backplane.

State (variables, random keys) is an input that the file holds a value for, so that the first call
need not feed it, and an output with its next value.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx.version_converter

from backplane.engines.onnxruntime.builder import Node, Scope, Symbol, building
from backplane.engines.onnxruntime.library import OPSET
from backplane.engines.onnxruntime.model import model, tensor
from backplane.engines.programs import Program

LARGE = 1 << 30
"""The size of the weights, in bytes, from which on they go to a file beside the model: protobuf has
a limit of 2 GiB."""


OLDEST = 16
"""The first version of ONNX's operators that onnx can convert ours to: there is no way back for
`Identity`, which gives results their names."""


def export(
    program: Program,
    inputs: Sequence[str],
    outputs: Sequence[str],
    initial: Mapping[str, np.ndarray],
    frozen: Collection[str],
    path: Path,
    name: str,
    opset: int | None,
) -> None:
    """Write a program with named inputs and outputs, and values; `frozen` are constants."""
    # Loops that always do, as nobody is there for a second try.
    scope = Scope(loops="Loop", frozen=set(frozen))
    given = dict(zip(inputs, program.inputs, strict=True))
    with building(scope):
        symbols = [Symbol(key, spec.dtype, spec.shape) for key, spec in given.items()]
        results = program.function(*symbols)
    for key, x in zip(outputs, results, strict=True):
        scope.nodes.append(Node("Identity", (scope.name_of(x),), (key,), {}))
    fed = {key: spec for key, spec in given.items() if key not in frozen}
    made = model(scope, fed, dict(zip(outputs, program.outputs, strict=True)), name)
    made.graph.initializer.extend([tensor(key, array) for key, array in initial.items()])
    if opset is not None:
        made = _converted(made, opset)
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


def _converted(made: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """The model in another version of ONNX's operators. ValueError if there is no such version, or
    it cannot express the model.
    """
    newest = onnx.defs.onnx_opset_version()
    if not OLDEST <= opset <= newest:
        raise ValueError(f"to_onnx: opset must be from {OLDEST} to {newest}, got {opset}")
    try:
        return onnx.version_converter.convert_version(made, opset)
    except RuntimeError as error:  # onnx's ConvertError
        raise ValueError(
            f"to_onnx: this function cannot be written in opset {opset}, only in {OPSET} ({error})"
        ) from error
