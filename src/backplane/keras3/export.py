"""`model.export` on Backplane: ONNX models, from every engine."""

from __future__ import annotations

from typing import Any

from keras.src import tree

from backplane import backend as K
from backplane.core.graph import Placeholder
from backplane.core.spec import Spec
from backplane.keras3.call import standard, tensor_of, tracing, unwrapped
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
    signature leaves open stay open, and weights are constants.

    Args:
        model: The model; it has been called before.
        filepath: The file to write.
        input_signature: A list of the arguments of the call: nests of what has a shape and a dtype.
        input_names: The names that Keras chose. They are not used: Keras gives a dict of inputs one
            name.
        opset_version: Version of ONNX's operators; by default the one of the engine `cntk`.
    """
    specs = tree.flatten(input_signature)
    feeds = [Placeholder(Spec(tuple(s.shape), standard(s.dtype))) for s in specs]
    with recording() as traced, Scope(traced), tracing():
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
