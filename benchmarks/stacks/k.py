"""Programs in K, in the plain documented way. The same text runs on Backplane and on the K of
classic Keras in TensorFlow's graph mode, which is the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.problem import Optimizer, Run, Training

Loss = Callable[..., Any]


def reference() -> Any:
    """The K of classic Keras as TensorFlow still ships it, with graphs and sessions.

    `tf.compat.v1.keras.backend` leads to Keras 3 nowadays, which has no `placeholder` and no
    `function`; this is the module that it led to before.
    """
    import tensorflow as tf
    from tensorflow.python.keras import backend as K

    tf.compat.v1.disable_eager_execution()
    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=1, inter_op_parallelism_threads=1
    )
    K.set_session(tf.compat.v1.Session(config=config))
    return K


def updated(K: Any, loss: Any, weights: list[Any], opt: Optimizer) -> tuple[list[Any], list[Any]]:
    """The updates of an optimizer's step, and the variables of its state."""
    return (_adam if opt.adam else _momentum)(K, loss, weights, opt)


def _momentum(K: Any, loss: Any, weights: list[Any], opt: Optimizer) -> tuple[list, list]:
    updates: list[Any] = []
    state = []
    for w, g in zip(weights, K.gradients(loss, weights), strict=True):
        if not opt.momentum:
            updates.append(K.update(w, w - opt.rate * g))
            continue
        v = K.zeros(K.int_shape(w))
        state.append(v)
        new_v = opt.momentum * v - opt.rate * g
        updates += [K.update(v, new_v), K.update(w, w + new_v)]
    return updates, state


def _adam(K: Any, loss: Any, weights: list[Any], opt: Optimizer) -> tuple[list, list]:
    step = K.variable(0.0)
    t = step + 1.0
    rate = opt.rate * (K.sqrt(1.0 - K.pow(opt.beta2, t)) / (1.0 - K.pow(opt.beta1, t)))
    updates, state = [K.update(step, t)], [step]
    for w, g in zip(weights, K.gradients(loss, weights), strict=True):
        m, v = K.zeros(K.int_shape(w)), K.zeros(K.int_shape(w))
        state += [m, v]
        new_m = opt.beta1 * m + (1.0 - opt.beta1) * g
        new_v = opt.beta2 * v + (1.0 - opt.beta2) * K.square(g)
        new_w = w - rate * new_m / (K.sqrt(new_v) + opt.epsilon)
        updates += [K.update(m, new_m), K.update(v, new_v), K.update(w, new_w)]
    return updates, state


def train(K: Any, problem: Training, loss_of: Loss) -> Run:
    """A training step: placeholders for the batch, `K.gradients`, updates, `K.function`."""
    x = K.placeholder(shape=(None, *problem.x.shape[1:]))
    y = K.placeholder(shape=(None, *problem.y.shape[1:]), dtype=problem.y.dtype.name)
    weights = [K.variable(p) for p in problem.parameters]
    loss = loss_of(K, weights, x, y, problem)
    updates, state = updated(K, loss, weights, problem.optimizer)
    step = K.function([x, y], [loss], updates)
    zeros = [(s, np.zeros(K.int_shape(s), "float32")) for s in state]
    initial = [*zip(weights, problem.parameters, strict=True), *zeros]
    return Run(
        step, ([problem.x, problem.y],), lambda: K.batch_set_value(initial), lambda got: got[0]
    )
