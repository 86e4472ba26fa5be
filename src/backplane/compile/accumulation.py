"""Gradient accumulation: `K.function(…, accumulate=n)` runs parts of the batch one by one.

The parts are the steps of one scan, so every engine runs them in a loop of its own, and only one
part's tensors are in memory. The scan adds up the gradients of variables. What is computed from
these, such as the step of an optimizer, stands behind the scan and runs once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from backplane.core.graph import KeySource, Placeholder, Tensor, depends_on, substitute, toposort
from backplane.core.spec import is_float
from backplane.core.variable import Variable
from backplane.ops.control import fold, scan
from backplane.ops.creation import dim, full, like, scalar, shaped, sizes_of
from backplane.ops.elementwise import add, div, floordiv
from backplane.ops.reduction import mean
from backplane.ops.remat import barrier
from backplane.ops.shaping import reshape


def is_split(p: Tensor) -> bool:
    """Whether what is fed for a placeholder is split: the size of its first axis is unknown."""
    return isinstance(p, Placeholder) and bool(p.spec.shape) and p.spec.shape[0] is None


def accumulated(
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    updates: Mapping[Variable, Tensor],
    slopes: Mapping[Tensor, bool],
    parts: int,
) -> tuple[list[Tensor], list[Tensor]]:
    """The same outputs and new values of variables for a batch in so many parts. `slopes` are
    gradients; it tells whether they are those of variables. ValueError if there is no batch, or
    something that is computed from it can be neither averaged nor joined.
    """
    batch = [p for p in inputs if is_split(p)]
    if not batch:
        raise ValueError("no input has an unknown first size, so there is no batch to split")
    return _Parts(batch, [*outputs, *updates.values()], slopes, parts).split(outputs, updates)


class _Parts:
    """Sorts what a function computes into what each part computes and what is computed once."""

    def __init__(
        self,
        batch: list[Tensor],
        results: list[Tensor],
        slopes: Mapping[Tensor, bool],
        parts: int,
    ) -> None:
        self.batch, self.parts = batch, parts
        inside = depends_on(results, batch)
        summed = [t for t, of_variable in slopes.items() if of_variable and t in inside]
        needed = set(toposort(results, stop=summed))
        self.summed = [t for t in summed if t in needed]
        """The gradients that are added up: those that no other such gradient stands before."""
        self.of_rows = [t for t, of_variable in slopes.items() if not of_variable]
        self.keys = [t for t in toposort(results) if isinstance(t, KeySource)]

    def _runs_once(self, t: Tensor) -> bool:
        """Whether `t` reads nothing of the batch but gradients that are added up."""
        return not set(self.batch).intersection(toposort([t], stop=self.summed))

    def split(
        self, outputs: Sequence[Tensor], updates: Mapping[Variable, Tensor]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """The outputs and new values, computed by a scan and what follows it."""
        each = {v: new for v, new in updates.items() if not self._runs_once(new)}
        for v, new in each.items():
            self._check_update(v, new)
        shown = [t for t in dict.fromkeys(outputs) if not self._runs_once(t)]
        self._check_outputs(shown)
        totals, ends, stacks = self._scanned(each, shown)
        results = {
            t: self._averaged(total) for t, total in zip(self.summed, totals, strict=True)
        } | {t: self._joined(t, stack) for t, stack in zip(shown, stacks, strict=True)}
        once = substitute([*outputs, *updates.values()], results)
        last = dict(zip(each, ends, strict=True))
        news = [last.get(v, new) for v, new in zip(updates, once[len(outputs) :], strict=True)]
        return once[: len(outputs)], news

    def _check_update(self, variable: Variable, new: Tensor) -> None:
        read = set(toposort([new], stop=self.summed))
        if not read.isdisjoint(self.summed):
            raise ValueError(
                f"the update of {variable.name!r} reads both gradients and the batch itself, so it "
                "can run neither once nor for each part"
            )

    def _check_outputs(self, outputs: Sequence[Tensor]) -> None:
        """Each output must be a scalar of floats, or have as many rows as the batch."""
        probes: dict[Tensor, Tensor] = {}
        for p in self.batch:
            sizes = [OTHER if n is None else n for n in p.spec.shape[1:]]
            probes[p] = Placeholder(p.spec.with_shape((PROBE, *sizes)))
        for t in outputs:
            rows = 1
            if t.spec.shape:
                try:
                    rows = substitute([t], probes)[0].spec.shape[0] or PROBE
                except ValueError:  # The sizes of the probe do not fit; those that are fed may.
                    rows = PROBE if t.spec.shape[0] is None else 0
            if rows != PROBE and not (t.ndim == 0 and is_float(t.spec.dtype)):
                raise ValueError(
                    f"the output {t!r} is no scalar of floats, which would be averaged over the "
                    "parts, nor has it one row for each row of the batch, which would be joined"
                )

    def _scanned(
        self, each: Mapping[Variable, Tensor], shown: Sequence[Tensor]
    ) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """The sums of the gradients, the last values of variables, and the stacks of outputs."""
        first, last = len(self.summed), len(self.summed) + len(each)
        counter = [scalar(0, "int64")] if self.keys else []

        def step(carry: list[Tensor], part: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
            totals, number = carry[:first], carry[last:]
            # A barrier keeps work from leaving the loop, and from beginning before the last part
            # is done: only the tensors of one part are to be in memory.
            replace = dict(zip(self.batch, [barrier(x, *totals[:1]) for x in part], strict=True))
            replace.update(zip(each, carry[first:last], strict=True))
            replace.update({key: fold(key, number[0]) for key in self.keys})
            results = substitute([*self.summed, *each.values(), *shown], replace)
            sums = [add(t, barrier(g)) for t, g in zip(totals, results, strict=False)]
            number = [add(t, scalar(1, "int64")) for t in number]
            return [*sums, *results[first:last], *number], [barrier(y) for y in results[last:]]

        starts = [*map(_zeros, self.summed), *each, *counter]
        ends, stacks = scan(step, starts, [self._in_parts(p) for p in self.batch])
        return ends[:first], ends[first:last], stacks

    def _in_parts(self, p: Tensor) -> Tensor:
        size = floordiv(dim(p, axis=0), scalar(self.parts, "int32"))
        return shaped(reshape, [self.parts, size, *sizes_of(p)[1:]], p)

    def _averaged(self, total: Tensor) -> Tensor:
        return div(total, like(self.parts, total))

    def _joined(self, t: Tensor, stack: Tensor) -> Tensor:
        """An output for the whole batch, from the stack of those of the parts."""
        if not t.ndim:
            return mean(stack, axes=(0,), keepdims=False)
        whole = shaped(reshape, [dim(self.batch[0], axis=0), *sizes_of(stack)[2:]], stack)
        # The loss of a part is a mean over fewer rows, so each row weighs more in it.
        return self._averaged(whole) if t in self.of_rows else whole


PROBE, OTHER = 240, 480
"""Sizes that tell the batch from other unknown sizes. Many numbers divide them."""


def _zeros(t: Tensor) -> Tensor:
    if not t.spec.is_static:
        raise ValueError(f"the shape of the gradient {t!r} is not known")
    return full(shape=t.spec.shape, value=0, dtype=t.spec.dtype)
