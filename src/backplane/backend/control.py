"""Choices and loops: switch, branches by the learning phase, map and folds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from backplane.backend._adapters import adaptable
from backplane.backend._args import as_dtype
from backplane.backend._call import api
from backplane.backend._errors import call_given, described, returned
from backplane.backend.phase import known_phase, learning_phase
from backplane.backend.types import DType, TensorLike
from backplane.core.context import changed
from backplane.core.graph import Tensor
from backplane.core.shapes import broadcast
from backplane.core.sizes import origin
from backplane.engines import engine_of
from backplane.ops import control
from backplane.ops.branches import chosen
from backplane.ops.creation import Amount, shaped, size_at
from backplane.ops.elementwise import where
from backplane.ops.lift import as_tensor, cast_to, promoted
from backplane.ops.shaping import broadcast_to, expand_dims
from backplane.ops.switches import as_branch

__all__ = ["foldl", "foldr", "in_test_phase", "in_train_phase", "map_fn", "switch"]

Elements: TypeAlias = "TensorLike | Sequence[TensorLike]"
Branch: TypeAlias = "TensorLike | Callable[[], TensorLike | Sequence[TensorLike]]"
"""A tensor, or a function without arguments that returns one."""


def _called(branch: Branch, what: str) -> Any:
    if callable(branch) and not isinstance(branch, Tensor):
        return call_given(branch, (), what, "no arguments")
    return branch


@api
def switch(condition: TensorLike, then_expression: Branch, else_expression: Branch) -> Any:
    """Choose between two expressions.

    Args:
        condition: Bool or int tensor. A scalar chooses one expression as a whole. A tensor with
            axes chooses element by element; its axes are the first axes of the expressions.
        then_expression: The result where `condition` is not 0: a tensor, or a function that returns
            one (or a list of them, for a scalar condition). Of two functions, only the chosen one's
            graph runs, if the engine can do that.
        else_expression: The result where `condition` is 0, likewise.

    Returns:
        The chosen tensor (or tensors).

    Raises:
        ValueError: if `condition` has more axes than the expressions, or the shapes do not fit.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.switch(K.constant([1, 0], dtype="bool"), K.ones((2, 2)), K.zeros((2, 2))))
        array([[1., 1.],
               [0., 0.]], dtype=float32)
    """
    return _switch(condition, then_expression, else_expression)


def _switch(
    condition: TensorLike,
    then_expression: Branch,
    else_expression: Branch,
    names: tuple[str, str] = ("then_expression", "else_expression"),
) -> Any:
    """`names`: what the K function calls the two."""
    condition = cast_to(as_tensor(condition), "bool")
    if condition.ndim == 0:
        return _choose(condition, then_expression, else_expression, names)
    then, orelse = promoted(_called(then_expression, names[0]), _called(else_expression, names[1]))
    rank = max(then.ndim, orelse.ndim)
    for what, x in (("then_expression", then), ("else_expression", orelse)):
        # A scalar stands for a tensor of the other expression's shape.
        if condition.ndim > (x.ndim or rank):
            raise ValueError(
                f"condition has {condition.ndim} axes, more than the {x.ndim} of {what}: "
                "Rank of `condition` should be less than or equal to that of the expressions"
            )
    if condition.ndim < rank:
        condition = expand_dims(condition, axes=tuple(range(condition.ndim, rank)))
    return where(condition, as_branch(then), as_branch(orelse))


def _choose(condition: Tensor, then: Branch, orelse: Branch, names: tuple[str, str]) -> Any:
    """One of two expressions, by a scalar; tensors need no branch, as they are computed anyway."""
    if not callable(then) and not callable(orelse) and not isinstance(then, list | tuple):
        a, b = promoted(then, orelse)
        if a.spec.shape == b.spec.shape or (
            _is_stretched(a, b) and _common_shape(a, b, names) is not None
        ):
            return where(condition, as_branch(a), as_branch(b))
    single = [True]

    def listed(branch: Branch, what: str) -> list[Any]:
        value = _called(branch, what)
        if value is None:
            raise TypeError(f"{what} must be a tensor, or a function that returns one, got None")
        if isinstance(value, list | tuple):
            single[0] = False
            return [*value]
        return [value]

    def both() -> tuple[list[Tensor], list[Tensor]]:
        branches = listed(then, names[0]), listed(orelse, names[1])
        if len(branches[0]) != len(branches[1]):  # `cond` says so.
            return [as_tensor(x) for x in branches[0]], [as_tensor(x) for x in branches[1]]
        pairs = [_alike(a, b, names) for a, b in zip(*branches, strict=True)]
        return [a for a, _ in pairs], [b for _, b in pairs]

    results = chosen(condition, both)
    return results[0] if single[0] else results


def _alike(a: Any, b: Any, names: tuple[str, str]) -> tuple[Tensor, Tensor]:
    """The results of two branches, broadcast where shapes differ. Numbers take a tensor's dtype."""
    if isinstance(a, Tensor) != isinstance(b, Tensor):
        a, b = promoted(a, b)
    a, b = as_tensor(a), as_tensor(b)
    if not _is_stretched(a, b):
        return a, b
    sizes: list[Amount] = []
    shape = _common_shape(a, b, names)
    for axis, n in enumerate(shape):
        aligned = [(x, axis - len(shape) + x.ndim) for x in (a, b)]
        x, i = next(((x, i) for x, i in aligned if i >= 0 and x.spec.shape[i] == n), (a, 0))
        sizes.append(size_at(*origin(x, i)) if n is None else n)
    a, b = (x if x.spec.shape == shape else shaped(broadcast_to, sizes, x) for x in (a, b))
    return a, b


