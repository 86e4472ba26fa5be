"""The code examples of the documents, in the words of the newest that has them.

000 is the Keras 1 reference, 001 the R table, 002 the notebook, 003 the Keras 2.3 reference, 004
the tutorial. Where an example shows TensorFlow 1's print of a tensor, shape and dtype are compared.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from documents.covering import covers, shown

# --- introductions: all five --------------------------------------------------------------------


@covers("placeholder", spec=True)
def test_placeholders(engine: object) -> None:
    assert K.int_shape(K.placeholder(shape=(2, 4, 5))) == (2, 4, 5)
    assert K.int_shape(K.placeholder(shape=(None, 4, 5))) == (None, 4, 5)
    assert K.int_shape(K.placeholder(ndim=3)) == (None, None, None)


def test_variables(engine: object) -> None:
    val = np.random.default_rng(0).random((3, 4, 5))
    np.testing.assert_allclose(K.eval(K.variable(value=val)), val, rtol=1e-6)
    assert (K.eval(K.zeros(shape=(3, 4, 5))) == np.zeros((3, 4, 5))).all()
    assert (K.eval(K.ones(shape=(3, 4, 5))) == np.ones((3, 4, 5))).all()


def test_arithmetic(engine: object) -> None:
    b = K.random_uniform_variable(shape=(3, 4), low=0, high=1)
    c = K.random_normal_variable(shape=(3, 4), mean=0, scale=1)
    d = K.random_normal_variable(shape=(3, 4), mean=0, scale=1)
    u, v, w = K.batch_get_value([b, c, d])
    a = b + c * K.abs(d)
    np.testing.assert_allclose(K.eval(a), u + v * np.abs(w), rtol=1e-5, atol=1e-6)
    c = K.dot(a, K.transpose(b))
    np.testing.assert_allclose(K.eval(c), (u + v * np.abs(w)) @ u.T, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(K.eval(K.sum(b, axis=1)), u.sum(1), rtol=1e-6)
    soft = np.exp(u) / np.exp(u).sum(1, keepdims=True)
    np.testing.assert_allclose(K.eval(K.softmax(b)), soft, rtol=1e-5)
    assert K.int_shape(K.concatenate([b, c], axis=-1)) == (3, 7)


def test_the_sum_of_000_has_a_third_axis(engine: object) -> None:
    """`a = K.sum(b, axis=2)`, of tensors like those made before it."""
    b = K.ones(shape=(3, 4, 5))
    np.testing.assert_array_equal(K.eval(K.sum(b, axis=2)), np.full((3, 4), 5))


# --- functions ----------------------------------------------------------------------------------


def test_dot(engine: object) -> None:
    xy = K.dot(K.placeholder(shape=(2, 3)), K.placeholder(shape=(3, 4)))
    assert shown(xy) == ((2, 4), "float32")
    xy = K.dot(K.placeholder(shape=(32, 28, 3)), K.placeholder(shape=(3, 4)))
    assert shown(xy) == ((32, 28, 4), "float32")
    x = K.random_uniform_variable(shape=(2, 3), low=0, high=1)
    xy = K.dot(x, K.ones((4, 3, 5)))
    assert K.int_shape(xy) == (2, 4, 5)
    assert K.eval(xy).shape == (2, 4, 5)


def test_batch_dot(engine: object) -> None:
    """000 prints `[[17, 53]]` for the column of both."""
    x, y = K.variable([[1, 2], [3, 4]]), K.variable([[5, 6], [7, 8]])
    np.testing.assert_array_equal(K.eval(K.batch_dot(x, y, axes=1)), [[17], [53]])
    np.testing.assert_array_equal(
        K.eval(K.batch_dot(x, y, axes=1))[:, 0], np.diag(K.eval(K.dot(x, K.transpose(y))))
    )
    shapes = K.batch_dot(K.placeholder((100, 20)), K.placeholder((100, 30, 20)), axes=(1, 2))
    assert K.int_shape(shapes) == (100, 30)
    x_batch, y_batch = K.ones(shape=(32, 20, 1)), K.ones(shape=(32, 30, 20))
    xy_batch_dot = K.batch_dot(x_batch, y_batch, axes=(1, 2))
    assert K.int_shape(xy_batch_dot) == (32, 1, 30)
    np.testing.assert_array_equal(K.eval(xy_batch_dot), np.full((32, 1, 30), 20))


def test_transpose(engine: object) -> None:
    var = K.variable([[1, 2, 3], [4, 5, 6]])
    expected = np.array([[1, 2, 3], [4, 5, 6]], "float32")
    np.testing.assert_array_equal(K.eval(var), expected, strict=True)
    np.testing.assert_array_equal(K.eval(K.transpose(var)), expected.T, strict=True)
    assert shown(K.transpose(K.placeholder((2, 3)))) == ((3, 2), "float32")


def test_repeating_and_slicing_shapes(engine: object) -> None:
    """What the texts say in numbers beside the code."""
    assert K.int_shape(K.repeat_elements(K.placeholder((2, 3, 4)), 5, axis=1)) == (2, 15, 4)
    assert K.int_shape(K.repeat(K.placeholder((None, 3)), 2)) == (None, 2, 3)
    x = np.arange(24.0).reshape(2, 3, 4)
    start, size = (0, 1, 2), (2, 1, 2)
    found = K.eval(K.slice(K.constant(x), start, size))
    np.testing.assert_array_equal(found, x[0 : 0 + 2, 1 : 1 + 1, 2 : 2 + 2])
    found = K.eval(K.one_hot(K.constant([[0, 2]], dtype="int32"), 3))
    np.testing.assert_array_equal(found, [[[1, 0, 0], [0, 0, 1]]])


@covers("arange", spec=True)
def test_arange(engine: object) -> None:
    """One argument is the stop; "int32" is the default."""
    for made, expected in (
        (K.arange(3), np.array([0, 1, 2], "int32")),
        (K.arange(2, 4), np.array([2, 3], "int32")),
        (K.arange(1, 8, 3, "float32"), np.array([1, 4, 7], "float32")),
    ):
        assert shown(made) == (expected.shape, expected.dtype.name)
        np.testing.assert_array_equal(K.eval(made), expected, strict=True)


@covers("constant", spec=True)
def test_constant(engine: object) -> None:
    x = K.constant(2, dtype="int32", shape=(2, 3))
    assert shown(x) == ((2, 3), "int32")
    np.testing.assert_array_equal(K.eval(x), np.full((2, 3), 2, "int32"), strict=True)
    assert shown(K.constant([[1, 2]])) == ((1, 2), "float32")


@covers("batch_get_value", "batch_set_value")
def test_values_of_several_variables(engine: object) -> None:
    x, y = K.zeros((2,)), K.ones((1, 2))
    K.batch_set_value([(x, np.array([3.0, 4.0])), (y, np.array([[5.0, 6.0]]))])
    for found, expected in zip(K.batch_get_value([x, y]), ([3, 4], [[5, 6]]), strict=True):
        np.testing.assert_array_equal(found, np.array(expected, "float32"), strict=True)


@covers("random_normal", "random_uniform", "random_binomial", "truncated_normal", spec=True)
def test_random_tensors(engine: object) -> None:
    shape = (50, 40)
    uniform = K.random_uniform(shape, minval=2.0, maxval=4.0, seed=1)
    normal = K.random_normal(shape, mean=1.0, stddev=3.0, seed=2)
    binomial = K.random_binomial(shape, p=0.25, seed=3)
    truncated = K.truncated_normal(shape, mean=1.0, stddev=3.0, seed=4)
    for made in (uniform, normal, binomial, truncated):
        assert shown(made) == (shape, "float32")
        assert K.eval(made).shape == shape
    u, n, b, t = (K.eval(made) for made in (uniform, normal, binomial, truncated))
    assert ((u >= 2) & (u < 4)).all()
    assert abs(u.mean() - 3) < 0.06
    assert abs(n.mean() - 1) < 0.3
    assert abs(n.std() - 3) < 0.2
    assert set(np.unique(b)) == {0, 1}
    assert abs(b.mean() - 0.25) < 0.05
    assert (abs(t - 1) <= 6).all()
    assert abs(t.std() / 3 - 0.88) < 0.05
    np.testing.assert_array_equal(
        K.eval(K.random_normal(shape, seed=7)), K.eval(K.random_normal(shape, seed=7))
    )


@covers("gradients", spec=True, gradient=True)
def test_gradients(engine: object) -> None:
    x, y = K.variable([1.0, 2.0]), K.variable([3.0])
    by_x, by_y, by_none = K.gradients(K.sum(x * x * x * y), [x, y, K.variable(0.0)])
    assert by_none is None
    assert shown(by_x) == ((2,), "float32")
    np.testing.assert_allclose(K.eval(by_x), [9, 36])
    np.testing.assert_allclose(K.eval(by_y), [9])
    [second] = K.gradients(K.sum(by_x), [x])
    np.testing.assert_allclose(K.eval(second), [18, 36])


@covers("dropout", spec=True, gradient=True)
def test_dropout_has_one_mask_in_a_run(engine: object) -> None:
    x = K.placeholder((20, 30))
    y = K.dropout(x, 0.5, seed=1)
    assert shown(y) == ((20, 30), "float32")
    value, gradient = K.function([x], [y, *K.gradients(K.sum(y), [x])])([np.ones((20, 30))])
    np.testing.assert_array_equal(value, gradient)
    assert set(np.unique(value)) == {0, 2}


def test_in_top_k(engine: object) -> None:
    """bool; 000 says int."""
    found = K.in_top_k(K.constant([[0.1, 0.7, 0.2]] * 2), K.constant([2, 0], dtype="int32"), 2)
    assert K.dtype(found) == "bool"
    np.testing.assert_array_equal(K.eval(found), [True, False])


def test_print_tensor(engine: object, capfd: pytest.CaptureFixture[str]) -> None:
    x = K.variable([[1.0, 2.0]])
    x = K.print_tensor(x, message="x is: ")
    np.testing.assert_array_equal(K.eval(x), [[1, 2]])
    printed = capfd.readouterr().out
    assert "x is: " in printed
    assert "[[1 2]]" in printed.replace(".", "")


def test_hard_sigmoid(engine: object) -> None:
    found = K.eval(K.hard_sigmoid(K.constant([-3.0, -2.5, 1.0, 2.5, 3.0])))
    np.testing.assert_allclose(found, [0, 0, 0.7, 1, 1], rtol=1e-6)


@covers("update", "update_add", "update_sub", "moving_average_update", "function", spec=True)
def test_updates(engine: object) -> None:
    x = K.variable([1.0, 2.0])
    f = K.function([], [x], updates=[K.update(x, x * 3.0)])
    np.testing.assert_array_equal(f([])[0], [1, 2])
    np.testing.assert_array_equal(K.get_value(x), [3, 6])
    K.function([], [], updates=[K.update_add(x, K.constant([1.0, 1.0]))])([])
    K.function([], [], updates=[K.update_sub(x, K.constant([0.5, 0.5]))])([])
    np.testing.assert_array_equal(K.get_value(x), [3.5, 6.5])
    K.function([], [], updates=[K.moving_average_update(x, K.zeros((2,)), 0.5)])([])
    np.testing.assert_array_equal(K.get_value(x), [1.75, 3.25])


def test_a_function_refuses_what_it_does_not_know() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        K.function([], [K.variable(1.0)], nonsense=1)


@pytest.mark.parametrize("wrong", ["last", "channels last", "tf"])
def test_data_formats_are_checked(wrong: str) -> None:
    """The "Raises" of every function that takes one; 'tf' is Keras 1's, and no data format."""
    x, k = K.ones((1, 4, 4, 1)), K.ones((2, 2, 1, 1))
    for call in (
        lambda f: K.conv2d(x, k, data_format=f),
        lambda f: K.conv2d_transpose(x, k, (1, 5, 5, 1), data_format=f),
        lambda f: K.separable_conv2d(x, k, K.ones((1, 1, 1, 1)), data_format=f),
        lambda f: K.depthwise_conv2d(x, k, data_format=f),
        lambda f: K.pool2d(x, (2, 2), data_format=f),
        lambda f: K.bias_add(x, K.ones((1,)), data_format=f),
        lambda f: K.spatial_2d_padding(x, data_format=f),
        lambda f: K.resize_images(x, 2, 2, data_format=f),
        lambda f: K.local_conv2d(x, K.ones((9, 4, 1)), (2, 2), (1, 1), (3, 3), data_format=f),
    ):
        with pytest.raises(ValueError, match=r"K\.\w+: data_format"):
            call(wrong)


