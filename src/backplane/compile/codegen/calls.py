"""The call of a compiled function as straight-line Python.

Loops that check feeds, read variables and write updates take longer than a small program does. So
they are unrolled into the text of one function:

    def call(inputs=()):
        if type(inputs) is not list or len(inputs) != 2:
            return slow(inputs)
        x0, x1 = inputs
        if type(x0) is not ndarray or x0.dtype is not d0 or x0.shape != s0:
            x0 = feed0(x0, engine, False)
        try:
            w0 = v0.values[engine]
        except KeyError:
            w0 = v0.read(engine)
        ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from backplane.core.graph import Tensor
from backplane.core.source import Source
from backplane.engines.base import Engine

if TYPE_CHECKING:
    from backplane.compile.function import Function, Variant

Call = Callable[..., list[np.ndarray]]


def straight(function: Function, variant: Variant, slow: Call) -> Call:
    """The call of a function with one variant. Arguments that are not a list of as many values go
    to `slow`.
    """
    return _Writer(function, variant, slow).written()


class _Writer:
    """Writes the text of one call and binds the objects in it."""

    def __init__(self, function: Function, variant: Variant, slow: Call) -> None:
        self.function = function
        self.variant = variant
        self.engine = engine = function.engine
        self.source = Source(
            "call", engine=engine, slow=slow, run=variant.run, failed=variant.failed,
            feed=engine.feed, lend=engine.lend, wait=engine.wait, ndarray=np.ndarray,
            array=np.array, words=variant.words,
        )  # fmt: skip

    def written(self) -> Call:
        """The compiled text."""
        with self.source.block("def call(inputs=()):"):
            feeds = self._feeds()
            arguments = [*feeds, *self._keys(), *self._variables(), *self._constants()]
            outputs = self._run(feeds, arguments)
            self._updates()
            self.source.line(f"return [{', '.join(outputs)}]")
        return self.source.function("call")

    def _run(self, feeds: Sequence[str], arguments: Sequence[str]) -> list[str]:
        """Run the program, and return the names of its outputs as users get them."""
        source = self.source
        outputs = [f"r{i}" for i in range(self.variant.count)]
        news = [f"n{i}" for i in range(len(self.variant.updated))]
        targets = f"{', '.join([*news, *outputs])}," if news or outputs else "()"
        with source.block("try:"):
            source.line(f"{targets} = run({', '.join(arguments)})")
            for i, name in enumerate(outputs):
                if not self._is_array(self.function.outputs[i]):
                    source.names[f"fetch{i}"] = self.engine.fetching(self.function.outputs[i].spec)
                    source.line(f"{name} = fetch{i}({name})")
            if news and not outputs:
                # Fetching an output waits for the program. Without an output, nobody waits before
                # the caller may change what was fed.
                source.line(f"wait(({', '.join(news)},))")
        with source.block("except Exception as error:"):
            source.line(f"failed(error, [{', '.join(feeds)}])")
            source.line("raise")
        self._go_forward()
        for i, copied in enumerate(self.variant.copied):
            if copied:
                source.line(f"r{i} = array(r{i})")
        return outputs

    def _go_forward(self) -> None:
        """After an interrupt, store the new values of variables whose memory the program
        has taken.
        """
        read = {v: i for i, v in enumerate(self.variant.variables)}
        places = [read[v] for v in self.variant.updated if v in read]
        if type(self.engine).current is Engine.current or not places:
            return
        self.source.names["current"] = self.engine.current
        with self.source.block("except BaseException:"):
            for i in places:
                self.source.line(f"v{i}.values = {{engine: current(w{i})}}")
            self.source.line("raise")

    def _updates(self) -> None:
        """Give variables their new values, and draw keys: nothing can fail any more."""
        for i, variable in enumerate(self.variant.updated):
            self.source.names[f"u{i}"] = variable
            value = f"lend(n{i})" if self.variant.lent[i] else f"n{i}"
            self.source.line(f"u{i}.values = {{engine: {value}}}")
        for i, key in enumerate(self.variant.keys):
            self.source.names[f"k{i}"] = key
            self.source.line(f"k{i}.counter += 1")

    def _is_array(self, output: Tensor) -> bool:
        """Whether the program's result is already a NumPy array (not one of NumPy's scalars)."""
        return self.engine.gives_arrays and len(output.spec.shape) > 0

    def _feeds(self) -> list[str]:
        # Switches chose the variant, so their values are not read again.
        count, switches = len(self.function.inputs), self.function.switches
        names = ["_" if i in switches else f"x{i}" for i in range(count)]
        with self.source.block(f"if type(inputs) is not list or len(inputs) != {count}:"):
            self.source.line("return slow(inputs)")
        if names:
            self.source.line(f"{', '.join(names)}, = inputs")
        read = [(i, name) for i, name in enumerate(names) if i not in switches]
        for i, name in read:
            self._feed(i, name)
        return [name for _, name in read]

    def _feed(self, i: int, name: str) -> None:
        """Take an array that fits as it is. Anything else goes through the checks."""
        source, spec, kept = self.source, self.function.inputs[i].spec, self.function.kept[i]
        source.names[f"f{i}"] = self.function.feeds[i]
        if kept or spec.sparse or spec.dtype == "bfloat16":
            source.line(f"{name} = f{i}({name}, engine, {kept})")
            return
        source.names[f"d{i}"] = np.dtype(spec.dtype)
        wrong = [f"type({name}) is not ndarray", f"{name}.dtype is not d{i}"]
        if None in spec.shape:
            wrong.append(f"{name}.ndim != {len(spec.shape)}")
            known = [(k, n) for k, n in enumerate(spec.shape) if n is not None]
            wrong += [f"{name}.shape[{k}] != {n}" for k, n in known]
        else:
            wrong.append(f"{name}.shape != {tuple(spec.shape)!r}")
        at_once = self.engine.feeds_at_once
        if at_once:
            wrong.append(f"not {at_once[0].format(x=name)}")
            source.names["feed"] = at_once[1]
        with source.block(f"if {' or '.join(wrong)}:"):
            source.line(f"{name} = f{i}({name}, engine, False)")
        if not self.engine.takes_arrays:
            with source.block("else:"):
                source.line(f"{name} = feed({name})")

    def _keys(self) -> list[str]:
        return ["words()"] if self.variant.keys else []

    def _variables(self) -> list[str]:
        """Read the variables. After the first call, the engine holds all their values."""
        source, count = self.source, len(self.variant.variables)
        source.names.update({f"v{i}": v for i, v in enumerate(self.variant.variables)})
        if count:
            with source.block("try:"):
                for i in range(count):
                    source.line(f"w{i} = v{i}.values[engine]")
            with source.block("except KeyError:"):
                for i in range(count):
                    source.line(f"w{i} = v{i}.read(engine)")
        return [f"w{i}" for i in range(count)]

    def _constants(self) -> list[str]:
        values = {f"c{i}": value for i, value in enumerate(self.variant.constants)}
        self.source.names.update(values)
        return list(values)
