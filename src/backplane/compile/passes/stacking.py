"""One node for all steps of a loop: what a primitive does to stacks of what the steps have.

A value of a step is *stacked* if the steps' values lie along a new first axis, time; what is equal
in all steps stays as it is. `all_steps` gives the node that computes the stack of a node's results
from the stacks of its operands, `over_steps` the sum of the results of all steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from backplane.core.graph import Tensor
from backplane.core.registry import primitive


class Value(NamedTuple):
    """What stands outside of a loop for a tensor inside."""

    tensor: Tensor
    stacked: bool


Rule = Callable[[Tensor, list[Value]], Tensor | None]

ROWS = 1024
"""From so many rows a step on, a product for all steps takes no less time than one for each."""


def all_steps(node: Tensor, operands: Sequence[Value]) -> Value | None:
    """The results of `node` in all steps; None if there is no rule, or it does not fit."""
    assert node.op is not None
    if not any(v.stacked for v in operands):
        inputs = tuple([v.tensor for v in operands])
        return Value(_node(node, node.op.name, *inputs, **node.params), stacked=False)
    rule = _RULES.get(node.op.name)
    tensor = rule(node, list(operands)) if rule is not None else None
    if tensor is None:
        return None
    return Value(tensor, stacked=node.op.name != "dim")


def over_steps(node: Tensor, operands: Sequence[Value]) -> Tensor | None:
    """The sum over the steps of the results of a product or a sum, from the stacks of its operands.

    None for other nodes, and where the operands do not fit.
    """
    assert node.op is not None
    if not all(v.stacked for v in operands):
        return None
    if node.op.name == "matmul" and is_accumulated(node):
        rows = [as_rows(node, v.tensor) for v in operands]
        if None in rows:
            return None
        return _node(node, "matmul", *rows, **node.params)  # type: ignore[arg-type]
    if node.op.name == "sum" and not node.params["keepdims"]:
        x, axes = operands[0].tensor, node.params["axes"]
        rows_ = as_rows(node, x) if axes == (0,) and x.ndim == 3 else None
        if rows_ is not None:
            return _node(node, "sum", rows_, **node.params)
        return _node(node, "sum", x, axes=(0, *[i + 1 for i in axes]), keepdims=False)
    return None


def is_accumulated(product: Tensor) -> bool:
    """Whether the sum of such products over the steps is one product over all rows: xᵀ · y."""
    return product.ndim == 2 and dict(product.params) == {"transpose_x": True, "transpose_y": False}


def total(node: Tensor, stack: Tensor) -> Tensor:
    """The sum of a stack over time."""
    return _node(node, "sum", stack, axes=(0,), keepdims=False)


def plus(node: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """X + y, for the line of `node`."""
    return _node(node, "add", x, y)


def swapped(node: Tensor, x: Tensor) -> Tensor:
    """A matrix with its axes swapped."""
    return _node(node, "transpose", x, perm=(1, 0))


def _node(like: Tensor, name: str, *inputs: Tensor, **params: Any) -> Tensor:
    """A new node for the user's line that built `like`."""
    op = primitive(name)
    return Tensor(op, inputs, params, op.infer(inputs, params), like.where)


# --- time, and the rows of all steps --------------------------------------------------------------


def _sizes(like: Tensor, x: Tensor, axes: Sequence[int]) -> tuple[list[Tensor], list[int | None]]:
    """The sizes of `axes` of x: those unknown as operands, all as a shape."""
    shape = [x.spec.shape[i] for i in axes]
    dims = [_node(like, "dim", x, axis=i) for i, n in zip(axes, shape, strict=True) if n is None]
    return dims, shape


def as_rows(like: Tensor, x: Tensor) -> Tensor | None:
    """The matrices of a stack one below the other; None if their width is not known."""
    width = x.spec.shape[2]
    if not width:
        return None
    height = -1 if None in x.spec.shape[:2] else x.spec.shape[0] * x.spec.shape[1]  # type: ignore[operator]
    return _node(like, "reshape", x, shape=(height, width))


def few_rows(n: int | None) -> bool:
    """Whether one product for all steps pays, where each step has `n` rows."""
    return n is None or n < ROWS


# --- rules ----------------------------------------------------------------------------------------


def _elementwise(node: Tensor, operands: list[Value]) -> Tensor:
    """Operands are broadcast: time must stay in front of axes that only others have."""
    aligned = []
    for x, stacked in operands:
        missing = node.ndim + 1 - x.ndim if stacked else 0
        if missing:
            x = _node(node, "expand_dims", x, axes=tuple(range(1, 1 + missing)))
        aligned.append(x)
    return _node(node, _name(node), *aligned, **node.params)


def _added(node: Tensor, operands: list[Value]) -> Tensor:
    """A bias is added to the rows of a product, where engines can do both at once."""
    for (x, stacked), (c, varies) in (operands, operands[::-1]):
        if stacked and not varies and x.op is not None and x.op.name == "reshape":
            rows = x.inputs[0]
            if rows.ndim == node.ndim == 2 and (c.ndim < 2 or c.spec.shape[0] == 1):
                total = _node(node, "add", rows, c)
                if total.spec == rows.spec:
                    return _node(node, "reshape", total, *x.inputs[1:], **x.params)
    return _elementwise(node, operands)


