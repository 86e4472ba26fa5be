"""Steps of optimizers over several parameters at once.

No K code builds these. `compile.fuse` finds them in programs, for engines with kernels that write
the new values over the old ones. The operands are scalars, then equally many parameters, states and
gradients. What a step computes is written once, for one parameter: that is what programs are
compared with, and what engines without a kernel run.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

from backplane.core.graph import Tensor
from backplane.core.primitive import Primitive, primitive
from backplane.core.spec import Spec
from backplane.core.traits import Memory, like_first
from backplane.ops.creation import like, scalar, shaped_as
from backplane.ops.elementwise import (
    abs,
    add,
    cast,
    div,
    less,
    maximum,
    mul,
    not_equal,
    sqrt,
    sub,
    where,
)
from backplane.ops.indexing import check_fit, gather, part, scatter_add
from backplane.ops.reduction import cumsum, sort
from backplane.ops.scattering import scatter_set
from backplane.ops.shaping import concat, reshape


def _split(tensors: Sequence[Tensor], kinds: int) -> list[Sequence[Tensor]]:
    count = len(tensors) // kinds
    return [tensors[i * count : (i + 1) * count] for i in range(kinds)]


News = Tensor | tuple[Tensor, ...]
Rule = Callable[..., News]


def optimizer_step(*, replaces: int) -> Callable[[Rule], Primitive[list[Tensor]]]:
    """Decorator: declare the step of an optimizer by a function of numbers, variables and the
    gradient. It gives the new values of the variables, which are as many as it `replaces`.
    """

    def declare(rule: Rule) -> Primitive[list[Tensor]]:
        given = inspect.signature(rule).parameters.values()
        operands = [x for x in given if x.kind is x.POSITIONAL_OR_KEYWORD]
        numbers = len(operands) - replaces - 1

        def specs(*operands: Spec, **params: bool) -> list[Spec]:
            tensors = operands[numbers:]
            return list(tensors[: len(tensors) // (replaces + 1) * replaces])

        def grouped(*operands: Tensor, **params: bool) -> list[Tensor]:
            rows = zip(*_split(operands[numbers:], replaces + 1), strict=True)
            news = [rule(*operands[:numbers], *row, **params) for row in rows]
            columns = [new if isinstance(new, tuple) else (new,) for new in news]
            return [t for column in zip(*columns, strict=True) for t in column]

        kind = inspect.Parameter.VAR_POSITIONAL
        tensors = inspect.Parameter("tensors", kind, annotation="Spec")
        numbered = [x.replace(annotation="Spec") for x in operands[:numbers]]
        options = [x for x in given if x.kind is x.KEYWORD_ONLY]
        specs.__signature__ = inspect.Signature([*numbered, tensors, *options])  # type: ignore[attr-defined]
        specs.__doc__ = rule.__doc__
        declared = primitive(
            name=rule.__name__, multiple=True, in_place=True, memory=Memory.ANY,
            step=(numbers, replaces),
        )(specs)  # fmt: skip
        declared.decompose(grouped)
        return declared

    return declare


def _times(number: Tensor, x: Tensor) -> Tensor:
    return mul(cast(number, dtype=x.spec.dtype), x)


def _rest(number: Tensor) -> Tensor:
    """One minus a number, before a cast: 1 − 0.999 has lost digits in float32."""
    return sub(like(1, number), number)


def _average(decay: Tensor, old: Tensor, new: Tensor) -> Tensor:
    return add(_times(decay, old), _times(_rest(decay), new))


def _root(x: Tensor) -> Tensor:
    """K's root: that of a negative number is 0."""
    return sqrt(maximum(x, like(0, x)))


def _plus(x: Tensor, number: Tensor) -> Tensor:
    return add(x, cast(number, dtype=x.spec.dtype))


def _divisor(x: Tensor, epsilon: Tensor, inside: bool) -> Tensor:
    return _root(_plus(x, epsilon)) if inside else _plus(_root(x), epsilon)


# --- steps ----------------------------------------------------------------------------------------


@optimizer_step(replaces=1)
def gradient_update(factor: Tensor, p: Tensor, g: Tensor) -> News:
    """Plain descent, p' = p + factor · g: [*p']."""
    return add(p, _times(factor, g))


@optimizer_step(replaces=2)
def momentum_update(
    momentum: Tensor, gain: Tensor, step: Tensor, p: Tensor, m: Tensor, g: Tensor, *, nesterov: bool
) -> News:
    """Descent with momentum, m' = momentum · m + gain · g and p' = p + step · m', to which
    `nesterov` adds gain · g: [*p', *m'].
    """
    gained = _times(gain, g)
    m = add(_times(momentum, m), gained)
    moved = add(p, _times(step, m))
    return (add(moved, gained) if nesterov else moved), m


@optimizer_step(replaces=3)
def adam_update(
    rate: Tensor, beta1: Tensor, beta2: Tensor, epsilon: Tensor,
    p: Tensor, m: Tensor, v: Tensor, g: Tensor,
) -> News:  # fmt: skip
    """Adam: m' = beta1 · m + (1 − beta1) · g, v' = beta2 · v + (1 − beta2) · g², and
    p' = p − rate · m' / (√max(v', 0) + epsilon): [*p', *m', *v'].
    """
    m, v = _average(beta1, m, g), _average(beta2, v, mul(g, g))
    return sub(p, _times(rate, div(m, _plus(_root(v), epsilon)))), m, v


