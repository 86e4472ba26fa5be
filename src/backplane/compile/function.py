"""`K.function`: from placeholders to NumPy results, with updates applied all or not at all."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence, Set
from contextlib import AbstractContextManager
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from backplane.compile import passes
from backplane.compile.calls import Call, Variant, straight
from backplane.compile.plan import Plan
from backplane.compile.program import Request, compiled
from backplane.compile.progress import shown
from backplane.compile.sparse import Thin, in_rows, makers, thin_in
from backplane.core.context import watcher
from backplane.core.graph import Placeholder, Tensor
from backplane.core.sizes import assuming
from backplane.core.spec import Spec
from backplane.ops.shaping import item


class First(NamedTuple):
    """The facts about a function's first feeds on which its programs depend."""

    thin: Set[Tensor] = frozenset()
    """The sparse matrices that programs take in compressed rows."""
    alike: Sequence[Placeholder] = ()
    """The placeholders whose batches had one size. Programs expect that again."""
    rows: int | None = None
    """The size of the first batch. Programs are fast for such batches, and right for all."""


class Function:
    """A plan and the calls that were compiled for it, each when it was first needed. `K.function`,
    `K.eval` and sessions make it.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._switches = [i for i, p in enumerate(plan.inputs) if p.is_phase()]
        """The inputs that are learning phases."""
        self.first = First()
        self._calls: dict[tuple[Any, ...], Call] = {}
        """By the values of the learning phases."""
        self._apart: dict[tuple[Any, ...], Call] = {}
        """The calls for batches of other sizes than those that `_calls` expect."""
        self.call: Call | None = None
        """The straight-line call, once there is one that serves whatever is fed."""

    def __call__(self, values: Sequence[Any] = (), *more: object) -> list[np.ndarray]:
        """Run on a list of values, one per input, and return the outputs as NumPy arrays."""
        if more:
            raise self.refusal(1 + len(more))
        if (watching := watcher()) is not None:
            return watching.call(self.plan, self.checked_count(values))
        if self.call is not None:
            return self.call(values)
        return self._checked(values)

    def checked_count(self, values: object) -> Sequence[Any]:
        """`values`, after a check that there is one for each input. A learning phase at the end
        may be left out, and lists of arrays among the values are joined.
        """
        inputs = self.plan.inputs
        if not isinstance(values, list | tuple):
            raise TypeError(
                f"K.function {self.plan.name!r}: inputs must be a list or tuple of values, "
                f"{self.form()}, got {type(values).__name__}"
            )
        given = len(values)
        if given < len(inputs) and all(p.default is not None for p in inputs[given:]):
            # Agents leave it out where no layer asks for it.
            values = [*values, *(p.default for p in inputs[given:])]
        if len(values) != len(inputs):
            joined = _joined(values)
            values = joined if len(joined) == len(inputs) else values
        if len(values) != len(inputs):
            raise ValueError(f"{self._takes()}, got {len(values)}")
        return values

    def form(self) -> str:
        """The form of a call of the function, for errors: `f([a, b])`."""
        count = len(self.plan.inputs)
        letters = "abcdefgh"[:count]
        return f"f([{', '.join(letters)}{', …' * (count > len(letters))}])"

    def _takes(self) -> str:
        count = len(self.plan.inputs)
        names = f" ({', '.join(p.name for p in self.plan.inputs)})" if count else ""
        return f"K.function {self.plan.name!r} takes {count} value{'s' * (count != 1)}{names}"

    def refusal(
        self, count: int, keywords: Iterable[str] = (), form: str | None = None
    ) -> TypeError:
        """The error for a call with anything but one list. `form` says how to call it instead."""
        form = self.form() if form is None else form
        named = f" and the keywords {', '.join(keywords)}" if keywords else ""
        where = " in one list" if form.startswith("f([") else ""
        return TypeError(
            f"{self._takes()}{where}, {form}; got {count} argument{'s' * (count != 1)}{named}"
        )

    def _checked(self, values: object = (), *more: object) -> list[np.ndarray]:
        """Check the number of values, and run the variant that the switches among them choose."""
        if more:
            raise self.refusal(1 + len(more))
        values = self.checked_count(values)
        plan = self.plan
        key = tuple([plan.feeds[i](values[i], plan.engine, False) for i in self._switches])
        call = self._calls.get(key)
        if call is not None:
            return call(list(values))
        with self._compiling():
            if not self._calls:
                self.first = self._first(values)
            alike = bool(self.first.alike) and self._are_alike(values)
            call = self._calls[key] = self._straight(key, alike)
            self.call = self.call or (self._by_switches() if self._switches else call)
            # Python's own error for keywords begins with this name.
            self.call.__qualname__ = f"K.function {plan.name!r}"
            return call(list(values))  # Some engines compile in the first run.

    def _are_alike(self, values: Sequence[Any]) -> bool:
        """Whether there are several batches, all of one size. Where programs know that, nothing is
        prepared for a batch that is broadcast to another: most of the steps of a masked LSTM's
        gradient would be.
        """
        batches = self.plan.batches
        if len(batches) < 2 or self.plan.engine.mesh is not None:
            return False
        sizes = {_first_size(values[i]) for i in batches}
        return len(sizes) == 1 and None not in sizes

    def _first(self, values: Sequence[Any]) -> First:
        plan, alike = self.plan, self._are_alike(values)
        batches = [plan.inputs[i] for i in plan.batches] if alike else []
        rows = _first_size(values[plan.batches[0]]) if plan.batches else None
        return First(thin_in(plan, values), batches, rows)

    def _straight(self, key: tuple[Any, ...], alike: bool) -> Call:
        first = self.first if alike else self.first._replace(alike=())
        variant = variant_of(self.plan, key, first)
        apart = _weakly(self, lambda owner, values: owner.apart(key)(values)) if alike else None
        return straight(self.plan, variant, _weakly(self, Function._checked), apart)

    def apart(self, key: tuple[Any, ...]) -> Call:
        """The call for batches of different sizes."""
        call = self._apart.get(key)
        if call is None:
            with self._compiling():
                call = self._apart[key] = self._straight(key, alike=False)
        return call

    def _by_switches(self) -> Call:
        """The call that looks up the variant by the switches, or leaves it to `_checked`."""
        find, checked = self._calls.get, _weakly(self, Function._checked)
        take, one = itemgetter(*self._switches), len(self._switches) == 1

        def call(inputs: Any = (), *more: object) -> list[np.ndarray]:
            try:
                key = take(inputs)
                chosen = find((key,) if one else key)
            except (LookupError, TypeError):
                chosen = None
            return checked(inputs, *more) if chosen is None or more else chosen(inputs)

        return call

    def without_graph(self) -> Call:
        """The call of a function that has no inputs. It refers to variables, but to no computed
        tensor. So it can be kept with the outputs, and is freed with them.
        """
        with self._compiling():
            first = First(thin_in(self.plan, ()))
            return straight(self.plan, variant_of(self.plan, (), first), _takes_nothing)

    def _compiling(self) -> AbstractContextManager[None]:
        return shown(f"Compiling {self.plan.name!r} for {self.plan.engine.name}")


def variant_of(plan: Plan, switches: tuple[Any, ...], first: First) -> Variant:
    """The program for values of the learning phases, and for feeds like the first one."""
    request, parts = request_of(plan, switches, first)
    with assuming(first.alike):
        program = compiled(request)
    if passes.applies("freeze", passes.Job(plan.engine)):
        program = program._replace(run=plan.engine.repeated(program.run))
    graph = plan.graph if plan.fed else []
    return Variant(program, plan.engine, plan.fed, graph, makers(plan, parts))


def request_of(
    plan: Plan, switches: tuple[Any, ...], first: First
) -> tuple[Request, dict[Tensor, Thin]]:
    """The request for a program for values of the learning phases, and the parts of matrices in
    compressed rows, which it takes in their place.
    """
    # Keys travel as one array, so a call converts once, however many random ops there are.
    packed = Placeholder(Spec((len(plan.keys), 4), "uint32"))
    rows: dict[Tensor, Tensor] = {k: item(packed, i) for i, k in enumerate(plan.keys)}
    replace = {**plan.replaced(switches), **rows}
    fed = [*plan.fed, *([packed] if plan.keys else []), *plan.variables]
    graph, fed, parts = in_rows(plan, first.thin, fed)
    position = {t: i for i, t in enumerate(fed)}
    state = {position[v]: i for i, v in enumerate(plan.updated) if v in position}
    request = Request(
        plan.engine, fed, graph, len(plan.news), state, replace, options=plan.options,
        rows=first.rows,
    )  # fmt: skip
    return request, parts


def _joined(values: Sequence[Any]) -> list[Any]:
    """The values, with lists of arrays among them flattened, as `tf.keras` code feeds them."""
    flat: list[Any] = []
    for value in values:
        listed = isinstance(value, list | tuple) and all(hasattr(x, "shape") for x in value)
        flat += value if listed else [value]
    return flat


def _first_size(value: object) -> int | None:
    """The size of the first axis, if what is fed has one."""
    shape = getattr(value, "shape", None)
    return shape[0] if isinstance(shape, tuple) and shape else None


def _weakly(function: Function, run: Call) -> Call:
    """`run` of the function, to which it refers weakly: a cycle would keep the variables."""
    reference = weakref.ref(function)

    def call(values: object = (), *more: object) -> list[np.ndarray]:
        owner = reference()
        if owner is None:  # somebody has kept the compiled call alone
            raise ReferenceError("the function of this call does not exist any more")
        return run(owner, values, *more)

    return call


def _takes_nothing(values: Sequence[Any]) -> list[np.ndarray]:
    raise ValueError(f"the function has no inputs, got {len(values)} values")
