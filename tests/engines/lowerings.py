"""Single primitives: their lowerings, called by themselves, and functions that compute them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from backplane import backend as K
from backplane.core.graph import Placeholder
from backplane.core.registry import PRIMITIVES
from backplane.core.spec import Spec
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


def compute(name: str, *operands: Any, unknown: bool = False, **params: Any) -> Any:
    """The value of a primitive by a function of K, with unknown sizes if `unknown`."""
    arrays = [np.asarray(x) for x in operands]
    shapes = [(None,) * a.ndim if unknown else a.shape for a in arrays]
    inputs = [Placeholder(Spec(s, a.dtype.name)) for s, a in zip(shapes, arrays, strict=True)]
    results = PRIMITIVES[name](*inputs, **params)
    values = K.function(inputs, results if isinstance(results, list) else [results])(arrays)
    return values if isinstance(results, list) else values[0]
