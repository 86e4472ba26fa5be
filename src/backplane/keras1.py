"""K as Keras 1 had it: `from backplane import keras1 as K`.

The functions, parameters, defaults and orders of arguments are those of Keras 1.2.2. The engine is
chosen as for `backplane.backend`, and tensors are the same.

Example:
    >>> from backplane import keras1 as K
    >>> x = K.variable([[[[1.0, 2.0]]]])
    >>> K.int_shape(K.spatial_2d_padding(x, padding=(1, 2), dim_ordering="tf"))
    (1, 3, 5, 2)
"""

from backplane.interop import keras1_names as _keras1_names

globals().update(_keras1_names.names())
