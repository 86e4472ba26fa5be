"""PyTensor: steps of optimizers in place; in loops of Numba they give the bits of NumPy's calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("pytensor")

import numba

from backplane import backend as K
from backplane import engines
from backplane.core.atomic import at_once
from backplane.engines import kernels
from backplane.engines.arrays.engine import ArrayEngine
from backplane.engines.arrays.fast import updates
from backplane.engines.formulas import Formula, formula
from backplane.engines.pytensor.fast import updates as loops

SHAPES = [(37, 5), (11,), (0, 3), ()]
FORMS: dict[str, tuple[str, int, tuple[float, ...], dict[str, bool]]] = {
    "gradient": ("gradient_update", 1, (-0.01,), {}),
    "momentum": ("momentum_update", 2, (0.9, -0.01, 1.0), {"nesterov": False}),
    "scaled momentum": ("momentum_update", 2, (0.9, 0.1, -0.01), {"nesterov": False}),
    "nesterov": ("momentum_update", 2, (0.9, -0.01, 0.9), {"nesterov": True}),
    "adam": ("adam_update", 3, (0.01, 0.9, 0.999, 1e-7), {}),
    "negative squares": ("adam_update", 3, (0.01, 0.9, 1.5, 1e-7), {}),
    "adamax": ("adamax_update", 3, (0.01, 0.9, 0.999, 1e-7), {}),
    "amsgrad": ("amsgrad_update", 4, (0.01, 0.9, 0.999, 1e-7), {}),
}


class Spy:
    """`loops.loop`, which notes what it is asked for."""

    def __init__(self) -> None:
        self.rules: list[Formula] = []

    def __call__(self, rule: Formula, dtype: str, elements: int) -> Any:
        self.rules.append(rule)
        return loops.loop(rule, dtype, elements)


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Spy:
    """Loops for steps of any size."""
    monkeypatch.setitem(kernels.FORCED, "theano.updates", 0)
    return Spy()


def trained(
    form: str, dtype: str, special: float | None = None, **options: Any
) -> list[np.ndarray]:
    """Parameters and states after three steps. A `special` number is in the last gradients."""
    name, kinds, numbers, params = FORMS[form]
    function = {**updates.TABLE, **updates.LARGE}[name].function
    rng = np.random.default_rng(0)
    state = [rng.normal(size=shape).astype(dtype) for shape in SHAPES]
    state += [np.zeros(shape, dtype) for shape in SHAPES] * (kinds - 1)
    scalars = [np.asarray(x) for x in numbers]
    for step in range(3):
        gs = [np.asarray(rng.normal(size=shape), dtype) for shape in SHAPES]
        gs[0] = np.asfortranarray(gs[0])
        if special is not None and step == 2:
            gs[0][::3] = special
        gs[1] = np.repeat(gs[1], 2)[::2]
        gs[2].flags.writeable = False
        state, calls = function(*scalars, *state, *gs, **params, **options)
        at_once(calls)
    return state


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("form", FORMS)
def test_a_loop_keeps_nan_as_blocks_do(loop: Spy, form: str, special: float) -> None:
    """The larger of a number and NaN is NaN."""
    with np.errstate(all="ignore"):
        found = trained(form, "float32", special, loop=loop)
        wanted = trained(form, "float32", special)
    assert any(np.isnan(x).any() or np.isinf(x).any() for x in wanted)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("form", FORMS)
def test_a_loop_computes_what_blocks_do(loop: Spy, form: str, dtype: str) -> None:
    found = trained(form, dtype, loop=loop)
    assert len(loop.rules) == 2  # the first step copies, in NumPy
    for a, b in zip(found, trained(form, dtype), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def test_what_users_put_into_a_variable_is_not_written_to(loop: Spy) -> None:
    with engines.use("theano"):
        w, m = K.variable(np.ones((4, 3))), K.zeros((4, 3))
        m_t = 0.5 * m - 0.25 * (w + 1.0)
        f = K.function([], [], [K.update(m, m_t), K.update(w, w + m_t)])
        f([])
        f([])
        before = K.get_value(w)
        K.set_value(m, given := np.ones((4, 3), "float32"))
        f([])
        np.testing.assert_array_equal(given, 1)
        np.testing.assert_allclose(K.get_value(w), before + 0.5 - 0.25 * (before + 1))


def test_the_root_of_a_negative_second_moment_is_zero(loop: Spy) -> None:
    v, one = np.full(3, -1e-3), np.ones(3)
    state: list[Any] = [one, one, v]
    step = updates.TABLE["adam_update"].function
    for _ in range(2):
        state, calls = step(0.01, 0.9, 1.0, 1e-7, *state, 0 * one, loop=loop)
        at_once(calls)
    assert not any(rule.positive for rule in loop.rules)
    np.testing.assert_allclose(state[0], 1 - 0.01 * (0.9 + 0.81) / 1e-7)


def test_a_program_uses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Formula] = []
    monkeypatch.setattr(loops, "limit", lambda *_: 0)
    monkeypatch.setattr(loops, "_compiled", lambda rule, dtype: asked.append(rule))
    with engines.use("theano"):
        w = K.variable(np.ones((4, 3)))
        f = K.function([], [], [K.update(w, w - 0.1 * (w + 1.0))])
        f([])
        f([])
    assert asked == [formula("gradient_update", (), ones=(), positive=False)]


def test_nothing_is_compiled_where_users_forbid_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    assert loops._compiled.__wrapped__(formula("adam_update", ()), "float32") is None


def test_few_elements_are_left_to_numpy() -> None:
    assert loops.loop(formula("adam_update", ()), "float32", 1) is None


def test_a_step_of_adam_is_one_operation_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    commit = ArrayEngine.commit
    monkeypatch.setattr(
        ArrayEngine, "commit", lambda self, calls: (runs.append(len(calls)), commit(self, calls))
    )

    def trained(name: str, steps: int) -> list[np.ndarray]:
        with engines.use(name):
            start = np.random.default_rng(0).normal(size=(300, 7)).astype("float32")
            w, m, v = K.variable(start), K.zeros((300, 7)), K.zeros((300, 7))
            x = K.placeholder((None, 300))
            y = K.dot(x, w)
            (g,) = K.gradients(K.sum(K.square(y)), [w])
            m_t, v_t = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * K.square(g)
            new = w - 0.01 * m_t / (K.sqrt(v_t) + 1e-7)
            f = K.function([x], [y], [K.update(w, new), K.update(m, m_t), K.update(v, v_t)])
            values = []
            for _ in range(steps):
                # What was read before a step stays as it was.
                values += [*f([np.ones((2, 300), "float32")]), *K.batch_get_value([w, m, v])]
            return values

    found = trained("theano", 3)
    assert len(runs) == 3
    wanted = trained("numpy", 3)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * np.abs(b).max())


def test_old_values_are_read_before_a_step_writes_over_them() -> None:
    with engines.use("theano"):
        w, m = K.variable(np.ones((40, 40))), K.zeros((40, 40))
        m_t = 0.5 * m - 0.25 * (w + 1.0)
        f = K.function([], [K.sum(w), K.dot(w, w)], [K.update(m, m_t), K.update(w, w + m_t)])
        for value in (1.0, 0.5):
            total, product = f([])
            np.testing.assert_allclose(total, 1600 * value)
            np.testing.assert_allclose(product, np.full((40, 40), 40 * value * value))


def test_a_mode_of_pytensor_keeps_the_steps_as_they_are_written() -> None:
    engine = engines.get("theano")
    assert engine.updates_in_place({})
    assert not engine.updates_in_place({"compile": True})
