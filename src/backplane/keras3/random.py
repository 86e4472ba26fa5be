"""Keras' backend functions of the module `random`.

A seed is two words: those of an integer, or the state of a `SeedGenerator`. The samples are made of
portable random bits (`ops.random`), so they are the same on every engine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from keras.src.random.seed_generator import SeedGenerator as SeedGenerator
from keras.src.random.seed_generator import draw_seed
from keras.src.random.seed_generator import make_default_seed as make_default_seed

from backplane import config
from backplane.core.graph import Tensor, constant
from backplane.keras3.binomial import any_of, successes
from backplane.keras3.call import op
from backplane.keras3.operands import standard, tensor_of
from backplane.ops import control
from backplane.ops import elementwise as ew
from backplane.ops import shaping as sh
from backplane.ops.creation import Amount, dims_and_shape, numbers, scalar, shaped, sizes_of
from backplane.ops.indexing import gather
from backplane.ops.lift import cast_to
from backplane.ops.random import portable_normal, portable_uniform, random_bits
from backplane.ops.reduction import argmax, sort


def _key(seed: Tensor, draw: Any = 0) -> Tensor:
    """The key of a seed. Several samples of one function have different numbers `draw`."""
    last = sh.reshape(cast_to(tensor_of(draw), "uint32"), shape=(1,))
    words = cast_to(tensor_of(seed), "uint32")
    return sh.concat(words, last, constant(np.zeros(1), "uint32"), axis=0)


def _sizes(shape: Any) -> Sequence[Amount]:
    if isinstance(shape, Tensor):
        return [shape[i] for i in range(shape.spec.shape[0] or 0)]
    listed = shape if isinstance(shape, list | tuple) else [shape]
    return [cast_to(n, "int32") if isinstance(n, Tensor) else int(n) for n in listed]


def _uniform(key: Tensor, sizes: Sequence[Amount], dtype: str) -> Tensor:
    dims, shape = dims_and_shape(sizes)
    return portable_uniform(key, *dims, shape=shape, dtype=dtype)


def _normal(key: Tensor, sizes: Sequence[Amount], dtype: str) -> Tensor:
    dims, shape = dims_and_shape(sizes)
    return portable_normal(key, *dims, shape=shape, dtype=dtype)


def _open_uniform(key: Tensor, sizes: Sequence[Amount], dtype: str) -> Tensor:
    """Uniform samples from (0, 1)."""
    u = _uniform(key, sizes, "float64" if dtype == "float64" else "float32")
    half = 2.0**-54 if dtype == "float64" else 2.0**-25
    return ew.add(u, scalar(half, u.spec.dtype))


def _affine(x: Tensor, factor: Any, summand: Any) -> Tensor:
    """X · factor + summand, in the dtype of x."""
    dtype = x.spec.dtype
    return ew.add(ew.mul(x, tensor_of(factor, dtype)), tensor_of(summand, dtype))


def _float(dtype: Any) -> str:
    return standard(dtype or config.floatx())


# --- uniform and normal ---------------------------------------------------------------------------


def uniform(
    shape: Any, minval: Any = 0.0, maxval: Any = 1.0, dtype: Any = None, seed: Any = None
) -> Any:
    """Uniform samples from [minval, maxval)."""
    return _draw_uniform(draw_seed(seed), shape, minval, maxval, _float(dtype))


@op(static=("shape",))
def _draw_uniform(seed: Any, shape: Any, minval: Any, maxval: Any, dtype: str) -> Any:
    low, high = tensor_of(minval, dtype), tensor_of(maxval, dtype)
    return _affine(_uniform(_key(seed), _sizes(shape), dtype), ew.sub(high, low), low)


def normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = None, seed: Any = None
) -> Any:
    """Samples from a normal distribution."""
    return _draw_normal(draw_seed(seed), shape, mean, stddev, _float(dtype))


@op(static=("shape",))
def _draw_normal(seed: Any, shape: Any, mean: Any, stddev: Any, dtype: str) -> Any:
    return _affine(_normal(_key(seed), _sizes(shape), dtype), stddev, mean)


def truncated_normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = None, seed: Any = None
) -> Any:
    """Samples from a normal distribution within two standard deviations of the mean."""
    return _draw_truncated(draw_seed(seed), shape, mean, stddev, _float(dtype))


@op(static=("shape",))
def _draw_truncated(seed: Any, shape: Any, mean: Any, stddev: Any, dtype: str) -> Any:
    """The inverse of the distribution function, by the inverse error function."""
    work = "float64" if dtype == "float64" else "float32"
    edge = math.erf(2 / math.sqrt(2))
    u = _open_uniform(_key(seed), _sizes(shape), work)
    x = ew.mul(ew.erfinv(_affine(u, 2 * edge, -edge)), scalar(math.sqrt(2), work))
    limit = scalar(2.0, work)
    x = ew.minimum(ew.maximum(x, ew.neg(limit)), limit)
    return _affine(cast_to(x, dtype), stddev, mean)


# --- integers -------------------------------------------------------------------------------------


def randint(shape: Any, minval: Any, maxval: Any, dtype: Any = "int32", seed: Any = None) -> Any:
    """Uniform whole numbers from [minval, maxval)."""
    return _draw_randint(draw_seed(seed), shape, minval, maxval, standard(dtype))


@op(static=("shape",))
def _draw_randint(seed: Any, shape: Any, minval: Any, maxval: Any, dtype: str) -> Any:
    """32 random bits times the range, without its lower 32 bits (Lemire, 2019)."""
    low, high = (cast_to(tensor_of(x), "int64") for x in (minval, maxval))
    dims, known = dims_and_shape(_sizes(shape))
    bits = cast_to(random_bits(_key(seed), *dims, shape=known), "int64")
    scaled = ew.shift_right(ew.mul(bits, ew.sub(high, low)), scalar(32, "int64"))
    return cast_to(ew.add(scaled, low), dtype)


def categorical(logits: Any, num_samples: int, dtype: Any = "int32", seed: Any = None) -> Any:
    """Classes, drawn for each row of logits, `num_samples` of them."""
    return _draw_categorical(draw_seed(seed), logits, num_samples, standard(dtype))


@op(static=("num_samples",))
def _draw_categorical(seed: Any, logits: Any, num_samples: int, dtype: str) -> Any:
    """The largest logit after Gumbel noise was added (Gumbel, 1954)."""
    logits = tensor_of(logits)
    batch, classes = sizes_of(logits)
    u = _open_uniform(_key(seed), [batch, num_samples, classes], "float32")
    noise = ew.neg(ew.log(ew.neg(ew.log(u))))
    scores = ew.add(sh.expand_dims(cast_to(logits, "float32"), axes=(1,)), noise)
    return cast_to(argmax(scores, axis=2), dtype)


def shuffle(x: Any, axis: int = 0, seed: Any = None) -> Any:
    """The elements in random order along an axis; each vector along it has an order of its own."""
    return _draw_shuffle(draw_seed(seed), x, axis)


@op(static=("axis",))
def _draw_shuffle(seed: Any, x: Any, axis: int) -> Any:
    x = tensor_of(x)
    if not x.ndim:
        return x
    last = x.ndim - 1
    perm = [i for i in range(x.ndim) if i != axis % x.ndim] + [axis % x.ndim]
    moved = sh.transpose(x, perm=tuple(perm))
    sizes = sizes_of(moved)
    _, order = sort(_uniform(_key(seed), sizes, "float32"))
    width = tensor_of(sizes[last], "int32")
    order = shaped(sh.reshape, [-1, sizes[last]], cast_to(order, "int32"))
    rows = tensor_of(sizes_of(order)[0], "int32")
    places = ew.add(order, sh.expand_dims(ew.mul(numbers(rows), width), axes=(1,)))
    flat = gather(sh.reshape(moved, shape=(-1,)), sh.reshape(places, shape=(-1,)), axis=0)
    mixed = shaped(sh.reshape, sizes, flat)
    return sh.transpose(mixed, perm=tuple([perm.index(i) for i in range(x.ndim)]))


# --- dropout --------------------------------------------------------------------------------------


def dropout(inputs: Any, rate: float, noise_shape: Any = None, seed: Any = None) -> Any:
    """The elements, of which a part `rate` is set to 0 and the others are scaled up."""
    if rate == 0.0:
        return inputs
    if rate == 1.0:
        return _zeros(inputs)
    return _draw_dropout(draw_seed(seed), inputs, rate, noise_shape)


@op
def _zeros(inputs: Any) -> Any:
    return sh.zeros_like(tensor_of(inputs))


@op(static=("noise_shape",))
def _draw_dropout(seed: Any, inputs: Any, rate: Any, noise_shape: Any) -> Any:
    x = tensor_of(inputs)
    sizes = sizes_of(x)
    if noise_shape is not None:
        sizes = [s if n is None else n for n, s in zip(noise_shape, sizes, strict=True)]
    u = _uniform(_key(seed), sizes, "float32")
    keep = ew.less_equal(tensor_of(rate, "float32"), u)
    share = ew.sub(scalar(1.0, x.spec.dtype), tensor_of(rate, x.spec.dtype))
    return ew.where(keep, ew.div(x, share), ew.zero(x))


# --- distributions that reject samples ------------------------------------------------------------


def gamma(shape: Any, alpha: Any, dtype: Any = None, seed: Any = None) -> Any:
    """Samples from the gamma distribution of shape parameter `alpha` and scale 1."""
    return _draw_gamma(draw_seed(seed), shape, alpha, _float(dtype))


@op(static=("shape",))
def _draw_gamma(seed: Any, shape: Any, alpha: Any, dtype: str) -> Any:
    return cast_to(_gamma(seed, _sizes(shape), tensor_of(alpha, "float32"), 0), dtype)


def _gamma(seed: Tensor, sizes: Sequence[Amount], alpha: Tensor, first: int) -> Tensor:
    """Samples are proposed until all are accepted (Marsaglia and Tsang, 2000). Below 1, `alpha` is
    raised by 1, and the sample multiplied by a power of a uniform one.
    """
    f32 = "float32"
    one = scalar(1.0, f32)
    small = ew.less(alpha, one)
    raised = ew.where(small, ew.add(alpha, one), alpha)
    d = ew.sub(raised, scalar(1 / 3, f32))
    c = ew.div(one, ew.sqrt(ew.mul(scalar(9.0, f32), d)))

    def waiting(count: Tensor, done: Tensor, found: Tensor) -> Tensor:
        return any_of(ew.logical_not(done))

    def propose(count: Tensor, done: Tensor, found: Tensor) -> list[Tensor]:
        x = _normal(_key(seed, ew.mul(count, scalar(2, "int32"))), sizes, f32)
        after = ew.add(ew.mul(count, scalar(2, "int32")), scalar(1, "int32"))
        u = _open_uniform(_key(seed, after), sizes, f32)
        root = ew.add(one, ew.mul(c, x))
        v = ew.mul(root, ew.mul(root, root))
        positive = ew.less(scalar(0.0, f32), root)
        safe = ew.where(positive, v, one)
        bound = ew.add(
            ew.mul(scalar(0.5, f32), ew.mul(x, x)),
            ew.mul(d, ew.add(ew.sub(one, safe), ew.log(safe))),
        )
        accepted = ew.logical_and(positive, ew.less(ew.log(u), bound))
        new = ew.where(ew.logical_and(accepted, ew.logical_not(done)), ew.mul(d, safe), found)
        return [ew.add(count, scalar(1, "int32")), ew.logical_or(done, accepted), new]

    start = _uniform(_key(seed), sizes, f32)
    nothing = ew.less(start, scalar(-1.0, f32))
    _, _, found = control.while_loop(
        waiting, propose, [scalar(1 + first, "int32"), nothing, sh.zeros_like(start)]
    )
    power = ew.pow(_open_uniform(_key(seed, first), sizes, f32), ew.div(one, alpha))
    return ew.mul(found, ew.where(small, power, one))


def beta(shape: Any, alpha: Any, beta: Any, dtype: Any = None, seed: Any = None) -> Any:
    """Samples from the beta distribution: the share of one gamma sample in the sum of two."""
    return _draw_beta(draw_seed(seed), shape, alpha, beta, _float(dtype))


@op(static=("shape",))
def _draw_beta(seed: Any, shape: Any, alpha: Any, beta: Any, dtype: str) -> Any:
    sizes = _sizes(shape)
    x = _gamma(seed, sizes, tensor_of(alpha, "float32"), 0)
    y = _gamma(seed, sizes, tensor_of(beta, "float32"), 1 << 20)
    return cast_to(ew.div(x, ew.add(x, y)), dtype)


def binomial(
    shape: Any, counts: Any, probabilities: Any, dtype: Any = None, seed: Any = None
) -> Any:
    """The number of `counts` trials that succeed."""
    return _draw_binomial(draw_seed(seed), shape, counts, probabilities, _float(dtype))


@op(static=("shape",))
def _draw_binomial(seed: Any, shape: Any, counts: Any, probabilities: Any, dtype: str) -> Any:
    sizes = _sizes(shape)

    def uniform(count: Tensor) -> Tensor:
        return _open_uniform(_key(seed, count), sizes, "float32")

    n, p = tensor_of(counts, "float32"), tensor_of(probabilities, "float32")
    return cast_to(successes(uniform, n, p), dtype)
