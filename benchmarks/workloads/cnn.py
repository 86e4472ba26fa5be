"""CNN on 28 × 28: conv 3×3×32, conv 3×3×64, max-pool, dense 128, dropout, dense 10; Adam."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.problem import Builder, Optimizer, Plan, Training
from benchmarks.stacks import numpy as by_hand
from benchmarks.stacks.numpy_convolution import Convolutions
from benchmarks.workloads import training
from benchmarks.workloads.mlp import onnx_crossentropy, onnx_relu_gradient

PLAN = Plan(samples=5, warmup=2, tolerance=2e-4)
ADAM = Optimizer(1e-4, adam=True, epsilon=1e-10)
"""PyTorch adds epsilon elsewhere: a small one keeps the numbers comparable."""


def problem(name: str, tiny: bool = False) -> Training:
    """He's initial weights, uniform pixels, random labels. The weights of a convolution are
    (height, width, in, out), images (batch, height, width, channels).
    """
    side, first, second, dense, batch = (8, 3, 4, 6, 3) if tiny else (28, 32, 64, 128, 32)
    pooled = (side - 4) // 2
    rng = np.random.default_rng(0)
    parameters = []
    shapes = [(3, 3, 1, first), (3, 3, first, second), (pooled**2 * second, dense), (dense, 10)]
    for shape in shapes:
        spread = np.sqrt(2 / np.prod(shape[:-1]))
        parameters.append((rng.standard_normal(shape) * spread).astype("float32"))
        parameters.append(np.zeros(shape[-1], "float32"))
    x = rng.random((batch, side, side, 1), dtype="float32")
    y = rng.integers(0, 10, batch, dtype="int32")
    return Training(parameters, x, y, ADAM, dropout=0.5)


def contenders(name: str, stack: str) -> dict[str, Builder]:
    """Name → builder of everything that runs in the process of `stack`."""
    model = sys.modules[__name__]
    found = training.contenders(model, stack)
    found.pop("eager, oneDNN products", None)  # convolutions are oneDNN's anyway
    if stack == "torch":
        found["eager, channels last"] = training.torch(model, loss=_channels_last_loss)
    if stack == "theano":
        del found["pytensor.function, shared"]  # compiles for two minutes, then takes 90 ms
    if stack == "jax":
        found["jax.jit, pooling by reshape"] = training.jax(model, loss=_jax_reshape_loss)
    return found


def expected(problem: Training) -> list[float]:
    """The first losses, in float64, without dropout."""
    return by_hand.losses(problem, numpy_gradients, 5)


def k_loss(K: Any, weights: list[Any], x: Any, y: Any, problem: Training) -> Any:
    """Plain K, for Backplane and the reference alike."""
    k1, b1, k2, b2, w3, b3, w4, b4 = weights
    h = K.relu(K.bias_add(K.conv2d(x, k1), b1))
    h = K.relu(K.bias_add(K.conv2d(h, k2), b2))
    h = K.batch_flatten(K.pool2d(h, (2, 2), strides=(2, 2)))
    h = K.relu(K.bias_add(K.dot(h, w3), b3))
    if problem.dropout:
        h = K.dropout(h, problem.dropout)
    p = K.softmax(K.bias_add(K.dot(h, w4), b4))
    return K.mean(K.sparse_categorical_crossentropy(y, p))


def numpy_gradients(
    problem: Training, weights: list[np.ndarray]
) -> Callable[[], tuple[float, list[np.ndarray]]]:
    """Forward and backward pass; the large buffers are allocated once."""
    *_, w3, b3, w4, b4 = weights
    dtype = w3.dtype
    rows = np.arange(len(problem.x))
    gradients = [np.empty_like(w) for w in weights]
    trunk = Convolutions(weights[:4], problem.x.astype(dtype), gradients[:4])
    d = np.empty_like(trunk.out)
    rng, kept = np.random.default_rng(0), 1 - problem.dropout

    def step() -> tuple[float, list[np.ndarray]]:
        flat = trunk.forward().reshape(len(rows), -1)
        h = flat @ w3
        h += b3
        scale = (h > 0) / np.asarray(kept, dtype)
        if problem.dropout:
            scale *= rng.random(h.shape, "float32") < kept
        h *= scale
        p = h @ w4 + b4
        p = np.exp(p - p.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        loss = -float(np.log(p[rows, problem.y]).mean())
        p[rows, problem.y] -= 1
        p /= len(rows)
        d3 = p @ w4.T
        d3 *= scale
        np.matmul(flat.T, d3, out=gradients[4])
        np.sum(d3, axis=0, out=gradients[5])
        np.matmul(h.T, p, out=gradients[6])
        np.sum(p, axis=0, out=gradients[7])
        np.matmul(d3, w3.T, out=d.reshape(flat.shape))
        trunk.backward(d)
        return loss, gradients

    return step


def jax_loss(weights: Any, x: Any, y: Any, problem: Training, key: Any, pool: Any = None) -> Any:
    """The loss, for `jax.grad`, with JAX's own pooling."""
    import jax
    import jax.numpy as jnp

    def convolution(x: Any, k: Any, b: Any) -> Any:
        layout = ("NHWC", "HWIO", "NHWC")
        y = jax.lax.conv_general_dilated(x, k, (1, 1), "VALID", dimension_numbers=layout)
        return jax.nn.relu(y + b)

    def own(h: Any) -> Any:
        window = (1, 2, 2, 1)
        return jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, window, window, "VALID")

    k1, b1, k2, b2, w3, b3, w4, b4 = weights
    h = convolution(convolution(x, k1, b1), k2, b2)
    h = jax.nn.relu((pool or own)(h).reshape(len(x), -1) @ w3 + b3)
    if problem.dropout:
        kept = 1 - problem.dropout
        h = jnp.where(jax.random.bernoulli(key, kept, h.shape), h / kept, 0)
    logp = jax.nn.log_softmax(h @ w4 + b4)
    return -jnp.mean(jnp.take_along_axis(logp, y[:, None], axis=1))


