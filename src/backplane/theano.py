"""K on PyTensor: `KERAS_BACKEND=backplane.theano` for classic Keras, or `from backplane import theano as K`."""

from backplane.interop import namespace as _namespace

globals().update(_namespace.namespace("theano"))
