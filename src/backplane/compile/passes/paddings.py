"""Lets kernels of convolutions pad: the border of zeros that a program puts around images is not
made, nor kept for gradients, and nothing is computed for its own gradient.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import Any

from backplane.compile.fuse.readers import uses_of
from backplane.core.graph import Tensor, rebuild, rewrite
from backplane.ops.convolution import conv, conv_input_grad, conv_kernel_grad
from backplane.ops.creation import dim
from backplane.ops.indexing import ALL, pad, slice

Border = tuple[tuple[int, int], ...]


def pad_in_kernels(outputs: Sequence[Tensor]) -> list[Tensor]:
    """`outputs`, with the parameter `padding` of a convolution and of its gradients in the place of
    `pad`, and of the slice that is the gradient of `pad`. The border must be alike at both ends of
    an axis, and narrower than the window: all libraries' kernels can make that.
    """
    uses = uses_of(outputs)

    def padding(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
        if node.op is conv or node.op is conv_kernel_grad:
            window = inputs[1].spec.shape if node.op is conv else node.params["kernel_shape"]
            border = _border_made(inputs[0])
            if border is None or not _fits(border, window, node.params):
                return None
            operands = (inputs[0].inputs[0], inputs[1])
            return Tensor(node.op, operands, _padded(node.params, border), node.spec, node.where)
        if node.op is dim and inputs[0].op is pad:
            same = inputs[0].params["padding"][node.params["axis"]] == (0, 0)
            return rebuild(node, inputs[0].inputs) if same else None
        if node.op is not slice or inputs[0].op is not conv_input_grad or uses[node.inputs[0]] > 1:
            return None
        whole = inputs[0]
        border = _border_cut(node, whole)
        if border is None or not _fits(border, whole.inputs[1].spec.shape, whole.params):
            return None
        batch, *_, channels = whole.params["shape"]
        shape = (batch, *node.spec.shape[1:-1], channels)
        params = {**_padded(whole.params, border), "shape": shape}
        return Tensor(conv_input_grad, whole.inputs, params, node.spec, whole.where)

    return rewrite(outputs, padding)


def _border_made(x: Tensor) -> Border | None:
    """The zeros around the spatial axes of `x`, if it is a tensor within them and no more."""
    if x.op is not pad or x.params["value"] != 0:
        return None
    batch, *border, channels = x.params["padding"]
    return tuple(border) if batch == channels == (0, 0) else None


def _border_cut(part: Tensor, whole: Tensor) -> Border | None:
    """The border that `part`, a slice of `whole`, leaves out at both ends of the spatial axes.
    Their sizes are known, and it leaves out nothing else.
    """
    batch, *spatial, channels = part.params["slices"]
    sizes = whole.spec.shape[1:-1]
    if not batch == channels == ALL or any(step != 1 for *_, step in spatial):
        return None
    border = []
    for n, cut in zip(sizes, spatial, strict=True):
        if n is None:
            return None
        start, stop, _ = builtins.slice(*cut).indices(n)
        border.append((start, n - stop))
    return tuple(border)


def _fits(border: Border, kernel: Sequence[int | None], params: Mapping[str, Any]) -> bool:
    """Whether a kernel that slides without padding can make the border."""
    axes = zip(border, kernel[: len(border)], strict=True)
    alike = all(a == b and size is not None and a < size for (a, b), size in axes)
    return alike and params["padding"] == "valid"


def _padded(params: Mapping[str, Any], border: Border) -> dict[str, Any]:
    return {**params, "padding": border}
