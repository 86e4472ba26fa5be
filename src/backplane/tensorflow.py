"""K on TensorFlow: `from backplane import tensorflow as K`.

Classic Keras takes it as its backend with `KERAS_BACKEND=backplane.tensorflow`. Written by
scripts/generate.py: do not edit.
"""

from backplane.interop import namespace as _namespace

globals().update(_namespace.namespace("tensorflow"))
