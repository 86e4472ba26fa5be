"""Reductions, cumulative operations, positions of extremes."""

from __future__ import annotations

import numpy as np

from cases.record import bools, case, distinct, floats, ints, positive, values

INF, NAN = np.inf, np.nan
AXES = (None, 0, -1, [0, 2], (1, -1), [])


def _over(function):
    """A NumPy reduction with the axis forms of K: the documents' NumPy implementation."""

    def run(x, axis=None, keepdims=False):
        return function(x, axis=tuple(axis) if isinstance(axis, list) else axis, keepdims=keepdims)

    return run


def _logsumexp(x, axis, keepdims):
    with np.errstate(divide="ignore"):
        return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))


def _errors(name):
    def message(text):
        return rf"K\.{name}: .*{text}"

    return [
        ([floats(2, 3)], {"axis": 2}, ValueError, message("axis 2 .*2 axes")),
        ([floats(2, 3)], {"axis": [0, -3]}, ValueError, message("axis -3 .*2 axes")),
        ([floats(2, 3)], {"axis": [0, -2]}, ValueError, message("twice")),
        ([floats(2, 3)], {"axis": 0.5}, TypeError, message("axis must be an int, got 0.5")),
        ([floats(2, 3)], {"axis": "x"}, TypeError, message("axis must be an int, got 'x'")),
    ]


# name, NumPy's function, argument, whether it has second derivatives
_REDUCTIONS = {
    "max": (np.max, distinct(2, 3, 4), True),
    "min": (np.min, distinct(2, 3, 4), True),
    "sum": (np.sum, floats(2, 3, 4), True),
    "prod": (np.prod, positive(2, 3, 4), True),
    "mean": (np.mean, floats(2, 3, 4), True),
    "var": (np.var, floats(2, 3, 4), True),
    "std": (np.std, floats(2, 3, 4), True),
    "logsumexp": (_logsumexp, floats(2, 3, 4), True),
}
for _name, (_function, _x, _smooth) in _REDUCTIONS.items():
    _oracle = _over(_function)
    case(_name, _x, oracle=_oracle, smooth=_smooth, errors=_errors(_name))
    for _axis in AXES:
        _flat = _name == "std" and _axis == []  # constant 0: not smooth
        case(
            _name, _x, oracle=_oracle, id=f"axis-{_axis}", smooth=_smooth and not _flat, axis=_axis
        )
        case(_name, _x, oracle=_oracle, id=f"kept-{_axis}", axis=_axis, keepdims=True)
    case(_name, floats(), oracle=_oracle, id="scalar", grad=_name != "std")
    case(_name, floats(3), 0, True, oracle=_oracle, id="positional")
    case(_name, ints(2, 3, low=1), oracle=_oracle, id="int", axis=1)
for _name in ("max", "min", "sum", "prod"):
    case(
        _name,
        ints(2, 3, low=-4, dtype="int64"),
        oracle=_over(_REDUCTIONS[_name][0]),
        id="int64",
        axis=0,
        errors=[([bools(2)], {}, TypeError, rf"K\.{_name}: .*bool")],
    )
for _name in ("mean", "var", "std"):
    case(_name, bools(2, 3), oracle=_over(_REDUCTIONS[_name][0]), id="bool", axis=1)

case(
    "max",
    floats(2, 3),
    oracle=_over(np.max),
    id="ties",
    axis=-1,
    kinks=[([[[1.0, 1.0, 0.0], [2.0, 2.0, 2.0]]], [[[0.5, 0.5, 0.0], [1 / 3, 1 / 3, 1 / 3]]])],
)
case(
    "min",
    floats(2, 4),
    oracle=_over(np.min),
    id="ties",
    axis=-1,
    kinks=[([[[1.0, 1.0, 3.0, 2.0]]], [[[0.5, 0.5, 0.0, 0.0]]])],
)
case("max", values([-INF, -INF]), oracle=-INF, id="infinite", grad=False)
for _extreme, _np in (("max", np.max), ("min", np.min)):
    case(_extreme, values([[1.0, NAN, 2.0], [NAN, INF, -INF], [1.0, INF, -INF]]),
         oracle=_over(_np), id="nan", axis=1, grad=False)  # fmt: skip
    case(_extreme, values([-(2**31), 7, 2**31 - 1], dtype="int32"), oracle=_np, id="extreme-ints")
