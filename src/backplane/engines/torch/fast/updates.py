"""Steps of optimizers by the kernels of `torch.optim`, in place, with copy on write
(`engines.ownership`).

A lowering gives the tensors, in which the new values will be, and the calls that write them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from backplane.engines.arrays.fast.updates import split
from backplane.engines.formulas import OPTIMIZER_STEPS, Instructions, counts, formula
from backplane.engines.ownership import Ownership
from backplane.engines.table import Table, Value
from backplane.engines.torch.indexing import rows_of

TABLE = Table()

_OWN = "_backplane_own"
"""The attribute of tensors that are a step's own."""
_NUMBER = "_backplane_number"

Tensors = Sequence[Value]
Later = tuple[list[Value], list[tuple[Any, ...]]]
"""Tensors, and the calls after which they hold the results."""


class Marked:
    """The tensors that have an attribute."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __contains__(self, x: Value) -> bool:
        return hasattr(x, self.name)

    def add(self, x: Value) -> None:
        """Set the attribute."""
        setattr(x, self.name, True)

    def discard(self, x: Value) -> bool:
        """Delete the attribute; whether it was there."""
        return x.__dict__.pop(self.name, None) is not None


_ownership = Ownership(initial=Marked("_backplane_initial"), own=Marked(_OWN))


def adopted(value: Value) -> Value:
    """The tensor, which only a variable knows, so that the first step may take it."""
    _ownership.initial.add(value)
    return value


def lent(value: Value) -> Value:
    """A copy, if a step may write to the value later. Otherwise another tensor in the same memory,
    so that users can put it on the tape without touching the variable's.
    """
    return value.clone() if _ownership.lend(value) or value._is_view() else value.detach()


def _taken(x: Value, like: Value) -> bool:
    """Make a variable's initial tensor a step's own, if its order fits and nobody knows it."""
    return x.stride() == like.stride() and _ownership.take(x)


def _owned(tensors: Tensors, likes: Tensors, in_order: bool = False) -> list[Value]:
    """The tensors themselves where they are a step's own, or become so, else copies that are.

    A copy of a parameter has the order of its gradient in memory. That of a convolution's kernel is
    the one that PyTorch's convolutions take: a kernel in K's order would be copied at each call.
    With `in_order`, all have the order of the others, as fused kernels expect it of states.
    """
    owned = []
    for x, like in zip(tensors, likes, strict=True):
        fits = hasattr(x, _OWN) and not (in_order and x.stride() != like.stride())
        if not (fits or _taken(x, like)):
            x = torch.empty_like(like).copy_(x)
            setattr(x, _OWN, True)
        owned.append(x)
    return owned


def _in_order_of(ps: Tensors, gs: Tensors) -> list[Value]:
    """Gradients with the elements in the order of the parameters, which fused kernels expect."""
    pairs = zip(ps, gs, strict=True)
    return [g if g.stride() == p.stride() else torch.empty_like(p).copy_(g) for p, g in pairs]


def _straight(ps: Tensors, *others: Tensors) -> list[list[Value]]:
    """Parameters, and tensors in their order, as views with the axes in the order of memory: fused
    kernels copy what is not contiguous, there and back. For DenseNet-121 that took three quarters
    of the time of SGD's kernel.
    """
    if all(p.is_contiguous() for p in ps):
        return [list(ps), *map(list, others)]
    rows = []
    for row in zip(ps, *others, strict=True):
        p = row[0]
        if p.is_contiguous():
            rows.append(row)
        else:
            order = sorted(range(p.ndim), key=p.stride, reverse=True)
            rows.append(tuple([x.permute(order) for x in row]))
    return [list(column) for column in zip(*rows, strict=True)]


def _number(x: Value) -> Any:
    """A scalar as a number. On an accelerator that waits for all work before it, so a tensor that
    stays the same from step to step, such as a constant, is asked once.
    """
    if x.is_cpu or hasattr(x, _OWN):
        return x.item()
    number = getattr(x, _NUMBER, None)
    if number is None:
        number = x.item()
        setattr(x, _NUMBER, number)
    return number


def _rate(x: Value) -> float | torch.Tensor:
    """A scalar that may be computed anew in each step: on an accelerator it stays a tensor."""
    return x.item() if x.is_cpu else x


def _add(factor: float | torch.Tensor, ps: Tensors, xs: Tensors) -> list[tuple[Any, ...]]:
    """The calls that add a multiple of `xs`."""
    if isinstance(factor, torch.Tensor):
        return [(torch._foreach_add_, ps, torch._foreach_mul(xs, factor))]
    return [(partial(torch._foreach_add_, alpha=factor), ps, xs)]


def _has_kernel(x: Value) -> bool:
    return x.is_cpu or x.is_cuda


@TABLE.add("gradient_update")
def gradient_update(factor: Value, *tensors: Value) -> Later:
    """One pass over all parameters."""
    ps, gs = split(tensors, 2)
    ps = _owned(ps, gs)
    return ps, _add(_rate(factor), ps, gs)


@TABLE.add("average_update")
def average_update(decay: Value, gain: Value, *tensors: Value) -> Later:
    """Two calls for all averages. `_foreach_lerp_` would be one, and make NaN of infinities."""
    vs, xs = split(tensors, 2)
    vs = _owned(vs, xs)
    return vs, [(torch._foreach_mul_, vs, _number(decay)), *_add(_number(gain), vs, xs)]


@TABLE.add("rows_update")
def rows_update(factor: Value, p: Value, *tensors: Value) -> Later:
    """`index_add_` for each g and its indices, which are checked before anything is written."""
    (own,) = _owned([p], [p.contiguous()])
    calls: list[tuple[Any, ...]] = []
    for g, indices in zip(*split(tensors, 2), strict=True):
        rows = rows_of(own, indices)
        rate, change = _rate(factor), g.reshape(rows.shape[0], *p.shape[1:])
        if isinstance(rate, torch.Tensor):
            rate, change = 1, rate * change
        calls.append((partial(own.index_add_, 0, alpha=rate), rows, change))
    return [own], calls


@TABLE.add("rows_write")
def rows_write(*tensors: Value) -> Later:
    """`index_copy_` for each table. The indices have been read before, so they fit."""
    count = len(tensors) // 3
    tables = _owned(tensors[:count], [x.contiguous() for x in tensors[:count]])
    given = zip(tables, tensors[count::2], tensors[count + 1 :: 2], strict=True)
    return tables, [(x.index_copy_, 0, indices.to(torch.int64), rows) for x, rows, indices in given]


@TABLE.add("momentum_update")
def momentum_update(
    momentum: Value, gain: Value, step: Value, *tensors: Value, nesterov: bool
) -> Later:
    """`torch.optim.SGD`'s kernel, whose state is not scaled: its rate and dampening are chosen so
    that m and p are as here. In float64 one minus the dampening would have lost digits.
    """
    decay, a, b = _number(momentum), _rate(gain), _rate(step)
    ps, ms, gs = split(tensors, 3)
    ps = _owned(ps, gs)
    ms = _owned(ms, ps, in_order=True)
    fits = decay and not nesterov and ps[0].dtype == torch.float32 and _has_kernel(ps[0])
    if fits and not isinstance(a, torch.Tensor):
        kernel = partial(
            torch._fused_sgd_, weight_decay=0.0, momentum=decay, lr=-b, dampening=1 - a,
            nesterov=False, maximize=False, is_first_step=False,
        )  # fmt: skip
        return [*ps, *ms], [(kernel, *_straight(ps, _in_order_of(ps, gs), ms))]
    calls = [(torch._foreach_mul_, ms, decay), *_add(a, ms, gs)]
    if isinstance(b, torch.Tensor):  # `ms` are not there yet.
        calls += [(partial(torch._foreach_addcmul_, ps, ms), [b.expand_as(m) for m in ms])]
    else:
        calls += _add(b, ps, ms)
    if nesterov:
        calls += _add(a, ps, gs)
    return [*ps, *ms], calls


@TABLE.add("adam_update")
def adam_update(rate: Value, beta1: Value, beta2: Value, epsilon: Value, *tensors: Value) -> Later:
    """`torch.optim.Adam`'s kernel after infinitely many steps: no bias is left to correct."""
    a, b1, b2, e = _rate(rate), _number(beta1), _number(beta2), _number(epsilon)
    ps, ms, vs, gs = split(tensors, 4)
    usual = 0 <= b1 < 1 and 0 <= b2 < 1 and _has_kernel(ps[0])
    if isinstance(a, torch.Tensor):  # The kernel takes a tensor of float32 only.
        usual = usual and ps[0].dtype != torch.float64
    # The kernel's root of a negative number is NaN. What a step has made is none.
    if not usual or any(not hasattr(v, _OWN) and bool((v < 0).any()) for v in vs):
        return _adam_by_formula(rate, beta1, beta2, epsilon, *tensors)
    ps = _owned(ps, gs)
    ms, vs = [_owned(xs, ps, in_order=True) for xs in (ms, vs)]
    steps = [torch.full((), math.inf, device=ps[0].device)] * len(ps)
    a = a.to(torch.float32) if isinstance(a, torch.Tensor) else a
    kernel = partial(
        torch._fused_adam_, lr=a, beta1=b1, beta2=b2, weight_decay=0.0, eps=e,
        amsgrad=False, maximize=False,
    )  # fmt: skip
    straight = _straight(ps, _in_order_of(ps, gs), ms, vs)
    return [*ps, *ms, *vs], [(kernel, *straight, [], steps)]


