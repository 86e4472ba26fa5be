"""Programs in classic Keras, as its users wrote them. Run by `run.py` in an environment of its own.

Each takes a folder for files and returns numbers that must come out equal on every engine: losses,
predictions. What holds on any engine, a program asserts itself.
"""

import os

import keras
import numpy as np
from keras import backend as K
from keras import layers as L
from keras.models import Model, Sequential, load_model

STEPS = 50
VERSION = tuple(int(n) for n in keras.__version__.split("."))


def blobs(n=32, features=6, classes=3):
    """Points that a small network can tell apart."""
    rng = np.random.RandomState(0)
    labels = rng.randint(classes, size=n)
    x = rng.normal(size=(n, features)) * 0.5 + np.eye(classes, features)[labels] * 2
    return x.astype("float32"), np.eye(classes, dtype="float32")[labels]


def sequences(n=16, steps=7, features=3):
    """Sequences with zeros at their ends, and a number for each."""
    rng = np.random.RandomState(1)
    x = rng.normal(size=(n, steps, features)).astype("float32")
    for row, length in zip(x, rng.randint(2, steps + 1, size=n), strict=True):
        row[length:] = 0
    return x, x.sum(axis=(1, 2)).reshape(n, 1) / 5


def images(n=8, size=8, channels=2, classes=3):
    rng = np.random.RandomState(2)
    labels = rng.randint(classes, size=n)
    x = rng.uniform(size=(n, size, size, channels)) + labels[:, None, None, None]
    return x.astype("float32"), np.eye(classes, dtype="float32")[labels]


def steps(model, x, y, count=STEPS):
    """Losses and metrics of training on one batch, again and again; the losses come first."""
    found = np.array([np.ravel(model.train_on_batch(x, y)) for _ in range(count)], "float64")
    assert np.isfinite(found).all()
    return list(found.T.ravel())


def saved(model, folder, name, x, **kwargs):
    """The model, saved and loaded again; it predicts the same."""
    path = os.path.join(folder, name + ".h5")
    model.save(path)
    again = load_model(path, **kwargs)
    np.testing.assert_allclose(again.predict(x), model.predict(x), rtol=1e-5, atol=1e-6)
    return again


def mlp(folder):
    x, y = blobs()
    model = Sequential([L.Dense(8, activation="relu", input_shape=(6,)), L.Dense(3)])
    model.add(L.Activation("softmax"))
    model.compile(keras.optimizers.SGD(0.1), "categorical_crossentropy", metrics=["accuracy"])
    curve = steps(model, x, y)
    assert curve[STEPS - 1] < curve[0]
    model = saved(model, folder, "mlp", x)
    loss, accuracy = model.evaluate(x, y, verbose=0)
    assert accuracy > 0.5
    return curve + steps(model, x, y, 5) + [loss, *model.predict(x)[0]]


def cnn(folder):
    x, y = images()
    model = Sequential()
    model.add(L.Conv2D(4, 3, padding="same", use_bias=False, input_shape=x.shape[1:]))
    model.add(L.BatchNormalization())
    model.add(L.Activation("relu"))
    model.add(L.MaxPooling2D())
    model.add(L.SeparableConv2D(4, 3))
    model.add(L.Dropout(0.25, seed=3))
    model.add(L.GlobalAveragePooling2D())
    model.add(L.Dense(3, activation="softmax"))
    model.compile(keras.optimizers.Adam(lr=0.01), "categorical_crossentropy")
    curve = steps(model, x, y)
    assert curve[STEPS - 1] < curve[0]
    before = model.predict(x)
    np.testing.assert_array_equal(before, model.predict(x))
    saved(model, folder, "cnn", x)
    return curve + [float(v) for v in before[0]]


