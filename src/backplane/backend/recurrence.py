"""`rnn`: applies a step function along the time axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from backplane.backend._args import as_int, as_items
from backplane.backend._call import api
from backplane.backend._errors import call_given, described, returned
from backplane.backend._trees import flatten, unflatten
from backplane.backend.types import TensorLike, Tree
from backplane.core.context import changed
from backplane.core.graph import Tensor
from backplane.core.sizes import origin
from backplane.ops import control
from backplane.ops.axes import moved
from backplane.ops.creation import full, shaped, size_at
from backplane.ops.elementwise import less, where
from backplane.ops.indexing import flip, pad
from backplane.ops.lift import as_tensor, cast_to
from backplane.ops.ragged import column, positions, row
from backplane.ops.shaping import expand_dims, reshape, squeeze, stack, zeros_like

__all__ = ["rnn"]

Lists = tuple[list[Tensor], list[Tensor]]


@api
def rnn(
    step_function: Callable[..., Any],
    inputs: Tree,
    initial_states: Sequence[Tree] | Tensor,
    go_backwards: bool = False,
    mask: TensorLike | None = None,
    constants: Sequence[TensorLike] | None = None,
    unroll: bool = False,
    input_length: TensorLike | None = None,
    time_major: bool = False,
    zero_output_for_mask: bool = False,
    return_all_outputs: bool = True,
) -> tuple[Any, Any, Any]:
    """Iterate over the time axis of a tensor.

    Args:
        step_function: Function `(x_t, states) -> (output, new_states)`. `x_t` is the input of one
            step (samples, …), `states` is the list of states followed by the constants, and
            `new_states` is a list as long as `initial_states`. Inputs, output and states may be
            nested lists, tuples or dicts.
        inputs: Tensor (samples, time, …), or a nest of such tensors. Time may be unknown.
        initial_states: List of tensors (samples, …), or nests of them.
        go_backwards: Whether to run from the last step to the first. `outputs` are in the order in
            which they were computed.
        mask: Tensor (samples, time) or (samples, time, 1), which is 0 where a sample skips a step.
            Its states then stay, and its output is that of the step before, or zeros at the first
            step. Skipped values do not influence any gradient.
        constants: List of tensors that every step gets.
        unroll: Whether to copy the step's graph once per step instead of looping.
        input_length: Number of steps. If it is less than there are, only that many steps run, and
            the other outputs are zeros. An integer tensor (samples,) masks the steps beyond each
            sample's length, unless there is a `mask`.
        time_major: Whether inputs, mask and outputs have time first: (time, samples, …).
        zero_output_for_mask: Whether a skipped step has zeros as its output instead.
        return_all_outputs: Whether `outputs` holds the outputs of all steps, or that of the last
            step alone: (samples, 1, …).

    Returns:
        `(last_output, outputs, new_states)`: the output of the last step that ran (samples, …), all
        outputs (samples, time, …), and the list of the last states.

    Raises:
        ValueError: if `inputs` has fewer than 3 axes; if `unroll` is set and the number of steps is
            unknown; if there is a mask but no state; if a step changes the number, shape or dtype
            of the states.

    Example:
        >>> from backplane import backend as K
        >>> x = K.constant([[[1.0], [2.0], [3.0]]])
        >>> last, outputs, states = K.rnn(lambda x, s: (x + s[0], [x + s[0]]), x, [K.zeros((1, 1))])
        >>> K.eval(outputs).ravel()
        array([1., 3., 6.], dtype=float32)
    """
    xs = _time_major_inputs(inputs, time_major)
    run = _Run(step_function, inputs, initial_states, constants, zero_output_for_mask)
    steps = xs[0].spec.shape[0]
    limit = None
    if isinstance(input_length, Tensor) or hasattr(input_length, "shape"):
        if mask is None and not unroll:
            mask = _lengths_mask(as_tensor(input_length), xs[0], time_major)
    elif input_length is not None and not unroll and steps is not None:
        limit = min(as_int(input_length, "input_length"), steps)
    masks = _time_major_mask(mask, xs[0], time_major) if mask is not None else None
    if masks is not None and not run.states:
        raise ValueError("with a mask, initial_states must hold at least one state, got none")
    if go_backwards:
        xs = [flip(x, axes=(0,)) for x in xs]
        masks = None if masks is None else flip(masks, axes=(0,))
    if unroll:
        if steps is None:
            raise ValueError("unroll needs a known number of steps, got an unknown time axis")
        last, outputs = run.unrolled(xs, masks, steps)
    else:
        last, outputs = run.looped(xs, masks, limit)
    if not return_all_outputs:
        outputs = [expand_dims(y, axes=(0,)) for y in last]
    if not time_major:
        outputs = [moved(y, 1, 0) for y in outputs]
    return (
        unflatten(run.output_nest, last),
        unflatten(run.output_nest, outputs),
        unflatten(run.state_nest, run.states),
    )


def _time_major_inputs(inputs: Tree, time_major: bool) -> list[Tensor]:
    """The inputs with time first. ValueError if one has fewer than 3 axes."""
    xs = [as_tensor(x) for x in flatten(inputs)]
    for x in xs:
        if x.ndim < 3:
            raise ValueError(f"inputs must have at least 3 axes, got shape {x.spec.shape}")
    return xs if time_major else [moved(x, 1, 0) for x in xs]


def _lengths_mask(lengths: Tensor, x: Tensor, time_major: bool) -> Tensor:
    """The mask that keeps the steps below each sample's length."""
    lengths = reshape(cast_to(lengths, "int32"), shape=(-1,))
    mask = less(column(positions(x, 0)), row(lengths))
    return mask if time_major else moved(mask, 1, 0)


