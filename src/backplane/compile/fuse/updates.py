"""Finds the steps of optimizers that K code writes out, for engines with kernels for them.

An engine that runs one element-wise operation after the other reads and writes every weight a dozen
times for a step of Adam. A kernel does it once, and in place. So the steps that are found are
replaced by a primitive of `ops.updates`, one for all parameters with the same numbers:

    m' = b * m + (1 - b) * g                      adam_update
    v' = c * v + (1 - c) * square(g)
    p' = p - rate * m' / (sqrt(v') + epsilon)

What a step computes is declared there, and `sites` finds it however it is written. Such a node
writes over the old values of the variables. So it runs last, when nothing can fail any more and
everybody has read the old values. If another value shares memory with them, the step is not
replaced.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from backplane.compile.aliases import alias_roots
from backplane.compile.fuse.algebra import Sum
from backplane.compile.fuse.numbers import tensor_of, tensors_in
from backplane.compile.fuse.readers import serves
from backplane.compile.fuse.rows import find_rows, lookups
from backplane.compile.fuse.sites import Finder, Found
from backplane.compile.fuse.unify import ONCE
from backplane.core.graph import Tensor
from backplane.core.primitive import Primitive, outputs_of
from backplane.engines.base import Engine
from backplane.ops.elementwise import cast, mul
from backplane.ops.updates import gradient_update, rows_set, rows_update, rows_write


class Step(NamedTuple):
    """The update of one parameter: the primitive, its numbers, the variables that it replaces, the
    positions of their new values among the outputs, and the gradient, or what it is made of.
    """

    op: Primitive[list[Tensor]]
    numbers: tuple[Sum, ...]
    params: tuple[tuple[str, bool], ...]
    variables: tuple[Tensor, ...]
    positions: tuple[int, ...]
    operands: tuple[Tensor, ...]

    def key(self) -> Hashable:
        """Equal for steps that one node can do together."""
        alone = self.variables if self.op is rows_update else self.variables[0].spec.dtype
        return (self.op, self.numbers, self.params, alone)


def find_updates(
    outputs: Sequence[Tensor], state: Mapping[Tensor, int], engine: Engine
) -> list[Tensor]:
    """`outputs`, with optimizer steps as single nodes. `state` pairs variables with outputs."""
    optimizer_steps = Finder(outputs, state, engine).steps()
    steps = _undisturbed([_step(each, state) for each in optimizer_steps], outputs, engine)
    groups: dict[Hashable, list[Step]] = {}
    for step in steps:
        groups.setdefault(step.key(), []).append(step)
    results = list(outputs)
    for group in groups.values():
        _replace(group, results, engine)
    return results


def _step(found: Found, state: Mapping[Tensor, int]) -> Step:
    """The step that was found. Plain descent by the gradients of lookups is one on rows."""
    op, gradient, spec = found.pattern.op, found.gradient, found.variables[0].spec
    if found.scale != ONCE:
        gradient = mul(cast(tensor_of(found.scale, spec.dtype), dtype=spec.dtype), gradient)
    operands = [gradient]
    if op is gradient_update and (rows := lookups(gradient, found.variables[0])):
        op, operands = rows_update, [t.inputs[i] for i in (0, 1) for t in rows]
    positions = tuple([state[v] for v in found.variables])
    params = tuple(found.pattern.params.items())
    return Step(op, found.numbers, params, found.variables, positions, tuple(operands))


def keep_to_rows(
    outputs: Sequence[Tensor],
    news: Mapping[Tensor, int],
    state: Mapping[Tensor, int],
    engine: Engine,
) -> list[Tensor]:
    """`outputs`, with the rows of tables that a batch reads in the place of whole tables, where the
    other rows stay as they are. `news` tells which variable is replaced by which output, and
    `state` the same of those whose memory may be written over.
    """
    if not {rows_write.name, rows_set.name} & engine.table.keys():
        return list(outputs)
    results, steps = list(outputs), []
    for table, rows in find_rows(outputs, news).items():
        position = news[table]
        results[position] = rows_set(table, *rows)
        if table in state and rows_write.name in engine.table:
            steps.append(Step(rows_write, (), (), (table,), (position,), rows))
    kept = _undisturbed(steps, results, engine)
    if kept:
        _replace(kept, results, engine)
    return results


def _undisturbed(steps: list[Step], outputs: Sequence[Tensor], engine: Engine) -> list[Step]:
    """The steps whose variables may change in place, because nobody else would see it: no output
    has the memory of the old value, and no other step reads it.
    """
    is_kernel = partial(serves, engine)
    taken = {i for step in steps for i in step.positions}
    seen = alias_roots([t for i, t in enumerate(outputs) if i not in taken], is_kernel)
    written = {v for step in steps for v in step.variables}
    kept = []
    for step in steps:
        read = [*step.operands, *[t for number in step.numbers for t in tensors_in(number)]]
        if seen.isdisjoint(step.variables) and written.isdisjoint(alias_roots(read, is_kernel)):
            kept.append(step)
    return kept


def _replace(group: Sequence[Step], results: list[Tensor], engine: Engine) -> None:
    """Replace a group of steps by one node, if the engine's kernel takes it."""
    first = group[0]
    dtype = first.variables[0].spec.dtype
    numbers = [tensor_of(number, dtype) for number in first.numbers]
    columns = zip(*[step.variables for step in group], strict=True)
    variables = [v for column in columns for v in column]
    inputs = (*numbers, *variables, *[t for step in group for t in step.operands])
    op, params = first.op, dict(first.params)
    node = Tensor(
        op,
        inputs,
        params,
        tuple(op.infer_rule(*[t.spec for t in inputs], **params)),  # type: ignore[arg-type]
        results[first.positions[0]].where,
    )
    if not serves(engine, node):
        return
    written = outputs_of(node)
    for row, step in enumerate(group):
        for column, position in enumerate(step.positions):
            results[position] = written[column * len(group) + row]
