"""Keras' backend functions of branches and loops.

On values they are branches and loops of Python. On symbolic tensors they build the primitives of
`ops.control`, whose bodies are traced once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from keras.src import tree
from keras.src.backend.common import KerasVariable
from keras.src.backend.common.stateless_scope import get_stateless_scope

from backplane.core.graph import Tensor as Node
from backplane.core.graph import constant
from backplane.keras3 import trace
from backplane.keras3.call import is_tracing, op, unwrapped, users, wrapped
from backplane.keras3.operands import alike, tensor_of
from backplane.keras3.ops.conversion import convert_to_tensor
from backplane.keras3.ops.parts import joined, part_of
from backplane.keras3.tensor import Tensor
from backplane.ops import control
from backplane.ops import elementwise as ew
from backplane.ops.autodiff import gradients
from backplane.ops.branches import chosen
from backplane.ops.effects import with_gradient
from backplane.ops.lift import cast_to
from backplane.ops.remat import rematerialized
from backplane.ops.shaping import squeeze, stack, zeros_like

Function = Callable[..., Any]


def value_of(x: Any) -> Any:
    """The value of a variable of Keras; anything else as it is."""
    return x.value if isinstance(x, KerasVariable) else x


def builds_graph(*trees: Any) -> bool:
    """Whether a loop over these values must be built, because they are not known yet."""
    return is_tracing() or any(isinstance(value_of(x), Tensor) for x in tree.flatten(trees))


def nodes(values: Any) -> list[Node]:
    """The leaves of a tree as tensors of a graph."""
    return [tensor_of(unwrapped(x)) for x in tree.flatten(values)]


def _scalar_bool(x: Any) -> Node:
    t = cast_to(tensor_of(x), "bool")
    return squeeze(t, axes=tuple(range(t.ndim))) if t.ndim else t


# --- branches -------------------------------------------------------------------------------------


def cond(pred: Any, true_fn: Function, false_fn: Function) -> Any:
    """The result of one of two functions, which `pred` chooses. Both may assign variables."""
    pred = value_of(pred)
    if not isinstance(pred, Tensor):
        return true_fn() if pred else false_fn()
    branches = _Branches(true_fn, false_fn)
    found = chosen(_scalar_bool(pred.core), branches.both)
    return branches.result(found)


class _Branches:
    """Two branches, traced: what they give, and the variables that they assign."""

    def __init__(self, *functions: Function) -> None:
        self.functions = functions
        self.scope = get_stateless_scope()
        self.before: dict[int, Any] = {} if self.scope is None else dict(self.scope.state_mapping)
        self.structure: Any = None
        self.places: list[int] = []
        """The variables that at least one branch assigns."""

    def both(self) -> tuple[list[Node], list[Node]]:
        """The results and new values of each branch, in pairs that fit."""
        (first, then), (second, orelse) = [self._run(f) for f in self.functions]
        tree.assert_same_structure(first, second)
        self.structure = first
        pairs = list(zip(tree.flatten(first), tree.flatten(second), strict=True))
        self.places = [i for i in {**then, **orelse} if then.get(i) is not orelse.get(i)]
        pairs += [(self._new(then, orelse, i), self._new(orelse, then, i)) for i in self.places]
        joined = [alike(*unwrapped(pair)) for pair in pairs if pair[0] is not None]
        return [a for a, _ in joined], [b for _, b in joined]

    def _run(self, function: Function) -> tuple[Any, dict[int, Any]]:
        if self.scope is not None:
            self.scope.state_mapping = dict(self.before)
        found = tree.map_structure(value_of, function())
        return found, {} if self.scope is None else self.scope.state_mapping

    def _new(self, own: dict[int, Any], other: dict[int, Any], place: int) -> Any:
        """The value of a variable after one branch; its own, if only the other assigns it."""
        if place in own:
            return own[place]
        traced = trace.current()
        return other[place] if traced is None else Tensor(traced.variables[place].cell)

    def result(self, found: list[Node]) -> Any:
        """The results of the branches, and their assignments, put into Keras' scope."""
        following = iter(wrapped(found))
        leaves = [None if x is None else next(following) for x in tree.flatten(self.structure)]
        if self.scope is not None:
            new = dict(zip(self.places, following, strict=True))
            self.scope.state_mapping = {**self.scope.state_mapping, **self.before, **new}
        return tree.pack_sequence_as(self.structure, leaves)


def switch(index: Any, branches: Any, *operands: Any) -> Any:
    """The result that the branch with a number gives for the operands. Numbers out of range are
    clipped.
    """
    index = value_of(index)
    if not isinstance(index, Tensor):
        return branches[min(max(int(index), 0), len(branches) - 1)](*operands)
    if len(branches) == 1:
        return branches[0](*operands)
    first, *rest = branches
    return cond(
        _at_most(index, 0),
        lambda: first(*operands),
        lambda: switch(_less_one(index), rest, *operands),
    )


@op
def _at_most(x: Any, limit: int) -> Any:
    return ew.less_equal(x, constant(limit, x.spec.dtype))


