"""Runs of `fit` and its relatives with their options; `run.py` runs them, on Keras' own JAX too."""

import json
import warnings
from pathlib import Path

import keras
import numpy as np
from keras import layers as L
from keras.callbacks import (
    Callback,
    EarlyStopping,
    LearningRateScheduler,
    ReduceLROnPlateau,
    SwapEMAWeights,
)
from problems import CLASSES, ROWS, TARGETS

SHARES = {0: 1.0, 1: 3.0, 2: 0.2}
"""Weights of the classes."""


def mlp(units=2, **options):
    """A model whose weights depend on no generator."""
    hidden = L.Dense(8, activation="relu")
    model = keras.Sequential([keras.Input((5,)), hidden, L.Dense(units, **options)])
    for v in model.weights:
        values = np.sin(np.arange(np.prod(v.shape)) * 1.7 + 0.3) * 0.4
        v.assign(values.reshape(v.shape))
    return model


class Log(Callback):
    """The losses after each execution, and the numbers of the steps."""

    def __init__(self):
        super().__init__()
        self.found = []

    def on_train_batch_end(self, batch, logs=None):
        self.found.append([batch, float(logs["loss"])])

    def on_test_batch_end(self, batch, logs=None):
        self.found.append([batch, float(logs["loss"])])


def fitted(model, x=ROWS, y=TARGETS, loss="mse", optimizer=None, callbacks=(), fit=None, **options):
    """The history, the losses of all executions, and the sums of the weights."""
    model.compile(optimizer or keras.optimizers.Adam(0.01), loss, **options)
    log, batches = Log(), {} if y is None else {"batch_size": 8}
    given = {"epochs": 2, "shuffle": False, "verbose": 0, **batches, **(fit or {})}
    history = model.fit(x, y, callbacks=[log, *callbacks], **given).history
    numbers = {name: [float(v) for v in values] for name, values in history.items()}
    sums = [float(np.sum(keras.ops.convert_to_numpy(w), dtype="float64")) for w in model.weights]
    return [numbers, log.found, sums]


def batches(count=None):
    """Batches of 4 rows, over and over if there is no count."""
    i = 0
    while count is None or i < count:
        rows = slice(4 * i % 20, 4 * i % 20 + 4)
        yield ROWS[rows], TARGETS[rows]
        i += 1


# --- several steps at once, and generators --------------------------------------------------------


def several_steps():
    fit = {"batch_size": 3, "validation_split": 0.3}
    metrics = ["mae"]
    return [
        fitted(mlp(), steps_per_execution=n, metrics=metrics, fit=fit) for n in (1, 2, 3, 4, 20)
    ]


def steps_of_generators():
    return [
        fitted(mlp(), batches(7), None, steps_per_execution=n, fit={"epochs": 1}) for n in (1, 3, 4)
    ]


def endless_generators():
    fit = {"steps_per_epoch": 4, "validation_data": batches(), "validation_steps": 2}
    return [fitted(mlp(), batches(), None, steps_per_execution=n, fit=fit) for n in (1, 3)]


def a_generator_that_runs_out():
    return fitted(mlp(), batches(5), None, fit={"steps_per_epoch": 3, "epochs": 3})


def generators_without_training():
    model = keras.Sequential([L.Dense(2, kernel_initializer="ones")])  # Unbuilt.
    model.compile("sgd", "mse", metrics=["mae"], steps_per_execution=4)
    predicted = model.predict(((x,) for x, _ in batches(7)), verbose=0)
    losses = [model.evaluate(batches(5), verbose=0), model.evaluate(batches(), steps=3, verbose=0)]
    return [predicted.tolist(), losses]


# --- several outputs ------------------------------------------------------------------------------


def two_outputs(names=("a", "b"), losses=("mse", "mae"), **options):
    """Runs of a model with two outputs. The last batch is smaller, and its rows are the largest, so
    that their weight in the logs matters.
    """
    x = keras.Input((5,))
    model = keras.Model(x, {name: mlp(2, name=name)(x) for name in names})
    targets = dict(zip(names, (TARGETS * np.arange(20)[:, None], TARGETS**2), strict=True))
    numbers = fitted(model, y=targets, loss=dict(zip(names, losses, strict=True)), **options)
    held = model.evaluate(ROWS, targets, batch_size=8, verbose=0, return_dict=True)
    return [numbers, {name: float(v) for name, v in held.items()}]


def logs_of_two_outputs():
    weights = {"loss_weights": {"a": 0.3, "b": 2.0}, "metrics": {"a": ["mae"], "b": ["mse"]}}
    samples = {"sample_weight": {"a": np.linspace(0, 2, 20), "b": np.linspace(1, 0, 20)}}
    return [
        two_outputs(), two_outputs(fit={"validation_split": 0.35}, **weights),
        two_outputs(fit=samples), two_outputs(losses=("mse", None)),
        two_outputs(run_eagerly=True), two_outputs(steps_per_execution=2),
    ]  # fmt: skip


