"""A call of tanh(x @ W + b), 8 × 8, NumPy in and out: what a call costs beside the work itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.problem import BACKPLANE, ENGINES, Builder, Plan, Run

PLAN = Plan(samples=9, inner=200, warmup=1, tolerance=1e-5, unit="µs")


class Problem:
    """Arrays of 8 × 8."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.x, self.w, self.b = (rng.standard_normal((8, 8)).astype("float32") for _ in range(3))


def problem(name: str, tiny: bool = False) -> Problem:
    """The same at all sizes."""
    return Problem()


def expected(problem: Problem) -> list[Any]:
    """The value, in float64."""
    x, w, b = (a.astype("float64") for a in (problem.x, problem.w, problem.b))
    return [np.tanh(x @ w + b)] * 2


def contenders(name: str, stack: str) -> dict[str, Builder]:
    """Name → builder of everything that runs in the process of `stack`."""
    if stack == "reference":
        return {"reference K": _reference}
    if stack not in ENGINES:
        return {}
    return {BACKPLANE: _backplane, **_HAND[stack]}


def _program(K: Any, problem: Problem) -> Run:
    x = K.placeholder(shape=(8, 8))
    w, b = K.variable(problem.w), K.variable(problem.b)
    f = K.function([x], [K.tanh(K.dot(x, w) + b)])
    return Run(f, ([problem.x],), value=lambda got: got[0])


def _backplane(problem: Problem) -> Run:
    from backplane import backend as K

    return _program(K, problem)


def _reference(problem: Problem) -> Run:
    from benchmarks.stacks import k

    return _program(k.reference(), problem)


def _numpy(problem: Problem) -> Run:
    w, b = problem.w, problem.b
    return Run(lambda x: np.tanh(x @ w + b), (problem.x,))


def _numpy_in_place(problem: Problem) -> Run:
    w, b = problem.w, problem.b

    def call(x: Any) -> Any:
        h = x @ w
        h += b
        return np.tanh(h, h)

    return Run(call, (problem.x,))


def _jax(problem: Problem) -> Run:
    import jax
    import jax.numpy as jnp

    w, b = jnp.array(problem.w), jnp.array(problem.b)
    f = jax.jit(lambda x, w, b: jnp.tanh(x @ w + b))
    return Run(lambda x: np.asarray(f(x, w, b)), (problem.x,))


def _torch(problem: Problem, inference: bool = False) -> Run:
    import torch

    torch.set_num_threads(1)
    w, b = torch.tensor(problem.w), torch.tensor(problem.b)

    def call(x: Any) -> Any:
        return torch.addmm(b, torch.from_numpy(x), w).tanh_().numpy()

    return Run(torch.inference_mode()(call) if inference else call, (problem.x,))


def _tensorflow(problem: Problem) -> Run:
    import tensorflow as tf

    w, b = tf.Variable(problem.w), tf.Variable(problem.b)
    f = tf.function(lambda x: tf.tanh(x @ w + b))
    return Run(lambda x: f(x).numpy(), (problem.x,))


def _tensorflow_eager(problem: Problem) -> Run:
    import tensorflow as tf

    w, b, ops = tf.constant(problem.w), tf.constant(problem.b), tf.raw_ops

    def call(x: Any) -> Any:
        return ops.Tanh(x=ops.AddV2(x=ops.MatMul(a=tf.constant(x), b=w), y=b)).numpy()

    return Run(call, (problem.x,))


def _make_callable(problem: Problem) -> Run:
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, (8, 8))
        w, b = v1.Variable(problem.w), v1.Variable(problem.b)
        y = tf.tanh(x @ w + b)
        start = v1.global_variables_initializer()
    session = v1.Session(graph=graph)
    session.run(start)
    return Run(session.make_callable(y, [x]), (problem.x,))


def _pytensor(problem: Problem) -> Run:
    import pytensor
    import pytensor.tensor as pt

    x = pt.tensor("x", dtype="float32", shape=(8, 8))
    w, b = pytensor.shared(problem.w), pytensor.shared(problem.b)
    f = pytensor.function([x], pt.tanh(x @ w + b), mode="NUMBA", trust_input=True)
    return Run(f, (problem.x,))


def _onnxruntime(problem: Problem) -> Run:
    from benchmarks.stacks.onnxruntime import Graph, info

    g = Graph()
    y = g.op("Tanh", g.op("Gemm", "x", g.constant(problem.w), g.constant(problem.b)))
    session = g.session([info("x", problem.x)], {y: info("y", problem.x)})
    return Run(lambda x: session.run(["y"], {"x": x})[0], (problem.x,))


_HAND: dict[str, dict[str, Builder]] = {
    "numpy": {"expression": _numpy, "in place": _numpy_in_place},
    "jax": {"jax.jit": _jax},
    "torch": {"eager": _torch, "inference mode": lambda p: _torch(p, inference=True)},
    "tensorflow": {
        "tf.function, array in": _tensorflow,
        "session.make_callable": _make_callable,
        "eager raw ops, tensors": _tensorflow_eager,
    },
    "theano": {"pytensor.function": _pytensor},
    "cntk": {"session.run": _onnxruntime},
}
