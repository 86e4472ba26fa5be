"""Layers of Keras 3 as ONNX models: each gives what Keras gives."""

import itertools
import traceback

import keras
import numpy as np
import onnx
import onnxruntime
import pytest
from keras import layers as L
from keras import ops

from backplane import backend as K

RNG = np.random.default_rng(0)
IDS = RNG.integers(1, 9, (2, 5)).astype("int32")
IDS[0, 3:] = 0
failures, compared = {}, []
written = []
"""Models of JAX with their states and inputs, and what ONNX Runtime computes from them."""


def numbers(*shape):
    return RNG.normal(size=shape).astype("float32")


def settle(model):
    """Weights that are neither zero nor one."""
    for w in model.weights:
        if w.dtype.startswith("float") and "seed" not in w.path:
            value = 0.3 * RNG.normal(size=w.shape)
            w.assign(abs(value) + 0.1 if "variance" in w.path else value)


def exported(path, inputs, outputs, *xs, **options):
    """What ONNX Runtime computes from the model that is written, and the model's names."""
    K.function(inputs, outputs).to_onnx(path, **options)
    session = onnxruntime.InferenceSession(path)
    assert not [i.name for i in session.get_overridable_initializers() if "seed" in i.name]
    names = [i.name for i in session.get_inputs()]
    return session.run(None, dict(zip(names, xs, strict=True)))


def check(name, inputs, outputs, *xs, tolerance=1e-4):
    model = keras.Model(inputs, outputs)
    settle(model)
    try:
        found = exported("model.onnx", model.inputs, model.outputs, *xs)
        if keras.backend.backend() == "jax":
            variables = model.trainable_variables, model.non_trainable_variables
            state = [[v.value for v in vs] for vs in variables]
            written.append((model, state, list(xs), (name, found, tolerance)))
        else:
            judge(name, found, tolerance, model(list(xs)))
    except Exception:  # noqa: BLE001 - they are shown together
        failures[name] = traceback.format_exc()


def judge(name, found, tolerance, expected):
    """Compare what ONNX Runtime and Keras compute."""
    try:
        wanted = map(ops.convert_to_numpy, keras.tree.flatten(expected))
        for got, want in zip(found, wanted, strict=True):
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
        compared.append(name)
    except Exception:  # noqa: BLE001 - they are shown together
        failures[name] = traceback.format_exc()


def judge_those_of_jax():
    """One program computes all that have been written, because op by op JAX would compile each op,
    and a program for each model takes twice the time.
    """
    if not written:
        return
    import jax

    models, states, xs, told = zip(*written, strict=True)
    written.clear()

    def together(states, xs):
        given = zip(models, states, xs, strict=True)
        return [model.stateless_call(*state, x)[0] for model, state, x in given]

    for row, expected in zip(told, jax.jit(together)(states, xs), strict=True):
        judge(*row, expected)


def stack(shape, *layers, x=None, dtype="float32", **options):
    """A chain of layers; the axis of time may be unknown."""
    start = y = keras.Input(shape[1:], dtype=dtype)
    for layer in layers:
        y = layer(y)
    given = numbers(*[6 if n is None else n for n in shape]) if x is None else x
    check(" ".join(type(layer).__name__ for layer in layers), [start], y, given, **options)


def elementwise():
    # `threshold` needs arguments, which the name does not give.
    left_out = {"threshold", "sparsemax", "get", "serialize", "deserialize"}
    for name in sorted(set(vars(keras.activations)) - left_out):
        if name[0] != "_" and callable(getattr(keras.activations, name)):
            stack((2, 4), L.Activation(name))
    for layer in (L.ReLU(1.0, 0.1, 0.2), L.PReLU(), L.Softmax(), L.Softmax(axis=[-1, -2])):
        stack((2, 4, 3), layer)
    stack((2, 4), L.Rescaling(0.5, 1.0), L.Normalization(mean=0.3, variance=2.0))
    stack((2, 4), L.Dense(3, dtype="mixed_float16"), tolerance=3e-3)


