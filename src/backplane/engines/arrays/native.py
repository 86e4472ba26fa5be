"""Users' functions of NumPy arrays, for the engines `numpy` and `cntk`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from backplane.core.spec import Spec
from backplane.engines.base import Engine
from backplane.engines.table import Lowering, Value

SIZES = (12, 24)
"""These stand in the place of unknown sizes. The functions really run on arrays of such sizes."""


class TakesFunctions(Engine):
    """An engine that calls functions of arrays in Python."""

    stand_in_sizes = SIZES
    calls_numpy = True

    def stand_in(self, spec: Spec) -> Value:
        """Ones: functions of arrays must be run to see what they give."""
        return np.ones(spec.shape, spec.dtype)

    def native(
        self, function: Lowering, specs: Sequence[Spec], results: Sequence[Spec] | None
    ) -> Lowering:
        """The function, which may write to none of its operands."""
        return on_arrays(function, results)


def on_arrays(function: Lowering, results: Sequence[Spec] | None) -> Lowering:
    """The function on arrays that it cannot write to, with results as they were found to be.
    ValueError, when it is called, if a result has another dtype or other sizes than stand-ins have
    shown.
    """

    def run(*operands: Value) -> list[Value]:
        given = list(map(np.asarray, function(*map(_readable, operands))))
        for y, spec in zip(given, results or (), strict=results is not None):
            if not spec.accepts(Spec(y.shape, y.dtype.name)):
                raise ValueError(
                    f"{function} gave shape {y.shape} and dtype {y.dtype.name}, where shape "
                    f"{spec.shape} and dtype {spec.dtype} were expected: pass `spec`"
                )
        return given

    return run


def _readable(x: Value) -> Value:
    view = np.asarray(x)[...]
    view.flags.writeable = False
    return view
