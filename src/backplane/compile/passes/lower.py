"""Lowering: writes a graph in the primitives that an engine has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from backplane.compile.fuse.readers import serves
from backplane.core.context import changed
from backplane.core.graph import (
    Placeholder,
    Results,
    Tensor,
    constant,
    rebuild,
    rewrite,
    substitute,
)
from backplane.core.primitive import OUTPUT
from backplane.core.spec import Spec
from backplane.engines.base import Engine
from backplane.ops.creation import dim
from backplane.ops.ctc import ctc_loss
from backplane.ops.recurrence import gru, lstm, lstm_grad, lstm_saving

UNREAD = constant([])
"""Stands for an operand that the engine's lowering does not read. It is no scalar, because equal
scalars become one node."""


LOOPS = frozenset([ctc_loss, gru, lstm, lstm_saving, lstm_grad])
"""Primitives whose decomposition is a loop."""


def lower(outputs: Sequence[Tensor], engine: Engine) -> list[Tensor]:
    """Replace a primitive by its decomposition if `engine` has no lowering for it, or none that
    fits (`Entry.unless`). Replace operands that its lowerings do not read by `UNREAD`.
    NotImplementedError, with primitive and engine, if there is no decomposition either.
    """

    def lowered(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | Results | None:
        op = node.op
        if op is None or op is OUTPUT:
            return None
        if not serves(engine, node) and op is not dim:
            return _decomposed(node, inputs, engine, partial(lower, engine=engine))
        entry = engine.table.get(op.name)
        if entry is None or entry.reads is None:
            return None
        read = tuple([t if i in entry.reads else UNREAD for i, t in enumerate(inputs)])
        return rebuild(node, read, keep_spec=True)

    return rewrite(outputs, lowered, keep_specs=True)


def write_out(outputs: Sequence[Tensor], engine: Engine, *, taped: bool) -> list[Tensor]:
    """Replace the primitives of `LOOPS` by their decomposition unless `engine` has a lowering that
    fits, so that the passes for loops see these. Kernels of libraries lack second derivatives, so
    they do not serve where an engine's own tape may watch.
    """

    def written(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | Results | None:
        if node.op not in LOOPS or not (taped or not serves(engine, node)):
            return None
        return _decomposed(node, inputs, engine, list)

    return rewrite(outputs, written, keep_specs=True)


def _known_as(t: Tensor, spec: Spec) -> Tensor:
    """`t` with the sizes of the node that it stands for: what is inferred from a decomposition may
    know less, and lowerings of what reads it choose by its sizes.
    """
    sizes = tuple([m if n is None else n for n, m in zip(t.spec.shape, spec.shape, strict=True)])
    if t.op is None or sizes == t.spec.shape:
        return t
    return Tensor(t.op, t.inputs, t.params, Spec(sizes, t.spec.dtype), t.where, t._name)


def _decomposed(
    node: Tensor,
    inputs: tuple[Tensor, ...],
    engine: Engine,
    after: Callable[[Sequence[Tensor]], list[Tensor]],
) -> Tensor | Results:
    """The replacement of `node` once `after` has dealt with its decomposition."""
    op = node.op
    assert op is not None
    if op.decomposition is None:
        raise NotImplementedError(
            f"the engine {engine.name!r} has no lowering for the primitive {op.name!r}, which "
            f"has no decomposition either (built at {node.where})"
        )
    with changed(line=node.where):
        fresh = [Placeholder(t.spec) if t.op is not None else t for t in inputs]
        results = op.decomposition(*fresh, **node.params)
    # Specs are kept where the operands are put in, because an inferred spec may know less.
    mapping = {p: t for p, t in zip(fresh, inputs, strict=True) if p is not t}
    listed = after(results if op.multiple else [results])
    listed = substitute(listed, mapping, keep_specs=True)
    if op.multiple:
        return dict(enumerate(listed))
    # A copy of an operand would be computed twice: others read that operand too.
    handed_on = any(listed[0] is t for t in inputs)
    return listed[0] if handed_on else _known_as(listed[0], node.spec)
