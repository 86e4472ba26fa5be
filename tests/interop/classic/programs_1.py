"""Programs in Keras 1, as its users wrote them; see `programs.py` for the rules. They are those of
Keras 1.2; releases before it lack what `since` says.

All weights are set to numbers of NumPy's (`settled`), so that no random start decides.
"""

import os

import keras
import numpy as np
from keras import backend as K
from keras import layers as L
from keras.models import Model, Sequential, load_model

VERSION = tuple(int(n) for n in keras.__version__.split("."))


def settled(model):
    """The model with weights that depend on nothing but their shapes."""
    rng = np.random.RandomState(0)
    model.set_weights(
        [
            rng.uniform(0.5, 1, w.shape) if w.ndim < 2 else rng.normal(size=w.shape) * 0.3
            for w in model.get_weights()
        ]
    )
    return model


def steps(model, x, y, count=3):
    """What training on one batch tells, again and again, then what the model predicts."""
    found = []
    for _ in range(count):
        told = model.train_on_batch(x, y)
        # Some metrics of Keras 1.1 have a value for each sample.
        found += [np.mean(value) for value in (told if isinstance(told, list) else [told])]
    predicted = model.predict(x)
    found += predicted if isinstance(predicted, list) else [predicted]
    found = np.concatenate([np.ravel(a) for a in found]).astype("float64")
    assert np.isfinite(found).all()
    return list(found[:200])


def numbers(*shape, seed=0):
    return np.random.RandomState(seed).normal(size=shape).astype("float32")


def after_scaling(layer, shape, samples=4):
    """Train an element-wise layer before `layer`, so that gradients flow through `layer`."""
    x = numbers(samples, *shape)
    model = settled(Sequential([L.PReLU(input_shape=shape), layer]))
    y = np.zeros(model.predict(x).shape)
    model.compile(keras.optimizers.SGD(lr=0.1), "mse")
    return steps(model, x, y)


def each(layers, shape):
    return [number for layer in layers for number in after_scaling(layer, shape)]


VECTORS, SERIES, IMAGES, VOLUMES = (6,), (8, 4), (8, 8, 3), (4, 4, 4, 2)


def core(folder):
    return each(
        [
            L.Dense(4, activation="tanh"),
            L.MaxoutDense(4, nb_feature=3),
            L.Highway(activation="tanh"),
            L.ActivityRegularization(l1=0.01, l2=0.01),
            L.RepeatVector(3),
            L.Reshape((3, 2)),
            L.Lambda(lambda x: K.square(x)[:, 1:], output_shape=(5,)),
            *map(
                L.Activation,
                ["relu", "sigmoid", "tanh", "softmax", "softplus", "softsign", "linear"],
            ),
            L.Activation("hard_sigmoid"),
        ],
        VECTORS,
    ) + each([L.Permute((2, 1)), L.Flatten(), L.TimeDistributedDense(3)], SERIES)


def activations(folder):
    A = L.advanced_activations
    layers = [A.LeakyReLU(0.2), A.PReLU(), A.ELU(), A.ParametricSoftplus(), A.SReLU()]
    layers += [A.ThresholdedReLU(0.5)]
    if VERSION >= (1, 2):
        layers += [A.PReLU(shared_axes=[1]), A.SReLU(shared_axes=[1])]
    return each(layers, SERIES)


def series(folder):
    layers = [
        L.Convolution1D(3, 3, border_mode="same"),
        L.Convolution1D(3, 2, subsample_length=2, bias=False, activation="relu"),
        L.MaxPooling1D(2, stride=2),
        L.AveragePooling1D(2, border_mode="same"),
        L.UpSampling1D(3),
        L.ZeroPadding1D(2),
    ]
    if VERSION >= (1, 1):
        layers += [L.GlobalMaxPooling1D(), L.GlobalAveragePooling1D()]
    if VERSION >= (1, 2):
        layers += [L.AtrousConvolution1D(3, 2, atrous_rate=2), L.Cropping1D((1, 2))]
        layers += [L.ZeroPadding1D((1, 2)), L.LocallyConnected1D(3, 2)]
    return each(layers, SERIES)


