"""Lowerings: GELU, and normalization over the last axes, by their kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from backplane.core.spec import Spec
from backplane.engines.onnxruntime.builder import Symbol, literal, node, nodes
from backplane.engines.onnxruntime.reductions import mean
from backplane.engines.table import Axes, Table

TABLE = Table()

SINCE = {"normalize": 17, "gelu": 20}
"""The first version of ONNX's operators that has the kernel of a primitive."""


@TABLE.add("gelu", unless=lambda specs, *, approximate: specs[0].dtype != "float32")
def gelu(x: Symbol, *, approximate: bool) -> Symbol:
    """The product of x and the probability that a standard normal number is below x."""
    return node("Gelu", x, approximate="tanh" if approximate else "none")


def _has_no_kernel(specs: Sequence[Spec], *, axes: Axes, epsilon: float) -> bool:
    """The kernel normalizes over the last axes, and takes parameters of their sizes alone."""
    x, *parameters = specs
    sizes = x.shape[min(axes, default=0) :]
    last = bool(axes) and axes == tuple(range(min(axes), len(x.shape)))
    whole = None not in sizes and 0 not in sizes
    return not (last and whole and x.dtype == "float32") or any(
        t.shape != sizes for t in parameters
    )


@TABLE.add("normalize", unless=_has_no_kernel)
def normalize(x: Symbol, *parameters: Symbol, axes: Axes, epsilon: float) -> list[Symbol]:
    """The result, the mean, the variance, and the reciprocal of the deviation."""
    assert x.shape is not None
    sizes = [n for n in x.shape[axes[0] :] if n is not None]
    # Without a beta, ONNX Runtime's optimizer ends the process.
    plain = literal(np.ones(sizes, x.dtype)), literal(np.zeros(sizes, x.dtype))
    gamma, beta = parameters or plain
    y, centre, scale = nodes(
        "LayerNormalization", [x, gamma, beta], [x.dtype] * 3, axis=axes[0], epsilon=epsilon
    )
    # Few programs read the variance. Nodes that no output needs never reach the model.
    apart = node("Sub", x, centre, shape=x.shape)
    variance = mean(node("Mul", apart, apart, shape=x.shape), axes=axes, keepdims=True)
    return [y, centre, variance, scale]
