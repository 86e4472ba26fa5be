"""rnn, switch, the learning phase's branches, map_fn, foldl, foldr."""

from __future__ import annotations

from typing import Any

import numpy as np

from backplane import backend as K
from cases.record import bools, case, floats, ints, positive, values

# Steps are written once, for tensors and for the arrays of the oracles.


def tanh(x: Any) -> Any:
    return np.tanh(x) if isinstance(x, np.ndarray) else K.tanh(x)


def concatenate(parts: Any, axis: int) -> Any:
    join = np.concatenate if isinstance(parts[0], np.ndarray) else K.concatenate
    return join(parts, axis=axis)


def running_sum(x: Any, states: Any) -> Any:
    total = x + states[0]
    return total, [total]


def simple(x: Any, states: Any) -> Any:
    """A plain recurrent layer; its kernel is a constant."""
    h, kernel = states
    new = tanh(x + h @ kernel)
    return new, [new]


def gated(x: Any, states: Any) -> Any:
    """Two states, of different use, and an output that is neither."""
    h, c = states
    carried = c * tanh(x) + h
    return tanh(carried) * x, [tanh(carried), carried]


def of_state(x: Any, states: Any) -> Any:
    """The output does not see the input of its step."""
    return states[0] * 10.0, [states[0] + 1.0]


def row_sum(x: Any, states: Any) -> Any:
    """An output of fewer axes than the state."""
    new = tanh(x + states[0])
    return new.sum(-1) if isinstance(new, np.ndarray) else K.sum(new, axis=-1), [new]


def wide(x: Any, states: Any) -> Any:
    """An output that is wider than state and input."""
    new = x * states[0]
    return concatenate([x, new, states[0]], axis=-1), [new]


# --- rnn ------------------------------------------------------------------------------------------


def twin(
    step: Any,
    x: np.ndarray,
    states: Any,
    backwards: bool = False,
    mask: Any = None,
    constants: Any = None,
    unroll: bool = False,
    length: Any = None,
    time_major: bool = False,
    zero: bool = False,
) -> list[Any]:
    """`rnn` of one tensor, step by step as documented."""
    x = x if time_major else np.moveaxis(x, 1, 0)
    keep = np.ones(x.shape[:2], bool)
    if mask is not None:
        mask = np.asarray(mask).reshape(np.shape(mask)[:2])
        keep = (mask if time_major else mask.T) != 0
    elif length is not None and np.ndim(length):
        keep = np.arange(len(x))[:, None] < np.asarray(length).reshape(1, -1)
    order = list(range(len(x)))[:: -1 if backwards else 1]
    last: Any = None
    outputs = []
    for t in order[: None if np.ndim(length) or length is None or unroll else length]:
        y, new = step(x[t], [*states, *(constants or [])])
        before = np.zeros_like(y) if last is None or zero else last
        last = np.where(keep[t].reshape(-1, *[1] * (y.ndim - 1)), y, before)
        outputs.append(last)
        states = [
            np.where(keep[t].reshape(-1, *[1] * (n.ndim - 1)), n, s)
            for n, s in zip(new, states, strict=True)
        ]
    outputs += [np.zeros_like(last)] * (len(x) - len(outputs))
    stacked = np.stack(outputs, 0 if time_major else 1)
    return [last, stacked, *states]


X = [[[1.0, 2], [3, 4], [5, 6]], [[7, 8], [9, 10], [11, 12]]]
M = [[1, 1, 0], [0, 1, 1]]
ZERO = values(np.zeros((2, 2)))
END = [[9.0, 12], [27, 30]]
MASKED_END = [[4.0, 6], [20, 22]]


def table(id: str, last: Any, outputs: Any, *rest: Any, state: Any = None) -> None:
    """Stated numbers of a running sum over X, looped and unrolled."""
    expected = [np.array(last), np.array(outputs), np.array(last if state is None else state)]
    backwards, mask, zero = (*rest, *(False, None, False)[len(rest) :])
    for unroll in (False, True):
        case(
            "rnn",
            running_sum,
            values(X),
            [ZERO],
            backwards,
            mask,
            None,
            unroll,
            None,
            False,
            zero,
            id=f"table-{id}{'-unrolled' * unroll}",
            oracle=lambda *_, e=expected: e,
            smooth=True,
        )