def _name(node: Tensor) -> str:
    assert node.op is not None
    return node.op.name


def _later_axes(*names: str) -> Rule:
    """For one operand whose parameters name axes: each comes one later."""

    def rule(node: Tensor, operands: list[Value]) -> Tensor:
        params = dict(node.params)
        for key in names:
            axes = params[key]
            params[key] = tuple([i + 1 for i in axes]) if isinstance(axes, tuple) else axes + 1
        return _node(node, _name(node), operands[0].tensor, **params)

    return rule


def _transposed(node: Tensor, operands: list[Value]) -> Tensor:
    perm = (0, *[i + 1 for i in node.params["perm"]])
    return _node(node, "transpose", operands[0].tensor, perm=perm)


def _whole_time(key: str, whole: Any) -> Rule:
    """For a parameter with an entry for each axis: time gets `whole`."""

    def rule(node: Tensor, operands: list[Value]) -> Tensor:
        params = {**node.params, key: (whole, *node.params[key])}
        return _node(node, _name(node), operands[0].tensor, **params)

    return rule


def _shaped(node: Tensor, operands: list[Value]) -> Tensor | None:
    """For operands x, *dims and a parameter `shape`: time becomes its first entry."""
    x, dims = operands[0], operands[1:]
    shape = node.params["shape"]
    if not x.stacked or any(d.stacked for d in dims):
        return None
    if -1 in shape:
        # Beside an unknown time, or no step at all, -1 would be ambiguous.
        if None in node.spec.shape:
            return None
        shape = node.spec.shape
    value = x.tensor
    if _name(node) in ("broadcast_to", "sum_to") and value.ndim != len(shape) + 1:
        if value.ndim > len(shape) + 1:
            return None
        between = range(1, 1 + len(shape) + 1 - value.ndim)
        value = _node(node, "expand_dims", value, axes=tuple(between))
    time, sizes = _sizes(node, x.tensor, [0])
    params = {**node.params, "shape": (*sizes, *shape)}
    if "slices" in params:
        params["slices"] = ((None, None, 1), *params["slices"])
    return _node(node, _name(node), value, *time, *[d.tensor for d in dims], **params)


def _joined(node: Tensor, operands: list[Value]) -> Tensor | None:
    if not all(v.stacked for v in operands):
        return None
    return _node(node, "concat", *[v.tensor for v in operands], axis=node.params["axis"] + 1)


def _gathered(node: Tensor, operands: list[Value]) -> Tensor | None:
    """Rows of one table by the indices of all steps."""
    table, indices = operands
    if table.stacked or node.params["axis"]:
        return None
    return _node(node, "gather", table.tensor, indices.tensor, axis=0)


def _product(node: Tensor, operands: list[Value]) -> Tensor | None:
    """X · W of all steps is one product of all their rows."""
    x, y = operands
    fits = x.stacked and not y.stacked and node.ndim == 2 and not node.params["transpose_x"]
    rows = as_rows(node, x.tensor) if fits and few_rows(node.spec.shape[0]) else None
    if rows is None:
        return None
    product = _node(node, "matmul", rows, y.tensor, **node.params)
    dims, sizes = _sizes(node, x.tensor, [0, 1])
    width = product.spec.shape[1]
    if width is None:
        dims.append(_node(node, "dim", product, axis=1))
    return _node(node, "reshape", product, *dims, shape=(*sizes, width))


def _size(node: Tensor, operands: list[Value]) -> Tensor:
    return _node(node, "dim", operands[0].tensor, axis=node.params["axis"] + 1)


_ELEMENTWISE = [
    "neg", "abs", "sign", "floor", "round", "exp", "expm1", "log", "log1p", "sqrt", "sin",
    "cos", "tanh", "sigmoid", "softplus", "erfinv", "relu", "logical_not", "relu_grad",
    "sigmoid_grad", "tanh_grad", "add", "sub", "mul", "maximum", "minimum", "div",
    "mul_no_nan", "floordiv", "mod", "pow", "equal", "not_equal", "less", "less_equal",
    "logical_and", "logical_or", "bit_and", "bit_or", "bit_xor", "shift_left", "shift_right",
    "where", "cast", "identity", "stop_gradient",
]  # fmt: skip

_RULES: dict[str, Rule] = {
    **dict.fromkeys(_ELEMENTWISE, _elementwise),
    **dict.fromkeys(
        ["sum", "prod", "max", "min", "mean", "any", "all", "logsumexp", "expand_dims", "squeeze",
         "flip"],
        _later_axes("axes"),
    ),
    **dict.fromkeys(
        ["softmax", "log_softmax", "argmax", "argmin", "cumsum", "cumprod"], _later_axes("axis")
    ),
    **dict.fromkeys(["reshape", "broadcast_to", "sum_to", "slice_grad"], _shaped),
    "add": _added,
    "transpose": _transposed,
    "slice": _whole_time("slices", (None, None, 1)),
    "pad": _whole_time("padding", (0, 0)),
    "concat": _joined,
    "gather": _gathered,
    "matmul": _product,
    "dim": _size,
}  # fmt: skip
