"""Engines on a device that the command line names."""

from __future__ import annotations

import sys

from backplane.engines.base import Engine

_placed: dict[tuple[Engine, str], Engine] = {}


def on_device(engine: Engine, name: str) -> Engine:
    """The engine on one of its devices, by the code that an accelerator takes, also where that is
    its only device.
    """
    if "torch" in sys.modules:  # Digits are compared: convolutions on CUDA keep those of float32.
        sys.modules["torch"].backends.cudnn.allow_tf32 = False
    if type(engine).with_device is Engine.with_device or name not in engine.devices():
        return engine.on_device(name)
    if (engine, name) not in _placed:
        _placed[engine, name] = engine.with_device(name)
    return _placed[engine, name]
