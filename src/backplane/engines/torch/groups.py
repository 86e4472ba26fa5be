"""Lowerings: GELU, normalization, the loss of CTC, LSTM and GRU, by PyTorch's kernels for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import torch

from backplane.core.spec import Spec
from backplane.engines.table import Axes, Entry, Lowering, Table, Value
from backplane.engines.torch import devices
from backplane.engines.torch.elementwise import gradient, nn
from backplane.engines.torch.tracing import only_values_count

TABLE = Table()

aten = torch.ops.aten
KIND = {True: "tanh", False: "none"}
"""PyTorch's names of the two forms of GELU."""


@TABLE.build("gelu", out=1)
def gelu(specs: Sequence[Spec], *, approximate: bool) -> Lowering:
    """The kernel behind `torch.nn.functional.gelu`."""
    return partial(nn.gelu, approximate=KIND[approximate])


@TABLE.build("gelu_grad", out=1)
def gelu_grad(specs: Sequence[Spec], *, approximate: bool) -> Lowering:
    """The kernel of its gradient."""
    return gradient(aten.gelu_backward, approximate=KIND[approximate])


TABLE["silu"] = Entry(aten.silu, out=1)
TABLE["silu_grad"] = Entry(gradient(aten.silu_backward), out=1)
TABLE["hard_silu"] = Entry(aten.hardswish, out=1)
TABLE["hard_silu_grad"] = Entry(gradient(aten.hardswish_backward), out=1)

# --- normalization --------------------------------------------------------------------------------

MOST_ROWS = 1 << 15
"""Rows up to which PyTorch's batch normalization serves. It adds up single numbers, so its variance
of 16,384 rows of float32 is wrong by 4e-6, and that of a million by 5e-4."""


def _is_over_rows(x: Spec, parameters: Sequence[Spec], axes: Axes) -> bool:
    """Whether the last axes are normalized, and what is given beside has their shape."""
    kept = x.ndim - len(axes)
    wanted = x.shape[kept:]
    trailing = axes == tuple(range(kept, x.ndim))
    return trailing and None not in wanted and all(t.shape == wanted for t in parameters)


def _is_over_columns(x: Spec, parameters: Sequence[Spec], axes: Axes) -> bool:
    """Whether all axes but the last are normalized, and what is given beside lies along that."""
    size = x.shape[-1]
    if axes != tuple(range(x.ndim - 1)) or not size or x.dtype not in ("float32", "float64"):
        return False
    return all(t.shape[-1:] == (size,) and {1}.issuperset(t.shape[:-1]) for t in parameters)


def _is_over_groups(x: Spec, parameters: Sequence[Spec], axes: Axes) -> bool:
    """Whether each sample's groups of channels are normalized. The groups are the axis before the
    last one, and what is given beside lies along the channels.
    """
    sizes = x.shape[-2:]
    if x.ndim < 4 or axes != (*range(1, x.ndim - 2), x.ndim - 1) or None in sizes or 0 in sizes:
        return False
    if devices.ACCELERATED or x.dtype not in ("float32", "float64"):
        return False
    return all(t.shape[-2:] == sizes and {1}.issuperset(t.shape[:-2]) for t in parameters)


def _has_no_kernel(specs: Sequence[Spec], *, axes: Axes, epsilon: float = 0.0) -> bool:
    x, *parameters = specs
    ways = (_is_over_rows, _is_over_columns, _is_over_groups)
    return not any(way(x, parameters, axes) for way in ways)


@TABLE.build("normalize", wanted=True, unless=_has_no_kernel)
def normalize(
    specs: Sequence[Spec], *, axes: Axes, epsilon: float, wanted: Sequence[bool]
) -> Lowering:
    """PyTorch's layer, batch or group normalization; the first gives 1 / √(variance + ε)."""
    if _is_over_groups(specs[0], specs[1:], axes):
        return partial(_normalized_groups, axes, epsilon)
    if not _is_over_rows(specs[0], specs[1:], axes):
        return partial(_normalized_columns, axes, epsilon)
    shape = specs[0].shape[axes[0] :]

    def lowering(x: Value, *parameters: Value) -> list[Value | None]:
        gamma, beta = parameters or (None, None)
        y, mean, scale = torch.native_layer_norm(x, shape, gamma, beta, epsilon)
        variance = torch.var(x, axes, correction=0, keepdim=True) if wanted[2] else None
        # On CUDA the kernel gives those of 16-bit floats in float32.
        return [y, mean.to(x.dtype), variance, scale.to(x.dtype)]

    return lowering


