"""Convolutions and poolings with windows drawn at random, their gradients and second gradients, on
each engine against NumPy's in float64: sizes known and unknown, windows larger and smaller than
their strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane import engines

CONV = {1: K.conv1d, 2: K.conv2d, 3: K.conv3d}
POOL = {2: K.pool2d, 3: K.pool3d}
TRANSPOSED = {2: K.conv2d_transpose, 3: K.conv3d_transpose}


@dataclass(frozen=True)
class Drawn:
    """One convolution or pooling."""

    kind: str
    sizes: tuple[int, ...]
    window: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: str
    data_format: str
    unknown: bool
    """Whether the spatial sizes are not known before the program runs."""

    def placed(self, batch: Any, spatial: Sequence[Any], channels: int) -> tuple[Any, ...]:
        """A shape in the data format."""
        if self.data_format == "channels_first":
            return (batch, channels, *spatial)
        return (batch, *spatial, channels)

    def built(self, x: Any, kernel: Any) -> Any:
        """The result as a tensor."""
        axes = len(self.sizes)
        options = {"padding": self.padding, "data_format": self.data_format}
        strides: Any = self.strides if axes > 1 else self.strides[0]
        if self.kind in ("max", "avg"):
            return POOL[axes](x, self.window, strides=strides, pool_mode=self.kind, **options)
        if self.kind == "transposed":
            outer = [
                n * s if self.padding == "same" else (n - 1) * s + k
                for n, s, k in zip(self.sizes, self.strides, self.window, strict=True)
            ]
            shape = self.placed(2, outer, 3)
            return TRANSPOSED[axes](x, kernel, shape, strides=strides, **options)
        dilation: Any = self.dilation if axes > 1 else self.dilation[0]
        convolve = K.depthwise_conv2d if self.kind == "depthwise" else CONV[axes]
        return convolve(x, kernel, strides=strides, dilation_rate=dilation, **options)


def drawn(seed: int) -> Drawn:
    """One at random: strides or dilation, as TensorFlow's documents allow."""
    rng = np.random.default_rng(seed)
    axes = int(rng.integers(1, 4))
    kinds = {1: ["conv"], 2: ["conv", "depthwise"], 3: ["conv"]}[axes]
    kinds += ["max", "avg", "transposed"] if axes > 1 else []
    kind = str(rng.choice(kinds))
    strides = rng.integers(1, 4, axes)
    dilation = rng.integers(1, 3, axes) if kind in ("conv", "depthwise") else np.ones(axes, int)
    if rng.random() < 0.5:
        dilation[:] = 1
    else:
        strides[:] = 1
    if kind == "depthwise":
        strides[:] = strides[0]
    return Drawn(
        kind,
        tuple(map(int, rng.integers(5, 8, axes))),
        tuple(map(int, rng.integers(1, 4, axes))),
        tuple(map(int, strides)),
        tuple(map(int, dilation)),
        str(rng.choice(["valid", "same"])),
        str(rng.choice(["channels_last", "channels_first"])),
        bool(rng.random() < 0.5),
    )


ONES = (1, 1, 1)
FOUND = [
    # Kernels that pad by a negative amount: TensorFlow's in float64, ONNX Runtime's for pooling.
    Drawn("conv", (7, 3, 7), (3, 1, 2), (1, 3, 3), ONES, "same", "channels_last", False),
    Drawn("transposed", (5, 5, 3), (3, 1, 2), (1, 3, 3), ONES, "same", "channels_last", False),
    Drawn("max", (7, 3, 7), (3, 1, 2), (1, 3, 3), ONES, "same", "channels_last", True),
    Drawn("avg", (3, 7), (1, 2), (3, 3), ONES[:2], "same", "channels_first", True),
    # The second gradient, which TensorFlow's kernel computes in the memory that it reads.
    Drawn("max", (5, 6, 5), (1, 2, 2), ONES, ONES, "valid", "channels_last", True),
    Drawn("max", (1, 5), (3, 1), (2, 1), ONES[:2], "same", "channels_last", False),
]


def results(at: Drawn, x: np.ndarray, kernel: np.ndarray) -> list[np.ndarray]:
    """The result, the gradients of a loss, and those of a loss of the first gradient."""
    spatial = [None if at.unknown else n for n in at.sizes]
    p = K.placeholder(at.placed(None, spatial, 2), dtype="float64")
    w = K.placeholder(kernel.shape, dtype="float64")
    y = at.built(p, w)
    wrt = [p] if at.kind in ("max", "avg") else [p, w]
    first = K.gradients(K.sum(K.square(y) * K.cos(y)), wrt)
    second = K.gradients(K.sum(K.square(first[0])), wrt)
    found: list[np.ndarray] = K.function([p, w], [y, *first, *second])([x, kernel])
    return found


def arrays(at: Drawn) -> tuple[np.ndarray, np.ndarray]:
    """What goes through the window, and its weights."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(at.placed(2, at.sizes, 2))
    ends = {"transposed": (3, 2), "depthwise": (2, 2)}.get(at.kind, (2, 3))
    return x, rng.standard_normal((*at.window, *ends))


@cache
def expected(at: Drawn) -> list[np.ndarray]:
    """NumPy's results. Found once for all engines."""
    with engines.use("numpy"):
        return results(at, *arrays(at))


@pytest.mark.parametrize("at", [*FOUND, *map(drawn, range(20))], ids=str)
def test_windows_agree_with_numpy(at: Drawn, engine: Any) -> None:
    for a, b in zip(results(at, *arrays(at)), expected(at), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
