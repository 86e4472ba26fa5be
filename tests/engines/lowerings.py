"""Lowerings of primitives, called by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from backplane.engines.base import Engine


def lowering(engine: Engine, name: str, *operands: Any, **params: Any) -> Callable[..., Any]:
    """The lowering of a primitive, for operands such as these."""
    entry = engine.table[name]
    if not entry.builds:
        return lambda *values: entry.function(*values, **params)
    owned = [x if engine.owns(x) else engine.from_numpy(np.asarray(x)) for x in operands]
    return entry.function([engine.spec_of(x) for x in owned], **params)


def lower(engine: Engine, name: str, *operands: Any, **params: Any) -> Any:
    """The value of a primitive. NumPy's floating-point errors are silent, as in programs."""
    with np.errstate(all="ignore"):
        return lowering(engine, name, *operands, **params)(*operands)
