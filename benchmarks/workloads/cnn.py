"""CNN on 28 × 28: conv 3×3×32, conv 3×3×64, max-pool, dense 128, dropout, dense 10; Adam."""

from __future__ import annotations

import functools
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
        found["eager, channels last"] = training.torch(
            model, loss=_channels_last_loss, laid_out=False
        )
    if stack == "theano":
        found["pytensor.function, by hand"] = found.pop("pytensor.function, shared")
    if stack == "jax":
        found["jax.jit, layers by hand"] = training.jax(
            model, loss=_jax_by_hand_loss, own_convolutions=True
        )
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


def jax_loss(weights: Any, x: Any, y: Any, problem: Training, key: Any, layers: Any = None) -> Any:
    """The loss, for `jax.grad`, with JAX's own convolutions and pooling or other ones."""
    import jax
    import jax.numpy as jnp

    def pool(h: Any) -> Any:
        window = (1, 2, 2, 1)
        return jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, window, window, "VALID")

    first, second, pool = layers or (_jax_convolution, _jax_convolution, pool)
    k1, b1, k2, b2, w3, b3, w4, b4 = weights
    h = jax.nn.relu(second(jax.nn.relu(first(x, k1) + b1), k2) + b2)
    h = jax.nn.relu(pool(h).reshape(len(x), -1) @ w3 + b3)
    if problem.dropout:
        kept = 1 - problem.dropout
        h = jnp.where(jax.random.bernoulli(key, kept, h.shape), h / kept, 0)
    logp = jax.nn.log_softmax(h @ w4 + b4)
    return -jnp.mean(jnp.take_along_axis(logp, y[:, None], axis=1))


def _jax_convolution(x: Any, kernel: Any, padding: Any = "VALID") -> Any:
    import jax

    layout = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, kernel, (1, 1), padding, dimension_numbers=layout)


def _jax_layers() -> tuple[Any, Any, Any]:
    """Convolutions whose gradients are convolutions in the layout that XLA is good at, that of one
    channel as a sum of products; the maximum of slices.
    """
    import jax
    import jax.numpy as jnp

    keep = jax.lax.optimization_barrier  # else XLA undoes the transposition

    def products(x: Any, kernel: Any) -> Any:
        n = x.shape[1] - 2
        places = [(i, j) for i in range(3) for j in range(3)]
        return sum(x[:, i : i + n, j : j + n] * kernel[i, j, 0] for i, j in places)

    def to_kernel(x: Any, d: Any) -> Any:
        x, d = keep(x.transpose(3, 1, 2, 0)), keep(d.transpose(1, 2, 0, 3))
        return _jax_convolution(x, d).transpose(1, 2, 0, 3)

    def to_both(saved: Any, d: Any) -> Any:
        x, kernel = saved
        turned = keep(kernel[::-1, ::-1].swapaxes(2, 3))
        return _jax_convolution(d, turned, ((2, 2), (2, 2))), to_kernel(x, d)

    def pool(h: Any) -> Any:
        h = jnp.maximum(h[:, ::2], h[:, 1::2])
        return jnp.maximum(h[:, :, ::2], h[:, :, 1::2])

    first, second = jax.custom_vjp(products), jax.custom_vjp(lambda x, k: _jax_convolution(x, k))
    first.defvjp(lambda x, k: (products(x, k), x), lambda x, d: (None, to_kernel(x, d)))
    second.defvjp(lambda x, k: (_jax_convolution(x, k), (x, k)), to_both)
    return first, second, pool


def _jax_by_hand_loss(weights: Any, x: Any, y: Any, problem: Training, key: Any) -> Any:
    return jax_loss(weights, x, y, problem, key, _jax_layers())


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
    """Channels last all the way: PyTorch's kernels take such memory through permuted views, and
    the dense layer reads it as it is. The maximum comes before relu: a quarter of the work.
    """
    import torch
    import torch.nn.functional as F

    def convolution(x: Any, k: Any, b: Any) -> Any:
        return F.conv2d(x, k.permute(3, 2, 0, 1), b)

    k1, b1, k2, b2, w3, b3, w4, b4 = weights
    h = F.relu(convolution(x.permute(0, 3, 1, 2), k1, b1))
    h = F.relu(F.max_pool2d(convolution(h, k2, b2), 2))
    h = F.relu(linear(torch.flatten(h.permute(0, 2, 3, 1), 1), w3, b3))
    h = F.dropout(h, problem.dropout)
    return F.cross_entropy(linear(h, w4, b4), y.long())


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