def windows():
    stack((2, 8, 3), L.Conv1D(4, 3, padding="causal", dilation_rate=2))
    stack((2, 8, 8, 4), L.Conv2D(6, 3, padding="same", groups=2, activation="relu"))
    stack((2, 5, 5, 5, 2), L.Conv3D(3, 2, strides=2))
    stack((2, 8, 4), L.DepthwiseConv1D(3), L.SeparableConv1D(5, 3, padding="same"))
    stack((2, 8, 8, 4), L.DepthwiseConv2D(3, depth_multiplier=2), L.SeparableConv2D(5, 3))
    for padding in ("valid", "same"):
        stack((2, 5, 3), L.Conv1DTranspose(2, 2, strides=3, padding=padding))
        stack((2, 5, 5, 3), L.Conv2DTranspose(2, 3, strides=2, padding=padding, output_padding=1))
    for rank in (1, 2, 3):
        shape = (2, *[7] * rank, 3)
        for kind in ("Max", "Average"):
            stack(shape, getattr(L, f"{kind}Pooling{rank}D")(2, padding="same"))
            stack(shape, getattr(L, f"Global{kind}Pooling{rank}D")())
        for kind in ("ZeroPadding", "Cropping", "UpSampling"):
            stack(shape, getattr(L, f"{kind}{rank}D")(2))
    stack((2, 4, 5, 3), L.UpSampling2D(3, interpolation="bilinear"))
    stack((2, 7, 6, 3), L.Resizing(4, 9, interpolation="nearest"))


def shapes_and_norms():
    stack((2, 3, 4), L.Flatten(), L.RepeatVector(4), L.Permute((2, 1)), L.Reshape((2, -1)))
    stack((5, 4, 4, 3), L.BatchNormalization(axis=1), L.UnitNormalization())
    stack((5, 4, 6), L.LayerNormalization(axis=[1, 2]), L.RMSNormalization())
    stack((5, 4, 6), L.GroupNormalization(3), L.SpectralNormalization(L.Dense(3)))
    stack((2, 3, 4), L.Dropout(0.5), L.SpatialDropout1D(0.5), L.GaussianNoise(0.5))
    merging = (L.Add, L.Subtract, L.Multiply, L.Average, L.Maximum, L.Minimum, L.Concatenate)
    for layer in (*[made() for made in merging], L.Dot(1, normalize=True)):
        a, b = keras.Input((3, 4)), keras.Input((3, 4))
        check(type(layer).__name__, [a, b], layer([a, b]), numbers(2, 3, 4), numbers(2, 3, 4))


def recurrent():
    masked = L.Embedding(9, 4, mask_zero=True)
    for layer in (
        L.SimpleRNN(3), L.GRU(3), L.GRU(3, reset_after=False, return_sequences=True),
        L.LSTM(3, return_sequences=True, go_backwards=True), L.LSTM(3, return_state=True),
        L.LSTM(3, dropout=0.3, recurrent_dropout=0.2), L.LSTM(3, unroll=True),
        L.Bidirectional(L.LSTM(3, return_sequences=True)), L.RNN([L.LSTMCell(3), L.GRUCell(2)]),
    ):  # fmt: skip
        stack((2, 5), masked, layer, x=IDS, dtype="int32")
    stack((2, 5), masked, L.GlobalAveragePooling1D(), x=IDS, dtype="int32")
    stack((2, None, 4), L.LSTM(3, return_sequences=True), L.TimeDistributed(L.Dense(2)))
    stack((2, 3, 6, 6, 2), L.ConvLSTM2D(3, 3))


def attention():
    for make in (L.Attention, L.AdditiveAttention):
        a, b = keras.Input((3, 4)), keras.Input((3, 4))
        check(make.__name__, [a, b], make()([a, b]), numbers(2, 3, 4), numbers(2, 3, 4))
    x, ids = keras.Input((None, 4)), keras.Input((5,), dtype="int32")
    for options in ({}, {"dropout": 0.2}):
        layer = L.MultiHeadAttention(2, 3, **options)
        check(f"heads {options}", [x], layer(x, x, use_causal_mask=True), numbers(2, 6, 4))
    check("grouped", [x], L.GroupQueryAttention(4, 2, 2)(x, x), numbers(2, 6, 4))
    codes = L.Embedding(9, 4, mask_zero=True)(ids)
    check("masked heads", [ids], L.MultiHeadAttention(2, 3)(codes, codes), IDS)


