"""Programs in Keras 1, as its users wrote them; see `programs.py` for the rules."""

import os

import keras
import numpy as np
from keras import backend as K
from keras import layers as L
from keras.models import Model, Sequential, load_model
from programs_1_layers import IMAGES, SERIES, VECTORS, VERSION, numbers, settled, steps


def merged(folder):
    """All modes of merging, as a layer between models and as a function between tensors."""
    x, z = numbers(5, *VECTORS), numbers(5, *VECTORS, seed=1)
    found = []
    for mode in ("sum", "mul", "ave", "concat", "max", "dot", "cos"):
        axes = {"dot_axes": 1} if mode in ("dot", "cos") else {}
        left = Sequential([L.Dense(4, input_dim=6)])
        right = Sequential([L.Dense(4, input_dim=6)])
        model = Sequential([L.Merge([left, right], mode=mode, **axes)])
        model.add(L.Flatten() if mode == "cos" else L.Activation("linear"))
        model.add(L.Dense(2))
        settled(model).compile("sgd", "mse")
        found += steps(model, [x, z], np.zeros((5, 2)))
        a, b = L.Input((6,)), L.Input((6,))
        tensor = L.merge([L.Dense(4)(a), L.Dense(4)(b)], mode=mode, **axes)
        model = settled(Model([a, b], tensor))
        found += np.ravel(model.predict([x, z])).tolist()
    a, b = L.Input((6,)), L.Input((6,))
    tensor = L.merge([a, b], mode=lambda t: t[0] - t[1], output_shape=lambda s: s[0])
    found += np.ravel(Model([a, b], tensor).predict([x, z])).tolist()
    a, b = L.Input((3, 4)), L.Input((4, 3))
    model = Model([a, b], L.merge([a, b], mode="dot", dot_axes=(2, 1)))
    data = [numbers(2, 3, 4), numbers(2, 4, 3)]
    product = model.predict(data)
    np.testing.assert_allclose(product, data[0] @ data[1], rtol=1e-4, atol=1e-5)
    return found


