"""Measures the choices between formulations (`engines.kernels`), and fits their limits.

    python -m backplane.cli.kernels ENGINE CLOCK [CHOICE …]

measures those of one engine, or some of them, and prints them as JSON, in the form of a table's
`choices`. CLOCK is
`wall` or `cpu`: the processor's clock does not count what other programs do meanwhile, but it
counts each thread.
"""

from __future__ import annotations

import json
import math
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np

from backplane import _files
from backplane.cli.output import run_python
from backplane.engines import kernels
from backplane.engines.kernel_table import LIMITS

SECONDS, LEAST = 0.2, 5
"""Seconds for which both forms of a case run in turns, and the least number of runs of each."""
CLOCKS = {"wall": perf_counter, "cpu": process_time}
CLOSE = 0.05
"""If times differ by less than this share, the case decides nothing."""

Call = Callable[[], Any]

ALL = slice(None)


class Work(NamedTuple):
    """A computation of a function of K: its results, its updates, and its feeds."""

    outputs: Sequence[Any]
    updates: Sequence[tuple[Any, Any]] = ()
    feeds: Sequence[tuple[Any, np.ndarray]] = ()
    whole: bool = False
    """Whether to leave the outputs as they are: a compiler may join their sums with the work."""

    def function(self, K: Any, whole: bool = False) -> Call:
        """A call of the function; sums of the outputs, unless the whole is wanted."""
        outputs = [t if whole or self.whole else K.sum(t) for t in self.outputs]
        inputs, values = [t for t, _ in self.feeds], [array for _, array in self.feeds]
        return partial(K.function(inputs, outputs, self.updates), values)


class Case(NamedTuple):
    """Work of certain sizes: its name, the quantity that decides, and what builds it."""

    label: str
    quantity: float
    build: Callable[[Any, str], Work]


def _variable(K: Any, dtype: str, *shape: int) -> Any:
    return K.variable(np.random.default_rng(0).uniform(0.1, 1.0, shape), dtype=dtype)


def _training(K: Any, loss: Any, weights: Sequence[Any]) -> Work:
    return Work([loss, *K.gradients(loss, weights)])


def _convolution(
    K: Any, dtype: str, x: Sequence[int], kernel: Sequence[int], wrt: slice = ALL, **options: Any
) -> Work:
    """A convolution, and its gradients by the image and the kernel, or by one of them."""
    operands = [_variable(K, dtype, *x), _variable(K, dtype, *kernel)]
    y = K.conv2d(*operands, padding="same", **options)
    return _training(K, K.mean(K.square(y)), operands[wrt])


def _predicted(K: Any, dtype: str, x: Sequence[int], kernel: Sequence[int]) -> Work:
    image, window = _variable(K, dtype, *x), _variable(K, dtype, *kernel)
    return Work([K.conv2d(image, window, padding="same")], whole=True)


