"""`model.export` on Backplane: ONNX models, from every engine."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras.src import ops, tree

from backplane import backend as K
from backplane.core.context import warn
from backplane.core.graph import Placeholder
from backplane.core.spec import Spec
from backplane.keras3.call import tracing, unwrapped
from backplane.keras3.operands import standard, tensor_of
from backplane.keras3.ops import core
from backplane.keras3.ops.conversion import to_array
from backplane.keras3.step import Scope
from backplane.keras3.tensor import Tensor
from backplane.keras3.trace import recording


def export_onnx(
    model: Any,
    filepath: Any,
    input_signature: Any,
    input_names: list[str],
    opset_version: int | None = None,
) -> None:
    """Write the model's forward pass as an ONNX model (`K.function(…).to_onnx`). Sizes that the
    signature leaves open stay open, and weights are constants. Stateful layers begin with their
    present states, which may fix the batch size.

    Args:
        model: The model; it has been called before.
        filepath: The file to write.
        input_signature: A list of the arguments of the call: nests of what has a shape and a dtype.
        input_names: The names that Keras chose. They are not used: Keras gives a dict of inputs one
            name.
        opset_version: Version of ONNX's operators; by default the one of the engine `cntk`.
    """
    specs = tree.flatten(input_signature)
    begins, fixed = _beginning(model)
    feeds = [Placeholder(Spec(_sizes(s.shape, fixed), standard(s.dtype))) for s in specs]
    with recording() as traced, Scope(traced) as scope, tracing():
        batch = core.shape(Tensor(feeds[0]))[0] if begins else None
        for variable, row in begins:
            zeros = ops.zeros((batch, *row.shape), variable.dtype)
            scope.add_update((variable, ops.add(zeros, row)))
        arguments = tree.pack_sequence_as(input_signature, [Tensor(x) for x in feeds])
        options = {"training": False} if model._call_has_training_arg else {}
        nest = model(*arguments, **options)
    outputs = [tensor_of(unwrapped(x)) for x in tree.flatten(nest)]
    inputs, names = _names(input_signature, "input"), _names(nest, "output")
    if set(inputs) & set(names):
        names = [f"output_{i}" for i in range(len(outputs))]
    K.function(feeds, outputs).to_onnx(
        str(filepath), names, inputs=inputs, freeze=True, opset=opset_version
    )


def _beginning(model: Any) -> tuple[list[tuple[Any, np.ndarray]], int | None]:
    """The variables with the states of recurrent layers, each with the row that all its rows equal:
    by these the batch size can stay open. If there is no such row, or the layers' batch is not the
    model's: nothing, the batch size that the model has, and a warning that says why.
    """
    layers = [x for x in model._flatten_layers() if getattr(x, "stateful", False)]
    found = [v for layer in layers for v in tree.flatten(getattr(layer, "states", None))]
    states = {id(v): v for v in found if hasattr(v, "cell")}.values()
    if not states:
        return [], None
    values = [to_array(v) for v in states]
    rows = {len(x) for x in values}
    own = {x.shape[0] for x in tree.flatten(getattr(model, "inputs", None) or [])} or rows
    if own != rows or len(rows) > 1:
        why = f"the states have {sorted(rows)} rows, and the inputs {sorted(own, key=str)}"
    elif not all(np.array_equal(x, np.broadcast_to(x[:1], x.shape)) for x in values):
        why = "the rows of their states differ; after `reset_state` of these layers it stays open"
    else:
        return [(v, x[0]) for v, x in zip(states, values, strict=True)], None
    fixed = next((n for n in own if n is not None), None)
    warn(f"model.export: stateful layers fix the batch size of the ONNX model to {fixed}: {why}")
    return [], fixed


def _sizes(shape: Any, batch: int | None) -> tuple[int | None, ...]:
    """A shape, whose open first size becomes `batch` if that is given."""
    return tuple([batch if n is None and i == 0 else n for i, n in enumerate(shape)])


def _names(nest: Any, kind: str) -> list[str]:
    """Names for the leaves of a nest: the keys of dicts that lead to them, else the names that they
    have themselves, else their numbers. Where these are not all different, only numbers.
    """
    found = []
    for i, (path, leaf) in enumerate(tree.flatten_with_path(nest)):
        keys = [part for part in path if isinstance(part, str)]
        own = getattr(leaf, "name", None) if kind == "input" else None
        found.append("/".join(keys) or own or f"{kind}_{i}")
    return found if len({*found}) == len(found) else [f"{kind}_{i}" for i in range(len(found))]


class BackplaneExportArchive:
    """The archive of a SavedModel, which this backend refuses to write: it is TensorFlow's own."""

    def __init__(self) -> None:
        raise NotImplementedError(
            "the backend 'backplane' writes no SavedModels, which belong to TensorFlow: use "
            "`model.export(path, format='onnx')`, or load the .keras file with another backend"
        )
