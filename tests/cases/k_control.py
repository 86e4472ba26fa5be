"""switch, the learning phase's branches, map_fn, foldl, foldr."""

from __future__ import annotations

from typing import Any

import numpy as np

from backplane import backend as K
from cases.record import bools, case, floats, ints, positive, values
from cases.steps import running_sum, tanh

# --- switch ---------------------------------------------------------------------------------------


def _chosen(c: Any, a: Any, b: Any) -> Any:
    c, a, b = np.asarray(c) != 0, np.asarray(a), np.asarray(b)
    return np.where(c.reshape(c.shape + (1,) * (max(a.ndim, b.ndim) - c.ndim)), a, b)


_F, _G = floats(2, 2), floats(2, 2)
case(
    "switch",
    values([1, 0]),
    values([[1.0, 2], [3, 4]]),
    values([[-1.0, -2], [-3, -4]]),
    id="rows",
    oracle=np.array([[1.0, 2], [-3, -4]]),
    smooth=True,
    errors=[
        ([floats(2, 2, 2), _F, _G], {}, ValueError, r"K\.switch: .*3.*2"),
        ([bools(3), _F, _G], {}, ValueError, r"K\.switch: "),
        ([bools(2), _F, floats(3, 2)], {}, ValueError, r"K\.switch: "),
        ([bools(2), _F, None], {}, TypeError, r"K\.switch: "),
        (
            [bools(), lambda: [K.ones((2,))], lambda: [K.ones((2,)), K.ones((2,))]],
            {},
            ValueError,
            r"K\.switch: .*number",
        ),
        ([bools(), lambda: K.ones((2,)), lambda: K.ones((3, 4))], {}, ValueError, r"K\.switch: "),
        ([bools(), _F, floats(4)], {}, ValueError, r"K\.switch: .*\(4,\)"),
        (
            [bools(), lambda: K.ones((2,)), lambda: K.ones((2,), dtype="int32")],
            {},
            ValueError,
            r"K\.switch: ",
        ),
    ],
)
case("switch", bools(2, 3), floats(2, 3), floats(2, 3), id="elements", oracle=_chosen, smooth=True)
case(
    "switch",
    bools(2, 2),
    floats(2, 2, 2),
    floats(2, 2, 2),
    id="inner-rows",
    oracle=_chosen,
    smooth=True,
)
case("switch", bools(2, 1), floats(2, 3), floats(2, 3), id="column", oracle=_chosen, smooth=True)
case(
    "switch",
    bools(1, 3),
    floats(2, 3),
    floats(2, 3),
    id="row",
    oracle=_chosen,
    smooth=True,
    batch=False,
)
case("switch", ints(2, 3, low=-1, high=2), floats(2, 3), floats(2, 3), id="of-ints", oracle=_chosen)
case(
    "switch",
    values([0.5, 0.0, -1.0], "float32"),
    floats(3),
    floats(3),
    id="of-floats",
    oracle=_chosen,
)
case("switch", bools(2), floats(2, 3), 0.0, id="number", oracle=_chosen, smooth=True)
case("switch", bools(2), floats(2, 3), floats(3), id="broadcast", oracle=_chosen, batch=(0, 1))
case("switch", bools(2, 3), ints(2, 3), ints(2, 3), id="ints", oracle=_chosen)
case(
    "switch",
    bools(2),
    floats(2, 3),
    floats(2, 3),
    id="functions",
    oracle=_chosen,
    smooth=True,
    fn=lambda K, c, a, b: K.switch(c, lambda: a, lambda: b),
)
case(
    "switch",
    values([4.0, 0.0, -1.0]),
    id="guard",
    grad=False,
    oracle=np.array([np.log(4.0), 0, 0]),
    fn=lambda K, x: K.switch(x > 0.0, K.log(x), 0.0 * x),
    eager=False,
    batch=False,
    kinks=[(([4.0, 0.0, -1.0],), ([0.25, 0, 0],))],
)


def _switched(lazy: bool) -> Any:
    """A choice between tensors, or between functions, of shapes that are broadcast."""
    if lazy:
        return lambda K, c, a, b: K.switch(c, lambda: K.tanh(a), lambda: b * 1.0)
    return lambda K, c, a, b: K.switch(c, K.tanh(a), b)


