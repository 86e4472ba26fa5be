"""Calls of the functions of `keras.ops.numpy`, and NumPy's word on each."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np


class Case:
    """A call of the function `name` of arrays, and then of other arguments.

    Args:
        name: Name of the function.
        arrays: Its arguments that are tensors.
        args: The other ones by position.
        oracle: What NumPy says; by default its function of the same name.
        slopes: Whether the gradient exists, and is to be what differences of the oracle say.
        fixed: Whether the sizes of all axes must be known.
        joined: Whether the tensors are one argument, a list.
        first: An argument in front of the tensors.
        kwargs: Arguments by name.
    """

    def __init__(
        self, name: str, arrays: list[np.ndarray], *args: Any,
        oracle: Callable[..., Any] | None = None, slopes: bool = False, fixed: bool = False,
        joined: bool = False, first: Any = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        self.name, self.arrays, self.args, self.kwargs = name, arrays, args, kwargs
        self.given = oracle
        self.slopes, self.fixed, self.joined, self.first = slopes, fixed, joined, first

    def __repr__(self) -> str:
        shapes = ",".join("x".join(map(str, a.shape)) for a in self.arrays)
        rest = ",".join(
            [
                *([repr(self.first)] if self.first else []),
                *map(repr, self.args),
                *[f"{k}={v!r}" for k, v in self.kwargs.items()],
            ]
        )
        return f"{self.name}({shapes}{';' if rest else ''}{rest})".replace(" ", "")

    def called(self, function: Callable[..., Any], tensors: list[Any]) -> Any:
        """The function's result for these tensors."""
        operands = [tensors] if self.joined else tensors
        if self.first is not None:
            operands = [self.first, *operands]
        return function(*operands, *self.args, **self.kwargs)

    def oracle(self, arrays: list[np.ndarray]) -> Any:
        """NumPy's result."""
        return self.called(self.given or getattr(np, self.name, None) or np.linalg.slogdet, arrays)


_rng = np.random.default_rng(7)


