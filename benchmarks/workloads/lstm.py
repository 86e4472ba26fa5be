"""LSTM over 32 × 80 × 128 with 128 units: forward, backward and a step of SGD."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.problem import Builder, Optimizer, Plan, Training
from benchmarks.stacks import numpy as by_hand
from benchmarks.workloads import training

PLAN = Plan(samples=5, warmup=2, tolerance=1e-4)


def problem(name: str, tiny: bool = False) -> Training:
    """Glorot's weights; the loss is the mean squared distance of the last output from a target.
    Gates stand in the order input, forget, candidate, output.
    """
    batch, steps, inputs, units = (2, 5, 3, 4) if tiny else (32, 80, 128, 128)
    rng = np.random.default_rng(0)
    shapes = [(inputs, 4 * units), (units, 4 * units)]
    parameters = [(rng.standard_normal(s) / np.sqrt(s[0])).astype("float32") for s in shapes]
    x = rng.standard_normal((batch, steps, inputs), dtype="float32")
    y = rng.standard_normal((batch, units), dtype="float32")
    return Training([*parameters, np.zeros(4 * units, "float32")], x, y, Optimizer(0.1))


def contenders(name: str, stack: str) -> dict[str, Builder]:
    """Name → builder of everything that runs in the process of `stack`."""
    model = sys.modules[__name__]
    found = training.contenders(model, stack)
    if stack == "torch":
        found["nn.LSTM's kernel"] = found.pop("eager, fused optimizer")
        del found["eager, oneDNN products"], found["torch.compile"]
        found["loop"] = training.torch(model, loss=_torch_loop_loss)
    if stack == "jax":
        found["jax.jit, gradient by hand"] = training.jax(model, loss=_jax_by_hand_loss)
    if stack == "theano":
        found["pytensor.function, by hand"] = found.pop("pytensor.function, shared")
    if stack == "tensorflow":
        del found["tf.function, update kernels"]
        found["tf.function, unrolled"] = training.tensorflow(model, loss=_tensorflow_unrolled_loss)
    return found


def expected(problem: Training) -> list[float]:
    """The first losses, in float64."""
    return by_hand.losses(problem, numpy_gradients, 5)


def k_loss(K: Any, weights: list[Any], x: Any, y: Any, problem: Training) -> Any:
    """Plain K, for Backplane and the reference alike."""
    kernel, recurrent, bias = weights
    units = problem.y.shape[1]

    def step(x: Any, states: Any) -> Any:
        h, c = states
        z = K.bias_add(K.dot(x, kernel) + K.dot(h, recurrent), bias)
        i = K.sigmoid(z[:, :units])
        f = K.sigmoid(z[:, units : 2 * units])
        o = K.sigmoid(z[:, 3 * units :])
        c = f * c + i * K.tanh(z[:, 2 * units : 3 * units])
        h = o * K.tanh(c)
        return h, [h, c]

    start = K.sum(K.zeros_like(x), axis=(1, 2))
    start = K.tile(K.expand_dims(start), [1, units])
    last = K.rnn(step, x, [start, start])[0]
    return K.mean(K.square(last - y))


class _Numpy:
    """The loop of the layer and the loop of its gradient, over buffers in the order of time."""

    def __init__(self, x: np.ndarray, weights: list[np.ndarray]) -> None:
        self.kernel, self.recurrent, self.bias = weights
        steps, batch, inputs = x.shape
        self.units = len(self.recurrent)
        self.rows = x.reshape(-1, inputs)
        self.z = np.empty((steps, batch, 4 * self.units), x.dtype)
        """Sums that go into gates, then the gates, then the gradients by the sums."""
        self.hs, self.cs = (np.zeros((steps + 1, batch, self.units), x.dtype) for _ in range(2))
        self.ts = np.empty((steps, batch, self.units), x.dtype)
        """tanh of the cells."""
        self.gates = [slice(k * self.units, (k + 1) * self.units) for k in range(4)]

    def forward(self) -> np.ndarray:
        """The last output."""
        hs, cs, ts, z = self.hs, self.cs, self.ts, self.z
        np.matmul(self.rows, self.kernel, out=z.reshape(len(self.rows), -1))
        z += self.bias
        for t in range(len(z)):
            a = z[t]
            a += hs[t] @ self.recurrent
            i, f, g, o = (a[:, gate] for gate in self.gates)
            _sigmoid(a[:, : 2 * self.units])
            np.tanh(g, out=g)
            _sigmoid(o)
            np.multiply(f, cs[t], out=cs[t + 1])
            cs[t + 1] += i * g
            np.tanh(cs[t + 1], out=ts[t])
            np.multiply(o, ts[t], out=hs[t + 1])
        return hs[-1]

    def backward(self, dh: np.ndarray) -> None:
        """What the sums of all steps have as gradients, into `z`."""
        cs, ts, z = self.cs, self.ts, self.z
        dc = np.zeros_like(dh)
        back = np.ascontiguousarray(self.recurrent.T)
        for t in reversed(range(len(z))):
            a = z[t]
            i, f, g, o = (a[:, gate] for gate in self.gates)
            dc += dh * o * (1 - ts[t] * ts[t])
            do = dh * ts[t] * o * (1 - o)
            dg = dc * i * (1 - g * g)
            di = dc * g * i * (1 - i)
            df = dc * cs[t] * f * (1 - f)
            dc *= f
            for into, d in zip((i, f, g, o), (di, df, dg, do), strict=True):
                into[...] = d
            dh = a @ back


def _sigmoid(a: np.ndarray) -> None:
    np.negative(a, out=a)
    np.exp(a, out=a)
    a += 1
    np.reciprocal(a, out=a)


def numpy_gradients(
    problem: Training, weights: list[np.ndarray]
) -> Callable[[], tuple[float, list[np.ndarray]]]:
    """Back-propagation through time: one product for the inputs of all steps, and one for each
    weight's gradient.
    """
    dtype = weights[0].dtype
    loops = _Numpy(np.ascontiguousarray(problem.x.transpose(1, 0, 2)).astype(dtype), weights)
    y = problem.y.astype(dtype)
    gradients = [np.empty_like(w) for w in weights]

    def step() -> tuple[float, list[np.ndarray]]:
        away = loops.forward() - y
        loops.backward(away * (2 / away.size))
        flat = loops.z.reshape(len(loops.rows), -1)
        np.matmul(loops.rows.T, flat, out=gradients[0])
        np.matmul(loops.hs[:-1].reshape(-1, loops.units).T, flat, out=gradients[1])
        np.sum(flat, axis=0, out=gradients[2])
        return float(np.mean(away * away)), gradients

    return step


def jax_loss(weights: Any, x: Any, y: Any, problem: Training, key: Any) -> Any:
    """The loss, for `jax.grad`: the product with the inputs outside the scan."""
    import jax
    import jax.numpy as jnp

    kernel, recurrent, bias = weights

    def step(carry: Any, z: Any) -> Any:
        h, c = carry
        i, f, g, o = jnp.split(z + h @ recurrent, 4, axis=1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

    zs = jnp.swapaxes(x, 0, 1) @ kernel + bias
    start = jnp.zeros_like(y)
    (h, _), _ = jax.lax.scan(step, (start, start), zs)
    return jnp.mean(jnp.square(h - y))


def _jax_by_hand_loss(weights: Any, x: Any, y: Any, problem: Training, key: Any) -> Any:
    """The same with a gradient by hand: a scan back, and one product for each weight."""
    import jax
    import jax.numpy as jnp

    rows = jnp.swapaxes(x, 0, 1).reshape(-1, x.shape[2])
    start = jnp.zeros_like(y)

    def forward(weights: Any) -> Any:
        kernel, recurrent, bias = weights

        def step(carry: Any, z: Any) -> Any:
            h, c = carry
            i, f, g, o = jnp.split(z + h @ recurrent, 4, axis=1)
            i, f, g, o = jax.nn.sigmoid(i), jax.nn.sigmoid(f), jnp.tanh(g), jax.nn.sigmoid(o)
            new = f * c + i * g
            top = jnp.tanh(new)
            return (o * top, new), (h, c, i, f, g, o, top)

        zs = (rows @ kernel + bias).reshape(x.shape[1], len(x), -1)
        (h, _), saved = jax.lax.scan(step, (start, start), zs)
        return jnp.mean(jnp.square(h - y)), (recurrent, h, saved)

    def backward(residuals: Any, cotangent: Any) -> Any:
        recurrent, h, saved = residuals
        back = recurrent.T

        def step(carry: Any, saved: Any) -> Any:
            dh, dc = carry
            _, c, i, f, g, o, top = saved
            dc = dc + dh * o * (1 - top * top)
            parts = dc * g * i * (1 - i), dc * c * f * (1 - f), dc * i * (1 - g * g)
            d = jnp.concatenate([*parts, dh * top * o * (1 - o)], axis=1)
            return (d @ back, dc * f), d

        dh = (h - y) * (2 / y.size) * cotangent
        _, d = jax.lax.scan(step, (dh, start), saved, reverse=True)
        d, before = (a.reshape(len(rows), -1) for a in (d, saved[0]))
        return ([rows.T @ d, before.T @ d, d.sum(axis=0)],)

    loss = jax.custom_vjp(lambda weights: forward(weights)[0])
    loss.defvjp(forward, backward)
    return loss(weights)


def torch_parameters(parameters: Sequence[np.ndarray]) -> list[np.ndarray]:
    """PyTorch multiplies with transposed weights; its order of gates is the same."""
    kernel, recurrent, bias = parameters
    return [np.ascontiguousarray(kernel.T), np.ascontiguousarray(recurrent.T), bias]


def torch_loss(weights: Any, x: Any, y: Any, problem: Training, linear: Any) -> Any:
    """The loss, for autograd: what `nn.LSTM` calls, with one bias."""
    import torch

    start = torch.zeros(1, *y.shape)
    flat = [*weights, torch.zeros_like(weights[2])]
    _, h, _ = torch._VF.lstm(x, (start, start), flat, True, 1, 0.0, True, False, True)
    return torch.mean(torch.square(h[0] - y))


def _torch_loop_loss(weights: Any, x: Any, y: Any, problem: Training, linear: Any) -> Any:
    """A loop of Python over the steps."""
    import torch

    kernel, recurrent, bias = weights
    zs = (x @ kernel.t() + bias).unbind(1)
    h = c = torch.zeros_like(y)
    for z in zs:
        i, f, g, o = torch.addmm(z, h, recurrent.t()).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
    return torch.mean(torch.square(h - y))


def _tensorflow_step(z: Any, h: Any, c: Any, recurrent: Any) -> Any:
    import tensorflow as tf

    i, f, g, o = tf.split(z + h @ recurrent, 4, axis=1)
    c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
    return tf.sigmoid(o) * tf.tanh(c), c


def _tensorflow_products(weights: Any, x: Any) -> Any:
    import tensorflow as tf

    rows = tf.reshape(tf.transpose(x, (1, 0, 2)), (-1, x.shape[2]))
    return tf.reshape(rows @ weights[0] + weights[2], (x.shape[1], x.shape[0], -1))


def tensorflow_loss(weights: Any, x: Any, y: Any, problem: Training) -> Any:
    """The loss, for `GradientTape`: a while loop."""
    import tensorflow as tf

    steps = problem.x.shape[1]
    zs = tf.TensorArray(tf.float32, size=steps).unstack(_tensorflow_products(weights, x))

    def body(t: Any, h: Any, c: Any) -> Any:
        return t + 1, *_tensorflow_step(zs.read(t), h, c, weights[1])

    start = tf.zeros_like(y)
    _, h, _ = tf.while_loop(
        lambda t, h, c: t < steps, body, (tf.constant(0), start, start), maximum_iterations=steps
    )
    return tf.reduce_mean(tf.square(h - y))


def _tensorflow_unrolled_loss(weights: Any, x: Any, y: Any, problem: Training) -> Any:
    """The steps written out."""
    import tensorflow as tf

    h = c = tf.zeros_like(y)
    for z in tf.unstack(_tensorflow_products(weights, x)):
        h, c = _tensorflow_step(z, h, c, weights[1])
    return tf.reduce_mean(tf.square(h - y))


def sigmoids_first(parameters: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The gates that take a sigmoid next to each other: input, forget, output, candidate."""
    found = []
    for p in parameters:
        i, f, candidate, o = np.split(p, 4, axis=-1)
        found.append(np.concatenate([i, f, o, candidate], axis=-1))
    return found


