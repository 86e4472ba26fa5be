"""MLP 784-512-512-10, batch 128: one step of SGD with momentum, or of Adam."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.problem import Builder, Optimizer, Plan, Training
from benchmarks.stacks import numpy as by_hand
from benchmarks.workloads import training

PLAN = Plan(samples=21, tolerance=1e-4)
OPTIMIZERS = {
    "mlp-sgd": Optimizer(0.01, momentum=0.9),
    "mlp-adam": Optimizer(1e-4, adam=True),
}


def problem(name: str, tiny: bool = False) -> Training:
    """He's initial weights, uniform pixels, random labels."""
    sizes, batch = ([12, 8, 6, 5], 4) if tiny else ([784, 512, 512, 10], 128)
    rng = np.random.default_rng(0)
    parameters = []
    for i, o in itertools.pairwise(sizes):
        parameters.append((rng.standard_normal((i, o)) * np.sqrt(2 / i)).astype("float32"))
        parameters.append(np.zeros(o, "float32"))
    x = rng.random((batch, sizes[0]), dtype="float32")
    y = rng.integers(0, sizes[-1], batch, dtype="int32")
    return Training(parameters, x, y, OPTIMIZERS[name])


def contenders(name: str, stack: str) -> dict[str, Builder]:
    """Name → builder of everything that runs in the process of `stack`."""
    return training.contenders(sys.modules[__name__], stack)


def expected(problem: Training) -> list[float]:
    """The first losses, in float64."""
    return by_hand.losses(problem, numpy_gradients, 5)


def k_loss(K: Any, weights: list[Any], x: Any, y: Any, problem: Training) -> Any:
    """Plain K, for Backplane and the reference alike."""
    w1, b1, w2, b2, w3, b3 = weights
    h = K.relu(K.bias_add(K.dot(x, w1), b1))
    h = K.relu(K.bias_add(K.dot(h, w2), b2))
    p = K.softmax(K.bias_add(K.dot(h, w3), b3))
    return K.mean(K.sparse_categorical_crossentropy(y, p))


def numpy_gradients(
    problem: Training, weights: list[np.ndarray]
) -> Callable[[], tuple[float, list[np.ndarray]]]:
    """Forward and backward pass into buffers that are allocated once."""
    w1, b1, w2, b2, w3, b3 = weights
    x, rows = problem.x.astype(w1.dtype), np.arange(len(problem.x))
    gradients = [np.empty_like(w) for w in weights]
    h1, h2, p = (np.empty((len(x), w.shape[1]), w.dtype) for w in (w1, w2, w3))
    d1, d2 = np.empty_like(h1), np.empty_like(h2)
    off1, off2 = np.empty(h1.shape, bool), np.empty(h2.shape, bool)

    def layer(x: Any, w: Any, b: Any, out: Any) -> None:
        np.matmul(x, w, out=out)
        out += b

    def back(x: Any, d: Any, into: list[Any]) -> None:
        np.matmul(x.T, d, out=into[0])
        np.sum(d, axis=0, out=into[1])

    def step() -> tuple[float, list[np.ndarray]]:
        layer(x, w1, b1, h1)
        np.maximum(h1, 0, out=h1)
        layer(h1, w2, b2, h2)
        np.maximum(h2, 0, out=h2)
        layer(h2, w3, b3, p)
        p.__isub__(p.max(axis=1, keepdims=True))
        np.exp(p, out=p)
        p.__itruediv__(p.sum(axis=1, keepdims=True))
        loss = -float(np.log(p[rows, problem.y]).mean())
        p[rows, problem.y] -= 1
        p.__itruediv__(len(x))
        back(h2, p, gradients[4:])
        np.matmul(p, w3.T, out=d2)
        np.less_equal(h2, 0, out=off2)
        d2[off2] = 0
        back(h1, d2, gradients[2:4])
        np.matmul(d2, w2.T, out=d1)
        np.less_equal(h1, 0, out=off1)
        d1[off1] = 0
        back(x, d1, gradients[:2])
        return loss, gradients

    return step


