"""Recording by PyTorch (`torch.jit.trace`, `torch.export`, `torch.compile`, `make_fx`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch.autograd import forward_ad

from backplane.engines.table import Shape, Value, merge

T = TypeVar("T")

_PROXY = torch._C._TorchDispatchModeKey.PROXY
"""The mode in which `torch.export` and `make_fx` record."""


def in_jit_trace() -> bool:
    """Whether `torch.jit.trace` records, for old ONNX exports too: sizes are tensors then."""
    return torch._C._get_tracing_state() is not None


def is_recorded() -> bool:
    """Whether anything records what is done now."""
    return (
        torch.compiler.is_compiling()
        or in_jit_trace()
        or torch._C._get_dispatch_mode(_PROXY) is not None
        or torch._ops._get_dispatch_mode_pre_dispatch(_PROXY) is not None
    )


def _is_followed() -> bool:
    """Whether anything records or transforms what is done now."""
    return is_recorded() or torch._C._functorch.peek_interpreter_stack() is not None


def values_are_known(x: Value) -> bool:
    """Whether a lowering may choose by the values of `x`."""
    return type(x) in (torch.Tensor, torch.nn.Parameter) and not _is_followed()


def only_values_count(*tensors: Value) -> bool:
    """Whether neither a tape nor anybody else follows what is done with `tensors`."""
    if _is_followed() or forward_ad._current_level >= 0:
        return False
    return not any(x.requires_grad or type(x) is not torch.Tensor for x in tensors)


def beside(function: Callable[..., T], *args: Any) -> T:
    """`function(*args)`, of which `torch.jit.trace` records nothing."""
    state = torch._C._get_tracing_state()
    torch._C._set_tracing_state(None)
    try:
        return function(*args)
    finally:
        torch._C._set_tracing_state(state)


def present_sizes(x: Value) -> tuple[int, ...]:
    """The sizes of a tensor as plain ints, which `torch.jit.trace` does not follow."""
    return beside(lambda: tuple(x.shape)) if in_jit_trace() else x.shape


def host_shape(shape: Shape, dims: Sequence[Value]) -> tuple[int, ...]:
    """All sizes as Python ints, but for those that `torch.jit.trace` follows."""
    if not dims:
        return tuple(shape)  # type: ignore[arg-type]
    sizes = merge(shape, dims)
    # A size may also be a tensor because it was computed from values. That one is read. The
    # compiler knows this question, but not that of `in_jit_trace`.
    if torch.jit.is_tracing():
        return tuple([n if isinstance(n, torch.Tensor) else int(n) for n in sizes])
    return tuple([int(n) for n in sizes])
