"""Lowering of matrix products: PyTorch's own, or oneDNN's where that is faster on this processor.
Convolutions that are products use the same ones.

PyTorch multiplies float32 matrices by MKL, which is up to two times slower than oneDNN on
processors that MKL was not written for. PyTorch carries oneDNN as well, and reaches it by the
operator that its compiler uses for linear layers. Which one is faster is measured once, when the
first program with a large product is built. oneDNN's operator has no gradient: it serves where no
tape is on, as in compiled programs.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Sequence

import torch

from backplane.core.spec import Spec, is_float, is_integer
from backplane.engines import kernels
from backplane.engines.table import Lowering, Table, Value
from backplane.engines.torch.dtypes import modular
from backplane.engines.torch.indexing import SUM
from backplane.engines.torch.tracing import in_jit_trace, is_recorded

TABLE = Table()


def has_onednn() -> bool:
    """Whether this build of PyTorch has oneDNN's operator for linear layers."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def onednn(x: Value, y: Value, bias: Value | None = None) -> Value:
    """`x @ y + bias` by oneDNN: float32 matrices on the processor, a vector, no tape."""
    return torch.ops.mkldnn._linear_pointwise.default(x, y.t(), bias, "none", [], "")


@functools.cache
def onednn_is_faster() -> bool:
    """Whether oneDNN beats PyTorch's default here; measured once per process, in 2 to 5 ms."""
    if not has_onednn():
        return False
    with torch.no_grad():
        x = torch.ones(128, 256, dtype=torch.float32, device="cpu")
        y = torch.ones(256, 256, dtype=torch.float32, device="cpu")
        return kernels.is_faster(onednn, torch.mm, (x, y), 8)


def asks_for_tape(lowering: Lowering) -> bool:
    """Whether a lowering looks for a tape, so that programs must run it with gradients off."""
    return hasattr(lowering, "asks_for_tape")


def asking(lowering: Lowering, as_does: Lowering | None = None) -> Lowering:
    """Note that a lowering looks for a tape: always, or if the lowering `as_does` does."""
    if as_does is None or asks_for_tape(as_does):
        lowering.asks_for_tape = True  # type: ignore[attr-defined]
    return lowering


def _by_size(large: float) -> Lowering:
    """`x @ y` for matrices, plus `c` if it is given, by oneDNN from `large` multiplications on."""

    def product(x: Value, y: Value, *c: Value, out: Value | None = None) -> Value:
        rows, inner = x.shape
        columns = y.shape[1]
        if (
            rows * inner * columns < large
            or min(rows, inner, columns) < 32
            or not x.is_cpu
            or torch.is_grad_enabled()
            or in_jit_trace()
            or torch.is_autocast_enabled("cpu")
        ):
            return _addmm(x, y, c[0], out=out) if c else torch.mm(x, y, out=out)
        if c and c[0].shape == (columns,) and c[0].is_contiguous():
            result = onednn(x, y, *c)
        else:
            result = onednn(x, y)
            result = result.add_(*c) if c else result
        return result if out is None else out.copy_(result)

    return asking(product)


USUAL = 1024
"""An unknown size counts as so much."""


def by_onednn(dtype: str, *sizes: int | None) -> Lowering | None:
    """`x @ y`, or `c + x @ y`, for matrices of a dtype, by oneDNN where it is faster. None if it
    is not, also in view of the sizes, whose product is the number of multiplications.
    """
    large, most = kernels.limit("torch.products"), math.prod([n or USUAL for n in sizes])
    if dtype != "float32" or most < large or not (has_onednn() and _prefers_onednn()):
        return None
    return _by_size(large)


def sum_of_product(x: Value, y: Value, *c: Value) -> Value:
    """The same by PyTorch's default."""
    return torch.addmm(*c, x, y) if c else torch.mm(x, y)


def _prefers_onednn() -> bool:
    """Whether oneDNN is known, or measured now, to be the faster one. It does not serve where
    operations are recorded, because the measurement would be a part of the record. Nothing is
    measured if the user has a table of this machine.
    """
    return not is_recorded() and (kernels.settled("torch.products") or onednn_is_faster())


NARROW = range(2, 11)
"""Columns of a matrix for which MKL's product may take several times as long as that of both
matrices transposed: that depends on the processor."""


@functools.cache
def _turned_is_faster() -> bool:
    """Whether that is so here. Takes 1 ms, once per process."""
    with torch.no_grad():
        x, y = (torch.ones(512, n, dtype=torch.float32, device="cpu") for n in (64, 8))
        return kernels.is_faster(_turned, torch.mm, (x.t(), y), 8)


def _turned(x: Value, y: Value) -> Value:
    return torch.mm(y.t(), x.t()).t().contiguous()


