"""K on MLX: `from backplane import mlx as K`.

Classic Keras takes it as its backend with `KERAS_BACKEND=backplane.mlx`. Written by
scripts/generate.py: do not edit.
"""

from backplane.interop import namespace as _namespace

globals().update(_namespace.namespace("mlx"))
