"""Loop tiling: computes chains of element-wise operations on large arrays block by block.

A ufunc on a large array is only as fast as memory. If several of them follow each other, a block of
the operands that fits into the cache goes through all of them before the next block is read:

    def chain(x0, x1, y0):
        r0 = x1
        v0, v1, o0, = flat(x0, x1, r0)
        step = rows(v0, 32768)
        b0 = empty((step, *v0.shape[1:]), 'float32')
        for i in range(0, len(v0), step):
            j = i + step
            u0 = v0[i:j]
            u1 = v1[i:j]
            q0 = o0[i:j]
            if len(u0) < step:
                b0 = b0[:len(u0)]
            mul(u0, y0, out=b0)
            add(b0, u1, out=q0)
        return (r0,)

`x` are operands of the chain's shape, and `y` are operands that are broadcast to it. `r` are
results, and `b` is scratch memory for a block, which serves one value after another. A result takes
over the memory of an operand that nobody reads afterwards. The new value of a variable takes the
memory of the value before the present one, because fresh memory comes page by page from the system,
which took a third of an Adam step.

Levels decide which nodes form a chain. From the leaves to the outputs, the level grows by one at
each edge, except between element-wise nodes of equal shapes. So a value that leaves a chain and
comes back to its shape has a higher level. Connected nodes of one level and one shape can therefore
run together, at one place of the program.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence

from backplane.compile.codegen.buffers import ShapeKey, shape_key
from backplane.compile.source_map import Place, place_of
from backplane.core.graph import Tensor
from backplane.core.primitive import OUTPUT
from backplane.core.shapes import elements
from backplane.core.source import Source
from backplane.core.spec import bits
from backplane.ops import reduction

BLOCK = 1 << 17
"""Bytes of one array's block: half a dozen such blocks stay in a second-level cache of 1 MB. Blocks
of 64 KB took 1.08 of the time, of 256 KB 0.97."""

REDUCTIONS = (reduction.sum, reduction.mean, reduction.max, reduction.min)
"""Reductions that may end a chain, where they reduce all axes: `Engine.blocks` has them."""

Passes = Callable[[Tensor], int]
"""The number of passes over memory that an element-wise node takes; 0 for other nodes."""

Call = Callable[[Tensor, list[str], str], str]
"""Writes the call of a node's lowering on operands, into a named array."""


class Chain:
    """Nodes that run together, of one shape; `tails` reduce some of them to scalars."""

    def __init__(self, node: Tensor, key: ShapeKey) -> None:
        self.nodes = [node]
        self.key = key
        self.tails: list[Tensor] = []

    @property
    def members(self) -> list[Tensor]:
        """All nodes, each reduction after the node that it reduces."""
        return [*self.nodes, *self.tails]

    def whole(self) -> list[Tensor]:
        """The operands from outside that have the chain's shape."""
        return [t for t in self.operands() if shape_key(t) == self.key]

    def operands(self) -> list[Tensor]:
        """The tensors that the nodes read from outside, each once, in order."""
        inside = set(self.nodes)
        return list(dict.fromkeys(t for n in self.nodes for t in n.inputs if t not in inside))

    @property
    def least_size(self) -> int:
        """The number of its elements, if each unknown size is 1."""
        return elements(self.nodes[0].spec.shape)


Unit = Tensor | Chain


def fits(t: Tensor, key: ShapeKey) -> bool:
    """Whether `t` is certain to broadcast to the shape of `key`."""
    own = shape_key(t)
    if own is None or len(own) > len(key):
        return False
    return all(n in (1, m) for n, m in zip(reversed(own), reversed(key), strict=False))


def units(
    order: Sequence[Tensor], outputs: Sequence[Tensor], passes: Passes, large: float
) -> list[Unit]:
    """`order`, with chains in the place of their nodes, and the users of a chain behind it. Chains
    are of arrays that may have `large` elements, from which on blocks pay.
    """
    keys = _keys(order, passes, large)
    chains = _chains(order, outputs, keys, passes) if keys else []
    if not chains:
        return list(order)
    return _scheduled(order, {n: chain for chain in chains for n in chain.members})


def _keys(order: Sequence[Tensor], passes: Passes, large: float) -> dict[Tensor, ShapeKey]:
    """The nodes that can be in chains, with the keys of their shapes."""
    keys: dict[Tensor, ShapeKey] = {}
    for node in order:
        if node.op is None or node.op is OUTPUT or not passes(node):
            continue
        shape = node.spec.shape
        if not shape or (None not in shape and elements(shape) < large):
            continue
        key = shape_key(node)
        if key is not None and all(fits(t, key) for t in node.inputs):
            keys[node] = key
    return keys


