"""The learning phase, 0 for test and 1 for train, and what depends on it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from backplane import config
from backplane.backend import _adapters
from backplane.backend._errors import explained
from backplane.backend.session import reset_session
from backplane.core import context
from backplane.core.graph import Placeholder, Tensor
from backplane.core.spec import Spec

__all__ = [
    "clear_session", "learning_phase", "learning_phase_scope", "set_learning_phase",
    "symbolic_learning_phase",
]  # fmt: skip


class _Phase:
    """The phase in force: a number, or a placeholder with default 0, made when asked for."""

    def __init__(self) -> None:
        self.value: int | None = None
        self.tensor: Placeholder | None = None


_phase = _Phase()


def learning_phase() -> int | Tensor:
    """The learning phase: 0 in test, 1 in training.

    Returns:
        The number that `K.set_learning_phase` or `K.learning_phase_scope` fixed. Inside of the call
        of a Keras 3 layer, the number that its `training` argument means; inside of `K.eager`, 0.
        Otherwise a scalar bool tensor, which can be an
        input of functions that behave differently in training and test. If it is not fed, it is 0.

    Example:
        >>> from backplane import backend as K
        >>> x = K.placeholder(shape=(1,))
        >>> f = K.function([x, K.learning_phase()], [K.in_train_phase(2.0 * x, x)])
        >>> f([[3.0], 1]), f([[3.0], 0])
        ([array([6.], dtype=float32)], [array([3.], dtype=float32)])
    """
    known = known_phase()
    return symbolic_learning_phase() if known is None else known


def symbolic_learning_phase() -> Tensor:
    """The learning phase as an input of functions, even where it is fixed for what is built now.

    An addition of Backplane, from tf.keras: the documents of the Keras backend API do not have it.

    Returns:
        A scalar bool tensor. If it is not fed, it is 0.

    Example:
        >>> from backplane import backend as K
        >>> phase = K.symbolic_learning_phase()
        >>> K.function([phase], [K.in_train_phase(1.0, 0.0, training=phase)])([1])
        [array(1., dtype=float32)]
    """
    if _phase.tensor is None:
        _phase.tensor = Placeholder(Spec((), "bool"), "keras_learning_phase", default=False)
    return _phase.tensor


def known_phase() -> int | None:
    """The learning phase if it is a number; None if it is an input."""
    return config.noted(_known)


def _known() -> int | None:
    scope = context.current().phase
    if scope is not None:
        return scope[0]
    if _phase.value is not None:
        return _phase.value
    phase = _adapters.phase()
    # Inside of `K.eager` nothing can be fed. Where eager is the default, functions still feed it.
    return 0 if phase is None and context.current().mode == "eager" else phase


def is_set() -> bool:
    """Whether somebody has fixed the learning phase."""
    return context.current().phase is not None or _phase.value is not None


@explained
def set_learning_phase(value: int) -> None:
    """Fix the learning phase.

    Args:
        value: 0 (test) or 1 (train).

    Raises:
        ValueError: for anything else.

    Example:
        >>> from backplane import backend as K
        >>> K.set_learning_phase(1)
        >>> K.learning_phase()
        1
        >>> K.clear_session()
    """
    number = _as_phase(value, "K.set_learning_phase")
    scope = context.current().phase
    if scope is None:
        _phase.value = number
    else:
        scope[0] = number


def _as_phase(value: object, what: str) -> int:
    if value not in (0, 1):
        raise ValueError(f"{what}: value must be 0 or 1, got {value!r}")
    return 1 if value else 0


@explained
def learning_phase_scope(value: int) -> AbstractContextManager[Any]:
    """Context manager: what is built or computed inside has this learning phase.

    An addition of Backplane, from tf.keras: the documents of the Keras backend API do not have it.
    It holds for the thread or task that enters it.

    Args:
        value: 0 (test) or 1 (train).

    Raises:
        ValueError: for anything else.

    Example:
        >>> from backplane import backend as K
        >>> with K.learning_phase_scope(1):
        ...     y = K.in_train_phase(K.constant(1.0), K.constant(0.0))
        >>> K.eval(y).item()
        1.0
    """
    return context.changed(phase=[_as_phase(value, "K.learning_phase_scope")])


def clear_session() -> None:
    """Reset the state that K keeps: counters for names, names given out, and the learning phase.

    Compiled programs are forgotten too. There is no global graph to destroy: Python frees tensors
    that nobody holds.

    Example:
        >>> from backplane import backend as K
        >>> K.get_uid("dense"), K.get_uid("dense")
        (1, 2)
        >>> K.clear_session()
        >>> K.get_uid("dense")
        1
    """
    from backplane.compile.program import clear_programs  # Here: the compiler is a fourth of K.

    context.reset_uids()
    context.reset_names()
    _phase.value = _phase.tensor = None
    reset_session()
    clear_programs()
