"""Branches: a primitive that holds two closed graphs, of which one runs, and what traces them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from backplane.core.graph import Graph, Placeholder, Tensor, constant, substitute
from backplane.core.primitive import primitive
from backplane.core.spec import Spec, is_float
from backplane.core.traits import Cotangents, Memory
from backplane.ops.autodiff import gradients
from backplane.ops.bodies import branch, over
from backplane.ops.shaping import zeros_like


@primitive(name="cond", multiple=True, memory=Memory.ANY)
def cond_(predicate: Spec, *operands: Spec, then: Graph, orelse: Graph) -> list[Spec]:
    """The results of `then` on the operands if the predicate holds, otherwise those of `orelse`.
    Only that branch runs, if the engine can do that.
    """
    if predicate.shape != () or predicate.dtype != "bool":
        raise ValueError(f"cond: the predicate must be a bool scalar, got {predicate}")
    if len(then.outputs) != len(orelse.outputs):
        raise ValueError(
            f"cond: the branches give different numbers of results: {len(then.outputs)} and "
            f"{len(orelse.outputs)}"
        )
    joined = []
    for a, b in zip(then.outputs, orelse.outputs, strict=True):
        if a.spec.dtype != b.spec.dtype or a.spec.ndim != b.spec.ndim:
            raise ValueError(
                f"cond: one branch gives shape {tuple(a.spec.shape)} and dtype {a.spec.dtype}, the "
                f"other shape {tuple(b.spec.shape)} and dtype {b.spec.dtype}"
            )
        sizes = zip(a.spec.shape, b.spec.shape, strict=True)
        shape = tuple(n if n == m else None for n, m in sizes)
        joined.append(Spec(shape, a.spec.dtype))
    return joined


@cond_.vjp
def _(
    g: Cotangents, y: list[Tensor], predicate: Tensor, *operands: Tensor, then: Graph, orelse: Graph
) -> Cotangents:
    wrt = [i for i, t in enumerate(operands) if is_float(t.spec.dtype)]
    used = [j for j, gj in enumerate(g) if gj is not None]
    sides = [_BranchGradient(then, wrt, used), _BranchGradient(orelse, wrt, used)]
    reached_ = [i for i in wrt if any(i in side.flowing for side in sides)]
    if not reached_:
        return [None] * (1 + len(operands))
    results = cond_(
        predicate,
        *operands,
        *[gj for gj in g if gj is not None],
        then=sides[0].graph(reached_),
        orelse=sides[1].graph(reached_),
    )
    by_input = dict(zip(reached_, results, strict=True))
    return [None, *[by_input.get(i) for i in range(len(operands))]]


class _BranchGradient:
    """The graph from the operands of a branch and the cotangents of its used results to the
    cotangents of `wrt`. It computes the original branch again, because no values of it are kept
    outside.
    """

    def __init__(self, branch: Graph, wrt: Sequence[int], used: Sequence[int]) -> None:
        self.inputs = [Placeholder(t.spec) for t in branch.inputs]
        outputs = substitute(branch.outputs, dict(zip(branch.inputs, self.inputs, strict=True)))
        self.seeds = [Placeholder(branch.outputs[j].spec) for j in used]
        flowed = gradients([outputs[j] for j in used], [self.inputs[i] for i in wrt], self.seeds)
        self.flowing = {i: t for i, t in zip(wrt, flowed, strict=True) if t is not None}

    def graph(self, wrt: Sequence[int]) -> Graph:
        """The graph whose results are the cotangents of `wrt`."""
        found = [self.flowing[i] if i in self.flowing else zeros_like(self.inputs[i]) for i in wrt]
        return Graph([*self.inputs, *self.seeds], found)


def cond(
    predicate: Tensor, then: Callable[[], Sequence[Tensor]], orelse: Callable[[], Sequence[Tensor]]
) -> list[Tensor]:
    """Trace both functions and choose between their results. Only the chosen one runs, if the
    engine can do that. Both may use tensors from outside. They must give equally many results, of
    equal dtypes and ranks.
    """
    return chosen(predicate, lambda: (then(), orelse()))


def chosen(
    predicate: Tensor, both: Callable[[], tuple[Sequence[Tensor], Sequence[Tensor]]]
) -> list[Tensor]:
    """`cond`, for branches whose results are only known when both have been traced."""
    mark = constant(0).serial
    graphs = [branch(list(b), mark) for b in both()]
    captured = [[*tensors, *keys] for _, tensors, keys in graphs]
    operands = list(dict.fromkeys(captured[0] + captured[1]))
    then_graph, orelse_graph = (
        over(operands, graph, own) for (graph, _, _), own in zip(graphs, captured, strict=True)
    )
    return cond_(predicate, *operands, then=then_graph, orelse=orelse_graph)