@optimizer_step(replaces=3)
def adamw_update(
    shrink: Tensor, rate: Tensor, beta1: Tensor, beta2: Tensor, epsilon: Tensor,
    p: Tensor, m: Tensor, v: Tensor, g: Tensor,
) -> News:  # fmt: skip
    """Adam that also shrinks weights, p' = shrink · p − rate · m' / (√max(v', 0) + epsilon):
    [*p', *m', *v'].
    """
    m, v = _average(beta1, m, g), _average(beta2, v, mul(g, g))
    return sub(_times(shrink, p), div(_times(rate, m), _plus(_root(v), epsilon))), m, v


@optimizer_step(replaces=4)
def amsgrad_update(
    rate: Tensor, beta1: Tensor, beta2: Tensor, epsilon: Tensor,
    p: Tensor, m: Tensor, v: Tensor, h: Tensor, g: Tensor,
) -> News:  # fmt: skip
    """Adam with the largest second moment so far, h' = max(h, v') and
    p' = p − rate · m' / (√max(h', 0) + epsilon): [*p', *m', *v', *h'].
    """
    m, v = _average(beta1, m, g), _average(beta2, v, mul(g, g))
    h = maximum(h, v)
    return sub(p, div(_times(rate, m), _plus(_root(h), epsilon))), m, v, h


@optimizer_step(replaces=3)
def nadam_update(
    ahead: Tensor, rate: Tensor, beta1: Tensor, beta2: Tensor, correction: Tensor, epsilon: Tensor,
    p: Tensor, m: Tensor, v: Tensor, g: Tensor,
) -> News:  # fmt: skip
    """Adam with Nesterov's momentum, p' = p − (rate · m' + ahead · g) / (√max(correction · v', 0) +
    epsilon): [*p', *m', *v'].
    """
    m, v = _average(beta1, m, g), _average(beta2, v, mul(g, g))
    moved = add(_times(rate, m), _times(ahead, g))
    return sub(p, div(moved, _plus(_root(_times(correction, v)), epsilon))), m, v


@optimizer_step(replaces=3)
def adamax_update(
    rate: Tensor, beta1: Tensor, beta2: Tensor, epsilon: Tensor,
    p: Tensor, m: Tensor, u: Tensor, g: Tensor,
) -> News:  # fmt: skip
    """Adam by the infinity norm, u' = max(beta2 · u, |g|) and p' = p − rate · m' / (u' + epsilon):
    [*p', *m', *u'].
    """
    m, u = _average(beta1, m, g), maximum(_times(beta2, u), abs(g))
    return sub(p, div(_times(rate, m), _plus(u, epsilon))), m, u


@optimizer_step(replaces=2)
def adagrad_update(
    rate: Tensor, epsilon: Tensor, p: Tensor, a: Tensor, g: Tensor, *, inside: bool
) -> News:
    """Adagrad: a' = a + g² and p' = p − rate · g / (√max(a', 0) + epsilon), or with epsilon
    `inside` of the root: [*p', *a'].
    """
    a = add(a, mul(g, g))
    return sub(p, div(_times(rate, g), _divisor(a, epsilon, inside))), a


@optimizer_step(replaces=2)
def rmsprop_update(
    rate: Tensor, decay: Tensor, epsilon: Tensor, p: Tensor, v: Tensor, g: Tensor, *, inside: bool
) -> News:
    """RMSprop: v' = decay · v + (1 − decay) · g² and p' = p − rate · g / (√max(v', 0) + epsilon),
    or with epsilon `inside` of the root: [*p', *v'].
    """
    v = _average(decay, v, mul(g, g))
    return sub(p, div(_times(rate, g), _divisor(v, epsilon, inside))), v


@optimizer_step(replaces=3)
def rmsprop_momentum_update(
    step: Tensor, momentum: Tensor, rate: Tensor, decay: Tensor, epsilon: Tensor,
    p: Tensor, m: Tensor, v: Tensor, g: Tensor, *, inside: bool,
) -> News:  # fmt: skip
    """RMSprop with momentum, m' = momentum · m + rate · g / (√max(v', 0) + epsilon) and p' = p +
    step · m': [*p', *m', *v'].
    """
    v = _average(decay, v, mul(g, g))
    m = add(_times(momentum, m), div(_times(rate, g), _divisor(v, epsilon, inside)))
    return add(p, _times(step, m)), m, v


@optimizer_step(replaces=3)
def rmsprop_centered_update(
    rate: Tensor, decay: Tensor, epsilon: Tensor,
    p: Tensor, v: Tensor, a: Tensor, g: Tensor, *, inside: bool,
) -> News:  # fmt: skip
    """RMSprop by the variance, a' = decay · a + (1 − decay) · g and v' − a'² in the place of v':
    [*p', *v', *a'].
    """
    v, a = _average(decay, v, mul(g, g)), _average(decay, a, g)
    return sub(p, div(_times(rate, g), _divisor(sub(v, mul(a, a)), epsilon, inside))), v, a


