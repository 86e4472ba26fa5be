"""From scopes to ONNX models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from backplane.core.spec import Spec
from backplane.engines.onnxruntime.builder import Body, Node, Scope, Symbol
from backplane.engines.onnxruntime.library import ELEMENT_TYPES, IR_VERSION, OPSET
from backplane.engines.table import NOTHING

ONE_NEEDED = frozenset({"MaxPool", "LayerNormalization"})
"""Operations whose other results are optional."""
CALL = "Call"
"""The operation of a node that stands for a call of Python."""


def model(
    scope: Scope,
    inputs: Mapping[str, Spec],
    outputs: Mapping[str, Spec | None],
    name: str,
    kept: Mapping[str, np.ndarray] = NOTHING,
) -> ModelProto:
    """A whole program's model. A spec of None is found by ONNX Runtime; `kept` are constants."""
    graph = GraphProto(name=name)
    listed, read = _nodes(scope, outputs)
    graph.node.extend(listed)
    graph.input.extend([_described(key, spec) for key, spec in inputs.items()])
    graph.output.extend([_described(key, spec) for key, spec in outputs.items()])
    stored = [tensor(key, array) for key, array in scope.literals.items() if key in read]
    graph.initializer.extend(stored)
    graph.initializer.extend([_kept(key, array) for key, array in kept.items() if key in read])
    made = ModelProto(graph=graph, ir_version=IR_VERSION, producer_name="backplane")
    made.opset_import.extend([helper.make_opsetid("", OPSET)])
    return made


def tensor(name: str, array: np.ndarray) -> TensorProto:
    """An array as a tensor stored in the model."""
    return TensorProto(
        name=name,
        data_type=ELEMENT_TYPES[array.dtype.name],
        dims=array.shape,
        raw_data=array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes(),
    )


SHORT = 1024
"""Bytes up to which a kept array is stored in the model, where ONNX Runtime reads sizes."""


def _kept(name: str, array: np.ndarray) -> TensorProto:
    """A constant. A long one is only named in the model: the session is given its memory."""
    if array.nbytes <= SHORT:
        return tensor(name, array)
    made = TensorProto(name=name, data_type=ELEMENT_TYPES[array.dtype.name], dims=array.shape)
    made.data_location = TensorProto.EXTERNAL
    made.external_data.add(key="location", value="memory")
    return made


def named_only(made: ModelProto) -> list[str]:
    """The constants whose content is not in the model."""
    return [t.name for t in made.graph.initializer if t.data_location == TensorProto.EXTERNAL]


def _described(name: str, spec: Spec | Symbol | None) -> ValueInfoProto:
    """Name, dtype and shape. Sizes that are not known have no name either: two may differ."""
    if spec is None:
        return ValueInfoProto(name=name)
    return helper.make_tensor_value_info(name, ELEMENT_TYPES[spec.dtype], spec.shape)


def _nodes(scope: Scope, outputs: Iterable[str]) -> tuple[list[NodeProto], set[str]]:
    """The nodes that the outputs need, and all names that these read."""
    read = set(outputs)
    kept: list[NodeProto] = []
    for each in reversed(scope.nodes):
        if read.isdisjoint(each.outputs):
            continue
        if each.op == CALL:
            raise ValueError(f"{each.attributes['what']} cannot be part of an ONNX model")
        kept.append(_node(each, read))
        read.update(each.inputs)
    kept.reverse()
    return kept, read


def names_read(scope: Scope, outputs: Iterable[str]) -> set[str]:
    """All names that the nodes behind some outputs read."""
    return _nodes(scope, outputs)[1]


def _node(each: Node, read: set[str]) -> NodeProto:
    """One node; what its bodies read of the graphs around them is added to `read`."""
    made = NodeProto(op_type=each.op, input=each.inputs, name=each.outputs[0])
    # Without its optional second result a pooling is twice as fast, and ONNX Runtime's optimizer
    # joins normalizations with what is before them.
    drop = each.op in ONE_NEEDED and read.isdisjoint(each.outputs[1:])
    made.output.extend(each.outputs[:1] if drop else each.outputs)
    for key, value in each.attributes.items():
        if isinstance(value, Body):
            value = _body(value, made.name, read)
        made.attribute.append(_attribute(key, value))
    return made


def _attribute(key: str, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return helper.make_attribute(key, tensor("value", value))
    if isinstance(value, tuple) and not value:
        return helper.make_attribute(key, value, attr_type=_INTS)
    return helper.make_attribute(key, value)


_INTS = 7  # AttributeProto.INTS


def _body(body: Body, name: str, read: set[str]) -> GraphProto:
    names = [x.name for x in body.outputs]
    listed, used = _nodes(body.scope, names)
    graph = GraphProto(name=f"{name}_body")
    graph.node.extend(listed)
    graph.input.extend([_described(x.name, x) for x in body.inputs])
    graph.output.extend([_described(x.name, x) for x in body.outputs])
    read.update(used)
    return graph


def named(symbols: Sequence[Symbol], specs: Sequence[Spec]) -> dict[str, Spec]:
    """Names of symbols with their specs."""
    return {x.name: spec for x, spec in zip(symbols, specs, strict=True)}
