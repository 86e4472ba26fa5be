"""CTC of Keras 3: the loss, and reading label sequences off predictions."""

from __future__ import annotations

from typing import Any

from backplane.backend import _decoding
from backplane.core.graph import Tensor, constant
from backplane.core.spec import bits
from backplane.keras3.call import op
from backplane.keras3.operands import float_of, tensor_of
from backplane.ops import elementwise as ew
from backplane.ops import ragged as rg
from backplane.ops import reduction
from backplane.ops.ctc import ctc_loss as loss_of_scores
from backplane.ops.indexing import part, shifted
from backplane.ops.lift import cast_to
from backplane.ops.shaping import concat, expand_dims, stack


def _blank_last(x: Tensor, blank: int) -> Tensor:
    """Scores (samples, time, classes) with the blank as the last class, as the primitives of CTC
    have it.
    """
    classes = x.spec.shape[2]
    if classes is None:
        raise ValueError("ctc: the number of classes must be known")
    if blank == classes - 1:
        return x
    ends = [(0, blank), (blank + 1, classes), (blank, blank + 1)]
    return concat(*[part(x, 2, a, b) for a, b in ends if b > a], axis=2)


def _wide(x: Any) -> Tensor:
    """Scores in float32 at least."""
    x = float_of(x)
    return x if bits(x.spec.dtype) >= 32 else cast_to(x, "float32")


@op
def ctc_loss(
    target: Any, output: Any, target_length: Any, output_length: Any, mask_index: int = 0
) -> Tensor:
    """−log of the probability of the labels, summed over all ways to spread them over time.

    Args:
        target: Labels (samples, length).
        output: Logits (samples, time, classes).
        target_length: How many labels of each sample count.
        output_length: How many time steps of each sample count.
        mask_index: The class that stands for the blank.
    """
    labels, steps, counts = (
        cast_to(tensor_of(t), "int32") for t in (target, output_length, target_length)
    )
    scores = _blank_last(_wide(output), mask_index)
    here = rg.row(rg.positions(labels, 1)) < rg.column(counts)
    is_class = ew.logical_and(here, ew.not_equal(labels, tensor_of(mask_index, "int32")))
    labels = ew.where(labels > mask_index, labels - 1, labels)
    labels = ew.where(is_class, labels, rg.size_of(scores, 2) - 1)
    loss, _ = loss_of_scores(scores, labels, steps, counts)
    return loss


@op
def ctc_decode(
    inputs: Any,
    sequence_lengths: Any,
    strategy: str = "greedy",
    beam_width: int = 100,
    top_paths: int = 1,
    merge_repeated: bool = True,
    mask_index: int | None = 0,
) -> tuple[Tensor, Tensor]:
    """Label sequences (paths, samples, time), padded with −1, and their scores (samples, paths).

    Raises:
        ValueError: for another `strategy` than `"greedy"` and `"beam_search"`.
    """
    scores, lengths = _wide(inputs), cast_to(tensor_of(sequence_lengths), "int32")
    classes = scores.spec.shape[2] or 0
    blank = classes - 1 if mask_index is None else mask_index
    if strategy == "greedy":
        return _greedy(scores, lengths, merge_repeated, blank)
    if strategy != "beam_search":
        raise ValueError(
            f"Invalid strategy {strategy}. Supported values are 'greedy' and 'beam_search'."
        )
    logs = reduction.log_softmax(_blank_last(scores, blank), axis=2)
    paths, best = _decoding.beam_search(logs, lengths, beam_width, top_paths, False, True)
    joined = cast_to(stack(paths, 0), "int32")
    return ew.where(joined >= blank, joined + 1, joined), best


def _greedy(x: Tensor, lengths: Tensor, merge_repeated: bool, blank: int) -> tuple[Tensor, Tensor]:
    """The best class of each step without blanks; minus the sum of the scores of these classes."""
    best = cast_to(reduction.argmax(x, axis=2), "int32")
    here = rg.row(rg.positions(best, 1)) < rg.column(lengths)
    no_class = constant(blank, "int32")
    best = ew.where(here, best, no_class)
    keep = ew.not_equal(best, no_class)
    if merge_repeated:
        keep = ew.logical_and(keep, ew.not_equal(best, shifted(best, axis=1, by=1, fill=-1)))
    (path,) = rg.compacted(keep, best, fill=-1)
    top = reduction.max(x, axes=(2,), keepdims=False)
    top = ew.where(here, top, ew.zero(top))
    return expand_dims(path, axes=(0,)), -reduction.sum(top, axes=(1,), keepdims=True)