def _time_major_mask(mask: TensorLike, x: Tensor, time_major: bool) -> Tensor:
    """The mask as bools (time, samples), for inputs `x` with time first."""
    mask = cast_to(as_tensor(mask), "bool")
    given = mask.spec.shape
    if mask.ndim == 3 and given[-1] in (1, None):
        mask = squeeze(mask, axes=(2,))
    if mask.ndim == 2 and not time_major:
        mask = moved(mask, 1, 0)
    sizes = zip(mask.spec.shape, x.spec.shape, strict=False)
    if mask.ndim != 2 or any(n != m and None not in (n, m) for n, m in sizes):
        axes = "time, samples" if time_major else "samples, time"
        time, samples = x.spec.shape[:2]
        wanted = (time, samples) if time_major else (samples, time)
        raise ValueError(
            f"mask must have shape ({axes}) or ({axes}, 1), here {wanted}, got {tuple(given)}"
        )
    return mask


def _select(mask: Tensor, kept: Tensor, other: Tensor) -> Tensor:
    """`kept` for the samples in the mask, and `other` for the samples that skip the step."""
    if kept.ndim > 1:
        mask = expand_dims(mask, axes=tuple(range(1, kept.ndim)))
    return where(mask, kept, other)


class _Run:
    """One call of `rnn`: the step function on flat lists, and the loop around it."""

    def __init__(
        self,
        step: Callable[..., Any],
        inputs: Tree,
        states: Sequence[Tree] | Tensor,
        constants: Sequence[TensorLike] | None,
        zero_masked: bool,
    ) -> None:
        if isinstance(states, Tensor):
            states = [states]
        self.step_function = step
        self.input_nest = inputs
        self.state_nest = as_items(states, "initial_states", "a list of tensors")
        self.states = [as_tensor(s) for s in flatten(self.state_nest)]
        given = [] if constants is None else constants
        self.constants = as_items(given, "constants", "a list of tensors")
        self.zero_masked = zero_masked
        self.output_nest: Any = None

    def step(self, xs: list[Tensor], states: list[Tensor]) -> Lists:
        """One step on flat lists."""
        with changed(step=True):
            result = call_given(
                self.step_function,
                (
                    unflatten(self.input_nest, xs),
                    [*unflatten(self.state_nest, states), *self.constants],
                ),
                "step_function",
                "(x_t, states)",
            )
        output, new = self._pair(result)
        self.output_nest = output
        listed = [returned(s, "step_function", "among its new states") for s in flatten(new)]
        if len(listed) != len(self.states):
            raise ValueError(
                f"a step must return as many states as initial_states has "
                f"({len(self.states)}), got {len(listed)}"
            )
        return [returned(y, "step_function", "as its output") for y in flatten(output)], listed

    def _pair(self, result: object) -> tuple[Any, Any]:
        """The output and the new states of one step. TypeError if the step has returned something
        else.
        """
        if not isinstance(result, list | tuple) or len(result) != 2:
            raise TypeError(
                f"step_function must return a pair (output, new_states), got {described(result)}"
            )
        output, new = result
        if output is None:
            raise TypeError("step_function must return a tensor as its output, got None")
        if new is None:
            raise TypeError(
                "step_function must return its new states as a list, which is empty where there "
                "are none, got None"
            )
        return output, new

    def masked_step(
        self, mask: Tensor, xs: list[Tensor], states: list[Tensor], before: list[Tensor]
    ) -> Lists:
        """One step in which the samples outside the mask keep their states and outputs."""
        outputs, new = self.step(xs, states)
        others = [zeros_like(y) for y in outputs] if self.zero_masked else before
        outputs = [_select(mask, y, o) for y, o in zip(outputs, others, strict=True)]
        return outputs, [_select(mask, n, s) for n, s in zip(new, states, strict=True)]

    def first_outputs(self, xs: list[Tensor]) -> list[Tensor]:
        """Zeros like the first outputs, of which only shapes count (`control.first_items`)."""
        outputs, _ = self.step(control.first_items(xs), self.states)
        return [_zeros_of_shape(y) for y in outputs]

    def unrolled(self, xs: list[Tensor], masks: Tensor | None, steps: int) -> Lists:
        """Copy the step once per time step."""
        rows: list[list[Tensor]] = []
        for t in range(steps):
            items = [x[t] for x in xs]
            if masks is None:
                outputs, self.states = self.step(items, self.states)
            else:
                before = rows[-1] if rows else self.first_outputs(xs)
                outputs, self.states = self.masked_step(masks[t], items, self.states, before)
            rows.append(outputs)
        if not rows:
            raise ValueError("unroll needs at least one step, got 0")
        return rows[-1], [stack(list(column), 0) for column in zip(*rows, strict=True)]

    def looped(self, xs: list[Tensor], masks: Tensor | None, limit: int | None) -> Lists:
        """Scan over time."""
        steps = xs[0].spec.shape[0]
        short = limit is not None and steps is not None and limit < steps
        sequences = [*xs, masks] if masks is not None else xs
        if short:
            sequences = [s[:limit] for s in sequences]
        n = len(self.states)
        carry_outputs = masks is not None and not self.zero_masked
        zeros = self.first_outputs(xs)
        before = zeros if carry_outputs else []
        places: list[int | None] = []

        def body(carry: list[Tensor], items: list[Tensor]) -> Lists:
            if masks is None:
                outputs, new = self.step(items, carry[:n])
            else:
                outputs, new = self.masked_step(items[-1], items[:-1], carry[:n], carry[n:])
            carried = [*new, *(outputs if carry_outputs else [])]
            places[:] = [carried.index(y) if y in carried else None for y in outputs]
            return carried, outputs

        finals, outputs = control.scan(body, [*self.states, *before], sequences)
        self.states = finals[:n]
        # If an output is also a state, it is not looked up among all outputs. They need not be kept
        # then, if nobody else reads them.
        if steps == 0 and None in places:
            raise ValueError(f"inputs: {control.NOTHING_TO_DO}")
        last = [y[-1] if i is None else finals[i] for y, i in zip(outputs, places, strict=True)]
        if short:
            rest = ((0, (steps or 0) - (limit or 0)),)
            outputs = [pad(y, padding=rest + ((0, 0),) * (y.ndim - 1), value=0) for y in outputs]
        return last, outputs


def _zeros_of_shape(y: Tensor) -> Tensor:
    """Zeros like `y`. Unknown sizes are read where they come from, so `y` is not computed."""
    sizes = [size_at(*origin(y, axis)) if n is None else n for axis, n in enumerate(y.spec.shape)]
    return shaped(full, sizes, value=0, dtype=y.spec.dtype)
