"""The computation of a layer of Keras 3 as a graph of K: for engines that cannot call Keras.

The layer's own `call` runs on KerasTensors that stand for tensors of K, and so do its weights. The
operations that it uses are computed at once, by the functions of Backplane below Keras
(`backplane.keras3.operations`). While this goes on, functions of Keras that take no KerasTensors
are replaced: `keras.src.backend.rnn` is `K.rnn`, and so on.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from threading import RLock
from typing import Any
from unittest import mock

import keras
import numpy as np

from backplane import backend as K
from backplane.backend._args import as_axes
from backplane.backend._trees import map_leaves
from backplane.core.context import assigned, changed
from backplane.core.graph import Tensor, constant
from backplane.core.spec import is_float
from backplane.interop.keras3.nodes import KCall
from backplane.keras3 import operations
from backplane.keras3.call import NoSymbolicFormError
from backplane.keras3.tensor import Tensor as Symbolic
from backplane.ops import elementwise as ew
from backplane.ops.creation import full, shaped, sizes_of
from backplane.ops.lift import cast_to
from backplane.ops.reduction import softmax
from backplane.ops.shaping import concat


def refused(what: str) -> NotImplementedError:
    """The error about something that we have no function for."""
    return NotImplementedError(
        f"{what} of Keras has no translation into K. Keras writes such models itself: "
        "keras.Model(inputs, outputs).export(path, format='onnx')"
    )


_TENSOR = "_backplane_tensor"
"""The attribute of a KerasTensor that holds the tensor of K that it stands for."""
_draws: ContextVar[Iterator[int] | None] = ContextVar("draws", default=None)
"""Numbers the random tensors of the call that is being opened; None while none is."""
_lock = RLock()


@contextmanager
def opened(operation: Any, values: Mapping[int, Tensor]) -> Iterator[None]:
    """Context manager: inside, an operation of Keras can be called on KerasTensors that stand for
    tensors of K.

    Args:
        operation: The layer or operation.
        values: What stands for its variables, by their ids.

    Raises:
        NotImplementedError: if it does something for which there is no translation; names it.
    """
    with _lock, changed(mode="symbolic"), _replaced(), _swapped(operation, values):
        yield


# --- tensors of K as KerasTensors -----------------------------------------------------------------


class Weight(keras.KerasTensor):
    """Stands for a weight of a layer. What training assigns to it goes nowhere, because a call in a
    graph leaves the variables of its layer as they are.
    """

    @property
    def value(self) -> Weight:
        """Itself."""
        return self

    def assign(self, value: Any, dtype: Any = None) -> Any:
        """Do nothing."""
        return value

    assign_add = assign_sub = assign


def standing_for(value: Any, kind: type[keras.KerasTensor] = keras.KerasTensor) -> Any:
    """A KerasTensor for a tensor of K; anything else as it is."""
    if not isinstance(value, Tensor):
        return value
    made = kind(tuple(value.spec.shape), str(value.spec.dtype))
    setattr(made, _TENSOR, value)
    return made


def tensor_of(value: Any) -> Any:
    """The tensor of K that a KerasTensor stands for, and an array for a tensor of the backend;
    anything else as it is.
    """
    if isinstance(value, slice):
        return slice(*map(tensor_of, (value.start, value.stop, value.step)))
    if isinstance(value, keras.KerasTensor):
        return getattr(value, _TENSOR)
    return keras.ops.convert_to_numpy(value) if keras.ops.is_tensor(value) else value


@contextmanager
def _swapped(operation: Any, values: Mapping[int, Tensor]) -> Iterator[None]:
    """Context manager: KerasTensors stand in the place of the variables of a layer."""
    layers = (
        operation._flatten_layers(include_self=True)
        if isinstance(operation, keras.layers.Layer)
        else []
    )
    made: dict[int, Any] = {}
    undo: list[tuple[dict[str, Any], str, Any]] = []

    def standing(leaf: Any, layer: Any) -> Any:
        if not isinstance(leaf, keras.Variable) or id(leaf) not in values:
            return leaf
        if id(leaf) not in made:
            value = values[id(leaf)]
            cast = layer is not None and layer.autocast and leaf._autocast
            if cast and is_float(value.spec.dtype):
                value = K.cast(value, layer.compute_dtype)
            made[id(leaf)] = standing_for(value, Weight)
        return made[id(leaf)]

    def swap(owner: Any, layer: Any) -> None:
        for name, found in list(vars(owner).items()):
            if name.startswith(("_trainable_v", "_non_trainable_v", "_seed_g", "_layers", "_tr")):
                continue
            if not isinstance(found, keras.Variable | list | tuple):
                continue
            new = map_leaves(lambda leaf: standing(leaf, layer), _plain(found))
            if any(isinstance(t, Weight) for t in keras.tree.flatten(new)):
                undo.append((vars(owner), name, found))
                vars(owner)[name] = new

    try:
        for layer in layers:
            swap(layer, layer)
            for generator in getattr(layer, "_seed_generators", ()):
                swap(generator, None)
        yield
    finally:
        for owner, name, found in undo:
            owner[name] = found


def _plain(found: Any) -> Any:
    """A list of Keras as a plain one. Keras' own lists tell their layer of changes."""
    return list(found) if isinstance(found, list) else found