pytensor_parameters = onnx_parameters = sigmoids_first


def pytensor_gradients(weights: Any, x: Any, y: Any, problem: Training) -> tuple[Any, list[Any]]:
    """Forward and backward pass, the steps written out, in as few nodes as possible. PyTensor's
    own scan, differentiated by PyTensor, takes six times as long.
    """
    import pytensor.tensor as pt

    kernel, recurrent, bias = weights
    batch, steps, inputs = problem.x.shape
    units = problem.y.shape[1]

    def parts(a: Any, count: int) -> list[Any]:
        return [a[:, k * units : (k + 1) * units] for k in range(count)]

    rows = x.transpose((1, 0, 2)).reshape((steps * batch, inputs))
    zs = (pt.dot(rows, kernel) + bias).reshape((steps, batch, 4 * units))
    h = c = pt.zeros((batch, units), dtype="float32")
    saved = []
    for t in range(steps):
        z = zs[t] + pt.dot(h, recurrent)
        gates, g = pt.sigmoid(z[:, : 3 * units]), pt.tanh(z[:, 3 * units :])
        i, f, o = parts(gates, 3)
        before, added = (h, c), i * g
        c = f * c + added
        top = pt.tanh(c)
        h = o * top
        saved.append((*before, gates, i, f, o, g, added, top, h))
    away = h - y
    loss = pt.mean(away * away)
    gates = pt.concatenate([s[2] for s in saved])
    slopes = (gates * (1 - gates)).reshape((steps, batch, 3 * units))
    dh, dc, back, ds = away * np.float32(2 / problem.y.size), 0, recurrent.T, []
    for t, (_, c, _, i, f, o, g, added, top, h) in reversed([*enumerate(saved)]):
        # Written without 1 - top² and 1 - g², whose other factors are products that are there.
        to_o = dh * top
        dc = dc + (dh * o - to_o * h)
        to_i = dc * g
        to_gates = pt.concatenate([to_i, dc * c, to_o], axis=1) * slopes[t]
        ds.append(pt.concatenate([to_gates, dc * i - to_i * added], axis=1))
        dh, dc = pt.dot(ds[-1], back), dc * f
    d, hs = pt.concatenate(ds[::-1]), pt.concatenate([s[0] for s in saved])
    return loss, [pt.dot(rows.T, d), pt.dot(hs.T, d), d.sum(axis=0)]


