"""The call that `python -m benchmarks.protection` compares: with and without protection."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from backplane import backend as K
from benchmarks import protection


def test_both_calls_train_the_same_variables() -> None:
    with K.engine("numpy"):
        (protected, plain), values = protection.calls("small")
    losses = [float(call(values)[0]) for call in (protected, plain, protected, plain)]
    assert losses == sorted(losses, reverse=True)
    assert len(set(losses)) == 4
    for name in ("lock0", "version"):
        assert name in protected.__code__.co_names
        assert name not in plain.__code__.co_names