def logs_under_masks():
    """Logs of `fit` and of `evaluate`, and what they must be. There is an output with a mask, and
    one without. The last batch is smaller, and each batch has masked steps of its own.
    """
    tokens = (np.arange(60) * 7 % 13 % 4).reshape(10, 6)
    steps = np.sin(np.arange(120.0)).reshape(10, 6, 2) * np.arange(10)[:, None, None]
    targets = {"a": steps, "b": steps[:, 0]}
    single = {"a": np.linspace(0.2, 2, 60).reshape(10, 6), "b": np.linspace(2, 0.5, 10)}
    found = []
    for layer in L.TimeDistributed(L.Dense(2), name="a"), L.Dense(2, name="a"):
        for weights in None, single, {"a": single["a"][..., None], "b": single["b"]}:
            h = L.Embedding(4, 3, mask_zero=True)(x := keras.Input((6,), dtype="int32"))
            b = L.Dense(2, name="b")(L.GlobalAveragePooling1D()(h))
            model = keras.Model(x, {"a": layer(h), "b": b})
            model.compile(
                keras.optimizers.SGD(0.0), "mse", metrics={"a": ["mse"], "b": ["mse"]},
                weighted_metrics={"a": ["mse"], "b": ["mse"]},
            )  # fmt: skip
            given = {"batch_size": 4, "verbose": 0, "sample_weight": weights}
            fit = model.fit(tokens, targets, shuffle=False, **given).history
            held = model.evaluate(tokens, targets, return_dict=True, **given)
            outputs = model.predict(tokens, verbose=0)
            wanted = _logs(tokens, targets, outputs, single if weights else None)
            held = {name: float(v) for name, v in held.items()}
            found.append([{name: v[0] for name, v in fit.items()}, held, wanted])
    return found


def _logs(tokens, targets, outputs, weights):
    """The formula. A loss is a mean over the steps that are not masked, weighted or not, and its
    log a mean over samples. Metrics are means over all steps of all batches, by mask and weight.
    """
    logs = {}
    for name, kept in {"a": tokens != 0, "b": np.ones(10)}.items():
        errors = np.mean((targets[name] - outputs[name]) ** 2, -1) * kept
        factors = np.ones(kept.shape) if weights is None else weights[name]
        losses = [np.sum((errors * factors)[i : i + 4]) / kept[i : i + 4].sum() for i in (0, 4, 8)]
        logs[f"{name}_loss"] = float(np.dot([4, 4, 2], losses) / 10)
        logs[f"{name}_mse"] = float(errors.sum() / kept.sum())
        logs[f"{name}_weighted_mse"] = float((errors * factors).sum() / (kept * factors).sum())
    return {**logs, "loss": logs["a_loss"] + logs["b_loss"]}


# --- optimizers -----------------------------------------------------------------------------------


def accumulated():
    options = {"gradient_accumulation_steps": 2, "global_clipnorm": 0.5}
    momentum = keras.optimizers.SGD(0.1, momentum=0.9, **options)
    fit = {"batch_size": 3, "epochs": 3}
    return fitted(mlp(), optimizer=momentum, steps_per_execution=4, fit=fit)


def averaged():
    swap, data = SwapEMAWeights(swap_on_epoch=True), {"validation_data": (ROWS, TARGETS)}
    every = keras.optimizers.SGD(0.02, use_ema=True, ema_momentum=0.8, ema_overwrite_frequency=2)
    at_end = keras.optimizers.Adam(0.02, use_ema=True, ema_momentum=0.9)
    swapped = keras.optimizers.SGD(0.02, use_ema=True)
    return [
        fitted(mlp(), optimizer=every), fitted(mlp(), optimizer=at_end),
        fitted(mlp(), optimizer=swapped, callbacks=[swap], fit=data),
    ]  # fmt: skip


def ways_to_compile():
    return [fitted(mlp(), jit_compile=way) for way in ("auto", True, False)]


def without_compiling():
    return fitted(mlp(), run_eagerly=True, steps_per_execution=2, metrics=["mae"])


# --- single batches, and weights of samples -------------------------------------------------------


def batches_by_hand():
    model = mlp()
    model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
    found = [model.train_on_batch(ROWS[i : i + 4], TARGETS[i : i + 4]) for i in range(3)]
    fit = {"batch_size": 8, "shuffle": False, "verbose": 0}
    found.append(list(model.fit(ROWS, TARGETS, **fit).history.values()))
    found.append(model.train_on_batch(ROWS[:6], TARGETS[:6], sample_weight=np.arange(6)))
    found += [model.test_on_batch(ROWS[:6], TARGETS[:6]), model.predict_on_batch(ROWS[:2]).tolist()]
    found.append(list(model.fit(ROWS, TARGETS, **fit).history.values()))
    return [json.loads(json.dumps(x, default=float)) for x in found]