def pytensor_gradients(weights: Any, x: Any, y: Any, problem: Training) -> tuple[Any, list[Any]]:
    """Forward and backward pass. PyTensor has no convolution: products of windows laid out in rows,
    a few images at a time, so that what a node writes is in the cache when the next one reads it.
    """
    import pytensor
    import pytensor.tensor as pt

    from benchmarks.stacks.pytensor_convolution import Convolutions as Block

    *_, w3, b3, w4, b4 = weights
    n, side = problem.x.shape[:2]
    size = next(size for size in (4, 3, 2, 1) if n % size == 0)
    blocks = [
        Block(weights[:4], x[i : i + size], (size, side), problem.parameters)
        for i in range(0, n, size)
    ]
    flat = pt.concatenate([block.out for block in blocks])
    h = pt.maximum(pt.dot(flat, w3) + b3, 0)
    kept = np.float32(1 - problem.dropout)
    scale = pt.gt(h, 0) / kept
    if problem.dropout:
        rng = pytensor.shared(np.random.default_rng(0))
        rng.default_update, mask = pt.random.bernoulli(
            kept, size=(n, problem.parameters[5].size), rng=rng
        ).owner.outputs
        scale = scale * mask.astype("float32")
    h = h * scale
    scores = pt.dot(h, w4) + b4
    hot = pt.eq(y[:, None], np.arange(problem.parameters[7].size, dtype="int32")[None])
    scores = scores - scores.max(axis=1, keepdims=True)
    exponentials = pt.exp(scores)
    total = exponentials.sum(axis=1, keepdims=True)
    loss = pt.mean(pt.log(total[:, 0]) - (scores * hot).sum(axis=1))
    d = (exponentials / total - hot) / np.float32(n)
    dense = [pt.dot(h.T, d), d.sum(axis=0)]
    d = pt.dot(d, w4.T) * scale
    dense = [pt.dot(flat.T, d), d.sum(axis=0), *dense]
    d = pt.dot(d, w3.T) * pt.gt(flat, 0)
    parts = [block.gradients(d[i * size : (i + 1) * size]) for i, block in enumerate(blocks)]
    return loss, [
        *(functools.reduce(lambda a, b: a + b, each) for each in zip(*parts, strict=True)),
        *dense,
    ]


def onnx_loss(
    g: Any, weights: list[str], x: str, y: str, problem: Training
) -> tuple[str, list[str]]:
    """Forward and backward pass as nodes: convolutions channels first, all else channels last.

    The maximum comes before bias and relu, which do not change where it is.
    """
    k1, b1, k2, b2, w3, b3, w4, b4 = weights
    op, shape = g.op, g.reshape
    n, side = problem.x.shape[:2]
    filters, units = problem.parameters[3].size, problem.parameters[5].size
    half = (side - 4) // 2
    first, second = (op("Transpose", k, perm=[3, 2, 0, 1]) for k in (k1, k2))
    images = shape(x, n, 1, side, side)
    h1 = op("Relu", op("Conv", images, first, b1))
    h2 = op("Transpose", op("Conv", h1, second), perm=[0, 2, 3, 1])
    h2 = shape(h2, n * half, 2, 2 * half * filters)
    rows = g.maximum(h2, 1)
    pairs = shape(rows, n * half * half, 2, filters)
    top = g.maximum(pairs, 1)
    flat = op("Relu", shape(op("Add", top, b2), n, -1))
    h3 = op("Relu", op("Gemm", flat, w3, b3))
    scale = _onnx_dropout(g, n, units, problem)
    h4 = op("Mul", h3, scale)
    loss, d = onnx_crossentropy(g, op("Gemm", h4, w4, b4), y, problem)
    dense = [op("Gemm", h4, d, transA=1), g.sum(d, 0)]
    d = op("Mul", op("Gemm", d, w4, transB=1), scale)
    d = onnx_relu_gradient(g, d, h3)
    dense = [op("Gemm", flat, d, transA=1), g.sum(d, 0), *dense]
    d = onnx_relu_gradient(g, op("Gemm", d, w3, transB=1), flat)
    d = shape(d, n * half * half, 1, filters)
    to_b2 = g.sum(d, 0, 1)
    d = op("Mul", d, op("Cast", op("Equal", pairs, top), to=1))
    d = shape(d, n * half, 1, 2 * half * filters)
    d = op("Mul", d, op("Cast", op("Equal", h2, rows), to=1))
    d2 = shape(d, n, 2 * half, 2 * half, filters)
    to_k2 = _onnx_kernel_gradient(g, op("Transpose", h1, perm=[0, 2, 3, 1]), d2, problem)
    d1 = op("ConvTranspose", op("Transpose", d2, perm=[0, 3, 1, 2]), second)
    d1 = onnx_relu_gradient(g, d1, h1)
    # With one channel, the images are the channels, and the cotangents the kernels.
    to_k1 = op("Conv", shape(x, 1, n, side, side), op("Transpose", d1, perm=[1, 0, 2, 3]))
    to_k1 = op("Transpose", to_k1, perm=[2, 3, 0, 1])
    return loss, [to_k1, g.sum(d1, 0, 2, 3), to_k2, to_b2, *dense]


def _onnx_dropout(g: Any, n: int, units: int, problem: Training) -> str:
    """What activations are multiplied with."""
    if not problem.dropout:
        return g.constant(1)
    kept = 1 - problem.dropout
    drawn = g.op("Less", g.op("RandomUniform", shape=[n, units]), g.constant(kept))
    return g.op("Mul", g.op("Cast", drawn, to=1), g.constant(1 / kept))


def _onnx_kernel_gradient(g: Any, x: str, d: str, problem: Training) -> str:
    """A product for each row of the windows; its three columns side by side are gathered once."""
    _, _, channels, filters = problem.parameters[2].shape
    places = problem.x.shape[1] - 4
    columns = g.op("Concat", *(g.slice(x, 2, j, j + places) for j in range(3)), axis=3)
    d = g.reshape(d, -1, filters)
    parts = [
        g.op("Gemm", g.reshape(g.slice(columns, 1, i, i + places), -1, 3 * channels), d, transA=1)
        for i in range(3)
    ]
    return g.reshape(g.op("Concat", *parts, axis=0), 3, 3, channels, filters)


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
