"""Convolution over any number of spatial axes: what all functions of the chapter share."""

from __future__ import annotations

from collections.abc import Sequence

from backplane.backend import _spatial_arguments as spatial
from backplane.backend._args import as_entries, entries_of
from backplane.backend.types import Shape, Sizes, TensorLike
from backplane.core.graph import Tensor
from backplane.core.windows import Padding, Window, windows
from backplane.ops.convolution import conv, conv_input_grad
from backplane.ops.creation import shaped, size_at
from backplane.ops.lift import promoted
from backplane.ops.shaping import reshape
from backplane.ops.windows import fitting


class Convolution:
    """The arguments that all convolutions share, checked, and the four kinds of convolution."""

    def __init__(
        self,
        count: int,
        strides: Sizes,
        padding: str,
        data_format: str | None,
        dilation_rate: Sizes,
        *more: str,
    ) -> None:
        """For `count` spatial axes. `more` names paddings besides `"valid"` and `"same"`."""
        self.rank = count + 2
        self.channels_first = spatial.is_first(data_format)
        self.padding = spatial.as_padding(padding, *more)
        self.strides = spatial.as_steps("strides", strides, count)
        self.dilation = spatial.as_steps("dilation_rate", dilation_rate, count)
        self.steps = {"strides": self.strides, "dilation": self.dilation}

    def dense(self, x: TensorLike, kernel: TensorLike, groups: int = 1) -> Tensor:
        """Every filter sees all channels of its group."""
        x, kernel = self._operands(x, kernel)
        return spatial.from_last(self._convolve(x, kernel, groups), self.channels_first)

    def depthwise(self, x: TensorLike, kernel: TensorLike) -> Tensor:
        """Each channel has filters of its own."""
        x, kernel = self._operands(x, kernel)
        return spatial.from_last(self._convolve_depthwise(x, kernel), self.channels_first)

    def separable(
        self, x: TensorLike, depthwise_kernel: TensorLike, pointwise_kernel: TensorLike
    ) -> Tensor:
        """Each channel has filters of its own, and their results are mixed at each place."""
        x, depthwise, pointwise = self._operands(x, depthwise_kernel, pointwise_kernel)
        *window, channels, multiplier = spatial.known_shape(
            "depthwise_kernel", depthwise, self.rank
        )
        shape = spatial.known_shape("pointwise_kernel", pointwise, self.rank)
        wanted = (*[1] * len(window), channels * multiplier)
        if shape[:-1] != wanted:
            raise ValueError(
                f"pointwise_kernel must have the shape {(*wanted, 'filters')} for a "
                f"depthwise_kernel of shape {depthwise.spec.shape}, got {shape}"
            )
        mixture = Convolution(len(window), 1, "valid", None, 1)
        y = mixture._convolve(self._convolve_depthwise(x, depthwise), pointwise)
        return spatial.from_last(y, self.channels_first)

    def transposed(self, x: TensorLike, kernel: TensorLike, output_shape: Shape) -> Tensor:
        """The gradient of a convolution whose input has `output_shape`, as a function."""
        x, kernel = self._operands(x, kernel)
        *window, outputs, channels = spatial.known_shape("kernel", kernel, self.rank)
        if x.spec.shape[-1] not in (channels, None):
            raise ValueError(
                f"x has {x.spec.shape[-1]} channels, the kernel {kernel.spec.shape} is for "
                f"{channels} (kernels of transposed convolutions end in output channels, input "
                "channels)"
            )
        sizes = self._output_sizes(x, window, outputs, output_shape)
        y = shaped(conv_input_grad, sizes, x, kernel, groups=1, padding=self.padding, **self.steps)
        return spatial.from_last(y, self.channels_first)

    def _operands(self, x: TensorLike, *kernels: TensorLike) -> list[Tensor]:
        """`x`, channels last, and the kernels, all of one dtype."""
        x, *given = promoted(x, *kernels)
        spatial.check_rank("x", x, self.rank)
        return [spatial.to_last(x, self.channels_first), *given]

    def _convolve(self, x: Tensor, kernel: Tensor, groups: int = 1) -> Tensor:
        window = spatial.known_shape("kernel", kernel, self.rank)[:-2]
        padding: Padding = self.padding
        if padding == "causal":
            before = [Window(k, 1, d).span - 1 for k, d in zip(window, self.dilation, strict=True)]
            padding = tuple((n, 0) for n in before)
        x = fitting(x, window, self.dilation, padding)
        return conv(x, kernel, groups=groups, padding=padding, **self.steps)

    def _convolve_depthwise(self, x: Tensor, kernel: Tensor) -> Tensor:
        """One group per channel, by a kernel (*window, channels, multiplier)."""
        *window, channels, multiplier = spatial.known_shape("depthwise_kernel", kernel, self.rank)
        if x.spec.shape[-1] not in (channels, None):
            raise ValueError(
                f"x has {x.spec.shape[-1]} channels, depthwise_kernel of shape "
                f"{kernel.spec.shape} is for {channels}"
            )
        grouped = reshape(kernel, shape=(*window, 1, channels * multiplier))
        return self._convolve(x, grouped, groups=channels)

    def _output_sizes(
        self, x: Tensor, window: Sequence[int], outputs: int, given: Shape
    ) -> list[int | Tensor]:
        """The sizes that `output_shape` asks for, channels last.

        The batch size is that of `x`, and the number of channels is `outputs`, which the kernel
        fixes. If `output_shape` gives these two, they must agree.
        """
        listed = entries_of(given, "output_shape")
        if isinstance(listed, list | tuple):
            listed = [-1 if n is None else n for n in listed]
        sizes = as_entries(listed, "output_shape")
        if len(sizes) != self.rank:
            raise ValueError(f"output_shape must have {self.rank} entries, got {given!r}")
        if any(isinstance(n, int) and n < -1 for n in sizes):
            raise ValueError(f"output_shape must not be negative, got {given!r}")
        batch, *spatial, channels = (
            [sizes[0], *sizes[2:], sizes[1]] if self.channels_first else sizes
        )
        if isinstance(channels, int) and channels not in (-1, outputs):
            raise ValueError(
                f"output_shape {given!r} has {channels} channels, the kernel makes {outputs}"
            )
        own = x.spec.shape[0]
        if isinstance(batch, int) and batch != -1:
            if own not in (batch, None):
                raise ValueError(
                    f"output_shape {given!r} has a batch of {batch}, x has one of {own}"
                )
            own = batch
        laid = windows(window, self.strides, self.padding, self.dilation)
        wanted = [
            _size_before(x, axis, w, n)
            for axis, (w, n) in enumerate(zip(laid, spatial, strict=True), 1)
        ]
        return [size_at(x, 0) if own is None else own, *wanted, outputs]


def _size_before(x: Tensor, axis: int, window: Window, asked: int | Tensor) -> int | Tensor:
    """The size of an axis along which there are as many windows as `x` has elements.

    If the caller asks for no particular size (-1), it is the size that Keras' layers choose.
    """
    n = x.spec.shape[axis]
    if not isinstance(asked, int):
        return asked
    if asked == -1:
        beyond = 0 if window.padding == "same" else max(window.span - window.stride, 0)
        return size_at(x, axis) * window.stride + beyond
    if n is not None and window.count(asked) != n:
        low = (n - 1) * window.stride + (1 if window.padding == "same" else window.span)
        fits = f"{low} to {low + window.stride - 1}" if window.stride > 1 else f"{low}"
        raise ValueError(
            f"output_shape asks for {asked} elements along spatial axis {axis - 1}; the {n} of x "
            f"with stride {window.stride} and padding {window.padding!r} give {fits}"
        )
    return asked
