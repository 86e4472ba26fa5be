"""Users' functions of PyTensor: what they must not do, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytensor
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors, graph_inputs
from pytensor.tensor import _as_tensor_variable
from pytensor.tensor.random.op import RandomVariable

from backplane.core.context import current
from backplane.core.graph import Tensor
from backplane.engines.programs import Function
from backplane.engines.pytensor.library import type_of
from backplane.engines.table import Value


def refuse_random(results: Sequence[Value]) -> None:
    """A TypeError if random numbers are drawn: their generator would stay where it is."""
    if any(
        x.owner is not None and isinstance(x.owner.op, RandomVariable) for x in ancestors(results)
    ):
        raise TypeError("it draws random numbers of PyTensor: use those of K")


def pullback(
    function: Function, operands: Sequence[Value], cotangents: Sequence[Value]
) -> Sequence[Value]:
    """Use `pytensor.grad`, with variables apart: operands may depend on each other."""
    own = [x.type() for x in operands]
    known = dict(zip(function(*own), cotangents, strict=True))
    gradients = pytensor.grad(
        None, own, known_grads=known, disconnected_inputs="ignore", return_disconnected="zero"
    )
    return clone_replace(gradients, dict(zip(own, operands, strict=True)))


# --- tensors of ours among the operands of PyTensor's functions -----------------------------------


@_as_tensor_variable.register(Tensor)
def _variable(x: Tensor, name: str | None = None, ndim: int | None = None, **_: Any) -> Value:
    """The variable that always stands for a tensor; in a user's function, its value."""
    bound = current().bound
    if bound is not None:
        return bound[x]
    if "variable" not in x.__dict__:
        x.__dict__["variable"] = made = type_of(x.spec)(x.name)
        made.tag.tensor = x
    return x.__dict__["variable"]


class _Rebuilt(NamedTuple):
    """A variable as a function of those that stand for tensors in its graph."""

    value: Value
    inputs: tuple[Value, ...]

    def __call__(self, *values: Value) -> tuple[Value, ...]:
        return (clone_replace(self.value, dict(zip(self.inputs, values, strict=True))),)


def origin(value: Value) -> tuple[Sequence[Tensor], Function] | None:
    """The tensors behind the inputs of a variable's graph, and the graph as a function."""
    if not isinstance(value, Variable):
        return None
    tagged = [(x, getattr(x.tag, "tensor", None)) for x in graph_inputs([value])]
    found = {x: t for x, t in tagged if t is not None}
    rebuilt: Any = _Rebuilt(value, tuple(found))
    return (list(found.values()), rebuilt) if found else None
