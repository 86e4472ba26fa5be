"""The call of a compiled function as straight-line Python.

Loops that check feeds, read variables and write updates take longer than a small program does. So
they are unrolled into the text of one function:

    def call(inputs=(), *more):
        try:
            if more or type(inputs) is not list or len(inputs) != 2:
                return slow(inputs, *more)
            x0, x1, = inputs
            if type(x0) is not ndarray or x0.dtype is not d0 or x0.shape != s0:
                x0 = feed0(x0, engine, False)
            ...
            with lock0:
                try:
                    w0 = v0.values[engine]
                except KeyError:
                    w0, = read(variables, engine, kept)
                try:
                    n0, n1, r0, later = run(x0, x1, w0)
                    r0 = fetch(r0)
                except Exception as error:
                    failed(error, [x0, x1])
                    raise
                commit([*later, (setattr, v0, "values", {engine: n0}), ...])
            return [r0]
        except Exception as error:
            hide(error)
            raise

All updates are written by one call into C, or by one assignment without calls: between them Python
runs no handler of a signal and no other thread, so that an interruption finds all variables old or
all new. What writes over the memory of variables, `later`, is part of that. Calls with updates hold
the locks of their variables; others run again where somebody has written over the variables' memory
meanwhile (`core.atomic.Domain`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from backplane.compile.accumulation import is_split
from backplane.compile.diagnosis import conflict
from backplane.compile.plan import Plan
from backplane.compile.program import Compiled
from backplane.compile.source_map import explain, in_users_words, place_of, tell
from backplane.core.atomic import Domain, again, deferred_signals, join, under
from backplane.core.graph import Tensor, draw, undraw
from backplane.core.source import Source
from backplane.core.tracebacks import hide
from backplane.core.variable import read
from backplane.engines.base import Engine

MOST_LOCKS = 8
"""Locks that the text itself takes: Python allows 20 blocks inside each other."""
MOST_UNROLLED = 32
"""Variables up to which each has lines of its own. More are read and written by loops, whose text
Python compiles sooner: a call takes as long, and the first one of a TabNet 2 % less.
"""


Call = Callable[..., list[np.ndarray]]
"""A function from a list of values to a list of arrays."""


class Variant(NamedTuple):
    """One compiled program of a function. It does not refer to the function, which holds it, nor to
    the plan: the call of a function without inputs is kept without its graph. `variant_of` makes
    it.
    """

    program: Compiled
    engine: Engine
    inputs: Sequence[Tensor]
    graph: Sequence[Tensor]
    """New values and outputs, to explain errors: nothing for a function without inputs, all of
    whose sizes were known when the graph was built."""
    thin: Mapping[Tensor, Callable[[Any], Any]]
    """By placeholder and variable in compressed rows: what makes their parts (`compile.sparse`)."""

    def failed(self, error: Exception, values: Sequence[Any]) -> None:
        """Add to an error which primitive failed and where it was built. If the shapes of the
        values do not fit together, raise a ValueError in its place, the same on every engine; if an
        index is out of range, an IndexError.
        """
        owns, spec_of = self.engine.owns, self.engine.spec_of
        shapes = [tuple((spec_of(x) if owns(x) else x).shape) for x in values]
        given = {p: p.spec._replace(shape=s) for p, s in zip(self.inputs, shapes, strict=True)}
        fault = conflict(self.graph, given)
        if fault is None or not fault.certain:
            place = explain(error, self.engine, self.program.run)
            if fault is None or not fault.explains(place.where if place else None):
                return
        place = place_of(fault.node)
        better = in_users_words(fault.error, place)
        tell(better, self.engine, place)
        raise better from error


def straight(plan: Plan, variant: Variant, slow: Call, apart: Call | None = None) -> Call:
    """The call of a function with one variant. Arguments that are not a list of as many values go
    to `slow`, and those with batches of different sizes to `apart`, if it is given.
    """
    return _Writer(plan, variant, slow, apart).written()


class _Writer:
    """Writes the text of one call and binds the objects in it."""

    def __init__(self, plan: Plan, variant: Variant, slow: Call, apart: Call | None) -> None:
        self.plan = plan
        self.variant = variant
        self.apart = apart
        self.engine = engine = plan.engine
        self.replaced: frozenset[int] = getattr(variant.program.run, "written", frozenset())
        """The updates that `run` has written when it returns."""
        self.domains: list[Domain] = []
        self.thin: set[str] = set()
        """The names of what is fed in compressed rows."""
        self.unrolled = len(plan.variables) <= MOST_UNROLLED or bool(variant.thin)
        self.changed = ""
        """The condition, as text, that somebody has written over the values that were read."""
        self.source = Source(
            "call", engine=engine, slow=slow, run=variant.program.run, failed=variant.failed,
            feed=engine.feed, lend=engine.lend, wait=engine.wait, ndarray=np.ndarray,
            array=np.array, read=read,
        )  # fmt: skip

    def written(self) -> Call:
        """The compiled text."""
        self.source.names["hide"] = hide
        if not self.plan.updated:
            return self._without_updates()
        locks = self._locks()
        with self._call():
            feeds = self._feeds()
            if len(locks) > MOST_LOCKS:
                self.source.names["under"] = under
                self.source.line(f"return under([{', '.join(locks)}], body, {', '.join(feeds)})")
            else:
                with self.source.block(f"with {', '.join(locks)}:"):
                    outputs = self._body(feeds)
                self.source.line(f"return [{', '.join(outputs)}]")
        if len(locks) > MOST_LOCKS:
            with self.source.block(f"def body({', '.join(feeds)}):"):
                self.source.line(f"return [{', '.join(self._body(feeds))}]")
        return self.source.function("call")

    @contextmanager
    def _call(self) -> Iterator[None]:
        """A block whose lines become the call. What it raises ends at the caller's line."""
        with self.source.block("def call(inputs=(), *more):"):
            with self.source.block("try:"):
                yield
            with self.source.block("except Exception as error:"):
                self.source.line("hide(error)")
                self.source.line("raise")

    def _join(self) -> None:
        read = [*self.plan.variables, *self.plan.updated]
        self.domains = join(list(dict.fromkeys(read)))
        self.source.names.update({f"domain{i}": d for i, d in enumerate(self.domains)})

    def _locks(self) -> list[str]:
        """The locks that the call holds while it runs."""
        self._join()
        if self.variant.program.written or self.replaced:
            for domain in self.domains:
                domain.guard = domain.lock
        names = {f"lock{i}": d.lock for i, d in enumerate(self.domains)}
        self.source.names.update(names)
        return list(names)

    def _without_updates(self) -> Call:
        """The call of a function that only reads."""
        if self.engine.writes_over:
            self._join()
        places = range(len(self.domains))
        with self._call():
            feeds = self._feeds()
            for i in places:
                with self.source.block(f"if (version{i} := domain{i}.version) is None:"):
                    self.source.line("return again(inputs)")
            self.changed = " or ".join([f"domain{i}.version != version{i}" for i in places])
            outputs = self._body(feeds)
            self._repeat_if_changed()
            self.source.line(f"return [{', '.join(outputs)}]")
        call: Call = self.source.function("call")
        if self.domains:
            self.source.names["again"] = again(call, self.domains)
        return call

    def _repeat_if_changed(self) -> None:
        if self.changed:
            with self.source.block(f"if {self.changed}:"):
                self.source.line("return again(inputs)")

    def _body(self, feeds: Sequence[str]) -> list[str]:
        """From reading the variables to writing them; the names of the outputs."""
        with self._deferred():
            fed = [f"*{x}.parts" if x in self.thin else x for x in feeds]
            arguments = [*fed, *self._keys(), *self._variables(), *self._constants()]
            if self.replaced:
                self._set_versions("None")
            outputs = self._run(feeds, arguments)
            if not self.replaced:
                self._commit()
        return outputs

    def _set_versions(self, value: str) -> None:
        """Set the versions: None before variables are written over, the next number afterwards."""
        for i in range(len(self.domains)):
            self.source.line(f"domain{i}.version = {value.format(i=i)}")

    @contextmanager
    def _deferred(self) -> Iterator[None]:
        """Defer signals while some variables are new and others are not, if values can be lost."""
        follows = type(self.engine).latest is not Engine.latest
        whole = not self.replaced or (follows and len(self.replaced) == len(self.plan.updated))
        if whole:
            yield
            return
        self.source.names["deferred"] = deferred_signals
        with self.source.block("with deferred():"):
            yield

    def _run(self, feeds: Sequence[str], arguments: Sequence[str]) -> list[str]:
        """Run the program, and return the names of its outputs as users get them."""
        source = self.source
        outputs = [f"r{i}" for i in range(len(self.plan.outputs))]
        news = [f"n{i}" for i in range(len(self.plan.updated))]
        if news and not self.unrolled:
            news = ["*n"]
        targets = [*news, *outputs, *(["later"] if self.variant.program.written else [])]
        with source.block("try:"):
            left = f"{', '.join(targets)}," if targets else "()"
            source.line(f"{left} = run({', '.join(arguments)})")
            if not self.replaced:
                self._fetch(outputs, news)
        with source.block("except Exception as error:"):
            self._go_forward()
            if self.plan.keys:
                source.line("undraw(sources, keys)")
            self._repeat_if_changed()
            self._explain(feeds)
        if self._follows() or self.plan.keys:
            with source.block("except BaseException:"):
                self._go_forward()
                if not self._follows():  # Else the step may have been made.
                    source.line("undraw(sources, keys)")
                source.line("raise")
        if self.replaced:
            # There is no way back to the old values, so fetching, which may fail, comes afterwards.
            self._commit()
            with source.block("try:"):
                self._fetch(outputs, news)
                source.line("pass")
            with source.block("except Exception as error:"):
                self._explain(feeds)
        for i, copied in enumerate(self.variant.program.copied):
            if copied:
                source.line(f"r{i} = array(r{i})")
        return outputs

    def _fetch(self, outputs: Sequence[str], news: Sequence[str]) -> None:
        """Make NumPy arrays of the program's outputs, or wait for it if it has none."""
        source = self.source
        for i, name in enumerate(outputs):
            if fetch := self.engine.fetching(self.plan.outputs[i].spec):
                source.names[f"fetch{i}"] = fetch
                source.line(f"{name} = fetch{i}({name})")
        if news and not outputs and type(self.engine).wait is not Engine.wait:
            # Fetching an output waits for the program. Without an output, nobody waits before the
            # caller may change what was fed.
            source.line(f"wait(({', '.join(news)},))")

    def _explain(self, feeds: Sequence[str]) -> None:
        """Let an error go on, which then says where it comes from."""
        self.source.line(f"failed(error, [{', '.join(feeds)}])")
        self.source.line("raise")

    def _follows(self) -> list[int]:
        """The places of updated variables whose memory the program may take."""
        if type(self.engine).latest is Engine.latest:
            return []
        known = {v: i for i, v in enumerate(self.plan.variables)}
        return [known[v] for v in self.plan.updated if v in known]

    def _go_forward(self) -> None:
        """Store the new values of variables whose memory an interrupted program has taken."""
        follows = self._follows()
        if follows:
            self.source.names["latest"] = self.engine.latest
        if follows and not self.unrolled:
            self.source.names["follows"] = follows
            with self.source.block("for i in follows:"):
                self.source.line("variables[i].values = {engine: latest(w[i])}")
        for i in follows if self.unrolled else ():
            self.source.line(f"v{i}.values = {{engine: latest(w{i})}}")

    def _commit(self) -> None:
        """Give variables their new values: nothing can fail any more."""
        source, written, values = self.source, self.variant.program.written, []
        lent = [i for i, yes in enumerate(self.variant.program.lent) if yes and i not in written]
        source.names.update(commit=self.engine.commit, setattr=setattr)
        if self.unrolled:
            for i, variable in enumerate(self.plan.updated):
                source.names[f"u{i}"] = variable
                values.append(f"{{engine: {f'lend(n{i})' if i in lent else f'n{i}'}}}")
            calls = ", ".join([f'(setattr, u{i}, "values", {x})' for i, x in enumerate(values)])
        else:
            source.names["updated"] = self.plan.updated
            if lent:
                source.names["lent"] = lent
                with source.block("for i in lent:"):
                    source.line("n[i] = lend(n[i])")
            calls = '*[(setattr, u, "values", {engine: x}) for u, x in zip(updated, n)]'
        if written:
            self._set_versions("None")
            source.line(f"commit([*later, {calls}])")
        elif values:
            targets = [f"u{i}.values" for i in range(len(values))]
            source.line(f"{', '.join(targets)} = {', '.join(values)}")
        elif not self.unrolled and self.plan.updated:
            source.line(f"commit([{calls}])")
        if written or self.replaced:
            self._set_versions("domain{i}.count = domain{i}.count + 1")

    def _feeds(self) -> list[str]:
        # Switches chose the variant, so their values are not read again.
        inputs, retained = self.plan.inputs, self.plan.retained
        names = ["_" if p.is_phase() else f"x{i}" for i, p in enumerate(inputs)]
        count = len(inputs)
        fits = f"type(inputs) is not list or len(inputs) != {count}"
        with self.source.block(f"if more or {fits}:"):
            self.source.line("return slow(inputs, *more)")
        if names:
            self.source.line(f"{', '.join(names)}, = inputs")
        read = [(i, name) for i, name in enumerate(names) if name != "_"]
        for i, name in read:
            self._feed(i, name, retained[i])
        if self.apart is not None:
            self.source.names.update(apart=self.apart, size=self.engine.first_size)
            sizes = " == ".join([f"size(x{i})" for i in self.plan.batches])
            with self.source.block(f"if not {sizes}:"):
                self.source.line("return apart(inputs)")
        return [name for _, name in read]

    def _feed(self, i: int, name: str, retained: bool) -> None:
        """Take an array that fits as it is. Anything else goes through the checks."""
        source, spec = self.source, self.plan.inputs[i].spec
        make = self.variant.thin.get(self.plan.inputs[i])
        if make is not None:
            self.thin.add(name)
            source.names[f"f{i}"] = make
            source.line(f"{name} = f{i}({name})")
            return
        source.names[f"f{i}"] = self.plan.feeds[i]
        if retained or spec.sparse or spec.dtype == "bfloat16" or self.engine.mesh is not None:
            source.line(f"{name} = f{i}({name}, engine, {retained})")
            return
        source.names[f"d{i}"] = np.dtype(spec.dtype)
        wrong = [f"type({name}) is not ndarray", f"{name}.dtype is not d{i}"]
        if None in spec.shape:
            wrong.append(f"{name}.ndim != {len(spec.shape)}")
            known = [(k, n) for k, n in enumerate(spec.shape) if n is not None]
            wrong += [f"{name}.shape[{k}] != {n}" for k, n in known]
            if (parts := self.plan.parts) > 1 and is_split(self.plan.inputs[i]):
                wrong.append(f"{name}.shape[0] % {parts}")
        else:
            wrong.append(f"{name}.shape != {tuple(spec.shape)!r}")
        with source.block(f"if {' or '.join(wrong)}:"):
            source.line(f"{name} = f{i}({name}, engine, False)")
        if not self.engine.takes_arrays:
            with source.block("else:"):
                source.line(f"{name} = feed({name})")

    def _keys(self) -> list[str]:
        """The keys of this run, drawn at once, as one value."""
        if not self.plan.keys:
            return []
        self.source.names.update(sources=self.plan.keys, draw=draw, undraw=undraw)
        self.source.line("keys = draw(sources)")
        return ["feed(keys)"]

    def _variables(self) -> list[str]:
        """Read the variables. After the first call, the engine holds all their values."""
        source, variables = self.source, self.plan.variables
        if not self.unrolled:
            return self._all_variables()
        source.names.update({f"v{i}": v for i, v in enumerate(variables)})
        thin = [i for i, v in enumerate(variables) if v in self.variant.thin]
        whole = [i for i in range(len(variables)) if i not in thin]
        for i in thin:
            source.names[f"p{i}"] = self.variant.thin[variables[i]]
            source.line(f"w{i} = p{i}(v{i})")
        if whole:
            with source.block("try:"):
                for i in whole:
                    source.line(f"w{i} = v{i}.values[engine]")
            with source.block("except KeyError:"):
                targets = ", ".join([f"w{i}" for i in whole])
                source.names["kept"] = {self.plan.updated[i] for i in self.replaced}
                source.names["variables"] = [variables[i] for i in whole]
                source.line(f"{targets}, = read(variables, engine, kept)")
        return [f"*w{i}" if i in thin else f"w{i}" for i in range(len(variables))]

    def _all_variables(self) -> list[str]:
        """`_variables` by a loop."""
        self.source.names["variables"] = self.plan.variables
        self.source.names["kept"] = {self.plan.updated[i] for i in self.replaced}
        with self.source.block("try:"):
            self.source.line("w = [v.values[engine] for v in variables]")
        with self.source.block("except KeyError:"):
            self.source.line("w = read(variables, engine, kept)")
        return ["*w"]

    def _constants(self) -> list[str]:
        values = {f"c{i}": value for i, value in enumerate(self.variant.program.constants)}
        self.source.names.update(values)
        return list(values)
