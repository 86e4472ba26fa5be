"""Lowerings: GELU, hard SiLU, normalization over the last axes, LSTM and GRU, by their kernels."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from backplane.core.spec import Spec
from backplane.engines.onnxruntime.builder import Symbol, chosen, ints, literal, node, nodes, number
from backplane.engines.onnxruntime.reductions import mean
from backplane.engines.onnxruntime.shaping import constant_of
from backplane.engines.table import Axes, Table

TABLE = Table()

SINCE = {
    "silu": 7,
    "hard_silu": 14,
    "normalize": 17,
    "gelu": 20,
    "lstm": 22,
    "gru": 22,
    "rms_normalize": inf,
}
"""The first version of ONNX's operators in which the lowering of a primitive can be written. onnx
cannot convert what that of a loop says of loops without steps. An operator of ONNX Runtime's own is
never exported."""


@TABLE.add("gelu", unless=lambda specs, *, approximate: specs[0].dtype != "float32")
def gelu(x: Symbol, *, approximate: bool) -> Symbol:
    """The product of x and the probability that a standard normal number is below x."""
    return node("Gelu", x, approximate="tanh" if approximate else "none")


@TABLE.add("silu", unless=lambda specs: specs[0].dtype not in ("float32", "float64"))
def silu(x: Symbol) -> Symbol:
    """The quotient x / (1 + exp(-x)): a pass less than x · sigmoid(x). `sigmoid` says why the
    library's kernel is not used.
    """
    return node("Div", x, node("Add", number(1, x.dtype), node("Exp", node("Neg", x))))


@TABLE.add("hard_silu", unless=lambda specs: specs[0].dtype != "float32")
def hard_silu(x: Symbol) -> Symbol:
    """`HardSwish`, which takes 0.56 to 0.73 of the time of single operations."""
    return node("HardSwish", x)


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


@TABLE.add(
    "rms_normalize",
    unless=lambda specs, **_: specs[0].dtype != "float32" or not specs[0].shape[-1],
)
def rms_normalize(x: Symbol, gamma: Symbol, *, axes: Axes, epsilon: float) -> Symbol:
    """ONNX Runtime's own operator: 0.4 of the time of single operations."""
    return node("SimplifiedLayerNormalization", x, gamma, axis=axes[0], epsilon=epsilon)


# --- LSTM, GRU ------------------------------------------------------------------------------------


def _has_no_kernel_for_loops(specs: Sequence[Spec], **params: bool) -> bool:
    x, h, *_ = specs
    return x.dtype != "float32" or not x.shape[2] or not h.shape[1]


@TABLE.add("lstm", unless=_has_no_kernel_for_loops)
def lstm(
    x: Symbol, h: Symbol, c: Symbol, kernel: Symbol, recurrent: Symbol, bias: Symbol
) -> list[Symbol]:
    """All states h, and the last h and c. ONNX orders the gates i, o, f, g and has two biases."""
    weights = []
    for t in (kernel, recurrent, bias):
        rows = t.transpose((1, 0)) if t.rank > 1 else t
        i, f, g, o = nodes("Split", [rows], [t.dtype] * 4, num_outputs=4)
        weights.append(node("Concat", i, o, f, g, axis=0))
    return _loop("LSTM", x, [h, c], *weights, _zeros(4, h))


@TABLE.add("gru", unless=_has_no_kernel_for_loops)
def gru(
    x: Symbol, h: Symbol, kernel: Symbol, recurrent: Symbol, bias: Symbol, *, reset_after: bool
) -> list[Symbol]:
    """All states, and the last one. ONNX has the gates in the order z, r, n too."""
    more = [_zeros(3 - reset_after, h)]
    if reset_after:
        parts = nodes("Split", [bias], [x.dtype] * 4, num_outputs=4)
        bias, more = node("Concat", *parts[:3], axis=0), [*more, parts[3]]
    rows = [t.transpose((1, 0)) for t in (kernel, recurrent)]
    return _loop("GRU", x, [h], *rows, bias, *more, linear_before_reset=int(reset_after))


def _zeros(count: int, state: Symbol) -> Symbol:
    """Zeros for so many gates."""
    units = state.size(1)
    assert isinstance(units, int)
    return literal(np.zeros(count * units, state.dtype))


def _loop(
    kind: str,
    x: Symbol,
    states: Sequence[Symbol],
    kernel: Symbol,
    recurrent: Symbol,
    *biases: Symbol,
    **attributes: int,
) -> list[Symbol]:
    """All first states, and the last states, by a kernel that has a direction as the first or
    second axis of its operands. Without samples it ends the process, and without steps it forgets
    the states.
    """
    steps, samples, _ = x.sizes
    units = states[0].size(1)
    weights = [kernel, recurrent, node("Concat", *biases, axis=0)]
    operands = [x, *[node("Unsqueeze", t, ints(0)) for t in weights], None]
    dtypes = [x.dtype] * (1 + len(states))

    def run() -> list[Symbol]:
        starts = [node("Unsqueeze", t, ints(0)) for t in states]
        ys, *last = nodes(kind, [*operands, *starts], dtypes, hidden_size=units, **attributes)
        return [node("Squeeze", ys, ints(1)), *[node("Squeeze", t, ints(0)) for t in last]]

    if isinstance(steps, int) and isinstance(samples, int) and steps * samples:
        return run()
    empty = node("Equal", node("Size", x, dtype="int64"), number(0, "int64"))
    shape = steps, samples, units
    return chosen(empty, dtypes, lambda: [constant_of(shape, 0, x.dtype), *states], run)
