"""`K.function`: from placeholders to NumPy results, with updates applied all or not at all."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from backplane.compile import passes, sparse
from backplane.compile.aliases import shared
from backplane.compile.calls import straight
from backplane.compile.plan import Call, Plan, Variant, signature
from backplane.compile.program import compiled
from backplane.compile.progress import shown
from backplane.core.context import watcher
from backplane.core.graph import Tensor
from backplane.core.sizes import assuming


class Function(Plan):
    """A compiled function; see `K.function` for the arguments."""

    def __call__(self, values: Sequence[Any] = (), *more: object) -> list[np.ndarray]:
        """Run on a list of values, one per input, and return the outputs as NumPy arrays."""
        if more:
            raise self.refusal(1 + len(more))
        if (watching := watcher()) is not None:
            return watching.call(self, self.checked_count(values))
        if self.call is not None:
            return self.call(values)
        return self._checked(values)

    def checked_count(self, values: object) -> Sequence[Any]:
        """`values`, after a check that there is one for each input. A learning phase at the end
        may be left out, and lists of arrays among the values are joined.
        """
        if not isinstance(values, list | tuple):
            raise TypeError(
                f"K.function {self.name!r}: inputs must be a list or tuple of values, "
                f"{self.form()}, got {type(values).__name__}"
            )
        given = len(values)
        if given < len(self.feeds) and all(p.default is not None for p in self.inputs[given:]):
            # Agents leave it out where no layer asks for it.
            values = [*values, *(p.default for p in self.inputs[given:])]
        if len(values) != len(self.feeds):
            joined = _joined(values)
            values = joined if len(joined) == len(self.feeds) else values
        if len(values) != len(self.feeds):
            raise ValueError(f"{self._takes()}, got {len(values)}")
        return values

    def form(self) -> str:
        """The form of a call of the function, for errors: `f([a, b])`."""
        letters = "abcdefgh"[: len(self.feeds)]
        return f"f([{', '.join(letters)}{', …' * (len(self.feeds) > len(letters))}])"

    def _takes(self) -> str:
        count = len(self.feeds)
        names = f" ({', '.join(p.name for p in self.inputs)})" if count else ""
        return f"K.function {self.name!r} takes {count} value{'s' * (count != 1)}{names}"

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
        key = tuple([self.feeds[i](values[i], self.engine, False) for i in self.switches])
        call = self._calls.get(key)
        if call is not None:
            return call(list(values))
        with shown(f"Compiling {self.name!r} for {self.engine.name}"):
            if not self._calls:
                self.thin = sparse.thin_in(self, values)
            call = self._calls[key] = self._straight(key, alike=self._are_alike(values))
            self.call = self.call or (self._by_switches() if self.switches else call)
            # Python's own error for keywords begins with this name.
            self.call.__qualname__ = f"K.function {self.name!r}"
            return call(list(values))  # Some engines compile in the first run.

    def _are_alike(self, values: Sequence[Any]) -> bool:
        """Whether there are several batches, all of one size. Where programs know that, nothing is
        prepared for a batch that is broadcast to another: most of the steps of a masked LSTM's
        gradient would be.
        """
        if len(self.batches) < 2 or self.engine.mesh is not None:
            return False
        shapes = [getattr(values[i], "shape", None) for i in self.batches]
        sizes = {shape[0] if isinstance(shape, tuple) and shape else None for shape in shapes}
        return len(sizes) == 1 and None not in sizes

    def _straight(self, key: tuple[Any, ...], alike: bool) -> Call:
        batches = [self.inputs[i] for i in self.batches] if alike else []
        self.alike = self.alike or batches
        variant = self._variant(key, batches)
        return straight(self, variant, _slow(self), _other_sizes(self, key) if alike else None)

    def _variant(self, switches: tuple[Any, ...], alike: Sequence[Tensor] = ()) -> Variant:
        """The program for values of the learning phase; batches of `alike` have one size."""
        inputs, replace = self.fixed(switches)
        fed, state, replace = signature(self, inputs, replace)
        graph = [*self.news, *self.outputs]
        taken, fed, state, thin = sparse.in_rows(self, graph, fed, state)
        with assuming(alike):
            program = compiled(
                self.engine, fed, taken, state=state, replace=replace, options=self.options
            )
        count = len(self.news)
        copied, lent = shared(program.outputs[count:], program.outputs[:count])
        program = program._replace(outputs=[])  # The call that is kept must not keep the graph.
        if passes.applies("freeze", passes.Job(self.engine)):
            program = program._replace(run=self.engine.repeated(program.run))
        makers = sparse.makers(self, thin) if thin else {}
        return Variant(program, copied, lent, self.engine, inputs, graph if inputs else [], makers)

    def apart(self, key: tuple[Any, ...]) -> Call:
        """The call for batches of different sizes."""
        call = self._apart.get(key)
        if call is None:
            with shown(f"Compiling {self.name!r} for {self.engine.name}"):
                call = self._apart[key] = self._straight(key, alike=False)
        return call

    def _by_switches(self) -> Call:
        """The call that looks up the variant by the switches, or leaves it to `_checked`."""
        find, checked = self._calls.get, _slow(self)
        take, one = itemgetter(*self.switches), len(self.switches) == 1

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
        with shown(f"Compiling {self.name!r} for {self.engine.name}"):
            self.thin = sparse.thin_in(self, ())
            return straight(self, self._variant(()), _takes_nothing)


def _joined(values: Sequence[Any]) -> list[Any]:
    """The values, with lists of arrays among them flattened, as `tf.keras` code feeds them."""
    flat: list[Any] = []
    for value in values:
        listed = isinstance(value, list | tuple) and all(hasattr(x, "shape") for x in value)
        flat += value if listed else [value]
    return flat


def _slow(function: Function) -> Call:
    """The checked call."""
    return _weakly(function, Function._checked)


def _other_sizes(function: Function, key: tuple[Any, ...]) -> Call:
    """The call for batches of different sizes."""

    def run(owner: Function, values: object) -> list[np.ndarray]:
        return owner.apart(key)(values)

    return _weakly(function, run)


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
