"""Shapes, repetition and joining."""

from __future__ import annotations

import numpy as np

from cases.record import bools, case, floats, ints

# --- shapes ---------------------------------------------------------------------------------------

for _shape in ((3, 2), [6], (-1,), (-1, 2), (1, 6, 1), (2, -1)):
    case(
        "reshape",
        floats(2, 3),
        _shape,
        oracle=np.reshape,
        id=str(_shape).replace(" ", ""),
        smooth=True,
    )
case(
    "reshape",
    floats(2, 3),
    6,
    oracle=np.reshape,
    id="int",
    errors=[
        ([floats(2, 3), (4, 2)], {}, ValueError, r"K\.reshape: .*\(2, 3\).*\(4, 2\)"),
        ([floats(2, 3), (-1, 4)], {}, ValueError, r"K\.reshape: "),
        ([floats(2, 3), (-1, -1)], {}, ValueError, r"K\.reshape: .*-1"),
        ([floats(2, 3), (-2, 3)], {}, ValueError, r"K\.reshape: .*-2"),
        ([floats(2, 3), ()], {}, ValueError, r"K\.reshape: "),
        ([floats(2, 3), (None, 2)], {}, TypeError, r"K\.reshape: .*None"),
        ([floats(2, 3), (2.5, 2)], {}, TypeError, r"K\.reshape: .*2.5"),
        ([floats(2, 3), floats(2)], {}, ValueError, r"K\.reshape: .*integer vector"),
    ],
)
case("reshape", bools(2, 3), (3, 2), oracle=np.reshape, id="bool")
case("reshape", floats(), (1, 1), oracle=np.reshape, id="scalar")
case("reshape", floats(1, 1), (), oracle=np.reshape, id="to-scalar")
case("reshape", floats(2, 0), (0, 3), oracle=np.reshape, id="empty")
case(
    "reshape",
    floats(2, 6),
    fn=lambda K, x: K.reshape(x, (K.shape(x)[0], 2, 3)),
    oracle=lambda x: x.reshape(2, 2, 3),
    id="of-shape",
    smooth=True,
)
case(
    "reshape",
    floats(2, 6),
    floats(3, 4),
    fn=lambda K, x, y: K.reshape(x, K.shape(y)),
    oracle=lambda x, y: x.reshape(3, 4),
    id="like",
    grad=(0,),
)
case(
    "reshape",
    floats(2, 6),
    fn=lambda K, x: K.reshape(x, (-1, K.shape(x)[1] // 2)),
    oracle=lambda x: x.reshape(4, 3),
    id="of-half",
)


def _static_reshapes(K, x):
    batch = K.placeholder(shape=(None, 4))
    assert K.int_shape(K.reshape(batch, (-1, 2, 2))) == (None, 2, 2)
    assert K.int_shape(K.reshape(batch, (K.shape(batch)[0], 2, 2))) == (None, 2, 2)
    assert K.int_shape(K.reshape(batch, (-1, K.shape(batch)[1]))) == (None, 4)
    assert K.int_shape(K.reshape(K.placeholder(ndim=2), (2, 3))) == (2, 3)
    cube = K.placeholder((None, 2, 3))
    assert K.int_shape(K.reshape(cube, (-1, K.prod(K.int_shape(cube)[1:])))) == (None, 6)
    assert K.int_shape(K.reshape(cube, (-1, K.prod(K.shape(cube)[1:]) * 2))) == (None, 12)
    return K.reshape(x, K.constant([3, 2], dtype="int32"))


case(
    "reshape",
    floats(2, 3),
    fn=_static_reshapes,
    oracle=lambda x: x.reshape(3, 2),
    id="static",
    eager=False,
)

for _pattern in ((0, 1, 2), (0, 2, 1), [2, 0, 1], (-1, 0, 1)):
    case(
        "permute_dimensions",
        floats(2, 3, 4),
        _pattern,
        oracle=np.transpose,
        id=str(_pattern).replace(" ", ""),
        smooth=True,
    )
case(
    "permute_dimensions",
    ints(2, 3),
    (1, 0),
    oracle=np.transpose,
    id="int",
    errors=[
        ([floats(2, 3), (0,)], {}, ValueError, r"K\.permute_dimensions: pattern .*2 axes.*\(0,\)"),
        ([floats(2, 3), (0, 0)], {}, ValueError, r"K\.permute_dimensions: pattern"),
        ([floats(2, 3), (0, 2)], {}, ValueError, r"K\.permute_dimensions: pattern 2"),
        ([floats(2, 3), (0, 1, 2)], {}, ValueError, r"K\.permute_dimensions: pattern"),
    ],
)

for _shape in ((2, 3), (2, 3, 4), (3,), (), (2, 0, 3)):
    case("flatten", floats(*_shape), oracle=np.ravel, id=str(_shape).replace(" ", ""), smooth=True)
for _shape in ((2, 3), (2, 3, 4), (2, 2, 3, 2), (3,), (2, 0, 3), (0, 3)):
    case(
        "batch_flatten",
        floats(*_shape),
        oracle=lambda x: x.reshape(len(x), int(np.prod(x.shape[1:]))),
        id=str(_shape).replace(" ", ""),
        smooth=True,
    )
case(
    "batch_flatten",
    ints(2, 2, 2),
    oracle=lambda x: x.reshape(2, -1),
    id="int",
    errors=[([floats()], {}, ValueError, r"K\.batch_flatten: .*at least one axis")],
)


def _static_flat(K, x):
    assert K.int_shape(K.batch_flatten(K.placeholder(shape=(None, 3, 4)))) == (None, 12)
    assert K.int_shape(K.flatten(K.placeholder(shape=(None, 3)))) == (None,)
    assert K.int_shape(K.batch_flatten(K.placeholder(ndim=3))) == (None, None)
    return K.batch_flatten(x)


case(
    "batch_flatten",
    floats(2, 3, 4),
    fn=_static_flat,
    oracle=lambda x: x.reshape(2, 12),
    id="static",
)

case(
    "expand_dims",
    floats(2, 3),
    oracle=lambda x: x[..., None],
    smooth=True,
    errors=[
        ([floats(2, 3), 3], {}, ValueError, r"K\.expand_dims: axis 3"),
        ([floats(2, 3), -4], {}, ValueError, r"K\.expand_dims: axis -4"),
        ([floats(2, 3), (0, 1)], {}, TypeError, r"K\.expand_dims: axis"),
    ],
)
for _axis in (0, 1, 2, -1, -2, -3):
    case("expand_dims", floats(2, 3), _axis, oracle=np.expand_dims, id=f"axis{_axis}", smooth=True)
case(
    "squeeze",
    floats(2, 1, 3),
    1,
    oracle=np.squeeze,
    smooth=True,
    errors=[
        ([floats(2, 1), 0], {}, ValueError, r"K\.squeeze: axis 0 .*\(2, 1\)"),
        ([floats(2, 1), 2], {}, ValueError, r"K\.squeeze: axis 2"),
        ([floats(1, 1), [0, 1]], {}, TypeError, r"K\.squeeze: axis"),
    ],
)
case("squeeze", floats(2, 1, 3), -2, oracle=np.squeeze, id="negative")
case("squeeze", bools(1, 3), 0, oracle=np.squeeze, id="unknown")

# --- repetition -----------------------------------------------------------------------------------

for _axis in (0, 1, -1):
    case(
        "repeat_elements",
        floats(2, 3, 2),
        3,
        _axis,
        oracle=np.repeat,
        id=f"axis{_axis}",
        smooth=True,
    )
case("repeat_elements", floats(2, 3), 1, 0, oracle=np.repeat, id="once")
case("repeat_elements", floats(2, 3), 0, 1, oracle=np.repeat, id="never", grad=False)
case(
    "repeat_elements",
    ints(2, 3),
    2,
    1,
    oracle=np.repeat,
    id="int",
    errors=[
        ([floats(2, 3), 2, 2], {}, ValueError, r"K\.repeat_elements: axis 2"),
        ([floats(2, 3), 1.5, 0], {}, TypeError, r"K\.repeat_elements: rep .*1.5"),
        ([floats(2, 3), -1, 0], {}, ValueError, r"K\.repeat_elements: rep .*-1"),
    ],
)
case(
    "repeat",
    floats(2, 3),
    4,
    oracle=lambda x, n: np.repeat(x[:, None], n, 1),
    smooth=True,
    errors=[
        ([floats(3), 2], {}, ValueError, r"K\.repeat: x must have 2 axes.*\(3,\)"),
        ([floats(2, 3, 4), 2], {}, ValueError, r"K\.repeat: x must have 2 axes"),
        ([floats(2, 3), -2], {}, ValueError, r"K\.repeat: n .*-2"),
        ([floats(2, 3), 0.5], {}, TypeError, r"K\.repeat: n.*0.5"),
    ],
)
case(
    "repeat",
    floats(2, 3),
    floats(4, 1),
    fn=lambda K, x, y: K.repeat(x, K.shape(y)[0]),
    id="tensor",
    grad=(0,),
    oracle=lambda x, y: np.repeat(x[:, None], 4, 1),
)
for _n in (2, [2, 2], (1, 3), [3, 1], [2, 1, 2], [1, 1]):
    case("tile", floats(2, 3), _n, oracle=np.tile, id=str(_n).replace(" ", ""), smooth=True)
case("tile", floats(2, 3, 2), [2, 2, 2], oracle=np.tile, id="3d", smooth=True)
case("tile", floats(2, 3), [0, 1], oracle=np.tile, id="never", grad=False)
case("tile", floats(), 3, oracle=np.tile, id="scalar")
case(
    "tile",
    bools(2, 3),
    [1, 2],
    oracle=np.tile,
    id="bool",
    errors=[
        ([floats(2, 3), [1, -1]], {}, ValueError, r"K\.tile: n .*-1"),
        ([floats(2, 3), [1, 1.5]], {}, TypeError, r"K\.tile: n.*1.5"),
    ],
)
case(
    "tile",
    floats(2, 3),
    floats(3, 2),
    fn=lambda K, x, y: K.tile(x, K.shape(y)),
    id="tensor",
    grad=(0,),
    oracle=lambda x, y: np.tile(x, y.shape),
)
case(
    "tile",
    floats(2, 3),
    floats(3, 2),
    fn=lambda K, x, y: K.tile(x, [K.shape(y)[0], 2]),
    id="mixed",
    grad=(0,),
    oracle=lambda x, y: np.tile(x, (3, 2)),
)

# --- joining --------------------------------------------------------------------------------------

_THREE = [floats(2, 3), floats(2, 3), floats(2, 3)]
case(
    "stack",
    _THREE,
    oracle=np.stack,
    smooth=True,
    errors=[
        ([[floats(2, 3), floats(2, 4)]], {}, ValueError, r"K\.stack: .*\(2, 3\).*"),
        ([[floats(2, 3), floats(3)]], {}, ValueError, r"K\.stack: "),
        ([[]], {}, ValueError, r"K\.stack: .*at least one"),
        ([_THREE, 3], {}, ValueError, r"K\.stack: axis 3"),
        ([_THREE, -4], {}, ValueError, r"K\.stack: axis -4"),
    ],
)
for _axis in (0, 1, 2, -1, -3):
    case("stack", _THREE, oracle=np.stack, id=f"axis{_axis}", axis=_axis)
case("stack", [ints(3), ints(3)], oracle=np.stack, id="int", axis=1)
case("stack", [floats(), floats()], oracle=np.stack, id="scalars")
case("stack", (floats(2), [1.0, 2.0]), oracle=np.stack, id="list", batch=False)
case("stack", floats(2, 3), oracle=lambda x: x, id="tensor")

case(
    "concatenate",
    [floats(2, 3), floats(2, 1)],
    oracle=lambda xs: np.concatenate(xs, -1),
    smooth=True,
    errors=[
        (
            [[floats(2, 3), floats(3, 3)]],
            {},
            ValueError,
            r"K\.concatenate: .*\(2, 3\) and \(3, 3\)",
        ),
        ([[floats(2, 3), floats(3)]], {}, ValueError, r"K\.concatenate: "),
        ([[]], {}, ValueError, r"K\.concatenate: .*at least one"),
        ([floats(2, 3)], {}, TypeError, r"K\.concatenate: tensors must be a list"),
        ([[floats(), floats()]], {}, ValueError, r"K\.concatenate: axis -1"),
        ([[floats(2, 3)], 2], {}, ValueError, r"K\.concatenate: axis 2"),
        ([[floats(2, 3)], -3], {}, ValueError, r"K\.concatenate: axis -3"),
    ],
)
case(
    "concatenate",
    (floats(2, 3), floats(4, 3), floats(1, 3)),
    oracle=np.concatenate,
    id="axis0",
    axis=0,
    smooth=True,
)
case("concatenate", [floats(2, 3, 2), floats(2, 1, 2)], oracle=np.concatenate, id="axis1", axis=1)
case("concatenate", [floats(2, 3), floats(2, 0)], oracle=np.concatenate, id="empty", axis=1)
case("concatenate", [floats(2, 3)], oracle=np.concatenate, id="one", axis=1)
case("concatenate", [bools(2, 3), bools(2, 3)], oracle=np.concatenate, id="bool", axis=1)
case("concatenate", [ints(2, 3), floats(2, 3)], oracle=np.concatenate, id="int-float", axis=1)


def _static_joins(K, x, y):
    a, b = K.placeholder(shape=(None, 3)), K.placeholder(shape=(2, None))
    assert K.int_shape(K.stack([a, b])) == (2, 2, 3)
    assert K.int_shape(K.concatenate([a, b])) == (2, None)
    assert K.int_shape(K.concatenate([a, b], axis=0)) == (None, 3)
    return K.concatenate([x, y], axis=0)


case(
    "concatenate",
    floats(2, 3),
    floats(2, 3),
    fn=_static_joins,
    oracle=lambda x, y: np.concatenate([x, y]),
    id="static",
)