table("plain", END, [[[1, 2], [4, 6], [9, 12]], [[7, 8], [16, 18], [27, 30.0]]])
table("backwards", END, [[[5, 6], [8, 10], [9, 12]], [[11, 12], [20, 22], [27, 30.0]]], True)
table(
    "mask",
    MASKED_END,
    [[[1, 2], [4, 6], [4, 6]], [[0, 0], [9, 10], [20, 22.0]]],
    False,
    values(M),
)
table(
    "mask-backwards",
    MASKED_END,
    [[[0, 0], [3, 4], [4, 6]], [[11, 12], [20, 22], [20, 22.0]]],
    True,
    values(M),
)
table(
    "mask-zero",
    [[0.0, 0], [20, 22]],
    [[[1, 2], [4, 6], [0, 0]], [[0, 0], [9, 10], [20, 22.0]]],
    False,
    values(M),
    True,
    state=MASKED_END,
)
table(
    "mask-zero-backwards",
    [[4.0, 6], [0, 0]],
    [[[0, 0], [3, 4], [4, 6]], [[11, 12], [20, 22], [0, 0.0]]],
    True,
    values(M),
    True,
    state=MASKED_END,
)


def stated(id: str, step: Any, expected: Any, *args: Any, **options: Any) -> None:
    arrays = [np.array(e, "float64") for e in expected]
    case("rnn", step, *args, id=f"table-{id}", oracle=lambda *_: arrays, smooth=True, **options)


stated(
    "constants",
    lambda x, s: (x + s[1] + s[0], [x + s[0]]),
    [
        [[109, 112], [127, 130]],
        [[[101, 102], [104, 106], [109, 112]], [[107, 108], [116, 118], [127, 130]]],
        END,
    ],
    values(X),
    [ZERO],
    False,
    None,
    [values(np.full((2, 2), 100.0))],
)
for _unroll in (False, True):
    stated(
        f"counts{'-unrolled' * _unroll}",
        lambda x, s: (x * 10.0, [s[0] + 1.0]),
        [
            [[30, 40], [110, 120]],
            [[[10, 20], [30, 40], [30, 40]], [[0, 0], [90, 100], [110, 120]]],
            [[2, 2], [2, 2]],
        ],
        values(X),
        [ZERO],
        False,
        values(M),
        None,
        _unroll,
    )
stated(
    "time-major",
    running_sum,
    [MASKED_END, [[[1, 2], [0, 0]], [[4, 6], [9, 10]], [[4, 6], [20, 22]]], MASKED_END],
    values(np.moveaxis(X, 1, 0)),
    [ZERO],
    False,
    values(np.transpose(M)),
    None,
    False,
    None,
    True,
    batch=(1,),
)
_BY_LENGTH = [[1.0, 2], [27, 30]]
stated(
    "lengths",
    running_sum,
    [_BY_LENGTH, [[[1, 2], [1, 2], [1, 2]], [[7, 8], [16, 18], [27, 30]]], _BY_LENGTH],
    values(X),
    [ZERO],
    False,
    None,
    None,
    False,
    values([1, 3]),
)
stated(
    "lengths-backwards",
    running_sum,
    [_BY_LENGTH, [[[0, 0], [0, 0], [1, 2]], [[11, 12], [20, 22], [27, 30]]], _BY_LENGTH],
    values(X),
    [ZERO],
    True,
    None,
    None,
    False,
    values([1, 3]),
)
stated(
    "lengths-zero",
    running_sum,
    [[[0, 0], [27, 30]], [[[1, 2], [0, 0], [0, 0]], [[7, 8], [16, 18], [27, 30]]], _BY_LENGTH],
    values(X),
    [ZERO],
    False,
    None,
    None,
    False,
    values([1, 3]),
    False,
    True,
)
stated(
    "length",
    running_sum,
    [
        [[4, 6], [16, 18]],
        [[[1, 2], [4, 6], [0, 0]], [[7, 8], [16, 18], [0, 0]]],
        [[4, 6], [16, 18]],
    ],
    values(X),
    [ZERO],
    False,
    None,
    None,
    False,
    2,
)


def both(id: str, step: Any, *args: Any, **options: Any) -> None:
    """A looped and an unrolled case against the twin."""
    arguments = [*args, *[False, None, None, False][len(args) - 2 :]]
    for unroll in (False, True):
        arguments[5] = unroll
        name = f"{id}{'-unrolled' * unroll}"
        case("rnn", step, *arguments, id=name, oracle=_checked, smooth=True, **options)


def _checked(step: Any, x: Any, states: Any, *rest: Any) -> list[Any]:
    return twin(step, x, states, *rest)


_X = floats(2, 3, 4)
_MASK = values([[1, 0, 1], [0, 1, 0]])
for _name, _back, _mask in (
    ("", False, None),
    ("-backwards", True, None),
    ("-mask", False, _MASK),
    ("-mask-backwards", True, _MASK),
):
    both(
        f"simple{_name}",
        simple,
        _X,
        [floats(2, 4)],
        _back,
        _mask,
        [floats(4, 4)],
        batch=(0, 1, 2) if _mask else (0, 1),
    )
    both(f"gated{_name}", gated, _X, [floats(2, 4), floats(2, 4)], _back, _mask)
