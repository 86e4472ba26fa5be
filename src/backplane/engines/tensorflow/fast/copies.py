"""Bodies of loops that are traced once.

Python makes an operation of a graph in 0.2 ms and more. To copy one, which TensorFlow does by
itself, takes a fifth of that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from backplane.engines.table import Value
from backplane.engines.tensorflow.constants import hold_constants
from backplane.engines.tensorflow.library import tf


class Copies:
    """A function of tensors that is traced once, into a graph of its own. Each call copies the
    operations of that graph into the one of the moment.

    Args:
        function: What is traced. It uses no tensor of a graph that is not an operand.
        given: For each operand its dtype and shape, or a tensor that every call has there. Of an
            eager tensor the trace knows the value.
    """

    def __init__(self, function: Callable[..., Sequence[Value]], given: Sequence[Value]) -> None:
        graph = tf.__internal__.FuncGraph("copied")
        with graph.as_default():
            operands = [
                x if hasattr(x, "numpy") else tf.compat.v1.placeholder(x.dtype, x.shape)
                for x in given
            ]
            hold_constants()
            results = [graph.capture(y) for y in function(*operands)]
        self.names = [y.name for y in results]
        self.places = {x.name: i for i, x in enumerate(operands) if not hasattr(x, "numpy")}
        self.captured = {inner.name: outer for outer, inner in graph.captures}
        outside = self.places.keys() | self.captured.keys()
        self.made = [name for name in self.names if name not in outside]
        self.graph, self.definition = graph, graph.as_graph_def()
        nodes = [node for node in self.definition.node if _full(node.name) not in outside]
        waits = {f"^{name.removesuffix(':0')}" for name in outside}
        for node in nodes:
            # The importer maps data only, and nothing must wait for an operand.
            node.input[:] = [name for name in node.input if name not in waits]
        del self.definition.node[:]
        self.definition.node.extend(nodes)
        self.used = outside & {_full(name) for node in nodes for name in node.input}

    def __call__(self, *operands: Value) -> tuple[Value, ...]:
        """The results of a copy."""
        graph = tf.compat.v1.get_default_graph()

        def outer(name: str) -> Value:
            place = self.places.get(name)
            return graph.capture(self.captured[name] if place is None else operands[place])

        inputs = {name: outer(name) for name in self.used}
        prefix = graph.unique_name("copy")
        setattr(graph, _ORIGINALS, {**getattr(graph, _ORIGINALS, {}), prefix: self.graph})
        copied = tf.graph_util.import_graph_def(
            self.definition, inputs, self.made, name=f"{prefix}/"
        )
        results = dict(zip(self.made, copied, strict=True))
        return tuple(results[name] if name in results else outer(name) for name in self.names)


_ORIGINALS = "backplane_originals"
"""The attribute of a graph with the graph that each copy in it is of."""


def frames_of(graph: Any, name: str) -> Sequence[Any]:
    """The lines of Python that made an operation, or the one that it is a copy of.

    Raises:
        KeyError: It is not in the graph.
    """
    frames = graph.get_operation_by_name(name).traceback
    prefix, _, inner = name.partition("/")
    original = getattr(graph, _ORIGINALS, {}).get(prefix)
    return frames_of(original, inner) if original else frames or ()


def _full(name: str) -> str:
    """The name of a tensor, of which definitions of graphs leave out the number 0."""
    return name if ":" in name else f"{name}:0"
