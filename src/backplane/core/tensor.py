"""Tensors, and the primitives that compute them: each of the two knows the other.

A tensor is either a leaf (`core.graph`) or the result of a primitive on other tensors. A primitive
with several results makes one node whose `spec` is a tuple of specs, and one `output` tensor per
result. A tensor never refers to its users, so Python frees whatever nobody holds any more.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np

from backplane.core.context import Where, current, user_line
from backplane.core.hooks import HOOKS
from backplane.core.keras_attributes import KerasAttributes
from backplane.core.shapes import check_elements
from backplane.core.spec import DType, Shape, Spec
from backplane.core.tracebacks import boundary, hide
from backplane.core.trait_values import Fused, Memory, Precision

_serial = itertools.count()


def _operator(name: str) -> Callable[..., Tensor]:
    def method(self: Tensor, *args: object) -> Tensor:
        try:
            return HOOKS[name](self, *args)
        except Exception as error:
            hide(error)
            raise

    method.__name__ = f"__{name}__"
    return method


class Tensor(KerasAttributes):
    """A value to be computed. It never changes, but other libraries may hang attributes on it."""

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_name",
        "inputs",
        "op",
        "params",
        "serial",
        "spec",
        "where",
    )

    __array_priority__ = 1000

    def __init__(
        self,
        op: Primitive[Any] | None,
        inputs: tuple[Tensor, ...],
        params: Mapping[str, Any],
        spec: Spec,
        where: Where | None,
        name: str | tuple[str, ...] | None = None,
    ) -> None:
        """`name`: a name, or the scopes of one that is made when somebody asks for it."""
        self.op = op
        self.inputs = inputs
        self.params = params
        self.spec = spec
        self.where = where
        self.serial = next(_serial)
        self._name = name
        self._phased: bool | None = None

    # --- what Keras code reads --------------------------------------------------------------------

    @property
    def shape(self) -> Shape:
        """The static shape; unknown sizes are None."""
        return Shape(self.spec.shape)

    def get_shape(self) -> Shape:
        """The static shape, TensorFlow's spelling."""
        return Shape(self.spec.shape)

    if not TYPE_CHECKING:  # Otherwise checkers would take any name for an attribute.

        @boundary
        def __getattr__(self, name: str) -> Any:
            tell = HOOKS.get("lacks")
            more = "" if name.startswith("_") or tell is None else tell(name)
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{more}")

    @property
    def dtype(self) -> DType:
        """The name of the dtype: a string that also has `.name`."""
        return DType(self.spec.dtype)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.spec.shape)

    @property
    def name(self) -> str:
        """The given name, or one of name scopes, the primitive's name and a serial number."""
        if not isinstance(self._name, str):
            own = f"{self.op.name if self.op else 'tensor'}_{self.serial}"
            self._name = "/".join([*(self._name or ()), own])
        return self._name

    def __repr__(self) -> str:
        spec: Any = self.spec
        if not isinstance(spec, Spec):
            return f"<node {self.name!r} with {len(spec)} results>"
        kind = type(self).__name__ if self.op is None else "Tensor"
        return f"<{kind} {self.name!r} shape={tuple(spec.shape)} dtype={spec.dtype}{self._made()}>"

    def _made(self) -> str:
        """The way in which the tensor is computed, for `repr`."""
        if self.op is None:
            return ""
        # One of several results is that of the node that has them all.
        single = not self.inputs or isinstance(self.inputs[0].spec, Spec)
        node = self if single else self.inputs[0]
        assert node.op is not None
        names = [t.name for t in node.inputs]
        shown = names if len(names) <= 6 else [*names[:5], "…"]
        return f" = {node.op.name}({', '.join(shown)})"

    def _repr_html_(self) -> str:
        """The form that notebooks show: the facts, and the line that built the tensor."""
        import html  # Here: only notebooks need it.

        rows = [repr(self), *([f"built at {self.where}"] if self.where is not None else [])]
        return f"<code>{'<br>'.join([html.escape(row) for row in rows])}</code>"

    # --- operators; == is identity, so that tensors can be keys and members of lists --------------

    __add__, __radd__ = _operator("add"), _operator("radd")
    __sub__, __rsub__ = _operator("sub"), _operator("rsub")
    __mul__, __rmul__ = _operator("mul"), _operator("rmul")
    __truediv__, __rtruediv__ = _operator("truediv"), _operator("rtruediv")
    __floordiv__, __rfloordiv__ = _operator("floordiv"), _operator("rfloordiv")
    __mod__, __rmod__ = _operator("mod"), _operator("rmod")
    __pow__, __rpow__ = _operator("pow"), _operator("rpow")
    __matmul__, __rmatmul__ = _operator("matmul"), _operator("rmatmul")
    __lt__, __le__ = _operator("lt"), _operator("le")
    __gt__, __ge__ = _operator("gt"), _operator("ge")
    __and__, __rand__ = _operator("and"), _operator("rand")
    __or__, __ror__ = _operator("or"), _operator("ror")
    __xor__, __rxor__ = _operator("xor"), _operator("rxor")
    __neg__, __abs__, __invert__ = _operator("neg"), _operator("abs"), _operator("invert")
    __getitem__ = _operator("getitem")

    def eval(self, session: object = None, feed_dict: object = None) -> np.ndarray:
        """The value as a NumPy array: `K.eval`, with TensorFlow's spelling and arguments."""
        return HOOKS["eval"](self, session, feed_dict)

    @boundary
    def __bool__(self) -> bool:
        raise TypeError(
            f"{self!r} has no truth value yet: it is symbolic. Use K.switch or K.in_train_phase to "
            "choose inside the graph, or K.eval to compute it."
        )

    @boundary
    def __iter__(self) -> Iterator[Tensor]:
        shape = self.spec.shape
        if not shape:
            raise TypeError(f"{self!r} has no axes to iterate over")
        if shape[0] is None:
            raise TypeError(
                f"{self!r} cannot be iterated over: the size of its first axis is unknown"
            )
        return (self[i] for i in range(shape[0]))

    # --- what other libraries ask of an operand: `backend` answers ----------------------------

    @boundary
    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return HOOKS["array"](self, dtype)

    @boundary
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """`array + tensor`, and functions of NumPy: `np.exp(tensor)`."""
        return HOOKS["ufunc"](ufunc, method, inputs, options)

    @boundary
    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return HOOKS["array_function"](function, args, kwargs)

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return HOOKS["torch_function"](function, args, kwargs or {})

    def __tf_tensor__(self, dtype: Any = None, name: str | None = None) -> Any:
        return HOOKS["tf_tensor"](self)

    def __jax_array__(self) -> Any:
        """The value as a JAX array; the tensor itself if it has none yet, or none that JAX keeps as
        it is: then `jax_array + tensor` is left to K.
        """
        return HOOKS["jax_array"](self)

    def __mlx_array__(self) -> Any:
        return HOOKS["mlx_array"](self)

    @boundary
    def __float__(self) -> float:
        raise TypeError(f"{self!r} is symbolic and has no value yet: use K.eval or K.function")

    @boundary
    def __int__(self) -> int:
        raise TypeError(f"{self!r} is symbolic and has no value yet: use K.eval or K.function")

    def __copy__(self) -> Tensor:
        return self

    def __deepcopy__(self, memo: Any) -> Tensor:
        return self


