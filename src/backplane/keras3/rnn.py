"""Keras' backend functions of the module `rnn`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from backplane import backend as K
from backplane.backend._trees import map_leaves
from backplane.keras3.call import is_tracing, op, users
from backplane.ops import elementwise as ew
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

    states = list(initial_states) if isinstance(initial_states, list | tuple) else [initial_states]
    return _looped(
        step,
        inputs,
        states,
        return_all_outputs,
        go_backwards=go_backwards,
        mask=mask,
        constants=constants,
        unroll=unroll,
        input_length=input_length,
        time_major=time_major,
        zero_output_for_mask=zero_output_for_mask,
    )


def _looped(
    step: Callable[..., Any], inputs: Any, states: list[Any], every: bool, **options: Any
) -> Any:
    """`K.rnn`; if not `every` output is asked for, the last one stands for all."""
    last, outputs, states = K.rnn(step, inputs, states, **options)
    if not every:
        axis = 0 if options.get("time_major") else 1
        outputs = map_leaves(lambda y: expand_dims(y, axes=(axis,)), last)
    return last, outputs, states


# --- layers whose steps are known -----------------------------------------------------------------


def cudnn_ok(*args: Any, **kwargs: Any) -> bool:
    """False: which kernel computes a recurrent layer is found in the graph of the step."""
    return False


def lstm(
    inputs: Any,
    initial_state_h: Any,
    initial_state_c: Any,
    mask: Any,
    kernel: Any,
    recurrent_kernel: Any,
    bias: Any,
    activation: Any,
    recurrent_activation: Any,
    return_sequences: bool = False,
    go_backwards: bool = False,
    unroll: bool = False,
    **options: Any,
) -> Any:
    """The steps of `keras.layers.LSTM` on values, traced once for all layers of these shapes.

    Raises:
        NotImplementedError: if there is a mask or an activation of the user's own, and in models
            and steps. `rnn` serves there: the compiler finds the kernel for its steps.
    """
    act, gate = _names(mask, activation, recurrent_activation)
    return _lstm(
        inputs, initial_state_h, initial_state_c, kernel, recurrent_kernel, bias, act, gate,
        return_sequences, go_backwards, unroll,
    )  # fmt: skip


@op
def _lstm(
    inputs: Any, h: Any, c: Any, kernel: Any, recurrent_kernel: Any, bias: Any,
    activation: str, recurrent_activation: str,
    return_sequences: bool, go_backwards: bool, unroll: bool,
) -> Any:  # fmt: skip
    act, gate = _function(activation), _function(recurrent_activation)

    def step(x: Any, states: Any) -> Any:
        z = ew.add(K.dot(x, kernel), K.dot(states[0], recurrent_kernel))
        i, f, g, o = _parts(z if bias is None else ew.add(z, bias), 4)
        new = ew.add(ew.mul(gate(f), states[1]), ew.mul(gate(i), act(g)))
        out = ew.mul(gate(o), act(new))
        return out, [out, new]

    return _looped(step, inputs, [h, c], return_sequences, go_backwards=go_backwards, unroll=unroll)


def gru(
    inputs: Any,
    initial_state: Any,
    mask: Any,
    kernel: Any,
    recurrent_kernel: Any,
    bias: Any,
    activation: Any,
    recurrent_activation: Any,
    return_sequences: bool = False,
    go_backwards: bool = False,
    unroll: bool = False,
    reset_after: bool = True,
    **options: Any,
) -> Any:
    """The steps of `keras.layers.GRU` on values, as `lstm`."""
    act, gate = _names(mask, activation, recurrent_activation)
    return _gru(
        inputs, initial_state, kernel, recurrent_kernel, bias, act, gate,
        return_sequences, go_backwards, unroll, reset_after,
    )  # fmt: skip


@op
def _gru(
    inputs: Any, h: Any, kernel: Any, recurrent_kernel: Any, bias: Any,
    activation: str, recurrent_activation: str,
    return_sequences: bool, go_backwards: bool, unroll: bool, reset_after: bool,
) -> Any:  # fmt: skip
    act, gate = _function(activation), _function(recurrent_activation)
    units = recurrent_kernel.spec.shape[0]
    for_gates, for_new = recurrent_kernel[:, : 2 * units], recurrent_kernel[:, 2 * units :]
    into, inside = bias, None
    if bias is not None and reset_after:
        into, inside = bias[0], bias[1]

    def step(x: Any, states: Any) -> Any:
        [old] = states
        x = K.dot(x, kernel)
        x_z, x_r, x_h = _parts(x if into is None else ew.add(x, into), 3)
        if reset_after:
            inner = K.dot(old, recurrent_kernel)
            h_z, h_r, h_h = _parts(inner if inside is None else ew.add(inner, inside), 3)
        else:
            h_z, h_r = _parts(K.dot(old, for_gates), 2)
        z, r = gate(ew.add(x_z, h_z)), gate(ew.add(x_r, h_r))
        h_h = ew.mul(r, h_h) if reset_after else K.dot(ew.mul(r, old), for_new)
        new = act(ew.add(x_h, h_h))
        out = ew.add(ew.mul(z, old), ew.mul(ew.sub(ew.one(z), z), new))
        return out, [out]

    return _looped(step, inputs, [h], return_sequences, go_backwards=go_backwards, unroll=unroll)


def _names(mask: Any, *functions: Any) -> list[str]:
    """The names of activations of Keras."""
    if mask is not None or is_tracing():
        raise NotImplementedError
    for function in functions:
        if function not in _known:
            _known[function] = _name(function)
    names = [_known[function] for function in functions]
    if None in names:
        raise NotImplementedError
    return [name for name in names if name]


def _name(function: Any) -> str | None:
    from keras.src import activations

    known = activations.ALL_OBJECTS_DICT
    return next((name for name, found in known.items() if found is function), None)


_known: dict[Any, str | None] = {}
"""Functions that layers had as activations, and their names. Those of the user have none."""


def _function(name: str) -> Callable[..., Any]:
    from keras.src import activations

    return users(activations.get(name))


def _parts(x: Any, count: int) -> Any:
    size = x.spec.shape[-1] // count
    return [x[:, i * size : (i + 1) * size] for i in range(count)]


def _generic(*args: Any, **kwargs: Any) -> NoReturn:
    """Leave a layer to the two layers in it."""
    raise NotImplementedError


bidirectional_lstm = bidirectional_gru = _generic