# --- formulas -------------------------------------------------------------------------------------


class _Listwise(Instructions):
    """Instructions for lists of all parameters, as calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def copy(self, out: Tensors, x: Tensors) -> None:
        self.calls.append((torch._foreach_copy_, out, x))

    def plain(self, name: str, out: Tensors, x: Tensors, y: Any) -> None:
        if out is y:  # x − y as −y + x, and x / y as 1 / y · x.
            name, inverse = {"sub": ("add", "neg"), "div": ("mul", "reciprocal")}[name]
            self.calls.append((getattr(torch, f"_foreach_{inverse}_"), out))
            y = x
        elif out is not x:
            self.copy(out, x)
        if name == "maximum" and y == 0:
            self.calls.append((torch._foreach_clamp_min_, out, 0))
        else:
            operands = [] if y is None else [y]
            self.calls.append((getattr(torch, f"_foreach_{name}_"), out, *operands))

    def added(self, quotient: bool, out: Tensors, x: Tensors, y: Any, factor: Any) -> None:
        if y is None:
            self.calls.append((partial(torch._foreach_add_, alpha=factor), out, x))
        else:
            kernel = torch._foreach_addcdiv_ if quotient else torch._foreach_addcmul_
            self.calls.append((kernel, out, x, y, factor))


def _by_formula(name: str) -> Callable[..., Later]:
    def update(*operands: Value, **params: bool) -> Later:
        count, replaces = counts(name)
        numbers = [_rate(x) for x in operands[:count]]
        # On an accelerator numbers stay tensors, which the fused kernels do not take.
        fuses = not any(isinstance(x, torch.Tensor) for x in numbers)
        rule = formula(name, tuple(params.items()), fuses)
        ps, *states, gs = split(operands[count:], replaces + 1)
        ps = _owned(ps, gs)
        own = [ps, *[_owned(xs, ps, in_order=True) for xs in states]]
        scratch = [[torch.empty_like(p) for p in ps] for _ in range(rule.scratch)]
        do = _Listwise()
        rule.run(do, rule.known(numbers), [*own, _in_order_of(ps, gs), *scratch])
        return [x for xs in own for x in xs], do.calls

    return update


for _name in OPTIMIZER_STEPS:
    if _name not in TABLE:
        TABLE.add(_name)(_by_formula(_name))
_adam_by_formula = _by_formula("adam_update")
