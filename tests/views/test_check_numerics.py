"""`K.check_numerics` and `K.print_tensor` in programs of every engine."""

from __future__ import annotations

import numpy as np
import pytest

from backplane import backend as K

BAD = {"NaN": [-1.0, 1.0], "Inf": [0.0, 1.0], "Inf and NaN": [0.0, -1.0]}


@pytest.mark.parametrize("kind", BAD)
def test_the_error_is_the_same_on_every_engine(engine, kind):
    x, v = K.placeholder((None,)), K.variable([1.0, 1.0])
    y = K.check_numerics(K.log(x), "the logarithm")
    f = K.function([x], [K.sum(y)], updates=[K.update_add(v, y)])
    assert f([[1.0, 1.0]]) == [0.0]
    with pytest.raises(
        FloatingPointError, match=rf"^the logarithm: the tensor has {kind}"
    ) as caught:
        f([BAD[kind]])
    assert "in test_the_error_is_the_same_on_every_engine" in caught.value.__notes__[0]
    np.testing.assert_array_equal(K.get_value(v), [1.0, 1.0])
    assert f([[1.0, 1.0]]) == [0.0]  # What failed can be called again.


def test_a_step_of_a_loop_is_checked(engine):
    x = K.placeholder((3,))
    f = K.function([x], [K.map_fn(lambda t: K.check_numerics(K.log(t), "a step"), x)])
    np.testing.assert_allclose(f([[1.0, 1.0, 1.0]])[0], 0, atol=1e-6)
    with pytest.raises(FloatingPointError, match=r"^a step: the tensor has NaN") as caught:
        f([[1.0, -1.0, 1.0]])
    assert "test_a_step_of_a_loop_is_checked" in caught.value.__notes__[0]


def test_a_branch_that_is_not_taken_is_not_checked(engine):
    x = K.placeholder(())
    y = K.switch(x > 0.0, lambda: K.check_numerics(K.log(x), "taken"), lambda: x)
    f = K.function([x], [y])
    assert f([-1.0]) == [-1.0]
    with pytest.raises(FloatingPointError, match=r"^taken: the tensor has Inf"):
        f([np.inf])


def test_gradients_pass_the_check(engine):
    x = K.placeholder((2,))
    (g,) = K.gradients(K.sum(K.check_numerics(x * x, "square")), [x])
    np.testing.assert_allclose(K.function([x], [g])([[1.0, 3.0]])[0], [2.0, 6.0])


def test_integers_empty_tensors_and_halves_pass(engine):
    x, n = K.placeholder((None, 2)), K.placeholder((2,), dtype="int32")
    f = K.function([x, n], [K.check_numerics(x), K.check_numerics(n)])
    assert [y.shape for y in f([np.zeros((0, 2)), [1, 2]])] == [(0, 2), (2,)]
    if "float16" not in engine.missing_dtypes:
        h = K.placeholder((2,), dtype="float16")
        half = K.function([h], [K.check_numerics(h)])
        assert half([[1.0, 2.0]])[0].tolist() == [1.0, 2.0]
        with pytest.raises(FloatingPointError, match=r"^K\.check_numerics: the tensor has Inf"):
            half([[np.inf, 1.0]])


def test_native_tensors_are_checked_at_once(engine):
    native = engine.from_numpy(np.array([1.0, np.nan], "float32"))
    if "eager" in engine.capabilities:
        with pytest.raises(FloatingPointError, match=r"^eager: the tensor has NaN"):
            K.check_numerics(native, "eager")


def test_the_message_of_an_equal_program_is_its_own(engine):
    x = K.placeholder((1,))
    for message in ("first", "second"):
        with pytest.raises(FloatingPointError, match=rf"^{message}: the tensor has NaN"):
            K.function([x], [K.check_numerics(x, message)])([[np.nan]])


def test_xla_is_refused_because_it_drops_the_check():
    pytest.importorskip("tensorflow")
    with K.engine("tensorflow"):
        x = K.placeholder((1,))
        f = K.function([x], [K.check_numerics(x)], compile=True)
        with pytest.raises(NotImplementedError, match=r"^K\.check_numerics: .*XLA drops"):
            f([[1.0]])


def test_jax_differentiates_through_the_check():
    jax = pytest.importorskip("jax")
    slope = jax.jit(jax.grad(lambda a: K.check_numerics(a * a, "square")))
    assert slope(3.0) == 6.0


# --- printing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "x is: [ 0.  1. nan]\n"),
        ({"format": ".2f"}, "x is: [0.00 1.00 nan]\n"),
        ({"summarize": 1}, "x is: [ 0. ... nan]\n"),
        ({"summary": True}, "x is: float32 (3,), min 0, max 1, mean 0.5, 1 NaN\n"),
    ],
)
def test_printing_looks_the_same_on_every_engine(engine, capfd, options, text):
    x = K.placeholder((3,))
    f = K.function([x], [K.print_tensor(x, "x is:", **options)])
    capfd.readouterr()
    f([[0.0, 1.0, np.nan]])
    assert capfd.readouterr().out == text


def test_all_of_a_long_tensor_is_printed(engine, capfd):
    x = K.placeholder((2000,))
    f = K.function([x], [K.print_tensor(x, summarize=-1)])
    capfd.readouterr()
    f([np.zeros(2000)])
    assert capfd.readouterr().out.count("0.") == 2000
