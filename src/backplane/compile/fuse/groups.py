"""Finds groups: what programs write as a dozen operations and a fused primitive computes by one.

A fused primitive is found by its decomposition, in whatever order it is written. The decomposition
is traced on placeholders and brought into normal form. A function in it that is no arithmetic, such
as the error function of GELU or the root of a normalization, tells where to look: a node of the
same kind, whose operand has the same normal form, is a site. From there the search goes up through
arithmetic. The group's end is the last node whose normal form unifies with that of the primitive.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from backplane.compile.cache_key import params_key
from backplane.compile.fuse.algebra import ONE, VIEWS, Algebra, Atom, Call, Sum
from backplane.compile.fuse.numbers import solved
from backplane.compile.fuse.patterns import POWERS, SITE, GroupPattern, Look, looks, patterns
from backplane.compile.fuse.unify import Grouped, Match, Unifier, by_tensors, shape_of
from backplane.core.graph import Constant, Tensor, is_scalar
from backplane.ops.autodiff import Group
from backplane.ops.creation import full
from backplane.ops.effects import branch, identity, stop_gradient
from backplane.ops.elementwise import add, div, mul, neg, pow, sub

ENDS = frozenset([add, sub, mul, div, neg, pow])
"""Operations that lead from a site to the end of its group."""
DEPTH = 8
"""The distance above its site within which a group may end."""
MOST_SITES, MOST_CANDIDATES, MOST_NODES, MOST_TERMS = 4, 8, 16, 6
"""The numbers of sites that a node is tried as the end of, of tensors that are tried as an operand,
of nodes in which these are looked for, and of terms in a group's normal form."""

NEAR = {"float64": 1e-12}
"""The largest relative difference between a number and that of the primitive; 1e-6 for the other
dtypes."""

UNIFIER = Unifier()

# --- normal forms of programs ---------------------------------------------------------------------


def _opens(t: Tensor) -> bool:
    op = t.op
    if op is None:
        return False
    plain = op.elementwise and not (op.effect or op.varies)
    return (plain and op not in PASSING) or op.reduction or op in VIEWS


PASSING = frozenset([branch, identity, stop_gradient])
"""Primitives that gradients treat in their own way."""


class Reading:
    """Brings what contains certain tensors into normal form; with `signs`, not what is negated."""

    def __init__(
        self, *atoms: Tensor, among: Collection[Tensor] | None = None, signs: bool = False
    ) -> None:
        """`among`: the only tensors that are looked into, if there are any."""
        self.contains = dict.fromkeys(atoms, True)
        self.first = min([t.serial for t in atoms])
        self.among = among
        self.form = Algebra(atoms, opens=lambda t: (signs and t.op is neg) or self._contains(t))

    def _contains(self, t: Tensor, depth: int = 2 * DEPTH) -> bool:
        known = self.contains.get(t)
        if known is None:
            # An operand is older than what is computed from it.
            near = depth > 0 and t.serial > self.first and _opens(t)
            if near and (self.among is None or t in self.among):
                known = any(self._contains(x, depth - 1) for x in t.inputs)
            self.contains[t] = known = bool(known)
        return known


def nodes_below(t: Tensor, most: int) -> list[Tensor]:
    """`t` and the nearest tensors that it is computed from."""
    below = [t]
    for x in below:
        if len(below) < most and _opens(x):
            below += [y for y in x.inputs if y not in below and y.ndim]
    return below


# --- sites ----------------------------------------------------------------------------------------


class _Kind(NamedTuple):
    """The properties that all sites of one structure share."""

    patterns: tuple[GroupPattern, ...]
    """The patterns that unify there."""
    power: float
    """The power of the function that the node is."""
    known: Mapping[Atom, Sum]
    """The numbers that are told there."""
    anchor: int
    """The place of the operand in `nodes_below`."""
    others: Mapping[int, int]
    """The places of other results of the primitive, with their numbers."""


_kinds: dict[Hashable, _Kind | None] = {}
"""By the structure below a node. A network has many sites that are alike."""
MOST_KINDS = 1024


