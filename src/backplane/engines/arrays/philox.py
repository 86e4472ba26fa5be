"""NumPy's counter-based generator, Philox, from a key of ours."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator, Philox
from numpy.random.bit_generator import ISeedSequence

from backplane.engines.base import Value


class _Key(ISeedSequence):
    """A key of ours as the key of Philox.

    `Philox(key=…)` asks the system for entropy that it does not need: 7 µs instead of 2.
    """

    def __init__(self, words: Value) -> None:
        low, high, counter, fold = words.tolist()
        self.state = np.array((low | high << 32, counter | fold << 32), np.uint64)

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Value:
        """The two words of 64 bits that Philox takes."""
        return self.state


def generator(key: Value) -> Generator:
    """The generator of `key`: (seed low, seed high, counter, fold)."""
    seed: Any = _Key(key)  # NumPy's stubs do not name the interface that its page does
    return Generator(Philox(seed))