def _common_shape(a: Tensor, b: Tensor, names: tuple[str, str]) -> tuple[int | None, ...]:
    """The shape that two expressions are broadcast to; ValueError if there is none."""
    try:
        return broadcast(a.spec.shape, b.spec.shape)
    except ValueError:
        raise ValueError(
            f"{names[0]} has shape {a.spec.shape} and {names[1]} {b.spec.shape}, which cannot be "
            "broadcast to one shape"
        ) from None


def _is_stretched(a: Tensor, b: Tensor) -> bool:
    """Whether one of two shapes is certain to be broadcast, if it fits the other."""
    if a.ndim != b.ndim:
        return True
    sizes = zip(a.spec.shape, b.spec.shape, strict=True)
    return any((n == 1) != (m == 1) for n, m in sizes)


@adaptable
def in_train_phase(x: Branch, alt: Branch, training: TensorLike | None = None) -> Any:
    """`x` in the training phase, `alt` otherwise.

    Args:
        x: Tensor, or function that returns one.
        alt: Likewise, of the same shape or one that is broadcast with it.
        training: The phase: 0, 1, a bool, or a scalar tensor. Default: `K.learning_phase()`.

    Returns:
        A tensor. If `training` is a plain number, it is one of the two.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.in_train_phase(K.ones((1,)), K.zeros((1,))))
        array([0.], dtype=float32)
        >>> K.eval(K.in_train_phase(K.ones((1,)), K.zeros((1,)), training=1))
        array([1.], dtype=float32)
    """
    return _train_choice(x, alt, training)


_NUMBER = (bool, int, float, np.integer, np.bool_)


def _choice(function: str, names: tuple[str, str]) -> Callable[..., Any]:
    """The choice that `function` of K makes: of its arguments with these two names, the first one
    in the training phase, and the second one otherwise.
    """

    def choice(x: Branch, alt: Branch, training: TensorLike | None) -> Any:
        training = learning_phase() if training is None else training
        branches = (x, alt) if names[0] == "x" else (alt, x)
        if isinstance(training, _NUMBER):
            i = 0 if training else 1
            return _called(branches[i], names[i])
        return _switch(training, *branches, names)

    choice.__name__ = function
    traced = api(choice)

    def settled(x: Branch, alt: Branch, training: TensorLike | None) -> Any:
        # The call rule keeps its traces by arguments. So a phase that is a number stays one.
        if training is None:
            training = known_phase()
            if training is None and (engine_of(x) is not None or engine_of(alt) is not None):
                # A native tensor has its value now, so no phase will be fed.
                training = 0
        if isinstance(training, _NUMBER) and training not in (0, 1):
            raise ValueError(f"training must be 0, 1, a bool or a tensor, got {training!r}")
        return (choice if isinstance(training, _NUMBER) else traced)(x, alt, training)

    return settled


_train_choice = _choice("in_train_phase", ("x", "alt"))
_test_choice = _choice("in_test_phase", ("alt", "x"))


@adaptable
def in_test_phase(x: Branch, alt: Branch, training: TensorLike | None = None) -> Any:
    """`x` in the test phase, `alt` otherwise; see `K.in_train_phase`.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.in_test_phase(K.ones((1,)), K.zeros((1,))))
        array([1.], dtype=float32)
    """
    return _test_choice(x, alt, training)


