"""Prefetching: a function runs on one item after the other while a thread reads the next."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any

from backplane.compile.function import Function
from backplane.core.sparse import stored

if TYPE_CHECKING:
    from concurrent.futures import Future

_END = object()


def mapped(
    items: Iterator[Any],
    prepare: Callable[[Any], Any],
    run: Callable[[Any], Any],
    ahead: int,
    progress: AbstractContextManager[Callable[[], None]],
) -> Iterator[Any]:
    """`run(prepare(item))` for each item, in order. A thread reads and prepares up to `ahead` items
    before they are needed; with 0 there is no thread. `progress` gives what is called after each.
    """
    with progress as advance, _reading(partial(_next, items, prepare), ahead) as values:
        for value in values:
            result = run(value)
            del value  # The next item may need the memory.
            advance()
            yield result


def _next(items: Iterator[Any], prepare: Callable[[Any], Any]) -> Any:
    item = next(items, _END)
    return item if item is _END else prepare(item)


@contextmanager
def _reading(read: Callable[[], Any], ahead: int) -> Iterator[Iterator[Any]]:
    """Context manager: the results of `read` until it gives `_END`. A thread, which ends with the
    block, calls it up to `ahead` times before the results are needed.
    """
    if not ahead:
        yield iter(read, _END)
        return
    from concurrent.futures import ThreadPoolExecutor  # Here: importing it takes a while.

    pool = ThreadPoolExecutor(1, thread_name_prefix="backplane-reader")
    # The reader sees the engine that the consumer has chosen.
    submit = partial(pool.submit, copy_context().run, read)
    try:
        yield _results(submit, ahead)
    finally:
        pool.shutdown(cancel_futures=True)


def _results(submit: Callable[[], Future[Any]], ahead: int) -> Iterator[Any]:
    waiting = deque([submit() for _ in range(ahead)])
    while (value := waiting.popleft().result()) is not _END:
        waiting.append(submit())
        yield value


def prepared_for(function: Function, values: object) -> list[Any]:
    """Copies of the inputs' values, checked and converted: a reader may reuse its arrays."""
    plan, given = function.plan, function.checked_count(values)
    return [
        # The call converts a sparse matrix.
        deepcopy(value)
        if p.spec.sparse and stored(value) is not None
        else feed(value, plan.engine, True)
        for p, feed, value in zip(plan.inputs, plan.feeds, given, strict=True)
    ]
