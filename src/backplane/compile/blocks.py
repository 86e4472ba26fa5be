"""Chains as loops over blocks, in the text of a program.

    def chain_0(x0, x1, y0):
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

`x` are operands of the chain's shape and `y` those that are broadcast to it; `r` are results and
`b` scratch for a block, which serves one value after another. A result takes over the memory of an
operand that nobody reads afterwards. The new value of a variable takes the memory of the value
before the present one: fresh memory comes page by page from the system, which took a third of an
Adam step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from backplane.compile.chains import Chain
from backplane.core.graph import Tensor
from backplane.core.spec import bits

BLOCK = 1 << 17
"""Bytes of one array's block: half a dozen such blocks stay in a second-level cache of 1 MB. Blocks
of 64 KB took 1.08 of the time, of 256 KB 0.97."""

Call = Callable[[Tensor, list[str], str], str]
"""Writes the call of a node's lowering on operands, into a named array."""

Line = tuple[str, Tensor | None]
"""A line of text, and the node that it computes."""


class Blocks:
    """Writes the function of one chain."""

    def __init__(
        self,
        chain: Chain,
        used: Collection[Tensor],
        dying: Collection[Tensor],
        pools: Mapping[Tensor, str],
        call: Call,
    ) -> None:
        """`used` are the nodes that are read outside, `dying` the operands whose memory may be
        written to, `pools` name the rooms of nodes that become values of variables; `call`
        writes lowerings.
        """
        self.chain = chain
        self.call = call
        self.stored = [n for n in chain.nodes if n in used]
        self.tails = [n for n in chain.tails if n in used]
        self.results = [*self.stored, *self.tails]
        self.whole = chain.whole()
        self.partial = [t for t in chain.operands() if t not in set(self.whole)]
        self.operands = [*self.whole, *self.partial]
        self.pools = pools
        self.last = {t: i for i, n in enumerate(chain.nodes) for t in n.inputs}
        self.memory = self._memory(dying)
        self.names: dict[Tensor, str] = {
            **{t: f"u{i}" for i, t in enumerate(self.whole)},
            **{t: f"y{i}" for i, t in enumerate(self.partial)},
        }
        self.scratch: dict[str, str] = {}
        self.free: list[str] = []

    def _memory(self, dying: Collection[Tensor]) -> dict[Tensor, str]:
        """For stored nodes, the operand whose memory they take over: one that the chain does not
        read after the node has been written.
        """
        given: dict[Tensor, str] = {}
        left = [(i, t) for i, t in enumerate(self.whole) if t in dying]
        for position, node in enumerate(self.chain.nodes):
            if node not in self.stored or node in self.pools:
                continue
            for k, (i, t) in enumerate(left):
                if t.spec.dtype == node.spec.dtype and self.last[t] <= position:
                    given[node] = f"x{i}"
                    del left[k]
                    break
        return given

    def lines(self, name: str) -> list[Line]:
        """The text of the function; it returns the values of `results`."""
        body = [line for i, node in enumerate(self.chain.nodes) for line in self._node(i, node)]
        found = [f"def {name}({', '.join(self._parameters())}):", *self._head(), *self._slices()]
        back = [f"r{k}" for k in range(len(self.stored))]
        back += [self._combined(k, t) for k, t in enumerate(self.tails)]
        return [
            *[(text, None) for text in found],
            *body,
            (f"    return ({', '.join(back)},)", None),
        ]

    def _parameters(self) -> list[str]:
        xs = [f"x{i}" for i in range(len(self.whole))]
        return [*xs, *[f"{self.names[t]}{'_' * self._is_sliced(t)}" for t in self.partial]]

    def _is_sliced(self, t: Tensor) -> bool:
        """Whether a broadcast operand has the first axis of the chain."""
        return t.ndim == len(self.chain.key) and t.spec.shape[0] != 1

    def _head(self) -> list[str]:
        """Results, and everything as arrays that are cut along their first axis."""
        lines = []
        for k, node in enumerate(self.stored):
            pool, dtype = self.pools.get(node), node.spec.dtype
            made = f"{pool}.empty(" if pool else "empty("
            lines.append(f"    r{k} = {self.memory.get(node) or f'{made}x0.shape, {dtype!r})'}")
        arrays = [f"x{i}" for i in range(len(self.whole))]
        arrays += [f"r{k}" for k in range(len(self.stored))]
        views = [f"v{i}" for i in range(len(self.whole))]
        views += [f"o{k}" for k in range(len(self.stored))]
        flatten = len(self.chain.key) > 1 and all(t.ndim == 0 for t in self.partial)
        call = "flat" if flatten else ""
        lines.append(f"    {', '.join(views)}, = {call}({', '.join(arrays)},)")
        specs = [t.spec for t in (*self.whole, *self.chain.nodes)]
        widest = max([bits(spec.dtype) // 8 for spec in specs])
        lines.append(f"    step = rows(v0, {BLOCK // widest})")
        lines += [
            f"    {b} = empty((step, *v0.shape[1:]), {dtype!r})"
            for b, dtype in self.scratch.items()
        ]
        return [*lines, *[f"    p{k} = []" for k in range(len(self.tails))]]

    def _slices(self) -> list[str]:
        """The beginning of the loop."""
        lines = ["    for i in range(0, len(v0), step):", "        j = i + step"]
        lines += [f"        u{i} = v{i}[i:j]" for i in range(len(self.whole))]
        lines += [f"        q{k} = o{k}[i:j]" for k in range(len(self.stored))]
        sliced = [self.names[t] for t in self.partial if self._is_sliced(t)]
        lines += [f"        {y} = {y}_[i:j]" for y in sliced]
        if self.scratch:
            lines.append("        if len(u0) < step:")
            lines += [f"            {b} = {b}[:len(u0)]" for b in self.scratch]
        return lines

    def _node(self, i: int, node: Tensor) -> list[Line]:
        """The lines that compute a node of a block, and reduce it where a tail asks for it."""
        operands = [self.names[t] for t in node.inputs]
        done = [self.names[t] for t in dict.fromkeys(node.inputs) if self.last[t] == i]
        self.free += [name for name in done if name in self.scratch]
        name = self.names[node] = self._target(node)
        lines: list[Line] = [(f"        {self.call(node, operands, name)}", node)]
        for k, tail in enumerate(self.tails):
            if tail.inputs[0] is node:
                lines.append((f"        p{k}.append(reduced_{tail.op.name}({name}))", tail))  # type: ignore[union-attr]
        if node not in self.last and name in self.scratch:
            self.free.append(name)
        return lines

    def _target(self, node: Tensor) -> str:
        """Where a node is written: the place of a result, or scratch that is free."""
        if node in self.stored:
            return f"q{self.stored.index(node)}"
        dtype = node.spec.dtype
        for name in reversed(self.free):
            if self.scratch[name] == dtype:
                self.free.remove(name)
                return name
        name = f"b{len(self.scratch)}"
        self.scratch[name] = dtype
        return name

    def _combined(self, k: int, tail: Tensor) -> str:
        op = tail.op.name  # type: ignore[union-attr]
        whole = f"combined({op!r}, p{k}, x0, {tail.spec.dtype!r})"
        return f"{whole}.reshape({tail.spec.shape!r})" if tail.ndim else whole
