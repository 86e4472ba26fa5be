"""Functions of a tensor that compute nothing, or nothing new: likes, sizes, Keras 1's own."""

from __future__ import annotations

import warnings

import numpy as np

from cases.record import case, floats, ints

X = floats(3, 4)
case("zeros_like", X, oracle=np.zeros_like, grad=False)
case(
    "zeros_like",
    X,
    oracle=lambda x, dtype: np.zeros_like(x, dtype),
    id="int",
    dtype="int32",
    grad=False,
)
case("ones_like", X, oracle=np.ones_like, grad=False)
case("ones_like", ints(2, 3), oracle=np.ones_like, id="ints", grad=False)
case("shape", X, oracle=lambda x: np.array(x.shape, "int32"), grad=False)
case("shape", ints(2, 3, 1), oracle=lambda x: np.array(x.shape, "int32"), id="ints", grad=False)
case("size", X, oracle=lambda x: np.array(x.size, "int32"), grad=False)
case("to_dense", X, oracle=lambda x: x, smooth=True)
case("print_tensor", X, "x is: ", oracle=lambda x, message: x)
case("check_numerics", X, "finite", oracle=lambda x, message: x)
case("check_numerics", ints(2, 3), oracle=lambda x: x, id="ints", grad=False)
case("stop_gradient", X, oracle=lambda x: x, grad=False)
case(
    "stop_gradient",
    X,
    fn=lambda K, x: x * K.stop_gradient(x) - K.stop_gradient(x * x),
    oracle=lambda x: 0 * x,
    id="half",
    grad=False,
    kinks=[([[1.0, -2.0]], [[1.0, -2.0]])],
)


def keras1(name):
    """A function of Keras 1 without its warning, which has tests of its own."""

    def call(K, *args, **kwargs):
        with warnings.catch_warnings(action="ignore"):
            return getattr(K, name)(*args, **kwargs)

    return call


case(
    "asymmetric_temporal_padding",
    floats(2, 3, 2),
    1,
    2,
    fn=keras1("asymmetric_temporal_padding"),
    oracle=lambda x, left, right: np.pad(x, ((0, 0), (left, right), (0, 0))),
    smooth=True,
)
case(
    "asymmetric_spatial_2d_padding",
    floats(2, 2, 3, 4),
    1,
    0,
    2,
    1,
    "th",
    fn=keras1("asymmetric_spatial_2d_padding"),
    oracle=lambda x, top, bottom, left, right, _: np.pad(
        x, ((0, 0), (0, 0), (top, bottom), (left, right))
    ),
    smooth=True,
)


def deconv2d(x, kernel, shape, strides, mode, ordering):
    """Each element puts a scaled kernel onto the result ("valid", channels last)."""
    y = np.zeros((x.shape[0], *shape[1:]))
    for i, j in np.ndindex(x.shape[1:3]):
        rows = slice(i * strides[0], i * strides[0] + kernel.shape[0])
        columns = slice(j * strides[1], j * strides[1] + kernel.shape[1])
        y[:, rows, columns] += np.einsum("bc,hwco->bhwo", x[:, i, j], kernel)
    return y


case(
    "deconv2d",
    floats(2, 3, 2, 3),
    floats(3, 2, 3, 4),
    (None, 7, 3, 4),
    (2, 1),
    "valid",
    "tf",
    fn=keras1("deconv2d"),
    oracle=deconv2d,
    smooth=True,
    batch=(0,),
)
