"""Einstein sums of one or two tensors, as products of matrices."""

from __future__ import annotations

from functools import reduce
from itertools import chain
from operator import mul
from typing import Any

from backplane import backend as K
from backplane.core.graph import Tensor
from backplane.ops.creation import size_at
from backplane.ops.linear import matmul
from backplane.ops.shaping import transpose


def einsum(subscripts: str, *operands: Tensor) -> Tensor:
    """The sum of products that the subscripts describe, as in NumPy, of one or two operands.

    Raises:
        NotImplementedError: for more operands, and for a letter twice in one operand.
    """
    terms, result = _letters(subscripts, operands)
    sizes = {
        letter: size_at(x, axis)
        for x, term in zip(operands, terms, strict=True)
        for axis, letter in enumerate(term)
    }
    if len(operands) > 2 or any(len(set(term)) < len(term) for term in terms):
        raise NotImplementedError(
            f"einsum {subscripts!r}: only one or two operands, each letter once in an operand"
        )
    others = [[*result, *chain(*terms[:i], *terms[i + 1 :])] for i in range(len(terms))]
    pairs = [_summed(x, t, o) for x, t, o in zip(operands, terms, others, strict=True)]
    if len(pairs) == 1:
        return _ordered(*pairs[0], result)
    (x, a), (y, b) = pairs
    batch = [n for n in a if n in b and n in result]
    inner = [n for n in a if n in b and n not in result]
    rows, columns = ([n for n in t if n not in (*batch, *inner)] for t in (a, b))

    def size(names: list[str]) -> Any:
        return reduce(mul, [sizes[n] for n in names], 1)

    lead = [sizes[n] for n in batch]
    left = K.reshape(_ordered(x, a, [*batch, *rows, *inner]), [*lead, size(rows), size(inner)])
    right = K.reshape(
        _ordered(y, b, [*batch, *inner, *columns]), [*lead, size(inner), size(columns)]
    )
    product = matmul(left, right, transpose_x=False, transpose_y=False)
    made = [*batch, *rows, *columns]
    return _ordered(K.reshape(product, [sizes[n] for n in made]), made, result)


def _letters(subscripts: str, operands: tuple[Tensor, ...]) -> tuple[list[list[str]], list[str]]:
    """The letters of the operands and of the result; digits stand for the axes of an ellipsis."""
    given, arrow, wanted = subscripts.replace(" ", "").partition("->")
    terms = given.split(",")
    hidden = [x.ndim - len(t.replace("...", "")) for x, t in zip(operands, terms, strict=True)]
    most = max([n for n, t in zip(hidden, terms, strict=True) if "..." in t], default=0)
    digits = "0123456789"[:most]
    full = [t.replace("...", digits[most - n :]) for n, t in zip(hidden, terms, strict=True)]
    letters = "".join(full)
    once = sorted(n for n in set(letters) if letters.count(n) == 1 and n not in digits)
    result = wanted.replace("...", digits) if arrow else digits + "".join(once)
    return [list(t) for t in full], list(result)


def _summed(x: Tensor, letters: list[str], kept: list[str]) -> tuple[Tensor, list[str]]:
    """The operand summed over letters that appear nowhere else, and the letters that are left."""
    axes = [i for i, n in enumerate(letters) if n not in kept]
    return (K.sum(x, axes) if axes else x), [n for n in letters if n in kept]


def _ordered(x: Tensor, letters: list[str], wanted: list[str]) -> Tensor:
    perm = tuple([letters.index(n) for n in wanted])
    return x if perm == tuple(range(x.ndim)) else transpose(x, perm=perm)
