"""K on PyTorch: `KERAS_BACKEND=backplane.torch` for classic Keras, or `from backplane import torch as K`."""

from backplane.interop import namespace as _namespace

globals().update(_namespace.namespace("torch"))
