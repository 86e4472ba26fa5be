"""The primitives that hold a function of an engine's library, and their gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from backplane.core.graph import Tensor
from backplane.core.native import Native
from backplane.core.primitive import primitive
from backplane.core.spec import Spec, is_float
from backplane.core.traits import Cotangents, Memory
from backplane.ops.lift import as_tensor, cast_to
from backplane.ops.shaping import zeros_like


@primitive(name="native", multiple=True, memory=Memory.ANY)
def native_(*operands: Spec, function: Native) -> list[Spec]:
    """The result of a function of an engine's library. It runs on that engine only."""
    return function.results(operands)


@primitive(name="stateful_native", multiple=True, memory=Memory.ANY, effect=True)
def stateful_native(*operands: Spec, function: Native) -> list[Spec]:
    """The same for a function that draws random numbers or has an effect."""
    return function.results(operands)


class Pullback(NamedTuple):
    """From operands and cotangents of results to cotangents of operands: the engine differentiates.

    Attributes:
        native: The function of values, which has an attribute `engine`.
        operands: The number of its operands.
        wanted: The operands whose cotangents are results.
        used: The results that have cotangents.
    """

    native: Any
    operands: int
    wanted: tuple[int, ...]
    used: tuple[int, ...]

    def __call__(self, *values: Any) -> list[Any]:
        """The cotangents on values of the engine."""
        operands, given = values[: self.operands], values[self.operands :]

        def run(*moving: object) -> list[Any]:
            own = dict(zip(self.wanted, moving, strict=True))
            results = self.native(*[own.get(i, x) for i, x in enumerate(operands)])
            return [results[j] for j in self.used]

        return self.native.engine.pullback(run, [operands[i] for i in self.wanted], given)


def _backward(g: Cotangents, y: list[Tensor], *operands: Tensor, function: Native) -> Cotangents:
    if function.gradient is not None:
        return _by_rule(g, y, operands, function)
    if function.engine.calls_numpy:
        raise ValueError(
            f"K.gradients: {function.name} is a function of {function.engine.name}, which has no "
            "gradients of its own: give K.native its `gradient`"
        )
    wanted = tuple([i for i, t in enumerate(operands) if is_float(t.spec.dtype)])
    used = tuple([j for j, t in enumerate(g) if t is not None])
    pull: Any = Pullback(function, len(operands), wanted, used)
    name = f"the gradient of {function.name}"
    results = native_(
        *operands,
        *[t for t in g if t is not None],
        function=Native(function.engine, pull, name, like=wanted),
    )
    by_operand = dict(zip(wanted, results, strict=True))
    return [by_operand.get(i) for i in range(len(operands))]


def _by_rule(
    g: Cotangents, y: Sequence[Tensor], operands: Sequence[Tensor], function: Native
) -> Cotangents:
    assert function.gradient is not None
    listed = [zeros_like(t) if gj is None else gj for gj, t in zip(g, y, strict=True)]
    cotangents = function.gradient(listed if len(y) > 1 else listed[0], *operands)
    parts = list(cotangents) if isinstance(cotangents, list | tuple) else [cotangents]
    if len(parts) != len(operands):
        raise ValueError(
            f"K.gradients: the gradient of {function.name} gives {len(parts)} tensors for "
            f"{len(operands)} operands"
        )
    pairs = zip(parts, operands, strict=True)
    return [None if t is None else cast_to(as_tensor(t), x.spec.dtype) for t, x in pairs]


native_.vjp(_backward)


@stateful_native.vjp
def _(g: Cotangents, y: list[Tensor], *operands: Tensor, function: Native) -> Cotangents:
    if function.gradient is None:
        raise ValueError(
            f"K.gradients: {function.name} draws random numbers or has an effect, so it cannot be "
            "run again for its gradient: give K.native its `gradient`, or `stateful=False` if "
            "it computes the same at each call; K.dropout and K.random_normal have gradients"
        )
    return _by_rule(g, y, operands, function)
