"""The arguments of `K.function`: its inputs, outputs and updates, checked one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backplane.backend._args import as_flag
from backplane.backend._errors import described, unknown_keywords
from backplane.core.graph import Tensor
from backplane.core.variable import Variable
from backplane.ops.effects import Update
from backplane.ops.lift import as_tensor, fitting

OPTIONS = ("compile", "freeze")
"""Keyword options of `K.function` that are handed to the engine."""

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
ARGUMENTS = ("backend", "disable", "dynamic", "fullgraph", "mode", "options")
"""The modes and the arguments of `torch.compile`. They are checked on all engines, so that a
program which runs on one is right on the others."""

NO_GRADIENT = "None, which K.gradients gives for a tensor that the loss does not depend on"


def checked_options(given: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Options in a form that can be part of a key. ValueError for what no engine takes."""
    options = dict(given)
    for name, value in given.items():
        if name == "freeze":
            options[name] = as_flag(value, "K.function: freeze")
        elif isinstance(value, str) and value not in MODES:
            raise ValueError(
                f"K.function: compile must be True, False, one of {', '.join(map(repr, MODES))}, "
                f"or a dict of arguments of torch.compile; got {value!r}"
            )
        elif isinstance(value, dict) or _are_pairs(value):
            arguments = dict(value)
            strange = sorted(str(key) for key in arguments if key not in ARGUMENTS)
            if strange:
                raise ValueError(f"K.function: compile: {unknown_keywords(strange, ARGUMENTS)}")
            if arguments.get("mode") is not None and arguments.get("mode") not in MODES:
                checked_options({name: str(arguments["mode"])})
            options[name] = tuple(sorted(arguments.items()))
        elif not isinstance(value, str):
            options[name] = as_flag(value, "K.function: compile")
    return tuple(sorted(options.items()))


def _are_pairs(value: object) -> bool:
    """Whether these are the items of a dict, in the form that can be part of a key."""
    return isinstance(value, tuple) and all(isinstance(p, tuple) and len(p) == 2 for p in value)


def as_input(t: object, i: int) -> Tensor:
    """An input; TypeError if it is no tensor."""
    if not isinstance(t, Tensor):
        raise TypeError(f"K.function: inputs[{i}] must be a tensor, got {type(t).__name__}")
    return t


def as_output(t: Any, i: int) -> Tensor:
    """An output; TypeError if there is none."""
    if t is None or isinstance(t, str):
        given = NO_GRADIENT if t is None else repr(t)
        raise TypeError(f"K.function: outputs[{i}] must be a tensor, got {given}")
    return as_tensor(t)


def as_updates(updates: Any) -> list[tuple[Variable, Tensor]]:
    """The updates as pairs of a variable and its new value; TypeError for anything else."""
    if isinstance(updates, Tensor | dict | str):
        hint = "list(updates.items())" if isinstance(updates, dict) else "[update]"
        raise TypeError(f"K.function: updates must be a list, {hint}, got {described(updates)}")
    return [_update(u, i) for i, u in enumerate(() if updates is None else updates)]


def _update(update: object, i: int) -> tuple[Variable, Tensor]:
    if isinstance(update, Update):
        return update.variable, update
    if isinstance(update, list | tuple) and len(update) == 2 and isinstance(update[0], Variable):
        if update[1] is None:
            raise TypeError(f"K.function: updates[{i}] has no new value, got {NO_GRADIENT}")
        return update[0], fitting(update[0], update[1], f"K.function: updates[{i}]")
    raise TypeError(
        f"K.function: updates[{i}] must come from K.update, K.update_add, K.update_sub or "
        f"K.moving_average_update, or be a pair (variable, new value), got {update!r}"
    )