def convolutions(folder):
    """Every layer with a window, on one image."""
    x, _ = images()
    i = L.Input(x.shape[1:])
    y = L.Conv2DTranspose(2, 3, strides=2, padding="same")(L.ZeroPadding2D()(i))
    y = L.Cropping2D(2)(L.UpSampling2D()(L.AveragePooling2D()(y)))
    y = L.Conv2D(3, 3, dilation_rate=2, use_bias=False)(y)
    y = L.concatenate([L.PReLU()(y), L.LeakyReLU()(y), L.ELU()(y)])
    y = L.LocallyConnected2D(2, 3)(L.MaxPooling2D(3)(y))
    y = L.GlobalMaxPooling2D()(y)
    z = L.Reshape((64, 2))(i)
    z = L.Conv1D(3, 4, padding="causal")(z)
    z = L.GlobalMaxPooling1D()(L.LocallyConnected1D(2, 3)(L.MaxPooling1D(4)(z)))
    w = L.Reshape((4, 4, 4, 2))(i)
    w = L.Flatten()(L.MaxPooling3D()(L.Conv3D(2, 3, padding="same")(w)))
    model = Model(i, L.Dense(1)(L.concatenate([y, z, w])))
    model.compile("rmsprop", "mse")
    return steps(model, x, x[:, 0, 0, :1], 20)


def lstm(folder):
    x, y = sequences()
    model = Sequential([L.Masking(input_shape=(7, 3)), L.LSTM(5, return_sequences=True)])
    model.add(L.LSTM(4, implementation=2, dropout=0.1, recurrent_dropout=0.1))
    model.add(L.Dense(1))
    model.compile("adam", "mse")
    curve = steps(model, x, y, 15)
    longer = np.concatenate([x, np.zeros_like(x)], axis=1)[:, :7]
    np.testing.assert_allclose(model.predict(x), model.predict(longer))
    saved(model, folder, "lstm", x)
    return curve + [float(v) for v in model.predict(x)[:4, 0]]


def recurrent_dropout(folder):
    """Every kind of cell keeps its masks: in both directions, stacked, with states and masking."""
    x, y = sequences(8)
    rates = {"dropout": 0.25, "recurrent_dropout": 0.25}
    model = Sequential([L.Masking(batch_input_shape=(8, 7, 3))])
    model.add(L.Bidirectional(L.LSTM(3, return_sequences=True, **rates)))
    model.add(L.GRU(3, return_sequences=True, stateful=True, **rates))
    model.add(L.SimpleRNN(3, **rates))
    model.add(L.Dense(1))
    model.compile("sgd", "mse")
    curve = steps(model, x, y, 5)
    assert model.layers[-2].output._uses_learning_phase
    images = Sequential([L.ConvLSTM2D(2, 3, input_shape=(3, 5, 5, 1), **rates), L.Flatten()])
    images.add(L.Dense(1))
    images.compile("sgd", "mse")
    frames = np.random.RandomState(4).normal(size=(4, 3, 5, 5, 1))
    return curve + steps(images, frames, frames.mean(axis=(1, 2, 3)), 5)


def gru(folder):
    """Masks, both directions, all kinds of cells."""
    x, y = sequences()
    i = L.Input((None, 3))
    masked = L.Masking()(i)
    both = L.Bidirectional(L.GRU(3, return_sequences=True))(masked)
    both = L.Bidirectional(L.SimpleRNN(3), merge_mode="sum")(both)
    model = Model(i, L.Dense(1)(L.concatenate([both, L.GRU(2, go_backwards=True)(masked)])))
    model.compile(keras.optimizers.SGD(lr=0.05, momentum=0.9, nesterov=True), "mae")
    curve = steps(model, x, y)
    saved(model, folder, "gru", x)
    return curve


def stateful(folder):
    x, y = sequences(4)
    model = Sequential([L.LSTM(3, stateful=True, batch_input_shape=(4, 7, 3)), L.Dense(1)])
    model.compile("sgd", "mse")
    first, second = model.predict(x), model.predict(x)
    assert np.abs(first - second).max() > 1e-4
    model.reset_states()
    np.testing.assert_allclose(model.predict(x), first, rtol=1e-6)
    model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0)
    return steps(model, x, y, 20)