def onnx_loss(
    g: Any, weights: list[str], x: str, y: str, problem: Training
) -> tuple[str, list[str]]:
    """Forward and backward pass as nodes, the steps in loops."""
    kernel, recurrent, bias = weights
    op, c = g.op, g.constant
    batch, steps, inputs = problem.x.shape
    units = problem.y.shape[1]
    rows = g.reshape(op("Transpose", x, perm=[1, 0, 2]), -1, inputs)
    zs = g.reshape(op("Gemm", rows, kernel, bias), steps, batch, 4 * units)
    zeros = c(np.zeros((batch, units)))
    h, _, *saved, before = g.scan(_onnx_forward(recurrent, units), [zeros, zeros], [zs])
    away = op("Sub", h, y)
    loss = op("ReduceMean", op("Mul", away, away), keepdims=0)
    dh = op("Mul", away, c(2 / problem.y.size))
    back = op("Transpose", recurrent, perm=[1, 0])
    *_, d = g.scan(_onnx_backward(back), [dh, zeros], saved, backwards=True)
    d = g.reshape(d, -1, 4 * units)
    gradients = [op("Gemm", a, d, transA=1) for a in (rows, g.reshape(before, -1, units))]
    return loss, [*gradients, g.sum(d, 0)]


def _onnx_forward(recurrent: str, units: int) -> Any:
    """A step: new states, and what the backward pass reads."""

    def step(g: Any, h: str, cell: str, z: str) -> tuple[list[str], list[str]]:
        op = g.op
        z = op("Add", op("MatMul", h, recurrent), z)
        gates, z = op("Split", z, g.constant([3 * units, units], "int64"), axis=1, results=2)
        gates, z = op("Sigmoid", gates), op("Tanh", z)
        i, f, o = op("Split", gates, axis=1, num_outputs=3, results=3)
        added = op("Mul", i, z)
        new = op("Add", op("Mul", f, cell), added)
        top = op("Tanh", new)
        out = op("Mul", o, top)
        return [out, new], [gates, z, added, op("Identity", cell), top, out, op("Identity", h)]

    return step