for _flag in (True, False):
    _id = "true" if _flag else "false"
    case(
        "switch",
        values(np.array(_flag)),
        _F,
        _G,
        id=f"scalar-{_id}",
        oracle=_chosen,
        smooth=True,
        batch=(1, 2),
    )
    case("switch", _flag, _F, _G, id=f"python-{_id}", oracle=_chosen, smooth=True, batch=(0, 1))
    case(
        "switch",
        values(np.array(_flag)),
        _F,
        _G,
        id=f"scalar-functions-{_id}",
        smooth=True,
        fn=lambda K, c, a, b: K.switch(c, lambda: K.tanh(a) * b, lambda: b * b),
        oracle=lambda c, a, b: np.tanh(a) * b if c else b * b,
        batch=(1, 2),
    )
    for _other in (0.0, floats(2), floats(1, 2), floats(2, 1), floats(3, 1, 2)):
        for _lazy in (False, True):
            case(
                "switch",
                values(np.array(_flag)),
                _F,
                _other,
                id=f"broadcast-{'functions-' if _lazy else ''}{_id}",
                smooth=True,
                fn=_switched(_lazy),
                oracle=lambda c, a, b: np.broadcast_arrays(np.tanh(a) if c else b * 1.0, a + b)[0],
                batch=(1,),
            )
    case(
        "switch",
        values(np.array(_flag)),
        _F,
        floats(3),
        id=f"lists-{_id}",
        smooth=True,
        batch=False,
        fn=lambda K, c, a, b: K.switch(c, lambda: [a, b * b], lambda: [a * a, K.exp(b)]),
        oracle=lambda c, a, b: [a, b * b] if c else [a * a, np.exp(b)],
    )
    case(
        "switch",
        values(np.array(_flag)),
        positive(3),
        id=f"scalar-guard-{_id}",
        smooth=True,
        batch=(1,),
        fn=lambda K, c, x: K.switch(c, lambda: K.log(x), lambda: K.zeros_like(x)) + 1.0 / x,
        oracle=lambda c, x: np.log(x) + 1 / x if c else 1 / x,
    )
    case(
        "switch",
        values(np.array(_flag)),
        floats(2, 3, 4),
        floats(2, 4),
        id=f"loop-inside-{_id}",
        fn=lambda K, c, x, s: K.switch(c, lambda: K.rnn(running_sum, x, [s])[0], lambda: s * s),
        oracle=lambda c, x, s: s + x.sum(1) if c else s * s,
        smooth=True,
        batch=(1, 2),
    )
case(
    "switch",
    floats(2, 3, 4),
    floats(2, 4),
    id="inside-loop",
    smooth=True,
    fn=lambda K, x, s: K.rnn(
        lambda x, s: (x + s[0], [K.switch(K.sum(x) > 0.0, lambda: s[0] * x, lambda: s[0] - x)]),
        x,
        [s],
    )[2],
)
case(
    "switch",
    values(np.array(0.5), "float32"),
    _F,
    _G,
    id="scalar-float",
    oracle=_chosen,
    batch=(1, 2),
)


# --- the learning phase ---------------------------------------------------------------------------


case(
    "in_train_phase",
    _F,
    _G,
    oracle=lambda x, alt: alt,
    smooth=True,
    eager=False,
    batch=(0, 1),
    errors=[
        ([lambda: K.ones((2, 3)), lambda: K.ones((2,))], {}, ValueError, r"K\.in_train_phase: "),
        ([K.ones((2, 3)), K.ones((2,))], {}, ValueError, r"K\.in_train_phase: .*\(2, 3\)"),
    ],
)
case("in_train_phase", _F, 0.0, id="number", oracle=0 * np.ones((2, 2)), eager=False)
case("in_test_phase", _F, 0.0, id="number", oracle=lambda x, alt: x, eager=False, smooth=True)
case(
    "in_train_phase",
    _F,
    id="number-beside-a-function",
    fn=lambda K, x: K.in_train_phase(lambda: x * 2.0, 0.0),
    oracle=lambda x: 0 * x,
    eager=False,
)
case("in_test_phase", _F, _G, oracle=lambda x, alt: x, smooth=True, eager=False, batch=(0, 1))
for _training in (0, 1, True, False):
    case(
        "in_train_phase",
        _F,
        _G,
        id=f"training-{_training}",
        training=_training,
        batch=(0, 1),
        oracle=lambda x, alt, training: x if training else alt,
    )
    case(
        "in_test_phase",
        _F,
        _G,
        id=f"training-{_training}",
        training=_training,
        batch=(0, 1),
        oracle=lambda x, alt, training: alt if training else x,
    )
    case(
        "in_train_phase",
        _F,
        _G,
        values(np.array(int(_training))),
        id=f"tensor-{_training}",
        oracle=lambda x, alt, training: x * alt if training else x,
        batch=(0, 1),
        smooth=True,
        fn=lambda K, x, alt, training: K.in_train_phase(lambda: x * alt, x, training),
    )


# --- map_fn, foldl, foldr -------------------------------------------------------------------------


def _map(function: Any, elems: Any) -> Any:
    return np.stack([function(e) for e in elems])


def mapped(id: str, function: Any, oracle: Any, *args: Any, **options: Any) -> None:
    case("map_fn", function, *args, id=id, oracle=lambda _, *a, **k: oracle(*a), **options)


