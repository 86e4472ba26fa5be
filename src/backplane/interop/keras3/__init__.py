"""Keras 3: its tensors, symbolic and not, and its variables as arguments of K functions.

Nothing here has to be imported to use K functions in layers, losses and models of Keras 3:
`backplane.backend` does it when it meets an object of Keras 3 (`backend._adapters`). A model that
holds calls of K functions is loaded after `import backplane.interop.keras3`.

- What a layer, loss or metric of Keras 3 gets are tensors of its backend, which K computes with as
  with any tensors of an engine. A `keras.Variable` stands for its value.
- A `KerasTensor` makes the call a node of the model (`nodes.KCall`).
- Beside tensors of K that are computed from variables or placeholders, in `K.gradients`, and in
  `K.function` with such tensors, the graph of the model becomes one of K (`lifting`). So do calls
  of layers and models with tensors of K.
- `install()` fills the names that `keras.backend` lacks (`installing`).
- Functions that ask what a tensor is, read, set or update a variable, or compile, have a reading of
  their own for these objects (`special`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from backplane import engines
from backplane.backend import _call
from backplane.backend._trees import flatten, map_leaves
from backplane.core.graph import Tensor
from backplane.interop.keras3 import opening
from backplane.interop.keras3.installing import install, uninstall
from backplane.interop.keras3.lifting import in_graph, lifted
from backplane.interop.keras3.nodes import KCall, KInTrainPhase, node, operation
from backplane.interop.keras3.special import OF_GRAPHS, SPECIAL

__all__ = ["KCall", "KInTrainPhase", "adapts", "call", "install", "phase", "uninstall", "value"]


def adapts(kind: type) -> bool:
    """Whether objects of that class stand for tensors: symbolic ones, or the values of variables.

    Example:
        >>> import keras
        >>> from backplane.interop import keras3
        >>> keras3.adapts(keras.KerasTensor), keras3.adapts(keras.layers.Dense)
        (True, False)
    """
    return issubclass(kind, keras.KerasTensor | keras.Variable)


def call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of a K function with objects of Keras 3 among its arguments.

    Args:
        function: The function of the K namespace.
        args: Its positional arguments.
        kwargs: Its arguments by name.

    Returns:
        What the function returns; KerasTensors instead of tensors if there are any among the
        arguments.

    Raises:
        TypeError: if the function makes no sense for such objects; the message has advice.
    """
    if opening.is_opening():
        return opening.call(function, args, kwargs)
    leaves = flatten((args, kwargs))
    of_model = any(isinstance(leaf, keras.KerasTensor) for leaf in leaves)
    beside = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    # A keras.Variable counts as its value beside tensors that have one now.
    joins = any(map(in_graph, beside)) and (of_model or not _call.is_closed(beside))
    if joins and function.__name__ not in OF_GRAPHS:
        return function(*map_leaves(lifted, args), **map_leaves(lifted, kwargs))
    special = SPECIAL.get(function.__name__)
    if special is not None:
        return special(*args, **kwargs)
    if of_model:
        make = operation if function.__name__.startswith("__") else node
        return make(function.__name__, args, kwargs)
    args, kwargs = map_leaves(_value_of, (args, kwargs))
    return function(*args, **kwargs)


def value(x: Any) -> Any:
    """The present value of a variable, as Keras would read it; the tensor of K that a KerasTensor
    stands for.

    Raises:
        TypeError: for a KerasTensor, which has none.
    """
    if isinstance(x, keras.Variable):
        return x.value
    if opening.is_opening():
        return opening.tensor_of(x)
    raise TypeError(
        f"expected a value, got {x!r}: branches and steps of K functions cannot close over "
        "KerasTensors. Call the K function in a layer, or pass the KerasTensor as an argument"
    )


class _Probe(keras.layers.Layer):
    """A layer that sees the arguments which Keras passes on to layers inside another's call."""

    def __init__(self) -> None:
        super().__init__(name="backplane_phase")

    def call(self, training: bool | None = None) -> None:
        """Take the argument."""
        self.seen = training


_probes: list[_Probe] = []


def phase() -> int | None:
    """The learning phase by Keras 3: what `training` is inside the call of a layer or a model.

    Returns:
        0 or 1 (0 while the backend traces a function and Keras has not been told); else None.

    Example:
        >>> from backplane.interop import keras3
        >>> print(keras3.phase())
        None
    """
    if not _probes:
        _probes.append(_Probe())
    [probe] = _probes
    probe()
    if probe.seen is not None:
        return int(probe.seen)
    # Keras finds out shapes by tracing layers before it says whether it trains.
    return 0 if engines.get(keras.backend.backend()).is_tracing() else None


def _value_of(leaf: Any) -> Any:
    """The present value of a variable, as Keras 3 would read it now: of a `StatelessScope`, in the
    dtype that a layer computes in. Anything else as it is.
    """
    return leaf.value if isinstance(leaf, keras.Variable) else leaf
