"""Pooling in one to three dimensions.

TensorFlow's kernels for three dimensions know few dtypes, and `MaxPool3DGrad` errs by more than it
rounds. So three dimensions are pooled as two: over the last two ("planes"), then over the first
("columns"). Values and first maxima are the same. One dimension is the second step alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from backplane.engines.base import Padding, Table, Value, merge
from backplane.engines.tensorflow.constants import ints, number, sizes_of, table, vector
from backplane.engines.tensorflow.library import raw, tf

TABLE = Table()

Ints = tuple[int, ...]
Sizes = tuple[Value, ...]


# --- the primitives: explicit padding is done here, "valid" and "same" below ---------------------


@TABLE.add("check_windows")
def check_windows(x: Value, *, sizes: tuple[int, ...]) -> Value:
    """`x` itself, once it is sure that windows fit: the kernel of max-pooling would end the
    process.
    """
    fits = tf.reduce_all(tf.shape(x) >= ints(sizes))
    with tf.control_dependencies([raw.Assert(condition=fits, data=["the window does not fit"])]):
        return raw.Identity(input=x)


@TABLE.add("max_pool", wanted=True)
def max_pool(
    x: Value, *, pool: Ints, strides: Ints, padding: Padding, wanted: tuple[bool, ...]
) -> list[Value]:
    """Largest element of each window; the kernels of the gradient find the positions again."""
    if x.dtype in _SIGNED:
        signed = _SIGNED[x.dtype]
        y, positions = max_pool(
            _sign_flipped(raw.Bitcast(input=x, type=signed)),
            pool=pool, strides=strides, padding=padding, wanted=wanted,
        )  # fmt: skip
        return [raw.Bitcast(input=_sign_flipped(y), type=x.dtype), positions]
    x, same = _pad(x, padding, -math.inf)
    y = _pool(_max, x, pool, strides, same)
    return [y, tf.zeros_like(y, tf.int64) if wanted[1] else None]


@TABLE.add("max_pool_grad", reads=(0, 1, 2))
def max_pool_grad(
    g: Value, x: Value, y: Value, positions: Value, *, pool: Ints, strides: Ints, padding: Padding
) -> Value:
    """G put where the maxima are."""
    padded, same = _pad(x, padding, -math.inf)
    return _crop(_max_grad(g, padded, y, pool, strides, same), sizes_of(x), padding)


@TABLE.add("max_pool_take", reads=(0, 1, 2))
def max_pool_take(
    v: Value, x: Value, y: Value, positions: Value, *, pool: Ints, strides: Ints, padding: Padding
) -> Value:
    """V read where the maxima are."""
    x, same = _pad(x, padding, -math.inf)
    v, _ = _pad(v, padding, 0)
    return _max_take(v, x, y, pool, strides, same)


@TABLE.add("avg_pool")
def avg_pool(x: Value, *, pool: Ints, strides: Ints, padding: Padding) -> Value:
    """Mean of each window."""
    padded, same = _pad(x, padding, 0)
    y = _pool(_avg, padded, pool, strides, same)
    return y if padded is x else y / _valid(sizes_of(x), x.dtype, pool, strides, padding)


@TABLE.add("avg_pool_grad")
def avg_pool_grad(
    g: Value,
    *dims: Value,
    shape: tuple[int | None, ...],
    pool: Ints,
    strides: Ints,
    padding: Padding,
) -> Value:
    """Each element of g shared out over its window."""
    sizes = merge(shape, dims)
    if isinstance(padding, str):
        return _avg_grad(g, sizes, pool, strides, padding)
    spatial = (n + sum(pair) for n, pair in zip(sizes[1:-1], padding, strict=True))
    outer = (sizes[0], *spatial, sizes[-1])
    g = g / _valid(sizes, g.dtype, pool, strides, padding)
    return _crop(_avg_grad(g, outer, pool, strides, "valid"), sizes, padding)


_SIGNED = {tf.uint32: tf.int32, tf.uint64: tf.int64}
"""Dtypes without a kernel of max-pooling, and those whose kernel serves: with the first bit flipped
they are ordered alike."""


def _sign_flipped(x: Value) -> Value:
    return raw.BitwiseXor(x=x, y=tf.constant(x.dtype.min, x.dtype))


def _pad(x: Value, padding: Padding, value: float) -> tuple[Value, str]:
    if isinstance(padding, str):
        return x, padding
    paddings = table(((0, 0), *padding, (0, 0)))
    fill = number(value, x.dtype.name)
    return raw.PadV2(input=x, paddings=paddings, constant_values=fill), "valid"


def _crop(x: Value, sizes: Sizes, padding: Padding) -> Value:
    if isinstance(padding, str):
        return x
    begin = ints((0, *(before for before, _ in padding), 0))
    return raw.Slice(input=x, begin=begin, size=vector(sizes))


def _valid(sizes: Sizes, dtype: Any, pool: Ints, strides: Ints, padding: Padding) -> Value:
    """The part of each window that is not padding."""
    ones = tf.ones(vector((1, *sizes[1:-1], 1)), dtype)
    padded, same = _pad(ones, padding, 0)
    return _pool(_avg, padded, pool, strides, same)


# --- one, two and three dimensions by the kernels for two ----------------------------------------


def _max(x: Value, pool: Ints, strides: Ints, padding: str) -> Value:
    return raw.MaxPool(input=x, **_options(pool, strides, padding))


def _avg(x: Value, pool: Ints, strides: Ints, padding: str) -> Value:
    return raw.AvgPool(value=x, **_options(pool, strides, padding))


def _options(pool: Ints, strides: Ints, padding: str) -> dict[str, Any]:
    return {"ksize": [1, *pool, 1], "strides": [1, *strides, 1], "padding": padding.upper()}


def _pool(kernel: Callable[..., Value], x: Value, pool: Ints, strides: Ints, padding: str) -> Value:
    if len(pool) == 2:
        return kernel(x, pool, strides, padding)
    z = _pool_planes(kernel, x, pool, strides, padding)
    y = kernel(_columns(z), (pool[0], 1), (strides[0], 1), padding)
    return _view(y, (*sizes_of(y)[:2], *sizes_of(z)[2:]))


def _pool_planes(
    kernel: Callable[..., Value], x: Value, pool: Ints, strides: Ints, padding: str
) -> Value:
    if len(pool) == 1:
        return x
    y = kernel(_planes(x), pool[1:], strides[1:], padding)
    return _view(y, (*sizes_of(x)[:2], *sizes_of(y)[1:]))


def _max_grad(g: Value, x: Value, y: Value, pool: Ints, strides: Ints, padding: str) -> Value:
    if len(pool) == 2:
        options = _options(pool, strides, padding)
        return raw.MaxPoolGrad(orig_input=x, orig_output=y, grad=g, **options)
    z = _pool_planes(_max, x, pool, strides, padding)
    columns = _columns(g), _columns(z), _columns(y)
    gz = _max_grad(*columns, (pool[0], 1), (strides[0], 1), padding)
    gz = _view(gz, sizes_of(z))
    if len(pool) == 1:
        return gz
    gx = _max_grad(_planes(gz), _planes(x), _planes(z), pool[1:], strides[1:], padding)
    return _view(gx, sizes_of(x))


def _same(sizes: Sizes, pool: Ints, strides: Ints) -> tuple[tuple[Value, Value], ...]:
    """What "same" adds around each axis."""
    pairs = []
    for n, k, s in zip(sizes, pool, strides, strict=True):
        total = (-(-n // s) - 1) * s + k - n
        total = max(total, 0) if isinstance(n, int) else tf.maximum(total, 0)
        pairs.append((total // 2, total - total // 2))
    return tuple(pairs)


def _max_take(v: Value, x: Value, y: Value, pool: Ints, strides: Ints, padding: str) -> Value:
    if len(pool) == 2:
        # The kernel may overwrite, while it reads it, a v of as many elements as the result.
        if max(pool) == 1:
            return v[:, :: strides[0], :: strides[1]]
        if padding == "same":
            pairs = _same(sizes_of(x)[1:-1], pool, strides)
            return _max_take(
                _pad(v, pairs, 0)[0], _pad(x, pairs, -math.inf)[0], y, pool, strides, "valid"
            )
        options = _options(pool, strides, padding)
        return raw.MaxPoolGradGrad(orig_input=x, orig_output=y, grad=v, **options)
    z = _pool_planes(_max, x, pool, strides, padding)
    if len(pool) == 3:
        v = _max_take(_planes(v), _planes(x), _planes(z), pool[1:], strides[1:], padding)
        v = _view(v, sizes_of(z))
    columns = _columns(v), _columns(z), _columns(y)
    return _view(_max_take(*columns, (pool[0], 1), (strides[0], 1), padding), sizes_of(y))


def _avg_grad(g: Value, sizes: Sizes, pool: Ints, strides: Ints, padding: str) -> Value:
    if len(pool) == 2:
        options = _options(pool, strides, padding)
        return raw.AvgPoolGrad(orig_input_shape=vector(sizes), grad=g, **options)
    batch, depth, *plane, channels = sizes
    _, _, *pooled, _ = sizes_of(g)
    columns = (batch, depth, math.prod(pooled), channels)
    gz = _avg_grad(_columns(g), columns, (pool[0], 1), (strides[0], 1), padding)
    gz = _view(gz, (batch, depth, *pooled, channels))
    if len(pool) == 1:
        return gz
    planes = (batch * depth, *plane, channels)
    return _view(_avg_grad(_planes(gz), planes, pool[1:], strides[1:], padding), sizes)


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
