"""Steps of optimizers as instructions compute what their primitives declare."""

from __future__ import annotations

import inspect
from itertools import product
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane.core.registry import PRIMITIVES
from backplane.engines.formulas import OPTIMIZER_STEPS, Instructions, counts, formula

UFUNCS: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "maximum": np.maximum,
    "sqrt": np.sqrt, "abs": np.abs,
}  # fmt: skip


class AtOnce(Instructions):
    """Runs instructions on arrays as they come."""

    def copy(self, out: Any, x: Any) -> None:
        out[...] = x

    def plain(self, name: str, out: Any, x: Any, y: Any) -> None:
        UFUNCS[name](*[x] if y is None else [x, y], out=out)

    def added(self, quotient: bool, out: Any, x: Any, y: Any, factor: Any) -> None:
        out += factor * (x if y is None else x / y if quotient else x * y)


def cases() -> list[Any]:
    found = []
    for name in OPTIMIZER_STEPS:
        parameters = inspect.signature(PRIMITIVES[name].infer_rule).parameters.values()
        options = [x.name for x in parameters if x.kind is x.KEYWORD_ONLY]
        choices = product((False, True), repeat=len(options))
        found += [(name, dict(zip(options, values, strict=True))) for values in choices]
    return found


@pytest.mark.parametrize(
    ("fuses", "more"), [(False, ()), (True, ()), (False, ((0,), False)), (False, ((), True))]
)
@pytest.mark.parametrize(("name", "params"), cases())
def test_instructions_compute_what_is_declared(
    name: str, params: dict[str, bool], fuses: bool, more: tuple[Any, ...]
) -> None:
    rng = np.random.default_rng(1)
    count, replaces = counts(name)
    numbers = [float(x) for x in rng.uniform(0.1, 0.9, count)]
    numbers = [1.0 if more and i in more[0] else x for i, x in enumerate(numbers)]
    tensors = [*rng.uniform(0.5, 0.7, (replaces + 1, 5))]  # All divisors are positive.
    given = [K.constant(x, "float64") for x in (*numbers, *tensors)]
    wanted = [K.eval(t) for t in PRIMITIVES[name].decomposition(*given, **params)]  # type: ignore[misc]
    rule = formula(name, tuple(params.items()), fuses, *more)
    gradient = tensors[-1].copy()
    scratch = [np.empty(5) for _ in range(rule.scratch)]
    rule.run(AtOnce(), rule.known(numbers), [*tensors, *scratch])
    for got, want in zip(tensors, [*wanted, gradient], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
