"""Primitives, each declared once: its spec rule, its gradient, its traits, its decomposition.

The decorated function is the spec rule. It takes the specs of the operands and returns the spec of
the result, or a list of specs.

    @primitive(memory=Memory.FRESH, axes=like_first)
    def softmax(x, *, axis):
        \"\"\"Exponentials along `axis`, scaled to sum to one.\"\"\"
        return x

    @softmax.vjp
    def _(g, y, x, *, axis): ...          # one cotangent (or None) per operand

    @softmax.decompose
    def _(x, *, axis): ...                # tensors in, tensor out

All other facts of the primitive are its *traits*: the arguments of the decorator. Passes and code
generation ask the primitive for them and keep no lists of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar, overload

from backplane.core.context import current, user_line
from backplane.core.graph import Tensor
from backplane.core.registry import PRIMITIVES
from backplane.core.shapes import check_elements
from backplane.core.spec import Spec
from backplane.core.traits import Axis, AxisRule, Memory, Precision, StackRule

SpecRule = Callable[..., Any]
Rule = Callable[..., Any]
R = TypeVar("R", Tensor, list[Tensor])


class Primitive(Generic[R]):
    """An operation of the graph. Calling it on tensors builds a node and gives its results."""

    __slots__ = (
        "argument_rules", "axes", "decomposition", "doc", "effect", "elementwise", "gradient",
        "host", "in_place", "infer_rule", "linear", "memory", "multiple", "name", "on_host",
        "precision", "reduction", "shortcut", "stacks", "varies",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        rule: SpecRule,
        *,
        memory: Memory,
        multiple: bool = False,
        effect: bool = False,
        host: int | None = None,
        varies: bool = False,
        in_place: bool = False,
        elementwise: bool = False,
        reduction: bool = False,
        on_host: bool = False,
        precision: Precision = Precision.FULL,
        linear: Sequence[int] = (),
        axes: AxisRule | None = None,
        stacks: StackRule | None = None,
        shortcut: Callable[..., Tensor | None] | None = None,
    ) -> None:
        self.name = name
        self.infer_rule = rule
        self.doc = rule.__doc__ or ""
        self.multiple = multiple
        """Whether it has several results: the spec rule returns a list, a call returns a list."""
        self.effect = effect
        """Whether running it does something besides computing. Such nodes are never merged or
        moved.
        """
        self.varies = varies
        """Whether each engine has a result of its own, so that no other one may compute it."""
        self.host = host
        """The operands from this position on are sizes: integer scalars, which are host values if
        the engine has `host_shapes`."""
        self.in_place = in_place
        """Whether it may write its results over its operands. Such nodes run after all others."""
        self.memory = memory
        """Whose memory its result is. An engine's table adds what only its own kernel does: that it
        always makes a view, or can write to memory that it is given."""
        self.elementwise = elementwise
        """Whether each element of the result is computed from the elements at the same place in the
        operands, which are broadcast."""
        self.reduction = reduction
        """Whether it reduces the axes in its parameter `axes`. Its parameter `keepdims` tells
        whether they stay, with size 1."""
        self.on_host = on_host
        """Whether the host may compute it if all its operands are sizes or constants."""
        self.precision = precision
        """How it takes part in mixed precision."""
        self.linear = tuple(linear)
        """The operands in each of which it is linear while all others stay as they are."""
        self.axes = axes
        """Tells from which axes of its operands the size of an axis of its result is taken."""
        self.stacks = stacks
        """How to compute the results of all steps of a loop at once."""
        self.shortcut = shortcut
        """A function of the operands and parameters of a call. It returns a result that needs no
        node of this primitive, or None."""
        self.gradient: Rule | None = None
        self.argument_rules: tuple[Rule | None, ...] | None = None
        self.decomposition: Rule | None = None

    def __repr__(self) -> str:
        return f"<Primitive {self.name}>"

    def infer(self, inputs: Sequence[Tensor], params: Mapping[str, Any]) -> Any:
        """The spec of the result, or a tuple of specs if there are several results."""
        spec = self.infer_rule(*[t.spec for t in inputs], **params)
        return tuple(spec) if self.multiple else spec

    def __call__(self, *inputs: Tensor, **params: Any) -> R:
        """Build a node. Return its result: a tensor, or a list of tensors if there are several."""
        context = current()
        if context.updated:
            inputs = tuple([context.updated.get(t, t) for t in inputs])
        spec = self.infer_rule(*[t.spec for t in inputs], **params)
        if self.multiple:
            for one in spec:
                check_elements(one.shape)
        elif not inputs or spec is not inputs[0].spec:
            check_elements(spec.shape)
        if self.shortcut is not None:
            found = self.shortcut(*inputs, **params)
            if found is not None:
                return found  # type: ignore[return-value]
        where, scopes = context.line or user_line(), context.scopes
        if not self.multiple:
            return Tensor(self, inputs, params, spec, where, scopes)  # type: ignore[return-value]
        node = Tensor(self, inputs, params, tuple(spec), where, scopes)  # type: ignore[arg-type]
        return outputs_of(node)  # type: ignore[return-value]

    def vjp(self, rule: Rule) -> Rule:
        """Decorator for the gradient rule `(g, y, *operands, **params)`. The rule returns one
        cotangent, or None, per operand; for a single operand it may return the tensor itself. If
        there are several results, `g` and `y` are lists, and an entry of `g` is None if no gradient
        reaches that result.
        """
        self.gradient = rule
        return rule

    def vjps(self, *rules: Rule | None) -> None:
        """Set one gradient rule `(g, y, *operands, **params) -> cotangent` per operand. Only the
        rules of operands whose gradient is needed are called.
        """
        self.argument_rules = rules

    def cotangents(
        self, g: Any, y: Any, node: Tensor, wanted: Sequence[bool]
    ) -> list[Tensor | None]:
        """The cotangents of the operands of `node`, computed from the cotangent `g` of its result
        `y`. If there are several results, `g` and `y` are lists. A cotangent is None if the operand
        is not `wanted` or no gradient reaches it.
        """
        if self.argument_rules is not None:
            rules = zip(self.argument_rules, wanted, strict=False)
            return [
                rule(g, y, *node.inputs, **node.params) if rule is not None and yes else None
                for rule, yes in rules
            ]
        assert self.gradient is not None
        found = self.gradient(g, y, *node.inputs, **node.params)
        listed = found if isinstance(found, list | tuple) else [found]
        return [t if yes else None for t, yes in zip(listed, wanted, strict=False)]

    def decompose(self, rule: Rule) -> Rule:
        """Decorator for the decomposition, which serves engines without a lowering. It takes
        tensors and returns a tensor, or a list of them.
        """
        self.decomposition = rule
        return rule

    @property
    def differentiable(self) -> bool:
        """Whether a gradient rule is declared."""
        return self.gradient is not None or self.argument_rules is not None


@overload
def primitive(
    *, memory: Memory, name: str | None = None, multiple: Literal[True], **traits: Any
) -> Callable[[SpecRule], Primitive[list[Tensor]]]: ...
@overload
def primitive(
    *, memory: Memory, name: str | None = None, multiple: Literal[False] = False, **traits: Any
) -> Callable[[SpecRule], Primitive[Tensor]]: ...
def primitive(*, memory: Memory, name: str | None = None, **traits: Any) -> Any:
    """Decorator: declare a primitive with these traits (see `Primitive`). Its name is that of the
    spec rule, unless `name` is given.
    """

    def declare(rule: SpecRule) -> Primitive[Any]:
        key = name or rule.__name__.rstrip("_")
        if key in PRIMITIVES:
            raise ValueError(f"primitive {key!r} is declared twice")
        PRIMITIVES[key] = Primitive(key, rule, memory=memory, **traits)
        return PRIMITIVES[key]

    return declare


def _output_spec(specs: tuple[Spec, ...], *, index: int) -> Spec:
    return specs[index]


def _axis_of_result(node: Tensor, axis: int) -> Sequence[Axis]:
    """The primitive with several results says it of each of them."""
    op = node.inputs[0].op
    return op.axes(node, axis) if op is not None and op.axes is not None else ()


OUTPUT: Primitive[Tensor] = Primitive(
    "output", _output_spec, memory=Memory.ANY, precision=Precision.FOLLOWS, axes=_axis_of_result
)
"""Picks one result of a node that has several. Gradients and code generation treat it specially."""


def outputs_of(node: Tensor) -> list[Tensor]:
    """The results of a node that has several."""
    specs: tuple[Spec, ...] = node.spec  # type: ignore[assignment]
    scopes = None if isinstance(node._name, str) else node._name
    return [
        Tensor(OUTPUT, (node,), {"index": i}, spec, node.where, scopes)
        for i, spec in enumerate(specs)
    ]