def _onnx_backward(back: str) -> Any:
    """A step backwards. 1 - top² is multiplied with dh · o, 1 - z² with dc · i: without the ones
    these are products that are there already.
    """

    def step(g: Any, dh: str, dc: str, *saved: str) -> tuple[list[str], list[str]]:
        gates, z, added, cell, top, h = saved
        op = g.op
        i, f, o = op("Split", gates, axis=1, num_outputs=3, results=3)
        to_o = op("Mul", dh, top)
        dc = op("Add", dc, op("Sub", op("Mul", dh, o), op("Mul", to_o, h)))
        to_i = op("Mul", dc, z)
        to_gates = op("Concat", to_i, op("Mul", dc, cell), to_o, axis=1)
        to_gates = op("Mul", to_gates, op("Mul", gates, op("Sub", g.constant(1), gates)))
        dz = op("Sub", op("Mul", dc, i), op("Mul", to_i, added))
        d = op("Concat", to_gates, dz, axis=1)
        return [op("MatMul", d, back), op("Mul", dc, f)], [d]

    return step


def keras3_model(keras: Any, problem: Training) -> tuple[Any, str]:
    """An LSTM layer; its weights are set by the run."""
    layer = keras.layers.LSTM(problem.y.shape[1])
    return keras.Sequential([keras.Input(problem.x.shape[1:]), layer]), "mse"
