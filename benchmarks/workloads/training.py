"""What the training workloads share: contenders made of a model's losses, and their reference."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

from benchmarks.problem import BACKPLANE, ENGINES, Builder, Training


def _laid_out(model: ModuleType, hook: str, problem: Training) -> Training:
    """The problem with its parameters in the layout that a library prefers."""
    convert = getattr(model, hook, None)
    return replace(problem, parameters=convert(problem.parameters)) if convert else problem


def _backplane(model: ModuleType) -> Builder:
    def build(problem: Training) -> Any:
        from backplane import backend as K
        from benchmarks.stacks import k

        return k.train(K, problem, model.k_loss)

    return build


def _reference(model: ModuleType) -> Builder:
    def build(problem: Training) -> Any:
        from benchmarks.stacks import k

        return k.train(k.reference(), problem, model.k_loss)

    return build


def _numpy(model: ModuleType) -> Builder:
    def build(problem: Training) -> Any:
        from benchmarks.stacks import numpy

        return numpy.train(problem, model.numpy_gradients)

    return build


def jax(model: ModuleType, loss: Any = None, **how: bool) -> Builder:
    """A builder for JAX, with the model's loss or another."""

    def build(problem: Training) -> Any:
        from benchmarks.stacks import jax

        return jax.train(problem, loss or model.jax_loss, **how)

    return build


def torch(
    model: ModuleType,
    *,
    loss: Any = None,
    onednn: bool = False,
    laid_out: bool = True,
    **how: bool,
) -> Builder:
    """A builder for PyTorch, with the model's loss or another, which takes the parameters in
    PyTorch's layout or as they are.
    """

    def build(problem: Training) -> Any:
        from benchmarks.stacks import torch

        if laid_out:
            problem = _laid_out(model, "torch_parameters", problem)
        linear = torch.onednn if onednn else torch.plain
        return torch.train(problem, loss or model.torch_loss, linear=linear, **how)

    return build


def tensorflow(model: ModuleType, *, loss: Any = None, **how: bool) -> Builder:
    """A builder for TensorFlow, with the model's loss or another."""

    def build(problem: Training) -> Any:
        from benchmarks.stacks import tensorflow

        return tensorflow.train(problem, loss or model.tensorflow_loss, **how)

    return build


def _pytensor(model: ModuleType) -> Builder:
    def build(problem: Training) -> Any:
        from benchmarks.stacks import pytensor

        if by_hand := getattr(model, "pytensor_gradients", None):
            problem = _laid_out(model, "pytensor_parameters", problem)
            return pytensor.train_by_hand(problem, by_hand)
        return pytensor.train(problem, model.pytensor_loss)

    return build


def _onnx(model: ModuleType) -> Builder:
    def build(problem: Training) -> Any:
        from benchmarks.stacks import onnxruntime

        return onnxruntime.train(_laid_out(model, "onnx_parameters", problem), model.onnx_loss)

    return build


def _keras3(model: ModuleType) -> Builder:
    def build(problem: Training) -> Any:
        from benchmarks.stacks import keras3

        return keras3.train(problem, model.keras3_model)

    return build


def contenders(model: ModuleType, stack: str) -> dict[str, Builder]:
    """Name → builder of everything that runs in the process of `stack`."""
    if stack.startswith("keras3-"):
        return {"Keras 3": _keras3(model)}
    if stack == "reference":
        return {"reference K": _reference(model)}
    assert stack in ENGINES
    return {BACKPLANE: _backplane(model), **_HAND[stack](model)}


_HAND = {
    "numpy": lambda m: {"NumPy in place": _numpy(m)},
    "jax": lambda m: {"jax.jit, donated": jax(m)},
    "torch": lambda m: {
        "eager, fused optimizer": torch(m),
        "eager, oneDNN products": torch(m, onednn=True),
        "torch.compile": torch(m, compiled=True),
    },
    "tensorflow": lambda m: {
        "tf.function": tensorflow(m),
        "tf.function, update kernels": tensorflow(m, fused=True),
        "tf.function, XLA": tensorflow(m, xla=True),
    },
    "theano": lambda m: {"pytensor.function, shared": _pytensor(m)},
    "cntk": lambda m: {"whole step, bound": _onnx(m)},
}
