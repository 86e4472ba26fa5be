"""Moving work out of loops: what all steps can do at once is done before or after the steps.

*Before*: what a step computes from its row of the sequences alone, such as `x_t · W + b`, is
computed for all steps by one node, and the loop gets the rows of the result.

*After*: what is computed from a step and given out, but not handed on to the next step, such as a
readout `h_t · V` or the gradient `dz_t · Wᵀ` of a step's input, is computed from the stack of what
it needs. A sum over the steps, such as the gradient `Σ h_tᵀ · dz_t` of a weight, is one product of
stacks.

The price is memory: stacks instead of single rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from backplane.compile.loops import prune
from backplane.compile.simplify import simplify
from backplane.compile.stacking import (
    Value,
    all_steps,
    few_rows,
    is_accumulated,
    over_steps,
    plus,
    swapped,
    total,
)
from backplane.core.graph import (
    Constant,
    Graph,
    Placeholder,
    Tensor,
    rebuild,
    substitute,
    toposort,
)
from backplane.core.primitive import OUTPUT, outputs_of
from backplane.core.sizes import tie
from backplane.core.spec import Spec

LINEAR = frozenset(("neg", "transpose", "reshape", "expand_dims", "squeeze", "slice_grad", "pad"))
"""Primitives of one operand for which the sum of the results is the result of the sum."""


def hoist(outputs: Sequence[Tensor]) -> list[Tensor]:
    """Equal outputs, whose scans leave to single nodes what all steps can do at once."""
    order = toposort(outputs)
    new: dict[Tensor, Tensor] = {}
    results: dict[Tensor, list[Tensor]] = {}
    for node in order:
        if node.op is OUTPUT and node.inputs[0] in results:
            new[node] = results[node.inputs[0]][node.params["index"]]
            continue
        inputs = tuple([new[t] for t in node.inputs])
        if node.op is not None and node.op.name == "scan":
            results[node] = _Loop(node, inputs).run()
            new[node] = node  # stands for the results
        else:
            same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
            new[node] = node if same else rebuild(node, inputs, keep_spec=True)
    return [new[t] for t in outputs]


def streamlined(outputs: Sequence[Tensor]) -> list[Tensor]:
    """Equal outputs, whose scans compute only what is needed and only what must be in a loop."""
    return prune(hoist(prune(outputs)))


class _Loop:
    """One scan: its body, taken apart, and the operands of the body's inputs."""

    def __init__(self, node: Tensor, operands: Sequence[Tensor]) -> None:
        body: Graph = node.params["body"]
        self.node, self.carry = node, node.params["carry"]
        n, m = self.carry, self.carry + node.params["xs"]
        numbers = {
            t: x for t, x in zip(body.inputs[m:], operands[m:], strict=True) if _is_number(x)
        }
        self.outputs = simplify(body.outputs, numbers, keep_stops=True)
        self.states, self.starts = list(body.inputs[:n]), list(operands[:n])
        self.rows, self.sequences = list(body.inputs[n:m]), list(operands[n:m])
        self.shared, self.constants = list(body.inputs[m:]), list(operands[m:])

    def run(self) -> list[Tensor]:
        """The results of the scan."""
        if self.rows:
            _Before(self).move()
        self._turn()
        return _After(self).results()

    def _turn(self) -> None:
        """Transpose the weights of x · Wᵀ once, instead of reading them across in each step."""
        turned: dict[Tensor, Tensor] = {}
        new: dict[Tensor, Tensor] = {}
        operand = dict(zip(self.shared, self.constants, strict=True))
        for node in toposort(self.outputs):
            if _is_product(node) and node.params["transpose_y"] and node.inputs[1] in operand:
                x, w = node.inputs
                if w not in turned:
                    turned[w] = Placeholder(w.spec.with_shape(w.spec.shape[::-1]))
                params = {**node.params, "transpose_y": False}
                new[node] = Tensor(node.op, (x, turned[w]), params, node.spec, node.where)
        self.shared += turned.values()
        self.constants += [swapped(w, operand[w]) for w in turned]
        self.outputs = _replaced(self.outputs, new)

    def outside(self) -> dict[Tensor, Value]:
        """What stands outside for the inputs that do not change from step to step, and for the
        constants.
        """
        known = {t: Value(x, True) for t, x in zip(self.rows, self.sequences, strict=True)}
        for t, x in zip(self.shared, self.constants, strict=True):
            known[t] = Value(x, False)
        for t in toposort(self.outputs):
            if isinstance(t, Constant):
                known[t] = Value(t, False)
        return known

    def scanned(self, kept: Sequence[int], outputs: Sequence[Tensor]) -> list[Tensor]:
        """The results of a scan with the `kept` states, and these outputs of its body."""
        states = [self.states[i] for i in kept]
        body = Graph([*states, *self.rows, *self.shared], outputs)
        operands = [self.starts[i] for i in kept] + self.sequences + self.constants
        params = {
            **self.node.params, "body": body, "carry": len(kept), "xs": len(self.rows),
        }  # fmt: skip
        op, where = self.node.op, self.node.where
        assert op is not None
        spec = op.infer(operands, params)
        return outputs_of(Tensor(op, tuple(operands), params, spec, where))