def jax_loss(weights: Any, x: Any, y: Any, problem: Training, key: Any) -> Any:
    """The loss, for `jax.grad`."""
    import jax
    import jax.numpy as jnp

    w1, b1, w2, b2, w3, b3 = weights
    h = jax.nn.relu(x @ w1 + b1)
    h = jax.nn.relu(h @ w2 + b2)
    logp = jax.nn.log_softmax(h @ w3 + b3)
    return -jnp.mean(jnp.take_along_axis(logp, y[:, None], axis=1))


def torch_loss(weights: Any, x: Any, y: Any, problem: Training, linear: Any) -> Any:
    """The loss, for autograd."""
    import torch.nn.functional as F

    w1, b1, w2, b2, w3, b3 = weights
    h = F.relu(linear(x, w1, b1))
    h = F.relu(linear(h, w2, b2))
    return F.cross_entropy(linear(h, w3, b3), y.long())


def tensorflow_loss(weights: Any, x: Any, y: Any, problem: Training) -> Any:
    """The loss, for `GradientTape`."""
    import tensorflow as tf

    w1, b1, w2, b2, w3, b3 = weights
    h = tf.nn.relu(tf.nn.bias_add(x @ w1, b1))
    h = tf.nn.relu(tf.nn.bias_add(h @ w2, b2))
    scores = tf.nn.bias_add(h @ w3, b3)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=scores))


def pytensor_loss(weights: Any, x: Any, y: Any, problem: Training) -> Any:
    """The loss, for `pytensor.grad`."""
    import pytensor.tensor as pt

    w1, b1, w2, b2, w3, b3 = weights
    h = pt.maximum(x @ w1 + b1, 0)
    h = pt.maximum(h @ w2 + b2, 0)
    logp = pt.special.log_softmax(h @ w3 + b3, axis=1)
    return -pt.mean(logp[pt.arange(len(problem.x)), y])


def onnx_loss(
    g: Any, weights: list[str], x: str, y: str, problem: Training
) -> tuple[str, list[str]]:
    """Forward and backward pass as nodes."""
    w1, b1, w2, b2, w3, b3 = weights
    h1 = g.op("Relu", g.op("Gemm", x, w1, b1))
    h2 = g.op("Relu", g.op("Gemm", h1, w2, b2))
    scores = g.op("Gemm", h2, w3, b3)
    loss, d = onnx_crossentropy(g, scores, y, problem)
    gradients = [g.op("Gemm", h2, d, transA=1), g.sum(d, 0)]
    d = onnx_relu_gradient(g, g.op("Gemm", d, w3, transB=1), h2)
    gradients = [g.op("Gemm", h1, d, transA=1), g.sum(d, 0), *gradients]
    d = onnx_relu_gradient(g, g.op("Gemm", d, w2, transB=1), h1)
    return loss, [g.op("Gemm", x, d, transA=1), g.sum(d, 0), *gradients]


def onnx_crossentropy(g: Any, scores: str, y: str, problem: Training) -> tuple[str, str]:
    """Mean cross-entropy of a softmax with labels, and its gradient for the scores."""
    classes = problem.parameters[-1].size
    hot = g.op("OneHot", y, g.constant(classes, "int32"), g.constant([0, 1]))
    logp = g.op("LogSoftmax", scores, axis=1)
    picked = g.sum(g.op("Mul", hot, logp), 0, 1)
    loss = g.op("Div", picked, g.constant(-len(problem.y)))
    d = g.op("Sub", g.op("Softmax", scores, axis=1), hot)
    return loss, g.op("Div", d, g.constant(len(problem.y)))


def onnx_relu_gradient(g: Any, d: str, result: str) -> str:
    """`d` where the result is positive, else 0. `Where` would take half as much again."""
    return g.op("Mul", d, g.op("Cast", g.op("Greater", result, g.constant(0)), to=1))


def keras3_model(keras: Any, problem: Training) -> tuple[Any, str]:
    """Three dense layers."""
    sizes = [b.size for b in problem.parameters[1::2]]
    kinds = ["relu", "relu", "softmax"]
    layers = [keras.layers.Dense(n, activation=kind) for n, kind in zip(sizes, kinds, strict=True)]
    model = keras.Sequential([keras.Input(problem.x.shape[1:]), *layers])
    return model, "sparse_categorical_crossentropy"
