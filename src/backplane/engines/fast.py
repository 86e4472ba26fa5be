"""The pieces of engines that serve only speed: what each gains, when it serves, and its off switch.

`engines/NAME/fast/__init__.py` has a row for each module in that folder. Without a piece an engine
is as right: programs that are compiled inside of `with without("jax.cpu"):` go without it, so that
it can be measured and tested.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Piece(NamedTuple):
    """One row: a module in a folder `fast`."""

    name: str
    """The folder of the engine and the module: `torch.phases`."""
    purpose: str
    gain: str
    """The gain that was measured."""
    when: str
    """The condition under which it serves."""
    off: str = ""
    """The switch for it, if `without(name)` is none: `pass NAME` of `compile.passes`, `choice
    NAME` of `kernels`, an option of `K.function`, or `piece NAME`, of which it is a part."""


_off: set[str] = set()


@contextmanager
def without(name: str) -> Iterator[None]:
    """Context manager: programs that are compiled inside go without a piece that has no other off
    switch. Programs that are there already stay.
    """
    _off.add(name)
    try:
        yield
    finally:
        _off.remove(name)


def applies(name: str) -> bool:
    """Whether a piece serves, where its condition is met."""
    return name not in _off