class Site:
    """A node inside of a group, and what is known of the group from it."""

    def __init__(self, kind: _Kind, node: Tensor, below: Sequence[Tensor]) -> None:
        self.kind, self.node = kind, node
        self.anchor = below[kind.anchor]
        self.others = {below[i]: n for i, n in kind.others.items()}
        self.index = kind.patterns[0].anchor
        self.reading = Reading(self.anchor, node)

    def __call__(self, end: Tensor) -> _Found | None:
        """The group that ends at `end`, if there is one."""
        if not self.index:
            return self._group(end, self.anchor, self.reading)
        for x in nodes_below(end, MOST_CANDIDATES)[:0:-1]:
            for signs in (False, True) if x.spec == end.spec else ():
                group = self._group(end, x, Reading(self.anchor, self.node, x, signs=signs))
                if group is not None:
                    return group
        return None

    def _group(self, end: Tensor, x: Tensor, reading: Reading) -> _Found | None:
        """The group, if its first operand is `x`."""
        if end.spec != x.spec:
            return None
        whole = reading.form(end)
        if len(whole) > MOST_TERMS:
            return None
        form = by_tensors(whole)
        shape = shape_of(form)
        for pattern in self.kind.patterns:
            wanted, ours = pattern.forms[self.kind.power]
            if wanted == shape:
                bound: dict[Atom, Tensor] = {
                    SITE: self.node,
                    pattern.operands[self.index]: self.anchor,
                }
                for match in UNIFIER.sums(ours, form, Match({**bound, pattern.operands[0]: x})):
                    group = self._made(end, pattern, match)
                    if group is not None:
                        return group
        return None

    def _made(self, end: Tensor, pattern: GroupPattern, match: Match) -> _Found | None:
        known = solved(match.equations, NEAR.get(end.spec.dtype, 1e-6), {**self.kind.known})
        numbers = {} if known is None else _numbers(pattern, known)
        if known is None or None in numbers.values():
            return None
        like = self.anchor.spec
        specs = [like if isinstance(t, Constant) else match.bound[t].spec for t in pattern.operands]
        params = {**pattern.params, **numbers}
        assert pattern.op.fused is not None
        if not pattern.op.fused.fits(*specs, **params):
            return None
        operands = [
            full(shape=like.shape, value=float(t.value), dtype=like.dtype)
            if isinstance(t, Constant)
            else match.bound[t]
            for t in pattern.operands
        ]
        return _Found(end, pattern, match, tuple(operands), params)

    def group(self, found: _Found) -> Group:
        """All that others need to know of a group."""
        inside = nodes_inside(found.end, found.operands)
        others = {t: n for t, n in self.others.items() if t in inside}
        for t in inside if found.pattern.others else ():
            if t not in others and t.op is not None and t.op.reduction:
                form = by_tensors(self.reading.form.reduced(t))
                others.update(dict.fromkeys([t], _number_of(form, found.pattern, found.match)))
        others = {t: n for t, n in others.items() if n}
        return Group(found.pattern.op, found.operands, found.params, found.end, others, inside)


class _Found(NamedTuple):
    """The end of a group, and what it is."""

    end: Tensor
    pattern: GroupPattern
    match: Match
    operands: tuple[Tensor, ...]
    params: Mapping[str, Any]


def _number_of(form: Grouped, pattern: GroupPattern, match: Match) -> int:
    """The number of the primitive's other result with this normal form; 0 if none has."""
    for i, other in enumerate(pattern.others, 1):
        if any(True for _ in UNIFIER.sums(other, form, match)):
            return i
    return 0


def _numbers(pattern: GroupPattern, known: Mapping[Atom, Sum]) -> dict[str, float | None]:
    """The parameters that are numbers, None where the program has none."""
    numbers = {}
    for name, t in pattern.numbers.items():
        numbers[name] = known[t].number if isinstance(t, Tensor) else t
    return numbers


def nodes_inside(end: Tensor, operands: Iterable[Tensor]) -> frozenset[Tensor]:
    """The nodes on the way from `operands` to `end`."""
    inside: set[Tensor] = set()
    waiting, stop = list(end.inputs), set(operands)
    while waiting:
        t = waiting.pop()
        if t not in stop and t not in inside and t.op is not None:
            inside.add(t)
            waiting += t.inputs
    return frozenset(inside)


def _sites_at(node: Tensor, looks: Iterable[Look]) -> Iterator[Site]:
    """The sites that a node is, one for each form that looks for its like."""
    below, structure = list[Tensor](), None
    for look in looks:
        x = node.inputs[0]
        if look.scaled and not any(is_scalar(y) for t in (x, *x.inputs) for y in t.inputs):
            continue
        if structure is None:
            below = nodes_below(node, MOST_NODES)
            structure = _structure(below)
        key = look.op, look.option, structure
        try:  # Another thread may empty the table at any time.
            kind = _kinds[key]
        except KeyError:
            if len(_kinds) >= MOST_KINDS:
                _kinds.clear()
            kind = _kinds[key] = _kind(node, below, look)
        if kind is not None:
            yield Site(kind, node, below)


