"""Tensors without elements: batches without rows, layers without units, windows over nothing."""

from itertools import product

import numpy as np
import pytest

from backplane import backend as K

FORMATS = ("channels_last", "channels_first")


def shapes(found):
    return [np.shape(v) for v in found]


@pytest.mark.parametrize("mode", ["max", "avg"])
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("known", [False, True])
def test_pooling_has_a_gradient_for_no_images(engine, mode, data_format, known):
    x = K.placeholder((0 if known else None, 4, 4, 4))
    y = K.pool2d(K.relu(x * 2.0), (2, 2), (2, 1), "same", data_format, mode)
    loss = K.sum(y * y)
    f = K.function([x], [loss, y, *K.gradients(loss, [x])])
    for rows in (0,) if known else (0, 2, 0):
        total, found, slope = f([np.ones((rows, 4, 4, 4))])
        assert total == 4 * found.size
        assert (len(found), slope.shape) == (rows, (rows, 4, 4, 4))


def test_pooling_volumes_has_a_gradient_for_no_volumes(engine):
    x = K.placeholder((None, 4, 4, 4, 2))
    y = K.pool3d(x, (2, 2, 2), (2, 2, 2), "valid", "channels_last", "max")
    f = K.function([x], [y, *K.gradients(K.sum(y), [x])])
    assert shapes(f([np.zeros((0, 4, 4, 4, 2))])) == [(0, 2, 2, 2, 2), (0, 4, 4, 4, 2)]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("activation", [None, K.relu, K.sigmoid], ids=["none", "relu", "sigmoid"])
def test_a_dense_layer_of_nothing(engine, dtype, activation):
    """Without rows, columns of the input, or units; sizes known and unknown."""
    for known, sizes in product((True, False), ((0, 4, 3), (2, 0, 3), (2, 4, 0), (0, 0, 0))):
        n, columns, units = sizes
        x = K.placeholder((n, columns) if known else (None, None), dtype=dtype)
        w = K.placeholder((columns, units) if known else (None, None), dtype=dtype)
        b = K.placeholder((units,), dtype=dtype)
        y = K.bias_add(K.dot(x, w), b)
        y = y if activation is None else activation(y)
        f = K.function([x, w, b], [y, *K.gradients(y, [x, w, b])])
        found = f([np.ones((n, columns)), np.ones((columns, units)), np.ones(units)])
        assert shapes(found) == [(n, units), (n, columns), (columns, units), (units,)]
        if n and units and activation is None:
            assert (found[0] == 1).all()


@pytest.mark.parametrize("data_format", FORMATS)
def test_normalized_convolutions_of_no_images(engine, data_format):
    x = K.variable(np.zeros((0, 2, 2, 2)))
    kernel = K.constant(np.ones((3, 3, 2, 2)))
    y = K.softmax(K.l2_normalize(K.conv2d(x, kernel, (1, 1), "same", data_format), axis=-1))
    assert shapes(K.function([], [y, *K.gradients(K.sum(y), [x])])([])) == [(0, 2, 2, 2)] * 2


def test_products_and_quotients_of_nothing_in_a_loop(engine):
    x = K.placeholder((None, 3))
    nothing = K.constant(np.zeros((0, 3)))

    def step(row, states):
        y = nothing * row * 2.0 / K.sqrt(K.sum(nothing * row, axis=-1, keepdims=True))
        return states[0] + K.sum(y), [states[0] + K.sum(y)]

    last = K.rnn(step, K.expand_dims(x, 0), [K.zeros((1, 3))])[0]
    assert K.function([x], [last])([np.ones((4, 3))])[0].tolist() == [[0, 0, 0]]