def weights_of_samples():
    fit = {"sample_weight": np.linspace(0, 2, 20), "validation_split": 0.2}
    return fitted(mlp(), metrics=["mae"], weighted_metrics=["mae", "mse"], fit=fit)


def weights_of_classes():
    fit = {"class_weight": SHARES, "validation_split": 0.25}
    plain = {"metrics": ["accuracy"], "weighted_metrics": ["accuracy"], "fit": fit}
    model = mlp(3, activation="softmax")
    found = fitted(model, y=CLASSES, loss="sparse_categorical_crossentropy", **plain)
    step = model.train_on_batch(ROWS[:8], CLASSES[:8], class_weight=SHARES)
    one_hot = np.eye(3, dtype="float32")[CLASSES]
    other = fitted(
        mlp(3, activation="softmax"), y=one_hot, loss="categorical_crossentropy", fit=fit
    )
    return [found, other, [float(x) for x in step]]


def weights_of_validation():
    data = ROWS, TARGETS, np.linspace(0, 1, 20)
    fit = {"validation_data": data, "validation_batch_size": 6, "validation_freq": 2, "epochs": 4}
    return fitted(mlp(), fit=fit)


# --- callbacks that change the model --------------------------------------------------------------


class Changes(Callback):
    """Calls a function with the model and the number of the batch or of the epoch."""

    def __init__(self, by_batch=None, by_epoch=None):
        super().__init__()
        self.by_batch, self.by_epoch = by_batch, by_epoch

    def on_train_batch_begin(self, batch, logs=None):
        if self.by_batch:
            self.by_batch(self.model, batch)

    def on_epoch_begin(self, epoch, logs=None):
        if self.by_epoch:
            self.by_epoch(self.model, epoch)


def rates_that_change():
    def by_hand(model, batch):
        model.optimizer.learning_rate = 0.01 * (batch + 1)

    halved = LearningRateScheduler(lambda epoch, rate: rate * 0.5)
    plateau = ReduceLROnPlateau(monitor="loss", factor=0.1, patience=1, min_delta=10)
    return [
        fitted(mlp(), callbacks=[callback], fit={"epochs": 4})
        for callback in (Changes(by_batch=by_hand), halved, plateau)
    ]


def weights_that_change():
    def halve(model, epoch):
        if epoch == 1:
            model.set_weights([w * 0.5 for w in model.get_weights()])

    return fitted(mlp(), callbacks=[Changes(by_epoch=halve)], fit={"epochs": 3})


def layers_that_are_frozen():
    model = mlp()
    found = [fitted(model)]
    for trainable in False, True:
        model.layers[0].trainable = trainable
        found.append(fitted(model))
    return found


def stopped():
    def stop(model, batch):
        model.stop_training = batch == 1

    best = EarlyStopping("loss", patience=1, restore_best_weights=True)
    rate = keras.optimizers.SGD(2.0)
    return [
        fitted(mlp(), callbacks=[Changes(by_batch=stop)], fit={"epochs": 3}),
        fitted(mlp(), optimizer=rate, callbacks=[best], fit={"epochs": 6}),
    ]


NUMBERS = [
    several_steps, steps_of_generators, endless_generators, a_generator_that_runs_out,
    generators_without_training, logs_of_two_outputs, accumulated, averaged, ways_to_compile,
    without_compiling, batches_by_hand, weights_of_samples, weights_of_classes,
    weights_of_validation, rates_that_change, weights_that_change, layers_that_are_frozen, stopped,
]  # fmt: skip


def ends_of_data():
    """How often each way to come to the end of the data warns, and ends an epoch of a dataset."""

    class Rows(keras.utils.PyDataset):
        ends = 0

        def __len__(self):
            return 5

        def __getitem__(self, i):
            return ROWS[4 * i : 4 * i + 4], TARGETS[4 * i : 4 * i + 4]

        def on_epoch_end(self):
            self.ends += 1

    found = []
    for n in 1, 3, 5, 8:
        rows = Rows()
        model = mlp()
        model.compile("sgd", "mse", steps_per_execution=n)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            model.fit(rows, epochs=2, shuffle=False, verbose=0)
            model.fit(ROWS, TARGETS, batch_size=3, verbose=0)
            model.evaluate(ROWS, TARGETS, batch_size=3, verbose=0)
            model.predict(ROWS, batch_size=3, verbose=0)
            model.fit(batches(), steps_per_epoch=7, epochs=2, shuffle=False, verbose=0)
            complete = len(told)
            model.fit(batches(4), shuffle=False, verbose=0)
        places = [Path(one.filename).name for one in told]
        found.append([rows.ends, complete, len(told), places])
    return found


PROGRAMS = [*NUMBERS, logs_under_masks, ends_of_data]
"""The last two have tests of their own."""
