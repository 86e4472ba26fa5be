"""`fit`, `evaluate` and `predict` of Keras' models on Backplane.

A step is traced once, with an open batch, and becomes one function of K: the forward pass, the
gradients, the steps of the optimizer, and the metrics. So whatever K does with functions applies to
it, and a call that fails or is interrupted leaves all variables as they were.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from types import CodeType
from typing import Any

import numpy as np
from keras.src import callbacks as callbacks_module
from keras.src import optimizers as optimizers_module
from keras.src import tree
from keras.src.backend import config
from keras.src.backend.common.keras_tensor import KerasTensor
from keras.src.trainers import trainer as base_trainer
from keras.src.trainers.data_adapters import array_slicing, data_adapter_utils
from keras.src.utils import traceback_utils
from keras.src.utils.python_utils import pythonify_logs

from backplane import backend as K
from backplane import engines
from backplane.core import context, tracebacks
from backplane.keras3.batches import Batches, one_batch
from backplane.keras3.losses import CompileLoss
from backplane.keras3.operands import standard
from backplane.keras3.ops import core
from backplane.keras3.resuming import make_resumable
from backplane.keras3.settings import float64_kept
from backplane.keras3.step import Step
from backplane.keras3.workers import let_threads_compute

let_threads_compute()
base_trainer.CompileLoss = CompileLoss  # `Model.compile` finds it there.
if os.environ.get(tracebacks.SETTING) != "full":
    # Keras hides the frames of these folders in `fit`, in layers and in models.
    traceback_utils._EXCLUDED_PATHS += (context.PACKAGE,)

TAPES = ("GradientTape", "backward", "value_and_grad")
"""Names in the code of a `train_step` that is written for another backend."""


class BackplaneTrainer(base_trainer.Trainer):
    """The additions to Keras' models: steps, and the loops around them."""

    def __init__(self) -> None:
        super().__init__()
        self.train_function: Callable[..., Any] | None = None
        self.test_function: Callable[..., Any] | None = None
        self.predict_function: Callable[..., Any] | None = None
        self._backplane_steps: dict[str, Step] = {}

    # --- steps ----------------------------------------------------------------------------------

    def train_step(self, data: Any) -> Any:
        """One step of training, over symbolic tensors; the logs."""
        x, y, sample_weight = data_adapter_utils.unpack_x_y_sample_weight(data)
        y_pred, loss = self._forward(x, y, sample_weight, training=True)
        if self.optimizer is not None:
            loss = self.optimizer.scale_loss(loss)
        weights = self.trainable_weights[:]
        if weights:
            with float64_kept(any(weight.dtype == "float64" for weight in weights)):
                self.optimizer.apply(K.gradients(loss, weights), weights)
        return self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    def test_step(self, data: Any) -> Any:
        """One step of evaluation, over symbolic tensors; the logs."""
        x, y, sample_weight = data_adapter_utils.unpack_x_y_sample_weight(data)
        y_pred, _ = self._forward(x, y, sample_weight, training=False)
        return self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    def predict_step(self, data: Any) -> Any:
        """The predictions for one batch, over symbolic tensors."""
        x, _, _ = data_adapter_utils.unpack_x_y_sample_weight(data)
        return self._prediction(x, training=False)

    def _prediction(self, x: Any, training: bool) -> Any:
        model: Any = self
        return model(x, training=training) if self._call_has_training_arg else model(x)

    def _compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        """The loss, as Keras computes it. Its errors name the model and the engine, as those of
        layers name the layer.
        """
        try:
            return super()._compute_loss(*args, **kwargs)
        except (TypeError, ValueError, IndexError) as error:
            where = f"the loss of the model {self.name!r} on the engine {engines.current().name!r}"
            error.args = (f"{where}: {error}",)
            raise

    def _forward(self, x: Any, y: Any, sample_weight: Any, training: bool) -> tuple[Any, Any]:
        """The predictions and the loss, which the tracker of the loss has taken in."""
        y_pred = self._prediction(x, training)
        loss = self._compute_loss(
            x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=training
        )
        first = next(leaf for leaf in tree.flatten(x) if leaf is not None)
        self._loss_tracker.update_state(loss, sample_weight=core.shape(first)[0])
        return y_pred, loss

    def step_function(self, kind: str = "train") -> Any:
        """The compiled function of K that the last step ran: `f.summary()`, `f.profile(…)`,
        `K.plot_graph` and the like show what it computes.

        Args:
            kind: "train", "test" or "predict".

        Raises:
            ValueError: if no such step has run yet.
        """
        step = self._backplane_steps.get(kind)
        if step is None or step.last is None:
            raise ValueError(
                f"step_function: no {kind!r} step has run yet; call the model's methods first"
            )
        return step.last

    def _made(self, kind: str, function: Callable[[Any], Any]) -> Step:
        _check_tapes(function)
        self._backplane_steps[kind] = Step(
            function,
            eager=bool(self.run_eagerly),
            traceable=base_trainer.model_supports_jit(self),
        )
        return self._backplane_steps[kind]

    def make_train_function(self, force: bool = False) -> Callable[..., Any]:
        """Make `train_function`, which takes a list of batches and gives the logs of the last."""
        if self.train_function is None or force:
            self.train_function = _over_batches(self._made("train", self.train_step))
        return self.train_function

    def make_test_function(self, force: bool = False) -> Callable[..., Any]:
        """Make `test_function`, which takes a list of batches and gives the logs of the last."""
        if self.test_function is None or force:
            self.test_function = _over_batches(self._made("test", self.test_step))
        return self.test_function

    def make_predict_function(self, force: bool = False) -> Callable[..., Any]:
        """Make `predict_function`, which takes a list of batches and gives their predictions."""
        if self.predict_function is not None and not force:
            return self.predict_function
        step = self._made("predict", self.predict_step)

        def predictions(batches: list[Any]) -> Any:
            parts = [step(data) for data in batches]
            return _joined(parts)

        self.predict_function = predictions
        return predictions

    # --- loops ----------------------------------------------------------------------------------

    def _prepare(self, step: str, **data: Any) -> None:
        """Build what is unbuilt, by calling the model on the inputs of a batch. If the user wrote
        the step, the model need not have a `call` that fits: what it could not build, the trace of
        the step builds where it calls it, and says there what is wrong. An iterator then begins
        again.
        """
        own = getattr(getattr(self, step), "__func__", None) is not getattr(BackplaneTrainer, step)
        with suppress(Exception) if own else nullcontext(), one_batch(data.get("iterator")):
            self._symbolic_build(**data)
        if "iterator" in data:
            data["iterator"].reset()

    def _batches(self, **given: Any) -> Any:
        return Batches(steps_per_execution=self.steps_per_execution, **given)

    def _listening(self, callbacks: Any, iterator: Any, verbose: Any, **more: Any) -> Any:
        """The callbacks as a list that knows the model."""
        if isinstance(callbacks, callbacks_module.CallbackList):
            return callbacks
        return callbacks_module.CallbackList(
            callbacks,
            add_progbar=verbose != 0,
            verbose=verbose,
            steps=iterator.num_batches,
            model=self,
            **more,
        )

    @traceback_utils.filter_traceback
    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Any = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        class_weight: Any = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: int = 1,
    ) -> Any:
        """Train the model, as Keras documents it."""
        self._assert_compile_called("fit")
        epochs = min(epochs, config.max_epochs() or epochs)
        self._eval_epoch_iterator: Any = None
        if validation_split and validation_data is None:
            (x, y, sample_weight), validation_data = array_slicing.train_validation_split(
                (x, y, sample_weight), validation_split=validation_split
            )
        iterator = self._batches(
            x=x, y=y, sample_weight=sample_weight, batch_size=batch_size, shuffle=shuffle,
            steps_per_epoch=steps_per_epoch, class_weight=class_weight,
        )  # fmt: skip
        self._prepare("train_step", iterator=iterator)
        callbacks = self._listening(callbacks, iterator, verbose, add_history=True, epochs=epochs)
        make_resumable(callbacks.callbacks, self)
        held = _held(validation_data, validation_batch_size or batch_size)
        evaluate = partial(self._validated, held, validation_steps, callbacks) if held else None
        self.stop_training = False
        self.make_train_function()
        callbacks.on_train_begin()
        numbers = range(self._initial_epoch or initial_epoch, epochs)
        logs = self._train_epochs(numbers, iterator, callbacks, evaluate, validation_freq)
        if isinstance(self.optimizer, optimizers_module.Optimizer) and epochs > 0:
            self.optimizer.finalize_variable_values(self.trainable_weights)
        self._eval_epoch_iterator = None
        callbacks.on_train_end(logs=logs)
        return self.history

    def _train_epochs(
        self,
        epochs: Sequence[int],
        iterator: Any,
        callbacks: Any,
        evaluate: Callable[[], dict[str, Any]] | None,
        validation_freq: int,
    ) -> dict[str, Any]:
        """Train until the last epoch, or until a callback stops it; the logs of the last."""
        logs: dict[str, Any] = {}
        for epoch in epochs:
            logs = self._train_epoch(epoch, iterator, callbacks)
            if evaluate is not None and self._should_eval(epoch, validation_freq):
                logs.update({f"val_{name}": value for name, value in evaluate().items()})
            callbacks.on_epoch_end(epoch, logs)
            if self.stop_training:
                break
        return logs

    def _train_epoch(self, epoch: int, iterator: Any, callbacks: Any) -> dict[str, Any]:
        self.reset_metrics()
        callbacks.on_epoch_begin(epoch)
        train: Any = self.train_function
        logs: Any = {}
        for begin, end, batches in iterator:
            callbacks.on_train_batch_begin(begin)
            logs = train(batches)
            callbacks.on_train_batch_end(end, logs)
            if self.stop_training:
                break
        return dict(pythonify_logs(self._get_metrics_result_or_logs(logs)))

    def _validated(self, data: dict[str, Any], steps: int | None, callbacks: Any) -> dict[str, Any]:
        """The logs of an evaluation between epochs. Its iterator is made once."""
        if self._eval_epoch_iterator is None:
            self._eval_epoch_iterator = self._batches(**data, steps_per_epoch=steps, shuffle=False)
        found: dict[str, Any] = self.evaluate(
            **data, steps=steps, callbacks=callbacks, return_dict=True,
            _use_cached_eval_dataset=True,
        )  # fmt: skip
        return found

    @traceback_utils.filter_traceback
    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: Any = "auto",
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Any = None,
        return_dict: bool = False,
        **kwargs: Any,
    ) -> Any:
        """The loss and the metrics on data, as Keras documents it."""
        self._assert_compile_called("evaluate")
        cached = kwargs.pop("_use_cached_eval_dataset", False)
        if kwargs:
            raise ValueError(f"Arguments not recognized: {kwargs}")
        iterator = self._eval_epoch_iterator if cached else self._batches(
            x=x, y=y, sample_weight=sample_weight, batch_size=batch_size, steps_per_epoch=steps,
            shuffle=False,
        )  # fmt: skip
        self._prepare("test_step", iterator=iterator)
        callbacks = self._listening(callbacks, iterator, verbose, epochs=1)
        test = self.make_test_function()
        self.stop_evaluating = False
        callbacks.on_test_begin()
        logs: Any = {}
        self.reset_metrics()
        for begin, end, batches in iterator:
            callbacks.on_test_batch_begin(begin)
            logs = test(batches)
            callbacks.on_test_batch_end(end, logs)
            if self.stop_evaluating:
                break
        logs = pythonify_logs(self._get_metrics_result_or_logs(logs))
        callbacks.on_test_end(logs)
        return logs if return_dict else self._flatten_metrics_in_order(logs)

    @traceback_utils.filter_traceback
    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Any = "auto",
        steps: int | None = None,
        callbacks: Any = None,
    ) -> Any:
        """The predictions for data as arrays, as Keras documents it."""
        iterator = self._batches(x=x, batch_size=batch_size, steps_per_epoch=steps, shuffle=False)
        if not all(layer.built for layer in self._flatten_layers()):
            with one_batch(iterator):
                for _, _, batches in iterator:
                    first, _, _ = data_adapter_utils.unpack_x_y_sample_weight(batches[0])
                    core.compute_output_spec(self, tree.map_structure(_keras_tensor, first))
                    break
            iterator.reset()
        callbacks = self._listening(callbacks, iterator, verbose, epochs=1)
        predicting = self.make_predict_function()
        self.stop_predicting = False
        callbacks.on_predict_begin()
        parts = []
        for begin, end, batches in iterator:
            callbacks.on_predict_batch_begin(begin)
            parts.append(predicting(batches))
            callbacks.on_predict_batch_end(end, {"outputs": parts[-1]})
            if self.stop_predicting:
                break
        callbacks.on_predict_end()
        return _joined(parts)

    # --- single batches -------------------------------------------------------------------------

    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: Any = None,
        return_dict: bool = False,
    ) -> Any:
        """One step of training on one batch; the loss and the metrics."""
        self._assert_compile_called("train_on_batch")
        if class_weight is not None:
            if sample_weight is not None:
                raise ValueError(
                    "Arguments `sample_weight` and `class_weight` cannot be specified at the same "
                    f"time. Received: sample_weight={sample_weight}, class_weight={class_weight}"
                )
            sample_weight = data_adapter_utils.class_weight_to_sample_weights(y, class_weight)
        return self._on_batch((x, y, sample_weight), "train", return_dict)

    def test_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False
    ) -> Any:
        """The loss and the metrics on one batch."""
        self._assert_compile_called("test_on_batch")
        return self._on_batch((x, y, sample_weight), "test", return_dict)

    def _on_batch(self, data: Any, kind: str, return_dict: bool) -> Any:
        data = tree.map_structure(lambda v: v if v is None else core.convert_to_numpy(v), data)
        self._prepare(f"{kind}_step", data_batch=data)
        step = getattr(self, f"make_{kind}_function")()
        self.reset_metrics()
        logs = pythonify_logs(step([data]))
        return logs if return_dict else self._flatten_metrics_in_order(logs)

    def predict_on_batch(self, x: Any) -> Any:
        """The predictions for one batch as arrays."""
        x = tree.map_structure(core.convert_to_numpy, x)
        return self.make_predict_function()([(x,)])


