"""K on JAX: `KERAS_BACKEND=backplane.jax` for classic Keras, or `from backplane import jax as K`."""

from backplane.interop import namespace as _namespace

globals().update(_namespace.namespace("jax"))
