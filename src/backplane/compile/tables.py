"""Finds the inputs of a program of which only rows are read and written, such as embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from backplane.compile.fuse.readers import users_of
from backplane.core.graph import Tensor
from backplane.ops.indexing import gather
from backplane.ops.updates import rows_add, rows_set

_CHANGES = frozenset([rows_add, rows_set])
"""Primitives that change rows of their first operand."""


def tables(
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    order: Sequence[Tensor],
    state: Mapping[int, int],
) -> frozenset[int]:
    """The positions of the inputs that are read by lookups along the first axis alone. Of those
    that the program replaces, the new value is the old one with other rows, or with
    sums added to rows, and nothing else reads it.
    """
    users = users_of(order)
    return frozenset([i for i, x in enumerate(inputs) if _is_table(i, x, users, outputs, state)])


def _is_table(
    i: int,
    x: Tensor,
    users: Mapping[Tensor, Sequence[Tensor]],
    outputs: Sequence[Tensor],
    state: Mapping[int, int],
) -> bool:
    readers = users.get(x, ())
    added = [t for t in readers if t.op in _CHANGES and t.inputs[0] is x]
    lookups = [t for t in readers if t.op is gather and t.inputs[0] is x and not t.params["axis"]]
    if len(lookups) + len(added) < len(readers) or x in outputs:
        return False
    if i not in state:
        return bool(lookups) and not added
    while len(added) == 1:
        (x,) = added
        added = [t for t in users.get(x, ()) if t.op in _CHANGES and t.inputs[0] is x]
        if len(added) < len(users.get(x, ())):
            return False
    return x.op in _CHANGES and [o for o, t in enumerate(outputs) if t is x] == [state[i]]
