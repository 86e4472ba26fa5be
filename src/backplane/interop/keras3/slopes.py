"""Derivatives of functions of a backend's values, by the backend's own means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import keras

Values = Sequence[Any]
Function = Callable[..., list[Any]]


def _jax(function: Function, at: Values, cotangents: Values) -> list[Any]:
    vjp: Any = import_module("jax").vjp
    return list(vjp(function, *at)[1](list(cotangents)))


def _torch(function: Function, at: Values, cotangents: Values) -> list[Any]:
    torch: Any = import_module("torch")
    # On the tape already: where the derivative of this derivative is taken.
    nested = any(t.requires_grad for t in (*at, *cotangents))
    with torch.enable_grad():
        # Tensors of their own, because one tensor may stand for several operands.
        tracked = [t.view_as(t) if t.requires_grad else t.detach().requires_grad_() for t in at]
        results = function(*tracked)
        pairs = [(y, g) for y, g in zip(results, cotangents, strict=True) if y.requires_grad]
        if not pairs:
            return [torch.zeros_like(t) for t in at]
        ys, gs = zip(*pairs, strict=True)
        found = torch.autograd.grad(
            ys, tracked, gs, create_graph=nested, allow_unused=True, materialize_grads=True
        )
    return list(found)


def _tensorflow(function: Function, at: Values, cotangents: Values) -> list[Any]:
    tf: Any = import_module("tensorflow")
    # Tensors of their own, because one tensor may stand for several operands.
    at = [tf.identity(t) for t in at]
    with tf.GradientTape() as tape:
        tape.watch(at)
        results = function(*at)
    found = tape.gradient(results, at, list(cotangents), tf.UnconnectedGradients.ZERO)
    return [tf.convert_to_tensor(g) for g in found]  # The gradient of an embedding is sparse.


_PULLED_BACK = {"jax": _jax, "torch": _torch, "tensorflow": _tensorflow}


def pulled_back(function: Function, at: Values, cotangents: Values) -> list[Any]:
    """The cotangents of the arguments of a function, from the cotangents of its results.

    Args:
        function: From float tensors of Keras' backend to a list of such tensors.
        at: Its arguments.
        cotangents: One for each of its results.

    Raises:
        NotImplementedError: if Keras' backend cannot differentiate.

    Example:
        >>> import keras
        >>> from backplane.interop.keras3.slopes import pulled_back
        >>> x, one = keras.ops.convert_to_tensor(3.0), keras.ops.convert_to_tensor(1.0)
        >>> [slope] = pulled_back(lambda x: [keras.ops.square(x)], [x], [one])
        >>> float(slope)
        6.0
    """
    name = keras.backend.backend()
    if name not in _PULLED_BACK:
        known = ", ".join(sorted(_PULLED_BACK))
        raise NotImplementedError(
            f"Keras' backend {name!r} cannot differentiate: use one of {known}"
        )
    return _PULLED_BACK[name](function, at, cotangents)
