"""Primitives and engines by name, where packages meet; errors about unknown names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from backplane.core.spec import DTYPES, KEY, Spec
from backplane.core.tensor import Primitive


def suggestion(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """` (did you mean 'numpy'?)` if one of the `known` names is almost `name`; otherwise nothing.
    `cutoff` says how much alike they must be: 1 is equal.
    """
    import difflib  # Here: only mistakes need it.

    close = difflib.get_close_matches(name, list(known), 1, cutoff)
    return f" (did you mean {close[0]!r}?)" if close else ""


PRIMITIVES: dict[str, Primitive[Any]] = {}
"""Every primitive, as soon as the module of `ops` that declares it is imported."""


def primitive(name: str) -> Primitive[Any]:
    """The primitive called `name`; the KeyError names those that are spelled alike."""
    try:
        return PRIMITIVES[name]
    except KeyError:
        import difflib  # Here: only this message needs it.

        close = ", ".join(difflib.get_close_matches(name, PRIMITIVES)) or "nothing similar"
        raise KeyError(f"no primitive is called {name!r}; there is {close}") from None


def native_spec(engine: Any, value: object) -> Spec:
    """The spec of `value`, a tensor of `engine`. TypeError if K does not compute with its dtype."""
    spec: Spec = engine.spec_of(value)
    if spec.dtype not in DTYPES and not spec.dtype.startswith(KEY):
        raise TypeError(
            "expected a tensor of bools, integers or floats, got a tensor of dtype "
            f"{spec.dtype} ({type(value).__name__}); cast it, or take its parts, with its own "
            "library"
        )
    return spec
