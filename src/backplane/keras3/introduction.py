"""The facts that an engine and Keras tell each other when the engine is first in force."""

from __future__ import annotations

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
    if names := engine.prepare(Tensor):
        from keras.src.backend.common.dtypes import PYTHON_DTYPES_MAP

        PYTHON_DTYPES_MAP.update(names)
