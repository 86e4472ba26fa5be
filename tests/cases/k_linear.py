"""dot, batch_dot, transpose, l2_normalize."""

from __future__ import annotations

import numpy as np

from cases.record import bools, case, floats, ints, values

# --- dot ------------------------------------------------------------------------------------------

_DOTS = [
    ((2, 3), (3, 4)),
    ((32, 28, 3), (3, 4)),
    ((2, 3), (4, 3, 5)),
    ((2, 2, 3), (3, 2)),
    ((3,), (2, 3, 2)),
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 2)),
    ((2, 2, 3), (3,)),
    ((2, 3, 4), (5, 2, 4, 3)),
    ((2, 1, 2, 3), (3, 1)),
    ((2, 0), (0, 3)),
    ((2, 3, 0), (0, 3)),
    ((0, 2, 3), (3, 4)),
]
for _x, _y in _DOTS:
    case(
        "dot",
        floats(*_x),
        floats(*_y),
        oracle=np.dot,
        id=f"{_x}-{_y}".replace(" ", ""),
        smooth=True,
    )
case(
    "dot",
    ints(2, 3),
    ints(3, 2),
    oracle=np.dot,
    id="int",
    errors=[
        ([floats(2, 3), floats(4, 2)], {}, ValueError, r"K\.dot: .*\(2, 3\) and \(4, 2\).*3 != 4"),
        ([floats(2, 3), floats(2, 2, 4)], {}, ValueError, r"K\.dot: .*3 != 2"),
        ([floats(2, 3), floats()], {}, ValueError, r"K\.dot: .*at least one axis"),
        ([bools(2, 2), bools(2, 2)], {}, TypeError, r"K\.dot: .*bool"),
    ],
)
case("dot", ints(2, 2, 3), ints(2, 3, 2), oracle=np.dot, id="int-nd")
case("dot", floats(2, 3), [[1.0], [2.0], [3.0]], oracle=np.dot, id="list")


def _unknown(K, x, y):
    """Every size unknown."""
    a, b = K.placeholder(ndim=3), K.placeholder(ndim=3)
    shape = K.int_shape(K.dot(a, b))
    assert shape == (None,) * 4, shape
    assert K.int_shape(K.dot(K.placeholder(shape=(None, None, 3)), K.ones((3, 4)))) == (
        None,
        None,
        4,
    )
    assert K.int_shape(K.dot(K.ones((2, 3)), K.placeholder(shape=(4, 3, None)))) == (2, 4, None)
    return K.dot(x, y)


case("dot", floats(2, 2, 3), floats(2, 3, 2), fn=_unknown, oracle=np.dot, id="unknown")

# --- batch_dot ------------------------------------------------------------------------------------


def _batch_dot(x, y, axes=None):
    """One sample after another, as the documents' pseudocode."""
    if axes is None:
        axes = (x.ndim - 1, y.ndim - 1 if y.ndim == 2 else y.ndim - 2)
    if isinstance(axes, int):
        axes = (axes, axes)
    a, b = axes[0] % x.ndim, axes[1] % y.ndim
    result = np.stack([np.tensordot(u, v, (a - 1, b - 1)) for u, v in zip(x, y, strict=True)])
    return result[:, None] if result.ndim == 1 else result


_BATCH_DOTS = [
    ((2, 3), (2, 3), None),
    ((2, 3), (2, 3), 1),
    ((2, 3), (2, 3), (1, 1)),
    ((2, 3), (2, 3), -1),
    ((2, 3), (2, 3, 4), None),
    ((2, 4, 3), (2, 3), None),
    ((2, 4, 3), (2, 3, 5), None),
    ((2, 4, 3), (2, 5, 3), 2),
    ((2, 4, 3), (2, 5, 3), (2, 2)),
    ((2, 4, 3), (2, 5, 3), [-1, -1]),
    ((2, 3, 4), (2, 3, 5), 1),
    ((2, 3, 4), (2, 5, 3), (1, 2)),
    ((2, 3), (2, 4, 3), (1, 2)),
    ((32, 20, 1), (32, 30, 20), (1, 2)),
    ((2, 4, 3, 5), (2, 5), None),
    ((2, 4, 3, 5), (2, 5, 6), None),
    ((2, 3, 4), (2, 5, 4, 6), None),
    ((2, 3, 4), (2, 5, 6, 4), (2, 3)),
    ((2, 3, 4, 5), (2, 7, 5, 6), None),
    ((2, 3, 4, 5), (2, 3, 4, 5), 2),
    ((2, 3, 4, 5), (2, 6, 5, 4), (2, 3)),
    ((2, 3, 4, 5), (2, 3), 1),
    ((2, 3, 4), (2, 3, 5, 2), (1, 1)),
]
for _x, _y, _axes in _BATCH_DOTS:
    case(
        "batch_dot",
        floats(*_x),
        floats(*_y),
        oracle=_batch_dot,
        id=f"{_x}-{_y}-{_axes}".replace(" ", ""),
        smooth=True,
        axes=_axes,
    )
