"""Functions of an engine's library inside graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from backplane import engines
from backplane.backend._adapters import adaptable
from backplane.backend._args import as_dtype, as_flag, known_integers
from backplane.backend._call import bound_values, look
from backplane.backend._trace import Arguments, Slot, fill, hashable, run_now, runs_at_once
from backplane.backend._trees import flatten, map_leaves, unflatten
from backplane.backend.types import DType, StaticShape, TensorLike
from backplane.core import context
from backplane.core.graph import Tensor
from backplane.core.hooks import HOOKS
from backplane.core.native import Native
from backplane.core.sparse import SparseTensor
from backplane.core.spec import Spec
from backplane.engines.base import Engine
from backplane.ops.lift import as_tensor
from backplane.ops.native import native_, stateful_native

__all__ = ["native"]

Result = tuple[StaticShape, DType]
"""The shape and the dtype of a result."""


@adaptable
def native(
    fn: Callable[..., Any],
    *tensors: TensorLike,
    gradient: Callable[..., Any] | None = None,
    stateful: bool | None = None,
    spec: Result | Sequence[Result] | None = None,
) -> Any:
    """Call a function of the engine's own library inside a graph.

    An addition of Backplane: the documents of the Keras backend API do not have it.

    The library evaluates `fn` abstractly to find the shapes and dtypes of its results. Then `fn` is
    compiled with the rest of the graph, which runs on this engine only. Variables and tensors that
    `fn` uses from around it are operands too.

    Args:
        fn: Function of values of the engine in force: of `tf.Tensor`s, `torch.Tensor`s,
            `jax.Array`s, `mx.array`s or variables of PyTensor; of NumPy arrays on numpy and cntk.
            It returns one value, or a list, tuple or dict of them. It is called again whenever a
            program is compiled or run, so it must compute the same from the same operands.
        *tensors: Operands.
        gradient: Function `(g, *tensors)` of tensors of the graph, with K functions or native ones
            in it. `g` is the gradient with respect to the result, a list if there are several. It
            returns a gradient, or None, for each of `tensors`. By default the library
            differentiates `fn`, any number of times; NumPy and ONNX Runtime cannot.
        stateful: Whether `fn` draws random numbers or has an effect. Such a call is never merged
            with an equal one, and has no gradient unless one is given. By default the library is
            asked; False says that `fn` always computes the same.
        spec: Pair of shape and dtype of the result, or a list of pairs, for a function that cannot
            be evaluated without values. Sizes may be None.

    Returns:
        What `fn` returns, with tensors in the place of the values. If all `tensors` have values, it
        is called at once and returns values.

    Raises:
        TypeError: if `fn` is no function.
        ValueError: if `fn` cannot be evaluated for such shapes.

    Example:
        >>> from backplane import backend as K
        >>> import numpy as np
        >>> with K.engine("numpy"):
        ...     x = K.variable([1.0, 4.0])
        ...     y = K.native(np.cbrt, 2 * x, gradient=lambda g, x: g / (3 * K.pow(x, 2 / 3)))
        ...     K.eval(K.gradients(K.sum(y), [x])[0]).round(3)
        array([0.42 , 0.167], dtype=float32)
    """
    if not callable(fn):
        raise TypeError(f"K.native: fn must be a function, got {fn!r}")
    if gradient is not None and not callable(gradient):
        raise TypeError(f"K.native: gradient must be a function, got {gradient!r}")
    if stateful is not None:
        stateful = as_flag(stateful, "K.native: stateful")
    tensors = bound_values(tensors)
    given = None if spec is None else _specs(spec)
    runs, engine = look(tensors, "native")
    if not runs:
        operands: list[Tensor] = []

        def slot(value: Any) -> Slot:
            operands.append(as_tensor(value))
            return Slot(len(operands) - 1)

        slots = tuple(
            [map_leaves(slot, t) if isinstance(t, SparseTensor) else slot(t) for t in tensors]
        )
        called = _Called(engine, fn, slots, {})
        return _node(engine, called, operands, gradient, stateful, given)
    known = Arguments(tensors, engine)
    values = known.leaves
    at_once = runs_at_once(engine) or any(map(engine.is_symbolic, values))
    if at_once and all(type(t) is Slot for t in flatten(known.slots)):
        called = _Called(engine, fn, known.slots, {})
        run = engine.native(called, list(map(engine.spec_of, values)), None)
        results = list(run(*values))
        return with_sparse(engine, unflatten(called.structure, results))
    return run_now(native, (fn, *tensors), {"stateful": stateful, "spec": spec}, engine)


def _specs(spec: Any) -> Sequence[Spec]:
    """The specs of the results: a list if a list was given."""
    if isinstance(spec, list):
        return [s for one in spec for s in _specs(one)]
    if not isinstance(spec, tuple) or len(spec) != 2:
        raise TypeError(f"spec must be a pair (shape, dtype), or a list of such, got {spec!r}")
    shape, dtype = spec
    return (Spec(tuple(shape), as_dtype(dtype)),)


def with_sparse(engine: Engine, tree: Any) -> Any:
    """A tree of values with the library's own sparse tensors."""
    return map_leaves(
        lambda value: engine.sparse(value) if isinstance(value, SparseTensor) else value,
        tree,
        SparseTensor,
    )