def test_a_size_that_only_a_later_convolution_tells(engine):
    """That no image comes is known from the shape of a result."""
    x = K.placeholder((None, 1, 1, 1))
    wide = K.resize_images(x, 3, 1, "channels_first", "bilinear")
    kernel = K.constant(np.ones((2, 2, 1, 1)))
    y = K.conv2d_transpose(wide, kernel, (0, 1, 3, 1), (1, 1), "same", "channels_first")
    turned = K.permute_dimensions(wide, (1, 2, 3, 0))
    assert shapes(K.function([x], [turned // wide, y])([np.zeros((0, 1, 1, 1))])) == [
        (0, 3, 3, 0), (0, 1, 3, 1),
    ]  # fmt: skip


@pytest.mark.parametrize("join", ["batch_dot", "concatenate", "stack"])
def test_an_unknown_size_that_is_0_beside_a_known_one(engine, join):
    """TensorFlow's optimizer concluded from the second operand that the size is 0, and divided by
    it where `y` is computed.
    """
    x = K.placeholder((1, 1, None) if join == "batch_dot" else (None, 1, 1))
    nothing = K.constant(np.zeros((1, 0, 4) if join == "batch_dot" else (0, 1, 1)))
    order = (2, 0, 1) if join == "batch_dot" else (1, 2, 0)
    y = K.permute_dimensions(x, order) // x
    given = (x, nothing) if join == "batch_dot" else ([x, nothing],)
    z = getattr(K, join)(*given)
    found = K.function([x], [y, z])([np.zeros([n or 0 for n in K.int_shape(x)])])
    right = {"batch_dot": (1, 1, 4), "concatenate": (0, 1, 2), "stack": (2, 0, 1, 1)}[join]
    assert shapes(found) == [(0, 1, 0), right]


LAYERS = {
    "max_pool": lambda x, w: K.pool2d(x, (2, 2), (1, 1), "valid", "channels_last", "max"),
    "conv": lambda x, w: K.conv2d(x, w, (2, 2), "same"),
    "conv_relu": lambda x, w: K.relu(K.bias_add(K.conv2d(x, w), K.constant([1.0, 2.0, 3.0]))),
    "depthwise": lambda x, w: K.depthwise_conv2d(x, w),
    "transposed": lambda x, w: K.conv2d_transpose(
        x, K.permute_dimensions(w, (0, 1, 3, 2)), (K.shape(x)[0], 5, 5, 3)
    ),
    "volumes": lambda x, w: K.conv3d(K.expand_dims(x, 1), K.expand_dims(w, 0)),
    "ctc": lambda x, w: K.ctc_batch_cost(
        K.zeros_like(x[:, 0, :1, 0]), K.softmax(x[:, 0]),
        K.ones_like(x[:, 0, :1, 0]) * 4, K.ones_like(x[:, 0, :1, 0]),
    ),
}  # fmt: skip
PARTS = {
    "slice": lambda x, n: x[3:],
    "window": lambda x, n: K.slice(x, [n, 0, 0, 0], [-1, 4, 4, 2]),
    "gather": lambda x, n: K.gather(x, K.arange(3 - n)),
}


@pytest.mark.parametrize(
    ("layer", "part"),
    [*product(LAYERS, ["slice"]), ("max_pool", "window"), ("max_pool", "gather")],
)
def test_a_batch_that_becomes_empty_inside_the_program(engine, layer, part):
    """TensorFlow's kernels end the process, refuse it, or give results of the wrong shape. What is
    updated in the same call is updated once.
    """
    x, n = K.placeholder((None, 4, 4, 2)), K.placeholder((), dtype="int32")
    w, count = K.variable(np.ones((2, 2, 2, 3))), K.variable(0.0)
    y = LAYERS[layer](PARTS[part](x * 2, n), w)
    slopes = [g for g in K.gradients(K.sum(y * y), [x, w]) if g is not None]
    f = K.function([x, n], [y, *slopes], updates=[(count, count + 1)])
    fed = np.ones((3, 4, 4, 2))
    found, *zeros = f([fed, 3])
    assert len(found) == 0
    assert found.shape[1:] == K.int_shape(y)[1:]
    assert all((np.nan_to_num(v) == 0).all() for v in zeros)
    assert shapes(zeros) == [K.int_shape(t) if t is w else fed.shape for t in (x, w)[: len(zeros)]]
    assert K.get_value(count) == 1
    assert len(f([np.ones((5, 4, 4, 2)), 0 if part == "window" else 1])[0]) > 0
