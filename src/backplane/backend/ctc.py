"""Connectionist temporal classification: the loss, decoding, and labels as a sparse tensor.

Source: A. Graves, S. Fernández, F. Gomez, J. Schmidhuber: Connectionist temporal classification:
labelling unsegmented sequence data with recurrent neural networks (ICML 2006).
"""

from __future__ import annotations

import math

from backplane import config, engines
from backplane.backend import _decoding
from backplane.backend._args import as_int, shape_vector
from backplane.backend._call import api
from backplane.backend._errors import explained
from backplane.backend._spatial_arguments import check_rank
from backplane.backend.activation import float_tensor
from backplane.backend.types import TensorLike
from backplane.core.graph import Tensor, constant
from backplane.core.sparse import SparseTensor
from backplane.core.spec import bits
from backplane.ops import elementwise as ew
from backplane.ops import ragged as rg
from backplane.ops import reduction
from backplane.ops.axes import merge_axes, permuted
from backplane.ops.creation import dims_of
from backplane.ops.ctc import ctc_loss
from backplane.ops.indexing import head
from backplane.ops.lift import as_tensor, cast_to
from backplane.ops.reduction import log_softmax
from backplane.ops.shaping import concat, full_like, squeeze

__all__ = ["ctc_batch_cost", "ctc_decode", "ctc_label_dense_to_sparse"]


@explained
def ctc_label_dense_to_sparse(labels: TensorLike, label_lengths: TensorLike) -> SparseTensor:
    """Convert padded label sequences to a sparse tensor.

    Args:
        labels: Tensor (samples, max_length).
        label_lengths: Integer tensor (samples,): how many labels of each row count.

    Returns:
        A sparse tensor with `indices` (int64), `values` (of the dtype of `labels`) and
        `dense_shape`. On engines that compile for fixed sizes (JAX) a compiled function gives as
        many entries as `labels` has elements. The surplus entries are at the end, with index −1 and
        value 0. Labels that are tensors of TensorFlow give a `tf.SparseTensor`.

    Raises:
        ValueError: if the ranks or numbers of samples do not fit.

    Example:
        >>> from backplane import backend as K
        >>> labels = K.constant([[3, 1, 0], [2, 0, 0]], dtype="int32")
        >>> sparse = K.ctc_label_dense_to_sparse(labels, K.constant([2, 1], dtype="int32"))
        >>> K.eval(sparse.values)
        array([3, 1, 2], dtype=int32)
        >>> K.eval(sparse.indices).tolist()
        [[0, 0], [0, 1], [1, 0]]
    """
    parts = SparseTensor(*_sparse_parts(labels, label_lengths))
    engine = engines.engine_of(parts.values)
    return parts if engine is None else engine.sparse(parts)


@api
def _sparse_parts(labels: TensorLike, label_lengths: TensorLike) -> tuple[Tensor, Tensor, Tensor]:
    labels = check_rank("labels", as_tensor(labels), 2)
    lengths = _lengths("label_lengths", label_lengths, labels)
    here = ew.less(rg.row(rg.positions(labels, 1)), rg.column(lengths))
    zeros = full_like(labels, 0, "int64")
    samples = rg.column(cast_to(rg.positions(labels, 0), "int64")) + zeros
    places = rg.row(cast_to(rg.positions(labels, 1), "int64")) + zeros
    keep, *parts = [merge_axes(rg.row(t), [[0], [1, 2]]) for t in (here, samples, places, labels)]
    rows, columns = rg.compacted(keep, *parts[:2], fill=-1)
    (values,) = rg.compacted(keep, parts[2])
    count = reduction.sum(cast_to(keep, "int32"), axes=(0, 1), keepdims=False)
    indices = concat(*[permuted(t, (1, 0)) for t in (rows, columns)], axis=1)
    return (
        head(indices, count, axis=0),
        head(squeeze(values, axes=(0,)), count, axis=0),
        cast_to(shape_vector(*dims_of(labels)), "int64"),
    )


@api
def ctc_batch_cost(
    y_true: TensorLike, y_pred: TensorLike, input_length: TensorLike, label_length: TensorLike
) -> Tensor:
    """CTC loss of each sample: −log of the probability that `y_pred` gives the labels, over all
    ways to spread them over the time steps.

    Args:
        y_true: Labels (samples, max_length): whole numbers from 0 to classes − 2. As in TensorFlow,
            the blank or a larger number ends a sequence before its `label_length`.
        y_pred: Probabilities (samples, time, classes), such as a softmax gives. The last class is
            the blank. `K.epsilon()` is added, and rows are scaled to sum to 1.
        input_length: How many time steps of each sample count: (samples, 1) or (samples,).
        label_length: How many labels of each sample count: (samples, 1) or (samples,).

    Returns:
        A tensor (samples, 1). The loss is infinite if the labels do not fit into the time steps. It
        is NaN if a label is negative or follows a blank, or a length is negative or larger than the
        tensor. In both cases the gradient is 0.

    Raises:
        ValueError: if the ranks or sizes do not fit.

    Example:
        >>> from backplane import backend as K
        >>> y_pred = K.constant([[[0.6, 0.4], [0.6, 0.4]]])
        >>> cost = K.ctc_batch_cost([[0]], y_pred, [[2]], [[1]])
        >>> K.eval(K.exp(-cost)).round(2)  # 0.6 * 0.6 + 2 * 0.6 * 0.4
        array([[0.84]], dtype=float32)
    """
    y_pred = check_rank("y_pred", float_tensor(y_pred), 3)
    labels = cast_to(check_rank("y_true", as_tensor(y_true), 2), "int32")
    _same_samples("y_true", labels, y_pred)
    steps = _lengths("input_length", input_length, y_pred)
    count = _lengths("label_length", label_length, y_pred)

    places = rg.row(rg.positions(labels, 1))
    here = ew.less(places, rg.column(count))
    blank = rg.size_of(y_pred, 2) - 1
    known = ew.logical_and(here, ew.logical_and(labels >= 0, labels < blank))
    # The blank, or a larger number, ends the labels. No other label may follow.
    used = reduction.sum(cast_to(known, "int32"), axes=(1,), keepdims=False)
    expected = ew.where(ew.less(places, rg.column(used)), known, labels >= blank)
    valid = reduction.all(ew.logical_or(expected, ew.logical_not(here)), axes=(1,), keepdims=False)
    for length, most in ((steps, rg.size_of(y_pred, 1)), (count, rg.size_of(labels, 1))):
        valid = ew.logical_and(valid, ew.logical_and(length >= 0, length <= most))
    usable = ew.where(known, labels, blank)
    steps = ew.minimum(ew.maximum(steps, rg.integer(0)), rg.size_of(y_pred, 1))

    loss, _ = ctc_loss(_scores(y_pred), usable, steps, used)
    loss = ew.where(valid, loss, constant(math.nan, loss.spec.dtype))
    return rg.column(cast_to(loss, y_pred.spec.dtype))