def functional(folder):
    """Two inputs, two outputs, weights shared and weighted losses."""
    x, y = blobs()
    a, b = L.Input((6,), name="a"), L.Input((6,), name="b")
    shared = L.Dense(5, activation="tanh", name="shared")
    merged = L.multiply([shared(a), shared(b)])
    merged = L.add([merged, L.average([shared(a), L.maximum([shared(a), shared(b)])])])
    merged = L.concatenate([merged, L.dot([shared(a), shared(b)], axes=1)])
    outputs = [L.Dense(3, activation="softmax", name="label")(merged)]
    outputs.append(L.Dense(1, name="number")(merged))
    model = Model(inputs=[a, b], outputs=outputs)
    loss = {"label": "categorical_crossentropy", "number": "mse"}
    model.compile("adam", loss, loss_weights={"label": 1.0, "number": 0.3}, metrics=["mae"])
    data = {"a": x, "b": x[::-1]}, {"label": y, "number": x[:, :1]}
    curve = steps(model, *data)
    history = model.fit(*data, batch_size=8, epochs=2, verbose=0, validation_split=0.25)
    assert {"loss", "val_loss", "label_loss"} <= set(history.history)
    config = Model.from_config(model.get_config())
    config.set_weights(model.get_weights())
    np.testing.assert_allclose(config.predict(data[0])[0], model.predict(data[0])[0], rtol=1e-5)
    return curve


def embedding(folder):
    rng = np.random.RandomState(3)
    words = rng.randint(1, 20, size=(16, 6))
    words[:, 4:] = 0
    y = (words[:, :1] % 2).astype("float32")
    model = Sequential([L.Embedding(20, 4, input_length=6, mask_zero=True), L.GRU(3)])
    model.add(L.Dense(1, activation="sigmoid"))
    model.compile("adagrad", "binary_crossentropy", metrics=["acc"])
    curve = steps(model, words, y)
    saved(model, folder, "embedding", words)
    return curve


def custom(folder):
    """A layer, a loss, a metric, a regularizer and an initializer of the user's own, in K."""
    x, y = blobs()

    class Scaled(L.Layer):
        def __init__(self, units, **kwargs):
            super().__init__(**kwargs)
            self.units = units

        def build(self, input_shape):
            shape = (input_shape[-1], self.units)
            self.kernel = self.add_weight("kernel", shape, initializer=start, regularizer=small)
            self.scale = self.add_weight("scale", (self.units,), initializer="ones")
            super().build(input_shape)

        def call(self, inputs):
            return K.dot(K.l2_normalize(inputs, axis=-1), self.kernel) * K.exp(self.scale)

        def compute_output_shape(self, input_shape):
            return (input_shape[0], self.units)

        def get_config(self):
            base = super().get_config()
            base["units"] = self.units
            return base

    def start(shape, dtype=None):
        return K.random_normal(shape, stddev=0.3, dtype=dtype, seed=1)

    def small(weight):
        return 0.01 * K.sum(K.abs(weight))

    def focal(y_true, y_pred):
        chosen = K.sum(y_true * K.clip(y_pred, K.epsilon(), 1.0), axis=-1)
        return -K.pow(1.0 - chosen, 2.0) * K.log(chosen)

    def surest(y_true, y_pred):
        return K.mean(K.max(y_pred, axis=-1))

    model = Sequential([Scaled(4, input_shape=(6,)), L.Dense(3, activation="softmax")])
    model.compile("adam", focal, metrics=[surest])
    known = {"Scaled": Scaled, "focal": focal, "surest": surest, "start": start, "small": small}
    curve = steps(model, x, y)
    if VERSION >= (2, 1):
        saved(model, folder, "custom", x, custom_objects=known)
    return curve


