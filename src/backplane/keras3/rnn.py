"""Keras' backend functions of the module `rnn`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from backplane import backend as K
from backplane.backend._trees import map_leaves
from backplane.keras3.call import op, users
from backplane.ops.shaping import expand_dims


@op(static=("input_length",))
def rnn(
    step_function: Callable[..., Any],
    inputs: Any,
    initial_states: Any,
    go_backwards: bool = False,
    mask: Any = None,
    constants: Any = None,
    unroll: bool = False,
    input_length: Any = None,
    time_major: bool = False,
    zero_output_for_mask: bool = False,
    return_all_outputs: bool = True,
) -> Any:
    """The steps of a recurrent layer along the time axis: the last output, all outputs, and the
    last states (`K.rnn`).
    """
    call = users(step_function)

    def step(x: Any, states: Any) -> Any:
        output, new = call(x, tuple(states))
        return output, list(new)

    last, outputs, states = K.rnn(
        step,
        inputs,
        list(initial_states) if isinstance(initial_states, list | tuple) else [initial_states],
        go_backwards=go_backwards,
        mask=mask,
        constants=constants,
        unroll=unroll,
        input_length=input_length,
        time_major=time_major,
        zero_output_for_mask=zero_output_for_mask,
    )
    if not return_all_outputs:
        axis = 0 if time_major else 1
        outputs = map_leaves(lambda y: expand_dims(y, axes=(axis,)), last)
    return last, outputs, states


def cudnn_ok(*args: Any, **kwargs: Any) -> bool:
    """False: which kernel computes a recurrent layer is found in the graph of the step."""
    return False


def _generic(*args: Any, **kwargs: Any) -> NoReturn:
    """Leave a layer to `rnn`: the compiler finds the kernel for its steps."""
    raise NotImplementedError


lstm = gru = bidirectional_lstm = bidirectional_gru = _generic
