"""Calls of `keras.ops` on values; `run.py` runs them."""

from unittest import mock

import numpy as np

from backplane import backend as K
from backplane.backend import _trace
from backplane.keras3 import call

# isort: split
import keras
from keras import ops, tree

ROWS = np.arange(6, dtype="float32").reshape(2, 3)


def array(x):
    return np.asarray(ops.convert_to_numpy(x))


def numbers(x):
    return array(x).tolist()


def dtype(x):
    return keras.backend.standardize_dtype(x.dtype)


def settings():
    """What was traced does not outlive a change of Keras' settings."""
    whole = ops.convert_to_tensor(np.arange(4, dtype="int32"))
    target, wrong = np.array([1.0], "float32"), np.array([0.0], "float32")
    images = ops.convert_to_tensor(np.arange(18, dtype="float32").reshape(1, 3, 3, 2))

    def now():
        loss = keras.src.backend.nn.binary_crossentropy(target, wrong)
        pooled = keras.src.backend.nn.max_pool(images, 2)
        return [dtype(ops.sqrt(whole)), float(array(loss)[0]) < 7, list(pooled.shape)]

    before = now()
    keras.config.set_floatx("float16")
    keras.config.set_epsilon(1e-3)
    keras.config.set_image_data_format("channels_first")
    try:
        during = now()
    finally:
        keras.config.set_floatx("float32")
        keras.config.set_epsilon(1e-7)
        keras.config.set_image_data_format("channels_last")
    return [before, during, now()]


def numbers_of_other_types():
    """1, 1.0 and True are different arguments, and so are 0.0 and -0.0."""
    whole = ops.convert_to_tensor(np.arange(3, dtype="int32"))
    dtypes = [dtype(ops.add(whole, x)) for x in (1, 1.0, True, 1)]
    signs = [float(np.copysign(1, array(ops.full((1,), x))[0])) for x in (0.0, -0.0, 0.0)]
    return [dtypes, signs]


def variables():
    """A variable counts as its value at the time; in a scope, as the scope says."""
    v = keras.Variable(ROWS)
    found = [numbers(ops.sum(v, axis=1))]
    v.assign(ROWS + 1)
    found.append(numbers(ops.sum(v, axis=1)))
    with keras.StatelessScope([(v, ops.convert_to_tensor(ROWS + 2))]):
        found.append(numbers(ops.sum(v, axis=1)))
    spec = keras.src.backend.compute_output_spec(
        lambda x: ops.add(v, x), keras.KerasTensor((None, 3))
    )
    return [*found, list(spec.shape)]


def lists():
    x = ops.convert_to_tensor(ROWS)
    y = ops.convert_to_tensor(ROWS[:1])
    return [
        list(ops.concatenate([x, x], axis=1).shape),
        list(ops.concatenate([x, y, x], axis=0).shape),
        list(ops.concatenate([x, keras.Variable(ROWS)], axis=0).shape),
        list(ops.reshape(x, (3, 2)).shape),
        list(ops.reshape(x, [np.int64(6)]).shape),
        list(ops.reshape(x, (-1, 1)).shape),
        numbers(ops.sum(x, axis=[0, 1])),
        list(ops.zeros(np.array([2, 2])).shape),
        numbers(ops.add([[1, 2], [3, 4]], 1)),
        numbers(ops.add([[1, 2], [3, 5]], 1)),
    ]


def settled():
    """Calls with arguments of types that were seen go past the search among all arguments."""
    x = ops.convert_to_tensor(ROWS)
    v = keras.Variable(ROWS)
    w = ops.transpose(x)

    def calls():
        ops.add(x, x), ops.add(v, 1.0), ops.mean(x, axis=-1, keepdims=True), ops.matmul(x, w)
        ops.concatenate([x, x], axis=0), ops.reshape(x, (3, 2)), ops.cast(x, "int32")
        ops.zeros((3, 2)), ops.take(x, np.array([0, 1]), axis=1), ops.split(x, 3, axis=1)

    calls()
    with mock.patch.object(call, "run_now", side_effect=AssertionError):
        calls()
    return True


def recurrent():
    """Recurrent layers on values are traced once for their shapes, and give what their cells do."""
    x = ops.convert_to_tensor(np.random.default_rng(0).normal(size=(3, 6, 5)).astype("float32"))
    layers, L = [], keras.layers
    for options in (
        {}, {"return_sequences": True, "go_backwards": True, "use_bias": False},
        {"unroll": True, "activation": "relu", "return_state": True},
    ):  # fmt: skip
        layers += [L.LSTM(4, bias_initializer="uniform", **options)]
        layers += [
            L.GRU(4, bias_initializer="uniform", reset_after=after, **options)
            for after in (True, False)
        ]
    found = [tree.flatten(layer(x)) for layer in layers]
    with mock.patch.object(_trace, "trace", side_effect=AssertionError):
        for layer in layers:
            layer(x)
    same = []
    for layer, values in zip(layers, found, strict=True):
        layer.use_cudnn = False
        for value, other in zip(values, tree.flatten(layer(x)), strict=True):
            same.append(np.allclose(array(value), array(other), 1e-5, 1e-6))
    return [len(same), all(same)]


def watched():
    """`K.debug` sees calls of types that were settled before."""
    x = ops.convert_to_tensor(-ROWS)
    ops.log(x)
    with K.debug(stop=False) as found:
        ops.log(x)
    ops.log(x)
    return len(found.findings)


def written_to():
    """Results that users write to: neither operands nor later results change."""
    x, found = ops.convert_to_tensor([1.0, 2.0]), []
    for function in (
        lambda: ops.array(0, dtype="float32"),
        lambda: ops.copy(x),
        lambda: ops.tile(x, 2),
        lambda: ops.broadcast_to(x, (2, 2)),
        lambda: keras.optimizers.schedules.PiecewiseConstantDecay([1, 2], [0.5, 0.25, 0.125])(2),
    ):
        y = function()
        y += 1
        found.append([numbers(y), numbers(function())])
    return found


def left_alone():
    """What the user gives to losses and layers is not written to."""
    targets, weights = ops.convert_to_tensor(ROWS), ops.ones((2, 3))
    keras.src.backend.set_keras_mask(outputs := ops.zeros((2, 3, 1)), ops.equal(targets, 1))
    keras.losses.MeanSquaredError()(targets[..., None], outputs, sample_weight=weights)
    images = ops.ones((1, 2, 2, 3))
    keras.layers.RandomBrightness([0.25, 0.25], value_range=(0, 1))(images, training=True)
    return [numbers(weights), numbers(images)]


def steps_back():
    """Slices with negative steps."""
    x = ops.convert_to_tensor(ROWS)
    inputs = keras.Input((3,))
    reversed_rows = keras.Function(inputs, inputs[:, ::-2])
    return [
        numbers(reversed_rows(x)), numbers(keras.Model(inputs, inputs[..., ::-1, None])(x)[0]),
        numbers(ops.get_item(x, (slice(None, None, -1), 0))), numbers(ops.get_item(x, 1)),
    ]  # fmt: skip


PROGRAMS = [
    settings, numbers_of_other_types, variables, lists, settled, recurrent, watched, written_to,
    left_alone, steps_back,
]  # fmt: skip
