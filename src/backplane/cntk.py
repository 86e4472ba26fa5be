"""K on ONNX Runtime: `KERAS_BACKEND=backplane.cntk` for classic Keras, or `from backplane import cntk as K`."""

from backplane.interop import namespace as _namespace

globals().update(_namespace.namespace("cntk"))
