"""Convolution in one to three dimensions, and its two gradients.

TensorFlow's own CPU kernels know neither gradients of dilated or grouped convolutions, nor dilation
or explicit padding in three dimensions. So each of the three functions below is a chain of
reductions: one dimension is lifted to two, a dilation that no kernel knows is moved into the batch
(with strides: into the kernel), groups are split, and what is left is one kernel call. All of it is
differentiable by a tape.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from backplane.core import windows
from backplane.core.spec import Spec
from backplane.core.windows import Padding
from backplane.engines.table import Ints, Shape, Table, Value, merge
from backplane.engines.tensorflow.constants import ints, larger, sizes_of, table, vector
from backplane.engines.tensorflow.control import in_own_program, not_empty
from backplane.engines.tensorflow.fast.direct import accelerated
from backplane.engines.tensorflow.library import raw, tf

Sizes = tuple[Value, ...]

TABLE = Table()


class Window(NamedTuple):
    """A kernel and how it moves: one entry per spatial axis.

    Attributes:
        kernel: The shape of the kernel.
    """

    kernel: Ints
    groups: int
    strides: Ints
    padding: Padding
    dilation: Ints

    @property
    def lifted(self) -> Window:
        """The same along the second of two axes, where the first has size 1."""
        padding = self.padding if isinstance(self.padding, str) else ((0, 0), *self.padding)
        # Equal strides, because the depthwise kernels accept no others.
        strides, dilation = self.strides * 2, (1, *self.dilation)
        return Window((1, *self.kernel), self.groups, strides, padding, dilation)

    @property
    def plain(self) -> Window:
        """The same without dilation."""
        return self._replace(dilation=(1,) * len(self.strides))

    @property
    def named(self) -> Window:
        """The same with `"same"` for equal paddings. With others, oneDNN computes no gradients."""
        if isinstance(self.padding, str) or max(self.strides) > 1:
            return self
        same = self._replace(padding="same")
        return same if tuple([w.ends(0) for w in same.axes]) == self.padding else self

    @property
    def inflated(self) -> Window:
        """The same with zeros between the elements of the kernel in place of the dilation."""
        spatial = tuple([w.span for w in self.axes])
        return self.plain._replace(kernel=(*spatial, *self.kernel[-2:]))

    @property
    def dilated(self) -> bool:
        """Whether any dilation is left."""
        return max(self.dilation, default=1) > 1

    @property
    def depthwise(self) -> Ints | None:
        """The shape that TensorFlow's depthwise kernels want, or None if they do not apply. They
        need one channel in each group, two dimensions and equal strides.
        """
        if len(self.kernel) != 4 or self.kernel[2] != 1 or len(set(self.strides)) != 1:
            return None
        return (*self.kernel[:2], self.groups, self.kernel[3] // self.groups)

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of the kernels."""
        options: dict[str, Any] = {"strides": [1, *self.strides, 1]}
        if self.dilated:
            options["dilations"] = [1, *self.dilation, 1]
        if isinstance(self.padding, str):
            return {**options, "padding": self.padding.upper()}
        pairs = [0, 0, *(n for pair in self.padding for n in pair), 0, 0]
        return {**options, "padding": "EXPLICIT", "explicit_paddings": pairs}

    @property
    def axes(self) -> list[windows.Window]:
        """The windows along each axis."""
        return windows.windows(self.kernel[:-2], self.strides, self.padding, self.dilation)


# --- the primitives ------------------------------------------------------------------------------


def _lacks_kernel(
    specs: Sequence[Spec], *, strides: Ints, padding: Padding, kernel_shape: Shape = (), **_: Any
) -> bool:
    """Whether a convolution has three dimensions and explicit padding, which the kernels do not
    take.

    If a window is smaller than its stride and `"same"` pads nothing, the kernels for dtypes other
    than float32 start outside the image.
    """
    if len(strides) < 3 or padding == "valid":
        return False
    window = zip((kernel_shape or specs[1].shape)[:3], strides, strict=True)
    gaps = any(k is not None and k < s for k, s in window)
    return padding != "same" or (gaps and specs[0].dtype != "float32")