class _Called:
    """A call with slots among its arguments; equal calls have equal plain arguments."""

    def __init__(
        self,
        engine: Engine,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self.engine = engine
        self.function, self.args, self.kwargs = function, args, kwargs
        self.structure: Any = None
        """The last result of the function, with None for the values."""
        try:
            self.key: Any = (function, hashable((args, kwargs)))
            hash(self.key)
        except TypeError:
            self.key = self

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, _Called) and self.key is not self and self.key == other.key
        )

    def __hash__(self) -> int:
        return id(self) if self.key is self else hash(self.key)

    def __call__(self, *values: Any) -> list[Any]:
        """The results in a flat list."""
        args, kwargs = with_sparse(self.engine, fill((self.args, self.kwargs), values))
        result = map_leaves(self.engine.sparse_parts, self.function(*args, **kwargs))
        self.structure = map_leaves(lambda value: None, result)
        return flatten(result)

    @property
    def name(self) -> str:
        """The name of the function."""
        name = getattr(self.function, "__qualname__", None) or type(self.function).__qualname__
        return f"the function {name!r}"


def _node(
    engine: Engine,
    called: _Called,
    operands: Sequence[Tensor],
    gradient: Callable[..., Any] | None = None,
    stateful: bool | None = None,
    given: Sequence[Spec] | None = None,
) -> Any:
    """The node of a call, and its results in the structure in which the function returns them."""
    # Here: the compiler is a fourth of K. What a branch of the library reads around it is computed.
    import backplane.compile.program  # noqa: F401

    function = Native(engine, called, called.name, gradient=gradient, given=given)
    specs = [t.spec for t in operands]
    captured = function.captures(specs)
    if captured:
        if gradient is not None:
            raise ValueError(
                f"K.native: {called.name} captures {captured[0]!r}, for which "
                "`gradient` has no result: pass it to K.native as an operand"
            )
        function = function.capturing(captured)
        specs += [t.spec for t in captured]
    function.results(specs)
    marked = function.stateful if stateful is None else stateful
    results = (stateful_native if marked else native_)(*operands, *captured, function=function)
    if given is not None:
        return results if isinstance(given, list) else results[0]
    return unflatten(called.structure, results)


def call_of(name: str, fn: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]) -> Any:
    """The call of a function of an engine's library with tensors of ours among its arguments, which
    may lie in lists and dicts: a node, or, inside of such a function, the call of `fn` on values.
    """
    bound = context.current().bound
    if bound is not None and bound.engine.name == name:
        args, kwargs = with_sparse(bound.engine, bound_values((args, kwargs)))
        return fn(*args, **kwargs)
    operands: list[Tensor] = []
    engine = engines.get(name)

    def slot(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        # A known size becomes a number, unless the engine traces with numbers that stand in for
        # unknown sizes: then it needs the tensor.
        known = None if engine.stand_in_sizes else known_integers(value)
        if known is not None:
            return known
        operands.append(as_tensor(value))
        return Slot(len(operands) - 1)

    args, kwargs = map_leaves(slot, (tuple(args), dict(kwargs)))
    return _node(engine, _Called(engine, fn, args, dict(kwargs)), operands)


def lifted(value: Any) -> Any:
    """A value of an engine's own symbolic graph that was computed from tensors of ours as a tensor;
    all other values as they are.
    """
    engine = engines.engine_of(value)
    found = None if engine is None else engine.origin(value)
    if engine is None or found is None or context.current().bound is not None:
        return value
    tensors, function = found
    return native_(*tensors, function=Native(engine, function, f"the variable {value}"))[0]


HOOKS["lifted"] = lifted
