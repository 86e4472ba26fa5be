"""Predictions of the network by hand in PyTorch, exported to ONNX. There is no training by hand:
ONNX Runtime has no gradients.
"""

from __future__ import annotations

import io
import warnings
from typing import Any

import onnxruntime as ort
import torch

from benchmarks.networks.layers.torch import Layers
from benchmarks.networks.problem import Batch, Network, Sizes
from benchmarks.problem import Run

OPSET = 20


class _Module(torch.nn.Module):
    """The network as PyTorch's exporter takes it: its weights become constants."""

    def __init__(self, network: Network, names: list[str], sizes: Sizes) -> None:
        super().__init__()
        self.network, self.names, self.sizes = network, names, sizes
        self.layers = Layers(training=False)

    def forward(self, *inputs: Any) -> Any:
        """What the network predicts."""
        batch = dict(zip(self.names, inputs, strict=True))
        return self.network.predicted(self.layers, batch, self.sizes)


def predict(network: Network, batch: Batch, sizes: Sizes) -> Run:
    """A prediction, in a session with all of its optimizations and one thread."""
    batch = dict(network.inputs(batch))
    names, inputs = list(batch), tuple(map(torch.from_numpy, batch.values()))
    module = _Module(network, names, sizes)
    file = io.BytesIO()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter: it is an older one, without onnxscript
        module(*inputs)
        for w in module.layers.values.values():
            w.requires_grad_(False)
        torch.onnx.export(
            module, inputs, file, input_names=names, dynamo=False, opset_version=OPSET
        )
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(file.getvalue(), options, providers=["CPUExecutionProvider"])
    return Run(lambda: session.run(None, batch))
