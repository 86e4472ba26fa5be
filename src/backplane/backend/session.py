"""Sessions, and other parts of TensorFlow 1 and Theano that K exported."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from backplane import engines
from backplane.backend._args import as_flag, as_items
from backplane.backend._call import api
from backplane.backend._errors import described
from backplane.backend._trees import flatten, unflatten
from backplane.backend.graph import compiled_function
from backplane.backend.state import update
from backplane.backend.types import TensorLike, Tree
from backplane.core import context
from backplane.core.graph import Tensor
from backplane.core.tracebacks import boundary
from backplane.ops.effects import Update
from backplane.ops.lift import as_tensor

if TYPE_CHECKING:
    from backplane.compile.function import Function

__all__ = [
    "control_dependencies", "get_graph", "get_session", "manual_variable_initialization",
    "pattern_broadcast", "py_all", "py_sum", "set_session",
]  # fmt: skip

py_all = builtins.all
py_sum = builtins.sum


class Session(AbstractContextManager["Session"]):
    """Computes tensors: `session.run(fetches, feed_dict)`.

    A session has no state, because variables hold their own values. It keeps the functions that it
    compiled, so running the same fetches again is quick.
    """

    def __init__(self) -> None:
        self._functions: dict[Any, Function] = {}

    def run(self, fetches: Tree, feed_dict: Mapping[Tensor, TensorLike] | None = None) -> Any:
        """Compute tensors.

        Args:
            fetches: Tensor, variable or update, or a nest (list, tuple, dict) of them.
            feed_dict: Values by placeholder, or by any other tensor whose value they replace.

        Returns:
            NumPy arrays in the structure of `fetches`. Fetched updates are written.

        Raises:
            ValueError: if a placeholder is needed but has no value, or if a value does not fit.
        """
        feeds = dict(feed_dict or {})
        outputs = [_fetched(t) for t in flatten(fetches)]
        for fed in feeds:
            if not isinstance(fed, Tensor):
                raise TypeError(f"Session.run: feed_dict must have tensors as keys, got {fed!r}")
        engine = engines.for_programs()
        key = (engine, tuple(outputs), tuple(feeds))
        if key not in self._functions:
            self._functions[key] = compiled_function(
                list(feeds), outputs, engine=engine, name="session.run"
            )
        return unflatten(fetches, list(self._functions[key](list(feeds.values()))))

    @property
    def graph(self) -> Graph:
        """The object that `K.get_graph` returns."""
        return get_graph()

    def close(self) -> None:
        """Forget the compiled functions."""
        self._functions.clear()

    def __exit__(self, *exception: object) -> None:
        self.close()


_session: list[Session] = []


def _fetched(t: Any) -> Tensor:
    try:
        return as_tensor(t)
    except TypeError:
        raise TypeError(f"Session.run: fetches must be tensors, got {described(t)}") from None


def get_session(op_input_list: object = ()) -> Session:
    """The session in force.

    Args:
        op_input_list: Accepted for compatibility: tf.keras found the graph of the session by it.

    Example:
        >>> from backplane import backend as K
        >>> x = K.placeholder(shape=(2,))
        >>> K.get_session().run(x * 2.0, feed_dict={x: [1.0, 2.0]})
        array([2., 4.], dtype=float32)
    """
    if not _session:
        _session.append(Session())
    return _session[0]


@boundary
def set_session(session: Any) -> None:
    """Use another session.

    Args:
        session: What `K.get_session` returns from now on: anything with a method `run`.

    Raises:
        TypeError: if `session` has no such method.

    Example:
        >>> from backplane import backend as K
        >>> K.set_session(K.get_session())
    """
    if not callable(getattr(session, "run", None)):
        raise TypeError(f"K.set_session: session must have a method run, got {session!r}")
    _session[:] = [session]


def reset_session() -> None:
    """Let the next `get_session` make a new session, and the next `get_graph` a new graph."""
    _session.clear()
    _graph.clear()


class Graph:
    """The result of `K.get_graph`: a stand-in for TensorFlow's graph, which holds nothing."""

    @contextmanager
    def as_default(self) -> Iterator[Graph]:
        """Context manager: calls inside build a graph, even those of arrays and native tensors."""
        with context.changed(mode="symbolic"):
            yield self

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"the graph of K.get_graph has no attribute {name!r}: it only has as_default(), "
            "because no graph of K holds tensors or operations; K.plot_graph shows how a tensor is "
            "computed"
        )