def _is_product(node: Tensor) -> bool:
    return node.op is not None and node.op.name == "matmul" and node.ndim == 2


def _replaced(outputs: Sequence[Tensor], replacing: dict[Tensor, Tensor]) -> list[Tensor]:
    """`outputs` with nodes replaced by nodes on the same operands."""
    new: dict[Tensor, Tensor] = {}
    for node in toposort(outputs):
        target = replacing.get(node, node)
        inputs = tuple([new.get(t, t) for t in target.inputs])
        same = all(a is b for a, b in zip(inputs, target.inputs, strict=True))
        new[node] = target if same else rebuild(target, inputs)
    return [new[t] for t in outputs]


def _is_number(t: Tensor) -> bool:
    return isinstance(t, Constant) and isinstance(t.value, np.ndarray) and t.value.ndim == 0


def _movable(node: Tensor) -> bool:
    return (
        node.op is not None and node.op is not OUTPUT and not (node.op.effect or node.op.multiple)
    )


def _weight(spec: Spec) -> int:
    """About how many elements; an unknown size counts as a middling one."""
    return int(np.prod([32 if n is None else n for n in spec.shape], dtype=np.int64))


class _Known:
    """What of a body is known outside of the loop, and what it takes."""

    def __init__(self, values: dict[Tensor, Value]) -> None:
        self.values = values
        self.products: set[Tensor] = set()
        """Nodes whose stacks are computed from a product: moving those pays."""
        self.large: set[Tensor] = set()
        """Nodes whose stacks take more room than what they are computed from."""

    def add(self, node: Tensor, operands: Sequence[Value]) -> bool:
        """Find what stands outside for `node`; whether there is such a thing."""
        value = all_steps(node, operands)
        if value is None:
            return False
        self.values[node] = value
        if value.stacked:
            assert node.op is not None
            if node.op.name == "matmul" or any(t in self.products for t in node.inputs):
                self.products.add(node)
            sizes = [
                _weight(t.spec) for t, v in zip(node.inputs, operands, strict=True) if v.stacked
            ]
            if _weight(node.spec) > max(sizes) or any(t in self.large for t in node.inputs):
                self.large.add(node)
        return True

    def pays(self, node: Tensor) -> bool:
        """Whether all steps at once are faster than step by step."""
        return node in self.products or node not in self.large


# --- before the loop ------------------------------------------------------------------------------