def _jax_reshape_loss(weights: Any, x: Any, y: Any, problem: Training, key: Any) -> Any:
    """The same with a maximum over reshaped axes, whose gradient needs no scatter."""

    def pool(h: Any) -> Any:
        n, side, _, channels = h.shape
        return h.reshape(n, side // 2, 2, side // 2, 2, channels).max(axis=(2, 4))

    return jax_loss(weights, x, y, problem, key, pool)


def torch_parameters(parameters: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Kernels as (out, in, height, width); the dense rows to match."""
    k1, b1, k2, b2, w3, b3, w4, b4 = parameters
    side = int(np.sqrt(len(w3) // k2.shape[3]))
    w3 = w3.reshape(side, side, -1, w3.shape[1]).transpose(2, 0, 1, 3).reshape(w3.shape)
    k1, k2 = (np.ascontiguousarray(k.transpose(3, 2, 0, 1)) for k in (k1, k2))
    return [k1, b1, k2, b2, np.ascontiguousarray(w3), b3, w4, b4]


def torch_loss(weights: Any, x: Any, y: Any, problem: Training, linear: Any) -> Any:
    """The loss, for autograd, channels first."""
    import torch
    import torch.nn.functional as F

    k1, b1, k2, b2, w3, b3, w4, b4 = weights
    h = F.relu(F.conv2d(x.reshape(len(x), 1, *x.shape[1:3]), k1, b1))
    h = F.relu(F.conv2d(h, k2, b2))
    h = F.relu(linear(torch.flatten(F.max_pool2d(h, 2), 1), w3, b3))
    h = F.dropout(h, problem.dropout)
    return F.cross_entropy(linear(h, w4, b4), y.long())


def _channels_last_loss(weights: Any, x: Any, y: Any, problem: Training, linear: Any) -> Any:
    import torch

    last = torch.channels_last
    weights = [w.contiguous(memory_format=last) if w.ndim == 4 else w for w in weights]
    return torch_loss(weights, x, y, problem, linear)


def tensorflow_loss(weights: Any, x: Any, y: Any, problem: Training) -> Any:
    """The loss, for `GradientTape`."""
    import tensorflow as tf

    k1, b1, k2, b2, w3, b3, w4, b4 = weights
    h = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, k1, 1, "VALID"), b1))
    h = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(h, k2, 1, "VALID"), b2))
    h = tf.reshape(tf.nn.max_pool2d(h, 2, 2, "VALID"), (len(problem.x), -1))
    h = tf.nn.relu(tf.nn.bias_add(h @ w3, b3))
    if problem.dropout:
        h = tf.nn.dropout(h, problem.dropout)
    scores = tf.nn.bias_add(h @ w4, b4)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=scores))


def pytensor_loss(weights: Any, x: Any, y: Any, problem: Training) -> Any:
    """The loss, for `pytensor.grad`. PyTensor has no convolution: windows are laid out in rows."""
    import pytensor
    import pytensor.tensor as pt

    def convolution(x: Any, k: Any, b: Any, shape: tuple[int, ...]) -> Any:
        n, side, channels = shape
        m, filters = side - 2, b.type.shape[0]
        windows = [x[:, i : i + m, j : j + m] for i in range(3) for j in range(3)]
        rows = pt.concatenate(windows, axis=3).reshape((n * m * m, 9 * channels))
        h = rows @ k.reshape((9 * channels, filters)) + b
        return pt.maximum(h, 0).reshape((n, m, m, filters))

    k1, b1, k2, b2, w3, b3, w4, b4 = weights
    n, side = problem.x.shape[:2]
    first, second = (problem.parameters[i].size for i in (1, 3))
    h = convolution(x, k1, b1, (n, side, 1))
    h = convolution(h, k2, b2, (n, side - 2, first))
    half = (side - 4) // 2
    h = h.reshape((n, half, 2, half, 2, second)).max(axis=(2, 4)).reshape((n, half**2 * second))
    h = pt.maximum(h @ w3 + b3, 0)
    if problem.dropout:
        kept = np.float32(1 - problem.dropout)
        rng = pytensor.shared(np.random.default_rng(0))
        rng.default_update, mask = pt.random.bernoulli(
            kept, size=(n, problem.parameters[5].size), rng=rng
        ).owner.outputs
        h = h * (mask.astype("float32") / kept)
    logp = pt.special.log_softmax(h @ w4 + b4, axis=1)
    return -pt.mean(logp[pt.arange(n), y])


onnx_parameters = torch_parameters


def onnx_loss(
    g: Any, weights: list[str], x: str, y: str, problem: Training
) -> tuple[str, list[str]]:
    """Forward and backward pass as nodes, channels first."""
    k1, b1, k2, b2, w3, b3, w4, b4 = weights
    op, c = g.op, g.constant
    n, side = problem.x.shape[:2]
    filters, units = problem.parameters[3].size, problem.parameters[5].size
    half = (side - 4) // 2
    images = op("Transpose", x, perm=[0, 3, 1, 2])
    h1 = op("Relu", op("Conv", images, k1, b1))
    h2 = op("Relu", op("Conv", h1, k2, b2))
    split = op("Reshape", h2, c([n, filters, half, 2, half, 2], "int64"))
    top = op("ReduceMax", split, c([3, 5], "int64"), keepdims=1)
    flat = op("Reshape", top, c([n, -1], "int64"))
    h3 = op("Relu", op("Gemm", flat, w3, b3))
    scale = c(1)
    if problem.dropout:
        kept = 1 - problem.dropout
        drawn = op("Less", op("RandomUniform", shape=[n, units]), c(kept))
        scale = op("Mul", op("Cast", drawn, to=1), c(1 / kept))
    h4 = op("Mul", h3, scale)
    loss, d = onnx_crossentropy(g, op("Gemm", h4, w4, b4), y, problem)
    gradients = [op("Gemm", h4, d, transA=1), g.sum(d, 0)]
    d = op("Mul", op("Gemm", d, w4, transB=1), scale)
    d = onnx_relu_gradient(g, d, h3)
    gradients = [op("Gemm", flat, d, transA=1), g.sum(d, 0), *gradients]
    d = op("Reshape", op("Gemm", d, w3, transB=1), c([n, filters, half, 1, half, 1], "int64"))
    d = op("Where", op("Greater", top, c(0)), d, c(0))
    d = op("Where", op("Equal", split, top), d, c(0))
    d2 = op("Reshape", d, c([n, filters, 2 * half, 2 * half], "int64"))
    d1 = onnx_relu_gradient(g, op("ConvTranspose", d2, k2), h1)
    first = [_onnx_kernel_gradient(g, images, d1), g.sum(d1, 0, 2, 3)]
    return loss, [*first, _onnx_kernel_gradient(g, h1, d2), g.sum(d2, 0, 2, 3), *gradients]


def _onnx_kernel_gradient(g: Any, x: str, d: str) -> str:
    """Correlate the images with the cotangents, batch and channels changing places."""
    swapped = [g.op("Transpose", a, perm=[1, 0, 2, 3]) for a in (x, d)]
    return g.op("Transpose", g.op("Conv", *swapped), perm=[1, 0, 2, 3])


def keras3_model(keras: Any, problem: Training) -> tuple[Any, str]:
    """A sequential model."""
    first, second, dense, classes = (b.size for b in problem.parameters[1::2])
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input(problem.x.shape[1:]),
            layers.Conv2D(first, 3, activation="relu"),
            layers.Conv2D(second, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(dense, activation="relu"),
            layers.Dropout(problem.dropout),
            layers.Dense(classes, activation="softmax"),
        ]
    )
    return model, "sparse_categorical_crossentropy"
