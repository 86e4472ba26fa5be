"""Evaluating, differentiating and compiling graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, ValuesView
from functools import partial
from inspect import signature
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from backplane import engines
from backplane.backend._adapters import adaptable, adapter_among
from backplane.backend._args import as_name
from backplane.backend._call import api
from backplane.backend._errors import described, explained, unknown_keywords
from backplane.backend._function_arguments import (
    NO_GRADIENT,
    OPTIONS,
    as_input,
    as_output,
    as_updates,
    checked_options,
)
from backplane.backend._kfunction import Given, KFunction
from backplane.backend._trees import as_list, flatten, is_nest, map_leaves, unflatten
from backplane.backend.devices import policy_of
from backplane.backend.types import DType, LossScale, TensorLike, Tree
from backplane.compile.feeds import check_has_value
from backplane.core.context import WATCHING, watcher
from backplane.core.graph import Tensor, is_array
from backplane.core.hooks import HOOKS
from backplane.core.sparse import SparseTensor
from backplane.core.tracebacks import hide
from backplane.core.variable import Variable
from backplane.engines import engine_of
from backplane.engines.base import Engine
from backplane.ops import autodiff, effects
from backplane.ops.lift import as_tensor

if TYPE_CHECKING:
    from backplane.compile.function import Function

__all__ = ["eval", "function", "gradients", "stop_gradient"]


@adaptable
def function(
    inputs: Tree,
    outputs: Tree | Iterable[TensorLike | None],
    updates: Iterable[Any] | None = None,
    name: str | None = None,
    precision: DType | None = None,
    loss_scale: LossScale = None,
    accumulate: int = 1,
    **kwargs: Any,
) -> KFunction:
    """Compile a function from tensors to NumPy arrays, with updates of variables.

    All outputs and all updates are computed from the values that the variables had before. Then all
    updates are written. If anything fails, none is.

    Args:
        inputs: Placeholder or list of placeholders. Any other tensor may be an input too; what is
            fed takes the place of its value. In a dict or in nested lists, values are fed in the
            same structure.
        outputs: Tensor or list of tensors, or a dict or nested lists of them, in whose structure
            the arrays are returned.
        updates: List of what `K.update` and its kin return, or of pairs `(variable, new_value)`.
        name: Name for error messages.
        precision: `"bfloat16"` or `"float16"`: what `K.mixed_precision` does, for this function.
        loss_scale: As for `K.mixed_precision`. The variable that holds the scale is the function's
            attribute `loss_scale`.
        accumulate: Into how many parts to split the batch: the first axis of what is fed for
            placeholders whose first size is unknown. The parts are computed one after the other,
            so that less memory is needed. Gradients of variables are averaged over the parts, and
            what is computed from them runs once. Updates that read the batch itself, such as moving
            averages, run once for each part. Outputs that are scalars are averaged, and those that
            have one row for each row of the batch are joined. For a loss that is a mean over the
            rows nothing else changes.
        **kwargs: `compile` asks the engine for a compiler that it does not use by itself:
            `torch.compile` on torch (True, a mode, or a dict of its arguments), `mx.compile` on
            mlx, PyTensor's own mode on theano, and XLA for the whole program on tensorflow. Other
            engines ignore it. `freeze=False` keeps ONNX Runtime from making constants of variables
            that stay the same (`backplane docs onnx`). Classic Keras passed further arguments to
            `Session.run`. Here they are refused.

    Returns:
        A callable that takes a list of values and returns a list of NumPy arrays.

    Raises:
        ValueError: for unknown keyword arguments, if a placeholder is needed but not an input, or
            if the batch cannot be split, or `compile` is nothing that an engine knows.
        NotImplementedError: if the engine does not have the dtype of `precision`.
        TypeError: for inputs, outputs or updates that are not tensors.

    If there are two updates of one variable and the second does not follow from the first, a
    warning says that only the second counts.

    Example:
        >>> from backplane import backend as K
        >>> x, w = K.placeholder(shape=(None, 2)), K.variable([1.0, 2.0])
        >>> f = K.function([x], [K.sum(x * w, axis=1)], updates=[K.update_add(w, [1.0, 1.0])])
        >>> f([[[1.0, 1.0]]])
        [array([3.], dtype=float32)]
        >>> f([[[1.0, 1.0]]])
        [array([5.], dtype=float32)]
    """
    options = _options_among(kwargs)
    takes = None
    if is_nest(inputs) or not isinstance(inputs, list | tuple):
        takes = map_leaves(lambda t: getattr(t, "ndim", 0), inputs)
    gives: Given | None = None
    # Lists of numbers are constants.
    if is_nest(outputs) and any(isinstance(t, Tensor) for t in flatten(outputs)):
        # The parts of a sparse tensor of the library are one tensor, which is given as an array.
        outputs = map_leaves(
            lambda t: as_tensor(t) if isinstance(t, SparseTensor) else t, outputs, SparseTensor
        )
        gives = partial(unflatten, map_leaves(lambda _: None, outputs))
        outputs = flatten(outputs)
    elif not isinstance(outputs, list | tuple | ValuesView):
        gives = itemgetter(0)
    given = flatten(inputs)
    fixed = {i: t for i, t in enumerate(given) if isinstance(t, bool | int) and t in (0, 1)}
    tensors = [as_input(t, i) for i, t in enumerate(given) if i not in fixed]
    if len(set(tensors)) != len(tensors):
        raise ValueError("K.function: inputs has the same tensor twice")
    results = [as_output(t, i) for i, t in enumerate(as_list(outputs))]
    pairs = as_updates(updates)
    made = compiled_function(
        tensors,
        results,
        pairs,
        engine=engines.for_programs(),
        name=as_name(name, "K.function: name"),
        options=options,
        policy=policy_of(precision, loss_scale, accumulate),
    )
    return KFunction(made, fixed, takes, gives)


def _options_among(kwargs: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    options = checked_options({k: kwargs.pop(k) for k in list(kwargs) if k in OPTIONS})
    if kwargs:
        known = [*list(signature(function).parameters)[:-1], *OPTIONS]
        raise ValueError(
            f"K.function: {unknown_keywords(sorted(kwargs), known)}. "
            "Those of TensorFlow's Session.run have no meaning here"
        )
    return options


@adaptable
def gradients(
    loss: Tensor | Sequence[Tensor], variables: Tensor | Sequence[Tensor]
) -> list[Tensor | None]:
    """Gradients of `loss` with respect to tensors.

    Args:
        loss: Tensor or list of tensors. The elements of a tensor that is not a scalar are summed.
        variables: Tensor or list of tensors: variables, placeholders, or any tensors in between.

    Returns:
        List of tensors with the shapes of `variables`. An entry is None if `loss` does not depend
        on that tensor through differentiable functions. For a single tensor the result is a list
        too, as in classic Keras. The results are tensors like any others and can be differentiated
        again.

    Raises:
        TypeError: if `loss` or one of `variables` is not a symbolic tensor.

    Example:
        >>> from backplane import backend as K
        >>> x = K.variable([1.0, 2.0, 3.0])
        >>> (g,) = K.gradients(K.sum(x * x), [x])
        >>> K.eval(g)
        array([2., 4., 6.], dtype=float32)
    """
    losses, wrt = list(map(HOOKS["lifted"], as_list(loss))), as_list(variables)
    for what, listed in (("loss", losses), ("variables", wrt)):
        for t in listed:
            if not isinstance(t, Tensor):
                raise TypeError(
                    f"K.gradients: {what} must be symbolic tensors, got {type(t).__name__}; for "
                    "native tensors use their engine's own gradients"
                )
    return autodiff.gradients(losses, wrt)


@api
def stop_gradient(variables: TensorLike | Sequence[TensorLike]) -> Any:
    """Tensors with the same values, through which no gradient flows.

    Args:
        variables: Tensor or list of tensors.

    Returns:
        A tensor or a list of tensors.

    Example:
        >>> from backplane import backend as K
        >>> x = K.variable(3.0)
        >>> K.eval(K.gradients(x * K.stop_gradient(x), [x])[0]).item()
        3.0
    """
    if isinstance(variables, list | tuple):
        return type(variables)(effects.stop_gradient(as_tensor(v)) for v in variables)
    return effects.stop_gradient(as_tensor(variables))


def eval(x: TensorLike) -> np.ndarray:
    """The value of a tensor or variable as a NumPy array.

    Args:
        x: Variable, engine tensor, array, or a tensor that depends on no placeholder. The learning
            phase counts as 0.

    Raises:
        ValueError: if `x` depends on a placeholder.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.variable([[1, 2], [3, 4]], dtype="float32"))
        array([[1., 2.],
               [3., 4.]], dtype=float32)
    """
    # A tensor that was computed before keeps its call, which needs no function of ours around it.
    try:
        if isinstance(x, Tensor) and not (WATCHING and watcher() is not None):
            calls: dict[Engine, Call] | None = x.__dict__.get(CALLS)
            if calls is not None and (call := calls.get(engines.for_programs())) is not None:
                return call([])[0]
        return _eval(x)
    except Exception as error:
        hide(error)
        raise


def _eval_anything(x: TensorLike) -> np.ndarray:
    # The same as `adaptable` does, but our own tensors take a short cut.
    adapter = None if isinstance(x, Tensor) else adapter_among((x,))
    return evaluate(x) if adapter is None else adapter.call(eval, (x,), {})


_eval_anything.__name__ = "eval"  # Errors name it.
_eval = explained(_eval_anything)

Call = Callable[[list[Any]], list[np.ndarray]]


def evaluate(x: Any, feed: dict[Tensor, Any] | None = None) -> np.ndarray:
    """Compute a tensor as `K.eval` does, with values for placeholders."""
    if not isinstance(x, Tensor):
        owner = engine_of(x)
        if owner is None:
            return _array(x)
        check_has_value(x, owner, "K.eval")
        return np.asarray(owner.to_numpy(x))
    engine = engines.for_programs()
    if feed or (WATCHING and watcher() is not None):
        feed = feed or {}
        return _once(list(feed), x, engine)(list(feed.values()))[0]
    if isinstance(x, Variable):
        return x.numpy()
    if is_array(x):
        return np.array(x.value)
    call = _once([], x, engine).without_graph()
    x.__dict__.setdefault(CALLS, {})[engine] = call
    return call([])[0]


def _array(x: Any) -> np.ndarray:
    """A plain argument as an array. TypeError if it holds no numbers, or several tensors."""
    if isinstance(x, list | tuple | dict) and any(isinstance(t, Tensor) for t in flatten(x)):
        raise TypeError(
            f"x must be one tensor, got {described(x)}; K.function([], tensors)([]) computes "
            "several at once, and K.batch_get_value(variables) reads several variables"
        )
    array = np.array(x)
    if array.dtype.kind in "OSU":
        given = NO_GRADIENT if x is None else described(x)
        raise TypeError(f"x must be a tensor, an array or numbers, got {given}")
    return array


def compiled_function(*graph: Any, **settings: Any) -> Function:
    """The compiled function of a graph; `compile.plan.plan_of` says what it takes."""
    # Here, not above: the compiler is a fourth of what K is.
    from backplane.compile.function import Function
    from backplane.compile.plan import plan_of

    return Function(plan_of(*graph, **settings))


def _once(inputs: list[Tensor], x: Tensor, engine: Engine) -> Function:
    """The function that computes `x`, most likely a few times only."""
    options = (("once", True),) if "once" in engine.capabilities else ()
    return compiled_function(inputs, [x], engine=engine, name="eval", options=options)


CALLS = "_calls"
"""The attribute in which a tensor keeps the program that computes it, by engine, from its first
evaluation on."""


HOOKS["eval"] = lambda x, session, feed: evaluate(x, feed) if feed else eval(x)