_PAIR = [floats(2, 3), floats(2, 3)]
case(
    "batch_dot",
    values([[1, 2], [3, 4]]),
    values([[5, 6], [7, 8]]),
    1,
    oracle=np.array([[17], [53]]),
    id="document",
    errors=[
        (
            [floats(3), floats(2, 3)],
            {},
            ValueError,
            r"K\.batch_dot: .*two axes.*\(3,\) and \(2, 3\)",
        ),
        ([floats(2, 3), floats(3, 3)], {}, ValueError, r"K\.batch_dot: .*different batch sizes"),
        ([floats(2, 4, 3), floats(2, 5, 3)], {}, ValueError, r"K\.batch_dot: .*3 != 5"),
        (_PAIR, {"axes": 0}, ValueError, r"K\.batch_dot: axes 0 .*samples.*expand_dims"),
        (_PAIR, {"axes": (-2, 1)}, ValueError, r"K\.batch_dot: axes \(-2, 1\) .*samples"),
        (
            _PAIR,
            {"axes": ((1,), (1,))},
            ValueError,
            r"K\.batch_dot: axes must be .*\(\(1,\), \(1,\)\)",
        ),
        (_PAIR, {"axes": (1, 1, 1)}, ValueError, r"K\.batch_dot: axes must be"),
        (_PAIR, {"axes": (1,)}, ValueError, r"K\.batch_dot: axes must be"),
        (_PAIR, {"axes": 5}, ValueError, r"K\.batch_dot: axes must be .*got 5"),
        (_PAIR, {"axes": 1.5}, ValueError, r"K\.batch_dot: axes must be .*got 1.5"),
    ],
)
case("batch_dot", ints(2, 4, 3), ints(2, 3, 2), oracle=_batch_dot, id="int")
case("batch_dot", floats(2, 0), floats(2, 0), 1, oracle=_batch_dot, id="empty")


def _unknown_batches(K, x, y):
    shape = K.int_shape(
        K.batch_dot(K.placeholder(shape=(None, 3)), K.placeholder(shape=(None, 3)), 1)
    )
    assert shape == (None, 1), shape
    shape = K.int_shape(K.batch_dot(K.placeholder(ndim=4), K.placeholder(ndim=3)))
    assert shape == (None,) * 4, shape
    shape = K.int_shape(K.batch_dot(K.ones((2, 4, 3, 5)), K.placeholder(shape=(None, 5, 6))))
    assert shape == (2, 4, 3, 6), shape
    shape = K.int_shape(K.batch_dot(K.placeholder(shape=(None, 4, 3, 5)), K.ones((2, 5, 6))))
    assert shape == (2, 4, 3, 6), shape
    return K.batch_dot(x, y)


case(
    "batch_dot",
    floats(2, 4, 3, 5),
    floats(2, 5, 6),
    fn=_unknown_batches,
    oracle=_batch_dot,
    id="unknown",
)

# --- transpose, l2_normalize ----------------------------------------------------------------------

for _shape in ((2, 3), (2, 3, 4), (3,), ()):
    case(
        "transpose",
        floats(*_shape),
        oracle=np.transpose,
        id=str(_shape).replace(" ", ""),
        smooth=True,
    )
case("transpose", bools(2, 3), oracle=np.transpose, id="bool")


def _l2_normalize(x, axis=None):
    axis = tuple(axis) if isinstance(axis, list) else axis
    return x / np.sqrt(np.maximum(np.sum(x**2, axis=axis, keepdims=True), 1e-12))


for _axis in (None, 0, 1, -1, [0, 2], []):
    # Each element by itself becomes its sign: the derivative is 0, and its rounding all there is.
    _constant = _axis == []
    case(
        "l2_normalize",
        floats(2, 3, 4),
        oracle=_l2_normalize,
        id=f"axis-{_axis}",
        smooth=not _constant,
        grad=not _constant,
        axis=_axis,
    )
case(
    "l2_normalize",
    floats(2, 3),
    oracle=lambda x, axis: x / np.sqrt(np.sum(x**2, axis, keepdims=True)),
    id="document",
    axis=-1,
    errors=[
        ([floats(2, 3)], {"axis": 2}, ValueError, r"K\.l2_normalize: axis 2 .*2 axes"),
        ([floats(2, 3)], {"axis": "a"}, TypeError, r"K\.l2_normalize: axis"),
    ],
)
case(
    "l2_normalize",
    values([[3.0, 4.0], [0.0, 0.0], [1e-7, 0.0]], "float64"),
    oracle=_l2_normalize,
    id="zeros",
    axis=1,
)
case(
    "l2_normalize",
    floats(2, 2),
    id="kink",
    axis=1,
    oracle=_l2_normalize,
    kinks=[([[[0.0, 0.0]]], [[[1e6, 1e6]]])],
)
case(
    "l2_normalize",
    floats(4, low=-0.01, high=0.01),
    id="float16",
    dtypes=("float16",),
    oracle=_l2_normalize,
    grad=False,
)
