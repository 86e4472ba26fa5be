"""Autograd with PyTorch's fused optimizers; `torch.compile` of the loss; oneDNN's products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.problem import Optimizer, Run, Training

Loss = Callable[..., Any]


class _OneDnnProduct(torch.autograd.Function):
    """`x @ w` by oneDNN, forward and backward, where PyTorch itself would call MKL."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return _product(x, w.t())

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, w = ctx.saved_tensors
        gx = _product(g, w) if ctx.needs_input_grad[0] else None
        return gx, _product(x.t(), g.t())


def _product(x: Any, y_transposed: Any) -> Any:
    return torch.ops.mkldnn._linear_pointwise(x, y_transposed, None, "none", [], "")


def onednn(x: Any, w: Any, b: Any) -> Any:
    """`x @ w + b`, the product by oneDNN."""
    return _OneDnnProduct.apply(x, w) + b


def plain(x: Any, w: Any, b: Any) -> Any:
    """`x @ w + b` as PyTorch does it (MKL on x86)."""
    return torch.addmm(b, x, w)


def fused(opt: Optimizer, weights: list[Any]) -> Any:
    """PyTorch's optimizer in one kernel."""
    if opt.adam:
        return torch.optim.Adam(
            weights, lr=opt.rate, betas=(opt.beta1, opt.beta2), eps=opt.epsilon, fused=True
        )
    return torch.optim.SGD(weights, lr=opt.rate, momentum=opt.momentum, fused=True)


def train(problem: Training, loss_of: Loss, *, compiled: bool = False, linear: Any = plain) -> Run:
    """A step of eager autograd, or of a compiled loss, with a fused optimizer."""
    opt = problem.optimizer
    torch.set_num_threads(1)
    weights = [torch.tensor(p, requires_grad=True) for p in problem.parameters]
    initial = [torch.tensor(p) for p in problem.parameters]
    optimizer = fused(opt, weights)

    def loss_function(x: Any, y: Any) -> Any:
        return loss_of(weights, x, y, problem, linear)

    if compiled:
        loss_function = torch.compile(loss_function, fullgraph=True, dynamic=False)

    def step() -> float:
        loss = loss_function(torch.from_numpy(problem.x), torch.from_numpy(problem.y))
        optimizer.zero_grad()
        loss.backward()  # sees to it that a gradient is laid out like its weight, which step needs
        optimizer.step()
        return loss.item()

    def reset() -> None:
        with torch.no_grad():
            for w, p in zip(weights, initial, strict=True):
                w.copy_(p)
        optimizer.state.clear()

    return Run(step, (), reset)
