"""The K namespace bound to one engine: what `backplane.jax`, `backplane.torch`, … are.

Classic Keras loads one of them for `KERAS_BACKEND=backplane.jax`. That engine is then the
configured one anyhow, and the functions are those of `backplane.backend`. Where another engine is
configured, they are wrapped, so that one program may hold `backplane.numpy` against
`backplane.torch`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from backplane import backend as K
from backplane import config, engines
from backplane.backend._call import unconverted
from backplane.known_engines import canonical


def namespace(engine: str) -> dict[str, Any]:
    """The names of K, bound to an engine, for the globals of a module.

    Args:
        engine: Canonical name of an engine; its library is imported.

    Raises:
        ImportError: if the library is missing; the message has the install command.

    Example:
        >>> from backplane.interop.namespace import namespace
        >>> namespace("numpy")["backend"]()
        'numpy'
    """
    engines.get(engine)
    names = {name: getattr(K, name) for name in K.__all__}
    if canonical(config.backend()) != engine:
        bound = {n: _bound(v, engine) for n, v in names.items() if _computes(v)}
        names |= bound | {"backend": lambda: engine}
    # Also what is not in __all__: `K.tensorflow_backend` and what it leaked.
    return names | {"__all__": K.__all__, "__getattr__": K.__getattr__}


def _computes(value: Any) -> bool:
    """Whether it is a function of ours; `K.py_sum` and `K.py_all` are Python's."""
    return callable(value) and getattr(value, "__module__", "").startswith("backplane.")


def _bound(function: Callable[..., Any], engine: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with engines.use(engine):
            return function(*args, **kwargs)

    return unconverted(wrapper)
