"""Models of Keras 3 that are exported into the current folder, and run by plain ONNX Runtime.
`run.py` exports them.
"""

import functools
from pathlib import Path

import numpy as np
import onnxruntime

# isort: split
import keras
from keras import layers as L
from keras import ops

rng = np.random.default_rng(0)
IMAGE, SERIES, ROW = (12, 12, 3), (7, 5), (6,)


def images(*layers):
    return keras.Sequential([keras.Input(IMAGE), *layers, L.Flatten(), L.Dense(3)])


def series(*layers):
    return keras.Sequential([keras.Input(SERIES), *layers])


def mlp():
    hidden = L.Dense(8, activation="relu"), L.BatchNormalization(), L.Dropout(0.5)
    return keras.Sequential([keras.Input(ROW), *hidden, L.Dense(3, activation="softmax")])


def convolutions():
    return images(
        L.Conv2D(4, 3, padding="same"), L.BatchNormalization(), L.ReLU(), L.MaxPooling2D(),
        L.DepthwiseConv2D(3), L.SeparableConv2D(5, 3, activation="swish", padding="same"),
        L.AveragePooling2D(2, 1), L.SpatialDropout2D(0.2),
    )  # fmt: skip


def upwards():
    return images(
        L.Conv2DTranspose(4, 3, 2, padding="same"), L.UpSampling2D(2, interpolation="bilinear"),
        L.ZeroPadding2D(1), L.Cropping2D(2), L.GlobalMaxPooling2D(),
    )  # fmt: skip


def normalizations():
    return images(
        L.Conv2D(4, 3), L.GroupNormalization(2), L.LayerNormalization(), L.UnitNormalization(),
        L.PReLU(), L.Activation("gelu"),
    )  # fmt: skip


def recurrent():
    return series(
        L.Masking(0.0), L.Bidirectional(L.LSTM(4, return_sequences=True)),
        L.GRU(3, return_sequences=True, reset_after=False), L.SimpleRNN(4, go_backwards=True),
    )  # fmt: skip


def convolutions_of_series():
    return series(
        L.Conv1D(4, 3, padding="causal", dilation_rate=2), L.MaxPooling1D(2, padding="same"),
        L.TimeDistributed(L.Dense(3)), L.GlobalAveragePooling1D(),
    )  # fmt: skip


def attention():
    tokens = keras.Input((7,), dtype="int32")
    x = L.Embedding(20, 8, mask_zero=True)(tokens)
    y = L.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True)
    x = L.LayerNormalization()(L.Add()([x, y]))
    return keras.Model(tokens, L.Dense(2)(L.Attention()([x, x])))


def grouped_attention():
    x = keras.Input(SERIES)
    return keras.Model(x, L.GroupQueryAttention(4, 4, 2)(x, x))


def several():
    a, b = keras.Input(ROW, name="first"), keras.Input(SERIES, name="second")
    shared = L.Dense(4, activation="tanh")
    y = L.Concatenate()([shared(a), L.LSTM(4)(b)])
    return keras.Model([a, b], {"sum": L.Dense(2)(y), "product": L.Multiply()([y, y])})


def named():
    inputs = {"a": keras.Input(ROW, name="a"), "b": keras.Input(ROW, name="b")}
    return keras.Model(inputs, L.Dense(2)(L.Average()([inputs["a"], inputs["b"]])))


def nested():
    inner = keras.Sequential([keras.Input(ROW), L.Dense(4, activation="elu"), L.Dense(6)])
    x = keras.Input(ROW)
    return keras.Model(x, L.Subtract()([inner(x), inner(inner(x))]))


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.first, self.second = L.Dense(5, activation="selu"), L.Dense(2)

    def call(self, x):
        y = self.first(x)
        return self.second(ops.where(y > 0, y, ops.exp(y)))


def subclassed():
    model = Subclassed()
    model.build((None, *ROW))
    return model


def functions():
    x = keras.Input(ROW)
    y = ops.concatenate([ops.cumsum(x, axis=-1), ops.sort(x), x[:, ::-1] ** 2], axis=-1)
    top = ops.cast(ops.top_k(y, 3)[1], "float32")
    return keras.Model(x, ops.einsum("bi,bj->bij", top, ops.log1p(ops.abs(y))))


def preprocessing():
    return images(L.Rescaling(1 / 255, offset=-0.5), L.Resizing(9, 7), L.RandomFlip(seed=1))


def discretized():
    x = keras.Input(ROW)
    bins = L.Discretization(bin_boundaries=[-1.0, 0.0, 1.0])(x)
    return keras.Model(x, L.CategoryEncoding(4, output_mode="multi_hot")(bins))


def half():
    keras.config.set_dtype_policy("mixed_float16")
    try:
        return images(L.Conv2D(4, 3, activation="relu"), L.BatchNormalization())
    finally:
        keras.config.set_dtype_policy("float32")


def volumes():
    layers = L.Conv3D(2, 2, activation="softplus"), L.MaxPooling3D(2), L.Flatten()
    return keras.Sequential([keras.Input((5, 5, 5, 2)), *layers, L.Dense(2)])


def convolutional_lstm():
    return keras.Sequential([keras.Input((3, 6, 6, 2)), L.ConvLSTM2D(2, 3)])


def open_sizes():
    x = keras.Input((None, None, 3))
    y = L.GlobalAveragePooling2D()(L.Conv2D(4, 3, padding="same", activation="mish")(x))
    return keras.Model(x, L.Dense(2)(y))


