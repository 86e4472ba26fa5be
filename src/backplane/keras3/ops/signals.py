"""The functions of Keras' module `math` for signals: frames, windows and Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from backplane.core.graph import Tensor, constant
from backplane.core.spec import is_float
from backplane.keras3.call import op
from backplane.keras3.operands import alike, float_of, tensor_of
from backplane.keras3.ops.numpy import pad
from backplane.ops import elementwise as ew
from backplane.ops import fourier
from backplane.ops import shaping as sh
from backplane.ops.creation import Amount, arange, scalar, shaped, size_at
from backplane.ops.indexing import flip, gather, part, scatter_add
from backplane.ops.indexing import pad as zeros_around


@op
def extract_sequences(x: Any, sequence_length: int, sequence_stride: int) -> Tensor:
    """Parts of the last axis, each `sequence_stride` elements after the one before."""
    return _frames(tensor_of(x), sequence_length, sequence_stride)


def _frames(x: Tensor, length: int, stride: int) -> Tensor:
    size = size_at(x, x.ndim - 1)
    count: Amount
    if isinstance(size, int):
        count = max((size - length) // stride + 1, 0)
    else:
        starts = ew.floordiv(ew.sub(size, _whole(length)), _whole(stride))
        count = ew.maximum(ew.add(starts, _whole(1)), _whole(0))
    return gather(x, _places(count, length, stride), axis=x.ndim - 1)


def _whole(value: int) -> Tensor:
    return scalar(value, "int32")


def _places(count: Amount, length: int, stride: int) -> Tensor:
    """The positions of the elements of the frames."""
    if isinstance(count, int):
        return constant(np.arange(count)[:, None] * stride + np.arange(length), "int32")
    numbers = arange(_whole(0), count, _whole(1), dtype="int32")
    starts = sh.expand_dims(ew.mul(numbers, _whole(stride)), axes=(1,))
    return ew.add(starts, constant(np.arange(length), "int32"))


def _pair(x: Any) -> tuple[Tensor, Tensor]:
    if not isinstance(x, list | tuple) or len(x) != 2:
        raise ValueError(
            f"Input `x` should be a tuple of two tensors - real and imaginary.Received: x={x}"
        )
    re, im = map(tensor_of, x)
    if re.spec.shape != im.spec.shape:
        raise ValueError(
            "Input `x` should be a tuple of two tensors - real and imaginary."
            "Both the real and imaginary parts should have the same shape. "
            f"Received: x[0].shape = {re.spec.shape}, x[1].shape = {im.spec.shape}"
        )
    if not (is_float(re.spec.dtype) and is_float(im.spec.dtype)):
        raise ValueError(f"At least one tensor in input `x` is not of type float. Received: x={x}.")
    if re.spec.dtype != im.spec.dtype:
        re, im = alike(re, im)
    return re, im


def _get_complex_tensor_from_tuple(x: Any) -> NoReturn:
    """Keras asks for this in `keras.ops.polar` and the like."""
    raise TypeError(
        "complex tensors are not supported by the backend 'backplane'; keras.ops.fft and similar "
        "functions take and return pairs of real and imaginary parts"
    )


@op
def fft(x: Any) -> tuple[Tensor, Tensor]:
    """The Fourier transform along the last axis, of a pair of real and imaginary parts."""
    re, im = fourier.fft(*_pair(x))
    return re, im


@op
def fft2(x: Any) -> tuple[Tensor, Tensor]:
    """The Fourier transform along the last two axes."""
    return _in_two_axes(_pair(x), fourier.fft)


@op
def ifft2(x: Any) -> tuple[Tensor, Tensor]:
    """The inverse of `fft2`."""
    return _in_two_axes(_pair(x), fourier.inverse_fft)


def _in_two_axes(pair: Sequence[Tensor], transform: Any) -> tuple[Tensor, Tensor]:
    for _ in range(2):
        re, im = transform(*pair)
        n = re.ndim
        pair = [sh.transpose(t, perm=(*range(n - 2), n - 1, n - 2)) for t in (re, im)]
    return pair[0], pair[1]


def _resized(x: Tensor, size: int) -> Tensor:
    """The last axis, cut or filled up with zeros to a size."""
    have = x.spec.shape[-1]
    if have is None:
        raise ValueError(
            f"the size of the last axis must be known while a graph is built, got {x.spec.shape}"
        )
    if have >= size:
        return x if have == size else part(x, -1, None, size)
    return zeros_around(x, padding=(*[(0, 0)] * (x.ndim - 1), (0, size - have)), value=0)


@op(static=("fft_length",))
def rfft(x: Any, fft_length: int | None = None) -> tuple[Tensor, Tensor]:
    """The Fourier transform of reals along the last axis: its first half."""
    return _rfft(float_of(x), fft_length)


def _rfft(x: Tensor, length: int | None) -> tuple[Tensor, Tensor]:
    x = x if length is None else _resized(x, int(length))
    size = x.spec.shape[-1]
    if size is None:
        raise ValueError(
            "rfft: the size of the last axis must be known, or fft_length be given, got shape "
            f"{x.spec.shape}"
        )
    parts = fourier.fft(x, sh.zeros_like(x))
    re, im = [part(t, -1, None, size // 2 + 1) for t in parts]
    return re, im


@op(static=("fft_length",))
def irfft(x: Any, fft_length: int | None = None) -> Tensor:
    """The inverse of `rfft`: reals of the length `fft_length`, by default an even one."""
    return _irfft(*_pair(x), fft_length)


def _irfft(re: Tensor, im: Tensor, length: int | None) -> Tensor:
    have = re.spec.shape[-1]
    if length is None and have is None:
        raise ValueError(
            "irfft: the size of the last axis must be known, or fft_length be given, got shape "
            f"{re.spec.shape}"
        )
    n = 2 * ((have or 1) - 1) if length is None else int(length)
    re, im = [_resized(t, n // 2 + 1) for t in (re, im)]
    # The other half is that of conjugates, from the last one but that of a half turn backwards.
    others = constant(np.arange((n - 1) // 2, 0, -1), "int32")
    axis = re.ndim - 1
    rest = [gather(t, others, axis=axis) for t in (re, im)]
    whole = sh.concat(re, rest[0], axis=axis), sh.concat(im, ew.neg(rest[1]), axis=axis)
    return fourier.inverse_fft(*whole)[0]


def _window(window: Any, length: int, fft_length: int, dtype: str) -> Tensor | None:
    """A window in the middle of `fft_length` zeros."""
    if window is None:
        return None
    if isinstance(window, str):
        window = _named_window(window, length)
    found = tensor_of(window, dtype)
    if found.spec.shape != (length,):
        raise ValueError(
            "The shape of `window` must be equal to [sequence_length]."
            f"Received: window shape={found.spec.shape}"
        )
    before = (fft_length - length) // 2
    return pad(found, [(before, fft_length - length - before)])


def _named_window(name: str, length: int) -> np.ndarray:
    """A window that is repeated without a step: a raised cosine."""
    if name not in ("hann", "hamming"):
        raise ValueError(
            "If a string is passed to `window`, it must be one of "
            f'`"hann"`, `"hamming"`. Received: window={name}'
        )
    if length == 1:
        return np.ones(1)
    share = 0.5 if name == "hann" else 0.54
    return share - (1 - share) * np.cos(2 * np.pi * np.arange(length) / length)


def _reflected(x: Tensor, border: int) -> Tensor:
    """The last axis with its elements mirrored at both ends, which are not repeated."""
    axis = x.ndim - 1
    size = x.spec.shape[-1]
    if size is not None:
        places = np.pad(np.arange(size), border, mode="reflect")
        return gather(x, constant(places, "int32"), axis=axis)
    ends = [(1, border + 1), (-border - 1, -1)]
    before, after = [flip(part(x, axis, *pair), axes=(axis,)) for pair in ends]
    return sh.concat(before, x, after, axis=axis)


@op
def stft(
    x: Any,
    sequence_length: int,
    sequence_stride: int,
    fft_length: int,
    window: Any = "hann",
    center: bool = True,
) -> tuple[Tensor, Tensor]:
    """The Fourier transforms of parts of a signal, each multiplied by a window."""
    x = tensor_of(x)
    if x.spec.dtype not in ("float32", "float64"):
        raise TypeError(
            "Invalid input type. Expected `float32` or `float64`. "
            f"Received: input type={x.spec.dtype}"
        )
    if fft_length < sequence_length:
        raise ValueError(
            "`fft_length` must equal or larger than `sequence_length`. "
            f"Received: sequence_length={sequence_length}, fft_length={fft_length}"
        )
    shape = _window(window, sequence_length, fft_length, x.spec.dtype)
    if center:
        x = _reflected(x, fft_length // 2)
    frames = _frames(x, fft_length, sequence_stride)
    return _rfft(frames if shape is None else ew.mul(frames, shape), fft_length)


@op
def istft(
    x: Any,
    sequence_length: int,
    sequence_stride: int,
    fft_length: int,
    length: int | None = None,
    window: Any = "hann",
    center: bool = True,
) -> Tensor:
    """The inverse of `stft`: parts are added where they overlap, and divided by the windows that
    cover each place.
    """
    re, im = _pair(x)
    if re.ndim < 2:
        raise ValueError(
            f"Input `x` must have at least 2 dimensions. Received shape: {re.spec.shape}"
        )
    frames = _irfft(re, im, fft_length)
    count = size_at(re, re.ndim - 2)
    total: Amount
    if isinstance(count, int):
        total = fft_length + sequence_stride * (count - 1)
    else:
        steps = ew.mul(ew.sub(count, _whole(1)), _whole(sequence_stride))
        total = ew.add(steps, _whole(fft_length))
    places = _places(count, fft_length, sequence_stride)
    shape = _window(window, sequence_length, fft_length, re.spec.dtype)
    weights: Tensor = constant(np.ones(fft_length), re.spec.dtype)
    if shape is not None:
        weights, frames = ew.mul(shape, shape), ew.mul(frames, shape)
    sizes = [size_at(frames, i) for i in range(frames.ndim - 2)]
    signal = shaped(scatter_add, [*sizes, total], frames, places, axis=frames.ndim - 2)
    repeated = shaped(sh.broadcast_to, [count, fft_length], weights)
    covered = shaped(scatter_add, [total], repeated, places, axis=0)
    thin = ew.less_equal(covered, scalar(1e-10, covered.spec.dtype))
    signal = ew.div(signal, ew.where(thin, ew.one(covered), covered))
    if shape is None:
        signal = ew.mul(signal, scalar(fft_length / sequence_stride, signal.spec.dtype))
    start = fft_length // 2 if center else 0
    stop = start + length if length is not None else -start or None
    return part(signal, -1, start, stop)
