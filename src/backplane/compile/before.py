"""Before a loop: what its steps compute from the rows of the sequences alone."""

from __future__ import annotations

from collections.abc import Sequence

from backplane.compile.bodies import Known, Loop, is_add, movable, terms_of, users_of
from backplane.compile.stacking import plus
from backplane.core.graph import Placeholder, Tensor, rebuild, substitute, toposort
from backplane.core.sizes import tie


class Before:
    """Moves out what depends on the rows of the sequences alone."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.known = Known(loop.outside())

    def move(self) -> None:
        """Let the loop take the stacks of what was moved as further sequences."""
        loop, known = self.loop, self.known
        for node in toposort(loop.outputs):
            if movable(node) and all(t in known.values for t in node.inputs):
                known.add(node, [known.values[t] for t in node.inputs])
        self._regroup()
        fresh = {node: _stand_in(node) for node in self._edge()}
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
            if value is None or node.op is None:
                needed.update(node.inputs)
            elif value.stacked and self.known.pays(node):
                edge.append(node)
            else:
                needed.update(node.inputs)
        return edge[::-1]

    def _regroup(self) -> None:
        """(x · W + h · U) + b becomes (x · W + b) + h · U: one sum less in each step."""
        order = toposort(self.loop.outputs)
        inner = self._inner(order)
        new: dict[Tensor, Tensor] = {}
        for node in order:
            inputs = tuple([new[t] for t in node.inputs])
            same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
            new[node] = node if same else rebuild(node, inputs)
            if is_add(node) and node not in inner and not self._is_known(node):
                terms = [new[t] for t in terms_of(node, inner)]
                grouped = self._grouped(node, terms)
                new[node] = new[node] if grouped is None else grouped
        self.loop.outputs = [new[t] for t in self.loop.outputs]

    def _inner(self, order: Sequence[Tensor]) -> set[Tensor]:
        """The sums that are only terms of other sums."""
        users = users_of(order, self.loop.outputs)
        return {
            t
            for node in order
            if is_add(node) and not self._is_known(node)
            for t in node.inputs
            if is_add(t) and users[t] == 1 and not self._is_known(t)
        }

    def _grouped(self, node: Tensor, terms: Sequence[Tensor]) -> Tensor | None:
        """The sum of `terms` with those known outside taken together."""
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


def _stand_in(node: Tensor) -> Placeholder:
    """An input of the body in place of a node of it, known to have the same unknown sizes."""
    fresh = Placeholder(node.spec)
    for i, n in enumerate(node.spec.shape):
        if n is None:
            tie(fresh, i, node, i)
    return fresh