def stateful():
    layers = L.LSTM(4, return_sequences=True, stateful=True), L.GRU(3, stateful=True)
    return keras.Sequential([keras.Input(batch_shape=(4, *SERIES)), *layers])


def stateful_after_rows():
    """The rows of the states differ when the model is exported."""
    return stateful()


def stateful_both_ways():
    layer = L.Bidirectional(L.LSTM(4, stateful=True))
    return keras.Sequential([keras.Input(batch_shape=(4, *SERIES)), layer, L.Dense(2)])


def own_cells():
    return series(L.RNN([L.LSTMCell(3), L.GRUCell(4)], return_sequences=True))


def shared():
    a, b = keras.Input(ROW), keras.Input(ROW)
    dense, scored = L.Dense(4, activation="tanh"), L.Dense(1, activation="sigmoid")
    return keras.Model([a, b], scored(L.Dot(1, normalize=True)([dense(a), dense(b)])))


def additive_attention():
    a, b = keras.Input(SERIES), keras.Input((3, SERIES[1]))
    return keras.Model([a, b], L.AdditiveAttention()([a, b]))


def keyed():
    """The keys of the dicts differ from the names of the tensors."""
    a, b = keras.Input(ROW), keras.Input((3,), dtype="int32", name="tokens")
    y = L.Concatenate()([a, L.Flatten()(L.Embedding(20, 2)(b))])
    return keras.Model({"rows": a, "words": b}, {"score": L.Dense(1)(y), "kind": L.Dense(2)(y)})


class Keyed(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = L.Dense(2)

    def call(self, inputs):
        return {"left": self.dense(inputs["left"]) + self.dense(inputs["right"])}


def keyed_subclass():
    model = Keyed()
    model({"left": np.ones((2, *ROW), "float32"), "right": np.ones((2, *ROW), "float32")})
    return model


def reshaping():
    layers = L.Permute((2, 1)), L.Reshape((7, 5)), L.Flatten(), L.RepeatVector(2)
    return series(*layers, L.RMSNormalization(), L.TimeDistributed(L.Dense(2)))


def normalized_weights():
    return images(L.SpectralNormalization(L.Conv2D(4, 3)), L.Conv2DTranspose(2, 4), L.LeakyReLU())


MODELS = [
    mlp, convolutions, upwards, normalizations, recurrent, convolutions_of_series, attention,
    grouped_attention, several, named, nested, subclassed, functions, preprocessing, discretized,
    half, volumes, convolutional_lstm, open_sizes, stateful,
    stateful_after_rows, stateful_both_ways,
    own_cells, shared, additive_attention, keyed, keyed_subclass, reshaping, normalized_weights,
]  # fmt: skip


def fed(model, rows):
    """Values for the inputs, in the model's own structure."""

    def value(x):
        shape = (rows, *(n or 8 for n in x.shape[1:]))
        if x.dtype == "int32":
            return rng.integers(0, 20, shape).astype("int32")
        return rng.normal(size=shape).astype("float32")

    if isinstance(model, Subclassed | Keyed):
        keys = ("left", "right") if isinstance(model, Keyed) else ("all",)
        values = {key: rng.normal(size=(rows, *ROW)).astype("float32") for key in keys}
        return values if isinstance(model, Keyed) else values["all"]
    sequential = isinstance(model, keras.Sequential)
    return keras.tree.map_structure(value, model.inputs[0] if sequential else model.input)


def predicted(model, values, rows, states):
    """What Keras predicts. Fewer rows than four are part of a batch of four: stateful layers take
    no others, and some engines would compile a program for each size.
    """
    for layer in states if rows < 4 else ():
        layer.reset_state()
    full = keras.tree.map_structure(lambda x: np.concatenate([x, x[: 4 - rows]]), values)
    return keras.tree.map_structure(lambda y: y[:rows], model.predict(full, verbose=0))


def difference(make):
    """The largest difference between the exported model and `predict`, over two sizes of batches,
    and the names of its inputs and outputs.
    """
    keras.utils.set_random_seed(0)
    model = make()
    for weight in model.weights:  # Also those that start as zeros.
        value = keras.ops.convert_to_numpy(weight)
        if value.dtype.kind == "f":
            weight.assign(0.8 * value + 0.1 * rng.random(value.shape))
    states = [layer for layer in model.layers if getattr(layer, "stateful", False)]
    model.predict(fed(model, 4), verbose=0)  # Keras exports models that have been called.
    ready = make is not stateful_after_rows
    for layer in states if ready else ():
        layer.reset_state()
    file = Path(f"{make.__name__}.onnx")
    model.export(file, format="onnx", verbose=False)
    session = onnxruntime.InferenceSession(file)
    names = [x.name for x in session.get_inputs()]
    worst = 0.0
    for rows in (4, 3) if ready else (4,):
        values = fed(model, rows)
        feeds = dict(zip(names, keras.tree.flatten(values), strict=True))
        wanted = keras.tree.flatten(predicted(model, values, rows, states))
        for x, y in zip(session.run(None, feeds), wanted, strict=True):
            assert x.shape == y.shape, (x.shape, y.shape)
            worst = max(worst, float(np.abs(x.astype("float64") - y).max()))
    fixed = isinstance(session.get_inputs()[0].shape[0], int)
    assert fixed != ready, session.get_inputs()[0].shape
    return [worst, names, [x.name for x in session.get_outputs()]]


def _checked(make):
    @functools.wraps(make)
    def program():
        return difference(make)

    return program


PROGRAMS = [_checked(make) for make in MODELS]
