"""Random programs as a strategy of hypothesis, and what it means that an engine runs one rightly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from hypothesis import strategies as st

from backplane import backend as K
from backplane import engines
from backplane.core.graph import Tensor, toposort
from backplane.core.spec import DTYPES, UNSIGNED, is_float
from backplane.core.variable import Variable
from fuzz.catalogue import ENTRIES
from fuzz.reference import Expected, UnstableShapeError, expected
from fuzz.training import train
from fuzz.writer import WORDS, Program, Writer

MOST_LINES = 60
_DRAWN = [name for name, (weight, _) in ENTRIES.items() for _ in range(weight)]


def dtypes_of(engine: Any) -> list[str]:
    """The dtypes with which an engine computes."""
    lacking = {d for d in ("float16", "bfloat16") if d not in engine.capabilities}
    if "unsigned" not in engine.capabilities:
        lacking.update(set(UNSIGNED) - {"uint8"})
    return sorted(DTYPES - lacking - {"bool"})


@st.composite
def programs(draw: Any, dtypes: Sequence[str], most: int = MOST_LINES) -> Program:
    """A program with up to `most` lines that compute something, and about as many inputs."""
    # One draw per program: hypothesis takes longer for one choice than K for a line.
    w = Writer(draw(st.randoms(use_true_random=True)).randrange, dtypes)
    program = w.program
    try:
        w.input(w.shape(), w.main)
        for _ in range(w.between(1, most)):
            text = ENTRIES[w.pick(_DRAWN)][1](w)
            if text is not None:
                w.add(text)
        program.outputs = _outputs(w)
        train(w)
    except w.broken:
        program.outputs = [program.lines[-1].partition(" = ")[0]]
    if w.chance(15):
        program.feeds["K.learning_phase()"] = w.pick(("0", "1"))
    return program


def _outputs(w: Writer) -> list[str]:
    """All tensors that no other line reads, or a few of all."""
    computed = [v.name for v in w.pool if v.name[0] == "t"] or [w.pool[-1].name]
    read = {name for line in w.program.lines for name in WORDS.findall(line.partition(" = ")[2])}
    if w.chance(60):
        return [name for name in computed if name not in read][-12:]
    return list(dict.fromkeys(w.pick(computed[-10:]) for _ in range(w.between(1, 4))))


def check(program: Program, engine: str, fuzzed: bool = True) -> bool:
    """Run a program twice on an engine and compare with the reference. False if that is not
    possible because a size depends on rounding.

    Raises:
        AssertionError: if something differs, with the program in a note.
    """
    places: dict[str, Any] = {"np": np}
    text = program.text()
    exec(text, places)
    with _noted(text, engine), np.errstate(all="ignore"):
        try:
            return agrees(places["program"], engine)
        except NotImplementedError:  # the engine refuses it by name
            return False


@contextmanager
def _noted(text: str, engine: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        error.add_note(f"{text}\non {engine}")
        raise


def agrees(
    build: Callable[[Any], tuple[dict[Any, Any], list[Any], list[Any]]], engine: str
) -> bool:
    """Build a program, run it twice on an engine, and compare each run with the reference."""
    with engines.use(engine):
        feeds, outputs, updates = build(K)
        results = [*outputs, *[_stored(v, new) for v, new in updates]]
        variables = [
            t for t in toposort([*results, *[v for v, _ in updates]]) if isinstance(t, Variable)
        ]
        leaves = {x: np.asarray(value) for x, value in feeds.items()}
        function = K.function(list(feeds), outputs, updates)
        for _ in range(2):
            state = dict(zip(variables, K.batch_get_value(variables), strict=True))
            leaves |= {v: np.array(value) for v, value in state.items()}
            found = function(list(feeds.values()))
            found += K.batch_get_value([v for v, _ in updates])
            try:
                compare(results, leaves, found)
            except UnstableShapeError:
                return False
    return True


def _stored(v: Any, new: Any) -> Tensor:
    return new if K.dtype(new) == K.dtype(v) else K.cast(new, K.dtype(v))


def compare(results: Sequence[Tensor], leaves: dict[Any, Any], found: Sequence[Any]) -> None:
    """AssertionError if a value is not what the reference says. Before that, the bound is estimated
    anew from many more samples.
    """
    leaves = {t: rounded(v, t.spec.dtype) for t, v in leaves.items()}
    wrong = _differences(results, found, expected(results, leaves))
    if wrong:
        wrong = _differences(results, found, expected(results, leaves, samples=40, seed=1))
    assert not wrong, "\n".join(wrong)


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
            at = tuple(int(k[0]) for k in np.nonzero(~good))
            wrong.append(
                f"{what}: at {at} found {value[at]!r}, expected {right[at]!r} ± {bound[at]:.2g}"
                f" ({(~good).sum()} of {good.size})"
            )
    return wrong
