"""Lowerings: GELU, normalization over the last axes, and the loop of an LSTM, by their kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from backplane.core.spec import Spec
from backplane.engines.onnxruntime.builder import Symbol, chosen, ints, literal, node, nodes, number
from backplane.engines.onnxruntime.reductions import mean
from backplane.engines.onnxruntime.shaping import constant_of
from backplane.engines.table import Axes, Table

TABLE = Table()

SINCE = {"normalize": 17, "gelu": 20, "lstm": 22}
"""The first version of ONNX's operators in which the lowering of a primitive can be written. onnx
cannot convert what the one of an LSTM says of loops without steps."""


@TABLE.add("gelu", unless=lambda specs, *, approximate: specs[0].dtype != "float32")
def gelu(x: Symbol, *, approximate: bool) -> Symbol:
    """The product of x and the probability that a standard normal number is below x."""
    return node("Gelu", x, approximate="tanh" if approximate else "none")


def _has_no_kernel(specs: Sequence[Spec], *, axes: Axes, epsilon: float) -> bool:
    """The kernel normalizes over the last axes, and takes parameters of their sizes alone."""
    x, *parameters = specs
    sizes = x.shape[min(axes, default=0) :]
    last = bool(axes) and axes == tuple(range(min(axes), len(x.shape)))
    whole = None not in sizes and 0 not in sizes
    return not (last and whole and x.dtype == "float32") or any(
        t.shape != sizes for t in parameters
    )


@TABLE.add("normalize", unless=_has_no_kernel)
def normalize(x: Symbol, *parameters: Symbol, axes: Axes, epsilon: float) -> list[Symbol]:
    """The result, the mean, the variance, and the reciprocal of the deviation."""
    assert x.shape is not None
    sizes = [n for n in x.shape[axes[0] :] if n is not None]
    # Without a beta, ONNX Runtime's optimizer ends the process.
    plain = literal(np.ones(sizes, x.dtype)), literal(np.zeros(sizes, x.dtype))
    gamma, beta = parameters or plain
    y, centre, scale = nodes(
        "LayerNormalization", [x, gamma, beta], [x.dtype] * 3, axis=axes[0], epsilon=epsilon
    )
    # Few programs read the variance. Nodes that no output needs never reach the model.
    apart = node("Sub", x, centre, shape=x.shape)
    variance = mean(node("Mul", apart, apart, shape=x.shape), axes=axes, keepdims=True)
    return [y, centre, variance, scale]


# --- LSTM -----------------------------------------------------------------------------------------


def _has_no_lstm_kernel(specs: Sequence[Spec]) -> bool:
    x, h, *_ = specs
    return x.dtype != "float32" or not x.shape[2] or not h.shape[1]


@TABLE.add("lstm", unless=_has_no_lstm_kernel)
def lstm(
    x: Symbol, h: Symbol, c: Symbol, kernel: Symbol, recurrent: Symbol, bias: Symbol
) -> list[Symbol]:
    """All states h, and the last h and c. Without samples the kernel ends the process, and without
    steps it forgets the states.
    """
    weights = [_by_rows(t) for t in (kernel, recurrent, bias)]
    steps, samples, _ = x.sizes
    if isinstance(steps, int) and isinstance(samples, int) and steps * samples:
        return _lstm(x, h, c, *weights)
    shape = steps, samples, recurrent.size(0)
    empty = node("Equal", node("Size", x, dtype="int64"), number(0, "int64"))
    return chosen(
        empty,
        [x.dtype] * 3,
        lambda: [constant_of(shape, 0, x.dtype), h, c],
        lambda: _lstm(x, h, c, *weights),
    )


def _by_rows(weights: Symbol) -> Symbol:
    """The columns of the gates i, f, g and o as rows, in ONNX' order i, o, f, g."""
    if weights.rank > 1:
        weights = weights.transpose((1, 0))
    i, f, g, o = nodes("Split", [weights], [weights.dtype] * 4, num_outputs=4)
    return node("Unsqueeze", node("Concat", i, o, f, g, axis=0), ints(0))


def _lstm(
    x: Symbol, h: Symbol, c: Symbol, kernel: Symbol, recurrent: Symbol, bias: Symbol
) -> list[Symbol]:
    """The kernel has a direction as its first or second axis, and two biases."""
    units = h.size(1)
    assert isinstance(units, int)
    biases = node("Concat", bias, literal(np.zeros((1, 4 * units), x.dtype)), axis=1)
    states = [node("Unsqueeze", t, ints(0)) for t in (h, c)]
    operands = [x, kernel, recurrent, biases, None, *states]
    ys, h, c = nodes("LSTM", operands, [x.dtype] * 3, hidden_size=units)
    return [node("Squeeze", ys, ints(1)), *[node("Squeeze", t, ints(0)) for t in (h, c)]]
