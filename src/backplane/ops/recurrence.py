"""The loop of an LSTM and its gradient, for which libraries have kernels."""

from __future__ import annotations

from backplane.core.graph import Tensor
from backplane.core.primitive import primitive
from backplane.core.spec import FLOAT, Spec, check_dtype
from backplane.core.traits import Memory
from backplane.ops import control
from backplane.ops.creation import full
from backplane.ops.elementwise import add, mul, sigmoid, tanh
from backplane.ops.families import results_like
from backplane.ops.groups import slopes, through_decomposition
from backplane.ops.indexing import ALL
from backplane.ops.indexing import slice as slice_
from backplane.ops.linear import matmul


@primitive(multiple=True, memory=Memory.ANY, axes=results_like(0, 1, 2))
def lstm(x: Spec, h: Spec, c: Spec, kernel: Spec, recurrent: Spec, bias: Spec) -> list[Spec]:
    """All states h of an LSTM over x (time, samples, features), then the last states h and c, both
    (samples, units). z = x_t · kernel + h · recurrent + bias has four parts: i, f, g and o. The new
    c is σ(f) · c + σ(i) · tanh(g), and the new h is σ(o) · tanh(c).
    """
    check_dtype("lstm", "x", x.dtype, FLOAT)
    units = recurrent.shape[0]
    width = 4 * units if units is not None else None
    wanted = [(x.shape[2], width), (units, width), (width,)]
    found = [t.shape for t in (kernel, recurrent, bias)]
    if found != wanted:
        raise ValueError(f"lstm: kernel, recurrent and bias must have shapes {wanted}, got {found}")
    return [Spec((*x.shape[:2], units), x.dtype), h, c]


@lstm.decompose
def _(x: Tensor, h: Tensor, c: Tensor, *weights: Tensor) -> list[Tensor]:
    kernel, recurrent, bias = weights
    units = recurrent.spec.shape[0]
    assert units is not None

    def product(a: Tensor, b: Tensor) -> Tensor:
        return matmul(a, b, transpose_x=False, transpose_y=False)

    def step(states: list[Tensor], rows: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        z = add(add(product(rows[0], kernel), product(states[0], recurrent)), bias)
        i, f, g, o = [slice_(z, slices=(ALL, (n * units, (n + 1) * units, 1))) for n in range(4)]
        c = add(mul(sigmoid(f), states[1]), mul(sigmoid(i), tanh(g)))
        h = mul(sigmoid(o), tanh(c))
        return [h, c], [h]

    (h, c), (ys,) = control.scan(step, [h, c], [x])
    return [ys, h, c]


through_decomposition(lstm)


# --- with what its gradient reads -----------------------------------------------------------------


@primitive(multiple=True, memory=Memory.ANY, axes=results_like(0, 1, 2))
def lstm_saving(x: Spec, h: Spec, c: Spec, kernel: Spec, recurrent: Spec, bias: Spec) -> list[Spec]:
    """The results of `lstm`, and bytes that only the engine understands, for `lstm_grad`. Put into
    programs by the compiler, for engines with a kernel.
    """
    results = lstm.infer_rule(x, h, c, kernel, recurrent, bias)
    return [*results, Spec((None,), "uint8")]


@lstm_saving.decompose
def _(*operands: Tensor) -> list[Tensor]:
    # The decomposed gradient computes the steps again. It may be handed the bytes of any engine.
    return [*lstm(*operands), full(shape=(0,), value=0, dtype="uint8")]


through_decomposition(lstm_saving)


@primitive(multiple=True, memory=Memory.FRESH, axes=results_like(*range(3, 9)))
def lstm_grad(g_ys: Spec, g_h: Spec, g_c: Spec, *given: Spec) -> list[Spec]:
    """The gradients of `lstm` by its six operands, from those of its three results. `given` are
    the operands and the results of `lstm_saving`.
    """
    if len(given) != 10:
        raise TypeError(f"lstm_grad: takes 10 operands beside the gradients, got {len(given)}")
    return [*given[:6]]


@lstm_grad.decompose
def _(g_ys: Tensor, g_h: Tensor, g_c: Tensor, *given: Tensor) -> list[Tensor]:
    return [t for t in slopes(lstm, [g_ys, g_h, g_c], given[:6]) if t is not None]


through_decomposition(lstm_grad)
