"""Peephole optimization: a few neighbouring nodes become fewer or smaller ones."""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from backplane.compile.fuse.readers import terms_of, uses_of
from backplane.core.context import changed
from backplane.core.graph import Tensor, rebuild, rewrite, toposort
from backplane.core.primitive import Primitive
from backplane.core.sizes import same_shape
from backplane.engines.base import Engine
from backplane.ops.convolution import conv, conv_bias, conv_input_grad, conv_kernel_grad
from backplane.ops.creation import dim
from backplane.ops.elementwise import add, relu_grad
from backplane.ops.indexing import ALL, Sizes, Slices, pad, slice, slice_grad, split
from backplane.ops.linear import matmul, matmul_add
from backplane.ops.pooling import max_pool_grad
from backplane.ops.shaping import concat, reshape

Operands = tuple[Tensor, ...]
Uses = Counter[Tensor]
Rule = Callable[[Tensor, Operands, Uses], Tensor | None]
"""The tensor in the place of a node, from its new operands and the number of times that each of the
old tensors is read. None if the node stays."""


def peephole(outputs: Sequence[Tensor], engine: Engine) -> list[Tensor]:
    """`outputs`, in which kernels of convolutions make the borders of zeros around images, and the
    gradient of a relu under a max-pooling is masked before it is spread.
    """
    present = {node.op for node in toposort(outputs)}
    rules: dict[Any, Rule] = {}
    if pad in present:
        rules = {conv: _padding, conv_kernel_grad: _padding, dim: _of_padded, slice: _cutting}
    if max_pool_grad in present and "fuses" not in engine.capabilities:
        rules[relu_grad] = _masked
    return _replaced(outputs, rules)


def peephole_lowered(outputs: Sequence[Tensor], engine: Engine) -> list[Tensor]:
    """`outputs`, lowered, with fused products and sums, and one kernel for a tensor's parts."""
    kernels = {x: y for x, y in WITH_BIAS.items() if y.name in engine.table}
    splits = split.name in engine.table
    present = {node.op for node in toposort(outputs)} if kernels or splits else set()
    rules: dict[Any, Rule] = {}
    if splits and slice in present:
        rules[slice] = _Parts(outputs)
    if not present.isdisjoint(kernels):
        rules[add] = partial(_biased, kernels)
    return _replaced(outputs, rules, keep_specs=True)


def _replaced(
    outputs: Sequence[Tensor], rules: Mapping[Any, Rule], *, keep_specs: bool = False
) -> list[Tensor]:
    if not rules:
        return list(outputs)
    uses = uses_of(outputs)

    def replaced(node: Tensor, inputs: Operands) -> Tensor | None:
        rule = rules.get(node.op)
        return None if rule is None else rule(node, inputs, uses)

    return rewrite(outputs, replaced, keep_specs=keep_specs)


# --- biases ---------------------------------------------------------------------------------------

WITH_BIAS: dict[Primitive[Tensor], Primitive[Tensor]] = {conv: conv_bias, matmul: matmul_add}


def _biased(
    kernels: Mapping[Primitive[Tensor], Primitive[Tensor]],
    node: Tensor,
    inputs: Operands,
    uses: Uses,
) -> Tensor | None:
    """One node in the place of two: for a convolution and its bias, and for a matrix product and
    what is added to it, unless somebody else reads the product.
    """
    for i in (0, 1):
        x, bias = node.inputs[i], node.inputs[1 - i]
        shaped = _rows_of(x) if uses[x] == 1 else None
        product = x if shaped is None else shaped
        if product.op is None or product.op not in kernels or uses[product] > 1:
            continue
        whole = product.op is not conv and shaped is None
        if (_is_added_to_matrix if whole else _is_vector_of_channels)(product, bias):
            given = inputs[i] if shaped is None else inputs[i].inputs[0]
            operands, spec = (*given.inputs, inputs[1 - i]), product.spec
            both = Tensor(kernels[product.op], operands, product.params, spec, node.where)
            if shaped is None:
                return both
            return rebuild(inputs[i], (both, *inputs[i].inputs[1:]), keep_spec=True)
    return None


