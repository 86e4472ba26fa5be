"""Primitives that pass a value on and do something beside."""

from __future__ import annotations

from backplane.core.primitive import primitive
from backplane.core.sizes import follow, like_first
from backplane.core.spec import Spec


@primitive
def identity(x: Spec) -> Spec:
    """The operand itself, as a tensor of its own."""
    return x


@primitive
def stop_gradient(x: Spec) -> Spec:
    """The operand, which no gradient reaches through it, an engine's own tape included."""
    return x


@primitive(name="print", effect=True)
def print_(x: Spec, *, message: str) -> Spec:
    """The operand; message and value go to stdout when it is computed."""
    return x


identity.vjps(lambda g, y, x: g)
print_.vjps(lambda g, y, x, *, message: g)
follow(like_first, identity, stop_gradient, print_)
