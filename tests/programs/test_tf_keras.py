"""What K has from tf.keras 2.0 to 2.15 beyond the documents."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import numpy as np
import pytest

import waiting
from backplane import backend as K
from backplane.core.context import set_default_mode
from documents.covering import covers

LOGITS = [[8.0, 1.0, 1.0], [0.0, 9.0, 1.0], [2.0, 3.0, 5.0]]


@pytest.mark.parametrize(
    ("name", "activation", "target"),
    [
        ("binary_crossentropy", "sigmoid", np.eye(3)),
        ("binary_focal_crossentropy", "sigmoid", np.eye(3)),
        ("categorical_crossentropy", "softmax", np.eye(3)),
        ("categorical_focal_crossentropy", "softmax", np.eye(3)),
        ("sparse_categorical_crossentropy", "softmax", np.arange(3)),
    ],
)
def test_probabilities_where_logits_are_meant_warn_at_the_users_line(
    engine: object, name: str, activation: str, target: Any
) -> None:
    p = getattr(K, activation)(K.constant(LOGITS))
    with pytest.warns(UserWarning, match="received `from_logits=True`") as caught:
        found = getattr(K, name)(target, p, from_logits=True)
    assert [w.filename for w in caught] == [__file__]
    # They are taken for logits, as if no activation had made them.
    wanted = getattr(K, name)(target, K.constant(K.eval(p)), from_logits=True)
    np.testing.assert_allclose(K.eval(found), K.eval(wanted), rtol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        getattr(K, name)(target, K.constant(LOGITS), from_logits=True)
        getattr(K, name)(target, p)


def test_what_stands_at_an_ignored_class_has_no_influence(engine: object) -> None:
    x = K.placeholder((3, 3))
    for from_logits in (False, True):
        loss = K.sparse_categorical_crossentropy(
            np.array([0, -1, 2]), x, from_logits=from_logits, ignore_class=-1
        )
        values, slopes = K.function([x], [loss, K.gradients(loss, [x])[0]])(
            [[[0.1, 0.2, 0.7], [np.nan, np.inf, 0.0], [0.3, 0.6, 0.1]]]
        )
        np.testing.assert_array_equal(values > 0, [True, False, True])
        np.testing.assert_array_equal(slopes != 0, [[True] * 3, [False] * 3, [True] * 3])
        assert np.isfinite(slopes).all()
    kept = K.sparse_categorical_crossentropy([0, -1], K.constant(LOGITS[:2]), True, ignore_class=-1)
    np.testing.assert_array_equal(K.eval(kept._keras_mask), [True, False])


def test_focal_losses_without_focus_are_the_plain_ones(engine: object) -> None:
    target, p = K.constant(np.eye(3)), K.softmax(K.constant(LOGITS))
    found = K.categorical_focal_crossentropy(target, p, alpha=1.0, gamma=0.0)
    np.testing.assert_allclose(
        K.eval(found), K.eval(K.categorical_crossentropy(target, p)), atol=1e-5
    )
    found = K.binary_focal_crossentropy(target, p, gamma=0.0)
    np.testing.assert_allclose(K.eval(found), K.eval(K.binary_crossentropy(target, p)), atol=1e-5)


@covers("learning_phase_scope")
@covers("symbolic_learning_phase", spec=True)
def test_the_learning_phase_of_a_block(engine: object) -> None:
    x, alt = K.constant(2.0), K.constant(3.0)
    outside = K.learning_phase()
    assert outside is K.symbolic_learning_phase()
    assert K.ndim(outside) == 0
    with K.learning_phase_scope(1):
        assert K.learning_phase() == 1
        assert K.eval(K.in_train_phase(x, alt)) == 2
        assert K.symbolic_learning_phase() is outside
        with K.learning_phase_scope(0):
            assert K.eval(K.in_train_phase(x, alt)) == 3
        seen: list[Any] = []
        other = threading.Thread(target=lambda: seen.append(K.learning_phase()))
        other.start()
        waiting.joined(other)
        assert seen == [outside]
        K.set_learning_phase(0)
        assert K.learning_phase() == 0
    assert K.learning_phase() is outside
    K.set_learning_phase(1)
    with K.learning_phase_scope(0):
        assert K.learning_phase() == 0
    assert K.learning_phase() == 1
    for value in (None, 2, "train"):
        with pytest.raises(ValueError, match=r"K\.learning_phase_scope: value must be 0 or 1"):
            K.learning_phase_scope(value)


def test_eager_calls_follow_the_block_although_programs_are_kept(engine: object) -> None:
    @K.eager
    def value() -> float:
        return float(K.in_train_phase(K.square(K.variable(2.0)), K.square(K.variable(3.0))))

    assert value() == 9
    for phase in (1, 0, 1):
        with K.learning_phase_scope(phase):
            assert value() == (4 if phase else 9)
    assert K.eager(K.learning_phase)() == 0
    assert not K.eager(K.global_learning_phase_is_set)()
    with K.learning_phase_scope(0):
        assert K.global_learning_phase_is_set()
    undo = set_default_mode("eager")  # As `backplane.interop.keras3.install` does.
    try:
        assert K.learning_phase() is K.symbolic_learning_phase()
    finally:
        undo()


@covers("get_graph")
def test_a_graph_that_is_asked_for() -> None:
    graph = K.get_graph()
    assert graph is K.get_graph()
    assert graph is K.get_session().graph
    assert K.get_session((K.ones((1,)),)) is K.get_session()
    with graph.as_default() as inside:
        assert inside is graph
        assert K.is_symbolic(K.exp(np.ones(2)))
    assert isinstance(K.exp(np.ones(2)), type(K.exp(np.ones(3))))
    assert not K.is_symbolic(K.exp(np.ones(2)))
    with pytest.raises(AttributeError, match=r"no attribute 'get_operations'.*as_default"):
        graph.get_operations()
    K.clear_session()
    assert K.get_graph() is not graph


def test_names_of_arguments() -> None:
    assert K.batch_get_value(tensors=[K.zeros(())]) == [0.0]
    before = K.epsilon()
    K.set_epsilon(value=1e-3)
    assert K.epsilon() == 1e-3
    K.set_epsilon(before)
    K.set_floatx(value="float64")
    assert K.dtype(K.zeros(())) == "float64"
    K.set_floatx("float32")


def test_tensors_in_the_default_float_type(engine: Any) -> None:
    found = K.cast_to_floatx(K.variable(1, dtype="float64"))
    assert K.dtype(found) == "float32"
    assert K.eval(found) == 1
    native = K.cast_to_floatx(engine.from_numpy(np.ones(2, "int32")))
    assert type(native) is type(engine.from_numpy(np.ones(2, "float32")))
    assert K.eval(native).dtype == "float32"
    assert type(K.cast_to_floatx(2)) is np.ndarray


def test_placeholders_say_what_cannot_be_left_open() -> None:
    with pytest.raises(NotImplementedError, match=r"K\.placeholder: ragged=True.* with a mask"):
        K.placeholder((None, None), ragged=True)
    assert K.int_shape(K.placeholder((None, 2), ragged=False)) == (None, 2)
    with pytest.raises(ValueError, match=r"every tensor has a known number of axes.*ndim=2"):
        K.placeholder()


@pytest.mark.parametrize("unroll", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("time_major", [False, True])
def test_the_last_output_alone(
    engine: object, unroll: bool, masked: bool, time_major: bool
) -> None:
    x = np.arange(12, dtype="float32").reshape(2, 3, 2)
    mask = np.array([[1, 1, 0], [0, 1, 1]], bool)
    if time_major:
        x, mask = x.swapaxes(0, 1), mask.T

    def run(**kwargs: Any) -> list[Any]:
        return K.rnn(
            lambda x, states: (x + states[0], [x + states[0]]),
            K.constant(x),
            [K.zeros((2, 2))],
            mask=K.constant(mask, dtype="bool") if masked else None,
            unroll=unroll,
            time_major=time_major,
            **kwargs,
        )

    last, outputs, states = run(return_all_outputs=False)
    wanted_last, all_outputs, wanted_states = map(K.eval, [*run()[:2], run()[2][0]])
    np.testing.assert_array_equal(K.eval(last), wanted_last)
    np.testing.assert_array_equal(K.eval(states[0]), wanted_states)
    axis = 0 if time_major else 1
    assert K.int_shape(outputs)[axis] == 1
    np.testing.assert_array_equal(K.eval(outputs), np.take(all_outputs, [-1], axis))


@pytest.mark.parametrize("greedy", [True, False])
@pytest.mark.parametrize("size", [None, 4])
def test_sequences_as_long_as_there_are_steps(engine: object, greedy: bool, size: Any) -> None:
    p = np.full((2, 4, 3), 0.1, "float32")
    p[0, :, 2] = 0.8
    p[0, 1] = [0.8, 0.1, 0.1]
    p[1, :, 1] = 0.8
    x = K.placeholder((None, size, 3))
    paths, _ = K.ctc_decode(x, [4, 3], greedy, top_paths=1, pad_to_steps=True)
    found = K.function([x], paths)([p])[0]
    np.testing.assert_array_equal(found, [[0, -1, -1, -1], [1, -1, -1, -1]])
    native = K.ctc_decode(p, [4, 3], greedy, top_paths=1, pad_to_steps=True)[0][0]
    np.testing.assert_array_equal(K.eval(native), found)


def test_a_condition_with_more_axes_than_an_expression() -> None:
    x, y = K.constant(np.ones((2, 3))), K.constant(np.ones(3))
    for then, orelse, what in ((y, x, "then_expression"), (x, y, "else_expression")):
        with pytest.raises(ValueError, match=rf"K\.switch: condition has 2 axes.* 1 of {what}"):
            K.switch(K.equal(x, x), lambda then=then: then, lambda orelse=orelse: orelse)
    np.testing.assert_array_equal(K.eval(K.switch(K.equal(x, x), 0.0, x)), np.zeros((2, 3)))
    np.testing.assert_array_equal(K.eval(K.switch(K.equal(x, x), x, 0.0)), np.ones((2, 3)))


@covers("random_bernoulli", spec=True)
def test_bernoulli_samples(engine: object) -> None:
    K.set_random_seed(1)
    samples = K.random_bernoulli((2000,), p=0.25, dtype="int32", seed=3)
    assert (K.int_shape(samples), K.dtype(samples)) == ((2000,), "int32")
    found = K.eval(samples)
    assert found.dtype == "int32"
    np.testing.assert_array_equal(found, K.eval(K.random_binomial((2000,), 0.25, "int32", seed=3)))
    assert 0.2 < found.mean() < 0.3


def test_functions_of_dicts_and_nested_lists(engine: object) -> None:
    x, y, z = K.placeholder(()), K.placeholder((None,)), K.placeholder((2,))
    f = K.function({"x": x, "more": [y, (z,)]}, {"sum": x + K.sum(y), "parts": [(y * 2.0,), z]})
    for _ in range(2):
        found = f({"more": [[1.0, 2.0], ([3.0, 4.0],)], "x": 5.0})
        assert list(found) == ["sum", "parts"]
        assert found["sum"] == 8
        assert type(found["parts"][0]) is tuple
        np.testing.assert_array_equal(found["parts"][0][0], [2, 4])
        np.testing.assert_array_equal(found["parts"][1], [3, 4])
    (other,) = f.map([{"x": 0.0, "more": [[1.0], ([3.0, 4.0],)]}])
    assert other["sum"] == 1
    padded = f.in_buckets({0: 4}, check=False)({"x": 0.0, "more": [[1.0], ([3.0, 4.0],)]})
    np.testing.assert_array_equal(padded["parts"][0][0], [2])
    product = K.function({"a": x, "b": y}, [x * y])
    np.testing.assert_array_equal(product({"b": [2.0], "a": 3.0})[0], [6])
    for wrong, error, text in (
        ({"a": 1.0}, ValueError, r"inputs must have the keys \['a', 'b'\], got \['a'\]"),
        ([1.0, [2.0]], TypeError, r"inputs must be a dict with the keys \['a', 'b'\]"),
    ):
        with pytest.raises(error, match=text):
            product(wrong)
    with pytest.raises(ValueError, match=r"inputs\['more'\] must be a list of 2 values, got 1"):
        f({"x": 1.0, "more": [[1.0]]})
    with pytest.raises(TypeError, match=r"f\(a\); got 2 arguments"):
        product({"a": 1.0}, {"b": 1.0})
    with pytest.raises(TypeError, match=r"K\.function: inputs\[1\] must be a tensor"):
        K.function({"a": x, "b": "y"}, x)


def test_a_phase_in_a_nest(engine: object) -> None:
    x = K.placeholder(())
    y = K.in_train_phase(x * 2.0, x)
    f = K.function({"x": x, "phase": K.learning_phase()}, y)
    assert [f({"x": 3.0, "phase": p}) for p in (0, 1, None)] == [3, 6, 3]
    K.set_learning_phase(1)
    f = K.function({"x": x, "phase": K.learning_phase()}, K.in_train_phase(x * 2.0, x))
    assert f({"x": 3.0, "phase": 1}) == 6
    K.set_learning_phase(0)


def test_a_single_scalar_in_a_list_and_outside(engine: object) -> None:
    x = K.placeholder(())
    f = K.function(x, x * x)
    for value in (3.0, [3.0], (3,), np.float32(3), [np.float32(3)], np.array(3.0), [np.array(3.0)]):
        assert f(value) == 9
    vector = K.placeholder((None,))
    g = K.function(vector, K.sum(vector))
    assert g([1.0, 2.0]) == g([[1.0, 2.0]]) == 3
    assert g([4.0]) == 4


def test_variables_and_constants_are_fed_by_value(engine: object) -> None:
    x, n = K.placeholder((2,)), K.placeholder((), dtype="int32")
    v = K.variable([1.0, 2.0])
    f = K.function([x, n, K.learning_phase()], [x * 2.0, K.in_train_phase(n + 1, n)])
    for fed in (v, K.constant([1.0, 2.0]), K.variable([1.0, 2.0], dtype="float64")):
        found = f([fed, K.constant(3, dtype="int32"), None])
        np.testing.assert_array_equal(found[0], [2, 4])
        assert found[1] == 3
    K.set_value(v, [5.0, 5.0])
    np.testing.assert_array_equal(f([v, 3, 1])[0], [10, 10])
    with pytest.raises(TypeError, match="cannot be fed, only values"):
        f([K.placeholder((2,)), 3, 1])
    with pytest.raises(ValueError, match=r"takes shape \(2,\)"):
        f([K.zeros((3,)), 3, 1])


@covers(
    "RandomGenerator",
    "enable_tf_random_generator",
    "disable_tf_random_generator",
    "is_tf_random_generator_enabled",
)
def test_a_generator_of_layers(engine: object) -> None:
    def samples(source: Any, count: int = 2, **kwargs: Any) -> list[np.ndarray]:
        return [K.eval(source.random_normal((5,), **kwargs)) for _ in range(count)]

    for kind in ("stateful", "legacy_stateful"):
        a, b = samples(K.RandomGenerator(7, kind))
        assert (a != b).all()
        np.testing.assert_array_equal(samples(K.RandomGenerator(7, kind)), [a, b])
        K.set_random_seed(3)
        first = samples(K.RandomGenerator(rng_type=kind)), samples(K.RandomGenerator(rng_type=kind))
        K.set_random_seed(3)
        again = samples(K.RandomGenerator(rng_type=kind)), samples(K.RandomGenerator(rng_type=kind))
        np.testing.assert_array_equal(first, again)
        assert not np.array_equal(*first)
    K.set_random_seed(None)
    source = K.RandomGenerator(7, "stateless")
    a, b = samples(source)
    np.testing.assert_array_equal(a, b)
    (c,), (d,) = samples(source, 1, nonce=5), samples(source, 1, nonce=-6)
    assert not np.array_equal(a, c)
    assert not np.array_equal(c, d)
    key = source.make_seed_for_stateless_op()
    assert (key.dtype, key.shape) == ("uint32", (2,))
    assert K.RandomGenerator(rng_type="legacy_stateful").make_seed_for_stateless_op() is None


def test_what_a_generator_of_layers_draws(engine: object) -> None:
    source = K.RandomGenerator(1)
    assert source._rng_type == "stateful"
    uniform = K.eval(source.random_uniform((1000,), dtype="float64"))
    assert uniform.dtype == "float64"
    assert (uniform >= 0).all()
    assert (uniform < 1).all()
    assert set(K.eval(source.random_uniform((100,), 2, 5, "int32"))) == {2, 3, 4}
    assert abs(K.eval(source.truncated_normal((500,)))).max() <= 2
    kept = K.eval(source.dropout(K.ones((50, 4)), 0.5, (50, 1)))
    assert set(kept.ravel()) == {0, 2}
    assert (kept == kept[:, :1]).all()
    K.disable_tf_random_generator()
    assert K.RandomGenerator(1)._rng_type == "legacy_stateful"
    assert K.RandomGenerator(1, force_generator=True)._rng_type == "stateful"
    K.experimental.enable_tf_random_generator()
    assert K.is_tf_random_generator_enabled()
    with pytest.raises(ValueError, match="Got: unknown"):
        K.RandomGenerator(rng_type="unknown")
    with pytest.raises(TypeError, match=r"K\.RandomGenerator: seed must be an int"):
        K.RandomGenerator("a")


def test_initializers(engine: object) -> None:
    session = K.get_session()
    K.set_random_seed(5)
    drawn = K.random_uniform_variable((4,), 0.0, 1.0)
    given = K.variable([1.0, 2.0, 3.0])
    zeros, ones = K.zeros((2, 2)), K.variable(K.constant(1.0, shape=(3,)))
    first = K.get_value(drawn)
    train = K.function([], [], [(v, v + 2.0) for v in (drawn, given, zeros, ones)])
    train([])
    train([])
    for v in (given, zeros):
        assert hasattr(v, "initializer")
        v.initializer.run(session=session)
    session.run([ones.initializer, drawn.initializer])
    np.testing.assert_array_equal(K.get_value(given), [1, 2, 3])
    np.testing.assert_array_equal(K.get_value(zeros), np.zeros((2, 2)))
    np.testing.assert_array_equal(K.get_value(ones), np.ones(3))
    anew = K.get_value(drawn)
    assert (anew != first).all()
    assert (anew < 1).all()
    large = K.variable(np.arange(2**19, dtype="float32"))
    assert hasattr(large, "initializer")
    with pytest.raises(RuntimeError, match=r"is not kept: .* K\.set_value"):
        large.initializer.run()
    same = K.variable(np.full((2**19,), 3, "float32"))
    K.set_value(same, np.zeros(2**19))
    same.initializer.run()
    assert K.get_value(same).min() == 3
    text = K.variable(7, dtype="int64")
    K.set_value(text, 1)
    K.eval(text.initializer)
    assert K.get_value(text) == 7


def test_what_keras_has_noted_can_be_deleted() -> None:
    x = K.placeholder((None, 3))
    y = K.exp(x)
    y._keras_shape = (5, 3)
    assert K.int_shape(y) == (5, 3)
    del y._keras_shape
    assert not hasattr(y, "_keras_shape")
    assert K.int_shape(y) == (None, 3)
    with pytest.raises(AttributeError, match="_keras_shape"):
        del y._keras_shape
    y._keras_shape = (4, 3)
    assert y._keras_shape == (4, 3)