@TABLE.add("conv", "conv_bias", unless=_lacks_kernel)
def _conv_of(x: Value, kernel: Value, *bias: Value, **given: Any) -> Value:
    """Cross-correlation. TensorFlow's optimizer joins it with a bias that follows at once."""
    window = Window(tuple(kernel.shape), **given).named
    if _is_empty(x, kernel):
        batch, *spatial, _ = sizes_of(x)
        outer = [w.count(n, larger) for w, n in zip(window.axes, spatial, strict=True)]
        return _biased(tf.zeros(vector((batch, *outer, kernel.shape[-1])), x.dtype), *bias)
    x = not_empty(x)
    if len(window.strides) > 1:
        return _biased(_conv(x, kernel, window), *bias)
    y = _conv(_lift(x, 1), _lift(kernel, 0), window.lifted)
    return tf.squeeze(_biased(y, *bias), 1)


def _biased(y: Value, *bias: Value) -> Value:
    return raw.BiasAdd(value=y, bias=bias[0]) if bias else y


@TABLE.add("conv_input_grad", unless=_lacks_kernel)
def _conv_input_grad(g: Value, kernel: Value, *dims: Value, shape: Sizes, **given: Any) -> Value:
    """Gradient of a convolution by `x`; also the transposed convolution."""
    window, sizes = Window(tuple(kernel.shape), **given).named, merge(shape, dims)
    # From a kernel's sizes, TensorFlow's optimizer concludes that an unknown batch is empty, and
    # divides by its size elsewhere.
    if _is_empty(g, kernel) or 0 in shape:
        return tf.zeros(vector(sizes), g.dtype)
    g = not_empty(g)
    if len(window.strides) > 1:
        return _input_grad(g, kernel, sizes, window)
    sizes = (sizes[0], 1, *sizes[1:])
    return tf.squeeze(_input_grad(_lift(g, 1), _lift(kernel, 0), sizes, window.lifted), 1)


@TABLE.add("conv_kernel_grad", unless=_lacks_kernel)
def _conv_kernel_grad(x: Value, g: Value, *, kernel_shape: Ints, **given: Any) -> Value:
    """Gradient of a convolution by the kernel."""
    window = Window(kernel_shape, **given).named
    if _is_empty(x, g):
        return tf.zeros(ints(kernel_shape), x.dtype)
    g = not_empty(g)
    if len(window.strides) > 1:
        return _kernel_grad(x, g, window)
    return tf.squeeze(_kernel_grad(_lift(x, 1), _lift(g, 1), window.lifted), 0)


def _is_empty(x: Value, y: Value) -> bool:
    """Whether an operand is empty: kernels refuse that, or give a wrong shape."""
    return 0 in x.shape.as_list() or 0 in y.shape.as_list()


def _lift(x: Value, axis: int) -> Value:
    return raw.ExpandDims(input=x, axis=ints(axis))


# --- dilation ------------------------------------------------------------------------------------


def _serves(x: Value, window: Window) -> bool:
    """Whether the kernels for all three functions take the window as it is. Those of oneDNN know
    dilation, and TensorFlow puts them into graphs only.
    """
    if not window.dilated:
        return True
    plain = window.groups == 1 and len(window.strides) == 2 and max(window.strides) == 1
    fits = plain and x.dtype == tf.float32 and in_own_program() and not accelerated()
    return fits and _knows_dilation()


@cache
def _knows_dilation() -> bool:
    """Whether the gradients by the kernel know dilation; without oneDNN they refuse it."""
    with tf.init_scope():
        x, g = tf.zeros((1, 1, 3, 1)), tf.zeros((1, 1, 1, 1))
        options = Window((1, 2, 1, 1), 1, (1, 1), "valid", (1, 2)).options
        tried = tf.function(
            lambda: raw.Conv2DBackpropFilter(
                input=x, filter_sizes=ints((1, 2, 1, 1)), out_backprop=g, **options
            ),
            autograph=False,
        )
        try:
            tried()
        except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError):
            return False
    return True


def _conv(x: Value, kernel: Value, window: Window) -> Value:
    if _serves(x, window):
        return _grouped_conv(x, kernel, window)
    if max(window.strides) > 1:
        return _grouped_conv(x, _inflate(kernel, window), window.inflated)
    batch, *spatial, _ = sizes = sizes_of(x)
    blocks = _Blocks(window, sizes)
    y = _grouped_conv(blocks.split(x, blocks.around), kernel, blocks.window)
    outer = [w.count(n, larger) for w, n in zip(window.axes, spatial, strict=True)]
    return blocks.join(y, blocks.behind, (batch, *outer, kernel.shape[-1]))


