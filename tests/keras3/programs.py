"""Programs that train whole models of Keras 3 on Backplane; `run.py` runs them. The current folder
is for files, and holds the `*.keras` files of `reference.py`.
"""

import contextlib
from pathlib import Path

import keras
import numpy as np
from keras import layers as L
from problems import CLASSES, IMAGES, ROWS, SERIES, TARGETS, TOKENS, losses, mlp
from value_programs import (
    batches_of_threads,
    images_of_values,
    operators_of_values_and_tensors,
    values_to_the_left,
)

from backplane import backend as K

FOLDER = Path()

# --- layers ---------------------------------------------------------------------------------------


def convolutional():
    model = keras.Sequential(
        [
            keras.Input((12, 12, 3)),
            L.Conv2D(4, 3, activation="relu"),
            L.BatchNormalization(),
            L.MaxPooling2D(),
            L.SeparableConv2D(4, 3, padding="same"),
            L.DepthwiseConv2D(3),
            L.Conv2DTranspose(2, 3, strides=2),
            L.GlobalAveragePooling2D(),
            L.Dense(3, activation="softmax"),
        ]
    )
    return losses(model, IMAGES, CLASSES, "sparse_categorical_crossentropy")


def recurrent():
    lstm = L.LSTM(4, return_sequences=True)
    model = [keras.Input((7, 5)), lstm, L.Bidirectional(L.GRU(3)), L.Dense(2)]
    return losses(keras.Sequential(model), SERIES, TARGETS)


def masked():
    embedding = L.Embedding(10, 4, mask_zero=True)
    model = [keras.Input((6,)), embedding, L.LSTM(4, dropout=0.2), L.Dense(2)]
    return losses(keras.Sequential(model), TOKENS, TARGETS)


def open_time():
    model = [keras.Input((None, 5)), L.SimpleRNN(4, recurrent_dropout=0.2), L.Dense(2)]
    return losses(keras.Sequential(model), SERIES, TARGETS)


def attention():
    x = keras.Input((7, 5))
    h = L.LayerNormalization()(L.Add()([L.MultiHeadAttention(2, 4)(x, x), x]))
    y = L.Dense(2)(L.Flatten()(L.Dense(8, activation="gelu")(h)))
    return losses(keras.Model(x, y), SERIES, TARGETS)


def dropout():
    model = [keras.Input((5,)), L.Dense(8), L.Dropout(0.5), L.GaussianNoise(0.1), L.Dense(2)]
    return losses(keras.Sequential(model), ROWS, TARGETS)


# --- training -------------------------------------------------------------------------------------


def partial_batch():
    """How many programs a run with a last partial batch compiles."""
    model = mlp()
    losses(model, ROWS, TARGETS)
    return len(model._backplane_steps["train"]._programs)


def step_function():
    model = mlp()
    losses(model, ROWS, TARGETS)
    before = [np.array(w) for w in model.get_weights()]
    loss = model.step_function()([ROWS[:8], TARGETS[:8]])
    changed = [not np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True)]
    return len(loss), all(changed)


def custom_step():
    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.first, self.second = L.Dense(4, activation="tanh"), L.Dense(2)

        def call(self, x):
            return self.second(self.first(x))

        def train_step(self, data):
            x, y = data
            loss = self.compute_loss(x, y, self(x, training=True))
            gradients = K.gradients(loss, self.trainable_weights)
            self.optimizer.apply(gradients, self.trainable_weights)
            return {"loss": loss, "norm": keras.ops.norm(gradients[0])}

    return losses(Model(), ROWS, TARGETS)


def foreign_step():
    class Model(keras.Model):
        def call(self, x):
            return x

        def train_step(self, data):
            self.compute_loss(*data, self(data[0])).backward()

    try:
        losses(Model(), ROWS, ROWS)
    except TypeError as error:
        return str(error)
    return "no error"


def compute_loss():
    class Model(keras.Sequential):
        def compute_loss(self, x, y, y_pred, sample_weight=None, training=True):
            return keras.ops.mean((y - y_pred) ** 2) + 0.1 * keras.ops.mean(x**2)

    return losses(Model([keras.Input((5,)), L.Dense(2)]), ROWS, TARGETS, None)


def run_eagerly():
    seen = []

    class Layer(L.Layer):
        def call(self, x):
            if isinstance(x, keras.KerasTensor) or None in x.shape:
                return x
            if keras.ops.is_tensor(x) and getattr(x, "has_value", False):
                seen.append(float(keras.ops.sum(x)))
            return x

    model = keras.Sequential([keras.Input((5,)), L.Dense(8), Layer(), L.Dense(2)])
    eager = losses(model, ROWS, TARGETS, run_eagerly=True)
    return {**eager, "seen": len(seen) >= 6}


def averages():
    optimizer = keras.optimizers.AdamW(1e-2, use_ema=True, ema_overwrite_frequency=2, clipnorm=1.0)
    return losses(mlp(), ROWS, TARGETS, optimizer=optimizer)


