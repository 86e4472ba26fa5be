"""Random tensors and variables, dropout.

Every random tensor has a seed. If the caller gives none, it is drawn from the global seed
(`K.set_random_seed`), or else from NumPy's generator, as in classic Keras. Each run of a function
draws new samples. The seed alone decides the sequence of samples of a tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from backplane import config
from backplane.backend._args import as_dtype, as_flag, as_float, as_int, as_new_shape, entries_of
from backplane.backend._call import api, creates
from backplane.backend._errors import explained
from backplane.backend._seeds import SEEDS, key_of
from backplane.backend.creation import variable
from backplane.backend.types import DType, Seed, Shape, TensorLike
from backplane.core import random_state as states
from backplane.core.graph import Tensor, constant
from backplane.core.spec import is_float, promote
from backplane.core.variable import Variable
from backplane.ops import random
from backplane.ops.creation import size_at, sizes_of
from backplane.ops.elementwise import erfinv, floor, less_equal, where
from backplane.ops.lift import as_tensor, cast_to
from backplane.ops.random import portable_normal, portable_uniform

__all__ = [
    "dropout", "random_bernoulli", "random_binomial", "random_normal", "random_normal_variable",
    "random_state", "random_uniform", "random_uniform_variable", "set_random_seed",
    "set_random_state", "truncated_normal",
]  # fmt: skip


@explained
def set_random_seed(seed: int | None, portable: bool = False) -> None:
    """Fix the seeds of all random tensors that are made from now on without a seed of their own.

    An addition of Backplane: the documents of the Keras backend API do not have it.

    Args:
        seed: Whole number, 0 or more. None goes back to seeds from NumPy's generator.
        portable: Whether they use a counter-based generator instead of the engine's own. It gives
            the same uniform samples on every engine, bit for bit, and the same normal samples up to
            rounding.

    Example:
        >>> from backplane import backend as K
        >>> K.set_random_seed(1, portable=True)
        >>> a = K.eval(K.random_uniform((2,)))
        >>> K.set_random_seed(1, portable=True)
        >>> bool((a == K.eval(K.random_uniform((2,)))).all())
        True
        >>> K.set_random_seed(None)
    """
    is_portable = as_flag(portable, "K.set_random_seed: portable")
    states.forget_awaited()
    if seed is None:
        SEEDS.generator, SEEDS.portable = None, False
        return
    number = as_int(seed, "K.set_random_seed: seed")
    if number < 0:
        raise ValueError(f"K.set_random_seed: seed must be 0 or more, got {number}")
    SEEDS.generator = np.random.default_rng(number)
    SEEDS.portable = is_portable


@explained
def random_state() -> str:
    """The state of all random numbers, for programs that save their state by themselves.

    It holds the counter of each random tensor, so that its next samples are known, and where
    `K.set_random_seed` is in its sequence of seeds. `K.save_state` saves it, too. The generators of
    the program itself are no part of it (`numpy.random`, for example), nor are those of libraries.
    An addition of Backplane: the documents of the Keras backend API do not have it.

    Returns:
        A text of one line, which any file can hold.

    Example:
        >>> from backplane import backend as K
        >>> y = K.dropout(K.ones((100,)), 0.5, seed=1)
        >>> state = K.random_state()
        >>> a = K.eval(y)
        >>> K.set_random_state(state)
        >>> bool((a == K.eval(y)).all())
        True
    """
    import json  # Here, and below: K needs it for nothing else, and takes longer to start with it.

    generator = SEEDS.generator
    return json.dumps({
        "version": _VERSION,
        "process": states.identity(),
        "portable": SEEDS.portable,
        "seeds": None if generator is None else generator.bit_generator.state,
        "tensors": states.saved(),
    })  # fmt: skip


_VERSION = 1


@explained
def set_random_state(state: str) -> None:
    """Let all random numbers go on from a state that `K.random_state` has given.

    A process that goes on with the work of another one builds the same program: each random tensor
    is known by its seed, and by its place in the order in which those without a seed of their own
    were made. Random tensors that are made afterwards find their state, too.
    An addition of Backplane: the documents of the Keras backend API do not have it.

    Args:
        state: What `K.random_state` has returned, in this process or in another one.

    Raises:
        TypeError: if `state` is no text.
        ValueError: if it is not from `K.random_state`. Nothing has changed then.

    Example:
        >>> from backplane import backend as K
        >>> K.set_random_state(K.random_state())
    """
    import json

    text: Any = state
    if isinstance(text, np.ndarray) and text.ndim == 0:
        text = text.item()  # `np.load` gives texts so.
    if not isinstance(text, str | bytes):
        raise TypeError(
            "K.set_random_state: state must be the text that K.random_state has returned, got "
            f"{type(text).__name__}"
        )
    try:
        given = json.loads(text)
        version, portable, seeds = given["version"], given["portable"], given["seeds"]
        own = given["process"] == states.identity()
        entries = [states.Saved(*entry) for entry in given["tensors"]]
        generator = None if seeds is None else np.random.default_rng()
        if generator is not None:
            generator.bit_generator.state = seeds
        if version != _VERSION or not all(map(_is_entry, entries)):
            raise ValueError(f"it has version {version!r}")
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"K.set_random_state: state must be the text that K.random_state has returned: {error}"
        ) from None
    SEEDS.generator, SEEDS.portable = generator, bool(portable)
    states.restore(entries, own)


def _is_entry(entry: states.Saved) -> bool:
    numbers = entry.serial, entry.seed, entry.counter
    return all(type(n) is int for n in numbers) and entry.seed >= 0 <= entry.counter


Samplers = tuple[Callable[..., Tensor], Callable[..., Tensor]]
_UNIFORM: Samplers = (random.random_uniform, portable_uniform)
_NORMAL: Samplers = (random.random_normal, portable_normal)
"""An engine's own sampler, and the one that serves if samples are to be the same on all engines."""