def _levels(
    order: Sequence[Tensor], outputs: Sequence[Tensor], keys: dict[Tensor, ShapeKey]
) -> dict[Tensor, int]:
    """The level of each node: as low as its operands allow, then as high as its users allow.

    An element-wise node moves up to its users unless that keeps two large temporaries alive in
    place of one. So what is computed from a variable alone, for its update, joins the gradient
    there.
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
    keys: dict[Tensor, ShapeKey],
    passes: Passes,
) -> list[Chain]:
    level = _levels(order, outputs, keys)
    chain_of: dict[Tensor, Chain] = {}
    for node in order:
        if node not in keys:
            _end(node, keys, chain_of)
            continue
        mine = chain_of[node] = Chain(node, keys[node])
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
    chains = []
    for chain in dict.fromkeys(chain_of.values()):
        count = sum([passes(n) for n in chain.nodes]) + len(chain.tails)
        if count > 1 and chain.whole():
            chain.nodes.sort(key=position.__getitem__)
            chains.append(chain)
    return chains


def _end(node: Tensor, keys: dict[Tensor, ShapeKey], chain_of: dict[Tensor, Chain]) -> None:
    """Let a reduction over all elements end the chain that it reduces."""
    if node.op not in REDUCTIONS:
        return
    (x,) = node.inputs
    whole = len(node.params["axes"]) == x.ndim
    if whole and x in keys and x.spec.dtype in ("float32", "float64"):
        chain_of[x].tails.append(node)
        chain_of[node] = chain_of[x]


def _scheduled(order: Sequence[Tensor], chain_of: dict[Tensor, Chain]) -> list[Unit]:
    """The units in an order in which each comes after those that it reads, else as in `order`."""
    inside = set(order)
    done: set[Unit] = set()
    result: list[Unit] = []
    stack: list[Unit] = [chain_of.get(t, t) for t in reversed(order)]
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


class Loop:
    """Writes the function of one chain, which is a loop over blocks."""

    def __init__(
        self,
        chain: Chain,
        used: Collection[Tensor],
        free: Collection[Tensor],
        pools: Mapping[Tensor, str],
        places: Mapping[Tensor, str],
        call: Call,
    ) -> None:
        """`used` are the nodes that are read outside, and `free` the operands whose memory may be
        written to. `pools` names the sources of memory for nodes that become values of variables,
        and `places` the arrays to which other results are written. `call` writes the call of a
        lowering.
        """
        self.chain = chain
        self.call = call
        self.stored = {n: f"q{k}" for k, n in enumerate(n for n in chain.nodes if n in used)}
        self.tails = [n for n in chain.tails if n in used]
        self.results = [*self.stored, *self.tails]
        self.whole = chain.whole()
        whole = set(self.whole)
        self.partial = [t for t in chain.operands() if t not in whole]
        self.operands = [*self.whole, *self.partial]
        self.reduced: dict[Tensor, list[tuple[int, Tensor]]] = defaultdict(list)
        for k, tail in enumerate(self.tails):
            self.reduced[tail.inputs[0]].append((k, tail))
        self.pools = pools
        self.places = {n: f"w{i}" for i, n in enumerate(n for n in self.stored if n in places)}
        self.arguments = [places[n] for n in self.places]
        """The arguments of the function behind the values of `operands`."""
        self.last = {t: i for i, n in enumerate(chain.nodes) for t in n.inputs}
        self.memory = self._memory(free)
        self.names: dict[Tensor, str] = {
            **{t: f"u{i}" for i, t in enumerate(self.whole)},
            **{t: f"y{i}" for i, t in enumerate(self.partial)},
        }
        self.dtypes: dict[str, str] = {}
        """The arrays of scratch, with their dtypes."""
        self.free: dict[str, list[str]] = defaultdict(list)
        """By dtype, the scratch that holds nothing that is still read."""

    def _memory(self, free: Collection[Tensor]) -> dict[Tensor, str]:
        """For each stored node, the operand whose memory it takes over, which is not read later."""
        given = dict(self.places)
        number = {t: i for i, t in enumerate(self.whole)}
        left: dict[str, list[Tensor]] = defaultdict(list)
        for position, node in enumerate(self.chain.nodes):
            for t in dict.fromkeys(node.inputs):
                if t in free and self.last[t] == position:
                    left[t.spec.dtype].append(t)
            if node not in self.stored or node in self.pools or node in given:
                continue
            if left[node.spec.dtype]:
                given[node] = f"x{number[left[node.spec.dtype].pop()]}"
        return given

    def write(self, source: Source, name: str) -> None:
        """Write the function, which returns the values of `results`."""
        whole, stored = range(len(self.whole)), range(len(self.stored))
        body: list[tuple[str, Place]] = []
        for i, node in enumerate(self.chain.nodes):
            body += self._lines(i, node)
        parameters = [f"x{i}" for i in whole]
        parameters += [f"{self.names[t]}{'_' * self._is_sliced(t)}" for t in self.partial]
        with source.block(f"def {name}({', '.join([*parameters, *self.places.values()])}):"):
            self._write_head(source)
            with source.block("for i in range(0, len(v0), step):"):
                source.line("j = i + step")
                cut = [(f"u{i}", f"v{i}") for i in whole] + [(f"q{k}", f"o{k}") for k in stored]
                sliced = [self.names[t] for t in self.partial if self._is_sliced(t)]
                for target, array in [*cut, *[(y, f"{y}_") for y in sliced]]:
                    source.line(f"{target} = {array}[i:j]")
                if self.dtypes:
                    with source.block("if len(u0) < step:"):
                        for b in self.dtypes:
                            source.line(f"{b} = {b}[:len(u0)]")
                for text, place in body:
                    source.line(text, place)
            back = [f"r{k}" for k in stored]
            back += [self._combined(k, t) for k, t in enumerate(self.tails)]
            source.line(f"return ({', '.join(back)},)")

    def _is_sliced(self, t: Tensor) -> bool:
        """Whether a broadcast operand has the first axis of the chain."""
        return t.ndim == len(self.chain.key) and t.spec.shape[0] != 1

    def _write_head(self, source: Source) -> None:
        """Write the results; cut everything along its first axis."""
        for k, node in enumerate(self.stored):
            pool, dtype = self.pools.get(node), node.spec.dtype
            made = f"{pool}.empty(" if pool else "empty("
            source.line(f"r{k} = {self.memory.get(node) or f'{made}x0.shape, {dtype!r})'}")
        whole, stored = range(len(self.whole)), range(len(self.stored))
        arrays = [*[f"x{i}" for i in whole], *[f"r{k}" for k in stored]]
        views = [*[f"v{i}" for i in whole], *[f"o{k}" for k in stored]]
        flatten = len(self.chain.key) > 1 and all(t.ndim == 0 for t in self.partial)
        source.line(f"{', '.join(views)}, = {'flat' * flatten}({', '.join(arrays)},)")
        widest = max([bits(t.spec.dtype) // 8 for t in (*self.whole, *self.chain.nodes)])
        source.line(f"step = rows(v0, {BLOCK // widest})")
        for b, dtype in self.dtypes.items():
            source.line(f"{b} = empty((step, *v0.shape[1:]), {dtype!r})")
        for k in range(len(self.tails)):
            source.line(f"p{k} = []")

    def _lines(self, i: int, node: Tensor) -> list[tuple[str, Place]]:
        """Write the lines that compute a node of a block, and reduce it if a tail asks for that."""
        assert node.op is not None
        operands = [self.names[t] for t in node.inputs]
        for t in dict.fromkeys(node.inputs):
            if self.last[t] == i:
                self._release(self.names[t])
        name = self.names[node] = self.stored.get(node) or self._scratch(node.spec.dtype)
        lines = [(self.call(node, operands, name), place_of(node))]
        for k, tail in self.reduced.get(node, ()):
            assert tail.op is not None
            text = f"p{k}.append(reduced_{tail.op.name}({name}))"
            lines.append((text, place_of(tail)))
        if node not in self.last:
            self._release(name)
        return lines

    def _release(self, name: str) -> None:
        if name in self.dtypes:
            self.free[self.dtypes[name]].append(name)

    def _scratch(self, dtype: str) -> str:
        """Scratch memory for a block that holds nothing still to be read."""
        if self.free[dtype]:
            return self.free[dtype].pop()
        name = f"b{len(self.dtypes)}"
        self.dtypes[name] = dtype
        return name

    def _combined(self, k: int, tail: Tensor) -> str:
        assert tail.op is not None
        whole = f"combined({tail.op.name!r}, p{k}, x0, {tail.spec.dtype!r})"
        return f"{whole}.reshape({tail.spec.shape!r})" if tail.ndim else whole