def _keras_tensor(x: Any) -> Any:
    return KerasTensor(tuple(x.shape), standard(x.dtype))


def _held(data: Any, batch_size: int | None) -> dict[str, Any] | None:
    """Data for validation as keyword arguments of `evaluate`; None if there is none."""
    if data is None:
        return None
    held = data_adapter_utils.unpack_x_y_sample_weight(data)
    return dict(zip(("x", "y", "sample_weight"), held, strict=True), batch_size=batch_size)


def _over_batches(step: Step) -> Callable[[list[Any]], Any]:
    def run(batches: list[Any]) -> Any:
        logs = None
        for data in batches:
            logs = step(data)
        return logs

    return run


def _joined(parts: list[Any]) -> Any:
    """Results of several batches, one after the other."""
    if len(parts) == 1:
        return parts[0]
    return tree.map_structure(lambda *xs: np.concatenate(xs), *parts)


def _check_tapes(function: Callable[..., Any]) -> None:
    """Refuse a `train_step` that is written for the tape of another backend.

    Raises:
        TypeError: says how to write it.
    """
    code: CodeType | None = getattr(function, "__code__", None)
    found = [name for name in TAPES if code is not None and name in code.co_names]
    if found:
        raise TypeError(
            f"{function.__qualname__} is written for another backend: it uses {found[0]}. On "
            "Backplane it is a graph, so ask for the gradients: `from backplane import backend as "
            "K`, then `gradients = K.gradients(loss, self.trainable_weights)` and "
            "`self.optimizer.apply(gradients, self.trainable_weights)`"
        )