# --- replaced functions ---------------------------------------------------------------------------


@contextmanager
def _replaced() -> Iterator[None]:
    """Context manager: in this thread, the functions of this section replace Keras' own."""
    with assigned(_draws, itertools.count()), ExitStack() as stack:
        for owner, name, function in _REPLACED:
            own = getattr(owner, name)
            stack.enter_context(mock.patch.object(owner, name, _choosing(own, function)))
        stack.enter_context(operations.replaced())
        yield


def _choosing(own: Any, function: Callable[..., Any]) -> Any:
    """A function that calls `function` while a layer is being opened, and Keras' `own` otherwise.
    `function` gets `own` as its first argument.
    """

    @functools.wraps(own)
    def replacement(*args: Any, **kwargs: Any) -> Any:
        if _draws.get() is None:
            return own(*args, **kwargs)
        return function(own, *args, **kwargs)

    return replacement


def _operation(own: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
    if isinstance(self, KCall):
        return call(getattr(K, self.function), args, kwargs)
    kind = type(self)
    if kind.__module__.split(".")[0] != "keras":
        raise refused(f"the operation {kind.__name__}")
    args, kwargs = map_leaves(_symbolic, (args, kwargs))
    try:
        found = operations.called(_Attributes(self), kind, args, kwargs)
    except (NotImplementedError, NoSymbolicFormError) as error:
        raise refused(f"the operation {kind.__name__}") from error
    return map_leaves(lambda t: standing_for(t.core) if isinstance(t, Symbolic) else t, found)


def _symbolic(value: Any) -> Any:
    """The tensor that the functions below Keras take for a KerasTensor; see `tensor_of`."""
    found = tensor_of(value)
    return Symbolic(found) if isinstance(found, Tensor) else found


def call(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """A call of a K function in the call that is being opened."""
    args, kwargs = map_leaves(tensor_of, (args, kwargs))
    return map_leaves(standing_for, function(*args, **kwargs))


def is_opening() -> bool:
    """Whether this thread opens the call of a layer."""
    return _draws.get() is not None


class _Attributes:
    """Attributes of an operation, with symbolic tensors for KerasTensors."""

    def __init__(self, operation: Any) -> None:
        self._operation = operation

    def __getattr__(self, name: str) -> Any:
        return map_leaves(_symbolic, getattr(self._operation, name))


def _layer(own: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
    translation = LAYERS.get(type(self))
    if isinstance(self, keras.layers.TimeDistributed) and args[0].shape[1] is None:
        translation = _each_step
    if translation is None:
        return self.call(*args, **kwargs)
    args, kwargs = map_leaves(tensor_of, (args, kwargs))
    return standing_for(translation(self, *args, **kwargs))


def _rnn(
    own: Any, step_function: Any, inputs: Any, initial_states: Any, **options: Any
) -> tuple[Any, Any, Any]:
    options.pop("return_all_outputs", None)

    def step(*given: Any) -> Any:
        return map_leaves(tensor_of, step_function(*map_leaves(standing_for, given)))

    given = map_leaves(tensor_of, (inputs, list(initial_states), options))
    last, outputs, states = K.rnn(step, given[0], given[1], **given[2])
    return map_leaves(standing_for, (last, outputs, list(states)))


def _fused(own: Any, *args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError  # Keras then runs the cell step by step.


def _shape(own: Any, x: Any) -> Any:
    value = tensor_of(x)
    return tuple(map(standing_for, sizes_of(value))) if isinstance(value, Tensor) else own(x)


def _converted(own: Any, x: Any, dtype: Any = None, **more: Any) -> Any:
    """Replaces `convert_to_tensor` and `cast`."""
    if not isinstance(x, keras.KerasTensor):
        return own(x, dtype, **more)
    value = tensor_of(x)
    if dtype is not None:
        value = K.cast(value, keras.backend.standardize_dtype(dtype))
    return standing_for(value)


def _each_step(layer: Any, x: Tensor, training: Any = None, mask: Any = None) -> Tensor:
    """Applies a `TimeDistributed` layer along an axis of unknown size."""
    options = {"training": training} if layer.layer._call_has_training_arg else {}
    masked = mask is not None and layer.layer._call_has_mask_arg

    def step(elements: Any) -> Any:
        one, *masks = map_leaves(standing_for, elements)
        more = {"mask": masks[0]} if masks else {}
        return tensor_of(layer.layer.call(one, **options, **more))

    steps = [_swapped_axes(t) for t in ([x, mask] if masked else [x])]
    return _swapped_axes(K.map_fn(step, steps, dtype=layer.compute_dtype))


def _swapped_axes(x: Tensor) -> Tensor:
    return K.permute_dimensions(x, [1, 0, *range(2, x.ndim)])


def _filled(value: int) -> Callable[..., Any]:
    def function(own: Any, shape: Any, dtype: Any = None, **more: Any) -> Any:
        listed = list(shape) if isinstance(shape, list | tuple) else [shape]
        sizes = [tensor_of(n) for n in listed]
        if not any(isinstance(n, Tensor) for n in sizes):
            return own(shape, dtype, **more)
        dtype = keras.backend.standardize_dtype(dtype or keras.config.floatx())
        number = bool(value) if dtype == "bool" else value
        return standing_for(shaped(full, sizes, value=number, dtype=dtype))

    return function


def _key(seed: Any) -> Tensor:
    """A random key of the state of a generator, another one for each draw."""
    draws = _draws.get()
    if draws is None or not isinstance(seed, keras.random.SeedGenerator):
        raise refused("random numbers without a SeedGenerator of the layer")
    words = K.cast(tensor_of(seed.state), "uint32")
    count = constant(np.array([next(draws), 0]), "uint32")
    return concat(words, count, axis=0)


def _dropout(own: Any, inputs: Any, rate: Any, noise_shape: Any = None, seed: Any = None) -> Any:
    x, noise = map_leaves(tensor_of, (inputs, noise_shape))
    return standing_for(K.dropout(x, rate, noise, seed=_key(seed)))


def _random(function: Callable[..., Tensor]) -> Callable[..., Any]:
    def draw(own: Any, shape: Any, *args: Any, dtype: Any = None, seed: Any = None) -> Any:
        sizes, given = map_leaves(tensor_of, (list(shape), args))
        return standing_for(function(sizes, *given, dtype=dtype, seed=_key(seed)))

    return draw


def _of_preprocessing(own: Any, self: Any, name: str) -> Any:
    """The operation of that name. Layers for preprocessing ask a backend of their own for it."""
    return getattr(keras.src.ops, name)


def _least(x: Tensor) -> float:
    """The score of what a mask hides. Its exponential is 0."""
    return -3e4 if x.spec.dtype == "float16" else -1e30


def _softmax_layer(layer: Any, x: Tensor, mask: Any = None) -> Tensor:
    axes = as_axes(layer.axis, x)
    if mask is not None:
        mask = K.greater(cast_to(mask, x.spec.dtype), 0.5)
        x = ew.where(mask, x, K.zeros_like(x) + _least(x))
    y = softmax(x, axis=axes[0]) if len(axes) == 1 else K.exp(x - K.logsumexp(x, axes, True))
    return y if mask is None else y * cast_to(mask, x.spec.dtype)


LAYERS: dict[type, Callable[..., Any]] = {keras.layers.Softmax: _softmax_layer}
"""From the class of a layer that asks Keras' backend for more than operations to its function."""


def _mish(own: Any, *args: Any) -> Any:
    x = args[-1]
    is_open = isinstance(x, keras.KerasTensor)
    return _operation(own, _activations.Mish(), x) if is_open else own(x)


def _nothing(own: Any, *args: Any, **kwargs: Any) -> None:
    """Replaces what records a call in its layer."""


_backend: Any = keras.src.backend
_activations: Any = keras.src.activations.activations
_REPLACED: list[tuple[Any, str, Callable[..., Any]]] = [
    (keras.Operation, "symbolic_call", _operation),
    (keras.layers.Layer, "symbolic_call", _layer),
    (keras.src.layers.layer, "Node", _nothing),
    (_activations.Mish, "static_call", _mish),
    (keras.src.utils.backend_utils.DynamicBackend, "__getattr__", _of_preprocessing),
    (_backend, "convert_to_tensor", _converted),
    (_backend, "cast", _converted),
    (_backend, "rnn", _rnn),
    (_backend, "lstm", _fused),
    (_backend, "gru", _fused),
    (_backend.random, "dropout", _dropout),
    (_backend.random, "normal", _random(K.random_normal)),
    (_backend.random, "uniform", _random(K.random_uniform)),
    (keras.src.ops, "shape", _shape),
    (keras.src.ops, "zeros", _filled(0)),
    (keras.src.ops, "ones", _filled(1)),
]