def _scores(y_pred: Tensor) -> Tensor:
    """Logarithms whose softmax is `y_pred` plus epsilon, normalized, in float32 at least."""
    dtype = y_pred.spec.dtype if bits(y_pred.spec.dtype) >= 32 else "float32"
    return ew.log(cast_to(y_pred, dtype) + config.epsilon())


@api
def ctc_decode(
    y_pred: TensorLike,
    input_length: TensorLike,
    greedy: bool = True,
    beam_width: int = 100,
    top_paths: int = 1,
    merge_repeated: bool = False,
    pad_to_steps: bool = False,
) -> tuple[list[Tensor], Tensor]:
    """Read label sequences off the predictions of a CTC network.

    Args:
        y_pred: Probabilities (samples, time, classes), such as a softmax gives. The last class is
            the blank.
        input_length: How many time steps of each sample count: (samples,) or (samples, 1).
        greedy: Whether to take the best class of each step (the first of equal ones), which is
            fast. Otherwise a beam search adds up the probabilities of all ways to write a sequence.
        beam_width: Number of sequences that the beam search keeps at each step.
        top_paths: Number of sequences that the beam search returns, best first; at most
            `beam_width`.
        merge_repeated: Whether to merge equal neighbours in the results of the beam search, too.
        pad_to_steps: Whether sequences are padded to the number of time steps, as in tf.keras, on
            every engine.

    Returns:
        `(sequences, scores)`. `sequences` is a list of `top_paths` integer tensors (samples,
        longest), or of a single one if `greedy`. They are padded with −1. Unless `pad_to_steps` is
        set, `longest` is the length of the longest sequence in the tensor; in compiled functions,
        engines that compile for fixed sizes (JAX) give all time steps instead. The `scores` of the
        beam search (samples, top_paths) are the log-probabilities of the sequences. The greedy
        scores (samples, 1) are minus the log-probability of the steps' best classes. A sequence
        that the search did not reach is empty and has score −inf.

    Raises:
        ValueError: if the ranks do not fit, or if `top_paths` is not between 1 and `beam_width`.

    Example:
        >>> from backplane import backend as K
        >>> y_pred = K.constant([[[0.8, 0.1, 0.1], [0.1, 0.1, 0.8], [0.1, 0.8, 0.1]]])
        >>> (best,), scores = K.ctc_decode(y_pred, [3])
        >>> K.eval(best)
        array([[0, 1]])
    """
    y_pred = check_rank("y_pred", float_tensor(y_pred), 3)
    lengths = _lengths("input_length", input_length, y_pred)
    if greedy:
        path, score = _decoding.best_path(y_pred, lengths, bool(pad_to_steps))
        return [path], score
    width, paths = as_int(beam_width, "beam_width"), as_int(top_paths, "top_paths")
    if not 1 <= paths <= width:
        raise ValueError(f"top_paths must be from 1 to beam_width = {width}, got {paths}")
    logs = log_softmax(_scores(y_pred), axis=2)
    labels, score = _decoding.beam_search(
        logs, lengths, width, paths, bool(merge_repeated), bool(pad_to_steps)
    )
    return labels, cast_to(score, y_pred.spec.dtype)


# --- arguments ------------------------------------------------------------------------------------


def _lengths(what: str, value: TensorLike, x: Tensor) -> Tensor:
    """One int32 length per sample of `x`, from (samples,) or (samples, 1)."""
    lengths = as_tensor(value)
    given = lengths.spec.shape
    if lengths.ndim == 2 and given[1] in (1, None):
        lengths = squeeze(lengths, axes=(1,))
    if lengths.ndim != 1:
        raise ValueError(f"{what} must have shape (samples,) or (samples, 1), got {tuple(given)}")
    _same_samples(what, lengths, x)
    return cast_to(lengths, "int32")


def _same_samples(what: str, x: Tensor, y: Tensor) -> None:
    n, m = x.spec.shape[0], y.spec.shape[0]
    if n is not None and m is not None and n != m:
        raise ValueError(f"{what} has {n} samples, expected {m}")
