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
        input_names: Names of the inputs. If their number is not right, as for dicts of inputs, the
            names in the signature serve, and `input_0`, `input_1`, … if some are missing or equal.
        opset_version: Version of ONNX's operators; by default the one of the engine `cntk`.
    """
    specs = tree.flatten(input_signature)
    feeds = [Placeholder(Spec(tuple(s.shape), standard(s.dtype))) for s in specs]
    with recording() as traced, Scope(traced), tracing():
        arguments = tree.pack_sequence_as(input_signature, [Tensor(x) for x in feeds])
        options = {"training": False} if model._call_has_training_arg else {}
        results = tree.flatten(model(*arguments, **options))
    outputs = [tensor_of(unwrapped(x)) for x in results]
    function = K.function(feeds, outputs)
    names = _names(specs, input_names)
    function.to_onnx(str(filepath), inputs=names, freeze=True, opset=opset_version)


def _names(specs: list[Any], given: list[str]) -> list[str]:
    """A name for each input: the first list that has as many different names as there are specs."""
    counted = [f"input_{i}" for i in range(len(specs))]
    own = [getattr(s, "name", None) or other for s, other in zip(specs, counted, strict=True)]
    return next(n for n in (given, own, counted) if len(set(n)) == len(n) == len(specs))


class BackplaneExportArchive:
    """The archive of a SavedModel, which this backend refuses to write: it is TensorFlow's own."""

    def __init__(self) -> None:
        raise NotImplementedError(
            "the backend 'backplane' writes no SavedModels, which belong to TensorFlow: use "
            "`model.export(path, format='onnx')`, or load the .keras file with another backend"
        )
