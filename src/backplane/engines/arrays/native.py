"""Users' functions of NumPy arrays, for the engines `numpy` and `cntk`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from backplane.core.spec import Spec
from backplane.engines.table import Lowering, Value

SIZES = (12, 24)
"""In the place of unknown sizes. The functions really run on arrays of these sizes."""


def stand_in(spec: Spec) -> Value:
    """Ones."""
    return np.ones(spec.shape, spec.dtype)


def on_arrays(function: Lowering, results: Sequence[Spec] | None) -> Lowering:
    """The function on arrays that it cannot write to, with results as they were found to be.

    Raises:
        ValueError: when it is called, if a result has another dtype or other sizes than those that
            stand-ins have shown.
    """

    def run(*operands: Value) -> list[Value]:
        found = list(map(np.asarray, function(*map(_readable, operands))))
        for y, spec in zip(found, results or (), strict=results is not None):
            if not spec.accepts(Spec(y.shape, y.dtype.name)):
                raise ValueError(
                    f"{function} gave shape {y.shape} and dtype {y.dtype.name}, where shape "
                    f"{spec.shape} and dtype {spec.dtype} were expected: say so by `spec`"
                )
        return found

    return run


def _readable(x: Value) -> Value:
    view = np.asarray(x)[...]
    view.flags.writeable = False
    return view
