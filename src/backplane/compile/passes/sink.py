"""Code motion behind a loop: what steps do not hand on, and sums over the steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from backplane.compile.fuse.readers import terms_of, uses_of
from backplane.compile.passes.loop_body import (
    Known,
    Loop,
    is_accumulated,
    movable,
    over_steps,
    plus,
    weight,
)  # fmt: skip
from backplane.core.context import changed
from backplane.core.graph import Placeholder, Tensor, rebuild, substitute, toposort
from backplane.core.spec import Spec
from backplane.core.traits import Stacked
from backplane.ops.creation import dim
from backplane.ops.elementwise import add
from backplane.ops.reduction import sum as sum_


class After:
    """Moves out what no later step reads. `needs` tells what a stack is computed from."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.order = toposort(loop.outputs)
        self.known = Known(loop, loop.joining)
        self.needs: dict[Tensor, set[Tensor]] = {t: set() for t in self.known.values}
        self.stacks: dict[Tensor, Tensor] = {}
        """Stand-ins for the stacks that the loop would give."""
        self.sums = self._sums()
        steady = [t for i, t in enumerate(loop.outputs[: loop.carry]) if i not in self.sums]
        self._learn(set(toposort(steady)))
        self.given: dict[Tensor, None] = {}
        """The values of a step that the loop gives out, in the end."""

    def _sums(self) -> dict[int, list[Tensor]]:
        """The states that only add something up, with the terms that each step adds."""
        loop = self.loop
        users = uses_of(loop.outputs, self.order)
        sums = {}
        for i, (state, end) in enumerate(zip(loop.states, loop.outputs, strict=False)):
            alone = users[state] == users[end] == 1
            if not (alone and end.op is add and state.spec.is_static):
                continue
            inner = {
                t for t in toposort([end], stop=loop.states)
                if t.op is add and users[t] == 1 and t.spec == state.spec
                and all(x.spec == t.spec for x in t.inputs)
            }  # fmt: skip
            terms = [*terms_of(end.inputs, inner.__contains__)] if end in inner else []
            if terms.count(state) == 1:
                terms.remove(state)
                sums[i] = terms
        return sums

    def _learn(self, core: set[Tensor]) -> None:
        """Find what can be computed outside. `core`, which the next step needs, stays."""
        known = self.known
        for node in self.order:
            if node in known.values or not movable(node):
                continue
            values = known.values
            assert node.op is not None
            free = all(
                t in values and not (values[t].stacked and self.needs[t]) for t in node.inputs
            )
            if node in core and not free and node.op is not dim:
                continue
            if not free and _gathers(node):
                continue
            if known.add(node, [self._value(t) for t in node.inputs]):
                self.needs[node] = set().union(*[self.needs.get(t, {t}) for t in node.inputs])

    def _value(self, t: Tensor) -> Stacked:
        """The value outside of the loop for a tensor: its stack, if it is computed inside."""
        value = self.known.values.get(t)
        if value is not None:
            return value
        if t not in self.stacks:
            rows, length = self.loop.sequences, self.loop.node.params["length"]
            steps = rows[0].spec.shape[0] if rows else length
            self.stacks[t] = Placeholder(Spec((steps, *t.spec.shape), t.spec.dtype))
        return self.loop.stacked(self.stacks[t])

    def results(self) -> list[Tensor]:
        """The results of the scan, computed from a smaller scan and what follows it."""
        loop, values = self.loop, self.known.values
        ys = loop.outputs[loop.carry :]
        moved = {y for y in ys if self._is_moved(y)}
        self.given = {y: None for y in ys if y not in moved}
        for y in ys:
            if y in moved:
                self.given.update(dict.fromkeys(self._ordered(self.needs[y])))
        added, left = self._sunk()
        kept = [i for i in range(loop.carry) if i not in self.sums or left[i] is not None]
        ends = [left[i] if left.get(i) is not None else loop.outputs[i] for i in kept]
        made: list[Tensor] = []
        if kept or self.given:
            made = loop.scanned(kept, [*ends, *self.given])  # type: ignore[list-item]
        finals = dict(zip(kept, made, strict=False))
        stacked = dict(zip(self.given, made[len(kept) :], strict=True))
        mapping = {x: x for x in (*loop.sequences, *loop.constants, *loop.starts, *made)}
        mapping.update({self.stacks[t]: x for t, x in stacked.items() if t in self.stacks})
        outputs = []
        for i in range(loop.carry):
            final = finals.get(i, loop.starts[i])
            for t in added.get(i, ()):
                final = plus(loop.node, final, t)
            outputs.append(final)
        outputs += [values[y].tensor if y in moved else stacked[y] for y in ys]
        return substitute(outputs, mapping)

    def _ordered(self, tensors: set[Tensor]) -> list[Tensor]:
        """The tensors in the order of the body, which is the same in every process."""
        return [t for t in (*self.loop.states, *self.order) if t in tensors]

    def _is_moved(self, y: Tensor) -> bool:
        value = self.known.values.get(y)
        if value is None or not value.stacked:
            return False
        return not self.needs[y] or y in self.known.products

    def _sunk(self) -> tuple[dict[int, list[Tensor]], dict[int, Tensor | None]]:
        """For each state that adds something up: the sums over all steps that are taken outside,
        and what the loop still computes. Products come first; other sums follow only if their
        stacks are there.
        """
        added: dict[int, list[Tensor]] = {i: [] for i in self.sums}
        rest = {i: list(terms) for i, terms in self.sums.items()}
        for products in (True, False):
            for i, terms in rest.items():
                for t in list(terms):
                    sunk = self._sum(t, products)
                    if sunk is not None:
                        added[i].append(sunk)
                        terms.remove(t)
        left: dict[int, Tensor | None] = {}
        for i, terms in rest.items():
            end: Tensor | None = self.loop.states[i] if terms else None
            for t in terms:
                end = plus(t, end, t)  # type: ignore[arg-type]
            left[i] = end
        return added, left

    def _sum(self, t: Tensor, products: bool) -> Tensor | None:
        """The sum of a term over all steps, if it pays to take it outside."""
        if t.op is None:
            return None if products or t not in self.needs else self._total(t)
        if is_accumulated(t) and self.loop.joining.adds_up(t):
            fits = products and not any(x in self.known.large for x in t.inputs)
            return self._over_steps(t, list(t.inputs)) if fits else None
        if self._sums_first(t):
            inner = self._sum(t.inputs[0], products)
            return None if inner is None else rebuild(t, (inner,))
        if products:
            return None
        if t.op is sum_ and self._is_there(t.inputs):
            outside = self._over_steps(t, list(t.inputs))
            return self._total(t) if outside is None else outside
        return self._total(t)

    @staticmethod
    def _sums_first(t: Tensor) -> bool:
        """Whether the sum over all steps is that of the operand, which is no larger."""
        if t.op is None or t.op.linear != (0,) or len(t.inputs) > 1 or not t.spec.is_static:
            return False
        x = t.inputs[0].spec
        return x.is_static and x.dtype == t.spec.dtype and weight(x) <= weight(t.spec)

    def _is_there(self, tensors: Iterable[Tensor]) -> bool:
        """Whether the stacks of `tensors` follow from what the loop gives anyway."""
        return all(
            self.needs.get(x, {x}) <= self.given.keys() and x not in self.known.large
            for x in tensors
        )

    def _over_steps(self, t: Tensor, inputs: Sequence[Tensor]) -> Tensor | None:
        outside = over_steps(t, [self._value(x) for x in inputs])
        if outside is not None:
            needed = set().union(*[self.needs.get(x, {x}) for x in inputs])
            self.given.update(dict.fromkeys(self._ordered(needed)))
        return outside

    def _total(self, t: Tensor) -> Tensor | None:
        value = self.known.values.get(t)
        if value is None or not value.stacked or not self._is_there([t]):
            return None
        with changed(line=t.where):
            return sum_(value.tensor, axes=(0,), keepdims=False)


def _gathers(node: Tensor) -> bool:
    """Whether a node holds the elements of several operands, such as the gradients of all gates. To
    stack it takes no more room than to stack these, and nobody puts them together afterwards.
    """
    sizes = [weight(t.spec) for t in node.inputs]
    return bool(sizes) and max(sizes) < weight(node.spec) <= sum(sizes)
