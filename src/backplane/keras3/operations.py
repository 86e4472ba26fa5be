"""Operations of Keras on symbolic tensors, whatever backend Keras itself runs on.

Keras' operations ask `backend` for functions: `backend.numpy.add`, `backend.nn.conv`. That name in
the modules of `keras.src.ops` is replaced by a stand-in. While an operation is called here, it
gives the functions of this package, and otherwise those of Keras' backend.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from importlib import import_module
from types import ModuleType
from typing import Any
from unittest import mock

from backplane.core.context import assigned
from backplane.keras3.call import tracing
from backplane.keras3.hook import NAME

MODULES = ("core", "image", "linalg", "math", "nn", "numpy")
"""Modules of operations, and of the functions that compute them."""

USERS = (*[f"keras.src.ops.{name}" for name in MODULES], "keras.src.activations.activations")
"""Modules of Keras with operations in them."""

_calling: ContextVar[bool] = ContextVar("an operation of Keras is called", default=False)


class Backend:
    """The object `backend` in a module of operations."""

    def __init__(self, own: ModuleType) -> None:
        self._own = own

    def __getattr__(self, name: str) -> Any:
        if _calling.get():
            if name in MODULES:
                return _Functions(name)
            if name == "backend":
                return lambda: NAME
            if name == "config":
                return Backend(self._own.config)
            core = import_module("backplane.keras3.ops.core")
            if hasattr(core, name):
                return getattr(core, name)
        return getattr(self._own, name)


class _Functions:
    """The functions of one of our modules."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        found = import_module(f"backplane.keras3.ops.{self._module}")
        if not hasattr(found, name):
            raise NotImplementedError(f"backplane has no function {self._module}.{name}")
        return getattr(found, name)


@contextmanager
def replaced() -> Iterator[None]:
    """Context manager: operations can be called by `called`."""
    with ExitStack() as stack:
        for name in USERS:
            module = import_module(name)
            stack.enter_context(mock.patch.object(module, "backend", Backend(module.backend)))
        yield


def called(operation: Any, kind: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The result that an operation of the class `kind` gives for symbolic tensors.

    Raises:
        NotImplementedError: if we have no function for it, or none for symbolic tensors.
    """
    call = _conv_transpose if kind.__name__ == "ConvTranspose" else kind.call
    with assigned(_calling, True), tracing():
        return call(operation, *args, **kwargs)


def _conv_transpose(operation: Any, inputs: Any, kernel: Any) -> Any:
    """Keras' own call hands on two arguments in each other's place."""
    return _Functions("nn").conv_transpose(
        inputs, kernel, operation.strides, operation.padding, operation.output_padding,
        operation.data_format, operation.dilation_rate,
    )  # fmt: skip
