"""Arithmetic, comparison and conversion."""

from __future__ import annotations

import math

import numpy as np

from cases.record import bools, case, distinct, floats, ints, positive, unit, values

INF, NAN = np.inf, np.nan


def _sqrt(x):
    """The documents' NumPy implementation."""
    with np.errstate(invalid="ignore"):
        y = np.sqrt(x)
    y[np.isnan(y)] = 0.0
    return y


def _quiet(function):
    def run(*args):
        with np.errstate(all="ignore"):
            return function(*args)

    return run


def _inverse(erf, x):
    """The y with erf(y) = x."""
    y = np.zeros_like(x)
    for _ in range(30):
        y = y - (erf(y) - x) * np.sqrt(np.pi) / 2 * np.exp(y * y)
    return y


# --- one operand ----------------------------------------------------------------------------------

case(
    "erf",
    floats(2, 3, low=-3, high=3),
    oracle=np.vectorize(math.erf, otypes=[float]),
    smooth=True,
    errors=[([None], {}, TypeError, r"K\.erf: ")],
)
case(
    "erfinv",
    floats(2, 3, low=-0.75, high=0.75),
    # scipy is no dependency of the tests of every engine: erf is inverted by Newton's steps.
    oracle=lambda x: _inverse(np.vectorize(math.erf), x),
    smooth=True,
    tolerance={"float32": 2e-5},
    errors=[([None], {}, TypeError, r"K\.erfinv")],
)
case(
    "abs",
    distinct(3, 4),
    oracle=np.abs,
    smooth=True,
    kinks=[([[-2.0, 0.0, 3.0]], [[-1.0, 0.0, 1.0]])],
    errors=[
        ([bools(2)], {}, TypeError, r"K\.abs: .*bool"),
        ([None], {}, TypeError, r"K\.abs"),
        (["a"], {}, TypeError, r"K\.abs: .*'a'"),
    ],
)
case("abs", ints(2, 3, low=-4), oracle=np.abs, id="int")
case(
    "sqrt",
    positive(2, 3),
    oracle=_sqrt,
    smooth=True,
    kinks=[([[-1.0, 4.0]], [[0.0, 0.25]]), ([[0.0]], [[INF]])],
)
case("sqrt", values([-4.0, -0.25, 0.0, 2.25, INF]), oracle=_sqrt, id="negative", grad=False)
case("sqrt", values([NAN, 4.0]), oracle=np.array([NAN, 2.0]), id="nan", grad=False)
case("sqrt", ints(4), oracle=np.sqrt, id="int")
case(
    "square",
    floats(2, 3),
    oracle=np.square,
    smooth=True,
    errors=[([bools(2)], {}, TypeError, r"K\.square: .*bool")],
)
case("square", ints(2, 3, low=-4), oracle=np.square, id="int")
case("exp", floats(2, 3), oracle=np.exp, smooth=True)
case("exp", values([-INF, -200.0, 0.0, INF, NAN]), oracle=np.exp, id="ends", grad=False)
case("exp", ints(3), oracle=np.exp, id="int")
case("log", positive(2, 3), oracle=np.log, smooth=True, kinks=[([[0.0, 2.0]], [[INF, 0.5]])])
case("log", values([-1.0, 0.0, 1.0, INF, NAN]), oracle=_quiet(np.log), id="ends", grad=False)
case("sin", floats(2, 3), oracle=np.sin, smooth=True)
case("cos", floats(2, 3), oracle=np.cos, smooth=True)
case(
    "sign",
    distinct(3, 4),
    oracle=np.sign,
    smooth=True,
    kinks=[([[-2.0, 0.0, 3.0]], [[0.0, 0.0, 0.0]])],
    errors=[([bools(2)], {}, TypeError, r"K\.sign: .*bool")],
)
case("sign", values([-0.0, 0.0, NAN, -INF, INF]), oracle=np.sign, id="ends", grad=False)
case("sign", ints(2, 3, low=-2, high=3), oracle=np.sign, id="int")
case(
    "round",
    values([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.6, INF]),
    oracle=np.round,
    grad=False,
    errors=[([bools(2)], {}, TypeError, r"K\.round: .*bool")],
)
case("round", ints(2, 3, low=-4), oracle=lambda x: x, id="int")

# --- power ----------------------------------------------------------------------------------------

case("pow", positive(2, 3), floats(2, 3), oracle=np.power, id="tensors", smooth=True)
case("pow", positive(2, 3), floats(3), oracle=np.power, id="broadcast", smooth=True)
for _a in (2, 3, 0.5, -1.5, 1, 0):
    case("pow", positive(2, 3), _a, oracle=np.power, id=f"to-{_a}", smooth=True)