@op
def _less_one(x: Any) -> Any:
    x = cast_to(x, "int32")
    return ew.sub(x, constant(1, "int32"))


# --- loops ----------------------------------------------------------------------------------------


def while_loop(
    cond: Function, body: Function, loop_vars: Any, maximum_iterations: int | None = None
) -> Any:
    """Run `body` on the loop variables as long as `cond` of them holds. In models and steps it has
    a gradient if `maximum_iterations` is given.
    """
    several = isinstance(loop_vars, list | tuple)
    start = tuple(loop_vars) if several else (loop_vars,)

    def step(*state: Any) -> tuple[Any, ...]:
        found = body(*state)
        return tuple(found) if isinstance(found, list | tuple) and several else (found,)

    if builds_graph(start):
        state = _built_while(cond, step, start, maximum_iterations)
    else:
        state = tree.map_structure(convert_to_tensor, start)
        count = 0
        while (maximum_iterations is None or count < maximum_iterations) and bool(cond(*state)):
            state, count = step(*state), count + 1
    return state if several else state[0]


def _built_while(test: Function, step: Function, start: Any, limit: int | None) -> Any:
    init = nodes(start)

    def packed(state: Any) -> Any:
        return tree.pack_sequence_as(start, list(state))

    def tested(count: Node, *state: Node) -> Node:
        holds = _scalar_bool(users(lambda *s: test(*packed(s)))(*state))
        if limit is None:
            return holds
        return ew.logical_and(holds, ew.less(count, constant(limit, "int32")))

    def stepped(count: Node, *state: Node) -> list[Node]:
        found = users(lambda *s: tree.flatten(step(*packed(s))))(*state)
        new = [tensor_of(x, t.spec.dtype) for x, t in zip(found, init, strict=True)]
        return [ew.add(count, constant(1, "int32")), *new]

    start_of_all = [constant(0, "int32"), *init]
    _, *finals = _differentiable(
        control.while_loop(tested, stepped, start_of_all), start_of_all, tested, stepped, limit
    )
    return packed(wrapped(finals))


def _differentiable(
    finals: list[Node], start: list[Node], tested: Function, stepped: Function, limit: int | None
) -> list[Node]:
    """The results of a loop, with a gradient: that of a scan over `limit` steps, of which those
    after the end of the loop change nothing. If there is no limit, to ask for a gradient is an
    error.
    """
    operands = finals[0].inputs[0].inputs

    def rule(cotangents: Sequence[Node | None]) -> list[Node | None]:
        if limit is None:
            raise TypeError(
                "keras.ops.while_loop has no gradient: how many steps it takes is unknown while "
                "the graph is built. Give maximum_iterations; or use keras.ops.scan, or "
                "keras.ops.fori_loop with numbers as its bounds"
            )

        def step(state: list[Node], _: list[Node]) -> tuple[list[Node], list[Node]]:
            goes_on, new = tested(*state), stepped(*state)
            pairs = zip(new, state, strict=True)
            return [ew.where(goes_on, n, old) for n, old in pairs], []

        again, _ = control.scan(step, start, [], length=limit)
        asked = [(y, g) for y, g in zip(again, cotangents, strict=True) if g is not None]
        return gradients([y for y, _ in asked], operands, [g for _, g in asked])

    return with_gradient(*finals, *operands, rule=rule, results=len(finals))


def fori_loop(lower: Any, upper: Any, body_fun: Function, init_val: Any) -> Any:
    """Run `body_fun(i, value)` for each i from `lower` to `upper` − 1."""
    lower, upper = value_of(lower), value_of(upper)
    if not builds_graph(lower, upper, init_val):
        value = init_val
        for i in range(int(lower), int(upper)):
            value = body_fun(i, value)
        return value
    if isinstance(lower, Tensor) or isinstance(upper, Tensor):
        _, value = while_loop(
            lambda i, _: _less(i, upper), lambda i, v: (_plus_one(i), body_fun(i, v)),
            (lower, init_val),
        )  # fmt: skip
        return value
    numbers = convert_to_tensor(np.arange(int(lower), int(upper), dtype="int32"))
    return scan(lambda value, i: (body_fun(i, value), None), init_val, numbers)[0]


@op
def _less(x: Any, y: Any) -> Any:
    return ew.less(*alike(x, y))


@op
def _plus_one(x: Any) -> Any:
    return ew.add(*alike(x, 1))


def scan(
    f: Function,
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: Any = 1,
) -> Any:
    """Run `f(carry, x) -> (carry, y)` over the first axis of `xs`; the last carry and the stacked
    ys.
    """
    if not callable(f):
        raise TypeError(f"`f` should be a callable. Received: f={f}")
    if not isinstance(unroll, bool) and (not isinstance(unroll, int) or unroll < 1):
        raise ValueError(
            f"`unroll` must be an positive integer or boolean. Received: unroll={unroll}"
        )
    if xs is None and length is None:
        raise ValueError("Got no `xs` to scan over and `length` not provided.")
    if builds_graph(init, xs):
        return _built_scan(f, init, xs, length, reverse)
    init = tree.map_structure(convert_to_tensor, init)
    rows = None if xs is None else tree.map_structure(convert_to_tensor, xs)
    count = int(tree.flatten(rows)[0].shape[0] if length is None else length)
    carry, ys = init, []
    for i in reversed(range(count)) if reverse else range(count):
        row = None if rows is None else tree.map_structure(lambda x, i=i: x[i], rows)
        carry, y = f(carry, row)
        ys.append(y)
    if not ys or ys[0] is None:
        return carry, None
    if reverse:
        ys.reverse()
    return carry, tree.map_structure(lambda *parts: stacked(list(parts)), *ys)


