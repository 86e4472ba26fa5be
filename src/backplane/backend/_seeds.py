"""Seeds and keys of random tensors: those that the caller gives, or that are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from backplane.backend._args import as_int
from backplane.backend.types import Seed
from backplane.core import random_state as states
from backplane.core.graph import KeySource, Tensor
from backplane.core.spec import KEY
from backplane.engines import engine_of
from backplane.ops.lift import as_tensor
from backplane.ops.random import key_words


class Seeds:
    """The source of seeds for random tensors that were given none."""

    def __init__(self) -> None:
        self.generator: np.random.Generator | None = None
        self.portable = False


SEEDS = Seeds()


def key_of(seed: Seed) -> Tensor:
    """The key of one random tensor: a source that gives another one at each run, or the key that
    was given as the seed. TypeError for a tensor that is no key.
    """
    if not isinstance(seed, Tensor | np.ndarray) and engine_of(seed) is None:
        return key_source(seed)
    key = as_tensor(seed)
    dtype, shape = key.spec.dtype, key.spec.shape
    if (dtype == "uint32" and shape in ((2,), (4,))) or (dtype.startswith(KEY) and shape == ()):
        return key_words(key)
    raise TypeError(
        "seed must be an int or a random key (two or four words of uint32, or what "
        f"jax.random.key gives), got a tensor of dtype {dtype} and shape {tuple(shape)}"
    )


def key_source(seed: Any) -> KeySource:
    """A source of keys for one random tensor."""
    chosen = None if seed is None else as_int(seed, "seed")
    restored = states.arriving(chosen)
    if restored is not None:
        return restored
    if chosen is not None:
        return KeySource(chosen)
    if SEEDS.generator is not None:
        return KeySource(int(SEEDS.generator.integers(2**63)), drawn=True)
    # This is NumPy's global generator on purpose: in classic Keras too, `np.random.seed` fixes the
    # seeds.
    return KeySource(int(np.random.randint(10**6)), given=False, drawn=True)  # noqa: NPY002
