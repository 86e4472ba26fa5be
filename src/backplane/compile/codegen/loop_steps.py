"""The body of a loop as two functions: the first step, and all later ones.

    def program(a3):
        t4 = t5 = None
        def first(a0, a2):
            nonlocal t4, t5
            t4 = matmul(a0, a3)
            t5 = add(t4, a2, out=t4)
            t6 = tanh(t5)
            return (t6, t6)
        def later(a0, a2, r0):
            matmul(a0, a3, out=t4)
            add(t4, a2, out=t5)
            tanh(t5, out=r0)
            return (r0,)
        return first, later

Each run of a loop calls `program` with the values that do not change from step to step. The first
step makes the temporaries, to whose memory the later steps write, and views of them, which the
later steps need not cut again. Results that the loop stacks are written straight to the rows of the
stacks (`r`).
"""

from __future__ import annotations

from collections.abc import Sequence

from backplane.compile.codegen.buffers import Buffers, shape_key
from backplane.compile.codegen.programs import Emitter
from backplane.compile.codegen.tiling import Chain, Unit
from backplane.compile.source_map import Place
from backplane.core.graph import Graph, Tensor
from backplane.core.primitive import OUTPUT
from backplane.engines.base import Engine
from backplane.engines.programs import Stack, Steps
from backplane.engines.table import Entry


class StepEmitter(Emitter):
    """Writes the two functions of one body."""

    def __init__(
        self, body: Graph, outputs: Sequence[Tensor], engine: Engine, carry: int, xs: int
    ) -> None:
        """`carry` counts the states, `xs` the sequences whose rows the steps read."""
        super().__init__(body.inputs, outputs, engine, writes=True)
        self.states, self.ends = self.inputs[:carry], self.outputs[:carry]
        self.varying = self.inputs[: carry + xs]
        self.constants = self.inputs[carry + xs :]
        self.carry = carry
        self._lay_out()
        self.places: dict[Tensor, str] = {}
        for k, stack in enumerate(self.stacks):
            node = self.outputs[stack.output]
            if self._takes_place(node):
                self.places.setdefault(node, f"r{k}")
        self.kept = self._kept()
        self.is_first = True

    def _lay_out(self) -> None:
        """Decide which stacks there are. States before and after the steps lie in one array."""
        position = {t: i for i, t in enumerate(self.states)}
        ys = self.outputs[self.carry :]
        self.stacks: list[Stack] = [
            Stack(position[t], position[t]) for t in dict.fromkeys(ys) if t in position
        ]
        shared = {self.ends[s.output]: k for k, s in enumerate(self.stacks)}
        before = {self.states[s.output]: k for k, s in enumerate(self.stacks)}
        self.stacked: list[tuple[int, bool]] = []
        for i, y in enumerate(ys, self.carry):
            if y in before:
                self.stacked.append((before[y], True))
                continue
            if y not in shared:
                shared[y] = len(self.stacks)
                self.stacks.append(Stack(i))
            self.stacked.append((shared[y], False))

    # --- what is kept -----------------------------------------------------------------------------

    def _takes_place(self, node: Tensor) -> bool:
        """Whether a lowering can write `node` to memory of the same shape in each step."""
        if node.op is None or node.op is OUTPUT or node.op.multiple or node in self.host:
            return False
        entry = self.engine.table[node.op.name]
        return bool((entry.out or entry.into) and node.spec.shape) and self._is_steady(node)

    def _is_steady(self, node: Tensor) -> bool:
        """Whether the shape is certain to be the same in all steps."""
        inside = {*self.states, *self.order}
        key = shape_key(node)
        return key is not None and all(
            isinstance(size, int) or size[0] not in inside  # type: ignore[index]
            for size in key
        )

    def _kept(self) -> dict[Tensor, str]:
        """Values that serve all steps: temporaries, which die with their step, and their views."""
        buffers = Buffers(self.order, self.ends, self.engine, self.host)
        in_chains = {n for u in self.units if isinstance(u, Chain) for n in u.members}
        outputs, kept = set(self.outputs), dict[Tensor, str]()
        for node in self.order:
            if node in outputs or node in in_chains or node.op is None:
                continue
            ends = buffers.last.get(node, 0) < len(self.order)
            if (self._takes_place(node) and ends) or self._is_view(node, kept):
                kept[node] = f"k{len(kept)}"
        return kept

    def _is_view(self, node: Tensor, kept: dict[Tensor, str]) -> bool:
        assert node.op is not None
        entry = self.engine.table.get(node.op.name)
        if entry is None or not entry.view or len(node.inputs) != 1 or not node.spec.shape:
            return False
        return node.inputs[0] in kept

    def _is_free(self, t: Tensor, first: int, last: int) -> bool:
        """Whether the memory of `t` is free. Kept memory passes only to kept values."""
        kept = self.order[first] in self.kept
        return (t in self.kept) == kept and super()._is_free(t, first, last)

    # --- text -------------------------------------------------------------------------------------

    def steps(self) -> Steps:
        """The functions, and how they are to be called."""
        source = self.source
        arguments = [self.names[t] for t in self.varying]
        places = [f"r{k}" for k in range(len(self.stacks))]
        with source.block(f"def program({', '.join(self.names[t] for t in self.constants)}):"):
            if self.kept:
                source.line(f"{' = '.join(self.kept.values())} = None")
            given = dict(self.names)
            with source.block(f"def first({', '.join(arguments)}):"):
                if self.kept:
                    source.line(f"nonlocal {', '.join(self.kept.values())}")
                self._step(self.outputs)
            self.is_first, self.names = False, given
            with source.block(f"def later({', '.join([*arguments, *places])}):"):
                self._step(self.ends)
            source.line("return first, later")
        placed = [t in self.places for t in self.ends]
        return Steps(self.finished(), self.stacks, self.stacked, placed)

    def _step(self, results: Sequence[Tensor]) -> None:
        for unit in self.units:
            if self.is_first or not self._is_cut_view(unit):
                self.unit(unit)
            else:
                self.names[unit] = self.kept[unit]  # type: ignore[index]
        if not self.is_first:
            for k, stack in enumerate(self.stacks):
                node = self.outputs[stack.output]
                if self.places.get(node) != f"r{k}":
                    self.source.line(f"r{k}[...] = {self.value(node)}")
        self.source.line(f"return ({''.join([f'{self.value(t)}, ' for t in results])})")

    def _is_cut_view(self, unit: Unit) -> bool:
        """Whether the node is a view that the first step has cut for all later steps."""
        return isinstance(unit, Tensor) and unit in self.kept and not self._takes_place(unit)

    def _name(self, node: Tensor) -> str:
        kept = self.kept.get(node)
        if kept is None:
            return super()._name(node)
        self.names[node] = kept
        return kept

    def _write(self, text: str, dead: Sequence[Tensor], place: Place | None = None) -> None:
        super()._write(
            text, [t for t in dead if t not in self.kept and t not in self.places], place
        )

    def _place(self, node: Tensor) -> str | None:
        return None if self.is_first else self.kept.get(node) or self.places.get(node)

    def _assigned(self, node: Tensor, operands: list[str], entry: Entry) -> str:
        place = self._place(node)
        if place is None:
            return super()._assigned(node, operands, entry)
        self.names[node] = place
        return self._call(node, operands, place, entry)
