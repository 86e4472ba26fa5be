"""K functions under `torch.fx.symbolic_trace`: calls of them become nodes of the traced graph.

What PyTorch traces with are `Proxy` objects, which know neither shape nor dtype. So the call itself
is the node, as for functions that `torch.fx.wrap` marks. It runs when the traced module runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from torch.fx import Proxy
from torch.fx.proxy import TracerBase

from backplane.backend._trees import flatten, map_leaves
from backplane.core.graph import Tensor

__all__ = ["adapts", "call", "phase", "value"]


def adapts(kind: type) -> bool:
    """Whether objects of that class stand for tensors."""
    return issubclass(kind, Proxy)


def call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Make a call of a K function a node of the graph that its proxies belong to; a proxy for the
    result. TypeError for arguments that a traced module cannot hold.
    """
    proxies = [leaf for leaf in flatten((args, kwargs)) if isinstance(leaf, Proxy)]
    tracer = proxies[0].tracer
    args, kwargs = map_leaves(
        lambda leaf: _argument(leaf, tracer, function.__name__), (args, kwargs)
    )
    return tracer.create_proxy("call_function", function, args, kwargs)


def _argument(leaf: Any, tracer: TracerBase, name: str) -> Any:
    """A leaf of the arguments, in a form that the traced module can hold."""
    if isinstance(leaf, np.ndarray):
        return _attribute(leaf, tracer)
    if isinstance(leaf, Tensor):
        raise TypeError(
            f"K.{name}: {leaf!r} cannot be part of a module that torch.fx traces: give the module "
            "a parameter or a buffer instead, or pass a NumPy array"
        )
    if callable(leaf) and not isinstance(leaf, type | Proxy):
        raise TypeError(
            f"K.{name}: torch.fx cannot hold the function {leaf!r}. Put the call into a function "
            "of its own, and mark that with torch.fx.wrap"
        )
    return leaf


def _attribute(array: np.ndarray, tracer: Any) -> Proxy:
    """An array as an attribute of the traced module, under a new name."""
    count = 0
    while hasattr(tracer.root, name := f"_array_{count}"):
        count += 1
    setattr(tracer.root, name, array)
    return tracer.create_proxy("get_attr", name, (), {})


def value(x: Any) -> Any:
    """The native value that a proxy has. TypeError if it has none."""
    raise TypeError(
        f"expected a value, got {x!r} of torch.fx: pass it to the K function as an argument"
    )


def phase() -> None:
    """PyTorch has no learning phase."""
