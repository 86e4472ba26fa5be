"""Lowerings: GELU and normalization, by PyTorch's kernels for them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from backplane.core.spec import Spec
from backplane.engines.table import Axes, Lowering, Table, Value

TABLE = Table()

aten = torch.ops.aten
KIND = {True: "tanh", False: "none"}
"""PyTorch's names of the two forms of GELU."""


@TABLE.build("gelu", out=1)
def gelu(specs: Sequence[Spec], *, approximate: bool) -> Lowering:
    """`torch.nn.functional.gelu`."""
    kind = KIND[approximate]

    def lowering(x: Value, out: Value | None = None) -> Value:
        if out is None:
            return torch.nn.functional.gelu(x, approximate=kind)
        return aten.gelu.out(x, approximate=kind, out=out)

    return lowering


@TABLE.build("gelu_grad", out=1)
def gelu_grad(specs: Sequence[Spec], *, approximate: bool) -> Lowering:
    """The kernel of its gradient."""
    kind = KIND[approximate]

    def lowering(g: Value, x: Value, out: Value | None = None) -> Value:
        if out is None:
            return aten.gelu_backward.default(g, x, approximate=kind)
        return aten.gelu_backward.grad_input(g, x, approximate=kind, grad_input=out)

    return lowering


# --- normalization --------------------------------------------------------------------------------


def _is_over_rows(x: Spec, parameters: Sequence[Spec], axes: Axes) -> bool:
    """Whether the last axes are normalized, and what is given beside has their shape."""
    rank = len(axes)
    wanted = x.shape[x.ndim - rank :]
    trailing = axes == tuple(range(x.ndim - rank, x.ndim))
    return trailing and None not in wanted and all(t.shape == wanted for t in parameters)


def _has_no_kernel(specs: Sequence[Spec], *, axes: Axes, epsilon: float) -> bool:
    return not _is_over_rows(specs[0], specs[1:], axes)


@TABLE.build("normalize", wanted=True, unless=_has_no_kernel)
def normalize(
    specs: Sequence[Spec], *, axes: Axes, epsilon: float, wanted: Sequence[bool]
) -> Lowering:
    """`native_layer_norm`, which gives 1 / √(variance + ε) and not the variance."""
    shape = specs[0].shape[axes[0] :]

    def lowering(x: Value, *parameters: Value) -> list[Value | None]:
        gamma, beta = parameters or (None, None)
        y, mean, scale = torch.native_layer_norm(x, shape, gamma, beta, epsilon)
        variance = torch.var(x, axes, correction=0, keepdim=True) if wanted[2] else None
        return [y, mean, variance, scale]

    return lowering


def _has_no_gradient_kernel(specs: Sequence[Spec], *, axes: Axes) -> bool:
    return not _is_over_rows(specs[1], specs[4:], axes)


@TABLE.build("normalize_grad", wanted=True, unless=_has_no_gradient_kernel)
def normalize_grad(specs: Sequence[Spec], *, axes: Axes, wanted: Sequence[bool]) -> Lowering:
    """`native_layer_norm_backward`."""
    shape = specs[1].shape[axes[0] :]
    mask = [*wanted, False, False][:3]

    def lowering(
        g: Value, x: Value, mean: Value, scale: Value, *gamma: Value
    ) -> list[Value | None]:
        weight = gamma[0] if gamma else None
        found = aten.native_layer_norm_backward.default(
            g.contiguous(), x.contiguous(), shape, mean, scale, weight, weight, mask
        )
        return list(found[: 1 + 2 * len(gamma)])

    return lowering
