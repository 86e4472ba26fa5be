"""Write the accuracy section of docs/measurements.md: the errors of functions of K and of their
gradients, in ulps, on each engine.

    python scripts/make_accuracy.py [ENGINE ...]

The exact results come from mpmath, with 50 digits. With names of engines, the tables of these
engines are printed and the page is left as it is. Exits with 1 if a large error is not explained.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

os.environ["KERAS_BACKEND"] = "numpy"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.append(str(Path(__file__).resolve().parents[1]))

import numpy as np
from mpmath import mpf

from accuracy_functions import Function, Row, rows
from backplane import backend as K
from backplane import engines
from backplane.known_engines import ENGINES
from benchmarks import sections

DTYPES = ("float32", "float64")


RESULTS = ("value", "gradient")
BOUND = 128.0
"""Errors above this number of ulps need an explanation: 1.5e-5 in float32, 2.8e-14 in float64."""
ABSOLUTE = 8.0
"""In ulps of 1: what such errors still stay below, unless the explanation says otherwise."""


class Error(NamedTuple):
    """The largest error of a column of results in ulps, where it is, and the largest difference
    among the results with errors above `BOUND`.
    """

    ulps: float
    at: float
    absolute: float


def ulps(found: np.ndarray, wanted: Sequence[mpf]) -> np.ndarray:
    """The distances in units of the last place of the exact results; infinite for a NaN, and for an
    infinity where the result is a number. All denormal numbers count as equal to 0, and infinity
    counts as the largest number where the result is close to it.
    """
    limits = np.finfo(found.dtype)
    top, tiny = float(limits.max), float(limits.tiny)
    nearest = np.array([float(min(max(w, -top), top)) for w in wanted])
    rest = np.array(
        [float(w - mpf(n)) if abs(w) < top else 0.0 for w, n in zip(wanted, nearest, strict=True)]
    )
    near = np.clip(np.abs(nearest), tiny, np.nextafter(limits.max, 0)).astype(found.dtype)
    unit = np.spacing(near).astype("float64")
    value = np.clip(found.astype("float64"), -top, top)
    with np.errstate(over="ignore"):
        error = np.abs((value - nearest) - rest) / unit
    error[np.isinf(found) & (error > 1)] = np.inf
    error[(np.abs(nearest) <= tiny) & (np.abs(value) <= tiny)] = 0
    return np.where(np.isnan(found), np.inf, error)


def measured(found: np.ndarray, wanted: Sequence[mpf], xs: np.ndarray) -> Error:
    """A cell of the table."""
    errors = ulps(found, wanted)
    worst = int(np.argmax(errors))
    large = errors > BOUND
    pairs = zip(
        found[large], [w for w, here in zip(wanted, large, strict=True) if here], strict=True
    )
    differences = [float(abs(mpf(float(y)) - w)) for y, w in pairs]
    return Error(float(errors[worst]), float(xs[worst]), float(np.max(differences, initial=0)))


Errors = tuple[Error, Error]
"""Those of a function's value and of its gradient."""


def errors_of(engine: str, table: Sequence[Row], dtype: str) -> list[Errors]:
    """The errors of each row, from one program on this engine."""
    with engines.use(engine):
        inputs = [K.placeholder(shape=row.xs.shape, dtype=dtype) for row in table]
        outputs = [row.function.build(x) for row, x in zip(table, inputs, strict=True)]
        slopes = [K.gradients(y, [x])[0] for x, y in zip(inputs, outputs, strict=True)]
        with np.errstate(all="ignore"):
            results = K.function(inputs, [*outputs, *slopes])([row.xs for row in table])
    values, gradients = results[: len(table)], results[len(table) :]
    return [
        (measured(y, row.value, row.xs), measured(dy, row.slope, row.xs))
        for row, y, dy in zip(table, values, gradients, strict=True)
    ]


class Limit(NamedTuple):
    """Why results of some functions are off by more than `BOUND`, and on which engines."""

    functions: str
    result: str
    why: str
    engines: tuple[str, ...] = tuple(ENGINES)
    dtypes: tuple[str, ...] = DTYPES
    small: bool = True
    """Whether the absolute error stays below `ABSOLUTE`."""


LIMITS = (
    Limit(
        "sigmoid, tanh, softmax", "gradient",
        "The gradient comes from the result y, as y · (1 − y) or 1 − y². Where y is close to "
        "±1 the difference has few digits. TensorFlow, JAX and PyTorch do the same. "
        "`K.binary_crossentropy` of logits, and of a sigmoid, does not pass through it.",
    ),
    Limit(
        "logsumexp", "value",
        "The largest element is added last. If it is 0, the small rest has been rounded "
        "together with a 1.",
    ),
    Limit(
        "categorical_crossentropy", "value and gradient",
        "The value contains a `logsumexp`, and the gradient is softmax − target. For a confident "
        "right answer both are small differences. The libraries' own functions do the same.",
    ),
    Limit(
        "l2_normalize", "gradient",
        "The gradient is orthogonal to the vector. Along its long side it is a difference of "
        "nearly equal numbers. Elements whose squares overflow are not in the table.",
    ),
    Limit(
        "var, std", "value and gradient",
        "The mean of two nearly equal numbers is rounded to one of them, so the gradient of `std` "
        "may have no right digit there. Elements whose squares overflow are not in the table.",
        small=False,
    ),
    Limit(
        "erf, erfinv", "gradient",
        "It contains the exponential of a square. What the square was rounded by is multiplied by "
        "the size of the square.",
        dtypes=("float64",),
    ),
    Limit(
        "exp", "value and gradient",
        "MLX computes float32 exponentials by an approximation for processors. It is infinite from "
        "88.7 on, a little below the logarithm of the largest number.",
        engines=("mlx",), dtypes=("float32",), small=False,
    ),
    Limit(
        "sin, cos", "value and gradient",
        "Near their zeros ONNX Runtime's float64 kernels have an absolute error of 2e-16, and "
        "thus few digits.",
        engines=("cntk",), dtypes=("float64",),
    ),
    Limit(
        "softmax", "value",
        "The kernel gives 0 where the result is just above the denormal numbers.",
        engines=("tensorflow",), dtypes=("float32",),
    ),
)  # fmt: skip