def test_pool_mode_and_axes_are_checked() -> None:
    with pytest.raises(ValueError, match="pool_mode"):
        K.pool2d(K.ones((1, 4, 4, 1)), (2, 2), pool_mode="sum")
    for crossentropy in (K.categorical_crossentropy, K.sparse_categorical_crossentropy):
        with pytest.raises(ValueError, match="axis"):
            crossentropy(K.ones((2, 3)), K.ones((2, 3)), axis=5)
    with pytest.raises(ValueError, match="axes"):
        K.switch(K.ones((2, 2, 2)), K.ones((2, 2)), K.ones((2, 2)))


def test_rnn_raises() -> None:
    def step(x: Any, states: Any) -> Any:
        return x, list(states)

    with pytest.raises(ValueError, match="3 axes"):
        K.rnn(step, K.placeholder((None, 3)), [])
    with pytest.raises(ValueError, match="unroll"):
        K.rnn(step, K.placeholder((2, None, 3)), [], unroll=True)
    with pytest.raises(ValueError, match="state"):
        K.rnn(step, K.placeholder((2, 4, 3)), [], mask=K.placeholder((2, 4)))


def test_rnn_of_004(engine: object) -> None:
    """Time first, zeros for masked steps, lengths, and nested inputs."""
    x = np.array([[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 10], [11, 12]]], "float32")
    mask = np.array([[1, 1, 0], [0, 1, 1]], bool)

    def step(x_t: Any, states: Any) -> Any:
        total = x_t + states[0]
        return total, [total]

    start = [K.zeros((2, 2))]
    outputs = np.array([[[1, 2], [4, 6], [4, 6]], [[0, 0], [9, 10], [20, 22]]])
    zeros = np.array([[[1, 2], [4, 6], [0, 0]], [[0, 0], [9, 10], [20, 22]]])
    _, found, _ = K.rnn(step, K.constant(x), start, mask=K.constant(mask, dtype="bool"))
    np.testing.assert_array_equal(K.eval(found), outputs)
    last, found, states = K.rnn(
        step, K.constant(x.swapaxes(0, 1)), start, mask=K.constant(mask.T, dtype="bool"),
        time_major=True, zero_output_for_mask=True,
    )  # fmt: skip
    np.testing.assert_array_equal(K.eval(found), zeros.swapaxes(0, 1))
    np.testing.assert_array_equal(K.eval(last), zeros[:, -1])
    np.testing.assert_array_equal(K.eval(states[0]), outputs[:, -1])
    lengths = K.constant([1, 3], dtype="int32")
    _, found, _ = K.rnn(step, K.constant(x), start, input_length=lengths)
    by_length = [[[1, 2], [1, 2], [1, 2]], [[7, 8], [16, 18], [27, 30]]]
    np.testing.assert_array_equal(K.eval(found), by_length)

    def nested(x_t: Any, states: Any) -> Any:
        return step(x_t["a"] + x_t["b"], states)

    _, found, _ = K.rnn(nested, {"a": K.constant(x), "b": K.constant(x)}, start)
    np.testing.assert_array_equal(K.eval(found), 2 * x.cumsum(1))


