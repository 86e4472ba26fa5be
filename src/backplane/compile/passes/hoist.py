"""Loop-invariant code motion and more: what all steps can do at once leaves the loop.

*Before* the loop: whatever a step computes from its row of the sequences alone, such as `x_t · W +
b`. One node computes it for all steps, and the loop gets the rows of the result.

*After* the loop (in `passes.sink`): whatever a step gives out but does not hand on to the next
step, such as a readout `h_t · V` or the gradient `dz_t · Wᵀ` of a step's input. It is computed from
the stacks of what it needs. A sum over the steps, such as the gradient `Σ h_tᵀ · dz_t` of a weight,
is one product of stacks.

The price is memory: there are stacks in place of single rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from backplane.compile.fuse.readers import terms_of, uses_of
from backplane.compile.passes.loop_body import Joining, Known, Loop, movable, plus
from backplane.compile.passes.sink import After
from backplane.core.graph import (
    Placeholder,
    Results,
    Tensor,
    rebuild,
    rewrite,
    substitute,
    toposort,
)
from backplane.core.sizes import tie_all
from backplane.ops.control import scan_
from backplane.ops.elementwise import add


def hoist(outputs: Sequence[Tensor], joining: Joining) -> list[Tensor]:
    """Equal outputs, whose scans leave to single nodes what all steps can do at once."""

    def smaller(node: Tensor, inputs: tuple[Tensor, ...]) -> Results | None:
        if node.op is not scan_:
            return None
        loop = Loop(node, inputs, joining)
        if loop.rows:
            _Before(loop).move()
        loop.turn()
        return dict(enumerate(After(loop).results()))

    return rewrite(outputs, smaller, keep_specs=True)


class _Before:
    """Moves to the front of a loop what its steps compute from the rows of the sequences alone."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.known = Known(loop, loop.joining.early())

    def move(self) -> None:
        """Let the loop take the stacks of the moved nodes as further sequences."""
        loop, known = self.loop, self.known
        for node in toposort(loop.outputs):
            if movable(node) and all(t in known.values for t in node.inputs):
                known.add(node, [known.values[t] for t in node.inputs])
        self._regroup()
        fresh = {node: Placeholder(node.spec) for node in self._edge()}
        tie_all([*fresh.values()], [*fresh])
        loop.outputs = substitute(loop.outputs, fresh)
        loop.rows += fresh.values()
        loop.sequences += [known.values[node].tensor for node in fresh]

    def _is_known(self, t: Tensor) -> bool:
        return t in self.known.values

    def _edge(self) -> list[Tensor]:
        """The known nodes that the rest of the body reads."""
        order = toposort(self.loop.outputs)
        needed = set(self.loop.outputs)
        edge = []
        for node in reversed(order):
            if node not in needed:
                continue
            value = self.known.values.get(node)
            own = value is not None and node.op is not None and value.stacked
            if own and self.known.pays(node):
                edge.append(node)
            else:
                needed.update(node.inputs)
        return edge[::-1]

    def _regroup(self) -> None:
        """Turn (x · W + h · U) + b into (x · W + b) + h · U, which saves one sum in each step."""
        inner = self._inner(toposort(self.loop.outputs))
        partial: set[Tensor] = set()

        def regrouped(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
            if node.op is not add or self._is_known(node):
                return None
            plain = node if inputs == node.inputs else rebuild(node, inputs)
            if node in inner:
                partial.add(plain)
                return plain
            grouped = self._grouped(node, [*terms_of(plain.inputs, partial.__contains__)])
            return plain if grouped is None else grouped

        self.loop.outputs = rewrite(self.loop.outputs, regrouped)

    def _inner(self, order: Sequence[Tensor]) -> set[Tensor]:
        """The sums that are only terms of other sums."""
        users = uses_of(self.loop.outputs, order)
        return {
            t
            for node in order
            if node.op is add and not self._is_known(node)
            for t in node.inputs
            if t.op is add and users[t] == 1 and not self._is_known(t)
        }

    def _grouped(self, node: Tensor, terms: Sequence[Tensor]) -> Tensor | None:
        """The sum of `terms`, in which the terms that are known outside stand together."""
        known = self.known
        early = [t for t in terms if self._is_known(t)]
        if len(early) < 2 or not any(t in known.products for t in early):
            return None
        early.sort(key=lambda t: t.ndim, reverse=True)
        group = early[0]
        for t in early[1:]:
            pair, group = (group, t), plus(node, group, t)
            if not known.add(group, [known.values[x] for x in pair]):
                return None
        result = group
        for t in [t for t in terms if not self._is_known(t)]:
            result = plus(node, t, result)
        return result if result.spec == node.spec else None
