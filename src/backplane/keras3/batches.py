"""The batches of an epoch, several of them for each execution."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from keras.src.trainers.epoch_iterator import EpochIterator

from backplane.core.context import warn


class Batches(EpochIterator):
    """Keras' iterator. Data that end within an execution are no reason to warn, unless the user
    asked for more: an epoch of five batches has an execution of four, and one of the last.
    """

    _num_batches: int | None

    def __next__(self) -> tuple[int, int, list[Any]]:
        begin, end, iterator = next(self._epoch_iterator)
        batches = list(islice(iterator, self.steps_per_execution))
        if len(batches) < self.steps_per_execution:
            known = self._num_batches
            if known is None or self._steps_seen < known or not batches:
                self._end(warns=not batches or bool(self.steps_per_epoch))
        if not batches:
            raise StopIteration
        return begin, end, batches

    def _end(self, warns: bool) -> None:
        """Note that there are no more batches, as Keras does."""
        if self._num_batches is None:
            self._num_batches = self._steps_seen
        if warns:
            self._interrupted_warning()
        self._current_iterator = None
        self.data_adapter.on_epoch_end()

    def _interrupted_warning(self) -> None:
        warn(
            "Your input ran out of data, so the epoch ends here. `steps_per_epoch` asks for more"
            " batches than there are: give fewer steps, or data that repeat (`.repeat()`)."
        )


@contextmanager
def one_batch(iterator: Any) -> Iterator[None]:
    """Inside, an iterator takes no more than one batch at a time: a generator gives batches that
    were looked at a second time, but only the first ones.
    """
    if iterator is None:
        yield
        return
    steps, iterator.steps_per_execution = iterator.steps_per_execution, 1
    try:
        yield
    finally:
        iterator.steps_per_execution = steps
