"""The loss of connectionist temporal classification, for which libraries have a kernel.

Source: A. Graves, S. Fernández, F. Gomez, J. Schmidhuber: Connectionist temporal classification:
labelling unsegmented sequence data with recurrent neural networks (ICML 2006).
"""

from __future__ import annotations

import math

from backplane.core.graph import Tensor, constant
from backplane.core.primitive import primitive
from backplane.core.spec import Spec, check_dtype
from backplane.core.traits import Cotangents, Memory, results_like
from backplane.ops import control
from backplane.ops import elementwise as ew
from backplane.ops import ragged as rg
from backplane.ops.autodiff import gradients
from backplane.ops.axes import merge_axes, permuted
from backplane.ops.creation import shaped, size_at
from backplane.ops.effects import identity
from backplane.ops.indexing import shifted
from backplane.ops.reduction import log_softmax, logsumexp
from backplane.ops.shaping import broadcast_to, concat, expand_dims, full_like, squeeze, stack


@primitive(multiple=True, memory=Memory.FRESH, axes=results_like(0, 0))
def ctc_loss(scores: Spec, labels: Spec, steps: Spec, counts: Spec) -> list[Spec]:
    """−log of the probability of each sample's labels, then its gradient by the scores. A softmax
    of `scores` (samples, time, classes) gives the probabilities of each step, and the last class is
    the blank. The first `steps` of a sample's rows count, and the first `counts` of its `labels`
    (samples, longest); the other labels are blanks. A blank that counts as a label takes
    a step of its own. All three are int32 and within bounds. If the labels do not fit into the
    steps, the loss is infinite and the gradient 0.
    """
    check_dtype("ctc_loss", "scores", scores.dtype, frozenset({"float32", "float64"}))
    for name, t in (("labels", labels), ("steps", steps), ("counts", counts)):
        check_dtype("ctc_loss", name, t.dtype, frozenset({"int32"}))
    return [Spec(scores.shape[:1], scores.dtype), scores]


@ctc_loss.decompose
def _(scores: Tensor, *others: Tensor) -> list[Tensor]:
    scores = identity(scores)  # The other operands may be computed from it.
    loss = _written_out(scores, *others)
    return [loss, _slopes(loss, scores)]


@ctc_loss.vjp
def _(g: Cotangents, y: list[Tensor], scores: Tensor, *others: Tensor) -> Cotangents:
    cotangent = None if g[0] is None else expand_dims(g[0], axes=(1, 2)) * y[1]
    if g[1] is not None:
        given = identity(scores)
        slopes = _slopes(_written_out(given, *others), given)
        (more,) = gradients([slopes], [given], [g[1]], stop=[given])
        cotangent = more if cotangent is None or more is None else cotangent + more
    return [cotangent, None, None, None]


def _slopes(loss: Tensor, scores: Tensor) -> Tensor:
    (slopes,) = gradients([loss], [scores], [full_like(loss, 1)], stop=[scores])
    assert slopes is not None
    return slopes


def _written_out(scores: Tensor, labels: Tensor, steps: Tensor, counts: Tensor) -> Tensor:
    """The loss as a loop over the time steps."""
    largest, others = rg.largest_and_others(scores, 2)
    # `log_softmax` would lose the digits of what is added to 1 where one class is all but certain.
    # Nothing is infinite in what gives the derivatives: its own value is subtracted from it.
    finite = ew.maximum(log_softmax(scores, axis=2), constant(rg.IMPOSSIBLE, scores.spec.dtype))
    logs = rg.with_slope(scores - largest - ew.log1p(others), finite)
    total = _log_probability(logs, labels, steps, counts)
    impossible = total <= rg.IMPOSSIBLE / 2
    return ew.where(impossible, constant(math.inf, total.spec.dtype), 0.0 - total)


def _log_probability(logs: Tensor, labels: Tensor, steps: Tensor, counts: Tensor) -> Tensor:
    """The log of the probability of labels, by CTC's forward variables, step by step."""
    blank = rg.size_of(logs, 2) - 1
    # blank, label, blank, label, …, blank
    path = merge_axes(stack([labels * 0 + blank, labels], 2), [[0], [1, 2]])
    path = concat(path, shaped(broadcast_to, [size_at(labels, 0), 1], blank), axis=1)
    emitted = rg.picked(permuted(logs, (0, 2, 1)), path)
    # A label may follow another one without a blank between them, unless both are equal.
    skips = ew.not_equal(path, shifted(path, axis=1, by=2, fill=-1))
    dtype = logs.spec.dtype
    impossible = constant(rg.IMPOSSIBLE, dtype)
    # Before the first step, only the beginning of the path is reached. Both the first blank and the
    # first label are one move away from it.
    first = ew.equal(rg.positions(path, 1), rg.integer(0))
    start = ew.where(rg.row(first), full_like(path, 0, dtype), impossible)
    columns = rg.column(steps)

    def step(carry: list[Tensor], items: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        (alpha,), (time, log) = carry, items
        leap = ew.where(skips, shifted(alpha, axis=1, by=2, fill=rg.IMPOSSIBLE), impossible)
        new = rg.log_sum([alpha, shifted(alpha, axis=1, by=1, fill=rg.IMPOSSIBLE), leap]) + log
        # Unreachable places would otherwise sink lower and lower.
        new = ew.maximum(new, impossible)
        return [ew.where(time < columns, new, alpha)], []

    times = rg.positions(logs, 1)
    (alpha,), _ = control.scan(step, [start], [times, permuted(emitted, (2, 0, 1))])
    # A path ends in the last label or in the blank behind it.
    distance = rg.column(counts * 2) - rg.row(rg.positions(path, 1))
    ends = ew.logical_or(ew.equal(distance, rg.integer(0)), ew.equal(distance, rg.integer(1)))
    logs_of_ends = ew.where(ends, alpha, impossible)
    largest, others = rg.largest_and_others(logs_of_ends, 1)
    exact = squeeze(largest + ew.log1p(others), axes=(1,))
    return rg.with_slope(exact, logsumexp(logs_of_ends, axes=(1,), keepdims=False))
