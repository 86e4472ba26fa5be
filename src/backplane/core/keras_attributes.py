"""The attributes that classic Keras hangs on tensors, and reads from them."""

from __future__ import annotations

from typing import Any, ClassVar

from backplane.core.context import current
from backplane.core.spec import Spec


class KerasAttributes:
    """The shape that Keras notes, and whether a tensor depends on the learning phase."""

    __slots__ = ("_phased",)

    spec: Spec
    inputs: tuple[Any, ...]
    _phased: bool | None

    tells_phase: ClassVar[bool] = False
    """Whether each tensor has `_uses_learning_phase`: Keras 1 reads it without asking."""

    def set_shape(self, shape: Any) -> None:
        """Check that a shape fits, or raise a ValueError. A tensor never changes, so nothing else
        becomes of it: what `K.int_shape` gives then is what classic Keras notes for the output of a
        layer.
        """
        sizes = tuple([None if n is None else int(n) for n in shape])
        if not self.spec.accepts(Spec(sizes, self.spec.dtype)):
            raise ValueError(f"set_shape({sizes}) contradicts the shape of {self!r}")
        self._keras_shape = sizes

    @property
    def static_shape(self) -> tuple[int | None, ...]:
        """The static shape, with the sizes that classic Keras has added (`_keras_shape`)."""
        return self.__dict__.get("keras_shape", self.spec.shape)

    @property
    def _keras_shape(self) -> tuple[int | None, ...]:
        """The static shape.

        Raises:
            AttributeError: after `del`; and in a step function of a loop, if nobody has set it. A
                model of classic Keras that is called on a row takes the attribute for a sign that
                the row has `_uses_learning_phase` too.
        """
        noted = "keras_shape" in self.__dict__
        if (current().step and not noted) or "_keras_shape_is_gone" in self.__dict__:
            raise AttributeError("_keras_shape")
        return self.static_shape

    @_keras_shape.setter
    def _keras_shape(self, shape: Any) -> None:
        """The shape that classic Keras notes for the output of a layer. Keras may name sizes that
        the spec does not know (`Lambda(output_shape=…)`), but it cannot contradict sizes that the
        spec knows.
        """
        self.__dict__.pop("_keras_shape_is_gone", None)
        known = self.spec.shape
        if shape is not None and (not known or (len(shape) == len(known) + 1 and shape[-1] == 1)):
            # A layer that computes a loss gives a scalar, or one number per sample, but says
            # (None, 1): Keras makes the placeholder of the targets from this.
            self.__dict__["keras_shape"] = tuple(shape)
        elif shape is not None and len(shape) == len(known):
            pairs = zip(known, shape, strict=True)
            self.__dict__["keras_shape"] = tuple(m if n is None else n for n, m in pairs)

    @_keras_shape.deleter
    def _keras_shape(self) -> None:
        """Forget what Keras has noted. The tensor knows its own shape all the same."""
        if "_keras_shape_is_gone" in self.__dict__:
            raise AttributeError("_keras_shape")
        self.__dict__.pop("keras_shape", None)
        self.__dict__["_keras_shape_is_gone"] = True

    @property
    def _uses_learning_phase(self) -> bool:
        """Whether the tensor is computed from the learning phase. The answer is remembered for
        every node on the way, because Keras asks after each layer.

        Raises:
            AttributeError: in a step function of a loop, if it is not, and nobody has set the
                attribute: there Keras 2 asks with `hasattr`.
        """
        if self._phased is None:
            waiting = [self]
            while waiting:
                node = waiting[-1]
                unknown = [t for t in node.inputs if t._phased is None]
                if unknown:
                    waiting += unknown
                    continue
                node._phased = node.is_phase() or any(t._phased for t in node.inputs)
                waiting.pop()
        known = self._phased or self.tells_phase or "_phase_is_set" in self.__dict__
        if not known and current().step:
            raise AttributeError("_uses_learning_phase")
        return bool(self._phased)

    @_uses_learning_phase.setter
    def _uses_learning_phase(self, value: bool) -> None:
        self._phased = bool(value)
        self.__dict__["_phase_is_set"] = True

    def is_phase(self) -> bool:
        """Whether this is a learning phase: a scalar that need not be fed."""
        return False