case("sum", floats(0, 3), oracle=_over(np.sum), id="empty", axis=0)
case("prod", floats(0, 3), oracle=_over(np.prod), id="empty", axis=0)
case("mean", floats(0, 3), oracle=np.full(3, NAN), id="empty", axis=0, grad=False)
case(
    "prod",
    values([[0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [1.0, 2.0, 4.0]]),
    oracle=_over(np.prod),
    id="zeros",
    axis=1,
    smooth=True,
    kinks=[([[[0.0, 2.0, 3.0], [0.0, 0.0, 3.0]]], [[[6.0, 0.0, 0.0], [0.0, 0.0, 0.0]]])],
)
case("var", ints(2, 3), oracle=_over(np.var), id="list-of-axes", axis=[-1, -2])
case("sum", floats(2, 3), oracle=_over(np.sum), id="numpy-axis", axis=np.int64(1))
case("sum", floats(2, 3), oracle=lambda x, axis: x.sum(1), id="whole-float-axis", axis=1.0)
case(
    "std",
    floats(2, 3),
    oracle=_over(np.std),
    id="constant",
    axis=1,
    kinks=[([[[2.0, 2.0, 2.0], [1.0, 1.0, 1.0]]], [np.zeros((2, 3))])],
)
case("std", values([[2.0, 2.0], [1.0, 4.0]]), oracle=_over(np.std), id="zero", axis=1, grad=False)
case(
    "logsumexp",
    values([[1000.0, 1000.0], [-INF, -INF], [-INF, 0.0], [INF, 0.0], [-1000.0, -1000.0]]),
    oracle=np.array([1000 + np.log(2), -INF, 0.0, INF, np.log(2) - 1000]),
    id="ends",
    axis=1,
    grad=False,
)

# --- logic ----------------------------------------------------------------------------------------

for _name, _function in {"any": np.any, "all": np.all}.items():
    _oracle = _over(_function)
    case(_name, bools(2, 3, 2), oracle=_oracle, errors=_errors(_name))
    for _axis in AXES:
        case(_name, bools(2, 3, 4), oracle=_oracle, id=f"axis-{_axis}", axis=_axis)
    case(_name, bools(3, 4), oracle=_oracle, id="kept", axis=1, keepdims=True)
    case(
        _name,
        values([[0.0, NAN], [0.0, 0.5], [0.0, 0.0], [-1.0, 1.0]]),
        oracle=_oracle,
        id="float",
        axis=1,
        grad=False,
    )
    case(_name, ints(3, 4, low=-1, high=2), oracle=_oracle, id="int", axis=0)
    case(_name, ints(3, high=2), oracle=lambda x, axis: x.astype(bool), id="int-none", axis=[])

# --- positions ------------------------------------------------------------------------------------

for _name, _function in {"argmax": np.argmax, "argmin": np.argmin}.items():
    case(
        _name,
        distinct(3, 4),
        oracle=lambda x, f=_function: f(x, axis=-1),
        grad=False,
        errors=[
            ([floats(2, 3), 2], {}, ValueError, rf"K\.{_name}: axis 2 .*2 axes"),
            ([floats(2, 3), [0, 1]], {}, TypeError, rf"K\.{_name}: axis must be an int"),
            ([floats(2, 3), None], {}, TypeError, rf"K\.{_name}: axis must be an int"),
            ([bools(2, 3)], {}, TypeError, rf"K\.{_name}: .*bool"),
            ([floats()], {}, ValueError, rf"K\.{_name}: axis -1 .*0 axes"),
        ],
    )
    for _axis in (0, 1, -2):
        case(_name, distinct(2, 3, 4), oracle=_function, id=f"axis-{_axis}", axis=_axis, grad=False)
    case(
        _name,
        values([[1.0, 5.0, 5.0], [0.0, 0.0, 3.0], [2.0, 2.0, 2.0]]),
        oracle=lambda x, f=_function: f(x, -1),
        id="ties",
        grad=False,
    )
    case(_name, ints(3, 5), oracle=lambda x, f=_function: f(x, -1), id="int")

# --- cumulative -----------------------------------------------------------------------------------

for _name, _function in {"cumsum": np.cumsum, "cumprod": np.cumprod}.items():
    case(
        _name,
        floats(3, 4),
        oracle=lambda x, f=_function: f(x, 0),
        smooth=True,
        errors=[
            ([floats(2, 3), 2], {}, ValueError, rf"K\.{_name}: axis 2 .*2 axes"),
            ([floats(2, 3), [0]], {}, TypeError, rf"K\.{_name}: axis must be an int"),
            ([bools(2, 3)], {}, TypeError, rf"K\.{_name}: .*bool"),
        ],
    )
    for _axis in (0, 1, -1):
        case(_name, floats(2, 3, 4), oracle=_function, id=f"axis-{_axis}", axis=_axis, smooth=True)
    case(_name, ints(3, 4, low=-2), oracle=_function, id="int", axis=1)
case(
    "cumprod",
    values([[0.0, 2.0, 3.0], [1.0, 0.0, 0.0]]),
    oracle=np.cumprod,
    id="zeros",
    axis=1,
    smooth=True,
    kinks=[([[[0.0, 2.0, 3.0]]], [[[9.0, 0.0, 0.0]]])],
)