def _floats(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    """Numbers that are no two near each other, nor near a kink at a whole number."""
    count = math.prod(shape)
    step = (high - low) / max(count, 1)
    numbers = low + step * (_rng.permutation(count) + 0.35)
    return numbers.reshape(shape).astype("float32")


def _ints(*shape: int, low: int = -9, high: int = 9, dtype: str = "int32") -> np.ndarray:
    return _rng.integers(low, high, shape).astype(dtype)


def _bools(*shape: int) -> np.ndarray:
    return _rng.random(shape) < 0.5


X, Y = _floats(3, 4), _floats(3, 4)
ROW, COLUMN = _floats(1, 4), _floats(3, 1)
POSITIVE = _floats(3, 4, low=0.2, high=3.0)
UNIT = _floats(3, 4, low=-0.9, high=0.9)
CUBE, VECTOR = _floats(2, 3, 4), _floats(5)
SQUARE = _floats(3, 3)
_NUMBERS = np.outer([1, -3, 77], np.ones(9)).astype("int32")
_PLACES = np.array([[0, 1, 7, 8, 15, 16, 31, 32, 40]])
GAPS = np.where(_bools(4, 5), _floats(4, 5), np.nan).astype("float32")
ODD = np.array([[1.0, np.nan, np.inf], [-np.inf, 0.0, -3.5]], "float32")
M, N, B = _ints(3, 4), _ints(3, 4, low=1), _bools(3, 4)


UNARY = [
    Case(name, [values], slopes=True, oracle=oracle)
    for name, values, oracle in [
        ("exp", X, None), ("exp2", X, None), ("expm1", X, None), ("log", POSITIVE, None),
        ("log1p", POSITIVE, None), ("log2", POSITIVE, None), ("log10", POSITIVE, None),
        ("sqrt", POSITIVE, None), ("cbrt", X, None), ("sin", X, None), ("cos", X, None),
        ("tan", UNIT, None), ("sinh", X, None), ("cosh", X, None), ("tanh", X, None),
        ("arcsin", UNIT, None), ("arccos", UNIT, None), ("arctan", X * 2, None),
        ("arcsinh", X, None), ("arccosh", POSITIVE + 1, None), ("arctanh", UNIT, None),
        ("deg2rad", X, None), ("rad2deg", X, None), ("sinc", X, None), ("i0", X * 8, None),
        ("reciprocal", POSITIVE, None), ("square", X, None), ("negative", X, None),
        ("absolute", X, None), ("abs", X, None), ("fabs", X, None), ("copy", X, None),
        ("real", X, None), ("conj", X, None), ("conjugate", X, None),
        ("nan_to_num", X, None), ("array", X, None),
    ]
] + [
    Case(name, [values])
    for name, values in [
        ("floor", X), ("ceil", X), ("trunc", X), ("sign", X), ("imag", X), ("angle", X),
        ("isreal", X), ("isnan", ODD), ("isinf", ODD), ("isfinite", ODD), ("isposinf", ODD),
        ("isneginf", ODD), ("nan_to_num", ODD), ("floor", M), ("sign", M), ("isnan", M),
        ("isfinite", M), ("trunc", M), ("logical_not", M), ("bitwise_not", M),
        ("bitwise_invert", N), ("exp2", M), ("sqrt", N), ("square", M),
    ]
] + [
    Case("round", [X]), Case("round", [X], 1), Case("round", [M * 7], -1),
    Case("clip", [X], -0.6, 0.7, slopes=True), Case("clip", [M], 1, 5),
    Case("sinh", [X * 30]), Case("cosh", [X * 30]), Case("arcsinh", [X * 1e30]),
    Case("nan_to_num", [ODD], nan=1.0, posinf=2.0, neginf=-2.0),
]  # fmt: skip


BINARY = [
    Case(name, [X, ROW], slopes=True)
    for name in (
        "add", "subtract", "multiply", "maximum", "minimum", "fmax", "fmin", "hypot", "logaddexp",
        "logaddexp2",
    )
] + [
    Case("divide", [X, POSITIVE], slopes=True),
    Case("true_divide", [COLUMN, POSITIVE], slopes=True),
    Case("arctan2", [X, ROW], slopes=True),
    Case("divide_no_nan", [X, POSITIVE], oracle=np.divide, slopes=True),
    Case("power", [POSITIVE, X], slopes=True), Case("power", [X], 3, slopes=True),
    Case("mod", [X, POSITIVE], slopes=True), Case("fmod", [X, POSITIVE], slopes=True),
    Case("heaviside", [X, Y]), Case("ldexp", [X, _ints(3, 4, low=-3, high=4)]),
    Case("floor_divide", [X, POSITIVE]), Case("floor_divide", [M, N]), Case("mod", [M, N]),
    Case("fmod", [M, N]), Case("gcd", [M, N]), Case("lcm", [M, N]),
    Case("add", [B, ~B]), Case("multiply", [B, ~B]), Case("maximum", [B, ~B]),
    Case("equal", [M, N]), Case("not_equal", [M, N]), Case("less", [M, N]),
    Case("less_equal", [X, Y]), Case("greater", [X, ROW]), Case("greater_equal", [B, ~B]),
    Case("logical_and", [M, N]), Case("logical_or", [M, N]), Case("logical_xor", [M, B]),
    *[Case(name, [M.astype("int64"), N.astype("int64")])
      for name in ("bitwise_and", "bitwise_or", "bitwise_xor")],
    Case("bitwise_and", [M, N]), Case("bitwise_or", [M, N]), Case("bitwise_xor", [B, ~B]),
    Case("bitwise_left_shift", [N], 2, oracle=np.left_shift), Case("left_shift", [N], 2),
    *[Case(f"{side}_shift", [_NUMBERS.astype(kind), _PLACES.astype(kind)])
      for side in ("left", "right") for kind in ("int8", "uint8", "uint16", "int32", "uint32")],
    Case("left_shift", [N], 40, oracle=lambda x, n: x * 0),
    Case("bitwise_right_shift", [M], 1, oracle=np.right_shift), Case("right_shift", [M, N % 3]),
    Case("isclose", [X, X + np.float32(1e-6)]), Case("isclose", [ODD, ODD], equal_nan=True),
    Case("allclose", [X, Y]), Case("isin", [M, N]), Case("isin", [M, N], invert=True),
    Case("where", [B, X, Y]),
    Case("where", [B, M], 0.5, oracle=lambda b, m, v: np.where(b, m, v).astype("float32")),
]  # fmt: skip

REDUCTIONS = [
    Case(name, [X], slopes=True, **kwargs)
    for name in ("sum", "prod", "mean", "var", "std", "max", "min", "amax", "amin", "ptp")
    for kwargs in ({}, {"axis": 1}, {"axis": (0, 1), "keepdims": True})
] + [
    Case(name, [values], *args)
    for name, values, args in [
        ("sum", B, ()), ("prod", N.astype("int8"), (0,)), ("max", B, (1,)), ("any", M, (0,)),
        ("all", M, (1,)), ("count_nonzero", M, (1,)), ("argmax", X, ()), ("argmax", X, (0,)),
        ("argmin", X, (1,)), ("argmin", M, (1, )),
    ]
] + [
    Case("argmax", [X], 1, keepdims=True), Case("argmax", [X], keepdims=True),
    Case("max", [X], initial=9.0), Case("average", [X], slopes=True),
    Case("average", [X], 1, slopes=True),
    Case("cumsum", [X], 1, slopes=True), Case("cumprod", [X], 0, slopes=True),
    Case("cumsum", [X], slopes=True), Case("cumsum", [B], 0),
    Case("trapezoid", [X], slopes=True), Case("trapezoid", [X], None, 0.5, 0, slopes=True),
    Case("trapezoid", [X, np.sort(_floats(3, 4), 1)], slopes=True),
    Case("diff", [X], slopes=True), Case("diff", [X], 2, 0, slopes=True), Case("diff", [B]),
]  # fmt: skip


def _none(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, axis=None, **kw: np.where(
        np.all(np.isnan(x), axis, **kw), -1, function(np.where(np.isnan(x), -np.inf, x), axis, **kw)
    )


NANS = [
    Case(name, [GAPS], *args)
    for name in ("nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin")
    for args in ((), (0,))
] + [
    Case("nancumsum", [GAPS], 1), Case("nancumprod", [GAPS]),
    Case("nanargmax", [GAPS], 0, oracle=_none(np.argmax)), Case("nansum", [M]),
    Case("nanmax", [M], 0), Case("nanmean", [M]),
]  # fmt: skip

SHAPES = [
    Case("reshape", [X], (-1, 2), slopes=True), Case("ravel", [CUBE], slopes=True),
    Case("transpose", [CUBE], slopes=True), Case("transpose", [CUBE], (1, 0, 2)),
    Case("moveaxis", [CUBE], 0, -1, slopes=True), Case("swapaxes", [CUBE], 0, 2),
    Case("expand_dims", [X], (0, 2), slopes=True), Case("squeeze", [COLUMN], -1, slopes=True),
    Case("flip", [CUBE], slopes=True), Case("flip", [CUBE], (0, 2)), Case("fliplr", [X]),
    Case("flipud", [X]), Case("rot90", [X], slopes=True), Case("rot90", [X], 2),
    Case("rot90", [CUBE], 3, (1, 2)), Case("roll", [X], 2, slopes=True),
    Case("roll", [X], (1, -1), (0, 1), slopes=True), Case("roll", [X], -5, 1),
    Case("tile", [X], (2, 3), slopes=True), Case("tile", [VECTOR], (2, 1)),
    Case("repeat", [X], 2, 1, slopes=True), Case("repeat", [X], 2),
    Case("repeat", [X], [1, 0, 2, 1], 1, slopes=True),
    Case("repeat", [X], [2, 0, 1], 0, fixed=True),
    Case("broadcast_to", [VECTOR], (3, 5), fixed=True, slopes=True),
    Case("concatenate", [X, Y], 1, joined=True, slopes=True),
    Case("concatenate", [X, M], 0, joined=True,
         oracle=lambda xs, axis: np.concatenate(xs, axis, dtype="float32")),
    Case("stack", [X, Y], 1, joined=True, slopes=True), Case("append", [X, VECTOR]),
    Case("append", [X, Y], 0), Case("hstack", [X, Y], joined=True),
    Case("hstack", [VECTOR, VECTOR], joined=True),
    Case("vstack", [VECTOR, VECTOR], joined=True, fixed=True),
    Case("dstack", [X, Y], joined=True), Case("dstack", [VECTOR, VECTOR], joined=True),
    Case("split", [X], 2, 1, slopes=True), Case("split", [X], [1, 3], 1),
    Case("array_split", [X], 3, 1), Case("hsplit", [X], 2), Case("vsplit", [X], [1, 2]),
    Case("dsplit", [CUBE], 2), Case("meshgrid", [VECTOR, _floats(3)], slopes=True),
    Case("meshgrid", [VECTOR, _floats(3), _floats(2)], indexing="ij"),
    Case("unravel_index", [_ints(4, low=0, high=24)], (2, 3, 4)),
    Case("take", [X, _ints(2, 2, low=-3, high=3)], oracle=lambda x, i: np.take(x, i)),
    Case("take_along_axis", [X, _ints(3, 2, low=-4, high=4)], 1),
    Case("take_along_axis", [X, _ints(1, 4, low=0, high=3)], 0),
    Case("pad", [X], 1, slopes=True), Case("pad", [X], ((1, 0), (2, 3)), constant_values=2.0),
    *[Case("pad", [X], ((2, 1), (3, 0)), mode=mode, slopes=True) for mode in (
        "reflect", "symmetric", "edge", "wrap", "maximum", "minimum", "mean", "linear_ramp")],
    Case("pad", [M], ((2, 1), (3, 0)), mode="mean"),
    Case("pad", [X], ((1, 2), (0, 1)), constant_values=((1.0, 2.0), (3.0, 4.0))),
    Case("diag", [VECTOR], slopes=True), Case("diag", [VECTOR], -2), Case("diag", [X], 1),
    Case("diagflat", [X], 1, slopes=True), Case("diagonal", [CUBE], 1, 1, 2, slopes=True),
    Case("diagonal", [CUBE], -1), Case("trace", [SQUARE], slopes=True),
    Case("trace", [M.astype("int8")], 1), Case("tril", [X], 1, slopes=True), Case("tril", [VECTOR]),
    Case("triu", [CUBE], -1, slopes=True), Case("triu", [B]),
    Case("vander", [VECTOR], 3, slopes=True), Case("vander", [VECTOR], 4, True),
    Case("full_like", [X], 3.0), Case("zeros_like", [M]), Case("ones_like", [X], "int32"),
    Case("empty_like", [X], oracle=np.zeros_like),
]  # fmt: skip

PRODUCTS = [
    Case("matmul", [X, _floats(4, 2)], slopes=True),
    Case("matmul", [CUBE, _floats(4, 2)], slopes=True),
    Case("matmul", [VECTOR, _floats(5, 2)]), Case("matmul", [M, _ints(4, 2)]),
    Case("matmul", [M.astype("int8"), _ints(4, 2, dtype="int8")],
         oracle=lambda a, b: a.astype("int32") @ b.astype("int32")),
    Case("dot", [CUBE, _floats(3, 4, 2)], slopes=True), Case("dot", [VECTOR, VECTOR[::-1].copy()]),
    Case("dot", [X], 3.0), Case("inner", [X, CUBE], slopes=True), Case("inner", [VECTOR, VECTOR]),
    Case("outer", [X, VECTOR], slopes=True), Case("vdot", [X, Y], slopes=True),
    Case("tensordot", [CUBE, _floats(3, 4, 5)], slopes=True),
    Case("tensordot", [CUBE, _floats(4, 2, 5)], ((0, 2), (1, 0)), slopes=True),
    Case("tensordot", [X, Y], 0), Case("kron", [X, SQUARE], slopes=True),
    Case("kron", [VECTOR, X]), Case("cross", [_floats(4, 3), _floats(4, 3)], slopes=True),
    Case("cross", [_floats(3, 4), _floats(3, 4)], axis=0, fixed=True),
    *[Case("einsum", arrays, slopes=True, first=text) for text, arrays in [
        ("ij,jk->ik", [X, _floats(4, 2)]), ("ij->ji", [X]), ("ij->", [X]), ("ii->i", [SQUARE]),
        ("ii", [SQUARE]), ("bij,bjk->bik", [CUBE, _floats(2, 4, 3)]), ("i,j->ij", [VECTOR, VECTOR]),
        ("ij,ij->i", [X, Y]), ("...ij,...jk->...ik", [CUBE, _floats(4, 2)]),
        ("i...,j...k->...ijk", [_floats(2, 3), _floats(4, 3, 2)]), ("...j,j", [CUBE, _floats(4)]),
        ("ij,jk,kl->il", [X, _floats(4, 2), _floats(2, 5)]), ("a...a->...", [_floats(3, 2, 3)]),
        ("ab,bc,cd,da->", [X, _floats(4, 2), _floats(2, 5), _floats(5, 3)]),
        ("b...i,...ij->b...j", [_floats(2, 3, 4), _floats(1, 4, 2)]), ("ij,k->k", [X, VECTOR]),
    ]],
    Case("einsum", [M.astype("int8"), N.astype("int8")], first="ij,ij->j",
         oracle=lambda text, a, b: np.einsum(text, a.astype("int32"), b.astype("int32"))),
    Case("slogdet", [SQUARE], slopes=True), Case("slogdet", [_floats(2, 3, 3)], slopes=True),
    Case("corrcoef", [X], slopes=True), Case("corrcoef", [VECTOR]),
    Case("correlate", [VECTOR, _floats(3)], fixed=True, slopes=True),
    *[Case("correlate", [a, b], mode, fixed=True) for mode in ("same", "full", "valid")
      for a, b in ((VECTOR, _floats(3)), (_floats(2), VECTOR), (_floats(6), _floats(4)))],
]  # fmt: skip

_SORTED = np.sort(_floats(6))
_UP_TO_NAN = np.append(_SORTED, [np.inf, np.nan, np.nan]).astype("float32")
COUNTING = [
    Case("searchsorted", [_SORTED, X]), Case("searchsorted", [_SORTED, _SORTED], side="right"),
    Case("searchsorted", [_UP_TO_NAN, ODD]), Case("searchsorted", [_UP_TO_NAN, ODD], side="right"),
    Case("digitize", [X, _SORTED]), Case("digitize", [ODD, _SORTED]), Case("histogram", [X]),
    Case("histogram", [X], 4, (-1.0, 1.0)),
    Case("histogram", [M], 5, oracle=lambda x, n: np.histogram(x.astype("float32"), n)),
    Case("linspace", [ROW, COLUMN], 5, slopes=True), Case("linspace", [X, Y], 4, False, axis=-1),
    Case("logspace", [UNIT, UNIT.T.copy().T * 2], 3, slopes=True),
    Case("geomspace", [POSITIVE, POSITIVE * 3], 4, slopes=True),
]  # fmt: skip

SORTING = [
    Case("sort", [X], slopes=True), Case("sort", [CUBE], 1, slopes=True), Case("sort", [X], None),
    Case("sort", [M], 0), Case("sort", [B]), Case("sort", [ODD]),
    Case("argsort", [X]), Case("argsort", [X], 0),
    Case("argsort", [M % 3], oracle=lambda x: np.argsort(x, kind="stable")),
    Case("argpartition", [X], 1, oracle=lambda x, k: np.argsort(x)),
    Case("median", [X], slopes=True), Case("median", [CUBE], (0, 2), slopes=True),
    Case("median", [X], 1, keepdims=True), Case("median", [ODD], 1), Case("median", [M]),
    Case("median", [ODD], 0), Case("nanmedian", [ODD], 1),
    Case("quantile", [X], 0.3, slopes=True), Case("quantile", [CUBE], [0.0, 0.4, 1.0], 1),
    *[Case("quantile", [CUBE], 0.41, (1, 2), method=method, keepdims=True)
      for method in ("linear", "lower", "higher", "nearest", "midpoint")],
    Case("percentile", [X], 30, 0, slopes=True), Case("nanmedian", [GAPS], 1),
    Case("nanmedian", [GAPS]), Case("nanquantile", [GAPS], [0.25, 0.5], 0),
    Case("nanpercentile", [GAPS], 75.0, 1, keepdims=True),
]  # fmt: skip

_SIGNS = np.array([[0.0, -0.0, 1.0], [-1.0, np.inf, -np.inf]], "float32")
BITS = [
    Case("signbit", [_SIGNS]), Case("signbit", [M]), Case("nextafter", [X, Y]),
    Case("nextafter", [_SIGNS, _SIGNS[::-1].copy()]),
    Case("view", [X], "int32", oracle=lambda x, dtype: x.view(dtype)),
    Case("view", [X], "int16", oracle=lambda x, dtype: x.view(dtype)),
    Case("view", [M.astype("int8")], "int32", oracle=lambda x, dtype: x.view(dtype)),
]  # fmt: skip

CASES = [*SORTING, *BITS, *UNARY, *BINARY, *REDUCTIONS, *NANS, *SHAPES, *PRODUCTS, *COUNTING]
