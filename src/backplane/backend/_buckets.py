"""Functions whose feeds are padded to a few sizes: `f.in_buckets`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from backplane.compile.function import Function
from backplane.compile.plan import plan_of
from backplane.core.graph import Tensor
from backplane.core.sizes import origin
from backplane.core.spec import is_float
from backplane.core.traits import Axis

Sizes = int | Sequence[int]
"""The sizes of buckets, or a number whose multiples they are."""


class Bucketed:
    """The function that `f.in_buckets` returns; `values` makes a list of what is given."""

    def __init__(
        self,
        function: Function,
        values: Callable[[Any], Any],
        convert: Callable[[list[np.ndarray]], Any] | None,
        buckets: Sizes | Mapping[int, Sizes],
        check: bool,
    ) -> None:
        given = buckets if isinstance(buckets, Mapping) else {1: buckets}
        self.what = f"K.function {function.plan.name!r}: in_buckets"
        self.buckets = dict(self._checked(axis, sizes) for axis, sizes in given.items())
        self._function, self._values, self._convert = function, values, convert
        self.places = [
            (i, axis)
            for i, p in enumerate(function.plan.inputs)
            for axis in self.buckets
            if axis < p.spec.ndim and p.spec.shape[axis] is None
        ]
        """(input, axis) for each size that is padded."""
        if not self.places:
            axes = ", ".join(map(str, self.buckets))
            raise ValueError(f"{self.what}: no input has an unknown size at axis {axes}")
        if check and function.plan.keys:
            raise ValueError(
                f"{self.what}: results with and without padding cannot be compared, because the "
                "function draws random numbers; test it without them (dropout off), and then pass "
                "check=False"
            )
        self._unchecked = check
        self.pads = "static" in function.plan.engine.capabilities

    def _checked(self, axis: Any, sizes: Any) -> tuple[int, Sizes]:
        if not _is_whole(axis) or axis < 0:
            raise ValueError(
                f"{self.what}: an axis must be a whole number, 0 or more, got {axis!r}"
            )
        if _is_whole(sizes) and sizes > 0:
            return int(axis), int(sizes)
        listed = list(sizes) if isinstance(sizes, Iterable) else []
        if not listed or not all(_is_whole(n) and n > 0 for n in listed):
            raise ValueError(f"{self.what}: sizes must be whole numbers, 1 or more, got {sizes!r}")
        return int(axis), sorted(map(int, listed))

    def __call__(self, inputs: Any = ()) -> Any:
        """Call the function on padded values. ValueError if a size is larger than the largest
        bucket, or the result depends on what was added.
        """
        values = [*self._function.checked_count(self._values(inputs))]
        if not (self.pads or self._unchecked):
            return self._given(self._function(values))
        padded, lengths = self._padded(values)
        if self._unchecked and any(len_ != size for len_, size in lengths.values()):
            self._check(values, padded, lengths)
            self._unchecked = False
        if not self.pads:
            return self._given(self._function(values))
        return self._given(
            self._cropped(self._function.plan.outputs, self._function(padded), lengths)
        )

    def _given(self, outputs: list[np.ndarray]) -> Any:
        return outputs if self._convert is None else self._convert(outputs)

    def _padded(self, values: list[Any]) -> tuple[list[Any], Lengths]:
        """The values with zeros at their ends, and each size before and after."""
        padded, lengths = list(values), Lengths()
        for i, axis in self.places:
            array = np.asarray(padded[i])
            if array.ndim <= axis:
                continue  # The function itself refuses it.
            size = self._size(axis, array.shape[axis])
            lengths[i, axis] = array.shape[axis], size
            ends = [(0, size - array.shape[axis] if j == axis else 0) for j in range(array.ndim)]
            padded[i] = np.pad(array, ends)
        return padded, lengths

    def _size(self, axis: int, length: int) -> int:
        sizes = self.buckets[axis]
        if isinstance(sizes, int):
            return -(-length // sizes) * sizes
        position = bisect_left(sizes, length)
        if position == len(sizes):
            raise ValueError(
                f"{self.what}: the size {length} of axis {axis} is larger than the largest bucket, "
                f"{sizes[-1]}"
            )
        return sizes[position]

    def _cropped(
        self, outputs: Sequence[Any], results: Sequence[np.ndarray], lengths: Lengths
    ) -> list[np.ndarray]:
        """Results without what belongs to the padding: axes whose size is that of an input."""
        cropped = []
        for t, y in zip(outputs, results, strict=True):
            index = [slice(None)] * y.ndim
            for axis, n in enumerate(t.spec.shape):
                if n is None:
                    index[axis] = slice(self._fed_size(_sources(t, axis), lengths))
            cropped.append(y[tuple(index)])
        return cropped

    def _fed_size(self, sources: Collection[Axis], lengths: Lengths) -> int | None:
        """The size of an axis whose size comes from axes of inputs alone, before these were padded.
        Of sizes that differ, all but the largest are 1.
        """
        inputs = self._function.plan.inputs
        places = [(inputs.index(t), i) for t, i in sources if t in inputs]
        padded = [lengths[position][0] for position in places if position in lengths]
        return max(padded, default=None) if len(places) == len(sources) else None

    def _check(self, values: list[Any], padded: list[Any], lengths: Lengths) -> None:
        """Compare results with and without padding. Nothing is updated."""
        plan = self._function.plan
        results = [*plan.outputs, *plan.news]
        both = Function(plan_of(plan.inputs, results, engine=plan.engine, name=plan.name))
        wanted, cropped = both(values), self._cropped(results, both(padded), lengths)
        names = [f"output {i}" for i in range(len(plan.outputs))]
        names += [f"the new value of {v.name!r}" for v in plan.updated]
        for name, want, got in zip(names, wanted, cropped, strict=True):
            if want.shape != got.shape or not _is_close(want, got):
                raise ValueError(
                    f"{self.what}: {name} depends on the padding. Feed a mask that is padded with "
                    "zeros as well, and use it in K.rnn, in sums and in means"
                )


class Lengths(dict[tuple[int, int], tuple[int, int]]):
    """(input, axis) → the size before and after padding."""


def _is_whole(n: object) -> bool:
    return isinstance(n, int | np.integer) and not isinstance(n, bool)


def _sources(t: Tensor, axis: int) -> list[Axis]:
    """The axes that an unknown size is taken from: several if they are equal, or broadcast."""
    sources: list[Axis] = []
    waiting, seen = [origin(t, axis)], set[Axis]()
    while waiting:
        at = waiting.pop()
        if at not in seen:
            seen.add(at)
            op = at[0].op
            further = op.axes(*at) if op is not None and op.axes is not None else ()
            waiting += [origin(*source) for source in further]
            sources += [] if further else [at]
    return sources


NEAR = {"float16": 1e-2, "bfloat16": 1e-1}
"""The largest relative difference between results; 1e-3 for the other dtypes."""


def _is_close(want: np.ndarray, got: np.ndarray) -> bool:
    name = want.dtype.name
    if not is_float(name):
        return bool((want == got).all())
    near, want, got = NEAR.get(name, 1e-3), want.astype(np.float64), got.astype(np.float64)
    scale = float(np.abs(want[np.isfinite(want)]).max(initial=0.0))
    return bool(np.allclose(got, want, rtol=near, atol=0.1 * near * scale, equal_nan=True))