def _transposed(K: Any, dtype: str, x: Sequence[int], kernel: Sequence[int]) -> Work:
    """A transposed convolution to images of the shape `x`, and the normalization behind it. Several
    results read what it gives: a compiler may compute a sum of many terms anew for each of them.
    """
    batch, *sides, channels = x
    image = _variable(K, dtype, batch, *[n // 2 for n in sides], kernel[-1])
    window, gamma, beta = [_variable(K, dtype, *s) for s in (kernel, [channels], [channels])]
    y = K.conv2d_transpose(image, window, x, strides=(2, 2), padding="same")
    y = K.normalize_batch_in_training(y, gamma, beta, list(range(len(x) - 1)))[0]
    return _training(K, K.mean(K.square(K.relu(y))), [image, window, gamma, beta])


def _conv(
    quantity: float,
    x: Sequence[int],
    kernel: Sequence[int],
    work: Callable[..., Work] = _convolution,
    **options: Any,
) -> Case:
    sizes = (" × ".join(map(str, s)) for s in (kernel[:-2], x[1:-1]))
    label = f"{' over '.join(sizes)}, {x[-1]} to {kernel[-1]} channels, batch {x[0]}"
    return Case(label, quantity, partial(work, x=x, kernel=kernel, **options))


def _strided(x: Sequence[int], kernel: Sequence[int]) -> list[Case]:
    """A convolution with strides, and the transposed one: both need the gradient by x."""
    case = _conv(math.prod(kernel), x, kernel, strides=(2, 2))
    back = partial(_transposed, x=x, kernel=kernel)
    return [case, Case(f"{case.label}, transposed", case.quantity, back)]


def _loop(K: Any, dtype: str, rows: int, units: int) -> Work:
    x = _variable(K, dtype, rows, 32, units // 2)
    w, u = _variable(K, dtype, units // 2, units), _variable(K, dtype, units, units)

    def step(row: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        h = K.tanh(K.dot(row, w) + K.dot(states[0], u))
        return h, [h]

    start = K.zeros((rows, units), dtype)
    return _training(K, K.mean(K.rnn(step, x, [start])[0]), [w, u])


def _sum(K: Any, dtype: str, rows: int, inner: int, columns: int) -> Work:
    """Layers with the same two matrices, whose gradients are sums over the steps."""
    u, v = _variable(K, dtype, inner, columns), _variable(K, dtype, columns, inner)

    def step(_: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        h = states[0] + K.dot(K.tanh(K.dot(states[0], u)), v)
        return h, [h]

    steps = K.rnn(step, K.zeros((rows, 32, 1), dtype), [_variable(K, dtype, rows, inner)])
    return _training(K, K.mean(K.square(steps[0])), [u, v])


def _chain(K: Any, dtype: str, elements: int) -> Work:
    """RMSprop's arithmetic, on values that are not written back."""
    p, a, g = [_variable(K, dtype, elements) for _ in range(3)]
    mean = 0.9 * a + 0.1 * K.square(g)
    return Work([mean, p - 0.001 * g / (K.sqrt(mean) + 1e-7)])


def _product(K: Any, dtype: str, rows: int, inner: int, columns: int) -> Work:
    x, w = _variable(K, dtype, rows, inner), _variable(K, dtype, inner, columns)
    return Work([K.dot(x, w)])


def _momentum(K: Any, dtype: str, elements: int) -> Work:
    p, m = [_variable(K, dtype, elements) for _ in range(2)]
    g = K.placeholder((elements,), dtype=dtype)
    speed = 0.9 * m - 0.001 * g
    return Work([], [(m, speed), (p, p + speed)], [(g, np.full(elements, 0.5, dtype))])


LOOPS = [
    Case(f"{n} rows of {units}, 32 steps", n, partial(_loop, rows=n, units=units))
    for units in (32, 128)
    for n in (4, 16, 64, 256, 1024)
]
SUMS = [
    Case(f"{r} × {n} and {r} × {m}, 32 steps", round(r / n + r / m, 2),
         partial(_sum, rows=r, inner=n, columns=m))
    for n, m in ((32, 32), (64, 64), (64, 128), (128, 128), (64, 256), (256, 256))
    for r in (8, 32, 128)
]  # fmt: skip
CHAINS = [Case(f"{2**n:,} elements", 2**n, partial(_chain, elements=2**n)) for n in range(16, 23)]
SLIDING, BY_KERNEL = [
    [
        _conv(b * n * n / c, (b, n, n, c), (3, 3, c, c), wrt=wrt)
        for b, n, c in ((8, 8, 16), (2, 2, 512), (8, 2, 512), (4, 4, 512), (8, 4, 256),
                        (16, 4, 256), (4, 8, 128), (8, 8, 256), (8, 8, 128), (8, 16, 64),
                        (8, 32, 32))
    ]
    for wrt in (slice(1), slice(1, None))
]  # fmt: skip
PRODUCTS = [
    Case(f"{n} × {n} × {n}", n**3, partial(_product, rows=n, inner=n, columns=n))
    for n in (32, 64, 96, 128, 192, 256, 512)
]
NARROW = [
    Case(f"{r} × {n} × {c}", r * n * c, partial(_product, rows=r, inner=n, columns=c))
    for r, n, c in ((64, 64, 10), (128, 128, 10), (256, 256, 5), (1024, 64, 8), (512, 512, 10))
]
STRIDED = [
    case
    for n, k, c in ((16, 3, 4), (16, 3, 16), (16, 4, 32), (16, 3, 64), (16, 3, 128), (8, 3, 256))
    for case in _strided((8, n, n, c), (k, k, c, c))
]
PHASES = [_conv(c, (8, 32, 32, c), (4, 4, c, 32), strides=(2, 2)) for c in (1, 3, 8, 16, 32, 64)]
PREDICTED = [
    _conv(9 * c * d, (8, n, n, c), (3, 3, c, d), _predicted)
    for n, c, d in ((32, 8, 32), (32, 16, 32), (16, 32, 32), (16, 64, 64), (16, 128, 64),
                    (8, 128, 128), (8, 128, 256), (4, 256, 256), (4, 512, 512))
]  # fmt: skip
UPDATES = [
    Case(f"{2**n:,} elements", 2**n, partial(_momentum, elements=2**n)) for n in range(16, 23)
]
CHAINS_OF_UPDATES = [case._replace(quantity=4 * case.quantity) for case in UPDATES]
"""Behind both new values there are four operations."""

CASES: Mapping[str, Sequence[Case]] = {
    **{name: LOOPS for name in kernels.CHOICES if name.endswith(".loops")},
    **{name: SUMS for name in kernels.CHOICES if name.endswith(".sums")},
    "numpy.blocks": CHAINS,
    "torch.windows": SLIDING,
    "torch.kernels": BY_KERNEL,
    "torch.phases": PHASES,
    "torch.products": PRODUCTS,
    "torch.narrow": NARROW,
    "torch.blocks": CHAINS,
    "jax.strided": STRIDED,
    "jax.ynnpack": PREDICTED,
    "tensorflow.updates": CHAINS_OF_UPDATES,
    "theano.updates": UPDATES,
}

ONE_DTYPE = ("loops", "sums", "blocks", "products", "narrow", "ynnpack")
"""Choices that are made alike for all dtypes, or for float32 alone."""


# --- measuring ------------------------------------------------------------------------------------


def measured(engine: str, clock: str, *only: str) -> dict[str, Any]:
    """The choices of the engine that is configured, or `only` some, with their measurements."""
    from backplane import backend as K
    from backplane.compile.program import clear_programs

    # The table that the user has already must not decide what is measured.
    kernels.FORCED.update({name: rows[kernels.DTYPES[0]] for name, rows in LIMITS.items()})
    results: dict[str, Any] = {}
    for name, cases in CASES.items():
        owner, _, choice = name.partition(".")
        if owner != engine or (only and name not in only):
            continue
        for dtype in kernels.DTYPES[: 1 if choice in ONE_DTYPE else None]:
            rows = []
            for case in cases:
                times = _times(forms(K, name, case, dtype), CLOCKS[clock])
                rows.append([case.label, case.quantity, *times])
                clear_programs()
            limit = fitted(name, rows)
            row = {"limit": None if limit == math.inf else limit, "measured": rows}
            results.setdefault(name, {})[dtype] = row
    return results


def forms(K: Any, name: str, case: Case, dtype: str) -> list[Call]:
    """The case in both forms of the choice, compiled."""
    from backplane.compile.program import clear_programs

    calls = []
    for limit in (math.inf, 0.0):
        clear_programs()
        with kernels.forced(**{name.replace(".", "__"): limit}):
            call = case.build(K, dtype).function(K)
            for _ in range(3):
                call()
        calls.append(_inside(name, limit, call))
    return calls


def _inside(name: str, limit: float, call: Call) -> Call:
    """The call with that form in force: some choices are made anew at each call."""

    def run() -> Any:
        kernels.FORCED[name] = limit
        return call()

    return run


def _times(calls: Sequence[Call], now: Callable[[], float]) -> list[float]:
    """The least milliseconds of each call. They take turns."""
    taken: list[list[float]] = [[] for _ in calls]
    start = perf_counter()
    while perf_counter() - start < SECONDS or len(taken[-1]) < LEAST:
        for call, seconds in zip(calls, taken, strict=True):
            begin = now()
            call()
            seconds.append(now() - begin)
    return [float(f"{min(seconds) * 1e3:.3g}") for seconds in taken]


def fitted(name: str, rows: Sequence[Sequence[Any]]) -> float:
    """The limit by which the cases take the least time, each as a share of its own. If several do,
    it is the one in the middle, or the one by which the plain form always serves.
    """
    sizes = sorted({quantity for _, quantity, *_ in rows})
    between = [math.sqrt(a * b) for a, b in pairwise(sizes)]
    limits = [0.0, *[float(f"{limit:.2g}") for limit in between], math.inf]

    shares = [(quantity, math.log(below / above)) for _, quantity, below, above in rows]

    def cost(limit: float) -> float:
        return sum([s for quantity, s in shares if quantity < limit and abs(s) >= CLOSE])

    choice = kernels.CHOICES[name]
    lowest = min(map(cost, limits))
    equal = [limit for limit in limits if cost(limit) - lowest < 1e-9]
    plain = choice.without_table
    best = plain if plain in equal else equal[len(equal) // 2]
    return max(best, choice.least)


# --- the user's table -----------------------------------------------------------------------------


def on_engine(engine: str, clock: str = "wall", *only: str) -> dict[str, Any]:
    """`measured` in a process of its own. CalledProcessError if it fails."""
    printed = run_python(["-m", "backplane.cli.kernels", engine, clock, *only], engine)
    return json.loads(printed.splitlines()[-1])


def write(choices: Mapping[str, Any]) -> str:
    """Put choices into the user's table; those of other engines stay. Returns the file."""
    file = kernels.path()
    older: dict[str, Any] = {}
    try:
        with open(file, encoding="utf-8") as stream:
            table = json.load(stream)
        kernels.checked(table)
        older = table.get("choices", {})
    except FileNotFoundError:
        os.makedirs(os.path.dirname(file) or ".", exist_ok=True)
    except ValueError:
        older = {}  # What cannot be read cannot be kept.
    table = {"version": kernels.VERSION, "machine": platform.processor() or platform.machine()}
    text = json.dumps({**table, "choices": {**older, **choices}}, indent=1)
    _files.replace(file, f"{text}\n".encode())
    return file


def rows_of(choices: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of a table that tells what was measured, and which form serves from now on."""
    rows = []
    for name, by_dtype in choices.items():
        choice = kernels.CHOICES[name]
        for dtype, measured in by_dtype.items():
            limit = math.inf if measured["limit"] is None else measured["limit"]
            for work, quantity, *times in measured["measured"]:
                which = int(quantity >= limit)
                other, serves = times[1 - which], (choice.below, choice.above)[which]
                rows.append(
                    {"choice": name, "dtype": dtype, "work": work, "serves": serves,
                     "ms": times[which], "other ms": other}
                )  # fmt: skip
    return rows


if __name__ == "__main__":
    # Libraries may write to stdout too: the answer is the last line.
    print(json.dumps(measured(*sys.argv[1:])))
