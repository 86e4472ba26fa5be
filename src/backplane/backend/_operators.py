"""Operators between a tensor of ours and a tensor of an engine, or an object of another library.

`tensor * native` follows the call rule, as K functions do: it is computed at once if the tensor can
be computed. Operands of common types take a short cut.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from backplane import config
from backplane.backend._call import api
from backplane.backend._errors import explain_operator
from backplane.core.graph import Tensor
from backplane.core.hooks import HOOKS
from backplane.ops import operators  # noqa: F401 - what is wrapped here

_KNOWN = (Tensor, int, float, np.ndarray, np.generic, list, tuple)

BINARY = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "matmul": "@", "and": "&", "or": "|", "xor": "^",
}  # fmt: skip
ORDER = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
REFLECTED = tuple(f"r{name}" for name in BINARY)
FORMS = {name: f"x {sign} y" for name, sign in (BINARY | ORDER).items()} | {
    f"r{name}": f"y {sign} x" for name, sign in BINARY.items()
}
"""The names of the operators of `x` in errors."""


def _meeting(name: str) -> Callable[[Tensor, Any], Any]:
    own = HOOKS[name]

    @functools.wraps(own)
    def apply(x: Tensor, y: object) -> Any:
        try:
            return own(x, y) if isinstance(y, _KNOWN) else general(x, y)
        except (TypeError, ValueError) as error:
            explain_operator(error, name, FORMS[name])
            raise

    def operator(x: object, y: object) -> Any:
        return own(x, y)

    operator.__name__ = operator.__qualname__ = f"__{name}__"
    general = api(operator)
    return apply


def _lacks(name: str) -> str:
    """The message about an attribute that tensors do not have."""
    from backplane.backend._elsewhere import for_attribute  # Here: only mistakes need the tables.

    return for_attribute(name)


HOOKS["floatx"] = config.floatx
HOOKS["lacks"] = _lacks

for _name in FORMS:
    HOOKS[_name] = _meeting(_name)
