"""The source of random tensors that layers of tf.keras hold, and the switch for its kind."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from backplane.backend._args import as_int
from backplane.backend._seeds import key_source
from backplane.backend.random import dropout, random_normal, random_uniform, truncated_normal
from backplane.backend.types import DType, Seed, Shape, TensorLike
from backplane.core.graph import Tensor
from backplane.core.tracebacks import boundary

__all__ = [
    "RandomGenerator", "disable_tf_random_generator", "enable_tf_random_generator",
    "is_tf_random_generator_enabled",
]  # fmt: skip

_stateful = [True]


def is_tf_random_generator_enabled() -> bool:
    """Whether a `K.RandomGenerator` without an `rng_type` is `"stateful"`, as it is at first.

    An addition of Backplane, from tf.keras: the documents of the Keras backend API do not have it.

    Example:
        >>> from backplane import backend as K
        >>> K.is_tf_random_generator_enabled()
        True
    """
    return _stateful[0]


def enable_tf_random_generator() -> None:
    """Let a `K.RandomGenerator` without an `rng_type` be `"stateful"`.

    An addition of Backplane, from tf.keras: the documents of the Keras backend API do not have it.

    Example:
        >>> from backplane import backend as K
        >>> K.enable_tf_random_generator()
    """
    _stateful[0] = True


def disable_tf_random_generator() -> None:
    """Let a `K.RandomGenerator` without an `rng_type` be `"legacy_stateful"`.

    An addition of Backplane, from tf.keras: the documents of the Keras backend API do not have it.

    Example:
        >>> from backplane import backend as K
        >>> K.disable_tf_random_generator()
        >>> K.is_tf_random_generator_enabled()
        False
        >>> K.enable_tf_random_generator()
    """
    _stateful[0] = False


class RandomGenerator:
    """A source of random tensors, as layers of tf.keras hold one.

    An addition of Backplane, from tf.keras: the documents of the Keras backend API do not have it.

    Args:
        seed: Whole number. None draws one, which `K.set_random_seed` decides.
        rng_type: `"stateful"`: each call gives other samples, in a sequence that the seed decides.
            `"legacy_stateful"`: likewise, with the seeds `seed`, `seed + 1`, …, or with those that
            `K.set_random_seed` decides. `"stateless"`: each call gives the same samples. By
            default `"stateful"`, unless `K.disable_tf_random_generator` was called.
        force_generator: Whether to be `"stateful"` whatever `rng_type` says.

    Raises:
        ValueError: for another `rng_type`.
        TypeError: if `seed` is no whole number.

    Example:
        >>> from backplane import backend as K
        >>> source = K.RandomGenerator(1, rng_type="stateless")
        >>> a, b = source.random_uniform((3,)), source.random_uniform((3,))
        >>> bool((K.eval(a) == K.eval(b)).all())
        True
    """

    RNG_STATELESS = "stateless"
    RNG_STATEFUL = "stateful"
    RNG_LEGACY_STATEFUL = "legacy_stateful"
    KINDS: ClassVar = (RNG_STATELESS, RNG_STATEFUL, RNG_LEGACY_STATEFUL)

    @boundary
    def __init__(
        self, seed: int | None = None, rng_type: str | None = None, force_generator: bool = False
    ) -> None:
        if rng_type is None:
            rng_type = self.RNG_STATEFUL if _stateful[0] else self.RNG_LEGACY_STATEFUL
        if rng_type not in self.KINDS:
            kinds = ", ".join(map(repr, self.KINDS))
            raise ValueError(
                f"K.RandomGenerator: rng_type must be one of {kinds}, or None. Got: {rng_type}"
            )
        self._rng_type = self.RNG_STATEFUL if force_generator else rng_type
        self._seed = None if seed is None else as_int(seed, "K.RandomGenerator: seed")
        self._generator: np.random.Generator | None = None
        self._built = False

    def _maybe_init(self) -> None:
        """Draw the seed, if there is none, when it is first needed."""
        if self._built:
            return
        self._built = True
        if self._rng_type == self.RNG_LEGACY_STATEFUL:
            return
        if self._seed is None:
            self._seed = int(key_source(None).seed)
        if self._rng_type == self.RNG_STATEFUL:
            self._generator = np.random.default_rng(self._seed % 2**64)

    def make_seed_for_stateless_op(self) -> np.ndarray | None:
        """A key for a random function of K: the same at each call if the generator is stateless,
        another one if it is stateful. None if it is legacy.
        """
        self._maybe_init()
        if self._rng_type == self.RNG_STATELESS:
            return self._key(None)
        if self._generator is not None:
            return self._generator.integers(2**32, size=2, dtype="uint32")
        return None

    def make_legacy_seed(self) -> int | None:
        """The seed, which is one higher at the next call; None if there is none."""
        if self._seed is None:
            return None
        self._seed += 1
        return self._seed - 1

    def _key(self, nonce: int | None) -> np.ndarray:
        """The key of a stateless generator, with `nonce` folded into it."""
        assert self._seed is not None
        words = [n % 2**64 for n in (self._seed, *([int(nonce)] if nonce else []))]
        return np.random.SeedSequence(words).generate_state(2)

    def _next(self, nonce: int | None) -> Seed:
        """The seed of the next random tensor."""
        self._maybe_init()
        if self._rng_type == self.RNG_STATELESS:
            return self._key(nonce)
        if self._generator is not None:
            return int(self._generator.integers(2**63))
        return self.make_legacy_seed()

    def random_normal(
        self,
        shape: Shape,
        mean: TensorLike = 0.0,
        stddev: TensorLike = 1.0,
        dtype: DType | None = None,
        nonce: int | None = None,
    ) -> Tensor:
        """Samples of a normal distribution; see `K.random_normal`.

        Args:
            shape: Sizes.
            mean: Mean.
            stddev: Standard deviation.
            dtype: Float dtype; default `K.floatx()`.
            nonce: Whole number. Stateless generators give other samples for another one.
        """
        return random_normal(shape, mean, stddev, dtype, self._next(nonce))

    def random_uniform(
        self,
        shape: Shape,
        minval: Any = 0.0,
        maxval: Any = None,
        dtype: DType | None = None,
        nonce: int | None = None,
    ) -> Tensor:
        """Samples of a uniform distribution; see `K.random_uniform`.

        Args:
            shape: Sizes.
            minval: Lower bound, included.
            maxval: Upper bound, excluded; default 1.
            dtype: Name of the dtype; default `K.floatx()`.
            nonce: Whole number. Stateless generators give other samples for another one.
        """
        high = 1.0 if maxval is None else maxval
        return random_uniform(shape, minval, high, dtype, self._next(nonce))

    def truncated_normal(
        self,
        shape: Shape,
        mean: TensorLike = 0.0,
        stddev: TensorLike = 1.0,
        dtype: DType | None = None,
        nonce: int | None = None,
    ) -> Tensor:
        """Samples of a normal distribution without its tails; see `K.truncated_normal`.

        Args:
            shape: Sizes.
            mean: Mean.
            stddev: Standard deviation before the cut.
            dtype: Float dtype; default `K.floatx()`.
            nonce: Whole number. Stateless generators give other samples for another one.
        """
        return truncated_normal(shape, mean, stddev, dtype, self._next(nonce))

    def dropout(
        self, inputs: TensorLike, rate: TensorLike, noise_shape: Shape | None = None
    ) -> Tensor:
        """Entries set to zero at random; see `K.dropout`.

        Args:
            inputs: Float tensor.
            rate: Fraction of the entries to drop, in [0, 1).
            noise_shape: Shape of the flags that say which entries stay.
        """
        return dropout(inputs, rate, noise_shape, self._next(None))
