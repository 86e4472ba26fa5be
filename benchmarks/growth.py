"""How build, differentiation and compilation grow with depth: an MLP of width 16, all gradients.

    python -m benchmarks.growth CORE STACK CONTENDER DEPTH …

prints, for each depth, the seconds from an empty graph to the first result, the library being
imported already.
"""

from __future__ import annotations

import gc
from time import perf_counter, process_time
from typing import Any

import numpy as np

from benchmarks import timing
from benchmarks.problem import BACKPLANE, ENGINES, REFERENCE

WIDTH, BATCH = 16, 8
DEPTHS = (25, 50, 100, 200, 400, 1000)

Arrays = list[np.ndarray]


def problem(depth: int) -> tuple[np.ndarray, Arrays]:
    """Orthogonal weights, so that neither values nor gradients vanish on the way."""
    rng = np.random.default_rng(0)
    squares = rng.standard_normal((depth, WIDTH, WIDTH))
    weights = [np.linalg.qr(a)[0].astype("float32") for a in squares]
    return rng.standard_normal((BATCH, WIDTH)).astype("float32"), weights


def expected(x: np.ndarray, weights: Arrays) -> tuple[float, np.ndarray]:
    """Loss and first gradient, in float64."""
    hs = [x.astype("float64")]
    for w in weights:
        hs.append(np.tanh(hs[-1] @ w))
    d = 2 * hs[-1] / hs[-1].size
    for w, h in zip(reversed(weights), hs[:0:-1], strict=True):
        d = d * (1 - h * h)
        d, above = d @ w.T, d
    return float(np.mean(hs[-1] ** 2)), hs[0].T @ above


def _program(K: Any, x: np.ndarray, weights: Arrays) -> Any:
    h = K.placeholder(shape=(None, WIDTH))
    inputs, variables = [h], [K.variable(w) for w in weights]
    for w in variables:
        h = K.tanh(K.dot(h, w))
    loss = K.mean(K.square(h))
    return K.function(inputs, [loss, *K.gradients(loss, variables)])([x])


def _backplane(x: np.ndarray, weights: Arrays) -> Any:
    from backplane import backend as K

    return _program(K, x, weights)


def _reference(x: np.ndarray, weights: Arrays) -> Any:
    from benchmarks.stacks import k

    return _program(k.reference(), x, weights)


def _jax(x: np.ndarray, weights: Arrays) -> Any:
    import jax
    import jax.numpy as jnp

    def loss(weights: Any, h: Any) -> Any:
        for w in weights:
            h = jnp.tanh(h @ w)
        return jnp.mean(jnp.square(h))

    value, gradients = jax.jit(jax.value_and_grad(loss))([jnp.array(w) for w in weights], x)
    return jax.block_until_ready([value, *gradients])  # its calls return before they have run


def _torch(x: np.ndarray, weights: Arrays) -> Any:
    import torch

    torch.set_num_threads(1)
    tensors = [torch.tensor(w, requires_grad=True) for w in weights]
    h = torch.from_numpy(x)
    for w in tensors:
        h = torch.tanh(h @ w)
    loss = torch.mean(torch.square(h))
    return [loss.detach(), *torch.autograd.grad(loss, tensors)]


def _tensorflow(x: np.ndarray, weights: Arrays) -> Any:
    import tensorflow as tf

    variables = [tf.Variable(w) for w in weights]

    @tf.function(autograph=False)
    def f(h: Any) -> Any:
        with tf.GradientTape() as tape:
            for w in variables:
                h = tf.tanh(h @ w)
            loss = tf.reduce_mean(tf.square(h))
        return [loss, *tape.gradient(loss, variables)]

    return f(tf.constant(x))


def _pytensor(x: np.ndarray, weights: Arrays) -> Any:
    import pytensor
    import pytensor.tensor as pt

    inputs = h = pt.tensor("x", dtype="float32", shape=x.shape)
    shared = [pytensor.shared(w) for w in weights]
    for w in shared:
        h = pt.tanh(h @ w)
    loss = pt.mean(pt.square(h))
    outputs = [loss, *pytensor.grad(loss, shared)]
    return pytensor.function([inputs], outputs, mode="FAST_COMPILE")(x)


