"""The graph of a Keras 3 model as a graph of K, and calls of layers with tensors of K.

`lifted` gives the tensor of K for a KerasTensor: a placeholder for an input, and for what an
operation made a call of that operation on the tensors of K for its arguments. A KerasTensor always
gives the same tensor, so that what is computed from an inner layer's output depends on it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras

from backplane import backend as K
from backplane.backend._trees import flatten, map_leaves
from backplane.core.graph import Placeholder, Tensor, toposort
from backplane.core.spec import Spec
from backplane.core.variable import Variable
from backplane.interop.keras3 import calls
from backplane.interop.keras3.nodes import KCall
from backplane.interop.keras3.weights import twin
from backplane.ops.branches import cond

_LIFTED = "_backplane_tensors"
"""The attribute of a KerasTensor that holds its tensors, by learning phase."""


def in_graph(value: Any) -> bool:
    """Whether it is a tensor of K that is computed from variables, or from what is fed."""
    return isinstance(value, Tensor) and any(
        isinstance(t, Variable | Placeholder) for t in toposort([value])
    )


def lifted(value: Any) -> Any:
    """The tensor of K for a KerasTensor or a variable of Keras; anything else as it is."""
    if isinstance(value, keras.Variable):
        return twin(value)
    if not isinstance(value, keras.KerasTensor):
        return value
    waiting = [value]
    while waiting:
        tensor = waiting[-1]
        needed = [t for t in _needed(tensor) if _known(t) is None]
        if not needed:
            _lift(tensor)
            waiting.pop()
        waiting += needed
    return _known(value)


def _known(tensor: keras.KerasTensor) -> Tensor | None:
    found = vars(tensor).get(_LIFTED, {})
    return found[None] if None in found else found.get(K.learning_phase())


def _node(tensor: keras.KerasTensor) -> Any:
    """The call of the operation that made it; None for an input."""
    history = getattr(tensor, "_keras_history", None)
    if history is None or history.operation is None:
        return None
    node = history.operation._inbound_nodes[history.node_index]
    return None if node.is_input else node


def arguments_of(tensor: keras.KerasTensor) -> list[Any]:
    """The arguments of the operation that made it; none of an input."""
    node = _node(tensor)
    return [] if node is None else flatten((node.arguments.args, node.arguments.kwargs))


def _needed(tensor: keras.KerasTensor) -> list[keras.KerasTensor]:
    """The KerasTensors that it is made of, with their masks."""
    node = _node(tensor)
    given = [] if node is None or _known(tensor) is not None else node.arguments.keras_tensors
    masks = [mask for t in given if (mask := _mask(t)) is not None]
    return [*given, *masks]


def _mask(tensor: keras.KerasTensor) -> keras.KerasTensor | None:
    mask = getattr(tensor, "_keras_mask", None)
    return mask if isinstance(mask, keras.KerasTensor) else None


def _lift(tensor: keras.KerasTensor) -> None:
    if _known(tensor) is not None:
        return
    node = _node(tensor)
    if node is None:
        _set(tensor, None, Placeholder(_spec(tensor), tensor.name))
        return
    phase = K.learning_phase()
    for output, made in zip(node.outputs, _called(node, phase), strict=True):
        _set(output, phase, made)


def _set(tensor: keras.KerasTensor, phase: Any, made: Tensor) -> None:
    vars(tensor).setdefault(_LIFTED, {})[phase] = made


def _spec(tensor: keras.KerasTensor) -> Spec:
    return Spec(tuple(tensor.shape), str(tensor.dtype))


def _called(node: Any, phase: Any) -> list[Tensor]:
    """The results of the operation of a node on tensors of K."""
    operation, given = node.operation, node.arguments
    if isinstance(operation, KCall):
        args, kwargs = given.convert(lifted)
        found = K.symbolic(getattr(K, operation.function))(*args, **kwargs)
        return [t for t in flatten(found) if isinstance(t, Tensor)]
    asked = _asked_phase(operation, given.kwargs.get("training"))
    if asked is None and _has_phases(operation):
        if isinstance(phase, Tensor):
            make = _maker(node)
            return cond(phase, lambda: make(True), lambda: make(False))
        asked = phase
    return _maker(node)(bool(asked))


def _asked_phase(operation: Any, recorded: Any) -> Any:
    """The phase that the user named in the call. Keras records the default of a layer's `call` as
    if it had been given.
    """
    if not isinstance(operation, keras.layers.Layer):
        return None
    parameter = operation._call_signature.parameters.get("training")
    return None if parameter is not None and recorded == parameter.default else recorded


def _has_phases(operation: Any) -> bool:
    """Whether it may do something else in training: a layer that asks for the phase, or one of the
    user's own, which may hold K functions that ask.
    """
    if not isinstance(operation, keras.layers.Layer):
        return False
    own = type(operation).__module__.startswith("keras.") and type(operation).__name__ != "Lambda"
    return not own or operation._call_has_training_arg


def _maker(node: Any) -> Callable[[bool], list[Tensor]]:
    """A function of the phase that calls the operation of a node."""
    operation = node.operation
    tensors: list[Tensor] = []
    masks: list[Any] = []

    def slot(leaf: Any) -> Any:
        mask = _mask(leaf) if isinstance(leaf, keras.KerasTensor) else None
        leaf = lifted(leaf)
        if not isinstance(leaf, Tensor):
            return leaf
        tensors.append(leaf)
        masks.append(mask)
        return calls.Slot(len(tensors) - 1)

    arguments = node.arguments.convert(slot)
    arguments[1].pop("training", None)  # `make` is given the phase.
    extra = {id(mask): mask for mask in masks if mask is not None}
    places = [None if m is None else len(tensors) + list(extra).index(id(m)) for m in masks]
    tensors += map(lifted, extra.values())
    calls.engine()

    def make(training: bool) -> list[Tensor]:
        variables, values = _state(operation)
        operands = [*tensors, *values]
        call = calls.OperationCall(
            operation, arguments, places, variables,
            tuple([t.spec for t in operands]), [_spec(t) for t in node.outputs], training,
        )  # fmt: skip
        return calls.keras_call(*operands, call=call)

    return make


def _state(operation: Any) -> tuple[list[keras.Variable], list[Tensor]]:
    """The variables of a layer with their values. K draws those of random generators anew at each
    run.
    """
    if not isinstance(operation, keras.layers.Layer):
        return [], []
    layers = operation._flatten_layers(include_self=True)
    seeds = {id(g.state) for layer in layers for g in getattr(layer, "_seed_generators", ())}
    variables = list({id(v): v for v in operation.variables}.values())
    return variables, [_seed(v) if id(v) in seeds else twin(v) for v in variables]


def _seed(state: keras.Variable) -> Tensor:
    numbers = K.symbolic(K.random_uniform)(tuple(state.shape), 0, 2**23)
    return K.cast(numbers, str(state.dtype))


# --- calls of layers ------------------------------------------------------------------------------

_call_of_keras = keras.layers.Layer.__call__


@functools.wraps(_call_of_keras)
def _call(self: Any, *args: Any, **kwargs: Any) -> Any:
    if not any(isinstance(leaf, Tensor) for leaf in flatten((args, kwargs))):
        return _call_of_keras(self, *args, **kwargs)
    args, kwargs = map_leaves(_standing_for, (args, kwargs))
    with K.name_scope(self.name):
        return keras.tree.map_structure(lifted, _call_of_keras(self, *args, **kwargs))


def _standing_for(value: Any) -> Any:
    """A KerasTensor for a tensor of K."""
    if not isinstance(value, Tensor):
        return value
    found = keras.KerasTensor(tuple(value.spec.shape), str(value.spec.dtype))
    _set(found, None, value)
    return found


keras.layers.Layer.__call__ = _call
