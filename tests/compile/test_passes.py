"""The list of passes: whole programs give the same numbers without any one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane import engines
from backplane.compile import passes
from backplane.compile.codegen import tiling
from backplane.compile.passes import PASSES, Job, without
from backplane.compile.program import clear_programs, statistics
from backplane.core.graph import toposort
from backplane.engines import kernels
from programs.programs import PROGRAMS, Numbers, deep_dream, masked_lstm

INSTALLED = [name for name in engines.names() if engines.installed(name)]
COMPILING = [name for name in INSTALLED if "eager" not in engines.get(name).capabilities][:1]
"""One engine with a graph of its own: one will do, because others get the same graphs."""

CASES = [
    ("numpy", PROGRAMS),
    *[(name, (deep_dream, masked_lstm)) for name in COMPILING],
]

_expected: dict[tuple[str, Callable[[], Numbers]], Numbers] = {}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Programs of a few elements go through blocks."""
    monkeypatch.setitem(kernels.FORCED, "numpy.blocks", 8)
    monkeypatch.setattr(tiling, "BLOCK", 64)
    clear_programs()
    yield
    clear_programs()


@pytest.mark.parametrize("off", passes.NAMES)
@pytest.mark.parametrize(
    ("name", "program"),
    [(name, program) for name, programs in CASES for program in programs],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_programs_without_a_pass(name: str, program: Callable[[], Numbers], off: str) -> None:
    with engines.use(name) as engine:
        if not passes.applies(off, Job(engine)) and off == "tiling":
            return  # It is never done on this engine.
        if (name, program) not in _expected:
            _expected[name, program] = program()
        wanted = _expected[name, program]
        with without(off):
            found = program()
    assert found.keys() == wanted.keys()
    for key, want in wanted.items():
        scale = np.abs(want).max()
        np.testing.assert_allclose(found[key], want, rtol=1e-4, atol=1e-4 * scale, err_msg=key)


def test_a_pass_that_is_not_on_the_list_cannot_be_switched_off() -> None:
    for name in ("lower", "no_such_pass"):
        with pytest.raises(ValueError, match=name), without(name):
            pass


def test_programs_know_what_was_switched_off() -> None:
    def compiled() -> int:
        x = K.placeholder(shape=(2,))
        K.function([x], [K.relu(x) * 1.0 + 0.25])([np.ones(2)])
        return statistics.compilations

    before = compiled()
    with without("simplify"):
        assert compiled() == before + 1
        with without("reuse"):
            assert compiled() == before + 2
        assert compiled() == before + 2
    assert compiled() == before + 2


def test_every_row_says_what_it_is_for() -> None:
    for row in PASSES:
        assert row.purpose
        assert row.gain
        assert row.run is not None or row.optional


def test_a_pass_runs_where_there_is_something_to_do(engine: Any) -> None:
    x = K.placeholder(shape=(3, 4))
    job = Job(engine)
    found = passes.optimized([K.tanh(x) * 1.0], job)
    assert len(toposort(found.known)) == 2
    with without("simplify"):
        assert len(toposort(passes.optimized([K.tanh(x) * 1.0], job).outputs)) > 2


def test_constants_are_folded_by_kernels_that_serve(engine: Any) -> None:
    """NumPy's kernel for the gradient of a softmax is for the last axis."""
    values = np.random.default_rng(0).normal(size=(2, 3, 4, 3)).astype("float32")
    x, w = K.placeholder((3, 4, 3)), K.constant(values[1])

    def slope(t: Any, axis: int) -> Any:
        return K.gradients(K.sum(K.softmax(t, axis) * w), [t])[0]

    for axis in (0, 1, 2):
        (known,) = K.function([], [slope(K.constant(values[0]), axis)])([])
        (fed,) = K.function([x], [slope(x, axis)])([values[0]])
        np.testing.assert_allclose(known, fed, rtol=1e-4, atol=1e-6)