def image_layers(ordering):
    layers = [
        L.Convolution2D(3, 3, 2, border_mode="same", subsample=(2, 1)),
        L.Convolution2D(3, 2, 3, bias=False),
        L.AtrousConvolution2D(2, 3, 3, atrous_rate=(2, 2)),
        L.SeparableConvolution2D(4, 3, 3, depth_multiplier=2),
        L.MaxPooling2D((2, 3), strides=(2, 2), border_mode="same"),
        L.AveragePooling2D(),
        L.UpSampling2D((2, 3)),
        L.ZeroPadding2D((1, 2)),
        L.Cropping2D(((1, 2), (0, 1))),
    ]
    large = (17, 17)
    output = (None, *large, 2) if ordering == "tf" else (None, 2, *large)
    # Keras 1.0 fixes the default of this layer's ordering when it is imported.
    layers += [L.Deconvolution2D(2, 3, 3, output, subsample=(2, 2), dim_ordering=ordering)]
    if VERSION >= (1, 1):
        layers += [L.LocallyConnected2D(2, 3, 3, subsample=(2, 2))]
        layers += [L.GlobalMaxPooling2D(), L.GlobalAveragePooling2D()]
    return layers


def images(folder):
    return each(image_layers("tf"), IMAGES)


def images_first(folder):
    """Channels first, with kernels in Theano's order."""
    K.set_image_dim_ordering("th")
    try:
        return each(image_layers("th"), (3, 8, 8))
    finally:
        K.set_image_dim_ordering("tf")


def volumes(folder):
    layers = [
        L.Convolution3D(2, 2, 2, 2, border_mode="same", subsample=(1, 2, 1)),
        L.MaxPooling3D(),
        L.AveragePooling3D((2, 2, 2), strides=(1, 2, 2)),
        L.UpSampling3D((1, 2, 2)),
        L.ZeroPadding3D((1, 0, 2)),
        L.Cropping3D(((1, 1), (0, 1), (1, 0))),
    ]
    if VERSION >= (1, 2):
        layers += [L.GlobalMaxPooling3D(), L.GlobalAveragePooling3D()]
    return each(layers, VOLUMES)


def normalization(folder):
    modes = [L.BatchNormalization(mode=mode) for mode in (0, 1, 2)]
    return each(modes, VECTORS) + each([L.BatchNormalization(axis=1)], SERIES)


def noise(folder):
    """Layers that do something in training only."""
    layers = [L.Dropout(0.5), L.GaussianNoise(1.0), L.GaussianDropout(0.5)]
    layers += [L.SpatialDropout1D(0.5)] if VERSION >= (1, 1) else []
    found = []
    for layer in layers:
        x = np.ones((400, *SERIES), "float32")
        model = Sequential([L.Activation("linear", input_shape=SERIES), layer])
        np.testing.assert_array_equal(model.predict(x), x)
        run = K.function([model.input, K.learning_phase()], [model.output])
        noisy = run([x, 1])[0]
        assert 0.9 < noisy.mean() < 1.1
        assert 0.5 < noisy.std() < 1.5
        np.testing.assert_array_equal(run([x, 0])[0], x)
        found.append(float(model.predict(x).sum()))
    for layer, shape in ((L.SpatialDropout2D(0.5), IMAGES), (L.SpatialDropout3D(0.5), VOLUMES)):
        model = Sequential([L.Activation("linear", input_shape=shape), layer])
        run = K.function([model.input, K.learning_phase()], [model.output])
        kept = run([np.ones((9, *shape)), 1])[0]
        spatial = tuple(range(1, len(shape)))
        assert (kept.std(axis=spatial) == 0).all()
        found.append(float(run([np.ones((9, *shape)), 0])[0].sum()))
    return found


def recurrent(folder):
    layers = [
        kind(3, consume_less=how, return_sequences=how == "mem", inner_activation="sigmoid")
        for kind in (L.LSTM, L.GRU)
        for how in ("cpu", "mem", "gpu")
    ]
    layers += [L.SimpleRNN(3), L.SimpleRNN(3, go_backwards=True), L.LSTM(3, unroll=True)]
    layers += [L.GRU(3, W_regularizer="l2", b_regularizer="l1", go_backwards=True)]
    if VERSION >= (1, 1):
        layers += [L.Bidirectional(L.LSTM(2, return_sequences=True), merge_mode="sum")]
        layers += [L.Bidirectional(L.GRU(2))]
    return each(layers, SERIES)


