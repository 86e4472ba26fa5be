"""Calls of Keras 3's operations in a graph of K: the primitive `keras_call` and its gradient.

Its parameter `call` is a function of values of Keras' backend. It runs while the program is traced,
so `jax.jit` and `tf.function` compile what Keras does. The gradient of such a call is one more such
call, which differentiates the first one by the backend's own means. So there are gradients of any
order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras

from backplane import engines
from backplane.core.graph import Placeholder, Tensor, substitute
from backplane.core.primitive import Primitive
from backplane.core.spec import Spec, is_float
from backplane.core.traits import Memory
from backplane.engines.base import Engine
from backplane.engines.table import Entry
from backplane.interop.keras3.opening import opened, standing_for, tensor_of
from backplane.ops.autodiff import gradients
from backplane.ops.lift import cast_to
from backplane.ops.native import Pullback
from backplane.ops.shaping import zeros_like


@dataclass(frozen=True)
class Slot:
    """The place of an operand among the arguments of an operation."""

    operand: int


class _Caller(keras.layers.Layer):
    """Calls a function as the call of an outer layer, which tells the layers in it the phase."""

    def __init__(self) -> None:
        super().__init__(name="backplane_call", dtype="float32")
        self._convert_input_args = False

    def call(self, function: Callable[[], Any], training: bool | None = None) -> Any:
        """The result of the function."""
        return function()


_callers: list[_Caller] = []


@dataclass(eq=False, repr=False)
class OperationCall:
    """The call of an operation of Keras as a function of values: first of the tensors among its
    arguments, then of its variables. Its variables stay as they are.
    """

    operation: Any
    """The layer or operation."""
    arguments: Any
    """Its positional and keyword arguments, with a `Slot` for each tensor."""
    masks: Sequence[int | None]
    """For each operand that is a tensor, the operand that is its mask, or None."""
    variables: Sequence[keras.Variable]
    """The variables whose values are the last operands."""
    given: tuple[Spec, ...]
    """The specs of the operands for which the results have the specs `results`."""
    results: list[Spec]
    """The specs of the results."""
    training: bool
    """Whether layers are called for training."""

    @property
    def engine(self) -> Engine:
        """The engine whose values the operands are."""
        return engine()

    def __repr__(self) -> str:
        return f"<call of {self.operation.name}>"

    def specs(self, *operands: Spec) -> list[Spec]:
        """The specs of the results for operands of these specs."""
        if operands == self.given:
            return self.results
        described = [keras.KerasTensor(tuple(s.shape), str(s.dtype)) for s in operands]
        args, kwargs = self._filled(described)
        made = keras.tree.flatten(self.operation.compute_output_spec(*args, **kwargs))
        return [Spec(tuple(t.shape), str(t.dtype)) for t in made]

    def __call__(self, *values: Any) -> list[Any]:
        """The results for values of the backend."""
        args, kwargs = self._filled(values)
        tensors = values[: len(self.masks)]
        weights = values[len(values) - len(self.variables) :]
        for value, mask in zip(tensors, self.masks, strict=True):
            _set_mask(value, None if mask is None else values[mask])
        pairs = list(zip(self.variables, weights, strict=True))
        with keras.StatelessScope(state_mapping=pairs):
            found = self._called(lambda: self.operation(*args, **kwargs))
        for value in tensors:
            _set_mask(value, None)  # They may be tracers, which nobody should keep.
        return [keras.ops.convert_to_tensor(y) for y in keras.tree.flatten(found)]

    def opened(self, *operands: Tensor) -> list[Tensor]:
        """The results for tensors of K, computed by K alone."""
        count = len(operands) - len(self.variables)
        standing = [standing_for(t) for t in operands[:count]]
        for tensor, mask in zip(standing, self.masks, strict=False):
            if mask is not None:
                tensor._keras_mask = standing[mask]
        args, kwargs = self._filled(standing)
        values = dict(zip(map(id, self.variables), operands[count:], strict=True))
        with opened(self.operation, values):
            found = self._called(lambda: self.operation(*args, **kwargs))
        tensors = map(tensor_of, keras.tree.flatten(found))
        specs = self.specs(*[t.spec for t in operands])
        return [cast_to(t, s.dtype) for t, s in zip(tensors, specs, strict=True)]

    def _filled(self, values: Sequence[Any]) -> Any:
        return keras.tree.map_structure(
            lambda leaf: values[leaf.operand] if isinstance(leaf, Slot) else leaf, self.arguments
        )

    def _called(self, function: Callable[[], Any]) -> Any:
        if not isinstance(self.operation, keras.layers.Layer):
            return function()
        if not _callers:
            _callers.append(_Caller())
        return _callers[0](function=function, training=self.training)


def _set_mask(value: Any, mask: Any) -> None:
    if mask is not None or keras.src.backend.get_keras_mask(value) is not None:
        keras.src.backend.set_keras_mask(value, mask)


class Slope(Pullback):
    """The cotangents of operands of a call, as a function of its operands and then of the
    cotangents of its results. `native` is the call.
    """

    __slots__ = ()

    @property
    def engine(self) -> Engine:
        """The engine of the call."""
        return self.native.engine

    def specs(self, *operands: Spec) -> list[Spec]:
        """The specs of the cotangents, which are those of the operands."""
        return [operands[i] for i in self.wanted]

    def __call__(self, *values: Any) -> list[Any]:
        """The cotangents."""
        if self.engine.calls_numpy:
            raise NotImplementedError(
                f"Keras' backend {self.engine.name!r} cannot differentiate: use one of jax, "
                "tensorflow, torch"
            )
        return [self.engine.as_value(g) for g in super().__call__(*values)]

    def opened(self, *tensors: Tensor) -> list[Tensor]:
        """The cotangents as tensors of K."""
        operands, cotangents = tensors[: self.operands], tensors[self.operands :]
        # Tensors of their own, because one tensor may stand for several operands.
        fresh: list[Tensor] = [Placeholder(t.spec) for t in operands]
        results = self.native.opened(*fresh)
        found = gradients(
            [results[i] for i in self.used], [fresh[i] for i in self.wanted], cotangents
        )
        filled = [
            zeros_like(fresh[i]) if g is None else g
            for i, g in zip(self.wanted, found, strict=True)
        ]
        mapping: dict[Tensor, Tensor] = dict(zip(fresh, operands, strict=True))
        return substitute(filled, mapping, keep_specs=True)


def _specs(*operands: Spec, call: Any) -> list[Spec]:
    """The results of a call of an operation of Keras."""
    return call.specs(*operands)


keras_call: Primitive[list[Tensor]] = Primitive(
    "keras_call", _specs, memory=Memory.ANY, multiple=True
)


@keras_call.vjp
def _(g: list[Tensor | None], y: list[Tensor], *operands: Tensor, call: Any) -> list[Tensor | None]:
    wanted = tuple([i for i, t in enumerate(operands) if is_float(t.spec.dtype)])
    if not wanted:
        return [None] * len(operands)
    used = tuple([i for i, gi in enumerate(g) if gi is not None])
    slope = Slope(call, len(operands), wanted, used)
    results = keras_call(*operands, *[gi for gi in g if gi is not None], call=slope)
    found = dict(zip(wanted, results, strict=True))
    return [found.get(i) for i in range(len(operands))]


@keras_call.decompose
def _(*operands: Tensor, call: Any) -> list[Tensor]:
    return call.opened(*operands)


def engine() -> Engine:
    """The engine of Keras' backend, able to run such calls.

    Raises:
        ValueError: if Keras runs on a backend that is no engine of Backplane.
    """
    found = engines.get(keras.backend.backend())
    found.table.setdefault(keras_call.name, Entry(lambda *values, call: call(*values)))
    return found
