"""The cost of a node, as far as shapes tell: floating-point operations and bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from backplane.compile.aliases import alias_root
from backplane.core.graph import Tensor, graphs_of, specs_of, toposort
from backplane.core.primitive import OUTPUT, Primitive
from backplane.core.shapes import elements
from backplane.core.spec import Spec, bits
from backplane.core.traits import Memory
from backplane.ops.control import scan_
from backplane.ops.convolution import conv, conv_bias, conv_input_grad, conv_kernel_grad
from backplane.ops.linear import matmul, matmul_add


def size(spec: Spec, unknown: int) -> int:
    """The number of bytes."""
    return elements(spec.shape, unknown) * bits(spec.dtype) // 8


def flops(node: Tensor, unknown: int) -> int:
    """An estimate of the floating-point operations that a node takes: those of products and
    convolutions exactly, and one for each element that other nodes compute.
    """
    op = node.op
    if op is None or op is OUTPUT:
        return 0
    rule = _RULES.get(op)
    if rule is not None:
        return rule(node, unknown)
    if graphs := graphs_of(node):
        inside = sum(flops(t, unknown) for g in graphs.values() for t in toposort(g.outputs))
        return inside * (_steps(node, unknown) if op is scan_ else 1)
    if op.reduction:
        return elements(node.inputs[0].spec.shape, unknown)
    if op.memory is not Memory.FRESH:
        return 0
    return sum([elements(spec.shape, unknown) for spec in specs_of(node)])


def _steps(node: Tensor, unknown: int) -> int:
    length, carry = node.params["length"], node.params["carry"]
    if length is None:
        length = node.inputs[carry].spec.shape[0]
    return unknown if length is None else int(length)


def _product(node: Tensor, unknown: int) -> int:
    x = node.inputs[0].spec
    inner = x.shape[-2 if node.params["transpose_x"] else -1]
    return 2 * elements(node.spec.shape, unknown) * (unknown if inner is None else inner)


Rule = Callable[[Tensor, int], int]
"""A function of a node and of what an unknown size counts as."""


def _window(result: Callable[[Tensor], Spec], weight: Callable[[Tensor], Sequence[Any]]) -> Rule:
    def rule(node: Tensor, unknown: int) -> int:
        return 2 * elements(result(node).shape, unknown) * elements(weight(node)[:-1])

    return rule


_conv = _window(lambda node: node.spec, lambda node: node.inputs[1].spec.shape)
_RULES: Mapping[Primitive[Any], Rule] = {
    matmul: _product,
    matmul_add: _product,
    conv: _conv,
    conv_bias: _conv,
    conv_input_grad: _window(
        lambda node: node.inputs[0].spec, lambda node: node.inputs[1].spec.shape
    ),
    conv_kernel_grad: _window(
        lambda node: node.inputs[1].spec, lambda node: node.params["kernel_shape"]
    ),
}


def peak(order: Sequence[Tensor], outputs: Iterable[Tensor], unknown: int) -> int:
    """The most bytes that results take at one time, freed after their last use. Views take none."""
    last: dict[Tensor, int] = {}
    for i, node in enumerate(order):
        last |= dict.fromkeys((_owner(t) for t in node.inputs), i)
    last |= dict.fromkeys(map(_owner, outputs), len(order))
    ends: dict[int, list[Tensor]] = {}
    for t, i in last.items():
        ends.setdefault(i, []).append(t)
    now = most = 0
    for i, node in enumerate(order):
        now += _own_bytes(node, unknown)
        most = max(most, now)
        now -= sum([_own_bytes(t, unknown) for t in ends.get(i, ())])
    return most


def _owner(t: Tensor) -> Tensor:
    """The node whose memory a tensor is a view of."""
    root = alias_root(t)
    return root.inputs[0] if root.op is OUTPUT else root


def _own_bytes(node: Tensor, unknown: int) -> int:
    if node.op is None or _owner(node) is not node:
        return 0
    return sum([size(spec, unknown) for spec in specs_of(node)])
