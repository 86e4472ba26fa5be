"""Every layer of Keras 1, alone; see `programs.py` for the rules. Releases before 1.2 lack some.

All weights are set to numbers of NumPy's (`settled`), so that no random start decides.
"""

import keras
import numpy as np
from keras import backend as K
from keras import layers as L
from keras.models import Model, Sequential

K.set_image_dim_ordering("tf")  # The default since 1.2.
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


def as_list(value):
    """Of a model with one output, Keras gives what others give in a list."""
    return value if isinstance(value, list) else [value]


def steps(model, x, y, count=3):
    """What training on one batch tells, again and again, then what the model predicts."""
    found = []
    for _ in range(count):
        told = model.train_on_batch(x, y)
        # Some metrics of Keras 1.1 have a value for each sample.
        found += [np.mean(value) for value in as_list(told)]
    found += as_list(model.predict(x))
    found = np.concatenate([np.ravel(a)[:200] for a in found]).astype("float64")
    assert np.isfinite(found).all()
    return list(found)


def numbers(*shape, seed=0):
    return np.random.RandomState(seed).normal(size=shape).astype("float32")


def each(layers, shape, samples=4):
    """Train an element-wise layer before each of `layers`, so that gradients flow through these.
    All are branches of one model, since compiling is what takes time.
    """
    x = numbers(samples, *shape)
    i = L.Input(shape)
    model = settled(Model(i, [layer(L.PReLU()(i)) for layer in layers]))
    y = [np.zeros(output.shape) for output in as_list(model.predict(x))]
    model.compile(keras.optimizers.SGD(lr=0.1), "mse")
    return steps(model, x, y)


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


PROGRAMS = {
    name: function
    for name, function in list(globals().items())
    if callable(function)
    and getattr(function, "__module__", None) == __name__
    and function.__code__.co_varnames[:1] == ("folder",)
}
