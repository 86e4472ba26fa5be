"""The patterns of fused primitives: normal forms of decompositions, traced on placeholders."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain, combinations
from typing import Any, NamedTuple

from backplane.compile.fuse.algebra import Algebra, Call, atom, atoms_in
from backplane.compile.fuse.unify import Grouped, by_tensors, shape_of
from backplane.core.graph import Placeholder, Tensor
from backplane.core.primitive import Primitive
from backplane.core.registry import PRIMITIVES
from backplane.core.spec import Spec
from backplane.ops.creation import scalar
from backplane.ops.elementwise import pow, sqrt

ROOTS = (sqrt, pow)
"""Operations that are powers in normal forms."""

POWERS = (1, 0.5, -0.5)
"""The powers of a pattern's function that nodes at a site may be."""

SITE = Placeholder(Spec((2,), "float64"))
"""Stands for the node at a site in patterns."""

Shape = tuple[tuple[float, ...], ...]


class GroupPattern(NamedTuple):
    """One form of a primitive, traced on placeholders."""

    op: Primitive[Any]
    params: Mapping[str, Any]
    operands: tuple[Tensor, ...]
    """A constant stands for an operand that the program leaves out."""
    numbers: Mapping[str, Tensor | float]
    site: Call
    """The function that tells where to look."""
    anchor: int
    """The operand that it is a function of."""
    forms: Mapping[float, tuple[Shape, Grouped]]
    """Normal forms of the first result over `SITE`, by the power of the function that this is."""
    others: tuple[Grouped, ...]
    """The forms of the other results."""


@cache
def patterns(
    op: Primitive[Any], option: int, rank: int, axes: tuple[int, ...] | None
) -> tuple[GroupPattern, ...]:
    """The patterns for a first operand of that rank, whose `axes` are reduced."""
    fused = op.fused
    assert fused is not None
    params = {**fused.options[option], **({} if axes is None else {"axes": axes})}
    given = inspect.signature(op.infer_rule).parameters.values()
    names = [x.name for x in given if x.kind is x.POSITIONAL_OR_KEYWORD]
    numbers = {name: Placeholder(Spec((), "float64")) for name in fused.numbers}
    tensors = [Placeholder(Spec((2,) * rank, "float64")) for _ in range(max(fused.operands))]
    found = []
    for count in fused.operands:
        subsets = (combinations(fused.neutral, n) for n in range(len(fused.neutral) + 1))
        for absent in chain.from_iterable(subsets):
            none = {name: fused.neutral[name] for name in absent}
            whole = {name: none.get(name, t) for name, t in numbers.items()}
            operands: list[Tensor] = [*tensors[:count]]
            for i, name in enumerate(names):
                if name in none:
                    operands[i] = scalar(none[name], "float64")
            found.append(_traced(op, params, operands, whole))
    return tuple(found)


def _traced(
    op: Primitive[Any],
    params: Mapping[str, Any],
    operands: Sequence[Tensor],
    numbers: Mapping[str, Tensor | float],
) -> GroupPattern:
    assert op.decomposition is not None
    made = op.decomposition(*operands, **params, **numbers)
    results = made if op.multiple else [made]
    whole, *others = [by_tensors(Algebra()(t)) for t in results]
    functions = [x for product in whole for x, _ in product if isinstance(x, Call)]
    site = next(x for x in functions if x.op is None or not x.op.reduction)
    inside = {*atoms_in(atom(site))}
    anchor = next(i for i, t in enumerate(operands) if t in inside)
    forms = {}
    for power in POWERS:
        form = {
            frozenset([(SITE, n / power) if x == site else (x, n) for x, n in product]): factor
            for product, factor in whole.items()
        }
        forms[power] = shape_of(form), form
    return GroupPattern(op, params, tuple(operands), numbers, site, anchor, forms, tuple(others))


class Look(NamedTuple):
    """The properties that a node must have to be tried as a site of a form."""

    op: Primitive[Any]
    option: int
    reductions: frozenset[Primitive[Any]]
    """Reductions below it."""
    scaled: bool
    """Whether its operand has coefficients."""


@cache
def looks(differentiable: bool) -> dict[Primitive[Any], list[Look]]:
    """Forms of primitives with or without a gradient, by the primitives of their sites."""
    by_primitive: dict[Primitive[Any], list[Look]] = {}
    for op in PRIMITIVES.values():
        if op.fused is None or op.fused.states or op.fused.rest is not None:
            continue
        if op.differentiable == differentiable:
            axes = (1,) if "axes" in inspect.signature(op.infer_rule).parameters else None
            for option in range(len(op.fused.options)):
                site = patterns(op, option, 2, axes)[0].site
                inside = [x.op for x in atoms_in(atom(site)) if isinstance(x, Call)]
                reductions = frozenset([inner for inner in inside if inner and inner.reduction])
                scaled = all(n != 1 for _, n in site.operands[0])
                for kind in ROOTS if site.op is None else (site.op,):
                    by_primitive.setdefault(kind, []).append(Look(op, option, reductions, scaled))
    return by_primitive
