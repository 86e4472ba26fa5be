"""Decoders for CTC: the best class of each step, and a beam search over label sequences."""

from __future__ import annotations

import math

import numpy as np

from backplane import config
from backplane.core.graph import Tensor, constant
from backplane.ops import control, reduction
from backplane.ops import elementwise as ew
from backplane.ops import ragged as rg
from backplane.ops.axes import merge_axes, permuted
from backplane.ops.creation import shaped, shaped_as, size_at
from backplane.ops.indexing import pad, part, scatter_add, shifted
from backplane.ops.lift import cast_to
from backplane.ops.reduction import argmax, top_k
from backplane.ops.shaping import broadcast_to, concat, expand_dims, reshape, squeeze


def best_path(y_pred: Tensor, lengths: Tensor, whole: bool) -> tuple[Tensor, Tensor]:
    """The best class of each step, with repetitions merged and blanks removed, and minus the log of
    the probability of these classes. With `whole`, the path is as long as there are steps.
    """
    best = argmax(y_pred, axis=2)
    here = rg.row(rg.positions(best, 1)) < rg.column(lengths)
    blank = cast_to(rg.size_of(y_pred, 2) - 1, "int64")
    keep = ew.logical_and(here, ew.not_equal(best, shifted(best, axis=1, by=1, fill=-1)))
    keep = ew.logical_and(keep, ew.not_equal(best, blank))
    (path,) = rg.compacted(keep, best, fill=-1)
    chosen = reduction.max(y_pred, axes=(2,), keepdims=False)
    logs = ew.log(chosen + config.epsilon())
    logs = ew.where(here, logs, constant(0, logs.spec.dtype))
    return path if whole else rg.narrowed(path, keep), -reduction.sum(
        logs, axes=(1,), keepdims=True
    )


def beam_search(
    logs: Tensor, lengths: Tensor, width: int, paths: int, merge_repeated: bool, whole: bool
) -> tuple[list[Tensor], Tensor]:
    """The `paths` best sequences for log-probabilities (samples, time, classes), and the
    log-probabilities of these sequences. With `whole`, sequences are as long as there are steps.
    """
    if logs.spec.shape[2] == 1:  # The search needs a label, even one that never occurs.
        logs = pad(logs, padding=((0, 0), (0, 0), (1, 0)), value=rg.IMPOSSIBLE)
    search = _Search(logs, lengths, width)
    score, labels = search.run(paths)
    best = part(score, 1, 0, paths)
    reached = best > rg.IMPOSSIBLE / 2
    best = ew.where(reached, best, constant(-math.inf, best.spec.dtype))
    ends = []
    for k in range(paths):
        path = squeeze(part(labels, 2, k, k + 1), axes=(2,))
        path = cast_to(permuted(path, (1, 0)), "int64")
        keep = path >= 0
        (path,) = rg.compacted(keep, path, fill=-1)
        if merge_repeated:
            keep = ew.logical_and(
                path >= 0, ew.not_equal(path, shifted(path, axis=1, by=1, fill=-1))
            )
            (path,) = rg.compacted(keep, path, fill=-1)
        ends.append(path if whole else rg.narrowed(path, keep))
    return ends, best


BASES = np.array([1_000_003, 998_244_353], "int64")
MODULUS = 2**31 - 1
"""A sequence of labels is known by two numbers, each a polynomial in one of the bases: the products
stay inside int64 on every engine. That two sequences agree in both is less likely than 1e-14 for
sequences of 100 labels."""
NOBODY, ORPHAN = -1, -2
"""The number of an unused place of the beam; and that of the parent of what has none."""


