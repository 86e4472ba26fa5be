"""mean(square(sigmoid(x) * tanh(x) + relu(x))) of 4M floats: element-wise work, bound by memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.problem import BACKPLANE, ENGINES, Builder, Plan, Run

PLAN = Plan(samples=3, warmup=1, tolerance=1e-3)
"""ONNX Runtime sums 4M numbers one by one in float32, which is right to 6e-4 only."""


def problem(name: str, tiny: bool = False) -> np.ndarray:
    """Standard normal numbers, at an address that is a multiple of 64: there JAX takes an array as
    it is, elsewhere it copies it, and each contender has an array of its own.
    """
    rng = np.random.default_rng(0)
    shape = (8, 8) if tiny else (2048, 2048)
    memory = np.empty(math.prod(shape) + 16, "float32")
    start = -memory.ctypes.data % 64 // memory.itemsize
    return rng.standard_normal(
        out=memory[start:][: math.prod(shape)].reshape(shape), dtype="float32"
    )


def expected(problem: np.ndarray) -> list[Any]:
    """The value, in float64."""
    return [_plain(problem.astype("float64"))] * 2


def contenders(name: str, stack: str) -> dict[str, Builder]:
    """Name → builder of everything that runs in the process of `stack`."""
    if stack == "reference":
        return {"reference K": _reference}
    if stack not in ENGINES:
        return {}
    own: dict[str, Builder] = {BACKPLANE: _backplane}
    if stack == "torch":
        own["Backplane, compile=True"] = lambda p: _backplane(p, compile=True)
    return {**own, **_HAND[stack]}


def _program(K: Any, problem: np.ndarray, **options: Any) -> Run:
    x = K.placeholder(shape=(None, None))
    y = K.mean(K.square(K.sigmoid(x) * K.tanh(x) + K.relu(x)))
    f = K.function([x], [y], **options)
    return Run(f, ([problem],), value=lambda got: got[0])


def _backplane(problem: np.ndarray, **options: Any) -> Run:
    from backplane import backend as K

    return _program(K, problem, **options)


def _reference(problem: np.ndarray) -> Run:
    from benchmarks.stacks import k

    return _program(k.reference(), problem)


def _plain(x: np.ndarray) -> Any:
    return np.mean(np.square(1 / (1 + np.exp(-x)) * np.tanh(x) + np.maximum(x, 0)))


def _numpy_blocks(problem: np.ndarray, block: int = 16384) -> Run:
    """All passes over one block before the next, so that it stays in the cache."""
    a, b = np.empty(block, "float32"), np.empty(block, "float32")

    def call(x: Any) -> float:
        flat, total = x.reshape(-1), 0.0
        for lo in range(0, flat.size, block):
            v = flat[lo : lo + block]
            s, t = a[: v.size], b[: v.size]
            np.negative(v, out=s)
            np.exp(s, out=s)
            s += 1
            np.tanh(v, out=t)
            t /= s
            np.maximum(v, 0, out=s)
            t += s
            total += float(np.dot(t, t))
        return total / flat.size

    return Run(call, (problem,))


def _jax(problem: np.ndarray) -> Run:
    import jax
    import jax.numpy as jnp

    f = jax.jit(lambda x: jnp.mean(jnp.square(jax.nn.sigmoid(x) * jnp.tanh(x) + jax.nn.relu(x))))
    return Run(lambda x: float(f(x)), (problem,))


def _torch(problem: np.ndarray, how: str) -> Run:
    import torch

    torch.set_num_threads(1)

    def f(x: Any) -> Any:
        return torch.mean(torch.square(torch.sigmoid(x) * torch.tanh(x) + torch.relu(x)))

    def in_place(x: Any) -> Any:
        h = torch.sigmoid(x).mul_(torch.tanh(x)).add_(torch.relu(x)).view(-1)
        return torch.dot(h, h) / h.numel()

    f = {"eager": f, "in place": in_place, "compile": torch.compile(f, dynamic=False)}[how]
    return Run(torch.no_grad()(lambda x: f(torch.from_numpy(x)).item()), (problem,))


def _tensorflow(problem: np.ndarray, xla: bool) -> Run:
    import tensorflow as tf

    @tf.function(jit_compile=xla)
    def f(x: Any) -> Any:
        return tf.reduce_mean(tf.square(tf.sigmoid(x) * tf.tanh(x) + tf.nn.relu(x)))

    return Run(lambda x: float(f(tf.constant(x))), (problem,))


def _pytensor(problem: np.ndarray) -> Run:
    import pytensor
    import pytensor.tensor as pt

    x = pt.fmatrix("x")
    y = pt.mean(pt.square(pt.sigmoid(x) * pt.tanh(x) + pt.maximum(x, 0)))
    return Run(pytensor.function([x], y, mode="NUMBA", trust_input=True), (problem,))


def _onnxruntime(problem: np.ndarray) -> Run:
    from onnx import TensorProto, helper

    from benchmarks.stacks.onnxruntime import Graph, info

    g = Graph()
    h = g.op("Mul", g.op("Sigmoid", "x"), g.op("Tanh", "x"))
    h = g.op("Add", h, g.op("Relu", "x"))
    y = g.op("ReduceMean", g.op("Mul", h, h), keepdims=0)
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, [])
    session = g.session([info("x", problem)], {y: out})
    return Run(lambda x: session.run(["y"], {"x": x})[0], (problem,))


_HAND: dict[str, dict[str, Builder]] = {
    "numpy": {"expression": lambda p: Run(_plain, (p,)), "in blocks": _numpy_blocks},
    "jax": {"jax.jit": _jax},
    "torch": {
        "eager": lambda p: _torch(p, "eager"),
        "eager, in place": lambda p: _torch(p, "in place"),
        "torch.compile": lambda p: _torch(p, "compile"),
    },
    "tensorflow": {
        "tf.function": lambda p: _tensorflow(p, xla=False),
        "tf.function, XLA": lambda p: _tensorflow(p, xla=True),
    },
    "theano": {"pytensor.function": _pytensor},
    "cntk": {"session.run": _onnxruntime},
}
