"""The network by hand in PyTorch: autograd and a fused optimizer."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from benchmarks.networks.layers.torch import LARGE, Layers, both_ways
from benchmarks.networks.problem import Batch, Network, Sizes, with_graphs
from benchmarks.problem import Optimizer, Run
from benchmarks.stacks.torch import fused

_DEVICE = torch.get_default_device()


def train(network: Network, batch: Batch, sizes: Sizes, *, compiled: bool = False) -> Run:
    """A training step, as it is or with the losses compiled by `torch.compile`."""
    layers, batch = Layers(), with_graphs(batch, _graph)
    tensors = _tensors(batch)
    scopes = list(network.losses(layers, tensors, sizes))  # the first call makes the weights
    initial = {name: w.detach().clone() for name, w in layers.values.items()}
    groups = [[layers.values[name] for name in layers.trained(scope)] for scope in scopes]
    optimizers = [o for weights in groups for o in _optimizers(network.optimizer, weights)]

    def losses(batch: Any) -> dict[str, Any]:
        return network.losses(layers, batch, sizes)

    losses_of = torch.compile(losses, dynamic=False) if compiled else losses

    def step() -> list[float]:
        found = losses_of(_tensors(batch))
        for scope, weights in zip(scopes, groups, strict=True):
            if len(scopes) == 1:
                for w in weights:
                    w.grad = None
                found[scope].backward()
                continue
            slopes = torch.autograd.grad(found[scope], weights, retain_graph=True)
            for w, g in zip(weights, slopes, strict=True):
                w.grad = g.contiguous(memory_format=_format(w))
        for optimizer in optimizers:
            optimizer.step()
        return [loss.item() for loss in found.values()]

    def reset() -> None:
        with torch.no_grad():
            for name, value in initial.items():
                layers.values[name].copy_(value)
        for optimizer in optimizers:
            optimizer.state.clear()

    reset()
    return Run(step, (), reset)


def _optimizers(opt: Optimizer, weights: list[Any]) -> list[Any]:
    """The fused one, and one for tables whose gradients are sparse."""
    large = [w for w in weights if w.ndim == 2 and len(w) >= LARGE]
    if not large:
        return [fused(opt, weights)]
    others = [w for w in weights if all(w is not x for x in large)]
    return [fused(opt, others), torch.optim.SGD(large, lr=opt.rate)]


def _format(w: Any) -> Any:
    last = w.ndim == 4 and w.is_contiguous(memory_format=torch.channels_last)
    return torch.channels_last if last else torch.contiguous_format


def predict(network: Network, batch: Batch, sizes: Sizes, *, compiled: bool = False) -> Run:
    """A prediction, in inference mode."""
    layers = Layers(training=False)
    batch = with_graphs(network.inputs(batch), _graph)

    def predicted(batch: Any) -> Any:
        return network.predicted(layers, batch, sizes)

    with torch.inference_mode():
        predicted(_tensors(batch))  # the first call makes the weights
    predicted_of = torch.compile(predicted, dynamic=False) if compiled else predicted

    def run() -> Any:
        with torch.inference_mode():
            return predicted_of(_tensors(batch)).cpu().numpy()

    return Run(run)


def _tensors(batch: Batch) -> dict[str, Any]:
    torch.set_num_threads(1)
    return {
        name: torch.from_numpy(a).to(_DEVICE) if isinstance(a, np.ndarray) else a
        for name, a in batch.items()
    }


def _graph(matrix: Any) -> Any:
    """A matrix and its transpose, on the device once for all steps."""
    return [tuple(x.to(_DEVICE) for x in rows) for rows in both_ways(matrix)]
