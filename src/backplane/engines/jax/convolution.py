"""Convolution and its gradients."""

from __future__ import annotations

from typing import Any

import jax

from backplane.engines.base import Ints, Table, Value
from backplane.engines.jax import cpu, native
from backplane.engines.jax.kernel import kernel as kernel_of
from backplane.engines.jax.kernel import sized

TABLE = Table()

_WINDOW = ("strides", "padding", "dilation", "groups")


def _forms() -> Any:
    """The module whose forms suit the device."""
    return cpu if jax.default_backend() == "cpu" else native


@TABLE.add("conv")
@kernel_of(*_WINDOW)
def _conv(x: Value, kernel: Value, **window: Any) -> Value:
    """Cross-correlation."""
    return _forms().conv(x, kernel, **window)


@TABLE.add("conv_input_grad")
@sized(2, *_WINDOW)
def _conv_input_grad(g: Value, kernel: Value, *, shape: Ints, **window: Any) -> Value:
    """The gradient by x, which is the transposed convolution too."""
    return _forms().input_grad(g, kernel, shape=shape, **window)


@TABLE.add("conv_kernel_grad")
@kernel_of("kernel_shape", *_WINDOW)
def _conv_kernel_grad(x: Value, g: Value, *, kernel_shape: Ints, **window: Any) -> Value:
    """The gradient by the kernel."""
    return _forms().kernel_grad(x, g, kernel_shape=kernel_shape, **window)