def _sample(kind: Samplers, shape: Shape, dtype: str, seed: Seed, what: str = "shape") -> Tensor:
    """New samples. Errors call the shape `what`."""
    dims, sizes = as_new_shape(shape, what)
    return kind[SEEDS.portable](key_of(seed), *dims, shape=sizes, dtype=dtype)


def _float_dtype(dtype: DType | None) -> str:
    name = as_dtype(dtype)
    if not is_float(name):
        raise ValueError(f"dtype must be a float type, got {name!r}")
    return name


@creates
def random_normal(
    shape: Shape,
    mean: TensorLike = 0.0,
    stddev: TensorLike = 1.0,
    dtype: DType | None = None,
    seed: Seed = None,
) -> Tensor:
    """Samples of a normal distribution. Each evaluation draws new ones.

    Args:
        shape: Sizes: ints and scalar tensors, or `K.shape(x)`.
        mean: Mean: a number, or a tensor that broadcasts.
        stddev: Standard deviation; likewise.
        dtype: Float dtype; default `K.floatx()`.
        seed: Seed of this tensor, or a key (see `K.dropout`).

    Returns:
        A tensor.

    Example:
        >>> from backplane import backend as K
        >>> x = K.random_normal((1000,), mean=5.0, seed=1)
        >>> bool(4.8 < K.eval(x).mean() < 5.2)
        True
    """
    _check_deviation(stddev)
    return _sample(_NORMAL, shape, _float_dtype(dtype), seed) * stddev + mean


def _check_deviation(stddev: TensorLike) -> None:
    if isinstance(stddev, int | float) and stddev < 0:
        raise ValueError(f"stddev must be 0 or more, got {stddev}")


