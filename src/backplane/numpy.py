"""K on NumPy: `KERAS_BACKEND=backplane.numpy` for classic Keras, or `from backplane import numpy as K`."""

from backplane.interop import namespace as _namespace

globals().update(_namespace.namespace("numpy"))
