"""The lowerings that need no engine, by name of the primitive."""

from __future__ import annotations

from backplane.engines.base import Table
from backplane.engines.jax import (
    convolution,
    elementwise,
    pooling,
    random,
    reductions,
    shaping,
)

TABLE = Table()
for _theme in (elementwise, reductions, shaping, convolution, pooling, random):
    TABLE.update(_theme.TABLE)
