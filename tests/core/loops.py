"""Loops and branches that several tests build, and checks of their derivatives."""

from __future__ import annotations

import numpy as np
import pytest

from backplane.core.graph import Tensor, toposort
from backplane.ops import control
from backplane.ops import elementwise as ew
from core.evaluate import slopes

X = np.random.default_rng(1).uniform(0.2, 1.5, (4, 3))
S = np.random.default_rng(2).uniform(0.2, 1.5, 3)
W = np.random.default_rng(3).uniform(0.2, 1.5, 3)


def node_of(t: Tensor) -> Tensor:
    """The node of a loop or branch that a tensor is a result of."""
    return t.inputs[0]


def scans(outputs: list[Tensor]) -> list[Tensor]:
    """The scan nodes among what `outputs` need."""
    return [n for n in toposort(outputs) if n.op is not None and n.op.name == "scan"]


def check(function, *arrays, order=2):
    """Derivatives up to `order` by the rules and by differences, sizes known and unknown."""
    for unknown in (False, True):
        for found, wanted in slopes(function, *arrays, unknown=unknown, order=order):
            assert found == pytest.approx(wanted, rel=1e-6, abs=1e-7)


def recurrence(x: Tensor, s: Tensor, w: Tensor, reverse: bool = False) -> list[Tensor]:
    """s ← tanh(s · w) + x; the steps' products besides."""

    def step(carry, items):
        new = ew.add(ew.tanh(ew.mul(carry[0], w)), items[0])
        return [new], [ew.mul(new, items[0])]

    finals, ys = control.scan(step, [s], [x], reverse=reverse)
    return [*finals, *ys]