_graph: list[Graph] = []


def get_graph() -> Graph:
    """The graph in force, for `with K.get_graph().as_default():`.

    An addition of Backplane, from tf.keras: the documents of the Keras backend API do not have it.
    Inside such a block calls build a graph, even those of arrays and native tensors. There is no
    global graph to ask for tensors or operations, so the object can do no more than that.

    Returns:
        An object with the method `as_default`. `K.clear_session` puts another one in its place.

    Example:
        >>> import numpy as np
        >>> from backplane import backend as K
        >>> with K.get_graph().as_default():
        ...     K.is_symbolic(K.sum(np.ones(3)))
        True
    """
    if not _graph:
        _graph.append(Graph())
    return _graph[0]


_manual = [False]


@boundary
def manual_variable_initialization(value: bool) -> None:
    """Say whether the user initializes variables. This has no effect.

    Variables have their initial value from the start, so the flag changes nothing.

    Args:
        value: Python bool.

    Example:
        >>> from backplane import backend as K
        >>> K.manual_variable_initialization(False)
    """
    _manual[0] = as_flag(value, "K.manual_variable_initialization: value")


@boundary
def control_dependencies(
    control_inputs: Tensor | Iterable[Any] | None,
) -> AbstractContextManager[object]:
    """Context manager: tensors that are built inside read variables as the given updates leave
    them.

    Without it, a function computes everything from the values that the variables had before.

    Args:
        control_inputs: List of tensors, or one tensor. The updates among them (results of
            `K.update`, `K.update_add`, …, or pairs of variable and value) come first. Other tensors
            have no effect. None clears the updates of the surrounding contexts.

    Raises:
        TypeError: if one of them is not a tensor.

    Example:
        >>> from backplane import backend as K
        >>> total = K.variable(1.0)
        >>> with K.control_dependencies([K.update_add(total, 2.0)]):
        ...     doubled = 2.0 * total
        >>> K.eval(doubled).item()
        6.0
    """
    one = isinstance(control_inputs, Tensor)
    updated: dict[Tensor, Tensor] = {}
    what = "K.control_dependencies: control_inputs"
    for t in [control_inputs] if one else as_items(control_inputs or [], what):
        if isinstance(t, tuple) and len(t) == 2:
            t = update(*t)
        if not isinstance(t, Tensor):
            raise TypeError(f"K.control_dependencies: expected tensors, got {t!r}")
        if isinstance(t, Update):
            updated[t.variable] = t
    outer = {} if control_inputs is None else context.current().updated
    return context.changed(updated={**outer, **updated})


@api
def pattern_broadcast(x: TensorLike, broadcastable: Iterable[bool]) -> Tensor:
    """Check Theano's declaration that axes have size 1. Here sizes are known without it.

    Args:
        x: Tensor.
        broadcastable: One bool per axis.

    Returns:
        `x`.

    Raises:
        ValueError: if there is not one bool per axis, or if a broadcastable axis has another size
            than 1.

    Example:
        >>> from backplane import backend as K
        >>> K.int_shape(K.pattern_broadcast(K.zeros((1, 3)), (True, False)))
        (1, 3)
    """
    x = as_tensor(x)
    flags = [bool(b) for b in as_items(broadcastable, "broadcastable", "a list of bools")]
    if len(flags) != x.ndim:
        raise ValueError(f"K.pattern_broadcast: {len(flags)} flags for {x.ndim} axes")
    for axis, (flag, n) in enumerate(zip(flags, x.spec.shape, strict=True)):
        if flag and n not in (1, None):
            raise ValueError(f"K.pattern_broadcast: axis {axis} has size {n}, not 1")
    return x
