"""The losses of a model with several outputs, of which each has a log of its own."""

from __future__ import annotations

from typing import Any

from keras.src import tree
from keras.src.trainers import compile_utils

from backplane.keras3.ops import core


class CompileLoss(compile_utils.CompileLoss):
    """Keras' losses of all outputs. The log of each counts the samples of batches, also where their
    number is open: Keras gives None for it, which would count a smaller last batch like the others.
    """

    _count: Any = None
    """The number of samples, while losses are computed."""

    def call(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """The sum of the losses."""
        sizes = core.shape(tree.flatten(y_pred)[0])
        self._count = sizes[0] if sizes else None
        try:
            return super().call(y_true, y_pred, sample_weight)
        finally:
            self._count = None

    @property
    def metrics(self) -> list[Any]:
        """The logs; while losses are computed, such that know the number of samples."""
        if self._count is None:
            return self._metrics
        return [_Counting(metric, self._count) for metric in self._metrics]


class _Counting:
    """The log of one loss, in a step."""

    def __init__(self, metric: Any, count: Any) -> None:
        self.metric = metric
        self.count = count

    def update_state(self, value: Any, sample_weight: Any = None) -> None:
        """Take in the loss of a batch."""
        weight = self.count if sample_weight is None else sample_weight
        self.metric.update_state(value, sample_weight=weight)
