"""Primitives that no K function reaches in every form: they are called by their own names."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from backplane.backend._call import api
from backplane.core.registry import primitive
from backplane.ops.lift import as_tensor
from backplane.ops.scattering import scatter_set
from cases.record import bools, case, distinct, floats, ints, positive, values


def op(name: str, *args: Any, id: str | None = None, oracle: Any = None, **options: Any) -> None:
    """A case of one primitive, called as K functions are, with native values too."""
    call = _caller(name)
    case(f"ops.{name}", *args, fn=lambda K, *a, **p: call(*a, **p), id=id, oracle=oracle, **options)


def _caller(name: str) -> Callable[..., Any]:
    @api
    def call(*operands: Any, **params: Any) -> Any:
        return primitive(name)(*[as_tensor(x) for x in operands], **params)

    return call


# --- element-wise ---------------------------------------------------------------------------------

op("expm1", floats(2, 3), oracle=np.expm1, smooth=True)
op("expm1", values([1e-6, -1e-6]), id="near-0", oracle=np.expm1)
op("log1p", positive(2, 3), oracle=np.log1p, smooth=True)
op("log1p", values([1e-6, -1e-6]), id="near-0", oracle=np.log1p, grad=False)
op("erf", floats(2, 3), oracle=np.vectorize(math.erf, otypes=[float]), smooth=True)
op(
    "erf",
    values([-3e4, -7.0, -1.0, -1e-4, 0.0, 1e-4, 1.0, 7.0, 3e4]),
    id="far",
    oracle=np.vectorize(math.erf, otypes=[float]),
    grad=False,
)
op("erfinv", floats(2, 3, low=-0.75, high=0.75), smooth=True, tolerance={"float32": 2e-5})
op("sigmoid", values([-1000.0, 1000.0]), id="far", oracle=np.array([0.0, 1.0]), grad=False)
op(
    "softplus",
    values([-1000.0, 0.0, 1000.0]),
    id="far",
    oracle=np.array([0, np.log(2), 1000.0]),
    grad=False,
)
op(
    "round",
    values([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.7]),
    id="half-even",
    oracle=np.array([-2.0, -2, 0, 0, 2, 2, 1]),
    grad=False,
)
op("relu", ints(2, 3, low=-3, high=3), id="int", oracle=lambda x: np.maximum(x, 0))
op("relu_grad", distinct(2, 3), distinct(2, 3), oracle=lambda g, y: np.where(y > 0, g, 0))
op("sigmoid_grad", floats(2, 3), floats(2, 3), oracle=lambda g, y: g * y * (1 - y), smooth=True)
op("tanh_grad", floats(2, 3), floats(2, 3), oracle=lambda g, y: g * (1 - y * y), smooth=True)
for axis in (0, 1, 2):
    op(
        "softmax_grad", floats(2, 3, 2), floats(2, 3, 2), id=str(axis), axis=axis, smooth=True,
        oracle=lambda g, y, axis: (g - (g * y).sum(axis, keepdims=True)) * y,
    )  # fmt: skip
op("mul_no_nan", floats(2, 3), floats(3), oracle=np.multiply, smooth=True)
op(
    "mul_no_nan",
    values([np.inf, np.nan, -np.inf, 2.0]),
    values([0.0, 0.0, 1.0, 3.0]),
    id="not-finite",
    oracle=np.array([0, 0, -np.inf, 6]),
    grad=False,
)
op("mod", distinct(2, 3), values([[0.7], [-1.3]]), oracle=np.mod)
op("mod", ints(2, 3, low=-5), values([3, -3, 2]), id="int", oracle=np.mod)
op("floordiv", distinct(2, 3), values([[0.7], [-1.3]]), oracle=np.floor_divide, grad=False)
op("floordiv", ints(2, 3, low=-5), values([3, -3, 2]), id="int", oracle=np.floor_divide)
op(
    "floordiv",
    values([2**31 - 1, -(2**31), 2**31 - 1, 1, -1, 0], dtype="int32"),
    values([-2, 3, 2, -(2**31), 2**31 - 1, -(2**31)], dtype="int32"),
    id="extreme-ints",
    oracle=np.floor_divide,
)
op(
    "pow",
    values([-2.0, 0.0, 3.0]),
    values([2.0, 2.0, 0.5]),
    id="of-negative",
    oracle=np.power,
    grad=False,
    kinks=[(([-2.0, 0.0, 3.0], [2.0, 2.0, 1.0]), ([-4, 0, 1], [0, 0, np.float32(3 * np.log(3))]))],
)
op("pow", ints(2, 3), ints(3, high=4), id="int", oracle=np.power)
op("where", bools(2, 1), floats(3), floats(2, 3), id="broadcast", oracle=np.where)
op("logical_or", bools(2, 3), bools(3), oracle=np.logical_or)
op("logical_not", bools(2, 3), oracle=np.logical_not)
op("equal", bools(4), values([True, True, False, False]), id="bool", oracle=np.equal)

for dtype in ("int32", "uint32", "int64", "uint8"):
    pair = (ints(2, 3, high=100, dtype=dtype), ints(3, high=100, dtype=dtype))
    few = (ints(2, 3, low=1, high=100, dtype=dtype), ints(3, high=8, dtype=dtype))
    op("bit_and", *pair, id=dtype, oracle=np.bitwise_and)
    op("bit_or", *pair, id=dtype, oracle=np.bitwise_or)
    op("bit_xor", *pair, id=dtype, oracle=np.bitwise_xor)
    op("shift_left", *few, id=dtype, oracle=np.left_shift)
    op("shift_right", *few, id=dtype, oracle=np.right_shift)
op(
    "shift_right",
    values(np.array([0xFFFFFFFF, 0x80000000], "uint32"), "uint32"),
    values(np.array([28, 31], "uint32"), "uint32"),
    id="high-bits",
    oracle=np.right_shift,
)

HALVES = values([-1.7, -0.5, 0.0, 0.5, 1.7])
op("cast", HALVES, id="to-int", oracle=np.array([-1, 0, 0, 0, 1]), dtype="int32", grad=False)
op("cast", HALVES, id="to-bool", oracle=lambda x, dtype: x != 0, dtype="bool", grad=False)
op("cast", bools(4), id="of-bool", oracle=lambda x, dtype: x.astype(dtype), dtype="float32")
op("cast", floats(2, 3), id="to-double", oracle=lambda x, dtype: x, dtype="float64", smooth=True)

# --- angles and bits ------------------------------------------------------------------------------

AROUND = [
    values([1.0, 1.0, -1.0, -1.0, 0.5, -3.0, 0.01, 1e-3]),
    values([1.0, -1.0, 1.0, -1.0, 4.0, 0.25, -2.0, 1e3]),
]
INFINITY = np.inf
ANGLES = [
    ([0.0, -0.0, 0.0, -0.0], [0.0, 0.0, -0.0, -0.0]),
    ([0.0, -0.0, 1.0, -1.0], [-2.0, -2.0, 0.0, -0.0]),
    ([INFINITY, -INFINITY, INFINITY, 1.0], [INFINITY, -INFINITY, 1.0, -INFINITY]),
    ([np.nan, 1.0, 3e4, 1e-4], [1.0, np.nan, 3e4, 1e-4]),
]
op("atan2", *AROUND, oracle=np.arctan2, smooth=True)
op("atan2", floats(2, 1, low=0.5), positive(3), id="broadcast", oracle=np.arctan2, smooth=True)
for ys, xs in ANGLES:
    op("atan2", values(ys), values(xs), id="special", oracle=np.arctan2, grad=False)


def recast(x: np.ndarray, dtype: str) -> np.ndarray:
    size = np.dtype(dtype).itemsize
    if size < x.itemsize:
        return x[..., None].view(dtype)
    return x.view(dtype) if size == x.itemsize else x.view(dtype)[..., 0]


BITS = [
    ("float32", "int32"), ("int32", "float32"), ("float64", "int64"), ("float32", "uint8"),
    ("uint32", "int32"), ("int64", "uint16"), ("uint8", "uint32"), ("int16", "float16"),
]  # fmt: skip
for old, new in BITS:
    parts = max(np.dtype(new).itemsize // np.dtype(old).itemsize, 1)
    shape = (3, parts) if parts > 1 else (3, 2)
    given = np.arange(100, 100 + math.prod(shape)).reshape(shape).astype(old)
    op("bitcast", values(given, old), id=f"{old}-{new}", oracle=recast, dtype=new)
op("bitcast", values(np.float32(1.5), "float32"), id="scalar", oracle=recast, dtype="int32")

# --- reductions and cumulative operations ---------------------------------------------------------

ZEROS = values([[1.5, 0.0, -2.0], [0.0, 3.0, 0.0], [0.5, -1.0, 2.0]])
for keepdims in (False, True):
    op(
        "prod", ZEROS, id=f"zeros-{keepdims}",
        oracle=lambda x, axes, keepdims: np.prod(x, axis=axes, keepdims=keepdims),
        axes=(1,), keepdims=keepdims, smooth=True,
    )  # fmt: skip


def cumulated(x: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
    return np.flip(np.cumprod(np.flip(x, axis), axis), axis) if reverse else np.cumprod(x, axis)


for reverse in (False, True):
    for axis in (0, 1):
        op(
            "cumprod", ZEROS, id=f"{axis}-{reverse}", smooth=True, axis=axis, reverse=reverse,
            oracle=cumulated,
        )  # fmt: skip
op(
    "cumsum", ints(2, 3), id="int-reverse", axis=1, reverse=True,
    oracle=lambda x, axis, reverse: np.flip(np.cumsum(np.flip(x, axis), axis, dtype=x.dtype), axis),
)  # fmt: skip
INFINITE = values([[-np.inf, -np.inf], [0.0, -np.inf], [800.0, 800.0]])
op(
    "logsumexp", INFINITE, id="infinite", axes=(1,), keepdims=False, grad=False,
    oracle=np.array([-np.inf, 0.0, 800 + np.log(2)]),
)  # fmt: skip
op(
    "sum", ints(3, 4, high=200, dtype="uint8"), id="wraps", axes=(0,), keepdims=False,
    oracle=lambda x, axes, keepdims: x.sum(axes, dtype="uint8"),
)  # fmt: skip
op(
    "sum_to", floats(2, 3, 4), shape=(3, 1), smooth=True,
    oracle=lambda x, shape: x.sum(0).sum(1, keepdims=True),
)  # fmt: skip


def largest(x: np.ndarray, k: int) -> list[np.ndarray]:
    order = np.argsort(-x, axis=-1, kind="stable")[..., :k]
    return [np.take_along_axis(x, order, -1), order.astype("int32")]


op("top_k", distinct(2, 3, 5), oracle=largest, k=3)
op("top_k", values([[1.0, 2.0, 2.0, 1.0]]), id="ties", oracle=largest, k=3, grad=False)
op("top_k", ints(3, 6, high=4), id="int", oracle=largest, k=6)


def ordered(x: np.ndarray) -> list[np.ndarray]:
    order = np.argsort(x, axis=-1, kind="stable")
    return [np.take_along_axis(x, order, -1), order.astype("int32")]


op("sort", distinct(2, 3, 5), oracle=ordered, smooth=True)
op("sort", distinct(7), id="vector", oracle=ordered, smooth=True, batch=False)
op("sort", floats(2, 0), id="empty", oracle=ordered, grad=False)
op("sort", values([[2.0, 1.0, 2.0, 1.0, -0.0, 0.0]]), id="ties", oracle=ordered, grad=False)
MIXED = [[np.nan, 1.0, np.inf, -np.inf, np.nan, -1.0], [3.0, np.inf, 1.0, 2.0, -np.inf, 0.0]]
op("sort", values(MIXED), id="not-finite", oracle=ordered, grad=False)
for dtype, low, high in (
    ("int32", -4, 4), ("int64", -(2**40), 2**40), ("uint8", 0, 256), ("int8", -128, 128),
    ("uint16", 0, 2**16), ("uint32", 0, 2**32),
):  # fmt: skip
    op("sort", ints(3, 6, low=low, high=high, dtype=dtype), id=dtype, oracle=ordered)
EXTREME = values(np.array([[2**63, 1, 2**64 - 1, 0, 2**63 - 1]], "uint64"), "uint64")
op("sort", EXTREME, id="uint64", oracle=ordered)

# --- shaping and indexing -------------------------------------------------------------------------

EVERY_OTHER = ((None, None, 1), (1, None, 2))


def placed(shape: tuple[int, ...], index: Any, g: np.ndarray) -> np.ndarray:
    result = np.zeros(shape, g.dtype)
    np.add.at(result, index, g)
    return result


op("slice", floats(3, 5), oracle=lambda x, slices: x[:, 1::2], slices=EVERY_OTHER, smooth=True)
op(
    "slice", floats(3, 5), id="ends", slices=((-2, 9, 1), (-99, -1, 3)),
    oracle=lambda x, slices: x[-2:9, -99:-1:3],
)  # fmt: skip
op(
    "slice_grad", floats(3, 2), shape=(3, 5), slices=EVERY_OTHER, smooth=True, batch=False,
    oracle=lambda g, shape, slices: placed(shape, np.s_[:, 1::2], g),
)  # fmt: skip
op("flip", floats(2, 3), oracle=lambda x, axes: np.flip(x, axes), axes=(0, 1), smooth=True)
op(
    "pad", floats(2, 3), padding=((1, 0), (0, 2)), value=-1.5, smooth=True,
    oracle=lambda x, padding, value: np.pad(x, padding, constant_values=value),
)  # fmt: skip
LABELS = values([[2], [-1], [0], [3]])
op(
    "pick", floats(4, 3), LABELS, axis=1, smooth=True,
    oracle=lambda x, i, axis: np.where((i >= 0) & (i < 3), np.take_along_axis(x, i % 3, 1), 0),
)  # fmt: skip
op(
    "pick", floats(3, 4), values([[1, 0, 2, 9]]), id="first", axis=0, smooth=True, batch=False,
    oracle=lambda x, i, axis: np.where(i < 3, np.take_along_axis(x, i % 3, 0), 0),
)  # fmt: skip
op(
    "pick", floats(1, 3), values([[2], [0]]), id="broadcast", axis=1, smooth=True, batch=False,
    oracle=lambda x, i, axis: np.take_along_axis(np.repeat(x, 2, 0), i, 1),
)  # fmt: skip
op(
    "place", floats(4, 1), LABELS, axis=1, size=3, smooth=True,
    oracle=lambda g, i, axis, size: np.where(i == np.arange(3), g, 0),
)  # fmt: skip
op(
    "place", floats(1, 1), values([[2], [0]]), id="broadcast", axis=1, size=3, smooth=True,
    batch=False, oracle=lambda g, i, axis, size: np.where(i == np.arange(3), g, 0),
)  # fmt: skip
op("gather", floats(3, 4), values([[0, 2], [-1, 2]]), axis=1, smooth=True, batch=False,
   oracle=lambda x, i, axis: np.take(x, i, axis))  # fmt: skip
op(
    "scatter_add", floats(2, 2, 4), values([[0, 2], [-1, 2]]), shape=(3, 4), axis=0, smooth=True,
    batch=False, oracle=lambda g, i, shape, axis: placed(shape, i, g),
)  # fmt: skip
op(
    "scatter_add", floats(3, 4), values([1, 0, 1, 1]), id="inner", shape=(3, 2), axis=1,
    batch=False, oracle=lambda g, i, shape, axis: placed(shape[::-1], i, g.T).T,
)  # fmt: skip
COMBINED = {"max": np.maximum, "min": np.minimum, "product": np.multiply}


def combined(x: np.ndarray, i: np.ndarray, updates: np.ndarray, by: str) -> np.ndarray:
    y = x.copy()
    COMBINED[by].at(y, i, updates)
    return y


for by in COMBINED:
    op(
        "scatter", distinct(4, 3), values([[0, 2], [-1, 2]]), floats(2, 2, 3), id=by, by=by,
        oracle=combined, smooth=True, batch=(0,),
    )  # fmt: skip
    op("scatter", distinct(4), values([1, 0, 1]), floats(3), id=f"{by}-vector", by=by,
       oracle=combined, smooth=True, batch=(0,))  # fmt: skip
    op("scatter", ints(4, 2, low=-5), values([3, 3]), ints(2, 2, low=-5), id=f"{by}-int", by=by,
       oracle=combined)  # fmt: skip
    op("scatter", floats(2, 3), values(np.zeros(0, "int32")), floats(0, 3), id=f"{by}-none", by=by,
       oracle=combined, grad=False)  # fmt: skip
op(
    "scatter", values([1.0, 2.0, 0.0, 3.0]), values([0, 0, 1, 2, 3, 3]),
    values([0.0, 5.0, 2.0, 4.0, 0.0, 0.0]), id="zeros", by="product", oracle=combined,
)  # fmt: skip
op(
    "rows_matmul", floats(5), values([1, 3, 0, 1, 2]), values([0, 2, 2, 5]),
    values([0, 0, 2, 2, 2]), values(np.zeros(4, "int8")), floats(4, 2), batch=False, smooth=True,
    oracle=lambda v, c, o, r, a, y: np.array([
        v[0] * y[1] + v[1] * y[3], 0 * y[0], v[2] * y[0] + v[3] * y[1] + v[4] * y[2],
    ]),
)  # fmt: skip
_scatter = _caller("scatter")
case(
    "ops.scatter", values([1.0, 2.0, 5.0]), values([1.0, 3.0, 3.0]), id="ties", grad=False,
    fn=lambda K, x, u: _scatter(x, np.array([0, 1, 1]), u, by="max"), oracle=np.array([1.0, 3, 5]),
    kinks=[(([1.0, 2.0, 5.0], [1.0, 3.0, 3.0]), ([0.5, 0, 1], [0.5, 0.5, 0.5]))],
)  # fmt: skip


def replaced(x: np.ndarray, i: np.ndarray, updates: np.ndarray) -> np.ndarray:
    y = x.copy()
    for place, row in zip(i.reshape(-1), updates.reshape(-1, *x.shape[1:]), strict=True):
        y[place] = row
    return y


@api
def _replaced(x: Any, i: Any, updates: Any) -> Any:
    return scatter_set(as_tensor(x), as_tensor(i), as_tensor(updates))


for name, operands in {
    "repeated": (floats(4, 3), values([[0, 2], [-1, 2]]), floats(2, 2, 3)),
    "vector": (floats(4), values([1, 0, 1]), floats(3)),
    "one": (floats(4, 2), values(2), floats(2)),
    "none": (floats(2, 3), values(np.zeros(0, "int32")), floats(0, 3)),
}.items():
    case(
        "rows.set", *operands, id=name, oracle=replaced, smooth=name != "none",
        grad=name != "none", batch=(0,), fn=lambda K, *a: _replaced(*a),
    )  # fmt: skip
for start, where in (((1, 2), np.s_[1:3, 2:4]), ((9, -3), np.s_[1:3, 0:2])):
    op(
        "dynamic_slice", floats(3, 4), values(start), id=str(start), shape=(2, 2), smooth=True,
        batch=False, oracle=lambda x, s, shape, where=where: x[where],
    )  # fmt: skip
    op(
        "dynamic_slice_grad", floats(2, 2), values(start), id=str(start), shape=(3, 4), smooth=True,
        batch=False, oracle=lambda g, s, shape, where=where: placed(shape, where, g),
    )  # fmt: skip
op(
    "arange", *[values(np.int64(n), "int64") for n in (7, -3, -2)], dtype="int64", eager=False,
    oracle=lambda a, b, c, dtype: np.arange(a, b, c),
)  # fmt: skip


def product(x: np.ndarray, y: np.ndarray, transpose_x: bool, transpose_y: bool) -> np.ndarray:
    return (x.swapaxes(-1, -2) if transpose_x else x) @ (y.swapaxes(-1, -2) if transpose_y else y)


for tx in (False, True):
    for ty in (False, True):
        x_shape, y_shape = (4, 2) if tx else (2, 4), (5, 4) if ty else (4, 5)
        op(
            "matmul", floats(3, *x_shape), floats(3, *y_shape), id=f"{tx}-{ty}", oracle=product,
            transpose_x=tx, transpose_y=ty, smooth=True,
        )  # fmt: skip
op(
    "matmul", ints(2, 3), ints(3, 4), id="int", oracle=product,
    transpose_x=False, transpose_y=False,
)  # fmt: skip