@creates
def random_uniform(
    shape: Shape,
    minval: float | Tensor = 0.0,
    maxval: float | Tensor = 1.0,
    dtype: DType | None = None,
    seed: Seed = None,
) -> Tensor:
    """Samples of a uniform distribution over [minval, maxval). Each evaluation draws new ones.

    Args:
        shape: Sizes: ints and scalar tensors, or `K.shape(x)`.
        minval: Lower bound, included.
        maxval: Upper bound, excluded.
        dtype: Name of the dtype; default `K.floatx()`. Integer types give whole numbers.
        seed: Seed of this tensor, or a key (see `K.dropout`).

    Returns:
        A tensor.

    Example:
        >>> from backplane import backend as K
        >>> x = K.eval(K.random_uniform((1000,), 2.0, 3.0, seed=1))
        >>> bool(2 <= x.min() and x.max() < 3)
        True
    """
    name = as_dtype(dtype)
    if is_float(name):
        sample = _sample(_UNIFORM, shape, name, seed)
        for bound in (minval, maxval):
            as_tensor(bound)  # Raises a TypeError for what is no number.
        return sample if (minval, maxval) == (0.0, 1.0) else sample * (maxval - minval) + minval
    low, high = as_int(minval, "minval"), as_int(maxval, "maxval")
    steps = floor(_sample(_UNIFORM, shape, "float64", seed) * float(high - low))
    return cast_to(steps, name) + low


@creates
def random_binomial(
    shape: Shape, p: TensorLike = 0.0, dtype: DType | None = None, seed: Seed = None
) -> Tensor:
    """Samples that are 1 with probability `p`, and 0 otherwise. Each evaluation draws new ones.

    Args:
        shape: Sizes: ints and scalar tensors, or `K.shape(x)`.
        p: Probability in [0, 1].
        dtype: Name of the dtype; default `K.floatx()`.
        seed: Seed of this tensor, or a key (see `K.dropout`).

    Example:
        >>> from backplane import backend as K
        >>> sorted(set(K.eval(K.random_binomial((100,), p=0.5, seed=1)).tolist()))
        [0.0, 1.0]
    """
    if isinstance(p, int | float) and not 0 <= p <= 1:
        raise ValueError(f"p must be in [0, 1], got {p}")
    sample = _sample(_UNIFORM, shape, "float32", seed)
    return cast_to(sample < p, as_dtype(dtype))


@creates
def random_bernoulli(
    shape: Shape, p: TensorLike = 0.0, dtype: DType | None = None, seed: Seed = None
) -> Tensor:
    """Samples that are 1 with probability `p`, and 0 otherwise: `K.random_binomial` under the name
    that it has in tf.keras, where its arguments are described.

    An addition of Backplane, from tf.keras: the documents of the Keras backend API do not have it.

    Example:
        >>> from backplane import backend as K
        >>> sorted(set(K.eval(K.random_bernoulli((100,), p=0.5, seed=1)).tolist()))
        [0.0, 1.0]
    """
    return random_binomial(shape, p, dtype, seed)


@creates
def truncated_normal(
    shape: Shape,
    mean: TensorLike = 0.0,
    stddev: TensorLike = 1.0,
    dtype: DType | None = None,
    seed: Seed = None,
) -> Tensor:
    """Samples of a normal distribution that lie within two standard deviations of the mean.

    The documents drop the other samples and draw again. Here the inverse of the distribution
    function is applied to uniform samples, which gives the same distribution.

    Args:
        shape: Sizes: ints and scalar tensors, or `K.shape(x)`.
        mean: Mean.
        stddev: Standard deviation before the cut.
        dtype: Float dtype; default `K.floatx()`.
        seed: Seed of this tensor, or a key (see `K.dropout`).

    Example:
        >>> from backplane import backend as K
        >>> x = K.eval(K.truncated_normal((1000,), seed=1))
        >>> bool(abs(x).max() <= 2)
        True
    """
    name = _float_dtype(dtype)
    _check_deviation(stddev)
    # float64 keeps the engines together in the tails, where erfinv is steep.
    u = _sample(_UNIFORM, shape, "float64", seed) * 2.0 - 1.0
    cut: Tensor = erfinv(u * _WITHIN_TWO) * _SQRT_TWO
    return cast_to(cut, name) * stddev + mean


