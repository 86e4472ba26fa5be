"""rnn with results that are written out: sums, masks, lengths."""

from __future__ import annotations

from typing import Any

import numpy as np

from cases.record import case, values
from cases.steps import running_sum

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
