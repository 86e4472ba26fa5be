"""Whose memory a value has: what may share it, and until when it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from backplane.core.graph import Tensor
from backplane.core.primitive import OUTPUT

FRESH = frozenset(
    (
        "matmul",
        "matmul_add",
        "conv",
        "conv_bias",
        "conv_input_grad",
        "conv_kernel_grad",
        "max_pool_grad",
        "avg_pool",
        "avg_pool_grad",
        "sum",
        "mean",
        "max",
        "min",
        "softmax",
        "log_softmax",
        "logsumexp",
        "concat",
        "gather",
        "scatter_add",
        "slice_grad",
    )
)
"""Primitives whose result is memory of its own, beside those whose lowerings take `out`."""


class Memory:
    """Until when the memory of each value of a program is read."""

    def __init__(
        self,
        order: Sequence[Tensor],
        outputs: Sequence[Tensor],
        takes_out: Callable[[Tensor], int],
    ) -> None:
        """`takes_out` says of a node whether its lowering takes `out`."""
        self.takes_out = takes_out
        self.last = dict.fromkeys(outputs, len(order))
        """The position in `order` of the last node that may read a value's memory, be it through
        another value that shares it. Outputs are read after the end."""
        self.shared: dict[Tensor, int] = {}
        """The same, through other values only."""
        last, shared = self.last, self.shared
        for i in range(len(order) - 1, -1, -1):
            node = order[i]
            until = last.get(node, i)
            # Where it is not sure that the result is fresh, it may be any of the operands.
            passed = not self.is_fresh(node)
            for t in node.inputs:
                last[t] = max(last.get(t, i), until if passed else i)
                if passed:
                    shared[t] = max(shared.get(t, i), until)

    def is_fresh(self, node: Tensor) -> bool:
        """Whether the result is memory that nothing else has."""
        op = node.op
        if op is None or op is OUTPUT:
            return False
        return op.name in FRESH or bool(self.takes_out(node))

    def dies(self, t: Tensor, first: int, last: int) -> bool:
        """Whether the nodes from `first` to `last` are the last to read the memory of `t`, which
        nothing else has, so that they may write to it.
        """
        return t.ndim > 0 and self.is_fresh(t) and first <= self.last[t] <= last

    def is_shared(self, t: Tensor, first: int) -> bool:
        """Whether another value that is read from position `first` on may have the memory of
        `t`.
        """
        return self.shared.get(t, -1) >= first