def accumulation():
    """Two batches of 4 with accumulated gradients are one of 8."""
    one = losses(mlp(), ROWS[:16], TARGETS[:16], optimizer=keras.optimizers.SGD(0.1))
    keras.utils.set_random_seed(1)
    optimizer = keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)
    two = losses(mlp(), ROWS[:16], TARGETS[:16], optimizer=optimizer, fit={"batch_size": 4})
    return {**two, "equal": bool(np.allclose(one["loss"], two["loss"], rtol=1e-5))}


def loss_scale():
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(1e-2), 2.0**15)
    plain = losses(mlp(), ROWS, TARGETS, optimizer=keras.optimizers.Adam(1e-2))
    keras.utils.set_random_seed(1)
    scaled = losses(mlp(), ROWS, TARGETS, optimizer=optimizer)
    return {**scaled, "equal": bool(np.allclose(plain["loss"], scaled["loss"], rtol=1e-5))}


def metrics():
    model = keras.Sequential([keras.Input((5,)), L.Dense(1, activation="sigmoid")])
    targets = (TARGETS[:, :1] > 0).astype("float32")
    names = ["AUC", "Precision", "accuracy"]
    return losses(model, ROWS, targets, "binary_crossentropy", metrics=names)


def added_losses():
    class Activity(L.Layer):
        def call(self, x):
            self.add_loss(keras.ops.mean(x**2))
            return x

    dense = L.Dense(8, kernel_regularizer="l2")
    return losses(
        keras.Sequential([keras.Input((5,)), dense, Activity(), L.Dense(2)]), ROWS, TARGETS
    )


def several_steps():
    plain = losses(mlp(), ROWS, TARGETS)
    keras.utils.set_random_seed(1)
    several = losses(mlp(), ROWS, TARGETS, steps_per_execution=2)
    return {**several, "equal": several == plain}


def schedules():
    rate = keras.optimizers.schedules.ExponentialDecay(0.01, 2, 0.5)
    callbacks = [keras.callbacks.EarlyStopping(patience=1), keras.callbacks.TerminateOnNaN()]
    fit = {"callbacks": callbacks, "validation_split": 0.2}
    return losses(mlp(), ROWS, TARGETS, optimizer=keras.optimizers.RMSprop(rate), epochs=4, fit=fit)


def mixed_precision():
    keras.config.set_dtype_policy("mixed_float16")
    try:
        model = mlp()
        found = losses(model, ROWS, TARGETS, optimizer="sgd")
        return [model.layers[0].kernel.dtype, np.isfinite(found["loss"]).all().item()]
    finally:
        keras.config.set_dtype_policy("float32")


def double_precision():
    """The losses and predictions of models of 64 bits, and the dtypes of all that they hold: once
    by `floatx()`, once by the policy of their layers.
    """
    on_jax = K.backend() == "backplane.jax"
    if on_jax:  # Initializers compute with operators of JAX's own arrays.
        import jax

        jax.config.update("jax_enable_x64", True)

    def found():
        model = keras.Sequential(
            [
                keras.Input((7, 5)),
                L.Conv1D(4, 3, padding="same"), L.BatchNormalization(), L.UnitNormalization(),
                L.Bidirectional(L.LSTM(3, return_sequences=True)), L.GRU(4, return_sequences=True),
                L.SimpleRNN(4, return_sequences=True), L.LayerNormalization(),
                L.Dropout(0.1), L.GlobalAveragePooling1D(), L.Dense(2, activation="gelu"),
            ]
        )  # fmt: skip
        history = losses(model, SERIES.astype("float64"), TARGETS.astype("float64"))
        kept = [layer(SERIES[:, :5]) for layer in (L.Dense(2), L.Rescaling(0.1), L.Softmax())]
        held = [*model.weights, *model.optimizer.variables[2:], *kept]
        dtypes = sorted({keras.backend.standardize_dtype(v.dtype) for v in held})
        return history["loss"], dtypes, model.predict(SERIES, verbose=0)[:2].tolist()

    keras.config.set_floatx("float64")
    try:
        by_default = found()
        rooted = keras.backend.standardize_dtype(keras.ops.sqrt(2.0).dtype)
    finally:
        keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float64")
    try:
        by_policy = found()
    finally:
        keras.config.set_dtype_policy("float32")
    if on_jax:
        jax.config.update("jax_enable_x64", False)
    narrow = keras.backend.standardize_dtype(keras.ops.add(np.ones(2), np.ones(2)).dtype)
    return {
        "dtypes": [by_default[1], by_policy[1], rooted, narrow],
        "losses": by_default[0], "predictions": by_default[2], "by policy": by_policy[2],
    }  # fmt: skip


# --- around training ------------------------------------------------------------------------------


