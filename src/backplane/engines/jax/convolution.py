"""Convolution and its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax

from backplane.core.spec import Spec
from backplane.engines.jax import cpu, native
from backplane.engines.jax.kernel import kernel as kernel_of
from backplane.engines.jax.kernel import sized
from backplane.engines.table import Lowering, Table, Value

TABLE = Table()

_WINDOW = ("strides", "padding", "dilation", "groups")


def _on_cpu() -> bool:
    return jax.default_backend() == "cpu"


def _is_decomposed(specs: Sequence[Spec], **given: Any) -> bool:
    return _on_cpu() and cpu.is_decomposed(specs, **given)


def _in_form(name: str, kernels: Lowering) -> None:
    """Register the lowering of a primitive: `kernels`, told what suits the device."""

    @TABLE.build(name, unless=_is_decomposed)
    def build(specs: Sequence[Spec], **given: Any) -> Lowering:
        limits = cpu.Limits.of(specs[0].dtype) if _on_cpu() else None
        return partial(kernels, limits=limits, **given)


@kernel_of("limits", *_WINDOW)
def _conv(x: Value, kernel: Value, *, limits: cpu.Limits | None, **window: Any) -> Value:
    """Cross-correlation."""
    if limits is None:
        return native.conv(x, kernel, **window)
    return cpu.conv(x, kernel, limits=limits, **window)


@sized(2, "limits", *_WINDOW)
def _conv_input_grad(g: Value, kernel: Value, *, limits: cpu.Limits | None, **given: Any) -> Value:
    """The gradient by x, which is the transposed convolution too."""
    if limits is None:
        return native.input_grad(g, kernel, **given)
    return cpu.input_grad(g, kernel, limits=limits, **given)


@kernel_of("limits", "kernel_shape", *_WINDOW)
def _conv_kernel_grad(x: Value, g: Value, *, limits: cpu.Limits | None, **given: Any) -> Value:
    """The gradient by the kernel."""
    if limits is None:
        return native.kernel_grad(x, g, **given)
    return cpu.kernel_grad(x, g, limits=limits, **given)


_in_form("conv", _conv)
_in_form("conv_input_grad", _conv_input_grad)
_in_form("conv_kernel_grad", _conv_kernel_grad)
