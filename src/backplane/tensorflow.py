"""K on TensorFlow: `KERAS_BACKEND=backplane.tensorflow` for classic Keras, or `from backplane import tensorflow as K`."""

from backplane.interop import namespace as _namespace

globals().update(_namespace.namespace("tensorflow"))
