"""Variables whose memory a program takes for their new values, which JAX calls donation.

What JAX has taken is gone at once, long before the program has run: nobody can go back to the old
values. So a program must not fail once it has been started, and whoever still holds an old value
must be able to go forward:

- A program that calls Python takes no memory, because what it calls may fail.
- Memory for results and for what is computed on the way is tried before the program is started.
- Every old value knows its successor from before the start on. An interrupt, which keeps the caller
  from storing the new values, or another thread that reads meanwhile, finds them there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import repeat, starmap
from operator import itemgetter, methodcaller
from threading import get_ident
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from backplane.core.atomic import deferred_signals
from backplane.core.spec import Spec
from backplane.engines.programs import Function
from backplane.engines.table import Value

Shapes = tuple[tuple[int, ...], ...]

TRIED = 1 << 20
"""Bytes from which on memory is tried before each call: that takes 1 to 20 µs."""

_starting = threading.RLock()
"""Held while a program is started that takes memory: until it has been, its results are not there.
The same thread may start another one meanwhile, in a finalizer."""

_starter = [0]
"""The thread that was the last to start one."""

_is_deleted = methodcaller("is_deleted")
_NAMES = repeat("successor")


@cache
def array_type() -> Any:
    """The class of arrays with values; finding it starts JAX."""
    # Where JAX traces, it would be that of what it traces with.
    with deferred_signals(), jax.ensure_compile_time_eval():
        return type(jnp.zeros(()))


@contextmanager
def wide(wanted: bool = True) -> Iterator[None]:
    """Context manager: inside, JAX has 64-bit types, or not. Signals wait for its end: an interrupt
    while JAX's own context manager is entered or left would keep the types for the whole thread.
    """
    with deferred_signals(), jax.enable_x64(wanted):
        yield


def in_64_bits(function: Function) -> Function:
    """`function`, traced and called where JAX has 64-bit types.

    Elsewhere it would cut them, and NumPy arrays of them, to 32 bits. The rest of the process is
    not touched. JAX's setting is read and written by functions in C: `wide` takes 7 µs.
    """
    setting: Any = jax.enable_x64

    def run(*inputs: Value) -> tuple[Value, ...]:
        if setting.value:
            return function(*inputs)
        before = setting.get_local()
        try:
            # Python runs handlers of signals after a call into C: here the setting is undone.
            setting.set_local(True)
            return function(*inputs)
        finally:
            setting.set_local(before)

    return run


def latest(value: Value) -> Value:
    """`value`, or the one that has followed it in its memory."""
    if type(value) is not array_type():
        return value
    while value.is_deleted():
        with _starting:
            results, position = getattr(value, "successor", ((), 0))
        if not results:
            break  # Somebody else has deleted it; JAX will say so.
        value = results[0][position]
    return value


def following(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, which is called once more where arguments have a successor."""

    def run(*inputs: Value) -> Any:
        if _starter[0] and _starter[0] != get_ident():
            # JAX would write a line to stderr for each array whose memory is taken.
            inputs = tuple([latest(x) for x in inputs])
        try:
            return function(*inputs)
        except (RuntimeError, ValueError):
            present = _followed(inputs)
        return run(*present)

    return run


def _followed(inputs: Sequence[Value]) -> list[Value]:
    """The new values of a failed call's inputs. If there are none, the error at hand goes on."""
    present = [latest(x) for x in inputs]
    if all(a is b for a, b in zip(inputs, present, strict=True)):
        raise
    return present


def donating(
    function: Function,
    places: Mapping[int, int],
    specs: Sequence[Spec],
    options: dict[str, str] | None,
    look: Callable[[Any], None],
) -> Function:
    """`function`, compiled. The inputs at the keys of `places` give their memory to the outputs
    that are its values. `specs` are those of the inputs. It follows arguments as `following` does.
    `look` gets what the compiler has made.
    """
    plain = jax.jit(function, compiler_options=options)
    taking = jax.jit(function, donate_argnums=tuple(places), compiler_options=options)
    unknown = [i for i, spec in enumerate(specs) if not spec.is_static]
    needed: dict[Shapes, int | None] = {}

    def first(inputs: tuple[Value, ...]) -> tuple[Value, ...]:
        if any(isinstance(x, jax.core.Tracer) for x in inputs):
            return plain(*inputs)  # It becomes part of the trace, and runs with that.
        size = _memory(taking, inputs, look)
        if size is not None:
            _try(size)
            size = size if size > TRIED else 0
        needed[tuple([inputs[i].shape for i in unknown])] = size
        with deferred_signals():  # JAX runs Python around the first call.
            return start(*inputs)

    start = _start(plain, taking, places, unknown, needed, first)
    return start


def _start(
    plain: Function,
    taking: Function,
    places: Mapping[int, int],
    unknown: Sequence[int],
    needed: Mapping[Shapes, int | None],
    first: Callable[[tuple[Value, ...]], tuple[Value, ...]],
) -> Function:
    """The function that starts a program: `taking`, which takes memory of inputs (`donating`), or
    `plain`, if the program calls Python.

    `needed` has the bytes of memory that a call needs, by the shapes of the inputs at the places
    `unknown`. 0 says that they are too few to be tried, and None that the program calls Python. The
    function `first` serves calls whose shapes it lacks.
    """
    taken, positions, count = _items(places), tuple(places.values()), max(places.values()) + 1

    def start(*inputs: Value) -> tuple[Value, ...]:
        ident = get_ident()
        if _starter[0] and _starter[0] != ident:  # as in `following`
            inputs = tuple([latest(x) for x in inputs])
        shapes = tuple([inputs[i].shape for i in unknown]) if unknown else ()
        size = needed.get(shapes, -1)
        if size is None:
            # What fails must do so now, while the variables have their old values.
            return tuple(jax.block_until_ready(plain(*inputs)))
        if size > 0:
            _try(size)
        elif size < 0:
            return first(inputs)
        results: list[tuple[Value, ...]] = []
        try:
            with _starting:
                _starter[0] = ident
                olds = taken(inputs)
                if any(map(_is_deleted, olds)):
                    raise RuntimeError("Array has been deleted")
                any(map(setattr, olds, _NAMES, zip(repeat(results), positions)))
                # One call into C: an interrupt comes before it or finds the results in their place.
                results.extend(starmap(taking, (inputs,)))
        except (RuntimeError, ValueError):
            again = _followed(inputs)
        else:
            program = results[0]
            results[0] = program[:count]  # An old value that is kept need not keep the others.
            return program
        return start(*again)

    return start


def _items(places: Iterable[int]) -> Callable[[Sequence[Value]], tuple[Value, ...]]:
    """The function that takes the items at these places."""
    first, *more = places
    return itemgetter(first, *more) if more else lambda values: (values[first],)


def _memory(taking: Any, inputs: tuple[Value, ...], look: Callable[[Any], None]) -> int | None:
    """The number of bytes that a program allocates beyond its inputs; None if it calls Python."""
    traced = taking.trace(*inputs)
    if traced.jaxpr.effects:
        return None
    compiled = traced.lower().compile()
    look(compiled)
    analysis = compiled.memory_analysis()
    if analysis is None or jax.default_backend() != "cpu":  # Devices raise at once.
        return 0
    return (
        analysis.temp_size_in_bytes + analysis.output_size_in_bytes - analysis.alias_size_in_bytes
    )


def _try(size: int) -> None:
    """Allocate so much and give it back. MemoryError if there is not so much."""
    np.empty(size, np.uint8)