case("pow", floats(2, 3), 3, oracle=np.power, id="negative-base", smooth=True)
case("pow", 2.0, floats(2, 3), oracle=np.power, id="of-number", smooth=True)
case(
    "pow",
    ints(2, 3, low=-3),
    3,
    oracle=np.power,
    id="int",
    errors=[
        ([ints(2), -1], {}, ValueError, r"K\.pow: a must not be negative"),
        ([floats(2, 3), floats(2)], {}, ValueError, r"K\.pow: .*broadcast"),
        ([bools(2), bools(2)], {}, TypeError, r"K\.pow: .*bool"),
    ],
)
case("pow", ints(3), ints(2, 3, high=4), oracle=np.power, id="ints")
case(
    "pow",
    values([-8.0, 0.0, 0.0, 0.0, 2.0]),
    values([1 / 2, 0.0, -1.0, 3.0, NAN]),
    oracle=_quiet(np.power),
    id="ends",
    grad=False,
)
case(
    "pow",
    floats(2),
    2,
    fn=lambda K, x, a: K.pow(x, a),
    id="kinks-2",
    oracle=np.power,
    kinks=[([[0.0, -3.0]], [[0.0, -6.0]])],
)
case(
    "pow",
    positive(2),
    0.5,
    fn=lambda K, x, a: K.pow(x, a),
    id="kinks-root",
    oracle=np.power,
    kinks=[([[0.0, 4.0]], [[INF, 0.25]])],
)
case(
    "pow",
    positive(2),
    0.0,
    fn=lambda K, x, a: K.pow(x, a),
    id="kinks-0",
    oracle=np.power,
    kinks=[([[0.0, 4.0]], [[0.0, 0.0]])],
)
case(
    "pow",
    positive(3),
    floats(3),
    fn=lambda K, x, a: K.pow(x, a),
    id="kinks-tensor",
    oracle=np.power,
    kinks=[
        ([[0.0, 0.0, 4.0], [0.0, 2.0, 0.0]], [[0.0, 0.0, 0.0], [0.0, 0.0, np.float32(np.log(4.0))]])
    ],
)

# --- clip -----------------------------------------------------------------------------------------


def _clip(x, lo, hi):
    return np.clip(x, lo, hi)


case(
    "clip",
    distinct(3, 4),
    -0.1,
    0.1,
    oracle=_clip,
    smooth=True,
    kinks=[
        (
            [[-0.2, float(np.float32(-0.1)), 0.0, float(np.float32(0.1)), 0.2]],
            [[0.0, 1.0, 1.0, 1.0, 0.0]],
        )
    ],
    errors=[
        ([floats(2), floats(2, 1), 1.0], {}, ValueError, r"K\.clip: a bound of shape \(2, 1\)"),
        ([floats(2), 0.0, floats(3)], {}, ValueError, r"K\.clip: a bound of shape \(3,\)"),
        ([floats(2), "a", 1.0], {}, TypeError, r"K\.clip"),
    ],
)
case("clip", distinct(3, 4), None, 0.1, oracle=_clip, id="no-minimum", smooth=True)
case("maximum", values([NAN, -1.0, 0.0, 2.0]), 0.0, oracle=np.maximum, id="zero", grad=False)
case("clip", distinct(3, 4), -0.1, None, oracle=_clip, id="no-maximum", smooth=True)
case("clip", distinct(3, 4), None, None, oracle=lambda x, lo, hi: x, id="no-bounds")
case("clip", values([-1.0, 0.5, 2.0]), 1.0, 0.0, oracle=np.ones(3), id="swapped", grad=False)
case(
    "clip",
    values([-1.0, 0.5, 2.0]),
    values([1.0]),
    values([0.0]),
    oracle=np.ones(3),
    id="minimum-wins",
    grad=False,
)
case(
    "clip",
    floats(3, 4, low=-3, high=3),
    floats(4, low=-2, high=-1),
    floats(3, 1, low=1, high=2),
    oracle=_clip,
    id="tensors",
    batch=False,
)
case("clip", values([NAN, -5.0, 5.0]), -1.0, 1.0, oracle=_clip, id="nan", grad=False)
case("clip", values([-INF, INF]), -1.0, 1.0, oracle=_clip, id="infinite", grad=False)
case("clip", ints(2, 5), 1, 3, oracle=_clip, id="int")
case("clip", ints(2, 5), None, 3, oracle=_clip, id="int-no-minimum")
case("clip", [-1.0, 0.5, 2.0], 1, 0, oracle=np.ones(3), id="list", batch=False, eager=False)

# --- two operands ---------------------------------------------------------------------------------

