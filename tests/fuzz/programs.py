"""Random programs, and what it means that an engine runs one rightly."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from backplane import backend as K
from backplane import engines
from backplane.core.graph import KeySource, Tensor, toposort
from backplane.core.sparse import dense_array, is_sparse_matrix
from backplane.core.spec import DTYPES, UNSIGNED, is_float
from backplane.core.variable import Variable
from fuzz import catalogue, control, layers, special
from fuzz.catalogue import ENTRIES
from fuzz.reference import Expected, UnstableShapeError, expected
from fuzz.training import train
from fuzz.writer import WORDS, Program, Writer, operations

LEAST, MOST_LINES = 40, 250
"""Operations that a program has at least, and lines that are written at most to reach them."""
RUNS = 2
DTYPES_OF_ALL = sorted(DTYPES - {"bool", "bfloat16"})
"""Dtypes with which nearly every engine computes; one of eight programs has bfloat16 too."""
MODULES = (catalogue, layers, control, special)
"""Where the entries are, in the order on which the program of a seed depends."""
_DRAWN = [
    name
    for module in MODULES
    for name, (weight, function) in ENTRIES.items()
    if function.__module__ == module.__name__
    for _ in range(weight)
]


def dtypes_of(engine: Any) -> set[str]:
    """The dtypes with which an engine computes."""
    lacking = set(engine.missing_dtypes)
    if "unsigned" not in engine.capabilities:
        lacking.update(set(UNSIGNED) - {"uint8"})
    return set(DTYPES - lacking)


@np.errstate(all="ignore")
def written(seed: int) -> Program:
    """The program of a seed, with at least `LEAST` operations."""
    rng = random.Random(seed)
    w = Writer(rng.randrange, DTYPES_OF_ALL if rng.randrange(8) else [*DTYPES_OF_ALL, "bfloat16"])
    program, least = w.program, w.pick((LEAST, LEAST, LEAST, 60, 100))
    try:
        w.input(w.shape(), w.main)
        while len(w.operations) < least and len(program.lines) < MOST_LINES:
            text = ENTRIES[w.pick(_DRAWN)][1](w)
            if text is not None:
                w.add(text)
        train(w)
        program.outputs = _outputs(w)
    except w.broken:
        program.outputs = [program.lines[-1].partition(" = ")[0]]
    if w.chance(15):
        program.feeds["K.learning_phase()"] = w.pick(("0", "1"))
    return program


def _outputs(w: Writer) -> list[str]:
    """A few tensors that no other line reads, or of the last ones; more, if these do not need
    enough operations."""
    computed = [v.name for v in w.pool if v.name[0] == "t"] or [w.pool[-1].name]
    read = {name for line in w.program.lines for name in WORDS.findall(line.partition(" = ")[2])}
    unread = [name for name in computed if name not in read]
    chosen = unread[-12:] if w.chance(60) else [w.pick(computed[-10:]) for _ in range(3)]
    updated = [name for _, name in w.program.updates]
    for name in reversed(computed):
        if operations([w.places[n] for n in chosen + updated]) >= LEAST:
            break
        chosen.append(name)
    return list(dict.fromkeys(chosen))


@dataclass
class Built:
    """A program as graph."""

    feeds: dict[Any, Any]
    outputs: list[Any]
    updates: list[tuple[Any, Any]]

    @cached_property
    def results(self) -> list[Tensor]:
        """The outputs and the new values of variables."""
        return [*self.outputs, *[_stored(v, new) for v, new in self.updates]]

    def leaves(self) -> dict[Any, Any]:
        """The values of placeholders, variables and keys of random numbers before a run."""
        nodes = toposort([*self.results, *[v for v, _ in self.updates]])
        variables = [t for t in nodes if isinstance(t, Variable)]
        found = {
            x: dense_array(v) if is_sparse_matrix(v) else np.asarray(v)
            for x, v in self.feeds.items()
        }
        found |= zip(variables, map(np.array, K.batch_get_value(variables)), strict=True)
        found = {t: rounded(v, t.spec.dtype) for t, v in found.items()}
        return found | {t: np.array(t.words(), "uint32") for t in nodes if isinstance(t, KeySource)}


class Reference:
    """What two runs of a program must give on any engine."""

    def __init__(self, built: Built) -> None:
        self.results, self.leaves = built.results, built.leaves()
        outputs = len(built.outputs)
        self.state = {v: outputs + i for i, (v, _) in enumerate(built.updates)}
        self.wanted = self.runs(2)

    def runs(self, samples: int) -> list[list[Expected]]:
        return expected(self.results, self.leaves, self.state, RUNS, samples, seed=samples)

    @cached_property
    def precise(self) -> list[list[Expected]]:
        """The same with bounds that are estimated from many more samples."""
        return self.runs(40)


class Check:
    """Runs a program on engines, one after the other, and compares with one reference.

    Raises:
        AssertionError: if something differs.
    """

    def __init__(self, build: Callable[[Any], Any]) -> None:
        self.build = build
        self.reference: Reference | None = None

    def outcome(self, engine: str) -> str:
        """Build the program and run it twice: `compared`; `refused` by name; or `uncertain`,
        because a size depends on rounding.
        """
        with engines.use(engine), np.errstate(all="ignore"):
            try:
                self.run()
            except NotImplementedError:
                return "refused"
            except ValueError as error:
                # Unknown sizes are taken for those of a batch, and may be 1 in a random program.
                if "each target would meet every output" not in str(error):
                    raise
                return "refused"
            except UnstableShapeError:
                return "uncertain"
        return "compared"

    def run(self) -> None:
        built = Built(*self.build(K))
        self.reference = self.reference or Reference(built)
        self.run_one(built, self.reference)
        function = K.function(list(built.feeds), built.outputs, built.updates)
        for run in range(RUNS):
            found = function(list(built.feeds.values()))
            found += K.batch_get_value([v for v, _ in built.updates])
            wrong = _differences(built.results, found, self.reference.wanted[run])
            if wrong:
                wrong = _differences(built.results, found, self.reference.precise[run])
            assert not wrong, "\n".join(wrong)

    def run_one(self, built: Built, reference: Reference) -> None:
        """Compute one output by itself: a compiler that joins operations may compute its operands
        several times where nobody else reads them. Random numbers are others than in the first run.
        """
        if not built.outputs or any(isinstance(t, KeySource) for t in reference.leaves):
            return
        which = len(reference.leaves) % len(built.outputs)
        function = K.function(list(built.feeds), [built.outputs[which]])
        found = function(list(built.feeds.values()))
        part = slice(which, which + 1)
        wrong = _differences(built.results[part], found, reference.wanted[0][part])
        if wrong:
            wrong = _differences(built.results[part], found, reference.precise[0][part])
        assert not wrong, "\n".join(["alone:", *wrong])


def check_of(program: Program) -> Check:
    """The check of a program that was written."""
    places: dict[str, Any] = {"np": np, "sparse": sparse}
    exec(program.text(), places)
    return Check(places["program"])


def _stored(v: Any, new: Any) -> Tensor:
    return new if K.dtype(new) == K.dtype(v) else K.cast(new, K.dtype(v))


def rounded(value: np.ndarray, dtype: str) -> np.ndarray:
    """`value` as a tensor of that dtype holds it."""
    if dtype == "bfloat16":
        import ml_dtypes

        return value.astype(ml_dtypes.bfloat16).astype("float32")
    return value.astype(dtype)


def _differences(
    results: Sequence[Tensor], found: Sequence[Any], wanted: Sequence[Expected]
) -> list[str]:
    wrong = []
    for i, (t, value, (right, bound)) in enumerate(zip(results, found, wanted, strict=True)):
        value = np.asarray(value)
        what = f"result {i}, {t}"
        if value.shape != right.shape or value.dtype.name != t.spec.dtype:
            wrong.append(f"{what}: {value.dtype}{value.shape} instead of {right.shape}")
            continue
        if not all(n in (None, m) for n, m in zip(t.spec.shape, value.shape, strict=True)):
            wrong.append(f"{what}: shape {value.shape} was not promised")
            continue
        if is_float(t.spec.dtype):
            value = value.astype("float64")
        with np.errstate(all="ignore"):
            same = (value == right) | ((value != value) & (right != right))
            good = same | (np.abs(value.astype("float64") - right) <= bound) | (bound == np.inf)
        if not good.all():
            at = tuple(int(k) for k in np.argwhere(~good)[0])
            wrong.append(
                f"{what}: at {at} found {value[at]!r}, expected {right[at]!r} ± {bound[at]:.2g}"
                f" ({(~good).sum()} of {good.size})"
            )
    return wrong
