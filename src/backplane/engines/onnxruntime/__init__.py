"""ONNX Runtime, in CNTK's place: every program is one ONNX model in one session."""

from backplane.engines.onnxruntime.placement import ENGINE

__all__ = ["ENGINE"]
