"""K on NumPy: `from backplane import numpy as K`.

Classic Keras takes it as its backend with `KERAS_BACKEND=backplane.numpy`.
"""

from backplane.interop import namespace as _namespace

globals().update(_namespace.namespace("numpy"))
