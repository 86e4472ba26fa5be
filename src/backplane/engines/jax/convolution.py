"""Convolution and its gradients: `lax.conv_general_dilated` in three layouts."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
from jax import lax

from backplane.engines.base import Padding, Table, Value, host_shape, resolve_padding
from backplane.engines.jax.kernel import kernel as kernel_

Shape = tuple[int | None, ...]
Sizes = tuple[int, ...]
Pairs = Sequence[tuple[int, int]]

TABLE = Table()

_AXES = "DHW"
"""Names of the spatial axes; the last ones are used."""


def _layout(rank: int, x: str, kernel: str, y: str) -> tuple[str, str, str]:
    """Dimension numbers, with `.` where the spatial axes go."""
    spatial = _AXES[2 - rank :]
    return x.replace(".", spatial), kernel.replace(".", spatial), y.replace(".", spatial)