class _Before:
    """Moves out what depends on the rows of the sequences alone."""

    def __init__(self, loop: _Loop) -> None:
        self.loop = loop
        self.known = _Known(loop.outside())

    def move(self) -> None:
        """Let the loop take the stacks of what was moved as further sequences."""
        loop, known = self.loop, self.known
        for node in toposort(loop.outputs):
            if _movable(node) and all(t in known.values for t in node.inputs):
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
            if _is_add(node) and node not in inner and not self._is_known(node):
                terms = [new[t] for t in _terms(node, inner)]
                grouped = self._grouped(node, terms)
                new[node] = new[node] if grouped is None else grouped
        self.loop.outputs = [new[t] for t in self.loop.outputs]

    def _inner(self, order: Sequence[Tensor]) -> set[Tensor]:
        """The sums that are only terms of other sums."""
        users = _users(order, self.loop.outputs)
        return {
            t
            for node in order
            if _is_add(node) and not self._is_known(node)
            for t in node.inputs
            if _is_add(t) and users[t] == 1 and not self._is_known(t)
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


def _is_add(node: Tensor) -> bool:
    return node.op is not None and node.op.name == "add"


def _users(order: Iterable[Tensor], outputs: Sequence[Tensor]) -> Counter[Tensor]:
    """How often each tensor is read, as an operand or as an output."""
    users = Counter(outputs)
    for node in order:
        users.update(node.inputs)
    return users


def _terms(node: Tensor, inner: set[Tensor]) -> list[Tensor]:
    """The terms of a sum whose partial sums are `inner`."""
    terms = []
    stack = [*reversed(node.inputs)]
    while stack:
        t = stack.pop()
        if t in inner:
            stack += reversed(t.inputs)
        else:
            terms.append(t)
    return terms


# --- after the loop -------------------------------------------------------------------------------


class _After:
    """Moves out what no later step reads. `needs` says of which values of the steps a node's
    stack is computed.
    """

    def __init__(self, loop: _Loop) -> None:
        self.loop = loop
        self.order = toposort(loop.outputs)
        self.known = _Known(loop.outside())
        self.needs: dict[Tensor, set[Tensor]] = {t: set() for t in self.known.values}
        self.stacks: dict[Tensor, Tensor] = {}
        """Stand-ins for the stacks that the loop would give."""
        self.sums = self._sums()
        steady = [t for i, t in enumerate(loop.outputs[: loop.carry]) if i not in self.sums]
        self._learn(set(toposort(steady)))
        self.given: dict[Tensor, None] = {}
        """The values of a step that the loop gives out, in the end."""

    def _sums(self) -> dict[int, list[Tensor]]:
        """The states that only add up something, with the terms of each step."""
        loop = self.loop
        users = _users(self.order, loop.outputs)
        found = {}
        for i, (state, end) in enumerate(zip(loop.states, loop.outputs, strict=False)):
            alone = users[state] == users[end] == 1
            if not (alone and _is_add(end) and state.spec.is_static):
                continue
            inner = {
                t for t in toposort([end], stop=loop.states)
                if _is_add(t) and users[t] == 1 and t.spec == state.spec
                and all(x.spec == t.spec for x in t.inputs)
            }  # fmt: skip
            terms = _terms(end, inner) if end in inner else []
            if terms.count(state) == 1:
                terms.remove(state)
                found[i] = terms
        return found

    def _learn(self, core: set[Tensor]) -> None:
        """Find what can be computed outside. `core` is what the next step needs: it stays."""
        known = self.known
        for node in self.order:
            if node in known.values or not _movable(node):
                continue
            values = known.values
            assert node.op is not None
            free = all(
                t in values and not (values[t].stacked and self.needs[t]) for t in node.inputs
            )
            if node in core and not free and node.op.name != "dim":
                continue
            if known.add(node, [self._value(t) for t in node.inputs]):
                self.needs[node] = set().union(*[self.needs.get(t, {t}) for t in node.inputs])

    def _value(self, t: Tensor) -> Value:
        """What stands outside for a tensor: if it must be computed inside, its stack."""
        value = self.known.values.get(t)
        if value is not None:
            return value
        if t not in self.stacks:
            self.stacks[t] = Placeholder(Spec((self._steps(), *t.spec.shape), t.spec.dtype))
        return Value(self.stacks[t], True)

    def _steps(self) -> int | None:
        loop = self.loop
        length: int | None = loop.node.params["length"]
        return loop.sequences[0].spec.shape[0] if loop.rows else length

    def results(self) -> list[Tensor]:
        """The results of the scan, from a smaller one and what follows it."""
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
        found = []
        for i in range(loop.carry):
            final = finals.get(i, loop.starts[i])
            for t in added.get(i, ()):
                final = plus(loop.node, final, t)
            found.append(final)
        found += [values[y].tensor if y in moved else stacked[y] for y in ys]
        return substitute(found, mapping)

    def _ordered(self, tensors: set[Tensor]) -> list[Tensor]:
        """In the order of the body, which does not depend on this process."""
        return [t for t in (*self.loop.states, *self.order) if t in tensors]

    def _is_moved(self, y: Tensor) -> bool:
        value = self.known.values.get(y)
        if value is None or not value.stacked:
            return False
        return not self.needs[y] or y in self.known.products

    def _sunk(self) -> tuple[dict[int, list[Tensor]], dict[int, Tensor | None]]:
        """For each state that adds up: the sums over all steps that are taken outside, and what
        the loop still computes. Products first: other sums only follow if their stacks are there.
        """
        added: dict[int, list[Tensor]] = {i: [] for i in self.sums}
        rest = {i: list(terms) for i, terms in self.sums.items()}
        for products in (True, False):
            for i, terms in rest.items():
                for t in list(terms):
                    found = self._sum(t, products)
                    if found is not None:
                        added[i].append(found)
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
        if t.op.name in LINEAR and t.spec.is_static and t.inputs[0].spec.is_static:
            inner = self._sum(t.inputs[0], products)
            return None if inner is None else rebuild(t, (inner, *t.inputs[1:]))
        if t.op.name == "matmul" and is_accumulated(t) and few_rows(t.inputs[0].spec.shape[0]):
            fits = products and not any(x in self.known.large for x in t.inputs)
            return self._over_steps(t, list(t.inputs)) if fits else None
        if products:
            return None
        if t.op.name == "sum" and self._is_there(t.inputs):
            found = self._over_steps(t, list(t.inputs))
            return self._total(t) if found is None else found
        return self._total(t)

    def _is_there(self, tensors: Iterable[Tensor]) -> bool:
        """Whether the stacks of `tensors` can be had from what the loop gives anyway."""
        return all(
            self.needs.get(x, {x}) <= self.given.keys() and x not in self.known.large
            for x in tensors
        )

    def _over_steps(self, t: Tensor, inputs: Sequence[Tensor]) -> Tensor | None:
        found = over_steps(t, [self._value(x) for x in inputs])
        if found is not None:
            needed = set().union(*[self.needs.get(x, {x}) for x in inputs])
            self.given.update(dict.fromkeys(self._ordered(needed)))
        return found

    def _total(self, t: Tensor) -> Tensor | None:
        value = self.known.values.get(t)
        if value is None or not value.stacked or not self._is_there([t]):
            return None
        return total(t, value.tensor)
