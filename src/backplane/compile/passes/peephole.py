"""Replaces small patterns of a few nodes by fewer or smaller nodes that compute the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from backplane.compile.fuse.algebra import Algebra, Sum, number_of, scales, times
from backplane.compile.fuse.numbers import tensor_of
from backplane.compile.fuse.readers import uses_of
from backplane.compile.fuse.rows import lookups
from backplane.compile.fuse.unify import ONCE, by_tensors
from backplane.core.context import changed
from backplane.core.graph import Tensor, rebuild, rewrite, toposort
from backplane.core.primitive import Primitive
from backplane.core.sizes import same_shape
from backplane.core.spec import is_float
from backplane.engines.base import Engine
from backplane.ops.convolution import conv, conv_bias
from backplane.ops.elementwise import add, cast, mul, relu_grad, sub
from backplane.ops.indexing import ALL, Sizes, Slices, slice_grad, split
from backplane.ops.indexing import slice as take_slice
from backplane.ops.linear import matmul, matmul_add
from backplane.ops.pooling import max_pool_grad
from backplane.ops.shaping import concat, reshape
from backplane.ops.updates import rows_add

# --- biases ---------------------------------------------------------------------------------------


def add_biases(outputs: Sequence[Tensor], engine: Engine) -> list[Tensor]:
    """`outputs`, lowered for `engine`, with one node in place of two: for a convolution and its
    bias, and for a matrix product and what is added to it, unless somebody else reads the product.
    """
    kernels = {x: both for x, both in WITH_BIAS.items() if both.name in engine.table}
    if not any(node.op in kernels for node in toposort(outputs)):
        return list(outputs)
    uses = uses_of(outputs)

    def joined(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
        if node.op is not add:
            return None
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
                return both if shaped is None else _with_first(inputs[i], both)
        return None

    return rewrite(outputs, joined, keep_specs=True)


WITH_BIAS: dict[Primitive[Tensor], Primitive[Tensor]] = {conv: conv_bias, matmul: matmul_add}


def _rows_of(x: Tensor) -> Tensor | None:
    """The matrix that `x` is, in another shape with the same last axis. A product with a tensor of
    three axes and more is made of its rows.
    """
    if x.op is not reshape or x.inputs[0].op is not matmul or x.inputs[0].ndim != 2:
        return None
    rows = x.inputs[0]
    same = rows.spec.shape[-1] is not None and rows.spec.shape[-1] == x.spec.shape[-1]
    return rows if same and rows.spec.dtype in ("float32", "float64") else None


def _with_first(node: Tensor, x: Tensor) -> Tensor:
    """`node` with another first operand of the same spec."""
    assert node.op is not None
    return Tensor(node.op, (x, *node.inputs[1:]), node.params, node.spec, node.where)


def _is_vector_of_channels(x: Tensor, bias: Tensor) -> bool:
    channels = x.spec.shape[-1]
    return channels is not None and bias.spec.shape == (channels,)


def _is_added_to_matrix(x: Tensor, bias: Tensor) -> bool:
    """Whether x is a matrix of floats, and the sum is certain to have its shape."""
    if x.ndim != 2 or x.spec.dtype not in ("float32", "float64") or bias.ndim > 2:
        return False
    sizes = zip(bias.spec.shape, x.spec.shape[2 - bias.ndim :], strict=True)
    return same_shape(bias, x) or all(n == 1 or (n is not None and n == m) for n, m in sizes)


# --- rows of tables -------------------------------------------------------------------------------


def add_rows(outputs: Sequence[Tensor], engine: Engine) -> list[Tensor]:
    """`outputs`, with `rows_add` in the place of a sum of a tensor and a multiple of the gradient
    of lookups in its rows, which is zero everywhere else, unless somebody else reads the gradient.
    """
    if rows_add.name not in engine.table:
        return list(outputs)
    uses = uses_of(outputs)

    def added(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
        if node.op is not add and node.op is not sub:
            return None
        for i in (1, 0) if node.op is add else (1,):
            x, term = inputs[1 - i], inputs[i]
            fits = is_float(node.spec.dtype) and x.spec == node.spec and not lookups(x, node)
            factor, gradient = _multiple(term) if fits else (ONCE, node)
            rows = lookups(gradient, node) if fits else []
            if rows and uses[node.inputs[i]] == 1:
                sign = 1.0 if node.op is add else -1.0
                return _rows_added(x, times(factor, number_of(sign)), rows)
        return None

    return rewrite(outputs, added)


def _multiple(t: Tensor) -> tuple[Sum, Tensor]:
    """The number and the tensor whose product `t` is."""
    form = by_tensors(Algebra(opens=scales)(t))
    if len(form) == 1:
        ((product, factor),) = form.items()
        if len(product) == 1:
            ((x, exponent),) = product
            if isinstance(x, Tensor) and exponent == 1:
                return factor, x
    return ONCE, t


def _rows_added(x: Tensor, factor: Sum, gradients: Sequence[Tensor]) -> Tensor:
    dtype = x.spec.dtype
    number = cast(tensor_of(factor, dtype), dtype=dtype)
    for gradient in gradients:
        g, indices = gradient.inputs
        x = rows_add(x, mul(number, g), indices)
    return x


# --- masks of poolings ----------------------------------------------------------------------------


def mask_maxima(outputs: Sequence[Tensor]) -> list[Tensor]:
    """`outputs`, with `relu_grad(max_pool_grad(g, x, y), x)` as `max_pool_grad(relu_grad(g, y), x,
    y)`, unless somebody else reads the inner node.

    The gradient of a pooling goes to elements that equal the maximum of their window. So the maxima
    tell whether relu let these elements through, before the gradient is spread. For windows of 2 ×
    2 these are a quarter of the elements, and no mask as large as the pooling's input is needed.
    """
    uses = uses_of(outputs)

    def masked(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
        if node.op is not relu_grad:
            return None
        g, x = node.inputs
        if g.op is not max_pool_grad or g.inputs[1] is not x or uses[g] > 1:
            return None
        cotangent, x, y, positions = inputs[0].inputs
        early = Tensor(node.op, (cotangent, y), {}, cotangent.spec, node.where)
        return rebuild(inputs[0], (early, x, y, positions))

    return rewrite(outputs, masked)


# --- sums of gradients of slices ------------------------------------------------------------------

MOST_SLICES = 256
"""Slices that are looked at: the sum of n of them is met n − 1 times."""


class _Part(NamedTuple):
    """A tensor of `shape` that is `g` from `start` to `stop` along `axis`, and zero elsewhere."""

    shape: tuple[int | None, ...]
    axis: int
    start: int
    stop: int
    g: Tensor


def concat_of_slices(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
    """A `concat` that equals x + y, if the terms are gradients of slices that cover one axis
    exactly.
    """
    if not all(t.op is slice_grad or t.op is add for t in inputs):
        return None
    parts: list[_Part] = []
    waiting = list(inputs)
    while waiting:
        t = waiting.pop()
        if t.op is None or len(parts) == MOST_SLICES:
            return None
        if t.op is add:
            waiting += t.inputs
            continue
        part = _part(t) if t.op is slice_grad else None
        if part is None or (parts and part[:2] != parts[0][:2]):
            return None
        parts.append(part)
    parts.sort(key=lambda part: part.start)
    shape, axis = parts[0][:2]
    bounds = [0, *[part.stop for part in parts]]
    if [part.start for part in parts] != bounds[:-1] or bounds[-1] != shape[axis]:
        return None
    with changed(line=node.where):
        return concat(*[part.g for part in parts], axis=axis)


def _part(t: Tensor) -> _Part | None:
    """The part that `t` is, if it is the gradient of a slice without gaps along a single axis of
    known size.
    """
    span = _span(t.spec.shape, t.params["slices"])
    return None if span is None else _Part(t.spec.shape, *span, t.inputs[0])


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
    first, end, _ = slice(start, stop).indices(n)
    return (axis, first, end) if first < end else None


# --- slices ---------------------------------------------------------------------------------------


def join_slices(outputs: Sequence[Tensor], engine: Engine) -> list[Tensor]:
    """`outputs`, lowered for `engine`, with one `split` in the place of slices that are all of a
    tensor along one of its axes. Along the first one, slices share the tensor's memory and stay.
    """
    if split.name not in engine.table:
        return list(outputs)
    spans: dict[tuple[Tensor, int], dict[tuple[int, int], Tensor]] = {}
    for node in toposort(outputs):
        if node.op is take_slice:
            x = node.inputs[0]
            span = _span(x.spec.shape, node.params["slices"])
            if span is not None and span[0] > 0:
                spans.setdefault((x, span[0]), {})[span[1:]] = node
    places: dict[Tensor, tuple[int, tuple[int, ...], int]] = {}
    for (x, axis), found in spans.items():
        order = sorted(found)
        starts, ends = [a for a, _ in order], [b for _, b in order]
        if len(order) > 1 and [*starts, x.spec.shape[axis]] == [0, *ends]:
            sizes = tuple([b - a for a, b in order])
            places |= {found[span]: (axis, sizes, i) for i, span in enumerate(order)}
    made: dict[tuple[Tensor, int], list[Tensor]] = {}

    def parted(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
        if node not in places:
            return None
        axis, sizes, i = places[node]
        key = node.inputs[0], axis
        if key not in made:
            with changed(line=node.where):
                made[key] = split(inputs[0], axis=axis, sizes=sizes)
        return made[key][i]

    return rewrite(outputs, parted, keep_specs=True) if places else list(outputs)
