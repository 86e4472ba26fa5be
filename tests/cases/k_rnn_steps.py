"""rnn in all its forms, against the same steps in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from backplane import backend as K
from cases.record import bools, case, floats, ints, positive, values
from cases.steps import gated, of_state, row_sum, running_sum, simple, tanh, wide


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
