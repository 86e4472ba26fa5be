"""Steps of recurrences, written once for tensors and for the arrays of the oracles."""

from __future__ import annotations

from typing import Any

import numpy as np

from backplane import backend as K


def tanh(x: Any) -> Any:
    return np.tanh(x) if isinstance(x, np.ndarray) else K.tanh(x)


def concatenate(parts: Any, axis: int) -> Any:
    join = np.concatenate if isinstance(parts[0], np.ndarray) else K.concatenate
    return join(parts, axis=axis)


def running_sum(x: Any, states: Any) -> Any:
    total = x + states[0]
    return total, [total]


def simple(x: Any, states: Any) -> Any:
    """A plain recurrent layer; its kernel is a constant."""
    h, kernel = states
    new = tanh(x + h @ kernel)
    return new, [new]


def gated(x: Any, states: Any) -> Any:
    """Two states, of different use, and an output that is neither."""
    h, c = states
    carried = c * tanh(x) + h
    return tanh(carried) * x, [tanh(carried), carried]


def of_state(x: Any, states: Any) -> Any:
    """The output does not see the input of its step."""
    return states[0] * 10.0, [states[0] + 1.0]


def row_sum(x: Any, states: Any) -> Any:
    """An output of fewer axes than the state."""
    new = tanh(x + states[0])
    return new.sum(-1) if isinstance(new, np.ndarray) else K.sum(new, axis=-1), [new]


def wide(x: Any, states: Any) -> Any:
    """An output that is wider than state and input."""
    new = x * states[0]
    return concatenate([x, new, states[0]], axis=-1), [new]
