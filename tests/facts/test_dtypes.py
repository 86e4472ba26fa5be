"""An unknown dtype is the same kind of error in every function of K that takes one."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

from backplane import backend as K

ARGUMENTS: dict[str, Any] = {
    "shape": (2,), "value": 1.0, "size": 2, "low": 0, "high": 1, "scale": 1.0, "start": 3,
    "fn": lambda x: x, "elems": [1.0], "mean": 0.0,
}  # fmt: skip
FUNCTIONS = [
    name
    for name in K.__all__
    if inspect.isfunction(f := getattr(K, name)) and "dtype" in inspect.signature(f).parameters
]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("wrong", ["float33", "complex64", 3])
def test_an_unknown_dtype(name: str, wrong: object) -> None:
    parameters = inspect.signature(getattr(K, name)).parameters.values()
    needed = [p.name for p in parameters if p.default is p.empty or p.name == "shape"]
    given = {n: ARGUMENTS.get(n, [1.0]) for n in needed if n != "dtype"}
    said = f"K.{name}: dtype {wrong!r} is unknown"
    if name == "mixed_precision":  # It does not take all that there are.
        said = f"K.{name}: dtype must be one of bfloat16, float16, got {wrong!r}"
    with pytest.raises(ValueError, match=re.escape(said)):
        getattr(K, name)(**given, dtype=wrong)


def test_the_functions_are_found() -> None:
    assert {"cast", "variable", "placeholder", "random_normal", "zeros_like"} <= set(FUNCTIONS)