def _normalized_columns(axes: Axes, epsilon: float, x: Value, *parameters: Value) -> list[Value]:
    if not _has_few(x.shape[-1], x, *parameters):
        mean = x.mean(axes, True)
        centred = x - mean
        variance = (centred * centred).mean(axes, True)
        scale = (variance + epsilon).rsqrt()
        factor = scale * parameters[0] if parameters else scale
        y = centred * factor
        return [y + parameters[1] if parameters else y, mean, variance, scale]
    images = _as_images(x)
    mean, variance = torch.batch_norm_update_stats(images, None, None, 0.0)
    gamma, beta = [t.reshape(-1) for t in parameters] or (None, None)
    y, *_ = torch.native_batch_norm(images, gamma, beta, mean, variance, False, 0.0, epsilon)
    kept = (*[1 for _ in axes], x.shape[-1])
    scale = (variance + epsilon).rsqrt()
    return [_like(y, x), *[t.reshape(kept) for t in (mean, variance, scale)]]


def _normalized_groups(axes: Axes, epsilon: float, x: Value, *parameters: Value) -> list[Value]:
    *_, groups, size = x.shape
    kept = (len(x), *[1 for _ in axes[:-1]], groups, 1)
    if _has_few(len(x) * x.shape[-2], x, *parameters):
        image = _as_grouped_images(x)
        gamma, beta = [t.reshape(-1) for t in parameters] or (None, None)
        y, *moments = torch.native_group_norm(
            image, gamma, beta, len(x), groups * size, image.shape[2], groups, epsilon
        )
        mean, scale = [t.reshape(kept) for t in moments]
        if _is_small(mean, scale):
            return [_like(y, x), mean, scale**-2 - epsilon, scale]
    rows = _as_rows(x)
    y, *moments = torch.native_layer_norm(rows, rows.shape[2:], None, None, epsilon)
    mean, scale = [t.reshape(kept) for t in moments]
    y = y.transpose(1, 2).reshape(x.shape)
    y = torch.addcmul(parameters[1], y, parameters[0]) if parameters else y
    return [y, mean, scale**-2 - epsilon, scale]


def _is_small(mean: Value, scale: Value) -> bool:
    """Whether means are no larger than the deviations. PyTorch's group normalization takes the
    difference of two squares, and loses as many digits as the former are larger.
    """
    return bool((mean * scale).abs_().max() <= 1)


def _as_grouped_images(x: Value) -> Value:
    """Samples as images of one row with the channels last in memory."""
    return x.reshape(len(x), -1, 1, x.shape[-2] * x.shape[-1]).permute(0, 3, 1, 2)


def _as_rows(x: Value) -> Value:
    """The elements of each group as rows, one after the other, for the kernels that are exact."""
    return x.reshape(len(x), math.prod(x.shape[1:-2]), *x.shape[-2:]).transpose(1, 2).contiguous()


def _has_few(means: int, x: Value, *others: Value) -> bool:
    """Whether so few numbers are added up for each of the means that the kernels of batch and group
    normalization are exact enough, and nobody follows them.
    """
    return x.is_cpu and only_values_count(x, *others) and 0 < x.numel() <= MOST_ROWS * means


def _as_images(x: Value) -> Value:
    """All rows as pixels of one image, channels last, for which PyTorch has a quick kernel."""
    return x.reshape(1, -1, 1, x.shape[-1]).permute(0, 3, 1, 2)


def _like(image: Value, x: Value) -> Value:
    return image.permute(0, 2, 3, 1).reshape(x.shape)


