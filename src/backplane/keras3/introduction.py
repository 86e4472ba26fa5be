"""What an engine and Keras have to know of each other when the engine is first in force."""

from __future__ import annotations

import numpy as np

from backplane.core.spec import DTYPES
from backplane.engines.base import Engine
from backplane.keras3.tensor import Tensor

INTRODUCED: set[str] = set()
"""The libraries whose values may stand to the left of symbolic tensors, and whose dtypes Keras
knows."""


def introduce(engine: Engine) -> None:
    """Have an engine compute on an accelerator, let its values stand to the left of symbolic
    tensors, and let Keras know its dtypes.
    Other libraries are left alone: processes may have to be connected before JAX is first used.
    """
    INTRODUCED.add(engine.library)
    engine.prefer_accelerator()
    engine.yield_to(Tensor)
    _introduce_dtypes(engine)


def _introduce_dtypes(engine: Engine) -> None:
    """Let Keras know the dtypes of an engine's library, if they do not tell their names."""
    if engine.names_dtypes:
        return
    from keras.src.backend.common.dtypes import PYTHON_DTYPES_MAP

    for name in DTYPES - engine.missing_dtypes:
        value = engine.from_numpy(np.zeros((), "float32"), name)
        if engine.spec_of(value).dtype == name:
            PYTHON_DTYPES_MAP[value.dtype] = name
