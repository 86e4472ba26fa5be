"""The readers of each tensor, and the nodes that an engine has kernels for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from backplane.core.graph import Tensor, toposort
from backplane.engines.table import Entry


def uses_of(outputs: Sequence[Tensor]) -> Counter[Tensor]:
    """The number of times that each tensor is read, as an operand or as an output."""
    uses = Counter(outputs)
    for node in toposort(outputs):
        uses.update(node.inputs)
    return uses


def serves(entry: Entry | None, node: Tensor) -> bool:
    """Whether there is a lowering, and it takes operands like these."""
    if entry is None or entry.unless is None:
        return entry is not None
    return not entry.unless([t.spec for t in node.inputs], **node.params)
