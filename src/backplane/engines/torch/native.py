"""Users' functions of PyTorch: what their results will be, and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from backplane.core.spec import Spec
from backplane.engines.programs import Function
from backplane.engines.table import Value


class _Watch(TorchDispatchMode):
    """Sees whether an operation draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.draws = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.draws |= torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **(kwargs or {}))


def abstract(run: Callable[[], list[Spec]]) -> tuple[list[Spec], bool]:
    """The result of `run` where all tensors are fake, and whether it has drawn random numbers."""
    with FakeTensorMode(allow_non_fake_inputs=True), _Watch() as watch:
        return run(), watch.draws


def pullback(
    function: Function, operands: Sequence[Value], cotangents: Sequence[Value]
) -> Sequence[Value]:
    """Use the tape, which old autograd functions need, or `torch.func` where PyTorch traces."""
    if torch.compiler.is_compiling():
        gradients: Sequence[Value] = torch.func.vjp(lambda *xs: tuple(function(*xs)), *operands)[1](
            tuple(cotangents)
        )
        return gradients
    follows = torch.is_grad_enabled() and any(x.requires_grad for x in (*operands, *cotangents))
    with torch.enable_grad():
        own = [
            x.view_as(x) if x.requires_grad and follows else x.detach().requires_grad_()
            for x in operands
        ]
        pairs = zip(function(*own), cotangents, strict=True)
        moving = [(y, g) for y, g in pairs if y.requires_grad]
    if not moving:
        return [torch.zeros_like(x) for x in operands]
    ys, gs = zip(*moving, strict=True)
    return torch.autograd.grad(
        ys, own, gs, create_graph=follows, allow_unused=True, materialize_grads=True
    )