def _structure(nodes: Sequence[Tensor]) -> Hashable:
    """A key that is equal for tensors that are computed alike."""
    position: dict[Tensor, int] = {t: i for i, t in enumerate(nodes)}
    key: list[Hashable] = []
    for t in nodes:
        operands: list[Hashable] = []
        for x in t.inputs:
            if is_scalar(x):
                operands.append(x.value.tobytes())
            else:
                operands.append(position.setdefault(x, len(position)))
        key.append((t.op, t.spec, params_key(t.params), *operands))
    return tuple(key)


def _kind(node: Tensor, below: Sequence[Tensor], look: Look) -> _Kind | None:
    """The kind of sites like `node`, or None if it is no site of that form."""
    among, near = set(below), NEAR.get(node.spec.dtype, 1e-6)
    for anchor, axes in _candidates(below, look):
        reading = Reading(anchor, among=among)
        theirs = reading.form(node)
        ((product, _),) = theirs if len(theirs) == 1 else ((ONE, 1.0),)
        ((call, power),) = product if len(product) == 1 else ((anchor, 1.0),)
        if power not in POWERS:
            continue
        matches: dict[Call, tuple[Match, dict[Atom, Sum]] | None] = {}
        fitting = []
        for pattern in patterns(look.op, look.option, anchor.ndim if axes else 2, axes):
            if pattern.site not in matches:
                matches[pattern.site] = None
                start = Match({pattern.operands[pattern.anchor]: anchor})
                for match in UNIFIER.atoms(pattern.site, call, start):
                    known = solved(match.equations, near, {})
                    matches[pattern.site] = None if known is None else (match, known)
            if matches[pattern.site] is not None:
                fitting.append(pattern)
        if fitting:
            matched = [x for x in matches.values() if x is not None]
            others = {}
            for i, t in enumerate(below):
                if fitting[0].others and t.op is not None and t.op.reduction:
                    form = by_tensors(reading.form.reduced(t))
                    others[i] = _number_of(form, fitting[0], matched[0][0])
            known = {x: n for _, numbers in matched for x, n in numbers.items()}
            return _Kind(tuple(fitting), power, known, below.index(anchor), others)
    return None


def _candidates(
    below: Sequence[Tensor], look: Look
) -> Iterator[tuple[Tensor, tuple[int, ...] | None]]:
    """The operands that the function at the first node may have, and the reduced axes."""
    if not look.reductions:
        for t in below[1:MOST_CANDIDATES]:
            if t.spec == below[0].spec:
                yield t, None
        return
    seen = set()
    for reduction in reversed([t for t in below if t.op in look.reductions]):
        x = reduction.inputs[0]
        for t in (x, *x.inputs):
            if t not in seen and t in below and t.ndim == x.ndim:
                seen.add(t)
                yield t, reduction.params["axes"]


# --- groups ---------------------------------------------------------------------------------------


def groups_in(order: Sequence[Tensor], *, differentiable: bool = True) -> list[Group]:
    """The largest groups in a graph whose primitives have a gradient, or, if not `differentiable`,
    those that have none. `order` has operands before users.
    """
    wanted = looks(differentiable)
    near: dict[Tensor, dict[Site, int]] = {}
    """The sites below a node, and how far away. A residual connection leads from one group into the
    next, so there may be several."""
    largest: dict[Site, _Found] = {}
    for node in order:
        sites = {}
        if node.op in wanted and node.ndim:
            sites = dict.fromkeys(_sites_at(node, wanted[node.op]), 0)
        if near and node.op in ENDS:
            reached = _reached([near[t] for t in node.inputs if t in near])
            for site in reached:
                whole = site(node)
                if whole is not None:
                    largest[site] = whole
            sites = {**reached, **sites}
        if sites:
            near[node] = sites
    return [site.group(sites) for site, sites in largest.items()]


def _reached(below: Sequence[dict[Site, int]]) -> dict[Site, int]:
    """The nearest sites of the operands, one step farther away."""
    reached: dict[Site, int] = {}
    for sites in below:
        for site, distance in sites.items():
            if distance < DEPTH:
                reached[site] = min(distance + 1, reached.get(site, DEPTH))
    return dict(sorted(reached.items(), key=lambda item: item[1])[:MOST_SITES])
