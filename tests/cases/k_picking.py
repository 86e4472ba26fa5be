"""Picking of elements, and elements in reverse: one_hot, reverse, slice, gather."""

from __future__ import annotations

import numpy as np

from cases.record import case, floats, ints, values


def _one_hot(indices, n):
    return (indices[..., None] == np.arange(n)).astype("float64")


case(
    "one_hot",
    ints(4, high=5),
    5,
    oracle=_one_hot,
    errors=[
        ([floats(2), 3], {}, TypeError, r"K\.one_hot: indices .*float32"),
        ([ints(2), -1], {}, ValueError, r"K\.one_hot: num_classes .*-1"),
        ([ints(2), 1.5], {}, TypeError, r"K\.one_hot: num_classes .*1.5"),
    ],
)
case("one_hot", ints(2, 3, low=-2, high=6), 3, oracle=_one_hot, id="outside")
case("one_hot", ints(2, 2, dtype="uint8", high=200), 300, oracle=_one_hot, id="uint8")
case("one_hot", ints(2, 2, dtype="int64"), 4, oracle=_one_hot, id="int64")
case("one_hot", ints(), 4, oracle=_one_hot, id="scalar")
case(
    "one_hot",
    ints(2, 5, high=5),
    fn=lambda K, x: K.one_hot(x, K.shape(x)[-1]),
    oracle=lambda x: _one_hot(x, 5),
    id="tensor",
)
case(
    "one_hot",
    [0, 2],
    3,
    oracle=np.array([[1.0, 0, 0], [0, 0, 1]]),
    id="list",
    batch=False,
    eager=False,
)

for _axes in (0, 1, -1, [0, 1], (0, -1), []):
    case(
        "reverse",
        floats(2, 3, 4),
        _axes,
        smooth=True,
        id=f"axes{_axes}".replace(" ", ""),
        oracle=lambda x, axes: np.flip(x, tuple(axes) if isinstance(axes, list) else axes),
    )
case(
    "reverse",
    ints(2, 3),
    0,
    oracle=np.flip,
    id="int",
    errors=[
        ([floats(2, 3), 2], {}, ValueError, r"K\.reverse: axes 2"),
        ([floats(2, 3), [0, -2]], {}, ValueError, r"K\.reverse: .*twice"),
        ([floats(2, 3), 0.5], {}, TypeError, r"K\.reverse: axes .*0.5"),
    ],
)


def _slice(x, start, size):
    """The documents' NumPy implementation, with -1 for what is left."""
    ends = [n if j == -1 else i + j for i, j, n in zip(start, size, x.shape, strict=True)]
    return x[tuple(slice(i, j) for i, j in zip(start, ends, strict=True))]


for _start, _size in (
    ([0, 0], [2, 2]),
    ((1, 1), (1, 2)),
    ([0, 2], [-1, -1]),
    ([1, 0], [2, -1]),
    ([3, 1], [0, 1]),
):
    case(
        "slice",
        floats(3, 4),
        _start,
        _size,
        oracle=_slice,
        id=f"{_start}-{_size}".replace(" ", ""),
        smooth=True,
    )
case(
    "slice",
    ints(4),
    [1],
    [2],
    oracle=_slice,
    id="int",
    errors=[
        ([floats(3, 4), [0], [1, 1]], {}, ValueError, r"K\.slice: .*2 axes.*1 and 2"),
        ([floats(3, 4), [0, 0, 0], [1, 1, 1]], {}, ValueError, r"K\.slice: .*2 axes"),
        (
            [floats(3, 4), [0, 3], [1, 2]],
            {},
            ValueError,
            r"K\.slice: start 3 and size 2 along axis 1",
        ),
        ([floats(3, 4), [4, 0], [-1, 1]], {}, ValueError, r"K\.slice: start 4"),
        ([floats(3, 4), [-1, 0], [1, 1]], {}, ValueError, r"K\.slice: start -1"),
        ([floats(3, 4), [0, 0], [1, -2]], {}, ValueError, r"K\.slice: .*size -2"),
        ([floats(3, 4), [0.5, 0], [1, 1]], {}, TypeError, r"K\.slice: start.*0.5"),
    ],
)
case(
    "slice",
    floats(3, 4),
    ints(2, high=2),
    oracle=lambda x, s: _slice(x, s, [2, 2]),
    fn=lambda K, x, s: K.slice(x, s, [2, 2]),
    id="starts",
    batch=False,
)
case(
    "slice",
    floats(3, 4),
    ints(high=3),
    oracle=lambda x, s: x[1:3, s : s + 2],
    fn=lambda K, x, s: K.slice(x, [1, s], [-1, 2]),
    id="one-start",
    batch=False,
)
case(
    "slice",
    floats(3, 4),
    floats(2, 3),
    oracle=lambda x, y: x[:2, 1:4],
    grad=(0,),
    fn=lambda K, x, y: K.slice(x, [0, 1], K.shape(y)),
    id="sizes",
)
case(
    "slice",
    floats(5, 4),
    oracle=lambda x: x[3:, :],
    fn=lambda K, x: K.slice(x, [K.shape(x)[0] - 2, 0], [2, -1]),
    id="last",
)


def _static_slices(K, x):
    y = K.placeholder(shape=(None, 3))
    assert K.int_shape(K.slice(y, [0, 0], [2, 2])) == (2, 2)
    assert K.int_shape(K.slice(y, [0, 1], [-1, -1])) == (None, 2)
    assert K.int_shape(K.slice(y, [0, 1], K.constant([2, 1], dtype="int32"))) == (2, 1)
    return K.slice(x, [0, 1], [2, -1])


case("slice", floats(3, 4), fn=_static_slices, oracle=lambda x: x[:2, 1:], id="static")

case(
    "gather",
    floats(4, 3),
    ints(5, high=4),
    oracle=lambda x, i: x[i],
    smooth=True,
    errors=[
        ([floats(2, 3), floats(2)], {}, TypeError, r"K\.gather: indices .*float32"),
        ([floats(), ints(2)], {}, ValueError, r"K\.gather: reference"),
    ],
)
case("gather", floats(4, 3), ints(2, 2, high=4), oracle=lambda x, i: x[i], id="matrix", smooth=True)
case("gather", floats(4), ints(high=4), oracle=lambda x, i: x[i], id="scalar")
case("gather", floats(4, 2), ints(3, high=4, dtype="int64"), oracle=lambda x, i: x[i], id="int64")
case("gather", floats(4, 2), ints(3, low=-4, high=0), oracle=lambda x, i: x[i], id="negative")
case("gather", ints(4, 3), [2, 0, 2], oracle=lambda x, i: x[i], id="list")
case(
    "gather",
    floats(3, 2),
    [1, 1],
    oracle=lambda x, i: x[i],
    id="repeats",
    kinks=[([np.ones((3, 2))], [[[0.0, 0.0], [2.0, 2.0], [0.0, 0.0]]])],
)
case("gather", floats(3, 2), values(np.zeros((0,), "int32")), oracle=lambda x, i: x[i], id="none")
