"""K on Theano: `from backplane import theano as K`.

Classic Keras takes it as its backend with `KERAS_BACKEND=backplane.theano`. Written by
scripts/generate.py: do not edit.
"""

from backplane.interop import namespace as _namespace

globals().update(_namespace.namespace("theano"))
