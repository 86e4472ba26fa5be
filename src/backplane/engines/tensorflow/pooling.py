"""Pooling in one to three dimensions.

TensorFlow's kernels for three dimensions know few dtypes, and `MaxPool3DGrad` errs by more than it
rounds. So three dimensions are pooled as two: over the last two ("planes"), then over the first
("columns"). Values and first maxima are the same. One dimension is the second step alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from backplane.core.spec import Spec
from backplane.core.windows import Padding
from backplane.core.windows import windows as windows_of
from backplane.engines.table import Ints, Shape, Table, Value, merge
from backplane.engines.tensorflow.constants import ints, larger, number, sizes_of, table, vector
from backplane.engines.tensorflow.control import not_empty
from backplane.engines.tensorflow.library import HALVES, computed_in, raw, tf

TABLE = Table()

Sizes = tuple[Value, ...]


class Windows(NamedTuple):
    """The places of windows: one entry for each spatial axis."""

    pool: Ints
    strides: Ints
    padding: Padding

    @property
    def of_planes(self) -> Windows:
        """The windows over the last two of three axes."""
        return self._replace(pool=self.pool[1:], strides=self.strides[1:])

    @property
    def of_columns(self) -> Windows:
        """The windows over the first axis, as the first of two axes."""
        return self._replace(pool=(self.pool[0], 1), strides=(self.strides[0], 1))

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of the kernels."""
        padding = str(self.padding).upper()
        return {"ksize": [1, *self.pool, 1], "strides": [1, *self.strides, 1], "padding": padding}


@TABLE.add("check_windows")
def _check_windows(x: Value, *, sizes: Ints) -> Value:
    """`x` itself, if windows fit: the kernel of max-pooling would end the process."""
    fits = tf.reduce_all(tf.shape(x) >= ints(sizes))
    with tf.control_dependencies([raw.Assert(condition=fits, data=["the window does not fit"])]):
        return raw.Identity(input=x)


# --- the primitives ------------------------------------------------------------------------------


def _has_no_kernel(specs: Sequence[Spec], *, padding: Padding, **given: Any) -> bool:
    """Whether the kernels lack the dtype, or the padding, for which no function of K asks."""
    return not isinstance(padding, str) or specs[0].dtype in ("uint32", "uint64")


@TABLE.add("max_pool", wanted=True, unless=_has_no_kernel)
def _max_pool(x: Value, *, wanted: tuple[bool, ...], **given: Any) -> list[Value]:
    """The maxima. The kernels of the gradient find the positions again."""
    y = _pool(raw.MaxPool, x, Windows(**given))
    return [y, tf.zeros_like(y, tf.int64) if wanted[1] else None]


@TABLE.add("max_pool_grad", reads=(0, 1, 2), unless=_has_no_kernel)
def _max_pool_grad(g: Value, x: Value, y: Value, positions: None, **given: Any) -> Value:
    """`g` where the maxima are, 0 elsewhere. For bfloat16 the kernel ends the process."""
    gradient = computed_in(HALVES, lambda g, x, y: _max_grad(g, x, y, Windows(**given)))
    return gradient(not_empty(g), x, y)


@TABLE.add("max_pool_take", reads=(0, 1, 2), unless=_has_no_kernel)
def _max_pool_take(v: Value, x: Value, y: Value, positions: None, **given: Any) -> Value:
    """The elements of `v` where the maxima are."""
    return _max_take(v, x, y, Windows(**given))


@TABLE.add("avg_pool", unless=_has_no_kernel)
def _avg_pool(x: Value, **given: Any) -> Value:
    """Elements that padding adds do not count."""
    return _pool(lambda input, **o: raw.AvgPool(value=input, **o), x, Windows(**given))


@TABLE.add("avg_pool_grad", unless=_has_no_kernel)
def _avg_pool_grad(g: Value, *dims: Value, shape: Shape, **given: Any) -> Value:
    """Each element of a window gets its share of `g`."""
    return _avg_grad(g, merge(shape, dims), Windows(**given))


# --- one, two and three dimensions by the kernels for two ----------------------------------------


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
        if 0 in x.shape:  # A pooling of what the kernel then gives would end the process.
            return tf.zeros_like(x)
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
            v, x = _padded(v, windows, 0), _padded(x, windows, -math.inf)
            windows = windows._replace(padding="valid")
        return raw.MaxPoolGradGrad(orig_input=x, orig_output=y, grad=v, **windows.options)
    z = _pool_planes(raw.MaxPool, x, windows)
    if len(pool) == 3:
        v = _view(_max_take(_planes(v), _planes(x), _planes(z), windows.of_planes), sizes_of(z))
    y_columns = _max_take(_columns(v), _columns(z), _columns(y), windows.of_columns)
    return _view(y_columns, sizes_of(y))


def _padded(x: Value, windows: Windows, value: float) -> Value:
    """`x` with the padding that `"same"` adds to it."""
    axes = zip(windows_of(*windows), sizes_of(x)[1:-1], strict=True)
    paddings = table(((0, 0), *[w.ends(n, larger) for w, n in axes], (0, 0)))
    return raw.PadV2(input=x, paddings=paddings, constant_values=number(value, x.dtype.name))


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
