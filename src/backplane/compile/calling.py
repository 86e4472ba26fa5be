"""The call of a compiled function as straight-line Python.

Checking feeds, reading variables and writing updates in loops takes longer than a small program.
Here the loops are unrolled into the text of one function:

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

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from backplane.core.graph import Tensor
from backplane.engines.base import Engine

if TYPE_CHECKING:
    from backplane.compile.function import Function, Variant

Call = Callable[..., list[np.ndarray]]


def straight(function: Function, variant: Variant, slow: Call) -> Call:
    """The call of a function with one variant; `slow` takes what is no list of as many values."""
    return _Writer(function, variant, slow).written()


class _Writer:
    """Writes the text of one call and binds the objects in it."""

    def __init__(self, function: Function, variant: Variant, slow: Call) -> None:
        self.function = function
        self.variant = variant
        self.engine = function.engine
        self.lines: list[str] = ["def call(inputs=()):"]
        self.names: dict[str, Any] = {
            "engine": self.engine,
            "slow": slow,
            "run": variant.run,
            "failed": variant.failed,
            "feed": self.engine.feed,
            "lend": self.engine.lend,
            "wait": self.engine.wait,
            "ndarray": np.ndarray,
            "array": np.array,
            "words": variant.words,
        }

    def written(self) -> Call:
        """The compiled text."""
        feeds = self._feeds()
        arguments = [*feeds, *self._keys(), *self._variables(), *self._constants()]
        outputs = [f"r{i}" for i in range(self.variant.count)]
        news = [f"n{i}" for i in range(len(self.variant.updated))]
        targets = ", ".join([*news, *outputs])
        self._line("try:")
        self._line(f"    {targets}{',' if targets else '()'} = run({', '.join(arguments)})")
        for i, name in enumerate(outputs):
            if not self._is_array(self.function.outputs[i]):
                self.names[f"fetch{i}"] = self.engine.fetching(self.function.outputs[i].spec)
                self._line(f"    {name} = fetch{i}({name})")
        if news and not outputs:
            # Fetching an output waits for the program; nobody else does before feeds may change.
            self._line(f"    wait(({', '.join(news)},))")
        self._line("except Exception as error:")
        self._line(f"    failed(error, [{', '.join(feeds)}])")
        self._line("    raise")
        self._go_forward()
        for i, copied in enumerate(self.variant.copied):
            if copied:
                self._line(f"r{i} = array(r{i})")
        for i, variable in enumerate(self.variant.updated):
            self.names[f"u{i}"] = variable
            value = f"lend(n{i})" if self.variant.lent[i] else f"n{i}"
            self._line(f"u{i}.values = {{engine: {value}}}")
        for i, key in enumerate(self.variant.keys):
            self.names[f"k{i}"] = key
            self._line(f"k{i}.counter += 1")
        self._line(f"return [{', '.join(outputs)}]")
        source = "\n".join(self.lines) + "\n"
        exec(compile(source, "<backplane call>", "exec"), self.names)
        call: Call = self.names["call"]
        return call

    def _go_forward(self) -> None:
        """After an interrupt, store the new values of variables whose memory has been taken."""
        read = {v: i for i, v in enumerate(self.variant.variables)}
        places = [read[v] for v in self.variant.updated if v in read]
        if type(self.engine).current is Engine.current or not places:
            return
        self.names["current"] = self.engine.current
        self._line("except BaseException:")
        for i in places:
            self._line(f"    v{i}.values = {{engine: current(w{i})}}")
        self._line("    raise")

    def _line(self, text: str) -> None:
        self.lines.append("    " + text)

    def _is_array(self, output: Tensor) -> bool:
        """Whether the program's result is already a NumPy array (not one of NumPy's scalars)."""
        return self.engine.gives_arrays and len(output.spec.shape) > 0

    def _feeds(self) -> list[str]:
        # Switches chose the variant: their values are not read again.
        count, switches = len(self.function.inputs), self.function.switches
        names = ["_" if i in switches else f"x{i}" for i in range(count)]
        self._line(f"if type(inputs) is not list or len(inputs) != {count}:")
        self._line("    return slow(inputs)")
        if names:
            self._line(f"{', '.join(names)}, = inputs")
        read = [(i, name) for i, name in enumerate(names) if i not in switches]
        for i, name in read:
            self._feed(i, name)
        return [name for _, name in read]

    def _feed(self, i: int, name: str) -> None:
        """Arrays that fit are taken as they are; anything else goes through the checks."""
        spec = self.function.inputs[i].spec
        kept = self.function.kept[i]
        self.names[f"f{i}"] = self.function.feeds[i]
        if kept or spec.sparse or spec.dtype == "bfloat16":
            self._line(f"{name} = f{i}({name}, engine, {kept})")
            return
        self.names[f"d{i}"] = np.dtype(spec.dtype)
        if None in spec.shape:
            sizes = [f"{name}.ndim != {len(spec.shape)}"]
            known = [(k, n) for k, n in enumerate(spec.shape) if n is not None]
            sizes += [f"{name}.shape[{k}] != {n}" for k, n in known]
        else:
            sizes = [f"{name}.shape != {tuple(spec.shape)!r}"]
        at_once = self.engine.feeds_at_once
        if at_once:
            sizes.append(f"not {at_once[0].format(x=name)}")
            self.names["feed"] = at_once[1]
        wrong = " or ".join([f"type({name}) is not ndarray", f"{name}.dtype is not d{i}", *sizes])
        self._line(f"if {wrong}:")
        self._line(f"    {name} = f{i}({name}, engine, False)")
        if not self.engine.takes_arrays:
            self._line("else:")
            self._line(f"    {name} = feed({name})")

    def _keys(self) -> list[str]:
        return ["words()"] if self.variant.keys else []

    def _variables(self) -> list[str]:
        """The variables' values: after the first call, the engine holds all of them."""
        count = len(self.variant.variables)
        self.names |= {f"v{i}": variable for i, variable in enumerate(self.variant.variables)}
        if count:
            self._line("try:")
            for i in range(count):
                self._line(f"    w{i} = v{i}.values[engine]")
            self._line("except KeyError:")
            for i in range(count):
                self._line(f"    w{i} = v{i}.read(engine)")
        return [f"w{i}" for i in range(count)]

    def _constants(self) -> list[str]:
        names = []
        for i, value in enumerate(self.variant.constants):
            self.names[f"c{i}"] = value
            names.append(f"c{i}")
        return names
