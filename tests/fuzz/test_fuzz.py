"""A few of the fuzzer's programs and bad calls in each run of the tests, and all past failures."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane.known_engines import ENGINES
from fuzz import ledger, processes
from fuzz.bad_calls import calls, judged
from fuzz.corpus import CORPUS
from fuzz.programs import LEAST, Built, Check, check_of, written
from fuzz.reference import Evaluation, expected
from fuzz.search import Result, failure, prepared, results, shrunk
from fuzz.writer import operations

# Random programs draw from_logits beside a softmax, too. K warns, and computes what was asked.
pytestmark = pytest.mark.filterwarnings("ignore:.*received .from_logits=True.:UserWarning")

PROGRAMS = 40
SECONDS = 12.0
EVERY = 11
"""One bad call of so many is made on each engine, and others on the next engine."""


@pytest.fixture
def clean_seed() -> Iterator[None]:
    """Bad calls set seeds."""
    yield
    K.set_random_seed(None)


once = cache(prepared)
"""Programs and their references are the same for all engines."""


def test_random_programs(engine: Any) -> None:
    end, outcomes = time.monotonic() + SECONDS, []
    for seed in range(PROGRAMS):
        [result] = results(seed, [engine.name], once)
        assert result.outcome != "failed", result.failure
        outcomes.append(result.outcome)
        if time.monotonic() > end and "compared" in outcomes:
            break
    assert "compared" in outcomes


def test_a_seed_is_a_program_of_many_operations() -> None:
    programs = [written(seed) for seed in range(12)]
    assert [p.text() for p in programs] == [written(seed).text() for seed in range(12)]
    for program in programs:
        with np.errstate(all="ignore"):
            built = Built(*check_of(program).build(K))
        assert operations(built.results) >= LEAST


@np.errstate(all="ignore")
def test_a_wrong_result_is_found_and_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference whose tangent is wrong in the fourth digit."""
    right = Evaluation.computed

    def computed(self: Evaluation, node: Any, operands: list[Any]) -> Any:
        return right(self, node, operands) * (1.001 if node.op.name == "tanh" else 1)

    monkeypatch.setattr(Evaluation, "computed", computed)
    program = next(p for p in map(written, range(100)) if failure(p, "numpy"))
    text = shrunk(program, "numpy", failure(program, "numpy") or AssertionError())
    assert "K.tanh(" in text
    assert text.count(" = K.") < 5


@pytest.mark.parametrize("program", CORPUS, ids=lambda f: f.__name__)
def test_past_failures(engine: Any, program: Any) -> None:
    halves = "float16 bfloat16".split()
    if program.__name__.endswith("in_halves"):
        for dtype in {*halves, "float32"} - engine.missing_dtypes:
            assert Check(partial(program, dtype=dtype)).outcome(engine.name) == "compared"
    else:
        assert Check(program).outcome(engine.name) == "compared"


@pytest.mark.parametrize("symbolic", [True, False], ids=["graph", "now"])
@pytest.mark.usefixtures("capsys", "clean_seed")
def test_bad_calls(engine: Any, symbolic: bool) -> None:
    first = list(ENGINES).index(engine.name) * (EVERY // len(ENGINES))
    made = 0
    for call in islice(calls(symbolic), first, None, EVERY):
        finding = judged(*call)
        assert finding is None, str(finding)
        made += 1
    assert made > 2000


def test_the_ledger_adds_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "PATH", tmp_path / "ledger.json")
    assert ledger.next_seed(ledger.load().get("torch", [])) == 0
    ledger.add([Result(n, "torch", "compared") for n in range(3)])
    ledger.add([Result(3, "torch", "failed", "…"), Result(5, "torch", "refused")])
    first, second = ledger.load()["torch"]
    assert (first["first"], first["last"], first["failing"]) == (0, 3, [3])
    assert (second["first"], second["last"]) == (5, 5)
    assert ledger.next_seed([first, second]) == 6
    sums = ledger.counts([first, second])
    assert sums == {"compared": 3, "refused": 1, "uncertain": 0, "failed": 1}