def _onnxruntime(x: np.ndarray, weights: Arrays) -> Any:
    from onnx import TensorProto, helper

    from benchmarks.stacks.onnxruntime import Graph, info

    g = Graph()
    names = [f"w{i}" for i in range(len(weights))]
    hs = ["x"]
    for name in names:
        hs.append(g.op("Tanh", g.op("MatMul", hs[-1], name)))
    loss = g.op("ReduceMean", g.op("Mul", hs[-1], hs[-1]), keepdims=0)
    d = g.op("Mul", hs[-1], g.constant(2 / x.size))
    outputs = {loss: helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])}
    for name, below, h in zip(reversed(names), hs[-2::-1], hs[:0:-1], strict=True):
        d = g.op("Mul", d, g.op("Sub", g.constant(1), g.op("Mul", h, h)))
        gradient = g.op("Gemm", below, d, transA=1)
        outputs[gradient] = info(f"d{name}", weights[0])
        d = g.op("Gemm", d, name, transB=1)
    inputs = [info("x", x), *(info(n, w) for n, w in zip(names, weights, strict=True))]
    session = g.session(inputs, outputs)
    wanted = ["loss", *(f"d{name}" for name in names)]
    return session.run(wanted, {"x": x, **dict(zip(names, weights, strict=True))})


_HAND = {
    "jax": ("jax.jit", _jax, 1000),
    "torch": ("eager", _torch, 1000),
    "tensorflow": ("tf.function", _tensorflow, 1000),
    "theano": ("FAST_COMPILE", _pytensor, 200),
    "cntk": ("hand-made graph", _onnxruntime, 1000),
}
"""Engine → name, program and the greatest depth that takes less than half a minute."""


def contenders(stack: str) -> dict[str, tuple[Any, int]]:
    """Name → program and greatest depth."""
    if stack == REFERENCE:
        return {"reference K": (_reference, 400)}
    if stack not in ENGINES:
        return {}
    found = {BACKPLANE: (_backplane, 1000)}
    if stack in _HAND:
        name, program, deepest = _HAND[stack]
        found[name] = (program, deepest)
    return found


def run(stacks: list[str], core: int, say: Any, deepest: int) -> dict[str, Any]:
    """Every contender in a process of its own, through all depths; plain data for JSON."""
    from benchmarks import processes

    rows = []
    for stack in stacks:
        for name, (_, limit) in contenders(stack).items():
            depths = [depth for depth in DEPTHS if depth <= min(limit, deepest)]
            say(f"growth: {stack} {name}")
            arguments = stack, name, *map(str, depths)
            _, seconds = processes.child("benchmarks.growth", stack, core, *arguments)
            slope = timing.exponent(depths, seconds) if len(depths) > 1 else None
            rows.append(
                {"stack": stack, "name": name, "depths": depths, "seconds": seconds}
                | {"exponent": slope}
            )
    return {"growth": rows, "failures": {}}


def main() -> None:
    """The child: import the library and warm it up with two layers, then time each depth."""
    from benchmarks import processes

    stack, name, *depths = processes.begin()
    program, _ = contenders(stack)[name]
    program(*problem(2))
    processes.say([timed(program, int(depth)) for depth in depths])


def timed(program: Any, depth: int) -> float:
    """Seconds that a program takes for a depth; raise AssertionError if its numbers are wrong."""
    x, weights = problem(depth)
    now = process_time if timing.on_cpu() else perf_counter
    gc.collect()
    start = now()
    got = program(x, weights)
    seconds = now() - start
    for value, right in zip(got, expected(x, weights), strict=False):
        np.testing.assert_allclose(np.asarray(value), right, rtol=1e-3, atol=1e-7)
    return seconds


if __name__ == "__main__":
    main()