def functional(folder):
    """Two inputs, two outputs, a shared layer, a model as a layer, names for everything."""
    a, b = L.Input(shape=(6,), name="a"), L.Input(shape=(6,), name="b")
    shared = L.Dense(5, activation="tanh", name="shared")
    both = L.merge([shared(a), shared(b)], mode="concat")
    i = L.Input((10,))
    head = Model(i, L.Dense(4, activation="relu")(L.Dropout(0.0)(i)))
    hidden = head(both)
    outputs = [L.Dense(3, activation="softmax", name="label")(hidden)]
    outputs.append(L.Dense(1, name="number")(hidden))
    model = settled(Model(input=[a, b], output=outputs))
    losses = {"label": "categorical_crossentropy", "number": "mse"}
    weights = {"label": 1.0, "number": 0.3}
    model.compile("adam", losses, loss_weights=weights, metrics=["accuracy"])
    x, z = numbers(9, 6), numbers(9, 6, seed=1)
    data = {"a": x, "b": z}, {"label": np.eye(3)[np.arange(9) % 3], "number": x[:, :1]}
    found = [float(v) for v in model.train_on_batch(*data)]
    history = model.fit(*data, nb_epoch=2, batch_size=4, shuffle=False, verbose=0)
    found += [float(v) for v in history.history["loss"]]
    again = Model.from_config(model.get_config())
    again.set_weights(model.get_weights())
    for one, other in zip(again.predict([x, z]), model.predict([x, z]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    shown = K.function([a, b, K.learning_phase()], [hidden])([x, z, 0])[0]
    slope = K.gradients(K.sum(outputs[1]), [a])[0]
    slope = K.function([a, b, K.learning_phase()], [slope], mode="FAST_COMPILE")([x, z, 0])[0]
    return found + np.ravel(shown).tolist() + np.ravel(slope).tolist()


def trained(optimizer, loss, classes=4, x=None, y=None):
    x = numbers(8, 6) if x is None else x
    y = np.eye(classes)[np.arange(8) % classes] if y is None else y
    model = Sequential([L.Dense(5, input_dim=6, activation="tanh")])
    model.add(L.Dense(classes, activation="softmax"))
    settled(model).compile(optimizer, loss, metrics=["accuracy"])
    return steps(model, x, y)


def objectives(folder):
    names = [
        "mse", "mae", "mape", "msle", "squared_hinge", "hinge", "kld", "poisson",
        "cosine_proximity",
    ]  # fmt: skip
    names += ["binary_crossentropy", "categorical_crossentropy"]
    found = [number for name in names for number in trained("sgd", name)]
    return found + trained("sgd", "sparse_categorical_crossentropy", y=np.arange(8)[:, None] % 4)


def optimizers(folder):
    O = keras.optimizers
    tried = [
        O.SGD(lr=0.1, momentum=0.5, decay=0.01, clipnorm=1.0),
        O.SGD(lr=0.1, momentum=0.5, nesterov=True, clipvalue=0.1),
        O.RMSprop(),
        O.Adagrad(),
        O.Adadelta(),
        O.Adam(),
        O.Adamax(),
        O.Nadam(),
    ]
    return [n for optimizer in tried for n in trained(optimizer, "categorical_crossentropy")]


def metrics(folder):
    names = [
        "binary_accuracy", "categorical_accuracy", "mse", "mae", "msle", "cosine_proximity",
        "poisson",
    ]  # fmt: skip
    if VERSION >= (1, 1):
        names += ["top_k_categorical_accuracy", "kullback_leibler_divergence"]
    if VERSION >= (1, 2):
        names += ["matthews_correlation", "precision", "recall", "fbeta_score", "fmeasure"]
    model = settled(Sequential([L.Dense(7, input_dim=6, activation="softmax")]))
    model.compile("sgd", "mse", metrics=names)
    return steps(model, numbers(14, 6), np.eye(7)[np.arange(14) % 7])


def regularized(folder):
    from keras import constraints as C
    from keras import regularizers as R

    x = numbers(8, 6)
    model = Sequential()
    model.add(
        L.Dense(
            6,
            input_dim=6,
            W_regularizer=R.l2(0.01),
            b_regularizer=R.l1(0.01),
            activity_regularizer=R.activity_l1l2(0.001, 0.001),
            W_constraint=C.maxnorm(0.5),
            b_constraint=C.nonneg(),
        )
    )
    model.add(L.Dense(5, W_constraint=C.unitnorm(), W_regularizer=R.l1l2(0.01, 0.01), bias=False))
    if VERSION >= (1, 1):
        model.add(L.Dense(4, W_regularizer=R.EigenvalueRegularizer(0.01)))
    model.add(L.Dense(3, activation="softmax"))
    settled(model).compile("sgd", "categorical_crossentropy")
    found = steps(model, x, np.eye(3)[np.arange(8) % 3])
    first, second = model.get_weights()[0], model.get_weights()[2]
    assert np.sqrt((first**2).sum(axis=0)).max() < 0.5 + 1e-5
    np.testing.assert_allclose((second**2).sum(axis=0), 1.0, rtol=1e-5)
    return found


def initial(folder):
    """Weights of every way to start them have their scale."""
    from keras import initializations

    for name in [
        "uniform",
        "lecun_uniform",
        "normal",
        "glorot_normal",
        "glorot_uniform",
        "he_normal",
    ]:
        value = K.get_value(initializations.get(name)((60, 40)))
        assert value.shape == (60, 40)
        assert abs(value.mean()) < 0.02
        assert 0.01 < value.std() < 0.3
    simple = [K.get_value(initializations.get(n)((9, 9))) for n in ("zero", "one", "identity")]
    square = K.get_value(initializations.get("orthogonal")((9, 9)))
    np.testing.assert_allclose(square @ square.T, 1.21 * np.eye(9), atol=1e-4)
    return [float(value.sum()) for value in simple]


def files(folder):
    """Models and weights as HDF5, JSON and YAML; a summary; what a network learned goes on."""
    from keras.models import model_from_json, model_from_yaml

    x, y = numbers(8, *IMAGES), np.eye(2)[np.arange(8) % 2]
    model = Sequential()
    model.add(L.Convolution2D(3, 3, 3, input_shape=IMAGES, activation="relu"))
    model.add(L.BatchNormalization())
    model.add(L.Flatten())
    model.add(L.Dense(2, activation="softmax", name="top"))
    settled(model).compile("adam", "categorical_crossentropy", metrics=["accuracy"])
    found = steps(model, x, y)
    path = os.path.join(folder, "model.h5")
    model.save(path)
    again = load_model(path)
    np.testing.assert_allclose(again.predict(x), model.predict(x), rtol=1e-5)
    np.testing.assert_allclose(
        again.train_on_batch(x, y), model.train_on_batch(x, y), rtol=1e-4, atol=1e-6
    )
    model.save_weights(path)
    for again in model_from_json(model.to_json()), model_from_yaml(model.to_yaml()):
        again.load_weights(path)
        np.testing.assert_allclose(again.predict(x), model.predict(x), rtol=1e-5)
    model.summary()
    return found


def callbacks(folder):
    from keras import callbacks as C

    path = os.path.join(folder, "best.h5")
    seen = []
    model = Sequential([L.Dense(8, activation="relu", input_dim=6)])
    model.add(L.Dense(3, activation="softmax"))
    settled(model).compile("sgd", "categorical_crossentropy", metrics=["accuracy"])
    called = [
        C.EarlyStopping("val_loss", patience=20),
        C.ModelCheckpoint(path, "val_loss", save_best_only=True),
        C.LearningRateScheduler(lambda epoch: 0.1 / (epoch + 1)),
    ]
    if VERSION >= (1, 1):
        called.append(C.ReduceLROnPlateau("val_loss", factor=0.5, patience=1))
        called.append(C.CSVLogger(os.path.join(folder, "log.csv")))
        called.append(C.LambdaCallback(on_epoch_end=lambda e, logs: seen.append(logs["loss"])))
    x, y = numbers(24, 6), np.eye(3)[np.arange(24) % 3]
    history = model.fit(
        x, y, batch_size=6, nb_epoch=4, verbose=0, shuffle=False, validation_split=0.25,
        callbacks=called,
    )  # fmt: skip
    assert not seen or np.allclose(seen, history.history["loss"])
    load_model(path).predict(x)
    return [float(v) for v in history.history["val_loss"]]


def generators(folder):
    """fit_generator with images that ImageDataGenerator makes, and the other two."""
    from keras.preprocessing.image import ImageDataGenerator

    x, y = numbers(8, *IMAGES), np.zeros((8, 72))
    flow = ImageDataGenerator(featurewise_center=True, horizontal_flip=True, rotation_range=10)
    flow.fit(x)
    model = Sequential([L.Convolution2D(2, 3, 3, input_shape=IMAGES), L.Flatten()])
    settled(model).compile("sgd", "mse")
    model.fit_generator(flow.flow(x, y, batch_size=4), samples_per_epoch=8, nb_epoch=2, verbose=0)

    def same():
        while True:
            yield x, y

    settled(model)
    found = [float(model.evaluate_generator(same(), 8))]
    return found + np.ravel(model.predict_generator(same(), 8)).tolist()


def custom(folder):
    """A layer, an objective, a regularizer and an optimizer of the user's own, in K."""
    from keras.engine import Layer

    class Attention(Layer):
        def build(self, input_shape):
            shape = (input_shape[-1],)
            self.W = K.variable(np.linspace(-1, 1, shape[0]), name="attention_W")
            self.trainable_weights = [self.W]
            super().build(input_shape)

        def call(self, x, mask=None):
            scores = K.sum(x * self.W, axis=-1)
            share = K.softmax(scores)
            return K.sum(x * K.expand_dims(share, dim=-1), axis=1)

        def get_output_shape_for(self, input_shape):
            return (input_shape[0], input_shape[2])

    def focal(y_true, y_pred):
        crossentropy = K.categorical_crossentropy(y_pred, y_true)
        return K.pow(1.0 - K.max(y_pred, axis=-1), 2.0) * crossentropy

    class Signed(keras.optimizers.Optimizer):
        def get_updates(self, params, constraints, loss):
            self.updates = []
            for p, g in zip(params, self.get_gradients(loss, params), strict=True):
                self.updates.append(K.update_sub(p, 0.01 * K.sign(g)))
            return self.updates

    i = L.Input(SERIES)
    model = Model(
        i, L.Dense(3, activation="softmax")(Attention()(L.LSTM(4, return_sequences=True)(i)))
    )
    settled(model).compile(Signed(), focal)
    x = numbers(6, *SERIES)
    return steps(model, x, np.eye(3)[np.arange(6) % 3])


PROGRAMS = {
    name: function
    for name, function in list(globals().items())
    if callable(function)
    and getattr(function, "__module__", None) == __name__
    and function.__code__.co_varnames[:1] == ("folder",)
}
