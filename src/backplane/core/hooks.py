"""Late bindings: functions that a package calls and that one to the right of it provides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

HOOKS: dict[str, Callable[..., Any]] = {}
"""The functions by name. `X: f` stands for what the module X puts here when it is imported:

- `ops.operators`: the operators `add`, `radd`, `getitem`, …
- `engines`: `engine_of`, the engine that owns a native value, or None
- `compile.program`: `callable_of` and `steps_of`, the functions that evaluate closed graphs
- `compile`: `groups`, the groups of operations in a graph for which there is one gradient
- `backend._adapters`: `value_of`, the native value that an object of another library stands for
- `backend.functions`: `lifted`, a value of a library's own graph that was computed from tensors of
  ours as one of them
- `backend._keras1`: `modern`, a call in Keras 1's spelling as keyword arguments of today, or None
- `backend._protocols`: what NumPy and the engines' libraries ask of a tensor
- `backend.graph`, `backend.sparse`, `backend.state`, `backend._operators`: `eval`, `to_dense`,
  `initializer`, `floatx`, and `lacks`, the message about an attribute that tensors do not have
"""
