"""Einstein sums: products of tensors, summed over the letters that the result does not name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from backplane.core.graph import Tensor
from backplane.core.sizes import origin
from backplane.ops import elementwise as ew
from backplane.ops.axes import contracted, permuted
from backplane.ops.creation import Amount, dim, scalar, shaped, size_at
from backplane.ops.ragged import positions
from backplane.ops.shaping import broadcast_to, expand_dims, sum

Letters = list[str]

HIDDEN = "ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠ"
"""Letters for the axes of an ellipsis, the last one last."""

USUAL = 16
"""The size that stands for an unknown one where the order of products depends on sizes."""


class Term(NamedTuple):
    """A tensor, and the letter of each of its axes."""

    x: Tensor
    letters: Letters


def einsum(subscripts: str, *operands: Tensor) -> Tensor:
    """The sum of products that the subscripts describe, as in NumPy, of operands of one dtype.
    ValueError if they cannot be read, or do not fit the operands.
    """
    letters, result = _parsed(subscripts, operands)
    terms = [_once(Term(x, given)) for x, given in zip(operands, letters, strict=True)]
    terms = _broadcast(terms, subscripts)
    for i, j in _order(terms, result):
        rest = [t for k, t in enumerate(terms) if k not in (i, j)]
        kept = {*result, *[n for t in rest for n in t.letters]}
        terms = [*rest, _product(terms[i], terms[j], kept)]
    (last,) = terms
    last = _summed(last, set(result))
    return permuted(last.x, [last.letters.index(n) for n in result])


# --- subscripts -----------------------------------------------------------------------------------


def _parsed(subscripts: str, operands: Sequence[Tensor]) -> tuple[list[Letters], Letters]:
    """The letters of the operands, and those of the result."""
    given, arrow, wanted = subscripts.replace(" ", "").partition("->")
    terms = given.split(",")
    if len(terms) != len(operands):
        raise ValueError(f"einsum {subscripts!r}: {len(terms)} terms for {len(operands)} operands")
    full, most = [], 0
    for x, term in zip(operands, terms, strict=True):
        hidden = x.ndim - len(term.replace("...", ""))
        plain = term.replace("...", "", 1)
        if hidden < 0 or (hidden and "..." not in term) or (plain and not plain.isalpha()):
            raise ValueError(
                f"einsum {subscripts!r}: the term {term!r} does not fit an operand of shape "
                f"{x.spec.shape}"
            )
        most = max(most, hidden)
        full.append(term.replace("...", HIDDEN[len(HIDDEN) - hidden :]))
    dots = HIDDEN[len(HIDDEN) - most :]
    if arrow:
        result = wanted.replace("...", dots)
    else:
        joined = "".join(full)
        result = dots + "".join(sorted(n for n in set(joined) - {*dots} if joined.count(n) == 1))
    if len(set(result)) < len(result) or not set(result) <= set("".join(full)):
        raise ValueError(
            f"einsum {subscripts!r}: each letter of the result must occur there once, and in an "
            "operand"
        )
    return [list(t) for t in full], list(result)


def _once(term: Term) -> Term:
    """A term with each letter once: of axes with the same letter, the diagonal."""
    x, letters = term
    for n in dict.fromkeys(letters):
        while letters.count(n) > 1:
            first = letters.index(n)
            second = letters.index(n, first + 1)
            down, across = (
                expand_dims(positions(x, i), axes=tuple([k for k in range(x.ndim) if k != i]))
                for i in (first, second)
            )
            x = ew.where(ew.equal(down, across), x, ew.zero(x))
            x = sum(x, axes=(second,), keepdims=False)
            letters = [*letters[:second], *letters[second + 1 :]]
    return Term(x, letters)


def _broadcast(terms: list[Term], subscripts: str) -> list[Term]:
    """Terms in which a letter has one size: axes of size 1 are broadcast."""
    axes: dict[str, list[tuple[Tensor, int]]] = {}
    for x, letters in terms:
        for axis, n in enumerate(letters):
            axes.setdefault(n, []).append((x, axis))
    wide = {n: size for n in axes if (size := _wide(n, axes[n], subscripts)) is not None}
    parts = []
    for x, letters in terms:
        if any(n in wide and x.spec.shape[i] in (1, None) for i, n in enumerate(letters)):
            sizes = [wide.get(n, size_at(x, i)) for i, n in enumerate(letters)]
            x = shaped(broadcast_to, sizes, x)
        parts.append(Term(x, letters))
    return parts


def _wide(letter: str, axes: list[tuple[Tensor, int]], subscripts: str) -> Amount | None:
    """The size to which axes with a letter are broadcast; None if there is nothing to do.

    Unknown sizes that only an ellipsis joins may differ: one of them may be 1.
    """
    sizes = {x.spec.shape[axis] for x, axis in axes}
    known = sizes - {1, None}
    if len(known) > 1:
        raise ValueError(
            f"einsum {subscripts!r}: the letter {letter!r} stands for sizes "
            f"{' and '.join(map(str, sorted(n for n in known if n)))}"
        )
    open_sizes = [place for place in axes if place[0].spec.shape[place[1]] is None]
    if known:
        hidden = letter in HIDDEN and open_sizes
        return known.pop() if 1 in sizes or hidden else None
    if not open_sizes or (letter not in HIDDEN and 1 not in sizes):
        return None
    if 1 not in sizes and len({origin(*place) for place in open_sizes}) == 1:
        return None
    size: Tensor = dim(open_sizes[0][0], axis=open_sizes[0][1])
    for x, axis in open_sizes[1:]:
        size = ew.where(ew.equal(size, scalar(1, "int32")), dim(x, axis=axis), size)
    return size


def _order(terms: list[Term], result: Letters) -> list[tuple[int, int]]:
    """The pairs of terms to multiply, one after the other. The product is the new last one."""
    if len(terms) < 3:
        return [(0, 1)] * (len(terms) - 1)
    names = {n: chr(ord("a") + i) for i, n in enumerate({n for t in terms for n in t.letters})}
    text = ",".join("".join(names[n] for n in t.letters) for t in terms)
    text += "->" + "".join(names[n] for n in result)
    sizes: dict[str, int] = {}
    for x, letters in terms:
        sizes.update({n: m for n, m in zip(letters, x.spec.shape, strict=True) if m is not None})
    arrays = [
        np.broadcast_to(np.float32(0), [sizes.get(n, USUAL) for n in t.letters]) for t in terms
    ]
    path = np.einsum_path(text, *arrays, optimize="greedy")[0][1:]
    # A step that joins more than two terms joins them one after another.
    steps = []
    for chosen in path:
        taken = sorted(chosen)
        while len(taken) > 1:
            i, j = taken[-2:]
            steps.append((i, j))
            last = len(terms) - len(steps) - 1
            taken = [*taken[:-2], last]
    return steps


# --- products -------------------------------------------------------------------------------------


def _summed(term: Term, kept: set[str]) -> Term:
    """A term, summed over the letters that nobody wants."""
    axes = tuple([i for i, n in enumerate(term.letters) if n not in kept])
    if not axes:
        return term
    return Term(sum(term.x, axes=axes, keepdims=False), [n for n in term.letters if n in kept])


def _product(first: Term, second: Term, kept: set[str]) -> Term:
    """The product of two terms, summed over what only they have."""
    first = _summed(first, kept | {*second.letters})
    second = _summed(second, kept | {*first.letters})
    a, b = first.letters, second.letters
    batch = [n for n in a if n in b and n in kept]
    inner = [n for n in a if n in b and n not in kept]
    rows, columns = [n for n in a if n not in b], [n for n in b if n not in a]
    if not inner:
        return _multiplied(first, second, [*batch, *rows, *columns])
    left, right = [a.index(n) for n in inner], [b.index(n) for n in inner]
    pairs = [(a.index(n), b.index(n)) for n in batch]
    product = contracted(first.x, second.x, left, right, pairs)
    return Term(product, [*batch, *rows, *columns])


def _multiplied(first: Term, second: Term, letters: Letters) -> Term:
    """The product element by element."""
    found = []
    for x, own in (first, second):
        x = permuted(x, [own.index(n) for n in letters if n in own])
        missing = tuple([i for i, n in enumerate(letters) if n not in own])
        found.append(expand_dims(x, axes=missing) if missing else x)
    return Term(ew.mul(*found), letters)
