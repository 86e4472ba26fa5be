"""K on JAX: `from backplane import jax as K`.

Classic Keras takes it as its backend with `KERAS_BACKEND=backplane.jax`. Written by
scripts/generate.py: do not edit.
"""

from backplane.interop import namespace as _namespace

globals().update(_namespace.namespace("jax"))