def regularized(folder):
    from keras import constraints as C
    from keras import regularizers as R

    x, y = blobs()
    model = Sequential()
    model.add(
        L.Dense(
            6,
            input_shape=(6,),
            kernel_regularizer=R.l2(0.01),
            bias_regularizer=R.l1(0.01),
            activity_regularizer=R.l1_l2(0.001, 0.001),
            kernel_constraint=C.max_norm(0.9),
            bias_constraint=C.non_neg(),
        )
    )
    model.add(L.Dense(5, kernel_constraint=C.unit_norm(), use_bias=False))
    model.add(L.GaussianNoise(0.1))
    model.add(L.Dense(3, kernel_constraint=C.min_max_norm(0.2, 0.8), activation="softmax"))
    model.compile("sgd", "categorical_crossentropy")
    curve = steps(model, x, y)
    first, second = model.get_weights()[0], model.get_weights()[2]
    assert np.sqrt((first**2).sum(axis=0)).max() < 0.9 + 1e-5
    np.testing.assert_allclose((second**2).sum(axis=0), 1.0, rtol=1e-5)
    return curve


def optimizers(folder):
    x, y = blobs()
    curve = []
    O = keras.optimizers
    tried = [
        O.SGD(lr=0.1, momentum=0.5, decay=0.01, clipnorm=1.0),
        O.SGD(lr=0.1, nesterov=True, momentum=0.5, clipvalue=0.1),
        O.RMSprop(),
        O.Adagrad(),
        O.Adadelta(),
        O.Adam(amsgrad=True) if VERSION >= (2, 1, 3) else O.Adam(),
        O.Adamax(),
        O.Nadam(),
    ]
    for optimizer in tried:
        model = Sequential([L.Dense(4, activation="tanh", input_shape=(6,)), L.Dense(3)])
        model.add(L.Activation("softmax"))
        model.compile(optimizer, "categorical_crossentropy")
        losses = steps(model, x, y)
        assert losses[STEPS - 1] < losses[0], type(optimizer).__name__
        saved(model, folder, "optimizer", x)
        curve += losses
    return curve


def losses(folder):
    """Every loss by name, and metrics that need the whole of K."""
    x, y = blobs()
    names = ["mse", "mae", "mape", "msle", "squared_hinge", "hinge", "categorical_hinge"]
    names += ["logcosh", "kld", "poisson", "cosine_proximity", "binary_crossentropy"]
    curve = []
    for name in names:
        model = Sequential([L.Dense(3, activation="softmax", input_shape=(6,))])
        model.compile("sgd", name, metrics=["categorical_accuracy", "top_k_categorical_accuracy"])
        curve += steps(model, x, y, 5)
    model = Sequential([L.Dense(3, activation="softmax", input_shape=(6,))])
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    sparse = y.argmax(axis=1).reshape(-1, 1)
    weights = np.linspace(0.1, 1, len(x))
    curve.append(float(model.train_on_batch(x, sparse, sample_weight=weights)[0]))
    curve.append(float(model.train_on_batch(x, sparse, class_weight={0: 1, 1: 2, 2: 3})[0]))
    return curve


def callbacks(folder):
    from keras import callbacks as C

    x, y = blobs(48)
    path = os.path.join(folder, "best.h5")
    seen = []
    model = Sequential([L.Dense(8, activation="relu", input_shape=(6,))])
    model.add(L.Dense(3, activation="softmax"))
    model.compile("sgd", "categorical_crossentropy", metrics=["accuracy"])
    called = [
        C.EarlyStopping("val_loss", patience=20),
        C.ModelCheckpoint(path, "val_loss", save_best_only=True),
        C.ReduceLROnPlateau("val_loss", factor=0.5, patience=1, min_delta=1.0)
        if VERSION >= (2, 1, 6)
        else C.ReduceLROnPlateau("val_loss", factor=0.5, patience=1, epsilon=1.0),
        C.LearningRateScheduler(lambda epoch: 0.1 / (epoch + 1)),
        C.CSVLogger(os.path.join(folder, "log.csv")),
        C.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(logs["loss"])),
        C.TerminateOnNaN(),
    ]
    history = model.fit(
        x, y, batch_size=8, epochs=6, verbose=0, validation_split=0.25, callbacks=called
    )
    assert os.path.exists(path)
    assert np.allclose(seen, history.history["loss"])
    load_model(path).predict(x)
    return [float(v) for v in history.history["val_loss"]]