class _Search:
    """A beam of `width` sequences per sample.

    Each place of the beam describes a sequence by what the search needs: numbers that identify it
    and the sequence without its last label (its parent), the last label, the log-probability of all
    ways to write it that end in a blank, and that of all ways that end in the label. The labels
    themselves are found at the end, by going back through the steps.
    """

    def __init__(self, logs: Tensor, lengths: Tensor, width: int) -> None:
        self.logs, self.lengths, self.width = logs, lengths, width
        self.dtype = logs.spec.dtype
        self.impossible = constant(rg.IMPOSSIBLE, self.dtype)
        self.labels = rg.size_of(logs, 2) - 1

    def run(self, paths: int) -> tuple[Tensor, Tensor]:
        """Scores (samples, width), best first, and labels (time, samples, paths), −1 for none."""
        samples = size_at(self.logs, 0)
        only_first = np.arange(self.width) == 0

        def everywhere(first: float, others: float, dtype: str) -> Tensor:
            values = constant(np.where(only_first, first, others), dtype)
            return shaped(broadcast_to, [samples, self.width], values)

        hashes = [everywhere(0, NOBODY, "int64") for _ in BASES]
        parents = [everywhere(ORPHAN, ORPHAN, "int64") for _ in BASES]
        ends = [
            everywhere(0, rg.IMPOSSIBLE, self.dtype),
            everywhere(rg.IMPOSSIBLE, rg.IMPOSSIBLE, self.dtype),
        ]
        last = everywhere(-1, -1, "int32")
        items = [rg.positions(self.logs, 1), permuted(self.logs, (1, 0, 2))]
        final, (source, added) = control.scan(self.step, [*ends, last, *hashes, *parents], items)
        return rg.log_sum(final[:2]), self.trace_back(source, added, paths)

    def step(self, carry: list[Tensor], items: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """One time step: each sequence stays, or gets each label, and the best `width` go on."""
        time, log = items
        blank_end, label_end, last = carry[:3]
        hashes, parents = carry[3:5], carry[5:]
        # The log-probabilities of the ways that end in a blank, of the others, and of all.
        ways = [blank_end, label_end, rg.log_sum([blank_end, label_end])]
        match = self.is_parent(hashes, parents)
        ends = self.kept(log, ways, last, match)
        longer = self.extended(log, ways, last, match)
        candidates = concat(rg.log_sum(ends), merge_axes(longer, [[0], [1, 2]]), axis=1)
        score, place = top_k(candidates, k=self.width)

        stays = place < self.width
        beyond = ew.maximum(place - self.width, rg.integer(0))
        source = ew.where(stays, place, ew.floordiv(beyond, self.labels))
        label = ew.mod(beyond, self.labels)
        alive = score > rg.IMPOSSIBLE / 2
        stays_alive = ew.logical_and(stays, alive)

        def choose(kept: Tensor, new: Tensor, dead: float) -> Tensor:
            nothing = constant(dead, new.spec.dtype)
            kept = rg.picked(kept, source)
            return ew.where(stays_alive, kept, ew.where(alive, new, nothing))

        following = [
            choose(ends[0], self.impossible, rg.IMPOSSIBLE),
            choose(ends[1], score, rg.IMPOSSIBLE),
            choose(last, label, -1),
        ]
        wide = cast_to(label, "int64") + 1
        for h, base in zip(hashes, BASES.tolist(), strict=True):
            longer_hash = ew.mod(rg.picked(h, source) * base + wide, constant(MODULUS, "int64"))
            following.append(choose(h, longer_hash, NOBODY))
        following += [
            choose(p, rg.picked(h, source), ORPHAN) for h, p in zip(hashes, parents, strict=True)
        ]
        active = time < rg.column(self.lengths)
        carry = [ew.where(active, new, old) for new, old in zip(following, carry, strict=True)]
        added = ew.where(ew.logical_or(stays, ew.logical_not(active)), rg.integer(-1), label)
        places = constant(np.arange(self.width), "int32")
        return carry, [ew.where(active, source, rg.row(places)), added]

    def is_parent(self, hashes: list[Tensor], parents: list[Tensor]) -> Tensor:
        """(samples, i, j): whether sequence j is sequence i plus one label."""
        same = [
            ew.equal(expand_dims(h, axes=(2,)), expand_dims(p, axes=(1,)))
            for h, p in zip(hashes, parents, strict=True)
        ]
        return ew.logical_and(*same)

    def kept(self, log: Tensor, ways: list[Tensor], last: Tensor, match: Tensor) -> list[Tensor]:
        """Log-probabilities of the sequences that stay as they are: of the ways that end in a
        blank, and of those that end in the last label, written once more or added to the parent
        just now.
        """
        before = _before(expand_dims(last, axes=(1,)), ways, last)
        before = ew.where(match, before, self.impossible)
        from_parent = reduction.max(before, axes=(1,), keepdims=False)
        own = rg.picked(log, ew.maximum(last, rg.integer(0)))
        blank = part(log, 1, -1)
        ends = [ways[2] + blank, rg.log_sum([ways[1], from_parent]) + own]
        return [ew.maximum(t, self.impossible) for t in ends]

    def extended(self, log: Tensor, ways: list[Tensor], last: Tensor, match: Tensor) -> Tensor:
        """Log-probabilities of sequences with one more label, except those in the beam already."""
        labels = part(log, 1, None, -1)
        numbers = rg.row(rg.row(rg.positions(labels, 1)))
        longer = _before(numbers, ways, last) + expand_dims(labels, axes=(1,))
        # Each sequence j whose parent i is in the beam marks its place (i, label) as taken.
        parent = argmax(cast_to(match, "int32"), axis=1)
        has_parent = reduction.any(match, axes=(1,), keepdims=False)
        width, classes = rg.integer(self.width), self.labels
        start = rg.column(rg.positions(log, 0) * (width * classes))
        at = cast_to(parent, "int32") * classes + ew.maximum(last, rg.integer(0)) + start
        flat = merge_axes(longer, [[0, 1, 2]])
        hits, places = (merge_axes(t, [[0, 1]]) for t in (cast_to(has_parent, "int32"), at))
        taken = shaped_as(scatter_add, flat, hits, places, axis=0)
        taken = shaped_as(reshape, longer, taken)
        longer = ew.where(taken > 0, self.impossible, longer)
        return ew.maximum(longer, self.impossible)

    def trace_back(self, source: Tensor, added: Tensor, paths: int) -> Tensor:
        """The labels of the first `paths` places at the end, found backwards through the steps."""
        sizes = [size_at(self.logs, 0), paths]
        start = shaped(broadcast_to, sizes, constant(np.arange(paths), "int32"))

        def back(carry: list[Tensor], items: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
            return [rg.picked(items[0], carry[0])], [rg.picked(items[1], carry[0])]

        return control.scan(back, [start], [source, added], reverse=True)[1][0]


def _before(labels: Tensor, ways: list[Tensor], last: Tensor) -> Tensor:
    """Log-probabilities of what labels may follow. Equal labels need a blank between them."""
    same = ew.equal(expand_dims(last, axes=(2,)), labels)
    return ew.where(same, expand_dims(ways[0], axes=(2,)), expand_dims(ways[2], axes=(2,)))