def save_and_load():
    model = mlp()
    losses(model, ROWS, TARGETS)
    model.save(FOLDER / "saved.keras")
    other = keras.models.load_model(FOLDER / "saved.keras")
    fit = {"shuffle": False, "verbose": 0}
    first = model.fit(ROWS, TARGETS, **fit).history["loss"]
    return first == other.fit(ROWS, TARGETS, **fit).history["loss"]


def resumed():
    """A run that ended after two epochs goes on with the same losses, also with dropout."""

    class Stop(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 2:
                raise RuntimeError

    def run(*callbacks):
        keras.utils.set_random_seed(3)
        model = [keras.Input((5,)), L.Dense(8), L.Dropout(0.5), L.Dense(2)]
        fit = {"callbacks": callbacks, "shuffle": True}
        return losses(keras.Sequential(model), ROWS, TARGETS, epochs=4, fit=fit)["loss"]

    whole = run()
    backup = keras.callbacks.BackupAndRestore(FOLDER / "backup")
    with contextlib.suppress(RuntimeError):
        run(backup, Stop())
    return whole[2:] == run(keras.callbacks.BackupAndRestore(FOLDER / "backup"))


def interrupted():
    """An error in a step leaves all variables as they were."""
    model = mlp()
    losses(model, ROWS, TARGETS)
    before = [np.array(v) for v in model.variables + model.optimizer.variables]
    with contextlib.suppress(ValueError):
        model.train_on_batch(ROWS[:, :4], TARGETS)
    after = [np.array(v) for v in model.variables + model.optimizer.variables]
    return all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def exported():
    import onnxruntime

    x = keras.Input((7, 5))
    y = L.Dense(2, activation="softmax")(L.Dropout(0.5)(L.Bidirectional(L.LSTM(4))(x)))
    model = keras.Model(x, y)
    wanted = model.predict(SERIES, verbose=0)
    model.export(FOLDER / "model.onnx", format="onnx", verbose=False)
    session = onnxruntime.InferenceSession(FOLDER / "model.onnx")
    found = session.run(None, {session.get_inputs()[0].name: SERIES})[0]
    return bool(np.allclose(found, wanted, atol=1e-5))


def k_functions():
    """K functions in functional models, and `K.function` over their tensors."""
    x = keras.Input((5,))
    y = L.Dense(2)(K.square(L.Lambda(lambda t: K.tanh(t) * 2)(x)))
    model = keras.Model(x, y)
    found = losses(model, ROWS, TARGETS)
    values = K.function([x], [y])([ROWS])[0]
    return {**found, "equal": bool(np.allclose(values, model.predict(ROWS, verbose=0), atol=1e-5))}


def loops():
    """Branches and loops of `keras.ops` in a layer that trains, with an assignment in a branch."""

    class Layer(L.Layer):
        def build(self, shape):
            self.w = self.add_weight((5,), name="w")
            self.count = self.add_weight((), "zeros", trainable=False, name="count")

        def call(self, x):
            ops = keras.ops
            ops.cond(ops.sum(x) > 0, lambda: self.count.assign_add(1.0), lambda: self.count.value)
            carry, rows = ops.scan(lambda c, r: (c + r, c * r), self.w, ops.ones((3, 5)))
            total = ops.fori_loop(0, 3, lambda i, t: t + ops.sum(carry * self.w), 0.0)
            return x * self.w + total + ops.mean(rows)

    layer = Layer()
    found = losses(keras.Sequential([keras.Input((5,)), layer, L.Dense(2)]), ROWS, TARGETS)
    return {**found, "count": float(np.asarray(layer.count))}


def symbolic_comparison():
    """`==` on symbolic tensors compares elements."""

    class Layer(L.Layer):
        def call(self, x):
            return keras.ops.cast(x == x, "float32") + keras.ops.cast(x != x, "float32") * 7

    model = keras.Sequential([keras.Input((5,)), Layer()])
    return model.predict(ROWS, verbose=0).sum().item()


def eager_types():
    import backplane.keras3.call as call

    layer = L.Dense(2)
    found = layer(ROWS)
    engine = call.eager_engine()
    return [engine.owns(found), engine.owns(layer.kernel.value), keras.backend.backend()]


def continued():
    """Models that were trained on JAX go on training, by the name of their files."""
    from reference import CONTINUED
    from reference import continued as losses_of

    return {name: losses_of(FOLDER / f"{name}.keras", name) for name in CONTINUED}


PROGRAMS = [
    convolutional, recurrent, masked, open_time, attention, dropout, partial_batch, step_function,
    custom_step, foreign_step, compute_loss, run_eagerly, averages, accumulation, loss_scale,
    metrics, added_losses, several_steps, schedules, mixed_precision, double_precision,
    values_to_the_left, operators_of_values_and_tensors, images_of_values,
    batches_of_threads,
    save_and_load, resumed, interrupted, exported, k_functions, loops, symbolic_comparison,
    eager_types, continued,
]  # fmt: skip