# --- the notebook (002) -------------------------------------------------------------------------


def test_output_of_an_intermediate_layer(engine: object) -> None:
    """Layers as K sees them: a stack of products, one of which drops while it is trained."""
    inputs = K.placeholder(shape=(None, 3))
    layers = []
    x = inputs
    for i, (rows, columns) in enumerate([(3, 10), (10, 10), (10, 10), (10, 10)]):
        w = K.random_normal_variable((rows, columns), 0, 1, seed=i)
        x = K.dot(x, w)
        if i == 2:
            x = K.in_train_phase(K.dropout(x, 0.5, seed=1), x)
        layers.append(x)
    X = np.array([[1, 2, 3]])
    get_layer_output = K.function([inputs], [layers[0]])
    layer_output = get_layer_output([X])[0]
    assert layer_output.shape == (1, 10)
    assert layer_output.dtype == np.float32

    get_3rd_layer_output = K.function([inputs, K.learning_phase()], [layers[3]])
    test_mode = get_3rd_layer_output([X, 0])[0]
    train_mode = get_3rd_layer_output([X, 1])[0]
    np.testing.assert_array_equal(get_3rd_layer_output([X, 0])[0], test_mode)
    assert not np.array_equal(test_mode, train_mode)


# --- the R table (001): what reticulate makes of R's values -------------------------------------


