"""Matrix products."""

from __future__ import annotations

from backplane.core.spec import is_float
from backplane.engines.onnxruntime.builder import Symbol, current, ints, node, number, vector
from backplane.engines.onnxruntime.elementwise import TO_INT32, through, where
from backplane.engines.table import Table

TABLE = Table()


@TABLE.add("matmul")
@through(TO_INT32)
def matmul(x: Symbol, y: Symbol, *, transpose_x: bool, transpose_y: bool) -> Symbol:
    """Matrix product of the last two axes."""
    if x.rank == 2 and is_float(x.dtype) and (transpose_x or transpose_y):
        return node("Gemm", x, y, transA=int(transpose_x), transB=int(transpose_y))
    inner = x.size(x.rank - 2 if transpose_x else x.rank - 1)
    if x.rank > 2:
        current().root.stacks = True
    y = node("MatMul", _swapped(x) if transpose_x else x, _swapped(y) if transpose_y else y)
    if x.rank == 2 or (isinstance(inner, int) and inner):
        return y
    # Where ONNX Runtime transposes within products of stacks, a sum of nothing has any value.
    empty = node("Equal", vector([inner]), ints(0))
    return where(empty, number(0, y.dtype), y)


@TABLE.add("matmul_add")
def matmul_add(x: Symbol, y: Symbol, c: Symbol, *, transpose_x: bool, transpose_y: bool) -> Symbol:
    """Matrix product, plus what is broadcast to its shape."""
    return node("Gemm", x, y, c, transA=int(transpose_x), transB=int(transpose_y))


def _swapped(x: Symbol) -> Symbol:
    perm = list(range(x.rank))
    return x.transpose([*perm[:-2], perm[-1], perm[-2]])