# --- what primitives declare ---------------------------------------------------------------------

Axis = tuple[Tensor, int]
AxisRule = Callable[[Tensor, int], Sequence[Axis]]
"""A function of a node and an axis of its result. It returns the axes of operands from which that
size is taken."""


class Stacked(NamedTuple):
    """The replacement for a tensor of a loop's steps when work moves out of the loop."""

    tensor: Tensor
    stacked: bool
    """Whether `tensor` holds the values of all steps along a new first axis. Otherwise the tensor
    is the same in each step."""
    rows_first: bool = False
    """Whether all steps of the first row come first where rows are joined (`linear.as_rows`)."""


StackRule = Callable[[Tensor, Sequence[Stacked]], "Tensor | None"]
"""A function of a node in a loop's step and its operands outside of the loop, of which at least one
is stacked. It returns the stacked results of all steps, or None if the operands do not fit."""


# --- primitives -----------------------------------------------------------------------------------

SpecRule = Callable[..., Any]
Rule = Callable[..., Any]


R = TypeVar("R", Tensor, list[Tensor])


class Traits:
    """The declared facts about a primitive."""

    memory: Memory
    """The owner of its result's memory. An engine's table adds what only its own kernel does: that
    it always makes a view, or can write to memory that it is given."""
    multiple: bool = False
    """Whether it has several results: the spec rule returns a list, a call returns a list."""
    effect: bool = False
    """Whether running it does something besides computing. Such nodes are never merged or moved."""
    host: int | None = None
    """The operands from this position on are sizes: integer scalars, which are host values if the
    engine has `host_shapes`."""
    varies: bool = False
    """Whether each engine has a result of its own, so that no other one may compute it."""
    in_place: bool = False
    """Whether it may write its results over its operands. Such nodes run after all others."""
    step: tuple[int, int] | None = None
    """If it is the step of an optimizer, how many numbers it takes, and how many variables it
    replaces for each gradient. `compile.fuse` finds it by its decomposition."""
    fused: Fused | None = None
    """If programs write it as several operations, in which forms. `compile.fuse` finds these by its
    decomposition."""
    elementwise: bool = False
    """Whether each element of the result is computed from the elements at the same place in the
    operands, which are broadcast."""
    reduction: bool = False
    """Whether it reduces the axes in its parameter `axes`. Its parameter `keepdims` tells whether
    they stay, with size 1."""
    on_host: bool = False
    """Whether the host may compute it if all its operands are sizes or constants."""
    precision: Precision = Precision.FULL
    """Its part in mixed precision."""
    linear: Sequence[int] = ()
    """The operands in each of which it is linear while all others stay as they are."""
    scales: bool = False
    """Whether it multiplies elements of operands, as what is `elementwise` does: gradients under a
    switch decompose it."""
    axes: AxisRule | None = None
    """Tells from which axes of its operands the size of an axis of its result is taken."""
    stacks: StackRule | None = None
    """The rule that computes the results of all steps of a loop at once."""
    shortcut: Callable[..., Tensor | None] | None = None
    """A function of the operands and parameters of a call. It returns a result that needs no node
    of this primitive, or None."""