def masks(folder):
    """Masked sequences, embeddings with a mask, weights of single steps."""
    x = numbers(6, *SERIES)
    for row, length in enumerate((8, 5, 1, 3, 8, 2)):
        x[row, length:] = 0
    found = []
    for kind in (L.LSTM, L.GRU, L.SimpleRNN):
        model = Sequential([L.Masking(input_shape=SERIES), kind(3, return_sequences=True)])
        model.add(kind(2))
        settled(model).compile("rmsprop", "mse")
        found += steps(model, x, np.zeros((6, 2)))
        padded = np.concatenate([x, np.zeros_like(x)], axis=1)[:, :8]
        np.testing.assert_allclose(model.predict(padded), model.predict(x), rtol=1e-5)
    words = np.array([[1, 2, 0, 0], [3, 1, 4, 0], [5, 0, 0, 0]])
    model = Sequential([L.Embedding(6, 3, input_length=4, mask_zero=True)])
    model.add(L.GRU(3, return_sequences=True))
    model.add(L.TimeDistributed(L.Dense(2)))
    settled(model).compile("sgd", "mse", sample_weight_mode="temporal")
    y, weights = np.zeros((3, 4, 2)), np.linspace(0, 1, 12).reshape(3, 4)
    found.append(float(model.train_on_batch(words, y, sample_weight=weights)))
    return found + steps(model, words, y)


def dropped_steps(folder):
    """Recurrent networks with dropout: one mask for all steps of a call; none when predicting."""
    x = np.ones((50, *SERIES), "float32")
    found = []
    for kind in (L.LSTM, L.GRU, L.SimpleRNN):
        model = Sequential(
            [kind(4, dropout_W=0.5, dropout_U=0.5, return_sequences=True, input_shape=SERIES)]
        )
        settled(model).compile("sgd", "mse")
        run = K.function([model.input, K.learning_phase()], [model.output])
        first, second = run([x, 1])[0], run([x, 1])[0]
        assert np.abs(first - second).max() > 1e-3
        np.testing.assert_allclose(run([x, 0])[0], model.predict(x), rtol=1e-5)
        assert np.isfinite(model.train_on_batch(x, np.zeros((50, 8, 4))))
    model = Sequential([L.Embedding(6, 3, dropout=0.3, input_length=4), L.LSTM(2)])
    settled(model).compile("sgd", "mse")
    words = np.arange(8).reshape(2, 4) % 6
    found += np.ravel(model.predict(words)).tolist()
    assert np.isfinite(model.train_on_batch(words, np.zeros((2, 2))))
    return found


def stateful(folder):
    x = numbers(4, *SERIES)
    found = []
    for kind in (L.LSTM, L.GRU, L.SimpleRNN):
        model = settled(Sequential([kind(3, stateful=True, batch_input_shape=(4, *SERIES))]))
        model.compile("sgd", "mse")
        first, second = model.predict(x), model.predict(x)
        assert np.abs(first - second).max() > 1e-4
        model.reset_states()
        np.testing.assert_allclose(model.predict(x), first, rtol=1e-5)
        found += steps(model, x, np.zeros((4, 3)))
    return found


def frames(folder):
    """Layers for each time step, and a convolutional network with memory."""
    layers = [L.TimeDistributed(L.Convolution2D(2, 3, 3)), L.TimeDistributed(L.Flatten())]
    if VERSION >= (1, 1):
        from keras.layers.convolutional_recurrent import ConvLSTM2D

        layers += [ConvLSTM2D(2, 3, 3, return_sequences=True, border_mode="same")]
        layers += [ConvLSTM2D(2, 3, 3, dropout_W=0.0, inner_activation="sigmoid")]
    found = each(layers, (3, 5, 5, 2))
    inner = Sequential([L.Dense(3, input_dim=4, activation="tanh"), L.Dense(2)])
    return found + each([L.TimeDistributed(inner)], SERIES)


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
        "mse",
        "mae",
        "mape",
        "msle",
        "squared_hinge",
        "hinge",
        "kld",
        "poisson",
        "cosine_proximity",
    ]
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
        "binary_accuracy",
        "categorical_accuracy",
        "mse",
        "mae",
        "msle",
        "cosine_proximity",
        "poisson",
    ]
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
