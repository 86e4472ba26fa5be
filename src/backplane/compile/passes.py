"""The passes over a graph before it is emitted, in their order: the same for programs, bodies of
loops and exported models.
"""

from __future__ import annotations

from collections.abc import Sequence

from backplane.compile.biases import join_biases
from backplane.compile.simplify import lower, simplify
from backplane.core.graph import Tensor, toposort
from backplane.engines.base import Engine


def simplified(
    outputs: Sequence[Tensor],
    replace: dict[Tensor, Tensor] | None = None,
    *,
    keep_stops: bool = False,
) -> tuple[list[Tensor], list[Tensor]]:
    """`outputs` after `simplify`, which takes the same arguments, and after the passes over
    loops. The first know what each output is, the second compute it.
    """
    simple = found = simplify(outputs, replace, keep_stops=keep_stops)
    # Not imported at the top: few graphs hold what this pass is about.
    if _holds(found, "scan"):
        from backplane.compile.hoist import streamlined

        found = streamlined(found)
    return simple, found


def _holds(outputs: Sequence[Tensor], name: str) -> bool:
    return any(node.op is not None and node.op.name == name for node in toposort(outputs))


def finished(
    outputs: Sequence[Tensor], engine: Engine, *, keep_stops: bool = False
) -> list[Tensor]:
    """What `simplified` gave, in the primitives that `engine` has."""
    if "fuses" not in engine.capabilities and _holds(outputs, "max_pool_grad"):
        from backplane.compile.masks import pool_masks

        outputs = pool_masks(outputs)
    lowered = lower(outputs, engine)
    return join_biases(simplify(lowered, keep_stops=keep_stops, lowered=True), engine)
