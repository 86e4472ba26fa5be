"""Engines on a device that the command line names."""

from __future__ import annotations

import sys

import pytest

from backplane.engines.base import Engine

_placed: dict[tuple[Engine, str], Engine] = {}


def on_device(engine: Engine, name: str) -> Engine:
    """The engine on one of its devices, by the code that an accelerator takes, also where that is
    its only device.
    """
    if "torch" in sys.modules:  # Digits are compared: convolutions on CUDA keep those of float32.
        sys.modules["torch"].backends.cudnn.allow_tf32 = False
    if engine.device_engine is None or name not in engine.devices():
        return engine.on_device(name)
    if (engine, name) not in _placed:
        _placed[engine, name] = engine.device_engine(name)
    return _placed[engine, name]


def skip_where_errors_end_the_device(engine: Engine, request: pytest.FixtureRequest) -> None:
    """Leave a test of wrong indices out on CUDA: PyTorch ends CUDA for the process, and ONNX
    Runtime's kernels do not look at indices.
    """
    if engine.name in ("torch", "cntk") and "gpu" in request.config.getoption("--device"):
        pytest.skip("wrong indices are not told on CUDA")