both("of-state", of_state, _X, [floats(2, 4)], False, _MASK)
both("row-sum", row_sum, _X, [floats(2, 4)], False, _MASK)
both("wide", wide, _X, [floats(2, 4)], True, _MASK)
both(
    "mask-of-bools", simple, _X, [floats(2, 4)], False, bools(2, 3), [floats(4, 4)], batch=(0, 1, 2)
)
both("mask-3d", running_sum, _X, [floats(2, 4)], False, ints(2, 3, 1, high=2))
both("no-state", lambda x, s: (x * x, []), _X, [])
both(
    "nd",
    lambda x, s: (x * s[0], [tanh(x) + s[0]]),
    floats(2, 3, 2, 2),
    [floats(2, 2, 2)],
    False,
    _MASK,
)
both("one-step", running_sum, floats(2, 1, 4), [floats(2, 4)], False, values([[1], [0]]))
both("all-skipped", gated, _X, [floats(2, 4), floats(2, 4)], False, values(np.zeros((2, 3), int)))
case(
    "rnn",
    running_sum,
    _X,
    [floats(2, 4)],
    True,
    None,
    None,
    False,
    2,
    id="length-backwards",
    oracle=_checked,
    smooth=True,
)
case(
    "rnn",
    running_sum,
    floats(3, 2, 4),
    [floats(2, 4)],
    True,
    values([[1, 0], [1, 1], [0, 1]]),
    None,
    False,
    None,
    True,
    True,
    id="time-major-zero",
    oracle=_checked,
    smooth=True,
    batch=False,
)


def _leak(K: Any, x: Any, s: Any, mask: Any) -> Any:
    """The skipped steps divide by 0, and must not be felt."""
    return K.rnn(lambda x, s: (1.0 / x + s[0], [s[0] * s[0] + K.log(x)]), x, [s], mask=mask)


def _leak_oracle(x: Any, s: Any, mask: Any) -> Any:
    visible = np.where(mask[..., None] != 0, x, 1.0)
    return twin(lambda x, s: (1 / x + s[0], [s[0] ** 2 + np.log(x)]), visible, [s], mask=mask)


for _value in (0.0, np.inf):
    case(
        "rnn",
        values([[[1.0], [_value], [2.0]]]),
        positive(1, 1),
        values([[1, 0, 1]]),
        fn=_leak,
        id=f"mask-hides-{_value}",
        grad=(1,),
        smooth=True,
        batch=False,
        oracle=_leak_oracle,
    )


def _no_leak(K: Any, x: Any) -> Any:
    return K.rnn(
        lambda x, s: (K.sqrt(x) * s[0], [s[0]]),
        x,
        [K.ones_like(x[:, 0])],
        mask=K.constant([[1, 0]], dtype="int32"),
    )[1]


case(
    "rnn",
    values([[[4.0], [0.0]]]),
    fn=_no_leak,
    id="kink",
    batch=False,
    grad=False,
    eager=False,
    oracle=np.array([[[2.0], [2.0]]]),
    kinks=[(([[[4.0], [0.0]]],), ([[[0.5], [0.0]]],))],
)


def _nested(K: Any, x: Any, y: Any, h: Any, c: Any, **options: Any) -> Any:
    """A dict in, a tuple out, and a nest of states."""

    def step(items: Any, states: Any) -> Any:
        (h, c), extra = states
        assert sorted(items) == ["x", "y"]
        new = tanh(items["x"] + h)
        return (new, items["y"] * c), [[new, c + items["y"] + extra]]

    last, outputs, states = K.rnn(
        step, {"x": x, "y": y}, [[h, c]], constants=[K.ones_like(c)], **options
    )
    assert isinstance(last, tuple)
    assert isinstance(outputs, tuple)
    assert len(states) == 1
    return [*last, *outputs, *states[0]]


def _nested_oracle(x: Any, y: Any, h: Any, c: Any, **options: Any) -> Any:
    rows = []
    for t in range(x.shape[1]):
        new = np.tanh(x[:, t] + h)
        rows.append((new, y[:, t] * c))
        h, c = new, c + y[:, t] + 1
    return [*rows[-1], *[np.stack(column, 1) for column in zip(*rows, strict=True)], h, c]


for _unroll in (False, True):
    case(
        "rnn",
        floats(2, 3, 4),
        floats(2, 3, 2),
        floats(2, 4),
        floats(2, 2),
        fn=_nested,
        oracle=_nested_oracle,
        id=f"nested{'-unrolled' * _unroll}",
        unroll=_unroll,
        smooth=True,
    )


def _nested_mask(K: Any, x: Any, y: Any, s: Any, mask: Any) -> Any:
    def step(items: Any, states: Any) -> Any:
        return [items[0] + states[0], items[1] * 2.0], [states[0] + 1.0]

    last, outputs, states = K.rnn(step, [x, y], [s], mask=mask, zero_output_for_mask=True)
    return [*last, *outputs, *states]