mapped(
    "rows",
    lambda x: tanh(x) * x,
    lambda x: np.tanh(x) * x,
    floats(3, 4),
    smooth=True,
    errors=[
        ([tanh, floats()], {}, ValueError, r"K\.map_fn: elems .*axis"),
        ([None, floats(3)], {}, TypeError, r"K\.map_fn: fn"),
        ([tanh, [floats(3), floats(2)]], {}, ValueError, r"K\.map_fn: "),
    ],
)
mapped("numbers", lambda x: x * 2.0, lambda x: x * 2, floats(3), smooth=True)
mapped("ints", lambda x: x * 2, lambda x: x * 2, ints(3, 2))
mapped(
    "reduced", lambda x: K.sum(x * x), lambda x: (x * x).sum((1, 2)), floats(3, 2, 2), smooth=True
)
mapped("empty", lambda x: x * 2.0, lambda x: x * 2, floats(0, 2))
mapped(
    "dtype",
    lambda x: x * 2.0,
    lambda x: (x * 2).astype("int32"),
    floats(3, 2),
    dtype="int32",
    grad=False,
)
mapped("inferred-dtype", lambda x: x > 0.0, lambda x: x > 0, floats(3, 2), grad=False)
mapped(
    "list", lambda p: p[0] * p[1], lambda p: p[0] * p[1], [floats(3, 2), floats(3, 2)], smooth=True
)
mapped(
    "list-to-list",
    lambda p: [p[0] + p[1], p[0] * p[1]],
    lambda p: [p[0] + p[1], p[0] * p[1]],
    [floats(3, 2), floats(3, 2)],
    smooth=True,
)
mapped(
    "list-of-dtypes",
    lambda p: [p[0], p[1] * 2],
    lambda p: [p[0].astype("int32"), p[1] * 2],
    [floats(3, 2), ints(3)],
    dtype=["int32", "int32"],
    grad=False,
)
mapped("one-to-list", lambda x: [x, x * x], lambda x: [x, x * x], floats(3, 2), smooth=True)
case(
    "map_fn",
    floats(3, 2),
    floats(2),
    id="closure",
    smooth=True,
    batch=(0,),
    fn=lambda K, x, w: K.map_fn(lambda row: K.tanh(row * w), x),
    oracle=lambda x, w: np.tanh(x * w),
)
case(
    "map_fn",
    floats(2, 3),
    id="nested",
    smooth=True,
    fn=lambda K, x: K.map_fn(lambda row: K.map_fn(lambda e: e * e * K.sum(row), row), x),
    oracle=lambda x: x * x * x.sum(1, keepdims=True),
)

E = [[1.0, 2], [3, 4], [5, 6]]


def folded(name: str, id: str, function: Any, oracle: Any, *args: Any, **options: Any) -> None:
    fixed = (lambda *_: oracle) if not callable(oracle) else (lambda _, *a: oracle(*a))
    case(name, function, *args, id=id, oracle=fixed, smooth=True, **options)


folded("foldl", "stated", lambda a, x: a - x, np.array([-7.0, -8]), values(E))
folded("foldr", "stated", lambda a, x: a - x, np.array([1.0, 0]), values(E))
folded(
    "foldl",
    "initializer",
    lambda a, x: a - x,
    np.array([-9.0, -12]),
    values(E),
    ZERO_ROW := values([0.0, 0]),
    batch=(0,),
)
folded(
    "foldr",
    "initializer",
    lambda a, x: a * 2.0 + x,
    np.array([827.0, 1634]),
    values(E),
    values([100.0, 200]),
    batch=(0,),
)
folded("foldl", "products", lambda a, x: a * x, lambda x: x.prod(0), floats(3, 2))
folded(
    "foldr",
    "products",
    lambda a, x: tanh(a * x),
    lambda x: np.tanh(np.tanh(x[2] * x[1]) * x[0]),
    floats(3, 2),
    batch=False,
)
folded(
    "foldl",
    "numbers",
    lambda a, x: a * 0.5 + x,
    lambda x: (x[0] * 0.5 + x[1]) * 0.5 + x[2],
    floats(3),
    batch=False,
)
folded("foldl", "one", lambda a, x: a * x, lambda x: x[0], floats(1, 2), batch=False)
folded(
    "foldl",
    "tuple",
    lambda a, x: a + x[0] * x[1],
    lambda p, i: i + (p[0] * p[1]).sum(0),
    (floats(3, 2), floats(3, 2)),
    floats(2),
    batch=(0, 1),
)
case(
    "foldl",
    ints(4),
    fn=lambda K, x: K.foldl(lambda a, x: K.maximum(a, x), x),
    id="ints",
    oracle=lambda x: x.max(),
    errors=[],
)
case(
    "foldl",
    lambda a, x: a + x,
    floats(3, 2),
    id="errors",
    oracle=lambda _, x: x.sum(0),
    errors=[
        ([lambda a, x: a, floats()], {}, ValueError, r"K\.foldl: elems"),
        ([None, floats(3)], {}, TypeError, r"K\.foldl: fn"),
        ([lambda a, x: K.sum(a), floats(3, 2)], {}, ValueError, r"K\.foldl: .*state|accumulator"),
    ],
)
case(
    "foldr",
    lambda a, x: a + x,
    floats(3, 2),
    id="errors",
    oracle=lambda _, x: x.sum(0),
    errors=[([None, floats(3)], {}, TypeError, r"K\.foldr: fn")],
)


def _parabola(x):
    """In operators alone, which every engine's values have."""
    return x * x + x


case(
    "native",
    floats(2, 3),
    fn=lambda K, x: K.native(_parabola, x, gradient=lambda g, x: g * (2.0 * x + 1.0)),
    oracle=_parabola,
    smooth=True,
)
