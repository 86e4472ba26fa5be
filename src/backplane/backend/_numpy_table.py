"""The table of NumPy's functions that tensors take: from a function of NumPy to ours.

A function has the parameters of NumPy's function in the same order. Those that tensors cannot have,
such as `where` of a reduction, are missing. `out` is there where it can be given by position, and
must be None. Dtypes and promotion are K's, as everywhere: `np.sqrt` of -1 is 0, and an array of
float64 beside a float32 tensor gives float32.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from backplane.backend._args import as_dtype, as_int
from backplane.backend._call import api
from backplane.core.graph import Tensor
from backplane.ops.lift import as_tensor, cast_to

Function = Callable[..., Any]

FUNCTIONS: dict[Any, Function] = {}
"""Ours by NumPy's, and by the names of those of SciPy, which do not tell their module."""

OPERATORS: dict[Any, str] = {
    np.add: "add", np.subtract: "sub", np.multiply: "mul", np.divide: "truediv",
    np.floor_divide: "floordiv", np.remainder: "mod", np.power: "pow", np.matmul: "matmul",
    np.bitwise_and: "and", np.bitwise_or: "or", np.bitwise_xor: "xor",
    np.less: "lt", np.less_equal: "le", np.greater: "gt", np.greater_equal: "ge",
}  # fmt: skip
"""NumPy's functions behind operators of two operands."""

PARTNERS: dict[Any, str] = {}
"""The functions of K that do the work, for messages; empty where there is none."""


def of(*functions: Any, k: str = "", plain: bool = False) -> Callable[[Function], Function]:
    """Decorator: the function in the place of these functions of NumPy, or of SciPy by name.

    Args:
        *functions: They may be called alike.
        k: The function of K behind it.
        plain: Whether it tells what is known of a tensor, and computes nothing.
    """

    def register(function: Function) -> Function:
        first = functions[0]
        function.label = first if isinstance(first, str) else name_of(first)  # type: ignore[attr-defined]
        made: Any = function if plain else api(function)
        for one in functions:
            FUNCTIONS[one] = made
            PARTNERS[one] = k
        return function

    return register


def of_newer(name: str, k: str) -> Callable[[Function], Function]:
    """Decorator: as `of`, for a function that older releases of NumPy do not have."""
    function = getattr(np, name, None)
    return of(function, k=k) if function is not None else lambda ours: ours


def name_of(function: Any) -> str:
    """The name by which users call a function of NumPy or SciPy."""
    name = function.__name__
    if isinstance(function, np.ufunc):
        return f"np.{name}" if getattr(np, name, None) is function else name
    module = (getattr(function, "__module__", None) or "numpy").replace("numpy", "np", 1)
    return f"{module}.{name}"


def find(function: Any) -> Function | None:
    """Our function in the place of one of NumPy or SciPy."""
    ours = FUNCTIONS.get(function)
    if ours is None and isinstance(function, np.ufunc):
        ours = FUNCTIONS.get(function.__name__)
    return ours


def refused(own: Function, args: Sequence[Any], options: Mapping[str, Any]) -> str:
    """Why a call has not the arguments that our function takes; empty if it has them."""
    parameters = inspect.signature(own).parameters
    unknown = options.keys() - parameters.keys()
    if unknown:
        return " with " + ", ".join(sorted(unknown))
    try:
        given = inspect.signature(own).bind(*args, **options).arguments
    except TypeError:
        return f" with {len(args)} arguments"
    return " with out" if given.get("out") is not None else ""


def in_dtype(dtype: object, x: Any) -> Tensor:
    """`x` in a dtype that was asked for."""
    x = as_tensor(x)
    return x if dtype is None else cast_to(x, as_dtype(dtype))


def listed(axis: Any, what: str = "axis") -> list[int]:
    """One axis, or several, as a list."""
    given = axis if isinstance(axis, list | tuple) else [axis]
    return [as_int(a, what) for a in given]