def _input_grad(g: Value, kernel: Value, sizes: Sizes, window: Window) -> Value:
    if _serves(g, window):
        return _grouped_input_grad(g, kernel, sizes, window)
    if max(window.strides) > 1:
        return _grouped_input_grad(g, _inflate(kernel, window), sizes, window.inflated)
    blocks = _Blocks(window, sizes)
    gs = blocks.split(g, blocks.behind)
    y = _grouped_input_grad(gs, kernel, blocks.input_sizes(gs), blocks.window)
    return blocks.join(y, blocks.around, sizes)


def _kernel_grad(x: Value, g: Value, window: Window) -> Value:
    if _serves(x, window):
        return _grouped_kernel_grad(x, g, window)
    if max(window.strides) > 1:
        y = _grouped_kernel_grad(x, g, window.inflated)
        return y[tuple([slice(None, None, d) for d in window.dilation])]
    blocks = _Blocks(window, sizes_of(x))
    xs, gs = blocks.split(x, blocks.around), blocks.split(g, blocks.behind)
    return _grouped_kernel_grad(xs, gs, blocks.window)


def _inflate(kernel: Value, window: Window) -> Value:
    """The kernel with zeros between its elements."""
    shape, steps = window.inflated.kernel, (*window.dilation, 1, 1)
    begin, end = ints((0,) * len(shape)), ints(shape)
    return raw.StridedSliceGrad(shape=end, begin=begin, end=end, strides=ints(steps), dy=kernel)


class _Blocks:
    """A dilated convolution of stride 1 as a plain one: the d interleaved parts of the image, which
    never meet under the kernel, become d images of the batch.

    Attributes:
        around: What is added to the input, before and after: padding, and what completes the image
            to a multiple of the dilation.
        behind: What is added to the output.
    """

    def __init__(self, window: Window, sizes: Sizes) -> None:
        self.dilation = window.dilation
        self.window = window.plain._replace(padding="valid")
        self.channels = sizes[-1]
        self.around, self.behind = [], []
        for w, n in zip(window.axes, sizes[1:-1], strict=True):
            before, after = w.ends(n, larger)
            rest = -(n + before + after) % w.dilation
            self.around.append((before, after + rest))
            self.behind.append((0, rest))

    def split(self, x: Value, paddings: Sequence[tuple[Value, Value]]) -> Value:
        return raw.SpaceToBatchND(
            input=x, block_shape=ints(self.dilation), paddings=table(paddings)
        )

    def join(self, x: Value, crops: Sequence[tuple[Value, Value]], sizes: Sizes) -> Value:
        """The inverse of `split`. `sizes` are those of the result: TensorFlow's optimizer takes all
        axes of unknown size for equally long, and would not squeeze the one of size 1 any more.
        """
        y = raw.BatchToSpaceND(input=x, block_shape=ints(self.dilation), crops=table(crops))
        return tf.reshape(y, vector(sizes))

    def input_sizes(self, gs: Value) -> Sizes:
        """Sizes of the blocks of the input that belong to blocks of the output."""
        batch, *outer, _ = sizes_of(gs)
        inner = (n + k - 1 for n, k in zip(outer, self.window.kernel[:-2], strict=True))
        return (batch, *inner, self.channels)


# --- groups --------------------------------------------------------------------------------------


def _grouped_conv(x: Value, kernel: Value, window: Window) -> Value:
    if window.groups == 1:
        return _conv_kernel(x, kernel, window)
    if shape := window.depthwise:
        filters = tf.reshape(kernel, shape)
        return raw.DepthwiseConv2dNative(input=x, filter=filters, **window.options)
    if len(window.strides) == 2:
        return _grouped_conv2d(x, kernel, window)
    return _each_group(lambda x, kernel: _conv_kernel(x, kernel, window), x, kernel, window)


def _each_group(
    function: Callable[[Value, Value], Value], a: Value, b: Value, window: Window
) -> Value:
    """One after the other. What a group reads and writes is a part of the last axis of each."""
    parts = zip(tf.split(a, window.groups, -1), tf.split(b, window.groups, -1), strict=True)
    return tf.concat([function(x, y) for x, y in parts], -1)


def _grouped_conv2d(x: Value, kernel: Value, window: Window) -> Value:
    """The kernel for two dimensions knows groups; its gradients do not."""

    @tf.custom_gradient
    def convolve(x: Value, kernel: Value) -> Any:
        def gradient(g: Value) -> tuple[Value, Value]:
            gx = _grouped_input_grad(g, kernel, sizes_of(x), window)
            return gx, _grouped_kernel_grad(x, g, window)

        return _conv_kernel(x, kernel, window), gradient

    return convolve(x, kernel)


