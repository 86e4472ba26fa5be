"""What a conformance case says: one call of a K function, and what must be true of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

FLOATS = ("float32", "float64")


@dataclass(frozen=True)
class Arg:
    """A tensor argument: made anew from a fixed seed, floats in the dtype under test."""

    shape: tuple[int, ...]
    make: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
    dtype: str | None = None
    """None: the dtype under test, and the argument is differentiated."""

    def array(self, seed: int, dtype: str) -> np.ndarray:
        """The values in float64 first, so that they are the same numbers in every dtype."""
        values = np.asarray(self.make(np.random.default_rng(seed), self.shape))
        if self.dtype is None:
            # Rounded to float16's grid, so that no test depends on how inputs are rounded.
            values = (
                values.astype("float16").astype("float64") if values.dtype.kind == "f" else values
            )
        return values.astype(self.dtype or dtype)


def floats(*shape: int, low: float = -2.0, high: float = 2.0) -> Arg:
    """Floats in [low, high)."""
    return Arg(shape, lambda rng, s: rng.uniform(low, high, s))


def positive(*shape: int) -> Arg:
    """Floats in [0.25, 2)."""
    return floats(*shape, low=0.25, high=2.0)


def unit(*shape: int) -> Arg:
    """Floats inside (0, 1), away from the ends."""
    return floats(*shape, low=0.05, high=0.95)


def distinct(*shape: int) -> Arg:
    """Floats that all differ by at least 1/64 and are not 0: no ties, no kinks."""

    def make(rng: np.random.Generator, s: tuple[int, ...]) -> np.ndarray:
        n = int(np.prod(s))
        return (rng.permutation(n).reshape(s) - n // 2 + 0.5) / 32.0

    return Arg(shape, make)


def simplex(*shape: int) -> Arg:
    """Positive floats whose sum along the last axis is 1 (to float16's rounding)."""

    def make(rng: np.random.Generator, s: tuple[int, ...]) -> np.ndarray:
        x = rng.uniform(0.2, 1.0, s)
        return x / x.sum(-1, keepdims=True)

    return Arg(shape, make)


def ints(*shape: int, low: int = 0, high: int = 5, dtype: str = "int32") -> Arg:
    """Integers in [low, high)."""
    return Arg(shape, lambda rng, s: rng.integers(low, high, s), dtype)


def bools(*shape: int) -> Arg:
    """Booleans, both values present where there is room."""
    return Arg(
        shape, lambda rng, s: rng.permutation(np.arange(int(np.prod(s))) % 2).reshape(s), "bool"
    )


def values(array: Any, dtype: str | None = None) -> Arg:
    """Given values; floats take the dtype under test and are differentiated unless `dtype` is
    given.
    """
    fixed = np.asarray(array)
    if fixed.dtype.kind in "iu" and dtype is None:
        dtype = "int32"
    if fixed.dtype.kind == "b":
        dtype = "bool"
    return Arg(fixed.shape, lambda rng, s: fixed, dtype)


@dataclass(frozen=True, eq=False)
class Case:
    """One record; see `case` for the fields."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    oracle: Any
    fn: Callable[..., Any] | None
    id: str
    dtypes: tuple[str, ...]
    grad: bool | tuple[int, ...]
    smooth: bool
    kinks: tuple[tuple[Sequence[Any], Sequence[Any]], ...]
    errors: tuple[tuple[Sequence[Any], dict[str, Any], type[BaseException], str], ...]
    tolerance: dict[str, float]
    batch: bool | tuple[int, ...]
    eager: bool
    slow: bool
    needs: frozenset[str]

    def call(self, K: Any, *tensors: Any) -> Any:
        """The function on tensors that take the place of the `Arg`s, in order."""
        given = iter(tensors)
        arguments = [_placed(a, given) for a in self.args]
        function = self.fn if self.fn is not None else getattr(K, self.name)
        if self.fn is not None:
            return function(K, *arguments, **self.kwargs)
        return function(*arguments, **self.kwargs)

    def leaves(self) -> list[Arg]:
        """The tensor arguments in order, those in lists included."""
        return list(_leaves(self.args))

    def batched(self, position: int, arrays: Sequence[np.ndarray]) -> bool:
        """Whether the first axis of a tensor argument is the batch."""
        if isinstance(self.batch, tuple):
            return position in self.batch
        return bool(self.batch) and arrays[position].shape[:1] == arrays[0].shape[:1]

    def arrays(self, dtype: str) -> list[np.ndarray]:
        """Values for the tensor arguments."""
        seed = sum(map(ord, self.id))
        return [leaf.array(seed + i, dtype) for i, leaf in enumerate(self.leaves())]


def _placed(value: Any, given: Any) -> Any:
    if isinstance(value, Arg):
        return next(given)
    if isinstance(value, list | tuple):
        return type(value)([_placed(v, given) for v in value])
    return value


def _leaves(value: Any) -> Iterable[Arg]:
    if isinstance(value, Arg):
        yield value
    elif isinstance(value, list | tuple):
        for v in value:
            yield from _leaves(v)


CASES: list[Case] = []


def case(
    name: str,
    *args: Any,
    oracle: Any = None,
    fn: Callable[..., Any] | None = None,
    id: str | None = None,
    dtypes: Sequence[str] = FLOATS,
    grad: bool | tuple[int, ...] = True,
    smooth: bool = False,
    kinks: Sequence[tuple[Sequence[Any], Sequence[Any]]] = (),
    errors: Sequence[tuple[Sequence[Any], dict[str, Any], type[BaseException], str]] = (),
    tolerance: dict[str, float] | None = None,
    batch: bool | tuple[int, ...] = True,
    eager: bool = True,
    slow: bool = False,
    needs: Sequence[str] = (),
    **kwargs: Any,
) -> None:
    """Declare a case.

    Args:
        name: Name of the K function (what the generated page counts).
        *args: Arguments: `Arg`s, literals, lists of them.
        oracle: Function of the float64 arrays (and the other arguments and kwargs) giving the
            expected value, or the value; None: the NumPy engine in float64 is the reference.
        fn: Function `(K, *args, **kwargs)` to call instead of `K.name`.
        id: Suffix that tells cases of one name apart.
        dtypes: Float dtypes to run in; the first `Arg` without dtype takes them.
        grad: Whether to check gradients, or for which of the `Arg`s.
        smooth: Whether second derivatives exist around the values: they are checked too.
        kinks: Pairs (argument values, gradients of the sum) that are stated, not measured.
        errors: (args, kwargs, exception, message pattern): must fail so on every engine.
        tolerance: Relative tolerance by dtype where the default does not do; say why beside it.
        batch: Whether also to run with the batch size unknown: the first axis of the first `Arg`
            and of all that have as many elements there; or the positions of the `Arg`s that have
            one.
        eager: Whether native values may be passed (not where a size must be known from a value).
        slow: Whether only the full suite runs it.
        needs: Capabilities without which an engine must refuse it.
        **kwargs: Keyword arguments of the call.
    """
    label = name if id is None else f"{name}-{id}"
    if any(c.id == label for c in CASES):
        label = f"{label}-{sum(c.id.startswith(label) for c in CASES)}"
    CASES.append(
        Case(
            name, args, kwargs, oracle, fn, label, tuple(dtypes), grad, smooth, tuple(kinks),
            tuple(errors), tolerance or {}, batch, eager, slow, frozenset(needs),
        )
    )  # fmt: skip