class Primitive(Traits, Generic[R]):
    """An operation of the graph. Calling it on tensors builds a node and gives its results."""

    def __init__(self, name: str, rule: SpecRule, *, memory: Memory, **traits: Any) -> None:
        if unknown := traits.keys() - Traits.__annotations__:
            raise TypeError(f"primitive {name!r}: there are no traits {', '.join(sorted(unknown))}")
        self.name = name
        self.infer_rule = rule
        self.doc = rule.__doc__ or ""
        self.memory = memory
        vars(self).update(traits)
        self.linear = tuple(self.linear)
        self.scales = self.elementwise or self.scales
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
            short = self.shortcut(*inputs, **params)
            if short is not None:
                return short  # type: ignore[return-value]
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
        """Set one rule `(g, y, *operands, **params) -> cotangent` per operand, called on demand."""
        self.argument_rules = rules

    def cotangents(
        self, g: object, y: object, node: Tensor, wanted: Sequence[bool]
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
        results = self.gradient(g, y, *node.inputs, **node.params)
        listed = results if isinstance(results, list | tuple) else [results]
        return [t if yes else None for t, yes in zip(listed, wanted, strict=False)]

    def decompose(self, rule: Rule) -> Rule:
        """Decorator for the decomposition, by tensors, for engines without a lowering."""
        self.decomposition = rule
        return rule

    @property
    def differentiable(self) -> bool:
        """Whether a gradient rule is declared."""
        return self.gradient is not None or self.argument_rules is not None


def _axis_of_result(node: Tensor, axis: int) -> Sequence[Axis]:
    """The primitive with several results says it of each of them."""
    op = node.inputs[0].op
    return op.axes(node, axis) if op is not None and op.axes is not None else ()


OUTPUT: Primitive[Tensor] = Primitive(
    "output", lambda specs, *, index: specs[index], memory=Memory.ANY,
    precision=Precision.FOLLOWS, axes=_axis_of_result,
)  # fmt: skip
"""Picks one result of a node that has several. Gradients and code generation treat it specially."""


def outputs_of(node: Tensor, picked: Mapping[int, Tensor] | None = None) -> list[Tensor]:
    """The results of a node that has several. Those in `picked` are taken from there."""
    specs: tuple[Spec, ...] = node.spec  # type: ignore[assignment]
    scopes = None if isinstance(node._name, str) else node._name
    known = picked or {}
    return [
        known[i] if i in known else Tensor(OUTPUT, (node,), {"index": i}, spec, node.where, scopes)
        for i, spec in enumerate(specs)
    ]
