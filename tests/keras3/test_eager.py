"""Calls of `keras.ops` on values."""

import pytest

from keras3.outcomes import names

EXPECTED = {
    "settings": [
        ["float32", False, [1, 1, 1, 2]],
        ["float16", True, [1, 3, 1, 1]],
        ["float32", False, [1, 1, 1, 2]],
    ],
    "numbers_of_other_types": [["int32", "float32", "int32", "int32"], [1.0, -1.0, 1.0]],
    "variables": [[3.0, 12.0], [6.0, 15.0], [9.0, 18.0], [2, 3]],
    "lists": [
        [2, 6], [5, 3], [4, 3], [3, 2], [6], [6, 1], 15.0, [2, 2], [[2, 3], [4, 5]],
        [[2, 3], [4, 6]],
    ],
    "settled": True,
    "recurrent": [13, True],
    "watched": 1,
    "written_to": [
        [1.0, 0.0], [[2.0, 3.0], [1.0, 2.0]], [[2.0, 3.0, 2.0, 3.0], [1.0, 2.0, 1.0, 2.0]],
        [[[2.0, 3.0], [2.0, 3.0]], [[1.0, 2.0], [1.0, 2.0]]], [1.25, 0.25],
    ],
    "steps_back": [
        [[2.0, 0.0], [5.0, 3.0]], [[2.0], [1.0], [0.0]], [3.0, 0.0], [3.0, 4.0, 5.0],
    ],
    "left_alone": [[[1.0] * 3] * 2, [[[[1.0] * 3] * 2] * 2]],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("program", names("eager_programs"))
def test_calls_on_values(outcomes, engine, program):
    assert outcomes.value("eager_programs", program, engine.name) == EXPECTED[program]
