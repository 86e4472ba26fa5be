"""What a single eager call, and `K.eval`, cost over the library's own call: tanh of 8 × 8."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.problem import BACKPLANE, Builder, Plan, Run

PLAN = Plan(samples=9, inner=100, warmup=1, tolerance=1e-5, unit="µs")


def problem(name: str, tiny: bool = False) -> np.ndarray:
    """The same at all sizes."""
    return np.random.default_rng(0).standard_normal((8, 8)).astype("float32")


def expected(problem: np.ndarray) -> list[Any]:
    """The value, in float64."""
    return [np.tanh(problem.astype("float64"))] * 2


def contenders(name: str, stack: str) -> dict[str, Builder]:
    """Name → builder of everything that runs in the process of `stack`."""
    if name == "overhead-eval":
        if stack == "reference":
            return {"reference K": _reference_eval}
        if stack in _EVAL:
            return {BACKPLANE: _eval, "own call": _EVAL[stack]}
    elif stack in _NATIVE:
        return {BACKPLANE: lambda p: _eager(p, stack), "own call": lambda p: _own(p, stack)}
    return {}


def _numpy(a: np.ndarray) -> tuple[Any, Callable[[Any], Any]]:
    return a, np.tanh


def _jax(a: np.ndarray) -> tuple[Any, Callable[[Any], Any]]:
    import jax.numpy as jnp

    return jnp.array(a), jnp.tanh


def _torch(a: np.ndarray) -> tuple[Any, Callable[[Any], Any]]:
    import torch

    torch.set_num_threads(1)
    return torch.tensor(a), torch.tanh


def _tensorflow(a: np.ndarray) -> tuple[Any, Callable[[Any], Any]]:
    import tensorflow as tf

    return tf.constant(a), tf.tanh


_NATIVE = {"numpy": _numpy, "tensorflow": _tensorflow, "jax": _jax, "torch": _torch}
"""Engines that compute at once: a tensor of theirs, and their own tanh."""


def _own(problem: np.ndarray, stack: str) -> Run:
    tensor, tanh = _NATIVE[stack](problem)
    return Run(tanh, (tensor,))


def _eager(problem: np.ndarray, stack: str) -> Run:
    from backplane import backend as K

    tensor, _ = _NATIVE[stack](problem)
    return Run(K.tanh, (tensor,))


def _eval(problem: np.ndarray) -> Run:
    from backplane import backend as K

    return Run(K.eval, (K.tanh(K.variable(problem)),))


def _reference_eval(problem: np.ndarray) -> Run:
    from benchmarks.stacks import k

    K = k.reference()
    return Run(K.eval, (K.tanh(K.variable(problem)),))


def _own_and_back(stack: str) -> Builder:
    def build(problem: np.ndarray) -> Run:
        tensor, tanh = _NATIVE[stack](problem)
        if stack == "jax":
            return Run(lambda x: np.asarray(tanh(x)), (tensor,))
        return Run(lambda x: tanh(x).numpy(), (tensor,))

    return build


def _pytensor(problem: np.ndarray) -> Run:
    import pytensor
    import pytensor.tensor as pt

    return Run(pytensor.function([], pt.tanh(pytensor.shared(problem)), mode="NUMBA"))


def _onnxruntime(problem: np.ndarray) -> Run:
    from benchmarks.stacks.onnxruntime import Graph, info

    g = Graph()
    session = g.session([info("x", problem)], {g.op("Tanh", "x"): info("y", problem)})
    return Run(lambda x: session.run(["y"], {"x": x})[0], (problem,))


_EVAL: dict[str, Builder] = {
    "numpy": lambda p: Run(np.tanh, (p,)),
    **{stack: _own_and_back(stack) for stack in ("tensorflow", "jax", "torch")},
    "theano": _pytensor,
    "cntk": _onnxruntime,
}