def _rows_of(x: Tensor) -> Tensor | None:
    """The matrix that `x` is, in another shape: products of tensors are made of its rows."""
    if x.op is not reshape or x.inputs[0].op is not matmul or x.inputs[0].ndim != 2:
        return None
    rows = x.inputs[0]
    same = rows.spec.shape[-1] is not None and rows.spec.shape[-1] == x.spec.shape[-1]
    return rows if same and rows.spec.dtype in ("float32", "float64") else None


def _is_vector_of_channels(x: Tensor, bias: Tensor) -> bool:
    channels = x.spec.shape[-1]
    return channels is not None and bias.spec.shape == (channels,)


def _is_added_to_matrix(x: Tensor, bias: Tensor) -> bool:
    """Whether x is a matrix of floats, and the sum is certain to have its shape."""
    if x.ndim != 2 or x.spec.dtype not in ("float32", "float64") or bias.ndim > 2:
        return False
    sizes = zip(bias.spec.shape, x.spec.shape[2 - bias.ndim :], strict=True)
    return same_shape(bias, x) or all(n == 1 or (n is not None and n == m) for n, m in sizes)


# --- masks of poolings ----------------------------------------------------------------------------


def _masked(node: Tensor, inputs: Operands, uses: Uses) -> Tensor | None:
    """`max_pool_grad(relu_grad(g, y), x, y)` for `relu_grad(max_pool_grad(g, x, y), x)`, unless
    somebody else reads the inner node.

    The gradient of a pooling goes to elements that equal the maximum of their window. So the maxima
    tell whether relu let these elements through, before the gradient is spread. For windows of 2 ×
    2 these are a quarter of the elements, and no mask as large as the pooling's input is needed.
    """
    g, x = node.inputs
    if g.op is not max_pool_grad or g.inputs[1] is not x or uses[g] > 1:
        return None
    cotangent, x, y, positions = inputs[0].inputs
    early = Tensor(relu_grad, (cotangent, y), {}, cotangent.spec, node.where)
    return rebuild(inputs[0], (early, x, y, positions))


# --- borders of images ----------------------------------------------------------------------------

Border = tuple[tuple[int, int], ...]


def _padding(node: Tensor, inputs: Operands, uses: Uses) -> Tensor | None:
    """A convolution, or the gradient of its kernel, that makes the border of zeros itself. The
    border must be alike at both ends of an axis, and narrower than the window: all libraries'
    kernels can make that.
    """
    window = inputs[1].spec.shape if node.op is conv else node.params["kernel_shape"]
    border = _border_made(inputs[0])
    if border is None or not _fits(border, window, node.params):
        return None
    operands = (inputs[0].inputs[0], inputs[1])
    params = {**node.params, "padding": border}
    return Tensor(node.op, operands, params, node.spec, node.where)


def _of_padded(node: Tensor, inputs: Operands, uses: Uses) -> Tensor | None:
    """A size of the image in the place of the same size of the padded one."""
    (x,), axis = inputs, node.params["axis"]
    same = x.op is pad and x.params["padding"][axis] == (0, 0)
    return rebuild(node, x.inputs) if same else None


def _cutting(node: Tensor, inputs: Operands, uses: Uses) -> Tensor | None:
    """The gradient of an image in the place of a slice of that of the padded one."""
    whole = inputs[0]
    if whole.op is not conv_input_grad or uses[node.inputs[0]] > 1:
        return None
    border = _border_cut(node, whole)
    if border is None or not _fits(border, whole.inputs[1].spec.shape, whole.params):
        return None
    batch, *_, channels = whole.params["shape"]
    shape = (batch, *node.spec.shape[1:-1], channels)
    params = {**whole.params, "padding": border, "shape": shape}
    return Tensor(conv_input_grad, whole.inputs, params, node.spec, whole.where)


