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

from collections.abc import Sequence

from backplane.compile.after import After
from backplane.compile.before import Before
from backplane.compile.bodies import Loop
from backplane.compile.loops import prune
from backplane.core.graph import Tensor, rebuild, toposort
from backplane.core.primitive import OUTPUT


def hoist(outputs: Sequence[Tensor]) -> list[Tensor]:
    """Equal outputs, whose scans leave to single nodes what all steps can do at once."""
    new: dict[Tensor, Tensor] = {}
    results: dict[Tensor, list[Tensor]] = {}
    for node in toposort(outputs):
        if node.op is OUTPUT and node.inputs[0] in results:
            new[node] = results[node.inputs[0]][node.params["index"]]
            continue
        inputs = tuple([new[t] for t in node.inputs])
        if node.op is not None and node.op.name == "scan":
            results[node] = _emptied(node, inputs)
            new[node] = node  # stands for the results
        else:
            same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
            new[node] = node if same else rebuild(node, inputs, keep_spec=True)
    return [new[t] for t in outputs]


def _emptied(node: Tensor, operands: Sequence[Tensor]) -> list[Tensor]:
    """The results of a scan on these operands, from one that does less."""
    loop = Loop(node, operands)
    if loop.rows:
        Before(loop).move()
    loop.turn()
    return After(loop).results()


def streamlined(outputs: Sequence[Tensor]) -> list[Tensor]:
    """Equal outputs, whose scans compute only what is needed and only what must be in a loop."""
    return prune(hoist(prune(outputs)))
