"""Models that Keras trains on JAX and saves in the current folder; `run.py` runs this."""

import keras
import numpy as np
from keras import layers as L

rng = np.random.default_rng(1)


def _mlp():
    model = [keras.Input((5,)), L.Dense(8, activation="relu"), L.BatchNormalization(), L.Dense(2)]
    return keras.Sequential(model)


def _cnn():
    pooled = L.Flatten()(
        L.MaxPooling2D()(L.Conv2D(4, 3, activation="relu")(x := keras.Input((8, 8, 3))))
    )
    return keras.Model(x, L.Dense(2)(pooled))


def _rnn():
    lstm = L.Bidirectional(L.LSTM(4, return_sequences=True))
    return keras.Sequential([keras.Input((7, 5)), lstm, L.GRU(3), L.Dense(2)])


def _attention():
    x = keras.Input((7, 5))
    h = L.LayerNormalization()(L.Add()([L.MultiHeadAttention(2, 4)(x, x), x]))
    return keras.Model(x, L.Dense(2)(L.Flatten()(h)))


CONTINUED = {
    "mlp": (_mlp, (32, 5)),
    "cnn": (_cnn, (32, 8, 8, 3)),
    "rnn": (_rnn, (32, 7, 5)),
    "attention": (_attention, (32, 7, 5)),
}


def data(name):
    x = np.random.default_rng(2).normal(size=CONTINUED[name][1]).astype("float32")
    return x, x.reshape(32, -1)[:, :2]


def continued(file, name, epochs=3):
    """The losses of further training of a model in a file."""
    model = keras.models.load_model(file)
    history = model.fit(*data(name), epochs=epochs, batch_size=12, shuffle=False, verbose=0).history
    return [float(v) for v in history["loss"]]


def trained():
    """The losses of further training of all models, which go on from their files."""
    found = {}
    for name, (make, _) in CONTINUED.items():
        keras.utils.set_random_seed(1)
        model = make()
        model.compile(keras.optimizers.AdamW(1e-2), "mse")
        model.fit(*data(name), epochs=2, batch_size=12, shuffle=False, verbose=0)
        model.save(f"{name}.keras")
        found[name] = continued(f"{name}.keras", name)
    return found


PROGRAMS = [trained]
