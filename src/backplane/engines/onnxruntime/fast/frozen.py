"""Programs whose variables stay the same, as sessions in which they are constants.

ONNX Runtime lays constant weights out once for its kernels, folds normalizations into convolutions,
and runs convolutions in blocks of channels. So a function without updates that finds the same
values at some calls makes a second session. Results may differ by the rounding.

Arrays of variables are replaced. A step that writes to rows of a table replaces the array too, by
another one over the same memory (`updates.py`), and whoever reads meanwhile runs again. So the
values of a call are those of the session if they are the same objects, and a call never meets the
weights of another moment, whoever sets them meanwhile. The session reads the arrays and does not
hold them. So what training replaces is freed at once, and the session at the next call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from operator import itemgetter
from weakref import ref

import numpy as np

from backplane.core.spec import Spec
from backplane.engines.onnxruntime.library import bindings
from backplane.engines.programs import Program
from backplane.engines.table import Value, element_count

Call = Callable[..., tuple[Value, ...]]
Build = Callable[[Mapping[int, np.ndarray]], Call | None]
"""From the inputs that are constants, by their positions, to a function of the others. None if
there is nothing to gain.
"""

FAILURES = (bindings.Fail, bindings.InvalidArgument, bindings.RuntimeException)

CALLS = 16
"""Calls with the same values before the first session is made: that takes as long as some of them.
"""
MOST_CALLS = 1024
"""Each further session waits twice as long as the one before, up to so many calls."""
LARGE = 1 << 26
"""Bytes from which on an array stays an input: tables are not laid out anew."""
MOST_BYTES = 1 << 30
"""Bytes of all constants up to which there is a second session."""


class _Values:
    """The values that the last call had, by identity."""

    def __init__(self, ids: tuple[int, ...], arrays: Sequence[np.ndarray]) -> None:
        self.ids = ids
        self.gone: list[ref[np.ndarray]] = []
        """The references to arrays that do not exist any more. Others may have their identity now.
        `append` runs no Python, which could otherwise run between the writes of an update.
        """
        self.refs = [ref(array, self.gone.append) for array in arrays]
        self.calls = count()
        self.call: Call | None = None


class Settling:
    """A program that one function calls. Threads may call it at once: the values of the last call
    are one object, which is replaced as a whole, and one thread alone counts up to the limit.
    """

    def __init__(self, run: Call, build: Build, positions: Sequence[int], inputs: int) -> None:
        self.run, self.build, self.positions = run, build, positions
        self.others = sorted({*range(inputs)} - {*positions})
        self.lasting = itemgetter(*positions, positions[0])  # two at least, so it gives a tuple
        self.patience = CALLS
        self.values: _Values | None = None

    def __call__(self, *inputs: Value) -> tuple[Value, ...]:
        """Run the program."""
        ids = tuple(map(id, self.lasting(inputs)))
        values = self.values
        if values is None or values.ids != ids or values.gone:
            self._begin(ids, inputs)
        elif (call := values.call) is not None:
            return self._frozen(values, call, inputs)
        elif next(values.calls) == self.patience:
            self._freeze(values, inputs)
        return self.run(*inputs)

    def _begin(self, ids: tuple[int, ...], inputs: Sequence[Value]) -> None:
        """Count the calls with new values."""
        arrays = [inputs[i] for i in self.positions]
        are_arrays = all(type(x) is np.ndarray for x in arrays)
        self.values = _Values(ids, arrays) if are_arrays else None

    def _freeze(self, values: _Values, inputs: Sequence[Value]) -> None:
        """Make the session for these values."""
        self.patience = min(2 * self.patience, MOST_CALLS)
        try:
            values.call = self.build({i: inputs[i] for i in self.positions})
        except FAILURES:
            # Some constants are known too early: where they give a size that does not fit, ONNX
            # Runtime refuses the model, and not the call.
            values.call = None

    def _frozen(self, values: _Values, call: Call, inputs: Sequence[Value]) -> tuple[Value, ...]:
        """Run the session. What it refuses, the program refuses too, and knows the line."""
        try:
            return call(*[inputs[i] for i in self.others])
        except FAILURES:
            results = self.run(*inputs)
            values.call = None
            return results


def settled(program: Program, run: Call, build: Build) -> Call:
    """`run` for one function, or itself if none of its inputs can be constants."""
    specs = program.inputs
    positions = [i for i in program.lasting if size(specs[i]) < LARGE]
    if not positions or sum(size(specs[i]) for i in positions) > MOST_BYTES:
        return run
    return Settling(run, build, positions, len(specs))


def size(spec: Spec) -> int:
    """The bytes of a variable."""
    return element_count(spec) * np.dtype(spec.dtype).itemsize