@api
def map_fn(
    fn: Callable[..., Any],
    elems: TensorLike | Sequence[TensorLike],
    name: str | None = None,
    dtype: DType | Sequence[DType | None] | None = None,
) -> Any:
    """Apply a function to each element along the first axis.

    Args:
        fn: Function of a tensor (of a list of tensors, if `elems` is one).
        elems: Tensor of one axis or more, or a list of tensors with equally long first axes.
        name: Accepted for compatibility.
        dtype: dtype of the result.

    Returns:
        The stacked results; a list of stacks if `fn` returns a list.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.map_fn(lambda x: x * 2, K.constant([1.0, 2.0])))
        array([2., 4.], dtype=float32)
    """
    xs, packed = _sequences(fn, elems)
    listed = [False]

    def step(carry: list[Tensor], items: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        with changed(step=True):
            results = call_given(fn, (items if packed else items[0],), "fn", "an element")
        if results is None:
            raise TypeError("fn must return a tensor, got None")
        listed[0] = isinstance(results, list | tuple)
        ys = [returned(y, "fn") for y in (results if listed[0] else [results])]
        kinds = dtype if isinstance(dtype, list | tuple) else [dtype] * len(ys)
        return [], [
            y if k is None else cast_to(y, as_dtype(k)) for y, k in zip(ys, kinds, strict=True)
        ]

    step([], control.first_items(xs))
    _, ys = control.scan(step, [], xs)
    return ys if listed[0] else ys[0]


def _sequences(fn: object, elems: Elements) -> tuple[list[Tensor], bool]:
    """The elements as tensors, and whether they were given as a list of them."""
    if not callable(fn):
        raise TypeError(f"fn must be a function, got {described(fn)}")
    listed = elems if isinstance(elems, list | tuple) else []
    packed = any(isinstance(e, Tensor) for e in listed)
    xs = [as_tensor(e) for e in listed] if packed else [as_tensor(elems)]
    for x in xs:
        if x.ndim == 0:
            raise ValueError("elems needs at least one axis, got a scalar")
    return xs, packed


@api
def foldl(
    fn: Callable[..., Any],
    elems: TensorLike | Sequence[TensorLike],
    initializer: TensorLike | Sequence[TensorLike] | None = None,
    name: str | None = None,
) -> Tensor:
    """Combine the elements along the first axis from left to right.

    Args:
        fn: Function of the accumulator and an element, such as `lambda acc, x: acc + x`.
        elems: Tensor of one axis or more.
        initializer: First accumulator. By default it is `elems[0]`, and the fold starts with
            `elems[1]`.
        name: Accepted for compatibility.

    Returns:
        The last accumulator: a tensor of the shape and dtype of `initializer`.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.foldl(lambda acc, x: acc - x, K.constant([5.0, 2.0, 1.0]))).item()
        2.0
    """
    return _fold(fn, elems, initializer, reverse=False)


@api
def foldr(
    fn: Callable[..., Any],
    elems: TensorLike | Sequence[TensorLike],
    initializer: TensorLike | Sequence[TensorLike] | None = None,
    name: str | None = None,
) -> Tensor:
    """Combine the elements along the first axis from right to left; see `K.foldl`.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.foldr(lambda acc, x: acc - x, K.constant([5.0, 2.0, 1.0]))).item()
        -6.0
    """
    return _fold(fn, elems, initializer, reverse=True)


def _fold(
    fn: Callable[..., Any], elems: Elements, initializer: Elements | None, reverse: bool
) -> Tensor:
    xs, packed = _sequences(fn, elems)
    if initializer is None:
        if any(x.spec.shape[0] == 0 for x in xs):
            raise ValueError(f"elems: {control.NOTHING_TO_DO}")
        init = [x[-1] if reverse else x[0] for x in xs]
        xs = [x[:-1] if reverse else x[1:] for x in xs]
    else:
        given = initializer if packed and isinstance(initializer, list | tuple) else [initializer]
        init = [as_tensor(i) for i in given]
    several = len(init) > 1 or (packed and initializer is None)

    def step(carry: list[Tensor], items: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        with changed(step=True):
            args = (carry if several else carry[0], items if packed else items[0])
            results = call_given(fn, args, "fn", "(accumulator, element)")
        listed = results if isinstance(results, list | tuple) else [results]
        if results is None or len(listed) != len(carry):
            wanted = f"{len(carry)} tensors" if several else "a tensor"
            raise TypeError(
                f"fn must return {wanted} like the accumulator, got {described(results)}"
            )
        return [
            cast_to(returned(f, "fn"), c.spec.dtype) for f, c in zip(listed, carry, strict=True)
        ], []

    step(init, control.first_items(xs, reverse=reverse))
    finals, _ = control.scan(step, init, xs, reverse=reverse)
    return finals if several else finals[0]  # type: ignore[return-value]
