"""Finding the first NaN, and looking at graphs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from backplane import engines
from backplane.backend._args import as_count, as_flag
from backplane.backend._call import api
from backplane.backend._kfunction import KFunction
from backplane.backend.types import File, TensorLike
from backplane.core.context import WATCHING, changed, watcher
from backplane.core.graph import Tensor
from backplane.core.spec import is_float
from backplane.core.tracebacks import boundary
from backplane.ops import effects
from backplane.ops.lift import as_tensor

if TYPE_CHECKING:
    from backplane.views.debugger import Debugger
    from backplane.views.drawing import Picture

__all__ = ["check_numerics", "debug", "plot_graph"]


@boundary
def plot_graph(
    x: Any, to_file: File | None = None, max_nodes: int = 60, name: str | None = None
) -> Picture:
    """Draw the graph of tensors, of a function, or of a model.

    Operations are boxes, colored by whether they belong to the forward computation, to a gradient,
    or to an update. Shapes and dtypes stand at the edges, and the user's lines appear where the
    pointer rests. Name scopes are boxes around their operations, and so are loops and branches
    around their bodies. In an HTML file a click folds or opens a box.
    An addition of Backplane: the documents of the Keras backend API do not have it.

    The picture needs libraries of the extra `debug`: `pip install "keras-backplane[debug]"`.

    Args:
        x: Tensor, list of tensors, function of `K.function`, or model of Keras.
        to_file: Path that ends in `.svg`, `.png` or `.html`. None writes no file.
        max_nodes: How many boxes to show at most before scopes are folded.
        name: Title of the picture.

    Returns:
        The picture as an SVG, which notebooks show.

    Raises:
        ImportError: if a library is not installed.
        TypeError: if `x` is none of these.
        ValueError: for a file with another ending.

    Example:
        >>> from backplane import backend as K
        >>> x = K.placeholder(shape=(None, 3), name="x")
        >>> picture = K.plot_graph(K.softmax(x * 2.0))
        >>> picture.startswith("<svg"), "float32 (?, 3)" in picture
        (True, True)
    """
    as_count(max_nodes, "K.plot_graph: max_nodes")
    from backplane.views import drawing  # Here: few programs draw, and it needs further libraries.

    if isinstance(x, KFunction):
        roots, title = drawing.roots_of_function(x._function), x.name
    else:
        outputs = list(getattr(x, "outputs", None) or (x if isinstance(x, list | tuple) else [x]))
        title = getattr(x, "name", None) or "graph"
        ours = bool(outputs) and all(isinstance(t, Tensor) for t in outputs)
        if outputs and not ours and all(hasattr(t, "_keras_history") for t in outputs):
            return drawing.draw_model(outputs, name or title, to_file, max_nodes)
        if not ours:
            raise TypeError(
                "K.plot_graph: x must be a tensor, a list of tensors, a function of K.function, or "
                f"a model of Keras, got {type(x).__name__}"
            )
        roots = drawing.roots_of_tensors(outputs)
    return drawing.draw(roots, name or title, to_file, max_nodes)


@boundary
def debug(stop: bool = True, inf: bool = True) -> AbstractContextManager[Debugger]:
    """Context manager: find out where the first NaN or Inf comes from.

    Inside, functions of `K.function`, `K.eval` and eager calls run op by op on their engine, loops
    included, and each result is looked at. That is slow, and compiles nothing as a whole. Functions
    that were made before are watched too, and those made inside run at full speed afterwards.
    An addition of Backplane: the documents of the Keras backend API do not have it.

    Args:
        stop: Whether to raise at the first finding. Otherwise each finding is printed to stderr.
        inf: Whether infinite numbers count. Programs that compute with minus infinity on purpose
            need False.

    Returns:
        An object whose list `findings` has what was found.

    Raises:
        TypeError: if `stop` or `inf` is neither True nor False.
        FloatingPointError: at the first tensor with NaN or Inf whose operands have none. It names
            the primitive, the lines of the user's code that led to it, the loop and its step, and
            shape, dtype, smallest, largest and mean element, and the number of NaN and Inf of the
            result and of each operand.

    Example:
        >>> from backplane import backend as K
        >>> x = K.placeholder(shape=(3,))
        >>> f = K.function([x], [K.sum(K.log(x))])
        >>> with K.debug(stop=False) as found:
        ...     total = f([[1.0, 2.0, -1.0]])
        >>> print(found.findings[0].result)
        float32 (3,), min 0, max 0.693147, mean 0.346574, 1 NaN
    """
    return _debugging(as_flag(stop, "K.debug: stop"), as_flag(inf, "K.debug: inf"))


@contextmanager
def _debugging(stop: bool, inf: bool) -> Iterator[Debugger]:
    from backplane.views.debugger import Debugger  # Here: few programs look for NaN.

    debugger = Debugger(stop, inf)
    with changed(watcher=debugger), _watching():
        yield debugger


@contextmanager
def _watching() -> Iterator[None]:
    """Context manager: inside, no call takes a shortcut that does not ask who is watching."""
    try:
        WATCHING.append(None)
        KFunction.__call__ = _WatchedCalls()  # type: ignore[method-assign, assignment]
        _forget_settled()
        yield
    finally:
        WATCHING.pop()
        if not WATCHING:
            KFunction.__call__ = _SLOT  # type: ignore[method-assign]
        _forget_settled()


_SLOT: Any = KFunction.__call__


class _WatchedCalls:
    """Stands for `KFunction`'s slot of the compiled call, past which watched calls go."""

    def __get__(self, function: KFunction, owner: type) -> Any:
        return _SLOT.__get__(function) if watcher() is None else boundary(function._run)

    def __set__(self, function: KFunction, call: Any) -> None:
        _SLOT.__set__(function, call)


def _forget_settled() -> None:
    for forget in engines.DEFAULT_CHANGED:
        forget()


@api
def check_numerics(x: TensorLike, message: str = "") -> Tensor:
    """Stop if a tensor has NaN or infinite elements when it is computed.

    The check is part of the program, compiled or not, and gradients pass through it.
    An addition of Backplane: the documents of the Keras backend API do not have it.

    Args:
        x: Tensor. Tensors of integers and bools pass.
        message: Text for the error, such as a name for the tensor.

    Returns:
        A tensor equal to `x`. The check runs only if something is computed from this result.

    Raises:
        FloatingPointError: when the program runs; on every engine it has the message, says whether
            there is NaN, Inf, or both, and names the line that called this function.

    Example:
        >>> from backplane import backend as K
        >>> x = K.placeholder(shape=(2,))
        >>> f = K.function([x], [K.check_numerics(K.log(x), "the logarithm")])
        >>> try:
        ...     f([[1.0, 0.0]])
        ... except FloatingPointError as error:
        ...     print(error)
        the logarithm: the tensor has Inf
    """
    x = as_tensor(x)
    if not is_float(x.spec.dtype):
        return effects.identity(x)
    return effects.check_numerics(x, message=str(message))
