"""Convolution and its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from backplane.core.spec import Spec
from backplane.engines.jax import cpu, native
from backplane.engines.jax.kernel import kernel as kernel_of
from backplane.engines.jax.kernel import sized
from backplane.engines.table import Ints, Table, Value

TABLE = Table()

_WINDOW = ("strides", "padding", "dilation", "groups")


def _forms() -> Any:
    """The module whose forms suit the device."""
    return cpu if jax.default_backend() == "cpu" else native


def _is_decomposed(specs: Sequence[Spec], **given: Any) -> bool:
    return _forms() is cpu and cpu.is_decomposed(specs, **given)


@TABLE.add("conv", unless=_is_decomposed)
@kernel_of(*_WINDOW)
def _conv(x: Value, kernel: Value, **window: Any) -> Value:
    """Cross-correlation."""
    return _forms().conv(x, kernel, **window)


@TABLE.add("conv_input_grad", unless=_is_decomposed)
@sized(2, *_WINDOW)
def _conv_input_grad(g: Value, kernel: Value, *, shape: Ints, **window: Any) -> Value:
    """The gradient by x, which is the transposed convolution too."""
    return _forms().input_grad(g, kernel, shape=shape, **window)


@TABLE.add("conv_kernel_grad", unless=_is_decomposed)
@kernel_of("kernel_shape", *_WINDOW)
def _conv_kernel_grad(x: Value, g: Value, *, kernel_shape: Ints, **window: Any) -> Value:
    """The gradient by the kernel."""
    return _forms().kernel_grad(x, g, kernel_shape=kernel_shape, **window)