def _border_made(x: Tensor) -> Border | None:
    """The zeros around the spatial axes of `x`, if it is a tensor within them and no more."""
    if x.op is not pad or x.params["value"] != 0:
        return None
    batch, *border, channels = x.params["padding"]
    return tuple(border) if batch == channels == (0, 0) else None


def _border_cut(part: Tensor, whole: Tensor) -> Border | None:
    """The border that `part` leaves out at both ends of the spatial axes, of known sizes."""
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


def _fits(border: Border, window: Sequence[int | None], params: Mapping[str, Any]) -> bool:
    """Whether a window that slides without padding can make the border."""
    axes = zip(border, window[: len(border)], strict=True)
    alike = all(a == b and size is not None and a < size for (a, b), size in axes)
    return alike and params["padding"] == "valid"


# --- sums of gradients of slices ------------------------------------------------------------------

MOST_SLICES = 256
"""Slices that are looked at: the sum of n of them is met n − 1 times."""


def concat_of_slices(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
    """A `concat` that equals x + y, the gradients of slices that cover one axis exactly."""
    if not all(t.op is slice_grad or t.op is add for t in inputs):
        return None
    parts: list[tuple[int, int, Tensor]] = []
    places: set[tuple[Sizes, int]] = set()
    for t in terms_of(inputs):
        few = t.op is slice_grad and len(parts) < MOST_SLICES
        span = _span(t.spec.shape, t.params["slices"]) if few else None
        if span is None:
            return None
        places.add((t.spec.shape, span[0]))
        parts.append((*span[1:], t.inputs[0]))
        if len(places) > 1:
            return None
    ((shape, axis),) = places
    starts, stops, gradients = zip(*sorted(parts, key=lambda part: part[0]), strict=True)
    if [*starts, shape[axis]] != [0, *stops]:
        return None
    with changed(line=node.where):
        return concat(*gradients, axis=axis)


def _span(shape: Sizes, slices: Slices) -> tuple[int, int, int] | None:
    """The axis along which slices take a part without gaps, where that begins, and where it ends,
    if there is a single one and its size is known.
    """
    cut = [i for i, part in enumerate(slices) if part != ALL]
    if len(cut) != 1:
        return None
    axis = cut[0]
    n, (start, stop, step) = shape[axis], slices[axis]
    if n is None or step != 1:
        return None
    first, end, _ = builtins.slice(start, stop).indices(n)
    return (axis, first, end) if first < end else None


# --- slices ---------------------------------------------------------------------------------------


class _Parts:
    """One `split` in the place of slices that are all of a tensor along one of its axes. Along the
    first one, slices share the tensor's memory and stay.
    """

    def __init__(self, outputs: Sequence[Tensor]) -> None:
        spans: dict[tuple[Tensor, int], dict[tuple[int, int], Tensor]] = {}
        for node in toposort(outputs):
            if node.op is slice:
                x = node.inputs[0]
                span = _span(x.spec.shape, node.params["slices"])
                if span is not None and span[0] > 0:
                    spans.setdefault((x, span[0]), {})[span[1:]] = node
        self.places: dict[Tensor, tuple[int, tuple[int, ...], int]] = {}
        for (x, axis), found in spans.items():
            order = sorted(found)
            starts, ends = [a for a, _ in order], [b for _, b in order]
            if len(order) > 1 and [*starts, x.spec.shape[axis]] == [0, *ends]:
                sizes = tuple([b - a for a, b in order])
                places = {found[span]: (axis, sizes, i) for i, span in enumerate(order)}
                self.places |= places
        self.made: dict[tuple[Tensor, int], list[Tensor]] = {}

    def __call__(self, node: Tensor, inputs: Operands, uses: Uses) -> Tensor | None:
        if node not in self.places:
            return None
        axis, sizes, i = self.places[node]
        key = node.inputs[0], axis
        if key not in self.made:
            with changed(line=node.where):
                self.made[key] = split(inputs[0], axis=axis, sizes=sizes)
        return self.made[key][i]
