"""A case of each K function, as a node of a model and in a layer, with unknown batch sizes."""

import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import keras
import numpy as np

from backplane import backend as K
from cases import CASES

REFUSED = {"rnn", "map_fn", "foldl", "foldr"}
"""They take functions."""

SIZED = {"conv2d_transpose", "conv3d_transpose", "reshape"}
"""Their cases name all sizes of the result, the batch size too."""


class Called(keras.layers.Layer):
    """A case in a layer."""

    def __init__(self, case):
        super().__init__(autocast=False)
        self.case = case

    def call(self, args):
        return flat(self.case.call(K, *args))


def flat(result):
    if isinstance(result, list | tuple):
        return [t for r in result for t in flat(r)]
    return [result]


def inputs(case, arrays):
    shapes = [
        (None, *a.shape[1:]) if case.name not in SIZED and case.batched(i, arrays) else a.shape
        for i, a in enumerate(arrays)
    ]
    return [
        keras.Input(batch_shape=s, dtype=a.dtype.name) for s, a in zip(shapes, arrays, strict=True)
    ]


def check(case, make):
    arrays = case.arrays("float32")
    with K.engine("numpy"):
        wanted = flat(case.call(K, *arrays))
    given = inputs(case, arrays)
    outputs = flat(make(given))
    found = flat(keras.Model(given, outputs)([keras.ops.convert_to_tensor(a) for a in arrays]))
    for value, reference, spec in zip(found, wanted, outputs, strict=True):
        array = np.array(keras.ops.convert_to_numpy(value))
        assert len(spec.shape) == array.ndim, (spec.shape, array.shape)
        known = [(n, m) for n, m in zip(spec.shape, array.shape, strict=True) if n is not None]
        assert all(n == m for n, m in known), (spec.shape, array.shape)
        assert spec.dtype == array.dtype.name
        np.testing.assert_allclose(array, reference, rtol=2e-4, atol=1e-5)


def fitting(case):
    return (
        case.name in K.__all__ and case.name not in REFUSED and case.fn is None and not case.slow
        and "float32" in case.dtypes and case.leaves() and all(a.shape for a in case.leaves())
        and all(a.dtype != "int64" for a in case.leaves())
    )  # fmt: skip


def every_function(folder):
    """The functions that were compared with NumPy's results, and how others failed."""
    first = {}
    for case in filter(fitting, CASES):
        first.setdefault(case.name, case)
    failures = {}
    for name, case in first.items():
        for how, make in (
            ("node", lambda given, case=case: case.call(K, *given)),
            ("layer", lambda given, case=case: Called(case)(given)),
        ):
            if (name, how) == ("shape", "layer"):
                continue  # JAX takes no array with a symbolic size for the result of a function.
            try:
                check(case, make)
            except Exception:  # noqa: BLE001 - the test fails with it
                failures[f"{name} in a {how}"] = traceback.format_exc()
    return {"compared": sorted(first), "failures": failures}


PROGRAMS = [every_function]
