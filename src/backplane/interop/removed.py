"""Names that Python and NumPy have removed since classic Keras, for it and for scripts of its time.

What still exists is left as it is. Each entry says what was removed, when, and what needs it.
"""

from __future__ import annotations

import collections
import collections.abc
import inspect
import sys
import sysconfig
from collections.abc import Mapping
from types import FrameType
from typing import Any

import numpy as np


class _ArgSpec(collections.namedtuple("_ArgSpec", "args varargs keywords defaults")):
    """The result of `inspect.getargspec`."""

    __slots__ = ()


def _put_back(module: Any, names: Mapping[str, Any]) -> None:
    """Set the attributes that `module` no longer has."""
    for name, value in names.items():
        if name not in vars(module):
            setattr(module, name, value)


def _restore_python() -> None:
    """Names that Python removed."""
    # In Python 3.10 the abstract classes left `collections`. Keras takes Container (of epochs
    # to validate), Iterable (callbacks), Mapping and Sequence (losses and metrics) from there.
    for name in ("Container", "Iterable", "Mapping", "Sequence"):
        _put_back(collections, {name: getattr(collections.abc, name)})
    # In Python 3.11 `getargspec` and its result type went. Keras 2.2.5 and 2.3 describe functions
    # by the type (`keras.utils.generic_utils`), and older releases call the function.
    described = {"getargspec": lambda function: _ArgSpec(*inspect.getfullargspec(function)[:4])}
    _put_back(inspect, described | {"ArgSpec": _ArgSpec})


# --- NumPy ----------------------------------------------------------------------------------------

NUMPY: dict[str, Any] = {
    # NumPy 1.18 to 1.24 removed `rank`, `asscalar`, `alen`, and the aliases of builtin types.
    # Keras' own code has np.bool and np.int. Scripts have the others, np.float most of all.
    "rank": np.ndim,
    "asscalar": lambda a: np.asarray(a).item(),
    "alen": lambda a: len(np.atleast_1d(a)),
    **{kind.__name__: kind for kind in (bool, int, float, complex, object, str)},
    "unicode": str,
    "long": int,
    # NumPy 2.0 removed second names. Callbacks start from np.Inf, HDF5 attributes are compared with
    # np.string_, and keras_preprocessing looks for np.unicode_ when it pads sequences. Scripts
    # multiply the sizes of weights by np.product.
    **dict.fromkeys(("Inf", "Infinity", "infty", "PINF"), np.inf),
    "NINF": -np.inf,
    "NaN": np.nan,
    "PZERO": 0.0,
    "NZERO": -0.0,
    "string_": np.bytes_,
    "unicode_": np.str_,
    "float_": np.float64,
    "longfloat": np.longdouble,
    **dict.fromkeys(("complex_", "cfloat"), np.complex128),
    "singlecomplex": np.complex64,
    **dict.fromkeys(("clongfloat", "longcomplex"), np.clongdouble),
    "product": np.prod,
    "cumproduct": np.cumprod,
    "sometrue": np.any,
    "alltrue": np.all,
    "round_": np.round,
    "mat": np.asmatrix,
    "msort": lambda a: np.sort(a, axis=0),
    "asfarray": lambda a, dtype=np.float64: np.asarray(
        a, dtype if np.issubdtype(dtype, np.inexact) else np.float64
    ),
    "row_stack": np.vstack,
    # NumPy 2.4 removed `in1d` and `trapz`, which are spelled `isin` and `trapezoid` today.
    "in1d": lambda ar1, ar2, assume_unique=False, invert=False: np.isin(
        np.ravel(ar1), ar2, assume_unique, invert
    ),
    "trapz": getattr(np, "trapezoid", getattr(np, "trapz", None)),
}
"""The objects behind names that NumPy has removed."""

_INSTALLED = ("site-packages", "dist-packages", sysconfig.get_path("stdlib"))
"""Names in the paths of installed libraries."""


def _is_of_that_time(caller: FrameType) -> bool:
    """Whether code is a script's, or that of Keras or a package around it. Other libraries that are
    installed ask what this NumPy has, and get no other answer than ever.
    """
    package = str(caller.f_globals.get("__name__", "")).partition(".")[0]
    file = caller.f_code.co_filename
    return "keras" in package or not any(part in file for part in _INSTALLED)


def _restore_numpy() -> None:
    """Names that NumPy removed, for code of that time."""
    of_numpy = vars(np)["__getattr__"]
    if getattr(of_numpy, "of_backplane", False):
        return

    def attribute(name: str) -> Any:
        if name in NUMPY and _is_of_that_time(sys._getframe(1)):
            return NUMPY[name]
        return of_numpy(name)

    attribute.of_backplane = True  # type: ignore[attr-defined]
    vars(np)["__getattr__"] = attribute


def restore() -> None:
    """Put back all of them, in this process: what NumPy removed for code of that time alone.

    Example:
        >>> import numpy as np
        >>> from backplane.interop import removed
        >>> removed.restore()  # doctest: +SKIP
        >>> np.product([2, 3])  # doctest: +SKIP
        6
    """
    _restore_python()
    _restore_numpy()
