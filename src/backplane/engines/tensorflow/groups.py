"""Lowerings: normalization over all axes but the last, and the loss of CTC, by their kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from backplane.core.spec import Spec
from backplane.engines.table import Axes, Table, Value
from backplane.engines.tensorflow.constants import ints, number, vector
from backplane.engines.tensorflow.control import (
    MANY_ROWS,
    in_own_program,
    not_empty,
    takes_few_rows,
)
from backplane.engines.tensorflow.fast.direct import accelerated
from backplane.engines.tensorflow.library import raw, tf
from backplane.engines.tensorflow.reductions import mean, sum_

TABLE = Table()

MOST_ROWS = 1 << 15
"""Rows up to which the kernels serve. They add up single numbers: the variance of 16,384 rows is
wrong by 5e-6, and that of a million by 5e-4."""

Results = Callable[[], list[Value]]


def _has_no_kernel(specs: Sequence[Spec], *, axes: Axes, epsilon: float = 0.0) -> bool:
    """The kernels take float32, and their statistics have another form on accelerators."""
    x, *parameters = specs
    size = x.shape[-1] if x.shape else None
    over_rows = len(x.shape) > 1 and axes == tuple(range(len(x.shape) - 1))
    if not (over_rows and size and x.dtype == "float32") or accelerated():
        return True
    return any(t.shape[-1:] != (size,) or not {1}.issuperset(t.shape[:-1]) for t in parameters)


@TABLE.add("normalize", unless=_has_no_kernel)
def _normalize(x: Value, *parameters: Value, axes: Axes, epsilon: float) -> list[Value]:
    return _chosen(
        x,
        lambda: _normalized_by_kernel(x, *parameters, epsilon=epsilon),
        lambda: _normalized_by_sums(x, *parameters, axes=axes, epsilon=epsilon),
    )


def _chosen(x: Value, by_kernel: Results, by_sums: Results) -> list[Value]:
    """The form that fits the number of rows. A tape would not see that a kernel's results depend on
    the statistics, so kernels serve in programs of ours alone.
    """
    if not in_own_program():
        return by_sums()
    rows = x.shape[:-1].num_elements()
    if rows is not None:
        return by_kernel() if rows <= MOST_ROWS else by_sums()
    few = tf.size(x) <= MOST_ROWS * x.shape[-1]
    if takes_few_rows():
        raw.Assert(condition=few, data=[MANY_ROWS])
        return by_kernel()
    return list(tf.cond(few, by_kernel, by_sums))


def _normalized_by_kernel(x: Value, *parameters: Value, epsilon: float) -> list[Value]:
    gamma, beta = [_flat(t) for t in parameters] or _nothing(x)
    results = raw.FusedBatchNormV3(
        x=_as_images(x), scale=gamma, offset=beta, mean=tf.zeros(0), variance=tf.zeros(0),
        epsilon=epsilon, is_training=True,
    )  # fmt: skip
    kept = ints((*[1] * (x.shape.rank - 1), x.shape[-1]))
    # The result that is named the variance is a mean over one row less.
    moments = results.reserve_space_1, results.reserve_space_2
    centre, variance = [raw.Reshape(tensor=t, shape=kept) for t in moments]
    return [_like(results.y, x), centre, variance, _scale(variance, epsilon)]


def _scale(variance: Value, epsilon: float) -> Value:
    return raw.Rsqrt(x=raw.AddV2(x=variance, y=number(epsilon, "float32")))


def _normalized_by_sums(x: Value, *parameters: Value, axes: Axes, epsilon: float) -> list[Value]:
    centre = mean(x, axes=axes, keepdims=True)
    centred = x - centre
    variance = mean(tf.square(centred), axes=axes, keepdims=True)
    scale = _scale(variance, epsilon)
    if not parameters:
        return [centred * scale, centre, variance, scale]
    return [centred * (scale * parameters[0]) + parameters[1], centre, variance, scale]


def _flat(t: Value) -> Value:
    return t if t.shape.rank == 1 else raw.Reshape(tensor=t, shape=ints((-1,)))


def _nothing(x: Value) -> tuple[Value, Value]:
    """A gamma and a beta that change nothing."""
    size = x.shape[-1]
    return tf.ones(size), tf.zeros(size)


def _as_images(x: Value) -> Value:
    """All rows as images, channels last."""
    return x if x.shape.rank == 4 else raw.Reshape(tensor=x, shape=ints((-1, 1, 1, x.shape[-1])))


def _like(y: Value, x: Value) -> Value:
    return y if x.shape.rank == 4 else raw.Reshape(tensor=y, shape=tf.shape(x))


@TABLE.add(
    "normalize_grad",
    unless=lambda specs, *, axes: _has_no_kernel([specs[1], *specs[4:]], axes=axes),
)
def _normalize_grad(
    g: Value, x: Value, centre: Value, scale: Value, *gamma: Value, axes: Axes
) -> list[Value]:
    operands = g, x, centre, scale, *gamma
    return _chosen(x, lambda: _by_kernel(*operands), lambda: _by_sums(*operands, axes=axes))


def _by_kernel(g: Value, x: Value, centre: Value, scale: Value, *gamma: Value) -> list[Value]:
    """The kernel computes 1 / √(variance + ε), which is `scale`: so ε may be 0 here."""
    factor = _flat(gamma[0]) if gamma else _nothing(x)[0]
    gradients = raw.FusedBatchNormGradV3(
        y_backprop=_as_images(g), x=_as_images(x), scale=factor,
        reserve_space_1=_flat(centre), reserve_space_2=tf.square(1 / _flat(scale)),
        reserve_space_3=tf.zeros(0), epsilon=0.0, is_training=True,
    )  # fmt: skip
    by_parameters = (gradients.scale_backprop, gradients.offset_backprop)
    return [
        _like(gradients.x_backprop, x),
        *[raw.Reshape(tensor=t, shape=vector(gamma[0].shape)) for t in by_parameters if gamma],
    ]


def _by_sums(
    g: Value, x: Value, centre: Value, scale: Value, *gamma: Value, axes: Axes
) -> list[Value]:
    centred = x - centre
    total = sum_(g, axes=axes, keepdims=True)
    moment = sum_(g * centred, axes=axes, keepdims=True) * scale
    rows = tf.cast(tf.size(x) / x.shape[-1], x.dtype)
    by_x = (g - total / rows - centred * (moment * scale / rows)) * (
        scale * gamma[0] if gamma else scale
    )
    return [by_x, *[tf.reshape(t, gamma[0].shape) for t in (moment, total) if gamma]]


def _has_no_kernel_for_given(specs: Sequence[Spec], *, epsilon: float) -> bool:
    rank = len(specs[0].shape)
    return rank < 2 or _has_no_kernel(specs, axes=tuple(range(rank - 1)))


@TABLE.add("normalize_by", unless=_has_no_kernel_for_given)
def _normalize_by(
    x: Value, centre: Value, variance: Value, gamma: Value, beta: Value, *, epsilon: float
) -> Value:
    """TensorFlow's optimizer joins this kernel with a convolution before it and a rectifier behind
    it. A tape would not see that it depends on the moments.
    """
    if not in_own_program():
        return (x - centre) * (_scale(variance, epsilon) * gamma) + beta
    results = raw.FusedBatchNormV3(
        x=_as_images(x), scale=_flat(gamma), offset=_flat(beta), mean=_flat(centre),
        variance=_flat(variance), epsilon=epsilon, is_training=False,
    )  # fmt: skip
    return _like(results.y, x)


# --- connectionist temporal classification --------------------------------------------------------


def _has_no_ctc_kernel(specs: Sequence[Spec]) -> bool:
    """The kernel takes some logarithms in float32, whatever the dtype."""
    return specs[0].dtype != "float32" or accelerated()


@TABLE.add("ctc_loss", unless=_has_no_ctc_kernel)
def _ctc_loss(scores: Value, labels: Value, steps: Value, counts: Value) -> list[Value]:
    """Use the kernel for float64, because the kernel computes probabilities and not their
    logarithms. It refuses samples without labels. So these get a label, and the loss of blanks
    takes the place of what the kernel gives for them.
    """
    dtype = scores.dtype
    if 0 in scores.shape.as_list():
        none = tf.zeros_like(counts, dtype)
        return [tf.where(counts > 0, number(math.inf, dtype.name), none), tf.zeros_like(scores)]
    scores = not_empty(scores)
    padded = tf.pad(labels, [[0, 0], [0, 1]])
    places = tf.where(tf.sequence_mask(tf.maximum(counts, 1), tf.shape(padded)[1]))
    wide = tf.cast(scores, tf.float64)
    results = raw.CTCLoss(
        inputs=tf.transpose(wide, [1, 0, 2]), labels_indices=places,
        labels_values=tf.gather_nd(tf.where(counts[:, None] > 0, padded, 0), places),
        sequence_length=steps, ctc_merge_repeated=True, ignore_longer_outputs_than_inputs=True,
    )  # fmt: skip
    loss = tf.where(_fit(labels, steps, counts), results.loss, number(math.inf, "float64"))
    loss = tf.where(_unknown(wide, steps), number(math.nan, "float64"), loss)
    slopes = tf.transpose(results.gradient, [1, 0, 2])
    slopes = tf.where(tf.math.is_inf(loss)[:, None, None], number(0, "float64"), slopes)
    by_blanks = _loss_of_blanks(wide, steps)
    without = counts <= 0, counts[:, None, None] <= 0
    pairs = zip(without, by_blanks, (loss, slopes), strict=True)
    return [tf.cast(tf.where(none, x, y), dtype) for none, x, y in pairs]


def _fit(labels: Value, steps: Value, counts: Value) -> Value:
    """Whether the labels fit into the steps: between equal ones there is a blank."""
    pairs = tf.sequence_mask(counts - 1, tf.maximum(tf.shape(labels)[1] - 1, 0))
    equal = tf.logical_and(tf.equal(labels[:, 1:], labels[:, :-1]), pairs)
    return counts + tf.reduce_sum(tf.cast(equal, tf.int32), 1) <= steps


def _unknown(scores: Value, steps: Value) -> Value:
    """Whether a score is NaN. The kernel gives inf for some of these samples."""
    counted = tf.sequence_mask(steps, tf.shape(scores)[1])
    return tf.reduce_any(tf.reduce_any(tf.math.is_nan(scores), 2) & counted, 1)


def _loss_of_blanks(scores: Value, steps: Value) -> tuple[Value, Value]:
    """The loss if all steps are blanks, and its gradient."""
    zero = number(0, "float64")
    counted = tf.sequence_mask(steps, tf.shape(scores)[1])
    loss = -tf.reduce_sum(tf.where(counted, tf.nn.log_softmax(scores)[..., -1], zero), 1)
    size = tf.shape(scores)[2]
    slopes = tf.nn.softmax(scores) - tf.one_hot(size - 1, size, dtype=scores.dtype)
    return loss, tf.where(counted[..., None], slopes, zero)