@TABLE.build(
    "normalize_grad",
    wanted=True,
    unless=lambda specs, *, axes: _has_no_kernel([specs[1], *specs[4:]], axes=axes),
)
def normalize_grad(specs: Sequence[Spec], *, axes: Axes, wanted: Sequence[bool]) -> Lowering:
    """The kernels of their gradients."""
    mask = [*wanted, False, False][:3]
    if _is_over_groups(specs[1], specs[4:], axes):
        return partial(_groups_gradient, mask)
    if not _is_over_rows(specs[1], specs[4:], axes):
        return partial(_columns_gradient, axes, mask)
    shape = specs[1].shape[axes[0] :]

    def lowering(
        g: Value, x: Value, mean: Value, scale: Value, *gamma: Value
    ) -> list[Value | None]:
        weight = gamma[0] if gamma else None
        if x.is_cuda and x.itemsize < 4:
            mean, scale = mean.float(), scale.float()
        gradients = aten.native_layer_norm_backward.default(
            g.contiguous(), x.contiguous(), shape, mean, scale, weight, weight, mask
        )
        return list(gradients[: 1 + 2 * len(gamma)])

    return lowering


def _columns_gradient(
    axes: Axes, mask: list[bool], g: Value, x: Value, mean: Value, scale: Value, *gamma: Value
) -> list[Value | None]:
    if _has_few(x.shape[-1], x, g, mean, scale, *gamma):
        weight = gamma[0].reshape(-1) if gamma else None
        gradients = aten.native_batch_norm_backward.default(
            _as_images(g), _as_images(x), weight, None, None, mean.reshape(-1), scale.reshape(-1),
            True, 0.0, mask,
        )  # fmt: skip
        dx = _like(gradients[0], x) if mask[0] else None
        by_parameters = gradients[1:]
    else:
        centred = x - mean
        total, moment = g.sum(axes, True), (g * centred).sum(axes, True)
        rows = x.numel() // x.shape[-1]
        pull = moment * scale * scale / rows
        dx = (g - total / rows - centred * pull) * scale
        dx = dx * gamma[0] if gamma else dx
        by_parameters = (moment * scale, total)
    return [dx, *[t if t is None else t.reshape(p.shape) for p in gamma for t in by_parameters]]


def _groups_gradient(
    mask: list[bool], g: Value, x: Value, mean: Value, scale: Value, *gamma: Value
) -> list[Value | None]:
    *_, groups, size = x.shape
    if _has_few(len(x) * x.shape[-2], x, g, mean, scale, *gamma) and _is_small(mean, scale):
        # Without the gradient by x, the kernel crashes for images with the channels last.
        weight = gamma[0].reshape(-1) if gamma else None
        image, sizes = _as_grouped_images(x), (len(x), groups)
        dx, *by_parameters = aten.native_group_norm_backward.default(
            _as_grouped_images(g), image, mean.reshape(sizes), scale.reshape(sizes), weight,
            len(x), groups * size, image.shape[2], groups, [True, *mask[1:]],
        )  # fmt: skip
        dx = _like(dx, x) if mask[0] else None
    else:
        rows, slopes, kept = _as_rows(x), _as_rows(g), (len(x), groups, 1, 1)
        mean, scale = mean.reshape(kept), scale.reshape(kept)
        inner = slopes * gamma[0].reshape(groups, 1, size) if gamma else slopes
        dx, *_ = aten.native_layer_norm_backward.default(
            inner, rows, rows.shape[2:], mean, scale, None, None, [True, False, False]
        )
        dx = dx.transpose(1, 2).reshape(x.shape)
        by_gamma = ((rows - mean) * scale * slopes).sum((0, 2)) if gamma and mask[1] else None
        by_parameters = [by_gamma, slopes.sum((0, 2)) if gamma and mask[2] else None]
    return [dx, *[t if t is None else t.reshape(p.shape) for p in gamma for t in by_parameters]]


# --- connectionist temporal classification --------------------------------------------------------

LEAST_LOG = -1e30
"""Stands for the logarithm of 0. The gradient of the kernel is NaN at −inf."""


