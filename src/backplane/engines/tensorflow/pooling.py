"""Pooling in one to three dimensions.

TensorFlow's kernels for three dimensions know few dtypes, and `MaxPool3DGrad` errs by more than it
rounds. So three dimensions are pooled as two: over the last two ("planes"), then over the first
("columns"). Values and first maxima are the same. One dimension is the second step alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from backplane.core.windows import Padding
from backplane.core.windows import windows as windows_of
from backplane.engines.base import Ints, Shape, Table, Value, merge
from backplane.engines.tensorflow.constants import ints, larger, number, sizes_of, table, vector
from backplane.engines.tensorflow.library import raw, tf

TABLE = Table()

Sizes = tuple[Value, ...]


class Windows(NamedTuple):
    """How windows lie: one entry for each spatial axis."""

    pool: Ints
    strides: Ints
    padding: Padding

    @property
    def of_planes(self) -> Windows:
        """Those over the last two of three axes."""
        return self._replace(pool=self.pool[1:], strides=self.strides[1:])

    @property
    def of_columns(self) -> Windows:
        """Those over the first axis, as the first of two."""
        return self._replace(pool=(self.pool[0], 1), strides=(self.strides[0], 1))

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of the kernels."""
        padding = str(self.padding).upper()
        return {"ksize": [1, *self.pool, 1], "strides": [1, *self.strides, 1], "padding": padding}

    def padded(self, *xs: Value, value: float) -> tuple[Windows, *tuple[Value, ...]]:
        """The kernels take no explicit padding: operands that have it, and windows without."""
        if isinstance(self.padding, str):
            return self, *xs
        paddings = table(((0, 0), *self.padding, (0, 0)))
        fill = number(value, xs[0].dtype.name)
        padded = [raw.PadV2(input=x, paddings=paddings, constant_values=fill) for x in xs]
        return self._replace(padding="valid"), *padded


@TABLE.add("check_windows")
def _check_windows(x: Value, *, sizes: Ints) -> Value:
    """`x` itself, once it is sure that windows fit: the kernel of max-pooling would end the
    process.
    """
    fits = tf.reduce_all(tf.shape(x) >= ints(sizes))
    with tf.control_dependencies([raw.Assert(condition=fits, data=["the window does not fit"])]):
        return raw.Identity(input=x)


# --- the primitives: explicit padding is done here, "valid" and "same" below ---------------------


@TABLE.add("max_pool", wanted=True)
def _max_pool(x: Value, *, wanted: tuple[bool, ...], **given: Any) -> list[Value]:
    """The kernels of the gradient find the positions again."""
    if signed := _SIGNED.get(x.dtype):
        bits = _sign_flipped(raw.Bitcast(input=x, type=signed))
        y, positions = _max_pool(bits, wanted=wanted, **given)
        return [raw.Bitcast(input=_sign_flipped(y), type=x.dtype), positions]
    windows, x = Windows(**given).padded(x, value=-math.inf)
    y = _pool(raw.MaxPool, x, windows)
    return [y, tf.zeros_like(y, tf.int64) if wanted[1] else None]


@TABLE.add("max_pool_grad", reads=(0, 1, 2))
def _max_pool_grad(g: Value, x: Value, y: Value, positions: None, **given: Any) -> Value:
    """`g` where the maxima are, 0 elsewhere."""
    windows, padded = Windows(**given).padded(x, value=-math.inf)
    return _crop(_max_grad(g, padded, y, windows), sizes_of(x), given["padding"])


@TABLE.add("max_pool_take", reads=(0, 1, 2))
def _max_pool_take(v: Value, x: Value, y: Value, positions: None, **given: Any) -> Value:
    """The elements of `v` where the maxima are."""
    _, v = Windows(**given).padded(v, value=0)
    windows, x = Windows(**given).padded(x, value=-math.inf)
    return _max_take(v, x, y, windows)


@TABLE.add("avg_pool")
def _avg_pool(x: Value, **given: Any) -> Value:
    """Elements that padding adds do not count."""
    windows, padded = Windows(**given).padded(x, value=0)
    y = _pool(_avg, padded, windows)
    return y if padded is x else y / _valid(sizes_of(x), x.dtype, Windows(**given))


@TABLE.add("avg_pool_grad")
def _avg_pool_grad(g: Value, *dims: Value, shape: Shape, **given: Any) -> Value:
    """Each element of a window gets its share of `g`."""
    sizes, windows = merge(shape, dims), Windows(**given)
    if isinstance(windows.padding, str):
        return _avg_grad(g, sizes, windows)
    ends = zip(sizes, ((0, 0), *windows.padding, (0, 0)), strict=True)
    outer = tuple([n + sum(pair) for n, pair in ends])
    g = g / _valid(sizes, g.dtype, windows)
    y = _avg_grad(g, outer, windows._replace(padding="valid"))
    return _crop(y, sizes, windows.padding)


