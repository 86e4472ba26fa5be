"""Transposed convolutions as convolutions, phase by phase."""

from __future__ import annotations

import math
from typing import Any

import pytest

from backplane.core.spec import Spec
from backplane.core.windows import WindowGrid
from backplane.engines import kernels

pytest.importorskip("torch")
import torch

from backplane.engines.torch import ENGINE

BATCH, FILTERS = 2, 5


def by(limit: float, image: tuple[int, ...], kernel: tuple[int, ...], **at: Any) -> Any:
    """The gradient by an image of float64, in the form that a limit chooses."""
    grid = WindowGrid.of(image[:-1], kernel, at["strides"], at["padding"])
    torch.manual_seed(0)
    g = torch.randn(BATCH, *grid.counts, FILTERS, dtype=torch.float64)
    window = torch.randn(*kernel, image[-1], FILTERS, dtype=torch.float64)
    specs = [Spec((None, *g.shape[1:]), "float64"), Spec(tuple(window.shape), "float64")]
    # No products of matrices.
    with kernels.forced(torch__phases=limit, torch__windows=0.0, torch__points=math.inf):
        build = ENGINE.table["conv_input_grad"].function
        lowering = build(
            [*specs, Spec((), "int32")], shape=(None, *image), groups=1, dilation=(1, 1), **at
        )
    return lowering(g, window, BATCH)


@pytest.mark.parametrize("padding", ["valid", "same", ((1, 0), (0, 2)), ((2, 2), (1, 1))])
@pytest.mark.parametrize(
    ("kernel", "strides"),
    [((4, 4), (2, 2)), ((2, 2), (2, 2)), ((6, 3), (3, 1)), ((4, 4), (4, 2)), ((2, 4), (1, 2))],
)
def test_phases_give_the_same(kernel: Any, strides: Any, padding: Any) -> None:
    """Also where windows leave elements out, and where only one end is padded."""
    for image in ((8, 9, 1), (7, 6, 3), (12, 11, 3)):
        found = by(math.inf, image, kernel, strides=strides, padding=padding)
        wanted = by(0.0, image, kernel, strides=strides, padding=padding)
        assert found.shape == wanted.shape == (BATCH, *image)
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
