"""Chains: element-wise nodes of one shape that run together, block by block.

A ufunc on a large array is as fast as memory is. Where several follow each other, a block of the
operands that fits into the cache goes through all of them before the next one is read.

Which nodes form a chain is decided by levels. Going from the leaves to the outputs, the level grows
by one at each edge, except between element-wise nodes of equal shapes. So what leaves a chain and
comes back to that shape has a higher level: connected nodes of one level and one shape can run as
one, at one place of the program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence

from backplane.compile.simplify import UNREAD
from backplane.core.graph import Tensor
from backplane.core.primitive import OUTPUT
from backplane.core.sizes import origin

LARGE = 1 << 16
"""Elements from which on blocks pay. A chain of three ufuncs on 64K float32 takes as long either
way, on 256K 0.8 of the time, on 4M 0.5."""

REDUCTIONS = frozenset(("sum", "mean", "max", "min"))
"""Reductions that may end a chain, where they reduce all axes."""

Passes = Callable[[Tensor], int]
"""How many passes over memory an element-wise node takes; 0 for other nodes."""

Key = tuple[Hashable, ...]


class Chain:
    """Nodes that run together, in order. All results of `nodes` have one shape; `tails` reduce
    some of them to scalars.
    """

    def __init__(self, nodes: list[Tensor], key: Key, tails: list[Tensor] | None = None) -> None:
        self.nodes = nodes
        self.key = key
        self.tails = tails or []

    @property
    def members(self) -> list[Tensor]:
        """All nodes, the reductions behind those that they reduce."""
        return [*self.nodes, *self.tails]

    def whole(self) -> list[Tensor]:
        """The operands from outside that have the chain's shape."""
        return [t for t in self.operands() if shape_key(t) == self.key]

    def operands(self) -> list[Tensor]:
        """What the nodes read from outside, each once, in order."""
        inside = set(self.nodes)
        return list(dict.fromkeys(t for n in self.nodes for t in n.inputs if t not in inside))

    @property
    def surely_large(self) -> bool:
        """Whether the sizes that are known suffice for blocks."""
        return known_size(self.nodes[0].spec.shape) >= LARGE


Unit = Tensor | Chain


def known_size(shape: Sequence[int | None]) -> int:
    """The number of elements if unknown sizes are 1."""
    return math.prod([n for n in shape if n is not None])


def shape_key(t: Tensor) -> Key | None:
    """Equal for tensors that surely have equal shapes; None if a size is of unknown origin."""
    shape = t.spec.shape
    if None not in shape:
        return shape
    key: list[Hashable] = []
    for axis, n in enumerate(shape):
        size = origin(t, axis) if n is None else n
        if size == (UNREAD, axis) or (n is None and size[0] is UNREAD):  # type: ignore[index]
            return None
        key.append(size)
    return tuple(key)


def fits(t: Tensor, key: Key) -> bool:
    """Whether `t` surely broadcasts to the shape of `key`."""
    own = shape_key(t)
    if own is None or len(own) > len(key):
        return False
    return all(n in (1, m) for n, m in zip(reversed(own), reversed(key), strict=False))


def units(order: Sequence[Tensor], outputs: Sequence[Tensor], passes: Passes) -> list[Unit]:
    """`order` with chains in the place of their nodes, and what uses a chain behind it."""
    keys = _keys(order, passes)
    found = _chains(order, outputs, keys, passes) if keys else []
    if not found:
        return list(order)
    return _scheduled(order, outputs, {n: chain for chain in found for n in chain.members})


def _keys(order: Sequence[Tensor], passes: Passes) -> dict[Tensor, Key]:
    """The nodes that may be in chains, with the keys of their shapes."""
    keys: dict[Tensor, Key] = {}
    for node in order:
        if node.op is None or node.op is OUTPUT or not passes(node):
            continue
        shape = node.spec.shape
        if not shape or (None not in shape and known_size(shape) < LARGE):
            continue
        key = shape_key(node)
        if key is not None and all(fits(t, key) for t in node.inputs):
            keys[node] = key
    return keys


def _levels(
    order: Sequence[Tensor], outputs: Sequence[Tensor], keys: dict[Tensor, Key]
) -> dict[Tensor, int]:
    """The level of each node: as low as its operands allow, then as high as its users allow.

    An element-wise node moves up to its users if that does not keep two large temporaries alive in
    its place: what is computed from a variable alone, for its update, joins the gradient there.
    """

    def step(node: Tensor, operand: Tensor) -> int:
        return 0 if node in keys and keys.get(operand) == keys[node] else 1

    level: dict[Tensor, int] = {}
    for node in order:
        level[node] = max([level.get(t, 0) + step(node, t) for t in node.inputs], default=0)
    highest: dict[Tensor, int] = dict.fromkeys(outputs, -1)
    for node in reversed(order):
        if node in keys and level[node] < highest.get(node, -1):
            alive = [t for t in set(node.inputs) if t.op is not None and t.ndim]
            if len(alive) <= 1:
                level[node] = highest[node]
        for t in node.inputs:
            allowed = level[node] - step(node, t)
            highest[t] = min(highest.get(t, allowed), allowed)
    return level


def _chains(
    order: Sequence[Tensor],
    outputs: Sequence[Tensor],
    keys: dict[Tensor, Key],
    passes: Passes,
) -> list[Chain]:
    level = _levels(order, outputs, keys)
    chain_of: dict[Tensor, Chain] = {}
    for node in order:
        if node not in keys:
            _end(node, keys, chain_of)
            continue
        mine = chain_of[node] = Chain([node], keys[node])
        for t in node.inputs:
            other = chain_of.get(t)
            joined = other is not None and other is not mine and t in keys
            if joined and keys[t] == mine.key and level[t] == level[node]:
                assert other is not None
                if len(other.nodes) < len(mine.nodes):
                    other, mine = mine, other
                other.nodes += mine.nodes
                other.tails += mine.tails
                for n in mine.members:
                    chain_of[n] = other
                mine = other
    position = {node: i for i, node in enumerate(order)}
    found = []
    for chain in dict.fromkeys(chain_of.values()):
        count = sum([passes(n) for n in chain.nodes]) + len(chain.tails)
        if count > 1 and chain.whole():
            chain.nodes.sort(key=position.__getitem__)
            found.append(chain)
    return found


def _end(node: Tensor, keys: dict[Tensor, Key], chain_of: dict[Tensor, Chain]) -> None:
    """Let a reduction over everything end the chain that it reduces."""
    if node.op is None or node.op.name not in REDUCTIONS:
        return
    (x,) = node.inputs
    whole = len(node.params["axes"]) == x.ndim
    if whole and x in keys and x.spec.dtype in ("float32", "float64"):
        chain_of[x].tails.append(node)
        chain_of[node] = chain_of[x]


def _scheduled(
    order: Sequence[Tensor], outputs: Sequence[Tensor], chain_of: dict[Tensor, Chain]
) -> list[Unit]:
    """Units in an order in which each comes behind those that it reads."""
    inside = set(order)
    done: set[Unit] = set()
    result: list[Unit] = []
    stack: list[Unit] = [chain_of.get(t, t) for t in reversed(outputs)]
    while stack:
        unit = stack[-1]
        if unit in done:
            stack.pop()
            continue
        reads = unit.operands() if isinstance(unit, Chain) else unit.inputs
        needed = [chain_of.get(t, t) for t in reads if t in inside]
        waiting = [u for u in needed if u not in done]
        if waiting:
            stack.extend(reversed(waiting))
            continue
        stack.pop()
        done.add(unit)
        result.append(unit)
    return result