_SIGNED = {tf.uint32: tf.int32, tf.uint64: tf.int64}
"""Dtypes without a kernel of max-pooling, and those whose kernel serves: with the first bit flipped
they are ordered alike."""


def _sign_flipped(x: Value) -> Value:
    return raw.BitwiseXor(x=x, y=tf.constant(x.dtype.min, x.dtype))


def _crop(x: Value, sizes: Sizes, padding: Padding) -> Value:
    if isinstance(padding, str):
        return x
    begin = ints((0, *(before for before, _ in padding), 0))
    return raw.Slice(input=x, begin=begin, size=vector(sizes))


def _valid(sizes: Sizes, dtype: Any, windows: Windows) -> Value:
    """The part of each window that is not padding."""
    ones = tf.ones(vector((1, *sizes[1:-1], 1)), dtype)
    windows, padded = windows.padded(ones, value=0)
    return _pool(_avg, padded, windows)


# --- one, two and three dimensions by the kernels for two ----------------------------------------


def _avg(input: Value, **options: Any) -> Value:
    return raw.AvgPool(value=input, **options)


def _pool(kernel: Callable[..., Value], x: Value, windows: Windows) -> Value:
    if len(windows.pool) == 2:
        return kernel(input=x, **windows.options)
    z = _pool_planes(kernel, x, windows)
    y = kernel(input=_columns(z), **windows.of_columns.options)
    return _view(y, (*sizes_of(y)[:2], *sizes_of(z)[2:]))


def _pool_planes(kernel: Callable[..., Value], x: Value, windows: Windows) -> Value:
    if len(windows.pool) == 1:
        return x
    y = kernel(input=_planes(x), **windows.of_planes.options)
    return _view(y, (*sizes_of(x)[:2], *sizes_of(y)[1:]))


def _max_grad(g: Value, x: Value, y: Value, windows: Windows) -> Value:
    if len(windows.pool) == 2:
        return raw.MaxPoolGrad(orig_input=x, orig_output=y, grad=g, **windows.options)
    z = _pool_planes(raw.MaxPool, x, windows)
    gz = _view(_max_grad(_columns(g), _columns(z), _columns(y), windows.of_columns), sizes_of(z))
    if len(windows.pool) == 1:
        return gz
    return _view(_max_grad(_planes(gz), _planes(x), _planes(z), windows.of_planes), sizes_of(x))


def _max_take(v: Value, x: Value, y: Value, windows: Windows) -> Value:
    pool, strides, padding = windows
    if len(pool) == 2:
        # The kernel may overwrite, while it reads it, a v of as many elements as the result.
        if max(pool) == 1:
            return v[:, :: strides[0], :: strides[1]]
        if padding == "same":
            axes = zip(windows_of(pool, strides, padding), sizes_of(x)[1:-1], strict=True)
            pairs = tuple([w.ends(n, larger) for w, n in axes])
            return _max_pool_take(v, x, y, None, pool=pool, strides=strides, padding=pairs)
        return raw.MaxPoolGradGrad(orig_input=x, orig_output=y, grad=v, **windows.options)
    z = _pool_planes(raw.MaxPool, x, windows)
    if len(pool) == 3:
        v = _view(_max_take(_planes(v), _planes(x), _planes(z), windows.of_planes), sizes_of(z))
    y_columns = _max_take(_columns(v), _columns(z), _columns(y), windows.of_columns)
    return _view(y_columns, sizes_of(y))


def _avg_grad(g: Value, sizes: Sizes, windows: Windows) -> Value:
    if len(windows.pool) == 2:
        return raw.AvgPoolGrad(orig_input_shape=vector(sizes), grad=g, **windows.options)
    batch, depth, *plane, channels = sizes
    _, _, *pooled, _ = sizes_of(g)
    columns = (batch, depth, math.prod(pooled), channels)
    gz = _avg_grad(_columns(g), columns, windows.of_columns)
    gz = _view(gz, (batch, depth, *pooled, channels))
    if len(windows.pool) == 1:
        return gz
    planes = (batch * depth, *plane, channels)
    return _view(_avg_grad(_planes(gz), planes, windows.of_planes), sizes)


def _planes(x: Value) -> Value:
    """The planes of a volume as images of the batch."""
    batch, depth, *plane = sizes_of(x)
    return _view(x, (batch * depth, *plane))


def _columns(x: Value) -> Value:
    """All axes behind the first spatial one as a single axis."""
    batch, depth, *plane, channels = sizes_of(x)
    return _view(x, (batch, depth, math.prod(plane), channels))


def _view(x: Value, sizes: Sizes) -> Value:
    return raw.Reshape(tensor=x, shape=vector(sizes))