_PAIRS = {
    "maximum": (np.maximum, [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]),
    "minimum": (np.minimum, [[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]]),
}
for _name, (_oracle, _slopes) in _PAIRS.items():
    case(
        _name,
        distinct(3, 4),
        floats(3, 4),
        oracle=_oracle,
        smooth=True,
        kinks=[([[3.0, 1.0, 2.0], [1.0, 3.0, 2.0]], _slopes)],
        errors=[
            ([floats(2, 3), floats(2)], {}, ValueError, rf"K\.{_name}: .*\(2, 3\) and \(2,\)"),
            ([bools(2), bools(2)], {}, TypeError, rf"K\.{_name}: .*bool"),
        ],
    )
    case(_name, floats(3, 4), floats(4), oracle=_oracle, id="broadcast", smooth=True)
    case(_name, floats(3, 1), floats(4), oracle=_oracle, id="outer", smooth=True)
    case(_name, floats(3, 4), 0.25, oracle=_oracle, id="number", smooth=True)
    case(_name, 0.25, floats(3, 4), oracle=_oracle, id="of-number", smooth=True)
    case(_name, ints(3, 4), ints(4), oracle=_oracle, id="int")
    case(
        _name,
        values([NAN, 1.0, NAN]),
        values([1.0, NAN, NAN]),
        oracle=_oracle,
        id="nan",
        grad=False,
    )
    case(_name, values([INF, -INF]), values([1.0, INF]), oracle=_oracle, id="infinite", grad=False)

_COMPARISONS = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
}
for _name, _oracle in _COMPARISONS.items():
    case(
        _name,
        values([[1.0, 2.0, 3.0], [0.5, NAN, INF]]),
        values([[1.0, 3.0, 2.0], [0.5, NAN, INF]]),
        oracle=_oracle,
        grad=False,
        errors=[([floats(2, 3), floats(2)], {}, ValueError, rf"K\.{_name}: .*\(2, 3\)")],
    )
    case(_name, ints(3, 4), ints(4), oracle=_oracle, id="int-broadcast")
    case(_name, ints(3, 4), 2, oracle=_oracle, id="number")
    case(_name, 2.0, values([1.0, 2.0, 3.0]), oracle=_oracle, id="of-number", grad=False)
for _name in ("equal", "not_equal"):
    case(_name, bools(2, 3), bools(3), oracle=_COMPARISONS[_name], id="bool")
case("equal", ints(2, 3), values([0.5, 1.0, 2.0]), oracle=np.equal, id="int-float", grad=False)
case(
    "less",
    bools(2),
    bools(2),
    fn=lambda K, x, y: K.less(K.cast(x, "uint8"), K.cast(y, "uint8")),
    oracle=lambda x, y: x < y,
    id="cast-bool",
)
case(
    "greater",
    ints(2),
    ints(2),
    oracle=np.greater,
    id="bool-refused",
    errors=[([bools(2), bools(2)], {}, TypeError, r"K\.greater: .*bool")],
)

# --- conversion -----------------------------------------------------------------------------------

_TO_INT = values([-1.9, -1.0, -0.5, 0.0, 0.5, 1.9, 100.0])
for _dtype in ("int8", "int32", "int64"):
    case("cast", _TO_INT, _dtype, oracle=lambda x, dtype: x.astype(dtype), id=_dtype, grad=False)
case(
    "cast",
    values([0.0, 1.9, 200.0]),
    "uint8",
    oracle=lambda x, dtype: x.astype(dtype),
    id="uint8",
    grad=False,
)
case(
    "cast",
    values([-0.5, 0.0, 2.0, NAN]),
    "bool",
    oracle=lambda x, dtype: x.astype(bool),
    id="bool",
    grad=False,
    errors=[([floats(2), "float31"], {}, ValueError, r"K\.cast: dtype 'float31'.*float32")],
)
# float32 holds the values (they are on the grid of float16), but none close to them: no derivative.
case("cast", floats(2, 3), "float32", oracle=lambda x, dtype: x, id="float32", grad=False)
case(
    "cast",
    floats(2),
    fn=lambda K, x: K.cast(K.cast(x, "float64"), "float32"),
    oracle=lambda x: x,
    id="there-and-back",
    grad=False,
    kinks=[([[1.0, 2.0]], [[1.0, 1.0]])],
)
case("cast", floats(2, 3), "float64", oracle=lambda x, dtype: x, id="float64", smooth=True)
case("cast", bools(2, 3), "float32", oracle=lambda x, dtype: x.astype(dtype), id="bool-float")
case("cast", bools(2, 3), "int32", oracle=lambda x, dtype: x.astype(dtype), id="bool-int")
case("cast", ints(2, 3), "float64", oracle=lambda x, dtype: x.astype(dtype), id="int-float")
case("cast", ints(2, 3, low=-2), "bool", oracle=lambda x, dtype: x.astype(dtype), id="int-bool")
case(
    "cast",
    ints(2, 3, low=-2),
    np.float64,
    oracle=lambda x, dtype: x.astype(dtype),
    id="numpy-dtype",
)
case(
    "cast",
    0.1,
    "float64",
    oracle=np.array(0.1),
    id="number",
    dtypes=("float64",),
    batch=False,
    eager=False,
)
case(
    "cast",
    [1, 0, 2],
    "bool",
    oracle=np.array([True, False, True]),
    id="list",
    batch=False,
    eager=False,
)
case("identity", floats(2, 3), oracle=lambda x: x, smooth=True)
case("identity", bools(2, 3), oracle=lambda x: x, id="bool")
case("identity", unit(3), "copy", oracle=lambda x, name: x, id="named")