_WITHIN_TWO = 0.9544997361036416
"""Probability that a normal sample lies within two deviations: erf(sqrt(2))."""
_SQRT_TWO = 1.4142135623730951


@explained
def random_uniform_variable(
    shape: Shape, low: float, high: float, dtype: DType | None = None, name: str | None = None,
    seed: Seed = None,
) -> Variable:  # fmt: skip
    """Instantiate a variable with samples of a uniform distribution.

    Args:
        shape: Tuple of ints.
        low: Lower bound.
        high: Upper bound.
        dtype: Name of the dtype; default `K.floatx()`.
        name: Name of the variable.
        seed: Seed.

    Example:
        >>> from backplane import backend as K
        >>> K.int_shape(K.random_uniform_variable((2, 3), 0, 1))
        (2, 3)
    """
    return variable(random_uniform(shape, low, high, dtype, seed), dtype, name)


@explained
def random_normal_variable(
    shape: Shape, mean: float, scale: float, dtype: DType | None = None, name: str | None = None,
    seed: Seed = None,
) -> Variable:  # fmt: skip
    """Instantiate a variable with samples of a normal distribution.

    Args:
        shape: Tuple of ints.
        mean: Mean.
        scale: Standard deviation.
        dtype: Name of the dtype; default `K.floatx()`.
        name: Name of the variable.
        seed: Seed.

    Example:
        >>> from backplane import backend as K
        >>> K.int_shape(K.random_normal_variable((2, 3), 0, 1))
        (2, 3)
    """
    return variable(random_normal(shape, mean, scale, dtype, seed), dtype, name)


@api
def dropout(
    x: TensorLike, level: TensorLike, noise_shape: Shape | None = None, seed: Seed = None
) -> Tensor:
    """Set entries to zero at random, and scale the others so that the expected sum stays the same.

    Args:
        x: Float tensor.
        level: Fraction of the entries to drop, in [0, 1).
        noise_shape: Shape of the flags that say which entries stay. It must broadcast to the shape
            of `x`. None stands for the size of `x` along that axis. Default: the shape of `x`.
        seed: Seed of the flags. Each run draws other ones. A tensor is a key instead: two or four
            words of uint32, or what `jax.random.key` gives. The same key gives the same flags.

    Returns:
        A tensor of the shape and dtype of `x`.

    Raises:
        ValueError: if `level` is not in [0, 1).

    Example:
        >>> from backplane import backend as K
        >>> y = K.eval(K.dropout(K.ones((1000,)), 0.5, seed=1))
        >>> sorted(set(y.tolist()))
        [0.0, 2.0]
    """
    x = as_tensor(x)
    if not isinstance(level, Tensor):
        level = as_float(level, "level")
        if not 0 <= level < 1:
            raise ValueError(f"level must be in [0, 1), got {level}")
        if level == 0:
            return x
    noise_shape = entries_of(noise_shape, "noise_shape")
    if noise_shape is None:
        noise_shape = sizes_of(x)
    elif isinstance(noise_shape, list | tuple):
        if len(noise_shape) != x.ndim and None in noise_shape:
            raise ValueError(f"noise_shape {noise_shape} must have {x.ndim} entries")
        noise_shape = [size_at(x, i) if n is None else n for i, n in enumerate(noise_shape)]
    # In half precision few samples would lie beside a small level.
    dtype = promote(x.spec.dtype if is_float(x.spec.dtype) else config.floatx(), "float32")
    sample = _sample(_UNIFORM, noise_shape, dtype, seed, "noise_shape")
    scaled: Tensor = x / (1.0 - level)
    zero = constant(0, scaled.spec.dtype)
    return where(less_equal(cast_to(as_tensor(level, dtype), dtype), sample), scaled, zero)