def _by_columns(specs: Sequence[Spec], transpose_y: bool, plain: Lowering) -> Lowering:
    """`plain`, a product to which something may be added, or the product of both transposed."""
    if specs[0].dtype != "float32" or specs[0].ndim != 2 or is_recorded():
        return plain
    if specs[1].shape[not transpose_y] not in NARROW:
        return plain
    if not (kernels.settled("torch.narrow") or _turned_is_faster()):
        return plain
    least = kernels.limit("torch.narrow")

    def product(x: Value, y: Value, *added: Value, out: Value | None = None) -> Value:
        here = x.is_cpu and type(x) is torch.Tensor and not torch.jit.is_tracing()
        if not here or x.numel() * y.shape[1] < least:
            return plain(x, y, *added, out=out)
        found = _turned(x, y) if out is None else out.copy_(torch.mm(y.t(), x.t()).t())
        return found.add_(*added) if added else found

    return asking(product, plain)


@TABLE.build("matmul", into=True)
def matmul(specs: Sequence[Spec], *, transpose_x: bool, transpose_y: bool) -> Lowering:
    """`torch.matmul` on transposed views."""
    product: Lowering = _whole if is_integer(specs[0].dtype) else torch.matmul
    return _fastest(specs, modular(specs[0], product), transpose_x, transpose_y)


@TABLE.build("matmul_add", into=True)
def matmul_add(specs: Sequence[Spec], *, transpose_x: bool, transpose_y: bool) -> Lowering:
    """`torch.addmm`, where the product alone is not oneDNN's."""
    return _fastest(specs, _addmm, transpose_x, transpose_y)


def _fastest(
    specs: Sequence[Spec], plain: Lowering, transpose_x: bool, transpose_y: bool
) -> Lowering:
    """`plain`, or a form of it that is faster for such matrices, of transposed views."""
    if specs[0].ndim == 2:
        sizes = *specs[0].shape, specs[1].shape[not transpose_y]
        plain = by_onednn(specs[0].dtype, *sizes) or plain
    return _transposing(_by_columns(specs, transpose_y, plain), transpose_x, transpose_y)


def _whole(x: Value, y: Value, out: Value | None = None) -> Value:
    """`x @ y` for integers. CUDA has no kernel for them: there the products are made and added."""
    if not x.is_cuda:
        return torch.matmul(x, y, out=out)
    products = x.unsqueeze(-1) * y.unsqueeze(-3)
    return torch.sum(products, -2, dtype=x.dtype, out=out)


def _transposing(product: Lowering, transpose_x: bool, transpose_y: bool) -> Lowering:
    """`product` of transposed views."""
    if not (transpose_x or transpose_y):
        return product

    def lowering(x: Value, y: Value, *added: Value, out: Value | None = None) -> Value:
        return product(x.mT if transpose_x else x, y.mT if transpose_y else y, *added, out=out)

    return asking(lowering, product)


def _addmm(x: Value, y: Value, c: Value, out: Value | None = None) -> Value:
    return torch.addmm(c, x, y) if out is None else torch.addmm(c, x, y, out=out)


# --- a sparse matrix in compressed rows -----------------------------------------------------------


@TABLE.build("rows_matmul", unless=lambda specs: not is_float(specs[0].dtype))
def rows_matmul(specs: Sequence[Spec]) -> Lowering:
    """The kernel of `embedding_bag`, which adds up weighted rows: in float32 it takes half of the
    time of a product of `torch.sparse_csr_tensor`. In float64, for which it is not tuned, MKL's
    product is faster.
    """
    if specs[0].dtype != "float64":
        return _by_bags
    _told_of_beta()
    return _by_mkl


@functools.cache
def _told_of_beta() -> None:
    """PyTorch warns once per process that its sparse matrices are new. Users make none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        none = torch.zeros(0, dtype=torch.int32)
        torch.sparse_csr_tensor(torch.zeros(1, dtype=torch.int32), none, none, (0, 0))


def _by_bags(
    values: Value, columns: Value, offsets: Value, rows: Value, across: Value, y: Value
) -> Value:
    bags = torch.ops.aten._embedding_bag_forward_only
    if len(across) != len(y):
        raise ValueError(f"the matrix has {len(across)} columns, and y {len(y)} rows")
    if not len(y) or not y.shape[1]:
        return y.new_zeros(len(offsets) - 1, y.shape[1])
    y = y.contiguous()
    return bags(y, columns, offsets, False, SUM, False, values, include_last_offset=True)[0]


def _by_mkl(
    values: Value, columns: Value, offsets: Value, rows: Value, across: Value, y: Value
) -> Value:
    shape = len(offsets) - 1, len(across)
    if not all(shape) or not y.shape[1] or not len(values):
        return y.new_zeros(shape[0], y.shape[1])
    matrix = torch.sparse_csr_tensor(offsets, columns, values, shape, check_invariants=False)
    return matrix @ y
