"""Convolution and its gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax

from backplane.core.spec import Spec
from backplane.engines.fast import applies
from backplane.engines.jax import plain_convolution as plain
from backplane.engines.jax.compiled import compiled, sized
from backplane.engines.jax.fast import cpu
from backplane.engines.kernels import limit
from backplane.engines.table import Lowering, Table, Value

TABLE = Table()

_GIVEN = ("large", "strides", "padding", "dilation", "groups")

Decorator = Callable[[Lowering], Lowering]


def _on_cpu() -> bool:
    return jax.default_backend() == "cpu" and applies("jax.cpu")


def _register(name: str, anywhere: Lowering, on_cpu: Lowering, made: Decorator) -> None:
    """Register both forms of a primitive; the device decides. `made` compiles either."""

    @made
    def run(a: Value, b: Value, *, large: float | None, **given: Any) -> Value:
        if large is None:
            return anywhere(a, b, **given)
        return on_cpu(a, b, large=large, **given)

    @TABLE.build(name, unless=lambda specs, **at: _on_cpu() and cpu.is_decomposed(specs, **at))
    def build(specs: Sequence[Spec], **given: Any) -> Lowering:
        large = limit("jax.strided", specs[0].dtype) if _on_cpu() else None
        return partial(run, large=large, **given)


_register("conv", plain.conv, cpu.conv, compiled(*_GIVEN))
_register("conv_input_grad", plain.input_grad, cpu.input_grad, sized(2, *_GIVEN))
_register("conv_kernel_grad", plain.kernel_grad, cpu.kernel_grad, compiled("kernel_shape", *_GIVEN))
