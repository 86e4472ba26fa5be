"""Matrix products."""

from __future__ import annotations

from backplane.core.spec import is_float
from backplane.engines.factorizations import is_half
from backplane.engines.onnxruntime.builder import Symbol, current_scope, ints, node, number, vector
from backplane.engines.onnxruntime.elementwise import TO_INT32, through, where
from backplane.engines.onnxruntime.sizes import total
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
        current_scope().root.stacks = True
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


@TABLE.add("fft", unless=is_half)
def fft(re: Symbol, im: Symbol) -> list[Symbol]:
    """`DFT`, of rows whose numbers are pairs."""
    n = re.size(re.rank - 1)
    pairs = [x.reshape((total(re.sizes[:-1]), n, 1)) for x in (re, im)]
    y = node("DFT", node("Concat", *pairs, axis=2), None, number(1, "int64"))
    return [node("Gather", y, number(i, "int64"), axis=2).reshape(re.sizes) for i in (0, 1)]
