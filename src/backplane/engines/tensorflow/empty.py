"""Tensors without elements, which some of TensorFlow's kernels and its optimizer cannot stand."""

from __future__ import annotations

from typing import Any

from backplane.engines.programs import Function, Program
from backplane.engines.table import Value
from backplane.engines.tensorflow.library import tf

_FAILING = frozenset(
    (
        "CTCLoss", "Conv2D", "Conv3D", "DepthwiseConv2dNative",
        "DepthwiseConv2dNativeBackpropFilter", "MaxPoolGrad",
    )
)  # fmt: skip
"""Kernels that refuse an empty batch, end the process, or give a result of the wrong shape or of
random numbers."""


def fails(op: Any) -> bool:
    """Whether the operation may fail if an operand has no elements. TensorFlow's optimizer joins a
    product of matrices with a bias, and the joint kernel ends the process if there are no columns,
    or no terms to add up.
    """
    if op.type == "BiasAdd" and op.inputs[0].op.type == "MatMul":
        return not all(op.inputs[0].op.inputs[1].shape.as_list())
    return op.type in _FAILING


def is_empty(op: Any) -> bool:
    """Whether a result that is read is known to have no elements. Then TensorFlow's optimizer of
    arithmetic may end the process: it divides by the sizes of factors, of which it knows more than
    their shapes tell, such as those of the operand of a convolution to no images.
    """
    shapes = [y.shape for y in op.outputs if y.consumers()]
    return any(shape.rank is not None and 0 in shape for shape in shapes)


def may_empty(op: Any) -> bool:
    """Whether the result may be empty although no operand is, as a part or a range may."""
    if op.type not in ("Slice", "StridedSlice", "Range"):
        return False
    unknown = [i for i, n in enumerate(op.outputs[0].shape.as_list()) if n is None]
    if op.type == "Range":
        return bool(unknown)
    if op.type == "Slice":
        sizes = tf.get_static_value(op.inputs[2], partial=True)
        return any(sizes is None or sizes[i] != -1 for i in unknown)
    whole = op.get_attr("begin_mask") & op.get_attr("end_mask")
    return any(not whole >> i & 1 for i in unknown)


def eager_when_empty(run: Function, eager: Function, program: Program) -> Function:
    """Run a call with an empty input operation by operation: there, lowerings know all sizes."""
    unknown = [i for i, spec in enumerate(program.inputs) if not spec.is_static]

    def run_sized(*inputs: Value) -> tuple[Value, ...]:
        if any(0 in inputs[i].shape.as_list() for i in unknown):
            return eager(*inputs)
        return run(*inputs)

    return run_sized if unknown else run
