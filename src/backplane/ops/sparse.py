"""Products of sparse matrices in compressed rows with dense ones.

A matrix in compressed rows has five vectors. `values` holds its entries row by row, and `columns`
the column of each. `offsets` says where each row begins, and at its end where the last row ends.
`rows` is the row of each entry, which follows from `offsets`. `across` has as many elements as the
matrix has columns; only its size is read. No place has two entries. Entries behind the end of the
last row are padding: their value is 0, and there is no such row.
"""

from __future__ import annotations

from functools import partial

from backplane.core import shapes
from backplane.core.graph import Tensor, constant
from backplane.core.primitive import primitive
from backplane.core.spec import NUMBER, Spec, check_dtype, is_integer
from backplane.core.traits import Memory, Precision
from backplane.ops.creation import Amount, shaped, shaped_as, size_at
from backplane.ops.elementwise import add, cast, in_single, mul
from backplane.ops.indexing import gather, scatter_add
from backplane.ops.shaping import expand_dims, reshape, sum


@primitive(
    memory=Memory.FRESH, precision=Precision.LOW, linear=(0, 5),
    axes=lambda node, axis: [(node.inputs[-1], 1)] if axis else (),
)  # fmt: skip
def rows_matmul(
    values: Spec, columns: Spec, offsets: Spec, rows: Spec, across: Spec, y: Spec
) -> Spec:
    """The product of a sparse matrix in compressed rows and a dense matrix `y`."""
    check_dtype("rows_matmul", "values", values.dtype, NUMBER)
    if values.dtype != y.dtype:
        raise TypeError(f"rows_matmul: values have dtype {values.dtype} and y {y.dtype}")
    if len(y.shape) != 2:
        raise ValueError(f"rows_matmul: y must have 2 axes, got shape {y.shape}")
    for name, x in (("columns", columns), ("rows", rows), ("offsets", offsets), ("across", across)):
        if not is_integer(x.dtype) or len(x.shape) != 1:
            raise TypeError(
                f"rows_matmul: {name} must be a vector of integers, got shape {x.shape} and dtype "
                f"{x.dtype}"
            )
    for x in (columns, rows):
        shapes.merge_size(values.shape[0], x.shape[0], "rows_matmul: the number of entries")
    what = "rows_matmul: the columns of the matrix and the rows of y"
    shapes.merge_size(across.shape[0], y.shape[0], what)
    (count,) = offsets.shape
    return Spec((None if count is None else count - 1, y.shape[1]), y.dtype)


def row_count(offsets: Tensor) -> Amount:
    """The number of rows of a matrix."""
    return size_at(offsets, 0) - 1


@partial(in_single, rows_matmul)  # Sums of many entries need more digits.
def _(
    values: Tensor, columns: Tensor, offsets: Tensor, rows: Tensor, across: Tensor, y: Tensor
) -> Tensor:
    if None in (across.spec.shape[0], y.spec.shape[0]):  # It fails if the sizes differ.
        y = shaped(reshape, [size_at(across, 0), size_at(y, 1)], y)
    products = mul(expand_dims(values, axes=(1,)), gather(y, columns, axis=0))
    return shaped(scatter_add, [row_count(offsets), size_at(y, 1)], products, rows, axis=0)


@rows_matmul.vjp
def _(
    g: Tensor, z: Tensor, values: Tensor, columns: Tensor, offsets: Tensor, rows: Tensor,
    across: Tensor, y: Tensor,
) -> tuple[Tensor, None, None, None, None, Tensor]:  # fmt: skip
    by_entry = gather(g, rows, axis=0)
    to_values = sum(mul(by_entry, gather(y, columns, axis=0)), axes=(1,), keepdims=False)
    products = mul(expand_dims(values, axes=(1,)), by_entry)
    to_y = shaped_as(scatter_add, y, products, columns, axis=0)
    return to_values, None, None, None, None, to_y


def dense_of_rows(
    values: Tensor, columns: Tensor, offsets: Tensor, rows: Tensor, across: Tensor
) -> Tensor:
    """The dense form of a sparse matrix in compressed rows."""
    height, width = row_count(offsets), size_at(across, 0)
    if isinstance(height, int) and isinstance(width, int):
        total: Amount = height * width
        dtype = "int32" if total < 2**31 else "int64"
        step: Tensor = constant(width, dtype)
    else:
        dtype = "int64"
        step = _integer(width)
        total = mul(_integer(height), step)
    places = add(mul(cast(rows, dtype=dtype), step), cast(columns, dtype=dtype))
    flat = shaped(scatter_add, [total], values, places, axis=0)
    return shaped(reshape, [height, width], flat)


def _integer(size: Amount) -> Tensor:
    """A size as an int64 scalar."""
    return constant(size, "int64") if isinstance(size, int) else cast(size, dtype="int64")
