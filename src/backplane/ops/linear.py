"""Products of matrices."""

from __future__ import annotations

from collections.abc import Sequence

from backplane.core import shapes
from backplane.core.graph import Tensor
from backplane.core.primitive import primitive
from backplane.core.sizes import origin
from backplane.core.spec import NUMBER, Spec, check_dtype
from backplane.core.traits import Axis, Memory, Precision, Stacked
from backplane.ops.creation import shaped, shaped_as, size_at
from backplane.ops.elementwise import add
from backplane.ops.shaping import reshape, sum_to, transpose


def _product_axis(node: Tensor, axis: int) -> Sequence[Axis]:
    x, y = node.inputs[:2]  # `matmul_add` has a third operand.
    if axis == node.ndim - 2:
        return [(x, axis + 1 if node.params["transpose_x"] else axis)]
    if axis == node.ndim - 1:
        return [(y, axis - 1 if node.params["transpose_y"] else axis)]
    return [(t, axis) for t in (x, y) if t.spec.shape[axis] is None]


def _stacked_product(node: Tensor, operands: Sequence[Stacked]) -> Tensor | None:
    """The products of all steps with one matrix are one product of all their rows."""
    (x, stacked, rows_first), (w, varies, _) = operands
    fits = stacked and not varies and node.ndim == 2 and not node.params["transpose_x"]
    rows = as_rows(x, rows_first) if fits else None
    if rows is None:
        return None
    product = matmul(rows, w, **node.params)
    sizes = [size_at(x, axis) for axis in ((1, 0) if rows_first else (0, 1))]
    stack = shaped(reshape, [*sizes, size_at(product, 1)], product)
    return transpose(stack, perm=(1, 0, 2)) if rows_first else stack


def as_rows(x: Tensor, rows_first: bool = False) -> Tensor | None:
    """The matrices of a stack, or tensors of more axes, one below the other; None if the sizes of a
    row are not known. With `rows_first` the first rows of all of them come first.
    """
    steps, rows, *row = x.spec.shape
    if not all(row):
        return None
    if rows_first:
        x = transpose(x, perm=(1, 0, *range(2, x.ndim)))
    return reshape(x, shape=(-1 if steps is None or rows is None else steps * rows, *row))


@primitive(
    memory=Memory.FRESH, precision=Precision.LOW, linear=(0, 1), axes=_product_axis,
    stacks=_stacked_product,
)  # fmt: skip
def matmul(x: Spec, y: Spec, *, transpose_x: bool, transpose_y: bool) -> Spec:
    """The matrix product over the last two axes, each pair of which is swapped first if its flag
    says so. The batch axes are equal, but one whose size is not known may be of size 1.
    """
    if x.dtype != y.dtype:
        raise TypeError(f"matmul: x has dtype {x.dtype} and y {y.dtype}; cast one of them")
    check_dtype("matmul", "x", x.dtype, NUMBER)
    a, b = x.shape, y.shape
    if len(a) != len(b) or len(a) < 2:
        raise ValueError(f"matmul: x and y need equal ranks of at least 2, got shapes {a} and {b}")
    rows, inner = (a[-1], a[-2]) if transpose_x else (a[-2], a[-1])
    other, columns = (b[-1], b[-2]) if transpose_y else (b[-2], b[-1])
    if inner != other and inner is not None and other is not None:
        raise ValueError(
            f"matmul: cannot multiply shapes {_shown(a, transpose_x)} and "
            f"{_shown(b, transpose_y)}: {inner} columns meet {other} rows"
        )
    if len(a) == 2:
        return Spec((rows, columns), x.dtype)
    what = f"matmul: batch axes of shapes {a} and {b}"
    pairs = zip(a[:-2], b[:-2], strict=True)
    batch = [shapes.merge_size(m, n, what) if {m, n} != {1, None} else None for m, n in pairs]
    return Spec((*batch, rows, columns), x.dtype)


def _shown(shape: tuple[int | None, ...], transposed: bool) -> str:
    return f"{shape} (transposed)" if transposed else str(shape)


def _matmul_x(
    g: Tensor, z: Tensor, x: Tensor, y: Tensor, *, transpose_x: bool, transpose_y: bool
) -> Tensor:
    slope = times(y, g, tx=transpose_y, ty=True) if transpose_x else times(g, y, ty=not transpose_y)
    return _summed(slope, x, y)


def _matmul_y(
    g: Tensor, z: Tensor, x: Tensor, y: Tensor, *, transpose_x: bool, transpose_y: bool
) -> Tensor:
    slope = times(g, x, tx=True, ty=transpose_x) if transpose_y else times(x, g, tx=not transpose_x)
    return _summed(slope, y, x)


def _summed(g: Tensor, like: Tensor, other: Tensor) -> Tensor:
    """The cotangent `g` of an operand, which may have been broadcast to the batch of the other."""
    for i, (n, m) in enumerate(zip(like.spec.shape[:-2], other.spec.shape[:-2], strict=True)):
        if n in (1, None) and m != 1 and origin(like, i) != origin(other, i):
            return shaped_as(sum_to, like, g)
    return g


matmul.vjps(_matmul_x, _matmul_y)


def times(x: Tensor, y: Tensor, *, tx: bool = False, ty: bool = False) -> Tensor:
    """The product of matrices, each of which is transposed first if its flag says so."""
    return matmul(x, y, transpose_x=tx, transpose_y=ty)


# --- with a sum: put into programs by the compiler, for engines that have a kernel ----------------


@primitive(memory=Memory.FRESH, axes=_product_axis)
def matmul_add(x: Spec, y: Spec, c: Spec, *, transpose_x: bool, transpose_y: bool) -> Spec:
    """`matmul` of two float matrices, plus `c`, which is broadcast to the shape of the product."""
    return matmul.infer_rule(x, y, transpose_x=transpose_x, transpose_y=transpose_y)


@matmul_add.decompose
def _(x: Tensor, y: Tensor, c: Tensor, *, transpose_x: bool, transpose_y: bool) -> Tensor:
    product = matmul(x, y, transpose_x=transpose_x, transpose_y=transpose_y)
    return add(product, c)
