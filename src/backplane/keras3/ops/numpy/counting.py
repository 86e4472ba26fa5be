"""Counts of elements by value, places in ordered vectors, and elements without repetition."""

from __future__ import annotations

from typing import Any

import numpy as np

from backplane.core.graph import Tensor
from backplane.keras3.call import op
from backplane.keras3.operands import alike, tensor_of
from backplane.keras3.ops.numpy.creation import linspace
from backplane.keras3.ops.numpy.operands import (
    cast_all,
    common_type,
    flat,
    float_of,
    is_floating,
    length,
    like,
    places,
)
from backplane.keras3.ops.numpy.values import by_values
from backplane.keras3.tensor import Tensor as Shell
from backplane.ops import elementwise as ew
from backplane.ops import reduction as red
from backplane.ops.creation import scalar, shaped, size_at
from backplane.ops.elementary import is_nan
from backplane.ops.indexing import gather, scatter_add
from backplane.ops.lift import cast_to
from backplane.ops.shaping import full_like, reshape

__all__ = ["bincount", "digitize", "histogram", "searchsorted", "unique"]


# --- places in ordered vectors --------------------------------------------------------------------


@op
def searchsorted(sorted_sequence: Any, values: Any, side: str = "left") -> Tensor:
    """The positions at which values would be inserted into an ordered vector so that it stays
    ordered: before equal elements ("left") or behind them ("right"). Places are int32.

    Raises:
        ValueError: if the sequence is no vector, or for another side.
    """
    sequence = tensor_of(sorted_sequence)
    if sequence.ndim != 1:
        raise ValueError(
            "`searchsorted` only supports 1-D sorted sequences. You can use "
            "`keras.ops.vectorized_map` to extend it to N-D sequences. Received: "
            f"sorted_sequence.shape={sequence.spec.shape}"
        )
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side must be 'left' or 'right', got {side!r}")
    sequence, numbers = alike(sequence, values)
    return _placed(sequence, numbers, right=side == "right")


def _placed(sequence: Tensor, values: Tensor, right: bool) -> Tensor:
    """The number of elements that come before each value, by bisection. NaN comes last."""
    if sequence.spec.dtype == "bool":
        sequence, values = cast_all("int32", sequence, values)
    n = sequence.spec.shape[0]
    low, high = full_like(values, 0, "int32"), full_like(values, 0, "int32")
    if n == 0:
        return low
    size = length(sequence, 0)
    last = ew.sub(size, scalar(1, "int32"))
    high = ew.add(high, size)
    for _ in range(32 if n is None else n.bit_length()):
        middle = ew.shift_right(ew.add(low, high), scalar(1, "int32"))
        element = gather(sequence, ew.minimum(middle, last), axis=0)
        before = ew.less_equal(element, values) if right else ew.less(element, values)
        before = ew.logical_and(before, ew.less(low, high))
        low = ew.where(before, ew.add(middle, scalar(1, "int32")), low)
        high = ew.where(before, high, middle)
    if not is_floating(values):
        return low
    there = cast_to(ew.equal(sequence, sequence), "int32")
    numbers = red.sum(there, axes=(0,), keepdims=False)
    return ew.where(is_nan(values), size if right else numbers, low)


@op
def digitize(x: Any, bins: Any) -> Tensor:
    """The number of the bin that each element falls into, as int32. `bins` are the borders in
    ascending order; a bin begins with its lower border.
    """
    bins = tensor_of(bins)
    if bins.ndim != 1:
        raise ValueError(f"digitize: bins must be a vector, got shape {bins.spec.shape}")
    bins, numbers = alike(bins, tensor_of(x))
    return _placed(bins, numbers, right=True)


# --- counts ---------------------------------------------------------------------------------------


def bincount(x: Any, weights: Any = None, minlength: Any = 0, sparse: bool = False) -> Any:
    """The counts of the numbers 0, 1, … in a vector, or in each row of a matrix; with
    `weights`, the sum of the weights of the places where it occurs.

    The result is as long as the largest number asks for, and has at least `minlength` elements.
    Symbolic numbers must be known to stay below `minlength`, by their dtype or by a limit that they
    are clipped to.

    Raises:
        ValueError: if the result should be sparse.
        TypeError: for a symbolic tensor of which that is not known: how long the result is depends
            on its values.
    """
    if sparse:
        raise ValueError("bincount: sparse=True is not possible, results are dense")
    limit = largest_value(x)
    if limit is not None and limit < minlength:
        return _counted(x, weights, int(minlength))
    return _counted(x, weights, length_of_counts(x, minlength))


@by_values(
    "how long the result is depends on the largest number, unless that is known, as it is of "
    "bincount(clip(x, 0, n - 1), minlength=n)",
    "bincount",
)
def length_of_counts(x: Any, minlength: Any) -> int:
    """The length of the result of `bincount`."""
    numbers = np.asarray(x)
    return max(int(numbers.max()) + 1 if numbers.size else 0, int(minlength))


UNCHANGED = ("cast", "reshape", "transpose", "expand_dims", "squeeze", "gather", "slice", "flip")
"""Primitives whose results have the values of their first operand, or whole parts of these."""