def limit(function: Function, result: str, engine: str, dtype: str, error: Error) -> int | None:
    """The number of the limit that explains an error, if one does."""
    name = function.name.partition("(")[0]
    for i, known in enumerate(LIMITS):
        here = engine in known.engines and dtype in known.dtypes
        if known.small and not error.absolute <= ABSOLUTE * np.finfo(dtype).eps:
            continue
        if here and name in known.functions.split(", ") and result in known.result:
            return i + 1
    return None


def unexplained(
    table: Sequence[Row], engine: str, dtype: str, found: Sequence[Errors]
) -> list[str]:
    """The results with more than `BOUND` ulps of error that no limit explains."""
    return [
        f"{engine}, {dtype}: the {result} of {row.function.name} is {error.ulps:.3g} ulps off "
        f"at {error.at}"
        for row, errors in zip(table, found, strict=True)
        for result, error in zip(RESULTS, errors, strict=True)
        if error.ulps > BOUND and limit(row.function, result, engine, dtype, error) is None
    ]


def cell(error: Error, dtype: str, note: int | None) -> str:
    """An error as text, with the number of its note if it is large."""
    if error.ulps <= BOUND:
        return f"{error.ulps:.1f}" if error.ulps < 10 else f"{error.ulps:.0f}"
    lost = error.ulps * np.finfo(dtype).eps > 0.1
    text = "∞" if np.isinf(error.ulps) else "lost" if lost else f"{error.ulps:.0f}"
    return text if note is None else f"{text} ({note})"


HEADER = f"""\
# Accuracy

`make accuracy` writes this section. The table shows how far results are from the exact ones, which
mpmath computes with 50 digits. Each cell has the largest error of the value and, after the
slash, that of the gradient, in ulps: units in the last place of the exact result. An ulp is a
relative error of 6e-8 to 1.2e-7 in float32, and of 1.1e-16 to 2.2e-16 in float64.

The arguments are about 250 numbers per function: all magnitudes from the smallest normal number
to the largest one, both signs, 0, infinities, and numbers near places where the function is
difficult. Denormal results count as 0, because some engines have no denormal numbers.

- **lost**: not one digit is right.
- **∞**: the result is infinite or NaN, and the exact one is a number.
- A number in parentheses names the note [below](#what-is-known). Every error above {BOUND:.0f}
  ulps has one. The absolute error of these results stays below {ABSOLUTE:.0f} ulps of 1, but for
  {" and ".join(str(i + 1) for i, known in enumerate(LIMITS) if not known.small)}.
"""


def page(tables: dict[str, list[Row]], found: dict[tuple[str, str], list[Errors]]) -> Iterator[str]:
    """The lines of the section."""
    yield HEADER
    for dtype, table in tables.items():
        names = [name for name, of in found if of == dtype]
        yield f"## {dtype}\n"
        yield "| | " + " | ".join(names) + " |"
        yield "|---" * (1 + len(names)) + "|"
        for i, row in enumerate(table):
            cells = []
            for name in names:
                pair = zip(RESULTS, found[name, dtype][i], strict=True)
                notes = [(e, limit(row.function, result, name, dtype, e)) for result, e in pair]
                cells.append(" / ".join(cell(e, dtype, note) for e, note in notes))
            yield f"| `{row.function.name}` | " + " | ".join(cells) + " |"
        yield ""
    yield "## What is known\n"
    for i, known in enumerate(LIMITS):
        where = "" if len(known.engines) == len(ENGINES) else f" on {', '.join(known.engines)}"
        yield f"{i + 1}. **{known.functions}** ({known.result}{where}): {known.why}"


def main(names: Sequence[str]) -> int:
    """Measure, write the page if it is about all engines, and list what is unexplained."""
    tables = {dtype: rows(dtype) for dtype in DTYPES}
    found: dict[tuple[str, str], list[Errors]] = {}
    problems: list[str] = []
    for name in names or ENGINES:
        for dtype, table in tables.items():
            found[name, dtype] = errors_of(name, table, dtype)
            problems += unexplained(table, name, dtype, found[name, dtype])
    text = "\n".join(page(tables, found)) + "\n"
    if names:
        print(text)
    else:
        sections.write("accuracy", text)
    print("\n".join(problems))
    return len(problems) > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
