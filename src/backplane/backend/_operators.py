"""Operators between a tensor of ours and a tensor of an engine, or an object of another library.

`tensor * native` follows the call rule, as K functions do: it is computed at once if the tensor can
be computed. Operands of common types take a short cut.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from backplane import engines
from backplane.backend._call import api, is_closed
from backplane.backend._trace import run_now
from backplane.core.graph import OPERATORS, Tensor
from backplane.ops import operators  # noqa: F401 - what is wrapped here
from backplane.ops.lift import as_tensor

_KNOWN = (Tensor, int, float, np.ndarray, np.generic, list, tuple)

BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor")
REFLECTED = tuple(f"r{name}" for name in BINARY)
ORDER = ("lt", "le", "gt", "ge")


def _meeting(name: str) -> Callable[[Tensor, Any], Any]:
    own = OPERATORS[name]

    @functools.wraps(own)
    def apply(x: Tensor, y: Any) -> Any:
        return own(x, y) if isinstance(y, _KNOWN) else general(x, y)

    def operator(x: Any, y: Any) -> Any:
        return own(x, y)

    operator.__name__ = operator.__qualname__ = f"__{name}__"
    general = api(operator)
    return apply


UFUNCS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv",
    "floor_divide": "floordiv", "remainder": "mod", "power": "pow", "matmul": "matmul",
    "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "invert": "invert",
    "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
    "absolute": "abs", "negative": "neg",
}  # fmt: skip
"""NumPy's functions behind operators."""

OF_K = {"cos", "exp", "log", "maximum", "minimum", "sign", "sin", "sqrt", "square", "tanh"}
"""NumPy's functions that K has under the same name."""


def _ufunc(ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """A function of NumPy with a tensor of ours among its operands.

    Raises:
        TypeError: where there is no such function of tensors.
    """
    name, called = ufunc.__name__, method == "__call__"
    # Of `array += tensor`, which binds the name to the result, as of any other immutable object.
    in_place = options.keys() == {"out"} and options["out"][0] is inputs[0]
    if called and (in_place or not options):
        if name in UFUNCS:
            return OPERATORS[UFUNCS[name]](*inputs)
        if name in OF_K:
            from backplane import backend  # Here: the namespace imports this module.

            return getattr(backend, name)(*inputs)
        if name in ("equal", "not_equal"):
            return name == "not_equal"  # As for any operands of `==` that are not the same object.
    given = f" with {', '.join(options)}" if called and options else ""
    raise TypeError(
        f"np.{name}{'' if called else f'.{method}'}{given} takes no symbolic tensors: use the "
        "functions of K, or K.eval for a value"
    )


OPERATORS["ufunc"] = _ufunc


def _jax_array(x: Tensor) -> Any:
    """What `Tensor.__jax_array__` gives."""
    engine = engines.get("jax")
    if not (engine.holds(x.spec.dtype) and is_closed([x])):
        return x
    return run_now(as_tensor, (x,), {}, engine)


OPERATORS["jax_array"] = _jax_array

for _name in (*BINARY, *REFLECTED, *ORDER):
    OPERATORS[_name] = _meeting(_name)