@optimizer_step(replaces=3)
def adadelta_update(
    rate: Tensor, decay: Tensor, epsilon: Tensor, p: Tensor, a: Tensor, d: Tensor, g: Tensor
) -> News:
    """Adadelta: a' = decay · a + (1 − decay) · g², u = g · √(d + epsilon) / √(a' + epsilon),
    p' = p − rate · u and d' = decay · d + (1 − decay) · u²: [*p', *a', *d'].
    """
    a = _average(decay, a, mul(g, g))
    u = div(mul(g, _root(_plus(d, epsilon))), _root(_plus(a, epsilon)))
    return sub(p, _times(rate, u)), a, _average(decay, d, mul(u, u))


@optimizer_step(replaces=1)
def average_update(decay: Tensor, gain: Tensor, v: Tensor, x: Tensor) -> News:
    """Moving averages, v' = decay · v + gain · x: [*v']."""
    return add(_times(decay, v), _times(gain, x))


# --- rows of tables -------------------------------------------------------------------------------


@primitive(memory=Memory.FRESH, linear=(0, 1), axes=like_first)
def rows_add(x: Spec, g: Spec, indices: Spec) -> Spec:
    """`x` of known sizes, to whose rows at `indices` the rows of `g` are added: x + scatter_add(g,
    indices). Put into programs by the compiler, for engines that add in the memory of `x`.
    """
    scatter_add.infer_rule(g, indices, shape=x.shape, axis=0)
    return x


@rows_add.decompose
def _(x: Tensor, g: Tensor, indices: Tensor) -> Tensor:
    return add(x, scatter_add(g, indices, shape=x.spec.shape, axis=0))


@primitive(multiple=True, in_place=True, memory=Memory.ANY)
def rows_update(factor: Spec, p: Spec, *tensors: Spec) -> list[Spec]:
    """Plain descent by the gradients of lookups in one table, p' = p + factor · Σ scatter_add(g,
    indices): [p']. `tensors` are all g, then all indices. Other rows are neither read nor written.
    """
    return [p]


@rows_update.decompose
def _(factor: Tensor, p: Tensor, *tensors: Tensor) -> list[Tensor]:
    a = cast(factor, dtype=p.spec.dtype)
    for g, indices in zip(*_split(tensors, 2), strict=True):
        p = rows_add(p, mul(a, g), indices)
    return [p]


@primitive(multiple=True, memory=Memory.FRESH)
def merged_rows(g: Spec, indices: Spec, *, size: int) -> list[Spec]:
    """The rows of `g` for the rows of a table of `size` rows that `indices` name: each index once,
    with the sum of its rows, or several times with the same sum. The rows, and the indices in one
    line, none of them negative (int32). Engines that know no sizes that depend on values may add
    the index `size`, whose row nobody can read or write.
    """
    check_fit("merged_rows", "g", g, indices.shape + g.shape[len(indices.shape) :])
    return [Spec((None, *g.shape[len(indices.shape) :]), g.dtype), Spec((None,), "int32")]


@merged_rows.decompose
def _(g: Tensor, indices: Tensor, *, size: int) -> list[Tensor]:
    flat = cast(reshape(indices, shape=(-1,)), dtype="int32")
    flat = where(less(flat, scalar(0, "int32")), add(flat, scalar(size, "int32")), flat)
    order, positions = sort(flat)
    before = concat(part(order, 0, None, 1), part(order, 0, None, -1), axis=0)
    places = cumsum(cast(not_equal(order, before), dtype="int32"), axis=0, reverse=False)
    rows = gather(reshape(g, shape=(-1, *g.spec.shape[indices.ndim :])), positions, axis=0)
    sums = shaped_as(scatter_add, rows, rows, places, axis=0)
    return [gather(sums, places, axis=0), order]


@primitive(memory=Memory.FRESH, axes=like_first)
def rows_set(x: Spec, rows: Spec, indices: Spec) -> Spec:
    """`x` with other rows at `indices`, none of which is negative. A row is repeated where its
    index is. Put into programs by the compiler, for engines that write in the memory of `x`.
    """
    check_fit("rows_set", "rows", rows, indices.shape + x.shape[1:])
    return x


rows_set.decompose(lambda x, rows, indices: scatter_set(x, indices, rows))


@primitive(multiple=True, in_place=True, memory=Memory.ANY)
def rows_write(*tensors: Spec) -> list[Spec]:
    """Other rows for some of a table's, as `rows_set`, for each of several tables: [*x']. `tensors`
    are the tables, then rows and indices for each. Other rows are neither read nor written.
    """
    return list(tensors[: len(tensors) // 3])


@rows_write.decompose
def _(*tensors: Tensor) -> list[Tensor]:
    count = len(tensors) // 3
    pairs = zip(tensors[count::2], tensors[count + 1 :: 2], strict=True)
    return [rows_set(x, *pair) for x, pair in zip(tensors[:count], pairs, strict=True)]
