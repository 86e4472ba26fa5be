"""Every case with operands in parts, in two processes of PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable

import numpy as np

from backplane import backend as K
from backplane import engines
from cases import CASES
from cases.record import Case
from conformance.compare import assert_close
from conformance.test_cases import flat, gradients_of, lacks, scale_of

PAIR = {"batch": 2}


def layout_of(shape: tuple[int, ...], axes: Iterable[int]) -> tuple[str | None, ...]:
    """Split by the first of `axes` that can be split in two."""
    cut = next((i for i in axes if shape[i] and shape[i] % 2 == 0), None)
    return tuple(["batch" if i == cut else None for i in range(len(shape))])


def results(case: Case, arrays: list[np.ndarray], last: bool | None) -> list[np.ndarray]:
    """Values and gradients. `last` says which axes are split: of None none are, on one device."""
    K.set_random_seed(3, portable=True)
    with K.set_mesh(None if last is None else PAIR):
        inputs = [K.placeholder(shape=a.shape, dtype=a.dtype.name) for a in arrays]
        if last is not None:
            for x, a in zip(inputs, arrays, strict=True):
                axes = range(a.ndim)
                K.shard(x, layout_of(a.shape, reversed(axes) if last else axes))
        outputs = flat(case.call(K, *inputs))
        grads = gradients_of(case, inputs, outputs)
        return K.function(inputs, [*outputs, *grads])(arrays)


def check_case(case: Case, last: bool) -> None:
    """The values of one process."""
    dtype = case.dtypes[0]
    K.set_floatx(dtype)
    arrays = case.arrays(dtype)
    alone = results(case, arrays, None)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*cannot keep the layout")
        found = results(case, arrays, last)
    for a, b in zip(found, alone, strict=True):
        assert_close(a, b, dtype, scale_of(case, dtype) * 10)


def cases() -> dict[str, Callable[[], None]]:
    """All cases; every second one with the last axes in parts, the others with the first ones."""
    engine = engines.current()
    fit = [c for c in CASES if not c.slow and not lacks(c, engine)]
    return {
        case.id: lambda case=case, i=i: check_case(case, bool(i % 2)) for i, case in enumerate(fit)
    }