def _has_no_ctc_kernel(specs: Sequence[Spec]) -> bool:
    """Not all accelerators have the kernels. They lose the digits of what is added to 1, so they
    compute float32 in float64, and nothing is wider than float64.
    """
    return devices.ACCELERATED or specs[0].dtype != "float32"


@TABLE.add("ctc_loss", wanted=True, unless=_has_no_ctc_kernel)
def ctc_loss(*operands: Value, wanted: Sequence[bool]) -> Sequence[Value | None]:
    """The kernel of `torch.nn.functional.ctc_loss` and that of its gradient, by the operand of the
    softmax. How much memory they need follows from values, which PyTorch's compiler does not know.
    There they are one operation.
    """
    if torch.compiler.is_compiling():
        return _compiled_ctc(*operands)
    return _ctc(*operands, sloped=wanted[1])


def _ctc(
    scores: Value, labels: Value, steps: Value, counts: Value, *, sloped: bool = True
) -> tuple[Value, Value | None]:
    if not scores.numel():
        empty = torch.zeros_like(counts, dtype=scores.dtype)
        return torch.where(counts > 0, math.inf, empty), torch.zeros_like(scores)
    dtype = scores.dtype
    logs = torch.log_softmax(scores.double(), 2).clamp_(min=LEAST_LOG).transpose(0, 1)
    given, blank = (logs, labels, steps, counts), scores.shape[2] - 1
    losses, alphas = aten._ctc_loss.Tensor(*given, blank, True)
    # Where -1e30 was added, the labels do not fit, whatever the scores are. Adding 0 makes 0 of -0.
    counted = torch.arange(len(logs), device=logs.device).unsqueeze(1) < steps
    unknown = (logs.isnan().any(2) & counted).any(0)
    loss = torch.where(losses > -LEAST_LOG / 2, math.inf, losses + 0)
    loss = torch.where(unknown, math.nan, loss)
    if not sloped:
        return loss.to(dtype), None
    ones = torch.ones_like(loss)
    slopes = aten._ctc_loss_backward.Tensor(ones, *given, loss, alphas, blank, True)
    return loss.to(dtype), slopes.transpose(0, 1).to(dtype)


_compiled_ctc = torch.library.custom_op(
    "backplane::ctc_loss",
    _ctc,
    mutates_args=(),
    schema="(Tensor scores, Tensor labels, Tensor steps, Tensor counts) -> (Tensor, Tensor)",
)
_compiled_ctc.register_fake(
    lambda scores, labels, steps, counts: (
        scores.new_empty(scores.shape[0]),
        scores.new_empty((scores.shape[1], scores.shape[0], scores.shape[2])).transpose(0, 1),
    )
)


# --- LSTM, GRU ------------------------------------------------------------------------------------


def _has_no_lstm_kernel(specs: Sequence[Spec]) -> bool:
    x, h, *_ = specs
    return x.dtype != "float32" or not x.shape[2] or not h.shape[1] or devices.ACCELERATED


@TABLE.add("lstm", unless=_has_no_lstm_kernel)
def lstm(x: Value, h: Value, c: Value, kernel: Value, recurrent: Value, bias: Value) -> list[Value]:
    """The kernel of `torch.nn.LSTM`, whose gates have the same order, and two biases."""
    if not x.numel():
        return [x.new_empty((*x.shape[:2], h.shape[1])), h, c]
    x, *weights, h, c = _layer(x, h, c, kernel, recurrent, bias)
    states = [h.unsqueeze(0), c.unsqueeze(0)]
    ys, h, c = torch.lstm(x, states, weights, True, 1, 0.0, False, False, False)
    return [ys, h[0], c[0]]


MOST_UNITS_OF_GRU = 128
"""Units up to which the kernel of a GRU serves. With 256 it takes 1.02 to 1.1 of a loop."""


def _has_no_gru_kernel(specs: Sequence[Spec], *, reset_after: bool) -> bool:
    units = specs[1].shape[1]
    large = units is None or units > MOST_UNITS_OF_GRU
    return large or not reset_after or _has_no_lstm_kernel(specs)