def _built_scan(f: Function, init: Any, xs: Any, length: int | None, reverse: bool) -> Any:
    starts = nodes(init)
    rows = [] if xs is None else nodes(xs)
    result: list[Any] = [None]

    def packed(like: Any, leaves: Any) -> Any:
        return tree.pack_sequence_as(like, list(leaves))

    def step(carry: list[Node], items: list[Node]) -> tuple[list[Node], list[Node]]:
        def run(carry: Any, items: Any) -> Any:
            new, y = f(packed(init, carry), None if xs is None else packed(xs, items))
            result[0] = y
            return tree.flatten(new), [] if y is None else tree.flatten(y)

        new, ys = users(run)(carry, items)
        kept = [tensor_of(n, t.spec.dtype) for n, t in zip(new, starts, strict=True)]
        return kept, [tensor_of(y) for y in ys]

    steps = None if xs is not None and length is None else length
    finals, ys = control.scan(step, starts, rows, reverse=reverse, length=steps)
    stacks = None if result[0] is None else packed(result[0], wrapped(ys))
    return packed(init, wrapped(finals)), stacks


@op
def stacked(xs: Any) -> Any:
    """Tensors of one shape along a new first axis."""
    return stack(alike(*xs), 0)


def map(f: Function, xs: Any) -> Any:
    """The results of `f` for each element along the first axis, stacked."""
    return scan(lambda _, x: ((), f(x)), (), xs)[1]


def vectorized_map(function: Function, elements: Any) -> Any:
    """The results of a function for each element along the first axis, stacked."""
    return map(function, elements)


def associative_scan(f: Function, elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """The results of combining the first 1, 2, … elements along an axis by an associative `f`.

    In each round, elements are combined with those 1, 2, 4, … places before them (Hillis and
    Steele, 1986).
    """
    if not callable(f):
        raise TypeError(f"`f` should be a callable. Received: f={f}")
    flat = [convert_to_tensor(x) for x in tree.flatten(elems)]
    count = flat[0].shape[axis]
    if any(x.shape[axis] != count for x in flat):
        raise ValueError(
            "Array inputs to associative_scan must have the same first dimension. "
            f"(saw: {[tuple(x.shape) for x in flat]})"
        )
    if count is None:
        raise ValueError(f"associative_scan: the size of axis {axis} must be known")

    def part(xs: list[Any], start: int | None, stop: int | None) -> Any:
        return tree.pack_sequence_as(elems, [part_of(x, axis, start, stop) for x in xs])

    distance = 1
    while distance < count:
        if reverse:
            new = tree.flatten(f(part(flat, distance, None), part(flat, None, -distance)))
            flat = [
                joined(n, part_of(x, axis, -distance, None), axis)
                for n, x in zip(new, flat, strict=True)
            ]
        else:
            new = tree.flatten(f(part(flat, None, -distance), part(flat, distance, None)))
            flat = [
                joined(part_of(x, axis, None, distance), n, axis)
                for n, x in zip(new, flat, strict=True)
            ]
        distance *= 2
    return tree.pack_sequence_as(elems, flat)


# --- gradients ------------------------------------------------------------------------------------


def custom_gradient(fun: Function) -> Function:
    """A function with a gradient of its own: `fun(*args)` gives its results, and a function from
    their cotangents (`upstream`) to those of the arguments.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        args = tuple([value_of(x) for x in args])
        outputs, gradient = fun(*args, **kwargs)
        if not any(isinstance(x, Tensor) for x in tree.flatten((args, outputs))):
            return outputs
        results, operands = nodes(outputs), nodes(args)

        def rule(cotangents: Sequence[Node | None]) -> list[Node | None]:
            pairs = zip(cotangents, results, strict=True)
            given = [zeros_like(y) if g is None else g for g, y in pairs]
            found = users(gradient)(*given)
            found = list(found) if isinstance(found, list | tuple) else [found]
            return [None if g is None else tensor_of(g) for g in found]

        new = with_gradient(*results, *operands, rule=rule, results=len(results))
        return tree.pack_sequence_as(outputs, wrapped(new))

    return call


def remat(f: Function) -> Function:
    """The function, whose gradient computes inner tensors again in place of keeping them."""

    def call(*args: Any, **kwargs: Any) -> Any:
        mark = constant(0).serial
        outputs = f(*args, **kwargs)
        if not any(isinstance(x, Tensor) for x in tree.flatten(outputs)):
            return outputs
        return tree.pack_sequence_as(outputs, wrapped(rematerialized(nodes(outputs), mark)))

    return call
