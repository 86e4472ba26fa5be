"""Configuration, names and engines, as part of K."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, TypeVar

from backplane import config, engines
from backplane.backend._adapters import adaptable
from backplane.backend._args import also_named
from backplane.backend._errors import described, explained
from backplane.backend.arithmetic import cast
from backplane.config import epsilon, floatx, image_data_format
from backplane.core import context
from backplane.core.graph import Tensor
from backplane.core.tracebacks import boundary

__all__ = [
    "backend", "cast_to_floatx", "eager", "engine", "epsilon", "floatx", "get_uid",
    "image_data_format", "name_scope", "normalize_data_format", "reset_uids", "set_epsilon",
    "set_floatx", "set_image_data_format", "symbolic",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])

normalize_data_format = explained(config.normalize_data_format)
set_epsilon = also_named(value="e")(explained(config.set_epsilon))
set_floatx = also_named(value="floatx")(explained(config.set_floatx))
set_image_data_format = explained(config.set_image_data_format)


@adaptable
def cast_to_floatx(x: Any) -> Any:
    """An array in the dtype `K.floatx()`; a tensor likewise, as in tf.keras.

    Args:
        x: Array, number or (nested) list; or a tensor, symbolic or native.

    Returns:
        A NumPy array for numbers and arrays, else a tensor.

    Raises:
        TypeError: if `x` holds no numbers.

    Example:
        >>> import numpy as np
        >>> from backplane import backend as K
        >>> K.cast_to_floatx(np.array([1.0, 2.0])).dtype
        dtype('float32')
    """
    if isinstance(x, Tensor) or engines.engine_of(x) is not None:
        return cast(x, floatx())
    return config.cast_to_floatx(x)


@explained
def get_uid(prefix: str = "") -> int:
    """The next whole number for a prefix, counting from 1.

    Args:
        prefix: String.

    Example:
        >>> from backplane import backend as K
        >>> K.reset_uids()
        >>> K.get_uid("dense"), K.get_uid("dense")
        (1, 2)
    """
    return context.get_uid(prefix)


def reset_uids() -> None:
    """Start the counters of `K.get_uid` again.

    Example:
        >>> from backplane import backend as K
        >>> K.reset_uids()
    """
    context.reset_uids()


@boundary
def name_scope(
    name: str | None, default_name: str | None = None, values: object = None
) -> AbstractContextManager[str]:
    """Context manager: the names of tensors that are made inside start with `name/`.

    Args:
        name: String, or None for `default_name`.
        default_name: String.
        values: Accepted for compatibility: TensorFlow 1 found its graph by them.

    Returns:
        A context manager whose value is the whole prefix.

    Raises:
        ValueError: if neither `name` nor `default_name` is given.

    Example:
        >>> from backplane import backend as K
        >>> with K.name_scope("block"):
        ...     K.zeros((1,), name="w").name
        'block/w'
    """
    chosen = default_name if name is None else name
    if chosen is None:
        raise ValueError("K.name_scope: one of name and default_name must be given")
    if not isinstance(chosen, str):
        raise TypeError(f"K.name_scope: name must be a string, got {described(chosen)}")
    return context.name_scope(chosen)


def backend() -> str:
    """The name of the engine in use.

    Returns:
        The name as configured, or that of the engine that `K.engine` has put in its place.

    Example:
        >>> from backplane import backend as K
        >>> with K.engine("numpy"):
        ...     K.backend()
        'numpy'
    """
    chosen = context.current().engine
    return config.backend() if chosen is None or engines.is_default(chosen) else chosen.name


@boundary
def engine(name: str) -> AbstractContextManager[object]:
    """Context manager: functions that are made inside, and values that are computed inside, run on
    another engine.

    An addition of Backplane: the documents of the Keras backend API do not have it.

    Args:
        name: As in `keras.json` (`"numpy"`, `"jax"`, …), or that of a third-party engine; the
            command `backplane engines` lists them.

    Raises:
        ValueError: if no engine has that name.
        ImportError: if its library is missing; the message has the install command.

    Example:
        >>> from backplane import backend as K
        >>> with K.engine("numpy"):
        ...     K.eval(K.constant(1.0)).item()
        1.0
    """
    if not isinstance(name, str):
        raise TypeError(f"K.engine: name must be a string such as 'torch', got {described(name)}")
    try:
        chosen = engines.get(name)
    except ValueError as error:
        raise ValueError(f"K.engine: name must be that of an engine: {error}") from None
    return context.changed(engine=chosen)


@explained
def symbolic(func: F) -> F:
    """Decorator: inside of the function, arrays and engine tensors are constants of a graph.

    Args:
        func: Function to decorate.

    Example:
        >>> from backplane import backend as K
        >>> import numpy as np
        >>> K.symbolic(K.sum)(np.ones(3)).ndim
        0
    """
    return _in_mode(func, "symbolic")


@explained
def eager(func: F) -> F:
    """Decorator: inside of the function, K computes at once, even with variables and constants.

    Args:
        func: Function to decorate. Placeholders have no value and cannot be used inside.

    Example:
        >>> from backplane import backend as K
        >>> float(K.eager(K.sum)(K.ones((3,))))
        3.0
    """
    if not callable(func):
        raise TypeError(f"K.eager: func must be a function, got {func!r}")
    return _in_mode(func, "eager")


def _in_mode(func: F, mode: str) -> F:
    @wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with context.changed(mode=mode):
            return func(*args, **kwargs)

    return wrapper  # type: ignore[return-value]


def __getattr__(name: str) -> Any:
    """The settings, which Keras kept in `keras.backend.common`, some under private names."""
    from backplane.backend.tensorflow_backend import SETTINGS

    if name in SETTINGS:
        return SETTINGS[name]()
    return getattr(config, name)