def largest_value(x: Any) -> float | None:
    """A limit that the elements of a symbolic tensor do not exceed; None if none is known."""
    t = x.core if isinstance(x, Shell) else x
    while isinstance(t, Tensor):
        if t.spec.dtype in ("bool", "uint8", "uint16"):
            return {"bool": 1, "uint8": 255, "uint16": 65535}[t.spec.dtype]
        if t.op is None:
            return None
        if t.op.name == "minimum":
            limits = [v for v in map(ew.number, t.inputs) if v is not None]
            return min(limits) if limits else None
        if t.op.name not in UNCHANGED:
            return None
        t = t.inputs[0]
    return None


@op(static=("size",))
def _counted(x: Any, weights: Any, size: int) -> Tensor:
    x = tensor_of(x)
    if weights is None:
        added = full_like(x, 1, "int32")
    else:
        weights = tensor_of(weights)
        added = cast_to(weights, common_type(x, weights))
    added = cast_to(added, "int32") if added.spec.dtype == "bool" else added
    numbers = cast_to(x, "int32")
    if x.ndim == 1:
        return scatter_add(added, numbers, shape=(size,), axis=0)
    # The rows lie one behind the other in one long vector.
    rows = size_at(x, 0)
    numbers = ew.add(numbers, ew.mul(places(x, 0), scalar(size, "int32")))
    total = [rows * size]
    found = shaped(scatter_add, total, flat(added), flat(numbers), axis=0)
    return shaped(reshape, [rows, size], found)


@op(static=("bins",))
def histogram(x: Any, bins: Any = 10, range: Any = None) -> tuple[Tensor, Tensor]:
    """The number of elements in each of the bins, in the dtype of the borders, and the borders of
    these: `bins` of equal width
    in `range`, or between the smallest and the largest element, or the given borders. The last bin
    contains its upper border.

    Raises:
        ValueError: if `bins` is not positive.
    """
    values = flat(tensor_of(x))
    numbers = float_of(values)
    if isinstance(bins, int):
        if bins < 1:
            raise ValueError(f"histogram: bins must be 1 or more, got {bins}")
        edges = _edges(numbers, bins, range)
    else:
        edges = cast_to(tensor_of(bins), numbers.spec.dtype)
    count = edges.spec.shape[0]
    if count is None:
        raise ValueError("histogram: the number of bins must be known")
    numbers = cast_to(numbers, edges.spec.dtype)
    bin_of = ew.sub(_placed(edges, numbers, right=True), scalar(1, "int32"))
    top = ew.equal(numbers, edges[count - 1])
    bin_of = ew.where(top, scalar(count - 2, "int32"), bin_of)
    inside = ew.logical_and(
        ew.less_equal(edges[0], numbers), ew.less_equal(numbers, edges[count - 1])
    )
    hits = cast_to(inside, "int32")
    bin_of = ew.where(inside, bin_of, scalar(0, "int32"))
    counts = scatter_add(hits, bin_of, shape=(count - 1,), axis=0)
    return cast_to(counts, edges.spec.dtype), edges


def _edges(numbers: Tensor, bins: int, limits: Any) -> Tensor:
    """The borders of bins of equal width."""
    if limits is not None:
        low, high = (cast_to(tensor_of(v), numbers.spec.dtype) for v in limits)
    elif numbers.spec.shape == (0,):
        low, high = like(0, numbers), like(1, numbers)
    else:
        low, high = (f(numbers, axes=(0,), keepdims=False) for f in (red.min, red.max))
    same = ew.equal(low, high)
    half = like(0.5, numbers)
    low, high = ew.where(same, ew.sub(low, half), low), ew.where(same, ew.add(high, half), high)
    return linspace(low, high, bins + 1)


# --- without repetition ---------------------------------------------------------------------------


@by_values("how many elements differ is only known when they are computed")
def unique(
    x: Any, sorted: bool = True, return_index: bool = False, return_inverse: bool = False,
    return_counts: bool = False, axis: int | None = None, size: int | None = None,
    fill_value: Any = None,
) -> Any:  # fmt: skip
    """The elements without repetition in ascending order, or the slices along `axis`; with the
    first position of each, the position of each element among them, and how often each occurs.

    With `size` there are so many of them: the first ones, or, behind all of them, `fill_value`.
    """
    found = np.unique(
        np.asarray(x), return_index=True, return_inverse=True, return_counts=True, axis=axis,
        equal_nan=False,
    )  # fmt: skip
    values, first, inverse, counts = found
    if size is not None:
        at = 0 if axis is None else axis % values.ndim
        fill = 0 if fill_value is None else fill_value
        values = _resized(values, size, at, fill)
        first, counts = _resized(first, size, 0, 1), _resized(counts, size, 0, 0)
    results = [values]
    wanted = ((return_index, first), (return_inverse, inverse), (return_counts, counts))
    results += [part.astype("int32") for asked, part in wanted if asked]
    return results[0] if len(results) == 1 else tuple(results)


def _resized(values: np.ndarray, size: int, axis: int, fill: Any) -> np.ndarray:
    """So many of the values along `axis`; `fill` where there are not enough."""
    values = values[(slice(None),) * axis + (slice(size),)]
    widths = [(0, 0)] * values.ndim
    widths[axis] = (0, size - values.shape[axis])
    return np.pad(values, widths, constant_values=fill)