def _grouped_input_grad(g: Value, kernel: Value, sizes: Sizes, window: Window) -> Value:
    if window.groups == 1:
        return _input_kernel(g, kernel, sizes, window)
    if shape := window.depthwise:
        filters, total = tf.reshape(kernel, shape), vector(sizes)
        return raw.DepthwiseConv2dNativeBackpropInput(
            input_sizes=total, filter=filters, out_backprop=g, **window.options
        )
    part = (*sizes[:-1], sizes[-1] // window.groups)
    return _each_group(lambda g, kernel: _input_kernel(g, kernel, part, window), g, kernel, window)


def _grouped_kernel_grad(x: Value, g: Value, window: Window) -> Value:
    if window.groups == 1:
        return _kernel_kernel(x, g, window)
    if shape := window.depthwise:
        filters = raw.DepthwiseConv2dNativeBackpropFilter(
            input=x, filter_sizes=ints(shape), out_backprop=g, **window.options
        )
        return tf.reshape(filters, window.kernel)
    part = window._replace(kernel=(*window.kernel[:-1], window.kernel[-1] // window.groups))
    return _each_group(lambda x, g: _kernel_kernel(x, g, part), x, g, window)


# --- one kernel call -----------------------------------------------------------------------------


def _conv_kernel(x: Value, kernel: Value, window: Window) -> Value:
    function = raw.Conv2D if len(window.strides) == 2 else raw.Conv3D
    size = x.shape[-2]
    count = None if size is None else window.axes[-1].count(size, larger)
    return _called(function, window, count, input=x, filter=kernel)


LEAST_PADDED = {"conv_input_grad": 24_576, "conv_kernel_grad": 8_192}
"""Elements of a kernel from which on the border of an image is made or cut off by itself, because
oneDNN computes the gradients only without one. By the kernel, 3×3×64×64 with strides takes 0.82 of
the time and 7×7×3×64 0.47, but 3×3×8×32 1.08; by the image, 3×3×64×64 takes 0.84, 7×7×16×32 0.58,
but 3×3×32×64 1.1 and 7×7×3×64 1.8. A dilated kernel is always treated so, because without oneDNN
there is no kernel for it."""


def _border(dtype: Any, window: Window, gradient: str) -> Sequence[tuple[int, int]] | None:
    """The paddings along all axes of the image, if they are better made by themselves."""
    if isinstance(window.padding, str) or len(window.strides) != 2:
        return None
    large = math.prod(window.kernel) >= LEAST_PADDED[gradient]
    if not window.dilated and not (large and dtype == tf.float32 and not accelerated()):
        return None
    return ((0, 0), *window.padding, (0, 0))


def _input_kernel(g: Value, kernel: Value, sizes: Sizes, window: Window) -> Value:
    if border := _border(g.dtype, window, "conv_input_grad"):
        whole = [n + a + b for n, (a, b) in zip(sizes, border, strict=True)]
        y = _input_kernel(g, kernel, tuple(whole), window._replace(padding="valid"))
        return raw.Slice(input=y, begin=ints(tuple([a for a, _ in border])), size=vector(sizes))
    two = len(window.strides) == 2
    function = raw.Conv2DBackpropInput if two else raw.Conv3DBackpropInputV2
    given = {"filter": kernel, "out_backprop": g, "input_sizes": vector(sizes)}
    return _called(function, window, g.shape[-2], **given)


def _kernel_kernel(x: Value, g: Value, window: Window) -> Value:
    if border := _border(x.dtype, window, "conv_kernel_grad"):
        x, window = raw.Pad(input=x, paddings=table(border)), window._replace(padding="valid")
    two = len(window.strides) == 2
    function = raw.Conv2DBackpropFilter if two else raw.Conv3DBackpropFilterV2
    given = {"input": x, "out_backprop": g, "filter_sizes": ints(window.kernel)}
    return _called(function, window, g.shape[-2], **given)


def _called(
    function: Callable[..., Value], window: Window, count: int | None, **given: Value
) -> Value:
    """The result of a kernel that slides `count` windows along the last axis, None if unknown.

    If there is one, and the stride is larger, oneDNN's kernels for 16-bit floats may give wrong
    numbers, on processors with AMX (TensorFlow 2.21). So these are computed in float32.
    """
    dtype = next(iter(given.values())).dtype
    if dtype.size != 2 or count not in (1, None) or window.strides[-1] == 1:
        return function(**given, **window.options)
    wide = {k: tf.cast(x, tf.float32) if x.dtype == dtype else x for k, x in given.items()}
    return tf.cast(function(**wide, **window.options), dtype)
