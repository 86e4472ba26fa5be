"""The weights of a network: made when a layer first asks for them, found again afterwards."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np


class Weights:
    """Weights by name. A name is the scope and a number that counts the weights in it, so a scope
    that is entered again finds the same weights: that is how layers share them.
    """

    def __init__(self, *, training: bool = True) -> None:
        self.training = training
        self.values: dict[str, Any] = {}
        self.initial: dict[str, np.ndarray] = {}
        self.states: set[str] = set()
        """The names of what no gradient trains: moving averages."""
        self._known: dict[str, Any] = {}
        self._prefix, self._count = "", 0

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Context manager: weights of layers inside belong to `name`."""
        outer = self._prefix, self._count
        self._prefix, self._count = f"{self._prefix}{name}/", 0
        try:
            yield
        finally:
            self._prefix, self._count = outer

    def begin(self) -> None:
        """Call the layers once more, with the weights that they have."""
        self._prefix, self._count = "", 0

    def trained(self, scope: str = "") -> list[str]:
        """The names of the weights in a scope that are trained."""
        return [n for n in self.values if n.startswith(scope) and n not in self.states]

    def make(self, value: np.ndarray, role: str) -> Any:
        """A weight of the library, in the layout that it prefers, from its initial value."""
        raise NotImplementedError

    def known(self, name: str, make: Callable[[], Any]) -> Any:
        """What `make` gives, made once."""
        if name not in self._known:
            self._known[name] = make()
        return self._known[name]

    def weight(self, shape: Sequence[int], role: str = "kernel", spread: float = 0) -> Any:
        """A matrix or kernel with normal values, by default of He's variance."""
        if role == "transposed":
            fan_in = int(np.prod(shape[:2])) * shape[3] // 4
        else:
            fan_in = int(np.prod(shape[:-1])) if shape[-1] > 1 else int(np.prod(shape[:2]))
        return self._weight(shape, role, spread or (2 / max(fan_in, 1)) ** 0.5, 0.0)

    def vector(self, size: int, value: float = 0.0) -> Any:
        """A vector of equal values: a bias, a scale, a shift."""
        return self._weight((size,), "vector", 0.0, value)

    def state(self, size: int, value: float) -> tuple[str, Any]:
        """A vector that is not trained, and its name."""
        return self._name(), self._weight((size,), "state", 0.0, value)

    def _name(self) -> str:
        return f"{self._prefix}{self._count}"

    def _weight(self, shape: Sequence[int], role: str, spread: float, value: float) -> Any:
        name = self._name()
        self._count += 1
        if name not in self.values:
            rng = np.random.default_rng(zlib.crc32(name.encode()))
            noise = rng.standard_normal(shape, "float32") * np.float32(spread) if spread else 0
            self.initial[name] = np.full(shape, value, "float32") + noise
            self.values[name] = self.make(self.initial[name], role)
            if role == "state":
                self.states.add(name)
        return self.values[name]