def test_called_from_r(engine: object) -> None:
    """`list(2L, NULL, 5L)` arrives as a list with None, `5L` as int, and `5` as a float."""
    assert K.int_shape(K.placeholder(shape=[2, 4, 5])) == (2, 4, 5)
    assert K.int_shape(K.placeholder(shape=[None, 4, 5])) == (None, 4, 5)
    assert K.ndim(K.placeholder(ndim=3)) == 3
    val = np.asfortranarray(np.random.default_rng(0).random((3, 4, 5)))
    np.testing.assert_allclose(K.eval(K.variable(value=val)), val, rtol=1e-6)
    assert K.int_shape(K.zeros(shape=[3, 4, 5])) == (3, 4, 5)
    assert K.int_shape(K.ones(shape=[3, 4, 5])) == (3, 4, 5)


def test_whole_floats_where_ints_are_meant(engine: object) -> None:
    """Beyond the document, which says that `5` is an error: every R user writes it once."""
    x = K.ones(shape=[2.0, 3.0])
    assert K.int_shape(x) == (2, 3)
    assert K.int_shape(K.sum(x, axis=1.0)) == (2,)
    assert K.int_shape(K.reshape(x, [3.0, 2.0])) == (3, 2)
    assert K.int_shape(K.expand_dims(x, 0.0)) == (1, 2, 3)
    assert K.int_shape(K.placeholder(ndim=3.0)) == (None, None, None)


@covers("set_random_seed")
def test_a_seed_gives_the_same_samples_again(engine: object) -> None:
    def samples() -> np.ndarray:
        K.set_random_seed(5)
        return K.eval(K.random_uniform((3,)))

    first = samples()
    np.testing.assert_array_equal(samples(), first)
    K.set_random_seed(None)
    assert not np.array_equal(K.eval(K.random_uniform((3,))), first)
