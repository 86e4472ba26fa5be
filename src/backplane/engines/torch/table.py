"""The table of the engine's lowerings. Those of control flow need the engine and come with it."""

from __future__ import annotations

from backplane.engines.base import Table
from backplane.engines.torch import (
    convolution,
    elementwise,
    pooling,
    products,
    random,
    reductions,
    shaping,
    updates,
)

TABLE = Table()
for _theme in (elementwise, reductions, products, shaping, convolution, pooling, random, updates):
    TABLE.update(_theme.TABLE)
