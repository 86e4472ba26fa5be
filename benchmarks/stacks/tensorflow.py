"""`tf.function` of a whole step: plain assignments, TensorFlow's fused update kernels, or XLA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from benchmarks.problem import Optimizer, Run, Training

Loss = Callable[..., Any]


def _plain(opt: Optimizer, state: Any, gradients: Any) -> None:
    weights, first, second, t = state
    if not opt.adam:
        for i, (w, g) in enumerate(zip(weights, gradients, strict=True)):
            if opt.momentum:
                first[i].assign(opt.momentum * first[i] - opt.rate * g)
                w.assign_add(first[i])
            else:
                w.assign_sub(opt.rate * g)
        return
    t.assign_add(1.0)
    rate = opt.rate * tf.sqrt(1 - opt.beta2**t) / (1 - opt.beta1**t)
    for w, m, v, g in zip(weights, first, second, gradients, strict=True):
        m.assign(opt.beta1 * m + (1 - opt.beta1) * g)
        v.assign(opt.beta2 * v + (1 - opt.beta2) * tf.square(g))
        w.assign_sub(rate * m / (tf.sqrt(v) + opt.epsilon))


def _fused(opt: Optimizer, state: Any, gradients: Any) -> None:
    """The kernels that the optimizers of TensorFlow 1 and of Keras 2 called."""
    weights, first, second, t = state
    if opt.adam:
        t.assign_add(1.0)
        for w, m, v, g in zip(weights, first, second, gradients, strict=True):
            tf.raw_ops.ResourceApplyAdam(
                var=w.handle,
                m=m.handle,
                v=v.handle,
                beta1_power=opt.beta1**t,
                beta2_power=opt.beta2**t,
                lr=opt.rate,
                beta1=opt.beta1,
                beta2=opt.beta2,
                epsilon=opt.epsilon,
                grad=g,
            )
        return
    for i, (w, g) in enumerate(zip(weights, gradients, strict=True)):
        if opt.momentum:
            tf.raw_ops.ResourceApplyKerasMomentum(
                var=w.handle, accum=first[i].handle, lr=opt.rate, grad=g, momentum=opt.momentum
            )
        elif isinstance(g, tf.IndexedSlices):
            w.scatter_sub(tf.IndexedSlices(opt.rate * g.values, g.indices))
        else:
            tf.raw_ops.ResourceApplyGradientDescent(var=w.handle, alpha=opt.rate, delta=g)


def updated(opt: Optimizer, state: Any, gradients: Any, *, fused: bool) -> None:
    """A step of the optimizer. The gradient of a table may be of some rows alone; what remembers
    something of each weight needs all of them.
    """
    if opt.adam or opt.momentum or not fused:
        gradients = [tf.convert_to_tensor(g) for g in gradients]
    (_fused if fused else _plain)(opt, state, gradients)


def train(problem: Training, loss_of: Loss, *, fused: bool = False, xla: bool = False) -> Run:
    """A step with variables that TensorFlow owns, called with tensors."""
    opt = problem.optimizer
    weights = [tf.Variable(p) for p in problem.parameters]
    first = [tf.Variable(tf.zeros_like(w)) for w in weights] if opt.adam or opt.momentum else []
    second = [tf.Variable(tf.zeros_like(w)) for w in weights] if opt.adam else []
    t = tf.Variable(0.0)

    @tf.function(jit_compile=xla, autograph=False)
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(weights, x, y, problem)
        gradients = tape.gradient(loss, weights)
        updated(opt, (weights, first, second, t), gradients, fused=fused)
        return loss

    x, y = tf.constant(problem.x), tf.constant(problem.y)
    concrete = step.get_concrete_function(x, y)

    def call() -> float:
        return float(concrete(tf.constant(problem.x), tf.constant(problem.y)))

    def reset() -> None:
        for w, p in zip(weights, problem.parameters, strict=True):
            w.assign(p)
        for s in (*first, *second, t):
            s.assign(tf.zeros_like(s))

    return Run(call, (), reset)
