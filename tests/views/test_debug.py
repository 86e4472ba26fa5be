"""`K.debug` names the first tensor with NaN or Inf, on every engine."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import waiting
from backplane import backend as K
from documents.covering import covers


def loss_of(p):
    return K.mean(K.log(p))


def training():
    """A function with a gradient and an update, its input and its variable."""
    x, w = K.placeholder((None, 2), name="x"), K.variable(np.ones((2, 2)), name="w")
    loss = loss_of(K.dot(x, w))
    (g,) = K.gradients(loss, [w])
    return K.function([x], [loss], updates=[K.update_sub(w, g)], name="train"), w


GOOD, ZERO = np.ones((2, 2)), np.array([[0.0, 0.0], [1.0, 1.0]])


@covers("debug")
def test_the_finding_names_the_op_the_lines_and_the_operands(engine):
    f, w = training()
    f([GOOD])
    before = K.get_value(w)
    with K.debug() as found, pytest.raises(FloatingPointError) as caught:
        f([ZERO])
    (finding,) = found.findings
    assert finding.tensor.op.name == "log"
    assert (finding.result.infs, finding.result.nans) == (2, 0)
    assert finding.operands[0][1].low == 0
    lines = str(caught.value).splitlines()
    assert (
        lines[0]
        == "K.debug: log gives 2 Inf among 4 numbers, in call 1 of 'train' on " + engine.name
    )
    assert lines[1].endswith("in loss_of: return K.mean(K.log(p))")
    assert lines[2].endswith("in training: loss = loss_of(K.dot(x, w))")
    assert any(line.startswith("  operand 0: float32 (2, 2), min 0,") for line in lines)
    np.testing.assert_array_equal(K.get_value(w), before)


def test_results_and_updates_are_those_of_the_compiled_function(engine):
    (f, w), (g, v) = training(), training()
    compiled = f([GOOD])
    with K.debug() as found:
        watched = g([GOOD])
    np.testing.assert_allclose(watched, compiled, rtol=1e-6)
    np.testing.assert_allclose(K.get_value(v), K.get_value(w), rtol=1e-5)
    assert not found.findings
    assert repr(found) == "K.debug: no NaN or Inf so far"


def test_a_gradient_alone_may_be_the_first(engine):
    x = K.variable([0.0, 4.0])
    (g,) = K.gradients(K.sum(K.pow(x, 0.5)), [x])
    with K.debug() as found, pytest.raises(FloatingPointError, match="in the gradient of "):
        K.function([], [g])([])
    assert found.findings[0].tensor.where.gradient


def test_a_leaf_that_is_fed_with_nan_is_named(engine):
    f, _ = training()
    with K.debug(), pytest.raises(FloatingPointError, match="placeholder 'x' holds 1 NaN among 4"):
        f([[[np.nan, 1.0], [1.0, 1.0]]])


def test_the_step_of_a_loop_is_named(engine):
    x = K.placeholder((1, 3))
    last, _, _ = K.rnn(lambda i, s: (K.log(i + s[0]), [s[0]]), K.expand_dims(x), [K.zeros((1, 1))])
    f = K.function([x], [last])
    with (
        K.debug() as found,
        pytest.raises(FloatingPointError, match="in step 1 of the scan built at"),
    ):
        f([[[1.0, -1.0, 1.0]]])
    assert [step for _, step in found.findings[0].loops] == [1]


def test_only_the_branch_that_is_taken_counts(engine):
    x = K.placeholder(())
    f = K.function([x], [K.switch(x > 0.0, lambda: x * 2.0, lambda: K.log(x))])
    with K.debug():
        assert f([3.0]) == [6.0]
        with pytest.raises(FloatingPointError, match="log gives 1 NaN"):
            f([-3.0])


def test_a_while_loop_runs_step_by_step(engine):
    n = K.placeholder((), dtype="int32")
    total = K.foldl(lambda a, i: a + i, K.arange(5))
    f = K.function([n], [total + n])
    with K.debug():
        assert f([1]) == [11]


def test_reporting_goes_on_and_lists_each_line_once(engine, capsys):
    x = K.placeholder((2, 2))
    f = K.function([x], [loss_of(x), K.exp(1.0 / x)])
    with K.debug(stop=False) as found:
        for _ in range(2):
            assert f([ZERO])[0] == -np.inf
    assert [finding.tensor.op.name for finding in found.findings] == ["log", "div"]
    assert capsys.readouterr().err.count("K.debug: log gives 2 Inf") == 1


def test_infinities_may_be_meant(engine):
    x = K.placeholder((2,))
    f = K.function([x], [K.log(x)])
    with K.debug(inf=False):
        assert f([[0.0, 1.0]])[0].tolist() == [-np.inf, 0.0]
        with pytest.raises(FloatingPointError, match="1 NaN"):
            f([[-1.0, 1.0]])


def test_evaluation_sessions_and_eager_calls_are_watched(engine):
    x = K.placeholder((2,))
    with K.debug():
        with pytest.raises(FloatingPointError, match="call 1 of 'eval'"):
            K.eval(K.log(K.variable([0.0, 1.0])))
        with pytest.raises(FloatingPointError, match=r"of 'session\.run'"):
            K.get_session().run(K.log(x), {x: [0.0, 1.0]})
        if "eager" in engine.capabilities:
            with pytest.raises(FloatingPointError, match="of 'eager calls'"):
                K.log(engine.from_numpy(np.array([-1.0], "float32")))
            assert engine.to_numpy(K.exp(engine.from_numpy(np.zeros(1, "float32")))) == [1.0]


def test_random_numbers_are_those_of_a_normal_call(engine):
    def drawn():
        K.set_random_seed(7)
        return K.function([], [K.random_uniform((4,))])

    with K.debug():
        watched = drawn()([])[0]
    np.testing.assert_allclose(watched, drawn()([])[0], rtol=1e-6)


def test_functions_are_as_quick_outside_as_before():
    f, _ = training()
    f([GOOD])
    call, slot = f.__call__, type(f).__call__
    with K.debug():
        g, _ = training()
        f([GOOD])
        g([GOOD])
    assert type(f).__call__ is slot
    assert f.__call__ is call
    g([GOOD])
    assert g.__call__ is g._function.call


def test_other_threads_are_not_watched():
    f, _ = training()
    results = []
    with K.debug():
        thread = threading.Thread(target=lambda: results.append(f([ZERO])))
        thread.start()
        waiting.joined(thread)
    assert results == [[-np.inf]]


def test_a_failure_names_the_op_in_the_users_words(engine):
    x, y = K.placeholder((None,)), K.placeholder((None,))
    f = K.function([x, y], [x * y])
    with K.debug(), pytest.raises(Exception) as caught:
        f([[1.0, 2.0], [1.0, 2.0, 3.0]])
    assert "while running 'mul'" in caught.value.__notes__[0]
