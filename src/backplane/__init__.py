"""Backplane: the Keras backend API on any tensor engine.

`from backplane import backend as K` gives the API. Importing this package alone is silent, writes
nothing and loads neither an engine nor NumPy: `backend` and `config` are imported at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backplane.project import VERSION

if TYPE_CHECKING:
    from backplane import backend as backend
    from backplane import config as config

__version__ = VERSION

_LAZY = ("backend", "config")

__all__ = ["__version__", "backend", "config"]


def __getattr__(name: str) -> Any:
    """The submodules of `_LAZY`, imported when they are first asked for (PEP 562)."""
    if name in _LAZY:
        # Here, not above: `import backplane` must stay cheap.
        from importlib import import_module

        from backplane.core.context import uncollected

        with uncollected():
            return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
