"""K functions with Keras' objects among their arguments, where Keras runs on Backplane.

A symbolic tensor of Keras stands for its tensor of the graph, and a variable for its value. What a
K function gives is symbolic again if there was a symbolic tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras.src.backend.common import KerasVariable
from keras.src.backend.common.keras_tensor import KerasTensor, any_symbolic_tensors
from keras.src.ops.function import Function
from keras.src.ops.operation import Operation

from backplane.backend._trees import flatten, map_leaves
from backplane.core.graph import Placeholder
from backplane.core.graph import Tensor as Node
from backplane.core.spec import Spec
from backplane.keras3 import trace
from backplane.keras3.call import tracing, wrapped
from backplane.keras3.step import Scope
from backplane.keras3.tensor import Tensor

OF_VARIABLES = {
    "batch_get_value", "batch_set_value", "get_value", "gradients", "is_variable", "set_value",
    "update", "update_add", "update_sub", "moving_average_update", "count_params",
}  # fmt: skip
"""K functions that mean the variable itself, not its value."""


def adapts(kind: type) -> bool:
    """Whether objects of that class stand for tensors."""
    return issubclass(kind, Tensor | KerasVariable | KerasTensor)


class KCall(Operation):
    """A call of a K function in a functional model."""

    def __init__(self, function: Callable[..., Any], tree: Any) -> None:
        super().__init__(name=None)
        self.function = function
        self.tree = tree

    def call(self, *tensors: Any) -> Any:
        """The call, with values or symbolic tensors in the place of the model's tensors."""
        following = iter(tensors)
        args, kwargs = map_leaves(
            lambda x: next(following) if isinstance(x, KerasTensor) else x, self.tree
        )
        return self.function(*args, **kwargs)

    def compute_output_spec(self, *tensors: Any) -> Any:
        """The shapes and dtypes of the results."""
        from backplane.keras3.ops.core import compute_output_spec

        return compute_output_spec(self.call, *tensors)


def call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of a K function with objects of Keras among its arguments."""
    if any_symbolic_tensors(args, kwargs):
        if function.__name__ == "function":
            return _function(function, *args, **kwargs)
        tensors = [x for x in flatten((args, kwargs)) if isinstance(x, KerasTensor)]
        return KCall(function, (args, kwargs))(*tensors)
    symbolic = any(isinstance(x, Tensor) for x in flatten((args, kwargs)))
    whole = function.__name__ in OF_VARIABLES

    def core(x: Any) -> Any:
        if isinstance(x, Tensor):
            return x.core
        if not isinstance(x, KerasVariable):
            return x
        if whole:
            traced = trace.current()
            if traced is not None:
                traced.touched(x)
            return x.cell
        return core(x.value)

    result = function(*map_leaves(core, args), **map_leaves(core, kwargs))
    if symbolic or (trace.current() is not None and _has_nodes(result)):
        return wrapped(result)
    return result


def _function(
    function: Callable[..., Any], inputs: Any, outputs: Any, updates: Any = None, **options: Any
) -> Any:
    """`K.function` from inputs of a functional model to tensors of it."""
    given = [x for x in flatten(inputs) if isinstance(x, KerasTensor)]
    wanted = [x for x in flatten(outputs) if isinstance(x, KerasTensor)]
    feeds = [Placeholder(Spec(tuple(x.shape), x.dtype)) for x in given]
    traced = trace.Trace()
    with Scope(traced), tracing():
        found = Function(given, wanted)([Tensor(x) for x in feeds])
    pairs = {id(a): b for a, b in zip(given, feeds, strict=True)}
    pairs |= {id(a): b.core for a, b in zip(wanted, found, strict=True)}

    def core(x: Any) -> Any:
        return pairs.get(id(x), x)

    return function(map_leaves(core, inputs), map_leaves(core, outputs), updates, **options)


def _has_nodes(result: Any) -> bool:
    return any(isinstance(x, Node) for x in flatten(result))


def value(x: Any) -> Any:
    """The value that an object of Keras has now, or the tensor that it stands for."""
    if isinstance(x, KerasVariable):
        return value(x.value)
    if isinstance(x, KerasTensor):
        raise TypeError(f"expected a value, got {x!r}, which is symbolic: call the model on data")
    return x.core if isinstance(x, Tensor) else x


def phase() -> int | None:
    """The learning phase by Keras: None, because Keras 3 has none but the argument `training`."""
    return None
