"""The base of Keras' layers on Backplane. It stands alone, because layers come before models."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from backplane.keras3.settings import float64_kept, keeps_float64


class BackplaneLayer:
    """The base of Keras' `Layer`: layers whose dtype policy is float64 compute with 64 bits."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if BackplaneLayer in cls.__bases__ and "__call__" in vars(cls):
            setattr(cls, "__call__", _by_policy(vars(cls)["__call__"]))  # noqa: B010 - mypy


def _by_policy(call: Callable[..., Any]) -> Callable[..., Any]:
    """The call of a layer, in which float64 is kept if the layer's policy asks for it."""

    @functools.wraps(call)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        kept = getattr(self, "compute_dtype", None) == "float64"
        if kept == keeps_float64():
            return call(self, *args, **kwargs)
        with float64_kept(kept):
            return call(self, *args, **kwargs)

    return called
