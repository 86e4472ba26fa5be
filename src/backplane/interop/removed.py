"""What Python and NumPy have removed since classic Keras, for it and for scripts of its time.

What still exists is left as it is. Each entry says what was removed, when, and what needs it.
"""

from __future__ import annotations

import collections
import collections.abc
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


class _ArgSpec(collections.namedtuple("_ArgSpec", "args varargs keywords defaults")):
    """What `inspect.getargspec` returned."""

    __slots__ = ()


def _getargspec(function: Callable[..., Any]) -> _ArgSpec:
    """The positional parameters of a function, as Python 2 described them."""
    return _ArgSpec(*inspect.getfullargspec(function)[:4])


def _put_back(module: Any, names: Mapping[str, Any]) -> None:
    """Set the attributes that `module` no longer has."""
    for name, value in names.items():
        if name not in vars(module):
            setattr(module, name, value)


def _restore_python() -> None:
    """Names that Python removed."""
    # Python 3.10: the abstract classes left `collections`. Keras takes Container (of epochs
    # to validate), Iterable (callbacks), Mapping and Sequence (losses and metrics) from there.
    for name in ("Container", "Iterable", "Mapping", "Sequence"):
        _put_back(collections, {name: getattr(collections.abc, name)})
    # Python 3.11: `getargspec` and its result type went. Keras 2.2.5 and 2.3 describe functions by
    # the type (`keras.utils.generic_utils`), older releases call the function.
    _put_back(inspect, {"getargspec": _getargspec, "ArgSpec": _ArgSpec})


def _restore_numpy() -> None:
    """Names that NumPy removed."""
    # NumPy 1.24: the aliases of builtin types. Keras' own NumPy code has np.bool and np.int.
    # Scripts have the others, np.float most of all.
    aliases = (bool, int, float, complex, object, str)
    _put_back(np, {kind.__name__: kind for kind in aliases})
    # NumPy 2.0: second names. Callbacks start from np.Inf, HDF5 attributes are compared with
    # np.string_, and keras_preprocessing looks for np.unicode_ when it pads sequences. Scripts
    # multiply the sizes of weights by np.product.
    _put_back(np, {"Inf": np.inf, "string_": np.bytes_, "unicode_": np.str_})
    _put_back(np, {"float_": np.float64, "product": np.prod})


def restore() -> None:
    """Put back all of them, in this process."""
    _restore_python()
    _restore_numpy()