class Own(L.Layer):
    def build(self, shape):
        self.kernels = [self.add_weight(shape=(shape[-1], 3), name=f"k{i}") for i in range(2)]

    def call(self, x):
        return K.softmax(K.dot(x, self.kernels[0]) + ops.matmul(x, self.kernels[1]))


def own_layers():
    inner = keras.Sequential([keras.Input((4,)), L.Dense(3, "gelu"), L.LayerNormalization()])
    stack((2, 4), inner, Own())
    stack((2, 4), L.Lambda(lambda x: ops.square(x) + K.sum(x, axis=1, keepdims=True)))
    a, b = keras.Input((3, 4)), keras.Input((3, 4))
    y = ops.tanh(ops.einsum("bij,bkj->bik", a, b)) + ops.mean(a * 2 - 1, axis=-1, keepdims=True)
    check("operations", [a, b], y, numbers(2, 3, 4), numbers(2, 3, 4))


def training_step():
    """A step of gradient descent with dropout, whose state ONNX Runtime carries on."""
    start = keras.Input((4,))
    hidden = L.Dropout(0.5)(L.Dense(64, "tanh", name="hidden")(start))
    model = keras.Model(start, L.Dense(1, name="out")(hidden))
    x, target = K.placeholder((None, 4), name="x"), K.placeholder((None, 1), name="target")
    for training in (False, True):
        loss = K.mean(K.square(model(x, training=training) - target))
        weights = model.trainable_weights
        slopes = K.gradients(loss, weights)
        updates = [K.update_sub(w, 0.05 * g) for w, g in zip(weights, slopes, strict=True)]
        K.function([x, target], [loss], updates).to_onnx("step.onnx", outputs=["loss"])
        session = onnxruntime.InferenceSession("step.onnx")
        names = [o.name for o in session.get_outputs()]
        paths = [w.path for w in model.trainable_weights]
        assert {i.name for i in session.get_overridable_initializers()} >= set(paths)
        assert ("random_key.new" in names) == training
        points = numbers(16, 4)
        state, losses = {}, []
        for _ in range(30):
            feeds = {"x": points, "target": points[:, :1] - points[:, 1:2], **state}
            found = dict(zip(names, session.run(names, feeds), strict=True))
            state = {n[: -len(".new")]: v for n, v in found.items() if n.endswith(".new")}
            losses.append(float(found["loss"]))
        assert losses[-1] < (0.8 if training else 0.3) * losses[0], losses
        if training:  # Other entries are dropped in each step.
            assert any(b > a for a, b in itertools.pairwise(losses))


class Foreign(keras.Operation):
    """An operation that Keras does not have."""

    def call(self, x):
        return x * 2

    def compute_output_spec(self, x):
        return keras.KerasTensor(x.shape, x.dtype)


class Doubling(L.Layer):
    def call(self, x):
        return Foreign()(x)


def names_and_refusals():
    start = keras.Input((4,), name="points")
    y = Doubling()(L.Activation("sparsemax", name="sparse")(L.Dense(3, name="first")(start)))
    sparse = y._keras_history.operation._inbound_nodes[0].input_tensors[0]
    dense = sparse._keras_history.operation._inbound_nodes[0].input_tensors[0]
    K.function([start], [dense]).to_onnx("named.onnx", inputs=["points"], freeze=True)
    graph = onnx.load("named.onnx").graph
    assert [i.name for i in graph.input] == ["points"]
    assert {"first/kernel", "first/bias"} <= {t.name for t in graph.initializer}
    with pytest.raises(NotImplementedError, match="Foreign"):
        K.function([start], [y]).to_onnx("refused.onnx")


def layers_as_onnx_models(folder):
    """The number of layers that were compared, and how others failed."""
    for group in (
        elementwise, windows, shapes_and_norms, recurrent, attention, own_layers, training_step,
        names_and_refusals,
    ):  # fmt: skip
        try:
            group()
            judge_those_of_jax()
        except Exception:  # noqa: BLE001 - they are shown together
            failures[group.__name__] = traceback.format_exc()
    return {"compared": len(compared), "failures": failures}


PROGRAMS = [layers_as_onnx_models]