@TABLE.add("gru", unless=_has_no_gru_kernel)
def gru(
    x: Value, h: Value, kernel: Value, recurrent: Value, bias: Value, *, reset_after: bool
) -> list[Value]:
    """The kernel of `torch.nn.GRU`: gates r, z, n; its second bias matters for what is reset."""
    if not x.numel():
        return [x.new_empty((*x.shape[:2], h.shape[1])), h]
    _check_samples(x, h)
    gates = [t.split(h.shape[1], 1) for t in (kernel, recurrent)]
    z, r, n, m = bias.split(h.shape[1])
    none = torch.zeros_like(m)
    matrices = [torch.cat([b, a, c], 1).t() for a, b, c in gates]
    weights = [*matrices, torch.cat([r, z, n]), torch.cat([none, none, m])]
    ys, h = torch.gru(x, h.unsqueeze(0), weights, True, 1, 0.0, False, False, False)
    return [ys, h[0]]


def _check_samples(x: Value, *states: Value) -> None:
    """ValueError if the numbers of samples differ. The kernels would write beyond the states."""
    samples = x.shape[1]
    if any(len(t) != samples for t in states):
        counts = " and ".join([str(len(t)) for t in states])
        raise ValueError(f"x has {samples} samples, and the states have {counts}")


def _has_no_lstm_gradient(specs: Sequence[Spec]) -> bool:
    return _has_no_lstm_kernel(specs[-10:]) or not torch.backends.mkldnn.is_available()


FORWARDS, LSTM, ONE_LAYER = False, 2, 1
BIASES, ONE_DIRECTION, TIME_FIRST, TRAINS = True, False, False, True


def _layer(
    x: Value, h: Value, c: Value, kernel: Value, recurrent: Value, bias: Value
) -> list[Value]:
    """The operands as the kernels take them."""
    _check_samples(x, h, c)
    weights = [kernel.t().contiguous(), recurrent.t().contiguous(), bias, torch.zeros_like(bias)]
    return [x.contiguous(), *weights, h.contiguous(), c.contiguous()]


@TABLE.add("lstm_saving", unless=_has_no_lstm_gradient)
def lstm_saving(*operands: Value) -> list[Value]:
    """The kernel that `torch.nn.LSTM` runs while it is trained, and the bytes that it keeps."""
    x, h, *_ = operands
    if not x.numel():
        return [*lstm(*operands), x.new_empty(0, dtype=torch.uint8)]
    given = [t.detach() for t in _layer(*operands)]
    with torch.enable_grad():  # Without a tape it keeps nothing.
        results = aten.mkldnn_rnn_layer.default(
            *given, FORWARDS, [], LSTM, h.shape[1], ONE_LAYER, BIASES, ONE_DIRECTION, TIME_FIRST,
            TRAINS,
        )  # fmt: skip
    return list(results)


@TABLE.add("lstm_grad", unless=_has_no_lstm_gradient)
def lstm_grad(g_ys: Value, g_h: Value, g_c: Value, *given: Value) -> list[Value]:
    """The kernel of its gradient."""
    operands, (ys, last_h, last_c, saved) = given[:6], given[6:]
    x, h, _, kernel, recurrent, bias = operands
    if not x.numel():
        nothing = [torch.zeros_like(t) for t in (kernel, recurrent, bias)]
        return [torch.zeros_like(x), g_h.clone(), g_c.clone(), *nothing]
    slopes = [t.contiguous() for t in (g_ys, g_h, g_c)]
    dx, by_kernel, by_recurrent, by_bias, _, dh, dc = aten.mkldnn_rnn_layer_backward.default(
        *_layer(*operands), ys, last_h, last_c, *slopes, FORWARDS, LSTM, h.shape[1], ONE_LAYER,
        BIASES, TRAINS, ONE_DIRECTION, [], TIME_FIRST, saved,
    )  # fmt: skip
    return [dx, dh, dc, by_kernel.t(), by_recurrent.t(), by_bias]
