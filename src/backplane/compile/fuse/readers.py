"""The readers of each tensor, the terms of sums, and the nodes that an engine has kernels for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from backplane.core.graph import Tensor, toposort
from backplane.engines.base import Engine
from backplane.ops.elementwise import add


def uses_of(outputs: Sequence[Tensor], order: Iterable[Tensor] | None = None) -> Counter[Tensor]:
    """The number of reads of each tensor, by nodes in `order` (default: all) and as an output."""
    uses = Counter(outputs)
    for node in toposort(outputs) if order is None else order:
        uses.update(node.inputs)
    return uses


def users_of(order: Iterable[Tensor]) -> dict[Tensor, list[Tensor]]:
    """The nodes of `order` that read each tensor."""
    users: dict[Tensor, list[Tensor]] = {}
    for node in order:
        for t in node.inputs:
            users.setdefault(t, []).append(node)
    return users


def terms_of(
    terms: Sequence[Tensor], is_sum: Callable[[Tensor], bool] = lambda t: t.op is add
) -> Iterator[Tensor]:
    """The tensors whose sum is that of `terms`, in their order. `is_sum` tells which are sums."""
    stack = [*reversed(terms)]
    while stack:
        t = stack.pop()
        if is_sum(t):
            stack += reversed(t.inputs)
        else:
            yield t


def serves(engine: Engine, node: Tensor) -> bool:
    """Whether an engine has a lowering, and it takes operands like these."""
    entry = engine.table.get(node.op.name) if node.op else None
    return entry is not None and entry.serves([t.spec for t in node.inputs], node.params)
