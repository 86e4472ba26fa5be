"""K functions inside `torch.compile`.

PyTorch's compiler inlines `call` in the place of a K function (`backend._dynamo`). While it traces,
it knows the arguments, and of tensors the shapes and dtypes. From these, `_program` traces the K
function, which the compiler does not see. The emitted program becomes part of the compiler's own
graph, its backward pass included. A size that the compiler keeps open is None.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch._dynamo.eval_frame import set_code_exec_strategy
from torch._dynamo.types import FrameAction, FrameExecStrategy
from torch.fx.experimental.symbolic_shapes import has_static_value

from backplane import engines
from backplane.backend._dynamo import CALL_RULE, FUNCTIONS, constant
from backplane.backend._errors import explain
from backplane.backend._trace import Slot, Trace, fill, hashable, trace
from backplane.core.spec import Spec

PLAIN = (bool, int, float, str, torch.dtype)
"""Arguments that are constants."""

PROGRAMS = SimpleNamespace()
"""The programs found so far. They are attributes, because the compiler looks up attributes anew at
each use."""

# Where the compiler's graph breaks, a K function is called as usual, and nothing that it calls is
# compiled by itself.
for _code in CALL_RULE:
    set_code_exec_strategy(_code, FrameExecStrategy(FrameAction.SKIP, FrameAction.SKIP))

_found: dict[Any, tuple[str, Trace]] = {}


def call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of the K function `name`, as PyTorch's compiler traces it."""
    leaves: list[Any] = []
    program = _program(name, _described(args, leaves), _described(kwargs, leaves))
    if program.startswith("K."):
        torch._dynamo.graph_break(msg=program)
    return getattr(PROGRAMS, program)(*leaves)


# The compiler traces these functions, so they do nothing that it cannot follow.


def _described(value: Any, leaves: list[Any]) -> Any:
    """`value` as nested constants. Its tensors are appended to `leaves`."""
    if isinstance(value, np.ndarray):
        value = torch.as_tensor(value)
    if isinstance(value, torch.Tensor):
        leaves.append(value)
        sizes = tuple([n if has_static_value(n) else None for n in value.shape])
        return ("tensor", sizes, value.dtype)
    if isinstance(value, dict):
        return ("dict", tuple(value), tuple([_described(v, leaves) for v in value.values()]))
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return (kind, tuple([_described(v, leaves) for v in value]))
    if value is None or isinstance(value, PLAIN):
        return ("plain", value)
    if isinstance(value, FunctionType) and not value.__code__.co_freevars:
        return ("plain", value)
    return ("unknown", type(value).__name__)


# The compiler runs these functions while it traces.


@constant
def _program(name: str, args: Any, kwargs: Any) -> str:
    """The name of a call's program in `PROGRAMS`, or a text from `K.` on that tells why not."""
    try:
        key = (name, hashable(args), hashable(kwargs))
    except TypeError:  # A function is among them, and may change.
        key = None
    if key in _found and _found[key][1].holds():
        return _found[key][0]
    function = FUNCTIONS[name]
    specs: list[Spec] = []
    try:
        slots = (_restored(args, specs), _restored(kwargs, specs))
        traced = trace(function, slots, specs, engines.get("torch"), True)
    except (TypeError, ValueError) as error:
        explain(error, function, args, kwargs)
        return str(error)
    if traced.variables or traced.foreign:
        return f"K.{function.__name__} uses tensors that are not among its arguments"
    if any(key.given for key in traced.keys):  # Without a seed, the numbers are PyTorch's own.
        return (
            f"K.{function.__name__} draws random numbers with a seed: they would be the same at "
            "each call"
        )
    made = f"p{len(vars(PROGRAMS))}"
    setattr(PROGRAMS, made, _runner(traced))
    if key is not None:
        _found[key] = (made, traced)
    return made


def _restored(described: Any, specs: list[Spec]) -> Any:
    """The value that `_described` described, with slots for its tensors."""
    kind, *rest = described
    if kind == "tensor":
        shape, dtype = rest
        specs.append(Spec(shape, str(dtype).removeprefix("torch.")))
        return Slot(len(specs) - 1)
    if kind == "dict":
        return {k: _restored(v, specs) for k, v in zip(*rest, strict=True)}
    if kind == "plain":
        return rest[0]
    if kind == "unknown":
        raise TypeError(
            f"torch.compile cannot make a {rest[0]} part of a graph; it takes tensors, arrays, "
            "numbers, strings, functions that capture no variables, and lists, tuples and dicts of "
            "these"
        )
    items = [_restored(v, specs) for v in rest[0]]
    return items if kind == "list" else tuple(items)


def _runner(traced: Trace) -> Callable[..., Any]:
    program, constants, result, single = (
        traced.program, tuple(traced.constants), traced.result, traced.single
    )  # fmt: skip
    keys = tuple([torch.zeros(4, dtype=torch.uint32) for _ in traced.keys])

    def run(*leaves: Any) -> Any:
        values = program(*leaves, *keys, *constants)
        return values[0] if single else fill(result, values)

    return run
