"""Functions of an engine's library as parts of a graph.

Such a function is called on the engine's own values: while its results' shapes are found, and when
the program around it runs or is traced. Tensors of ours that it uses from around it are *captured*:
they become operands of the node, and while the function runs, `Bound` has their values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from backplane.core.context import changed
from backplane.core.graph import Constant, Graph, Tensor, constant, toposort
from backplane.core.spec import Spec

SIZES = (240, 480)
"""Two numbers that take the place of unknown sizes while the shapes of results are found. Many
numbers divide them, as a size may have to be divisible."""


class UnknownRankError(ValueError):
    """The number of axes of a result is not known while some sizes are not."""


class Bound:
    """The values that tensors have while a function of an engine runs.

    With a `mark` it records: tensors that were made before the mark get stand-ins, and are
    captured.
    """

    def __init__(
        self, native: Native, values: Mapping[Tensor, Any], mark: int = -1, size: int | None = None
    ) -> None:
        self.native, self.engine = native, native.engine
        self.values = dict(values)
        self.mark = mark
        self.size = size
        """Stand-ins for unknown sizes, while it records."""

    def __getitem__(self, t: Tensor) -> Any:
        """The value of a tensor: its operand's, or what follows from those of others."""
        if t in self.values:
            return self.values[t]
        if isinstance(t, Constant):
            return self.engine.as_value(t.value)
        if t.serial < self.mark:
            value = self.values[t] = self.engine.stand_in(_filled(t.spec, self.size))
            return value
        leaves = [
            x for x in toposort([t], stop=self.values) if x in self.values or self._is_leaf(x)
        ]
        run = self.engine.callable(Graph(leaves, [t]))
        return run(*[self[x] for x in leaves])[0]

    def _is_leaf(self, t: Tensor) -> bool:
        if t.op is None and not isinstance(t, Constant) and t.serial >= self.mark:
            raise ValueError(
                f"{self.native.name} uses {t!r}, which is made inside the function or has no value "
                "there: create it first, and pass it to K.native"
            )
        return t.serial < self.mark and not isinstance(t, Constant)


class Native:
    """A function of an engine: the parameter of a node.

    Two are equal if they are certain to compute the same.

    Args:
        engine: The engine on whose values it is called.
        function: From values to a list of results. It must be hashable.
        name: For messages.
        captured: Tensors that it uses from around it. Its last operands are their values.
        gradient: The gradient rule that was given, a function of tensors.
        like: For each result the operand that has its spec, if it is known.
        given: The specs of the results, if somebody has stated them.
    """

    __slots__ = (
        "__weakref__", "captured", "engine", "found", "function", "given", "gradient", "key",
        "like", "name", "stateful",
    )  # fmt: skip

    def __init__(
        self,
        engine: Any,
        function: Callable[..., Sequence[Any]],
        name: str,
        *,
        captured: Sequence[Tensor] = (),
        gradient: Callable[..., Any] | None = None,
        like: Sequence[int] | None = None,
        given: Sequence[Spec] | None = None,
    ) -> None:
        self.engine, self.function, self.name = engine, function, name
        self.captured, self.gradient = tuple(captured), gradient
        self.like = None if like is None else tuple(like)
        self.given = None if given is None else tuple(given)
        self.stateful = False
        """Whether the library says that it draws random numbers or has an effect."""
        self.key = engine, function, self.captured, gradient, self.like, self.given
        self.found: dict[tuple[Spec, ...], list[Spec]] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Native) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"<{self.name} of {self.engine.name}>"

    @property
    def reads_context(self) -> bool:
        """Whether it, or what it is the gradient of, uses tensors from around it."""
        inner = getattr(self.function, "native", None)
        return bool(self.captured or (inner is not None and inner.reads_context))

    def capturing(self, captured: Sequence[Tensor]) -> Native:
        """The same function with the values of these tensors as its last operands."""
        return Native(
            self.engine, self.function, self.name, captured=captured, gradient=self.gradient,
            given=self.given,
        )  # fmt: skip

    def __call__(self, *values: Any, size: int | None = None) -> list[Any]:
        """The results on values of the engine, or on stand-ins with `size` for unknown sizes."""
        if not self.captured and size is None:
            return [self.engine.as_value(y) for y in self.function(*values)]
        own = len(values) - len(self.captured)
        bound = Bound(self, dict(zip(self.captured, values[own:], strict=True)), size=size)
        return self._called(bound, values[:own])

    def _called(self, bound: Bound, values: Sequence[Any]) -> list[Any]:
        with changed(bound=bound, engine=self.engine, mode=None):
            results = self.function(*values)
            results = [bound[y] if isinstance(y, Tensor) else y for y in results]
        return [self.engine.as_value(y) for y in results]

    def captures(self, specs: Sequence[Spec]) -> list[Tensor]:
        """The tensors that it uses from around it, found by calling it on stand-ins."""
        recorded: dict[Tensor, None] = {}

        def run(size: int | None, *values: object) -> list[Any]:
            bound = Bound(self, {}, constant(0).serial, size)
            results = self._called(bound, values)
            recorded.update(dict.fromkeys(bound.values))
            return results

        inferred = self._inferred(run, specs)
        if not recorded:
            self.found[tuple(specs)] = inferred
        return list(recorded)

    def results(self, operands: Sequence[Spec]) -> list[Spec]:
        """The specs of its results."""
        if self.like is not None:
            return [operands[i] for i in self.like]
        key = tuple(operands)
        if key not in self.found:
            self.found[key] = self._inferred(
                lambda size, *values: self(*values, size=size), operands
            )
        return self.found[key]

    def _inferred(self, run: Callable[..., list[Any]], specs: Sequence[Spec]) -> list[Spec]:
        if self.given is not None:
            return list(self.given)
        try:
            return self._evaluated(run, specs, self.engine.stand_in_sizes or (None,))
        except UnknownRankError:  # Such as of `tf.squeeze` without axes.
            return self._evaluated(run, specs, SIZES)

    def _evaluated(
        self, run: Callable[..., list[Any]], specs: Sequence[Spec], sizes: Sequence[int | None]
    ) -> list[Spec]:
        """The specs of the results for each of the sizes in the place of unknown ones, joined."""
        results = [
            self._abstract(partial(run, n), [_filled(spec, n) for spec in specs]) for n in sizes
        ]
        return [_joined(a, b) for a, b in zip(results[0], results[-1], strict=True)]

    def _abstract(self, run: Callable[..., list[Any]], specs: Sequence[Spec]) -> list[Spec]:
        try:
            inferred, stateful = self.engine.abstract(run, specs)
        except UnknownRankError:
            raise
        except Exception as error:
            listed = ", ".join(f"{s.dtype}{list(s.shape)}" for s in specs)
            raise ValueError(
                f"K.native: {self.name} fails on stand-ins for {listed}, by which the shapes of "
                f"its results are found: {type(error).__name__}: {error}"
            ) from error
        self.stateful = self.stateful or stateful
        return inferred


def _filled(spec: Spec, size: int | None) -> Spec:
    return spec.with_shape(tuple([size if n is None else n for n in spec.shape]))


def _joined(a: Spec, b: Spec) -> Spec:
    """The facts that hold for a result that was traced with two numbers for unknown sizes."""
    if a.ndim != b.ndim or a.dtype != b.dtype:
        raise ValueError(f"the number of axes or the dtype depends on unknown sizes: {a} and {b}")
    return a.with_shape(
        tuple([n if n == m else None for n, m in zip(a.shape, b.shape, strict=True)])
    )