def wrapped(folder):
    """TimeDistributed, ConvLSTM2D, Lambda, RepeatVector and Permute."""
    rng = np.random.RandomState(4)
    x = rng.normal(size=(4, 3, 6, 6, 1)).astype("float32")
    y = x.mean(axis=(1, 2, 3))
    i = L.Input(x.shape[1:])
    a = L.TimeDistributed(L.Conv2D(2, 3, activation="tanh"))(i)
    a = L.ConvLSTM2D(2, 3, return_sequences=True, padding="same")(a)
    a = L.TimeDistributed(L.BatchNormalization())(a)
    a = L.ConvLSTM2D(2, 3)(a)
    a = L.Lambda(lambda t: K.mean(t, axis=[1, 2]), output_shape=(2,))(a)
    a = L.Permute((2, 1))(L.RepeatVector(3)(a))
    a = L.TimeDistributed(L.Dense(2))(a)
    model = Model(i, L.Dense(1)(L.Flatten()(a)))
    model.compile("adam", "mse")
    return steps(model, x, y, 15)


def nested(folder):
    """Models as layers, frozen layers, and functions from K between them."""
    x, y = blobs()
    inner = Sequential([L.Dense(5, activation="tanh", input_shape=(6,)), L.Dropout(0.2, seed=1)])
    i = L.Input((6,))
    outer = Model(i, L.Dense(3, activation="softmax", name="top")(inner(i)))
    inner.layers[0].trainable = False
    outer.compile("sgd", "categorical_crossentropy")
    frozen = inner.get_weights()[0]
    curve = steps(outer, x, y)
    np.testing.assert_array_equal(frozen, inner.get_weights()[0])
    hidden = K.function([outer.input, K.learning_phase()], [inner.get_output_at(-1)])
    np.testing.assert_allclose(hidden([x, 0])[0], inner.predict(x), rtol=1e-5, atol=1e-6)
    gradient = K.gradients(K.sum(outer.output[:, 0]), [outer.input])[0]
    slope = K.function([outer.input], [gradient])([x])[0]
    return curve + [float(v) for v in slope[0]]


def generators(folder):
    """fit_generator with a Sequence, predict_generator."""
    from keras.utils import Sequence

    x, y = blobs()

    class Batches(Sequence):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            part = slice(index * 8, index * 8 + 8)
            return x[part], y[part]

    model = Sequential([L.Dense(3, activation="softmax", input_shape=(6,))])
    model.compile("sgd", "categorical_crossentropy", metrics=["accuracy"])
    history = model.fit_generator(Batches(), 4, epochs=3, verbose=0, shuffle=False)
    predicted = model.predict_generator(Batches(), 4)
    assert predicted.shape == (32, 3)
    return [float(v) for v in history.history["loss"]]


def text(folder):
    """Models as JSON and YAML; weights by file; a summary."""
    from keras.models import model_from_json, model_from_yaml

    x, y = blobs()
    model = Sequential([L.Dense(4, input_shape=(6,), name="one"), L.Dense(3, name="two")])
    model.compile("sgd", "mse")
    curve = steps(model, x, y, 5)
    path = os.path.join(folder, "weights.h5")
    model.save_weights(path)
    for again in model_from_json(model.to_json()), model_from_yaml(model.to_yaml()):
        again.load_weights(path)
        np.testing.assert_allclose(again.predict(x), model.predict(x), rtol=1e-5)
    lines = []
    model.summary(print_fn=lines.append)
    assert any("43" in line for line in lines)
    return curve


PROGRAMS = {
    name: function
    for name, function in list(globals().items())
    if callable(function)
    and getattr(function, "__module__", None) == __name__
    and function.__code__.co_varnames[:1] == ("folder",)
}
