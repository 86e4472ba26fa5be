"""The loops of an LSTM, with its gradient, and of a GRU, for which libraries have kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backplane.core.graph import Tensor
from backplane.core.primitive import Fused, primitive
from backplane.core.registry import PRIMITIVES
from backplane.core.spec import FLOAT, Spec, check_dtype
from backplane.core.traits import Memory, results_like
from backplane.ops import control
from backplane.ops.creation import full, like
from backplane.ops.elementwise import add, mul, sigmoid, sub, tanh
from backplane.ops.groups import slopes, through_decomposition
from backplane.ops.indexing import part
from backplane.ops.linear import times


def _check(name: str, x: Spec, weights: Sequence[Spec], units: int | None, **params: Any) -> None:
    """Check the weights of a loop over `x` with `units`. TypeError if `x` has no floats; ValueError
    if a weight has another shape.
    """
    check_dtype(name, "x", x.dtype, FLOAT)
    fused = PRIMITIVES[name].fused
    assert fused is not None
    widths = [None if units is None else n * units for n in fused.parts(**params)]
    wanted = [(x.shape[2], widths[0]), (units, widths[1]), (widths[2],)]
    shapes = [t.shape for t in weights]
    if shapes != wanted:
        raise ValueError(
            f"{name}: kernel, recurrent and bias must have shapes {wanted}, got {shapes}"
        )


def _parts(t: Tensor, units: int | None, start: int = 0, stop: int = 4) -> list[Tensor]:
    """The columns of the gates from `start` to `stop`."""
    assert units is not None
    return [part(t, -1, n * units, (n + 1) * units) for n in range(start, stop)]


@primitive(
    multiple=True,
    memory=Memory.ANY,
    axes=results_like(0, 1, 2),
    fused=Fused(states=2, parts=lambda: (4, 4, 4)),
)
def lstm(x: Spec, h: Spec, c: Spec, kernel: Spec, recurrent: Spec, bias: Spec) -> list[Spec]:
    """All states h of an LSTM over x (time, samples, features), then the last states h and c, both
    (samples, units). z = x_t · kernel + h · recurrent + bias has four parts: i, f, g and o. The new
    c is σ(f) · c + σ(i) · tanh(g), and the new h is σ(o) · tanh(c).
    """
    units = recurrent.shape[0]
    _check("lstm", x, [kernel, recurrent, bias], units)
    return [Spec((*x.shape[:2], units), x.dtype), h, c]


@lstm.decompose
def _(x: Tensor, h: Tensor, c: Tensor, *weights: Tensor) -> list[Tensor]:
    kernel, recurrent, bias = weights

    def step(states: list[Tensor], rows: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        z = add(add(times(rows[0], kernel), times(states[0], recurrent)), bias)
        i, f, g, o = _parts(z, recurrent.spec.shape[0])
        c = add(mul(sigmoid(f), states[1]), mul(sigmoid(i), tanh(g)))
        h = mul(sigmoid(o), tanh(c))
        return [h, c], [h]

    (h, c), (ys,) = control.scan(step, [h, c], [x])
    return [ys, h, c]


through_decomposition(lstm)


@primitive(
    multiple=True,
    memory=Memory.ANY,
    axes=results_like(0, 1),
    fused=Fused(
        options=({"reset_after": True}, {"reset_after": False}),
        states=1,
        parts=lambda reset_after: (3, 3, 3 + reset_after),
    ),
)
def gru(
    x: Spec, h: Spec, kernel: Spec, recurrent: Spec, bias: Spec, *, reset_after: bool
) -> list[Spec]:
    """All states of a GRU over x (time, samples, features), then the last one (samples, units). The
    weights have three parts each, for z, r and n. z and r are σ(x_t · kernel + h · recurrent +
    bias). n is tanh(x_t · kernel + bias + (r · h) · recurrent), or if `reset_after` tanh(x_t ·
    kernel + bias + r · (h · recurrent + m)), where m is a fourth part of the bias. The new h is
    z · h + (1 − z) · n.
    """
    units = recurrent.shape[0]
    _check("gru", x, [kernel, recurrent, bias], units, reset_after=reset_after)
    return [Spec((*x.shape[:2], units), x.dtype), h]


@gru.decompose
def _(x: Tensor, h: Tensor, *weights: Tensor, reset_after: bool) -> list[Tensor]:
    kernel, recurrent, bias = weights
    units = recurrent.spec.shape[0]

    def step(states: list[Tensor], rows: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        (h,) = states
        x_z, x_r, x_n = _parts(times(rows[0], kernel), units, 0, 3)
        if reset_after:
            h_z, h_r, h_n = _parts(times(h, recurrent), units, 0, 3)
        else:
            u_z, u_r, u_n = _parts(recurrent, units, 0, 3)
            h_z, h_r = times(h, u_z), times(h, u_r)
        b_z, b_r, b_n, *m = _parts(bias, units, 0, 3 + reset_after)
        z, r = sigmoid(add(add(x_z, h_z), b_z)), sigmoid(add(add(x_r, h_r), b_r))
        inner = mul(r, add(h_n, *m)) if reset_after else times(mul(r, h), u_n)
        n = tanh(add(add(x_n, b_n), inner))
        h = add(mul(z, h), mul(sub(like(1, z), z), n))
        return [h], [h]

    (h,), (ys,) = control.scan(step, [h], [x])
    return [ys, h]


through_decomposition(gru)


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
