"""Users' functions of TensorFlow: whether they have state, and their gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tensorflow.python.framework import op_def_registry

from backplane.core.graph import Tensor
from backplane.core.hooks import HOOKS
from backplane.engines.programs import Function
from backplane.engines.table import Shape, Value
from backplane.engines.tensorflow.library import tf

_HARMLESS = frozenset(
    (
        "Assert", "Case", "If", "Placeholder", "ReadVariableOp", "ResourceGather",
        "ResourceGatherNd", "StatefulPartitionedCall", "VarHandleOp", "VarIsInitializedOp", "While",
    )
)  # fmt: skip
"""Operations that are marked as having state, but read variables, check, or call what is looked at
by itself."""


def is_stateful(graph: Any) -> bool:
    """Whether a graph, or a function that it calls, draws random numbers or has an effect."""
    return any(
        (known := op_def_registry.get(name)) is not None
        and known.is_stateful
        and name not in _HARMLESS
        and not name.startswith("TensorArray")
        for name in operations(graph)
    )


def operations(graph: Any) -> Iterator[str]:
    """The names of the operations in a graph and in the functions that it calls."""
    definition = graph.as_graph_def()
    yield from (node.op for node in definition.node)
    for function in definition.library.function:
        yield from (node.op for node in function.node_def)


def known(x: Value, shape: Shape) -> Value:
    """`x` with this static shape, unlike `set_shape`, which changes what the graph knows."""
    return x if x.shape.is_fully_defined() else tf.ensure_shape(x, shape)


def pullback(
    function: Function, operands: Sequence[Value], cotangents: Sequence[Value]
) -> Sequence[Value]:
    """Use a tape."""
    own = [tf.identity(x) for x in operands]
    with tf.GradientTape() as tape:
        tape.watch(own)
        results = function(*own)
    return tape.gradient(
        results, own, list(cotangents), unconnected_gradients=tf.UnconnectedGradients.ZERO
    )


class _Dispatcher(tf.__internal__.dispatch.GlobalOpDispatcher):
    """TensorFlow calls it for arguments that it cannot convert."""

    def handle(self, op: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """A part of our graph if a tensor of ours is among the arguments."""
        return _node(op, args, kwargs) if _ours(args, kwargs) else self.NOT_SUPPORTED


def _ours(args: Any, kwargs: Any) -> bool:
    return any(isinstance(x, Tensor) for x in tf.nest.flatten((args, kwargs)))


def _node(op: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    return HOOKS["tf_function"](op, *tf.nest.map_structure(_coordinates, (args, kwargs)))


def _coordinates(value: Any) -> Any:
    """A sparse tensor of ours in coordinate form; anything else as it is."""
    if not (isinstance(value, Tensor) and value.spec.sparse):
        return value
    dense = HOOKS["to_dense"](value)
    return HOOKS["tf_function"](tf.sparse.from_dense, (dense,), {})


def _new_sparse(cls: type, *args: Any, **kwargs: Any) -> Any:
    """`tf.SparseTensor(…)`; a part of our graph if a tensor of ours is among the arguments."""
    return _node(cls, args, kwargs) if _ours(args, kwargs) else object.__new__(cls)


def _dispatched(function: Callable[..., Any], convert: bool = False) -> Callable[..., Any]:
    """The same; a part of our graph if a tensor of ours is among the arguments. With `convert`,
    AutoGraph goes on converting the functions among the arguments.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return _node(function, args, kwargs) if _ours(args, kwargs) else function(*args, **kwargs)

    if convert:
        call.autograph_info__ = {}  # type: ignore[attr-defined] # The call itself stays as it is.
        return call
    return tf.autograph.experimental.do_not_convert(call)


def _dispatch_sparse() -> None:
    """Dispatch the functions of sparse tensors too, which TensorFlow itself does not."""
    for module in (tf.sparse, tf.compat.v1.sparse, tf.compat.v1):
        for name, function in list(vars(module).items()):
            if getattr(function, "__module__", "").endswith(".sparse_ops"):
                setattr(module, name, _dispatched(function))
    tf.SparseTensor.__new__ = _new_sparse


LOOPS = ("map_fn", "while_loop", "vectorized_map", "switch_case")
"""Loops and branches that TensorFlow does not dispatch. (It does `cond`, `case`, `scan`, …)"""


def _dispatch_loops() -> None:
    for module in (tf, tf.compat.v1, tf.compat.v2):
        for name in LOOPS:
            function = getattr(module, name, None)
            if function is not None:
                setattr(module, name, _dispatched(function, convert=True))


_Dispatcher().register()
_dispatch_sparse()
_dispatch_loops()