def _nested_mask_oracle(x: Any, y: Any, s: Any, mask: Any) -> Any:
    first = twin(lambda x, s: (x + s[0], [s[0] + 1.0]), x, [s], mask=mask, zero=True)
    second = twin(lambda x, s: (x * 2.0, [s[0]]), y, [s], mask=mask, zero=True)
    return [first[0], second[0], first[1], second[1], first[2]]


case(
    "rnn",
    floats(2, 3, 4),
    floats(2, 3, 2, 2),
    floats(2, 4),
    _MASK,
    fn=_nested_mask,
    oracle=_nested_mask_oracle,
    id="nested-mask-zero",
    smooth=True,
)


def _two_layers(K: Any, x: Any, h: Any, kernel: Any, mask: Any) -> Any:
    """A loop over the outputs of a loop; the state of the first starts the second."""
    _, outputs, states = K.rnn(simple, x, [h], mask=mask, constants=[kernel])
    return K.rnn(simple, outputs, states, mask=mask, constants=[kernel], go_backwards=True)


def _two_layers_oracle(x: Any, h: Any, kernel: Any, mask: Any) -> Any:
    _, outputs, state = twin(simple, x, [h], mask=mask, constants=[kernel])
    return twin(simple, outputs, [state], True, mask, [kernel])


case(
    "rnn",
    _X,
    floats(2, 4),
    floats(4, 4),
    _MASK,
    id="two-layers",
    fn=_two_layers,
    smooth=True,
    oracle=_two_layers_oracle,
    batch=(0, 1, 3),
)


def _in_a_loop(K: Any, x: Any, s: Any) -> Any:
    """A loop whose step is a loop: over the rows of each step's matrix."""

    def outer(x_t: Any, states: Any) -> Any:
        last = K.rnn(running_product, x_t, [states[0]])[0]
        return last, [last]

    def running_product(x: Any, states: Any) -> Any:
        new = tanh(states[0] * x + x)
        return new, [new]

    return K.rnn(outer, x, [s])


def _in_a_loop_oracle(x: Any, s: Any) -> Any:
    rows = []
    for t in range(x.shape[1]):
        for k in range(x.shape[2]):
            s = np.tanh(s * x[:, t, k] + x[:, t, k])
        rows.append(s)
    return [s, np.stack(rows, 1), s]


case(
    "rnn",
    floats(2, 3, 2, 4),
    floats(2, 4),
    id="loop-in-loop",
    fn=_in_a_loop,
    oracle=_in_a_loop_oracle,
    smooth=True,
)

case(
    "rnn",
    running_sum,
    _X,
    [floats(2, 4)],
    id="errors",
    oracle=_checked,
    errors=[
        ([running_sum, floats(2, 3), [floats(2)]], {}, ValueError, r"K\.rnn: inputs .*3 axes"),
        (
            [lambda x, s: (x, []), _X, []],
            {"mask": np.ones((2, 3))},
            ValueError,
            r"K\.rnn: .*mask.*state",
        ),
        ([running_sum, _X, [floats(2, 4)]], {"mask": np.ones(2)}, ValueError, r"K\.rnn: mask"),
        ([running_sum, _X, [floats(2, 4)]], {"mask": np.ones((2, 5))}, ValueError, r"K\.rnn: mask"),
        ([lambda x, s: (x, []), _X, [floats(2, 4)]], {}, ValueError, r"K\.rnn: .*states.*1.*got 0"),
        ([lambda x, s: (x, [s[0][:, :2]]), _X, [floats(2, 4)]], {}, ValueError, r"K\.rnn: .*state"),
        ([lambda x, s: (x, [K.sum(s[0])]), _X, [floats(2, 4)]], {}, ValueError, r"K\.rnn: .*state"),
        (
            [lambda x, s: (x, [K.cast(s[0], "int32")]), _X, [floats(2, 4)]],
            {},
            ValueError,
            r"K\.rnn: .*state.*int32",
        ),
        (
            [running_sum, _X, [floats(2, 4)]],
            {"input_length": "3"},
            TypeError,
            r"K\.rnn: input_length",
        ),
    ],
)


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
        ([bools(), lambda: K.ones((2,)), lambda: K.ones((2, 1))], {}, ValueError, r"K\.switch: "),
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
    _X,
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


_ONE = K.ones((1,))
case(
    "in_train_phase",
    _F,
    _G,
    oracle=lambda x, alt: alt,
    smooth=True,
    eager=False,
    batch=(0, 1),
    errors=[([lambda: 1.0 * _ONE, lambda: _ONE[0]], {}, ValueError, r"K\.in_train_phase: ")],
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