def test_a_process_that_dies_is_a_finding() -> None:
    task = processes.Task(["numpy", "torch"], range(7, 20), time.monotonic() + 60)
    task.process.kill()
    while not task.done:
        task.read()
    assert task.results[-1].outcome == "failed"
    place = len(task.results) - 1
    assert task.results[-1][:2] == (7 + place // 2, ("numpy", "torch")[place % 2])
    assert task.unfinished == range(8 + place // 2, 20)


@pytest.mark.parametrize("name", ["less", "floordiv", "div"])
def test_an_engine_may_be_behind_a_jump(name: str) -> None:
    """1 - tanh(9)² is 3e-8 in float64 and 0 in float32: what it decides is open, 1 < 2 is not."""
    x = K.placeholder((2,))
    rest = 1 - K.square(K.tanh(x))
    results = {"less": rest > 0, "floordiv": rest // -1.0, "div": rest / rest}
    [[(value, bound)]] = expected([results[name]], {x: np.array([0.3, 9.0])}, samples=40)
    assert bound[0] < 0.01
    assert bound[1] >= 1
    assert np.isfinite(value).all()


def test_powers_of_negative_numbers_are_compared() -> None:
    x = K.placeholder((2,))
    [[(value, bound)]] = expected([K.pow(x, 3)], {x: np.array([-2.0, -0.7])})
    np.testing.assert_allclose(value, [-8.0, -0.343])
    assert (bound < 1e-4).all()


def test_a_difference_of_equal_halves_may_be_the_rounding_of_one() -> None:
    """Of numbers that were computed; of others, and of what cancels less, nothing is open."""
    x = K.placeholder((3,), dtype="float16")
    y = K.softplus(x)
    moved = K.transpose(K.stack([y, y, y]))
    outputs = [y - K.stack([y, y]), moved - K.transpose(moved), x - K.stack([x, x])]
    [[(value, bound), moved, (_, given)]] = expected(
        outputs, {x: np.array([0.3, 2.0, 7.0])}, samples=40
    )
    size = np.logaddexp(0, [0.3, 2.0, 7.0])
    assert (value == 0).all()
    assert (bound < 3e-3 * size).all()
    assert (bound > 2.0**-11 * size).all()
    assert (np.diag(moved.bound) > 2.0**-11 * size).all()
    assert (given < 2e-4).all()


def test_a_normalization_may_scale_before_it_subtracts_the_mean() -> None:
    """`mean * scale` overflows in the second column; the first is compared."""
    x = K.placeholder((2, 2))
    scale = K.placeholder((2,))
    y = K.normalize_batch_in_training(x, scale, K.constant([0.0, 0.0]), [0])[0]
    leaves = {x: np.array([[2.0, 2.0], [2.01, 3.0]]), scale: np.array([1.0, 1e38])}
    [[(value, bound)]] = expected([y], leaves, samples=40)
    assert (bound[:, 0] < 1e-3).all()
    assert not np.isfinite(bound[:, 1]).any()
    assert np.isfinite(value).all()


def test_halves_may_keep_what_overflows_until_the_next_operation() -> None:
    """ONNX Runtime computes both exponentials in float32, and their difference is 0. In float32
    the difference of infinities is NaN on every engine.
    """
    for dtype, size, is_open in ("float16", 20.0, True), ("float32", 100.0, False):
        x = K.placeholder((12,), dtype=dtype)
        y = K.exp(x)
        z = K.sqrt(K.mean(y * y)) * K.constant(0.0, dtype)
        [[(value, bound), chain]] = expected([K.mean(y - y), z], {x: np.full(12, size)}, samples=40)
        assert np.isnan(value)
        assert np.isnan(chain.value)
        assert (bound == np.inf) == (chain.bound == np.inf) == is_open


def test_a_product_of_rounded_factors_may_be_fused_with_a_sum() -> None:
    """3 · (2/3) - 2 is 0, and -1.1e-16 with one rounding; 3 · 0.75 - 2.25 is 0 on every engine."""
    x = K.placeholder((2,), dtype="float64")
    y = K.constant([2.0 / 3.0, 0.75], "float64")
    leaves = {x: np.array([3.0, 3.0])}
    [[(value, bound)]] = expected([x * y - K.constant([2.0, 2.25], "float64")], leaves, samples=40)
    assert value.tolist() == [0, 0]
    assert 2e-16 < bound[0] < 1e-12
    assert bound[1] < 1e-300


def test_casts_that_overflow_may_all_give_the_same_number() -> None:
    """JAX makes 0 of all negative floats, so the largest one is 3."""
    x = K.placeholder((100,))
    given = np.full(100, -1.0)
    given[7] = 3.0
    y, z = K.max(K.cast(x, "uint8")), K.max(K.cast(K.abs(x), "uint8"))
    [[(_, bound), (value, exact)]] = expected([y, z], {x: given}, samples=40)
    assert bound == np.inf
    assert (value, exact) == (3, 0)


def test_a_mask_may_choose_between_nan_and_zero() -> None:
    """The gradient of a maximum is a share, by a cast comparison: XLA chooses by that."""
    x, upstream, factor = K.placeholder((3,)), K.placeholder(()), K.placeholder((3,))
    of_largest = K.gradients(K.max(x) * upstream, [x])[0]
    leaves = {x: np.array([1.0, 3.0, 3.0]), upstream: np.nan, factor: np.array([0.0, 2.0, np.nan])}
    products = [of_largest, factor * upstream, K.constant([0.0, 1.0, 2.0]) * factor]
    masked, plain, constants = expected(products, leaves, samples=40)[0]
    assert np.isnan(masked.value).all()
    assert masked.bound.tolist()[0] == np.inf
    assert (masked.bound[1:] < 1e-3).all()
    assert (plain.bound < 1e-3).all()
    assert (constants.bound < 1e-3).all()


def test_where_the_maximum_of_a_window_with_nan_is_open() -> None:
    """The second row of windows has NaN. Other windows are compared, also those with -inf."""
    x, factor = K.placeholder((1, 4, 2, 1)), K.placeholder((1, 3, 1, 1))
    y = K.pool2d(x, (2, 2), (1, 1), "valid")
    given = np.array([[9.0, 1.0], [2.0, 3.0], [np.nan, 7.0], [5.0, 8.0]])
    factors = np.array([1.0, 10.0, 100.0])
    leaves = {x: given.reshape(1, 4, 2, 1), factor: factors.reshape(1, 3, 1, 1)}
    [[(_, pooled), (value, slope)]] = expected(
        [y, K.gradients(y * factor, [x])[0]], leaves, samples=40
    )
    assert (pooled[0, :, 0, 0] < 1e-3).tolist() == [True, False, False]
    assert value[0, 0, :, 0].tolist() == [1, 0]
    assert (slope[0, 0] < 1e-3).all()
    assert (slope[0, 1] >= 10).all()
    assert (slope[0, 2:] >= 100).all()


def test_integers_that_a_float_compares_are_exact() -> None:
    """The bound of rounding is that of a float: 3 is less than 3.0000001, or equal; 3 and 3 are."""
    x = K.placeholder((2,), dtype="int32")
    [[(value, bound)]] = expected([K.equal(x, x)], {x: np.array([3.0, 4.0])}, samples=40)
    assert value.all()
    assert (bound == 0).all()


def test_a_maximum_of_convolutions_with_nan_is_open() -> None:
    """Kernels may leave NaN · 0 out at the border. The second sample has no NaN in its kernel."""
    x, kernel = K.placeholder((1, 4, 1)), K.placeholder((2, 1, 1))
    largest = K.max(K.conv1d(x, kernel, padding="same"), axis=1)
    data = np.arange(4.0).reshape(1, 4, 1)
    for value, is_open in (np.nan, True), (2.0, False):
        leaves = {x: data, kernel: np.array([1.0, value]).reshape(2, 1, 1)}
        for seed in range(20):
            [[(_, bound)]] = expected([largest], leaves, seed=seed)
            assert (bound == np.inf).all() == is_open


def test_a_comparison_of_convolutions_with_nan_is_open() -> None:
    x, kernel = K.placeholder((1, 4, 1)), K.placeholder((2, 1, 1))
    y = K.conv1d(x, kernel, padding="same")
    leaves = {x: np.arange(4.0).reshape(1, 4, 1), kernel: np.array([1.0, np.nan]).reshape(2, 1, 1)}
    [[(_, bound)]] = expected([K.greater(y, y - y)], leaves, samples=40)
    assert (bound == np.inf).all()


def test_a_mean_overflows_where_its_sum_does() -> None:
    x = K.placeholder((2, 20))
    data = np.stack([np.full(20, 4e37), np.full(20, 4e35)])
    [[(value, bound)]] = expected([K.mean(x, axis=1)], {x: data}, samples=40)
    np.testing.assert_allclose(value, [4e37, 4e35])
    assert bound[0] == np.inf
    assert bound[1] < 1e31


def test_what_is_nearly_a_whole_number_may_be_cast_to_it() -> None:
    x = K.placeholder((3,))
    [[(value, bound)]] = expected(
        [K.cast(K.tanh(x), "int16")], {x: np.array([-8.5, 8.5, 0.9])}, samples=40
    )
    assert value.tolist() == [0, 0, 0]
    assert bound.tolist() == [np.inf, np.inf, 0]
