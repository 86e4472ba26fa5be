"""The choice between two formulations of the same work: by a quantity of the sizes, and a limit for
it that was measured.

The list below says what the choices are. `kernel_table` holds the limits of each, by dtype.
`python -m benchmarks.kernels` measures and writes it. `backplane bench --kernels` measures on the
user's machine and writes a file, whose limits come before ours. `BACKPLANE_KERNELS` names another
such file, or is `off`: then the plain formulation serves everywhere, which is the library's own
kernel where it has one.

Choices are made while a program is compiled or first run, on a CPU. Nothing was measured on other
devices, where the plain formulations serve.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from backplane import _keras_json as keras_json
from backplane.engines.kernel_table import LIMITS

VARIABLE = "BACKPLANE_KERNELS"
OFF = "off"
VERSION = 1
"""The version of the form in which tables are written."""
FILE = "backplane-kernels.json"
"""The user's table, which lies beside `keras.json`."""
DTYPES = ("float32", "float64")
"""The measured dtypes. Others follow the first."""


ADVANTAGE = 0.85
"""A formulation that is measured while a program runs serves below this share of the time: a
close race must not be decided by noise, or equal processes would round differently."""
LEAST_ROUNDS = 3
"""So many rounds are measured at least: the first one may compile, and others may disturb one."""


def is_faster(
    other: Callable[..., Any], plain: Callable[..., Any], operands: Sequence[Any], rounds: int
) -> bool:
    """Whether `other` computes the same faster than `plain`. Close races take all rounds."""
    default = tried = math.inf
    for done in range(1, rounds + 1):
        default = min(default, _seconds(plain, operands))
        tried = min(tried, _seconds(other, operands))
        if done >= LEAST_ROUNDS and not ADVANTAGE**2 <= tried / default <= 1:
            break
    return tried < ADVANTAGE * default


def _seconds(function: Callable[..., Any], operands: Sequence[Any]) -> float:
    begin = time.perf_counter()
    function(*operands)
    return time.perf_counter() - begin


class Choice(NamedTuple):
    """One formulation serves for quantities below the limit, the other from it on."""

    quantity: str
    below: str
    above: str
    plain: str
    """`below` or `above`: which serves where nothing was measured."""
    least: float = 0.0
    """The limit is never lower than this, because the other form must first be compiled, or takes
    longer to begin. Blocks take 1.0 to 1.7 of the time up to there where the cache has 32 MB."""
    tried: bool = False
    """Whether the processor decides more than the sizes: then each process tries both forms once,
    unless the user has measured them."""

    @property
    def without_table(self) -> float:
        """The limit by which the plain formulation always serves."""
        return math.inf if self.plain == "below" else 0.0


_PRODUCT, _XLA, _TORCH = "a product of matrices", "XLA's convolution", "PyTorch's convolution"
_STACKED = Choice(
    "rows of a step", "one product for all steps of a loop", "a product per step", "above"
)
_SUMS = Choice(
    "elements that a step multiplies, for each element of the product",
    "one product for all steps of a loop", "a product per step, added up", "below",
)  # fmt: skip

CHOICES = {
    "numpy.blocks": Choice(
        "elements of an array", "whole arrays", "block by block", "below", least=2**20
    ),
    "torch.windows": Choice(
        "windows in the batch, for each output channel", _PRODUCT, _TORCH, "above"
    ),
    "torch.kernels": Choice(
        "windows in the batch, for each output channel", "gradient by the kernel: " + _PRODUCT,
        "PyTorch's kernel for it", "above",
    ),
    "torch.phases": Choice(
        "channels of an image that strides go over", "gradient by x: a convolution for each phase",
        "PyTorch's transposed convolution", "above",
    ),
    "torch.products": Choice(
        "multiplications", "MKL's product", "oneDNN's product", "below", least=2**22, tried=True
    ),
    "torch.narrow": Choice(
        "multiplications of a product with 2 to 10 columns", "MKL's product",
        "that of both matrices transposed", "below", least=2**17, tried=True,
    ),
    "torch.blocks": Choice(
        "elements of an array", "whole arrays", "block by block", "below", least=2**22
    ),
    "jax.strided": Choice(
        "elements of a kernel that has strides", "gradient by x: " + _XLA, _PRODUCT, "below"
    ),
    "jax.ynnpack": Choice(
        "elements of a kernel, in programs without gradients by kernels",
        "YNNPACK's convolution", _XLA, "above",
    ),
    "jax.loops": _STACKED,
    "jax.sums": _SUMS,
    "tensorflow.loops": _STACKED,
    "tensorflow.updates": Choice(
        "operations behind the new values of variables", "TensorFlow's kernels", "a kernel of XLA",
        "below", least=2**20,
    ),
    "theano.updates": Choice(
        "elements of the parameters", "NumPy, block by block", "a loop of Numba", "below",
        least=2**18,
    ),
    "cntk.loops": _STACKED,
    "cntk.sums": _SUMS,
    "mlx.loops": _STACKED,
}  # fmt: skip
"""All choices, by engine and name."""

Limits = Mapping[str, Mapping[str, float]]
"""For each choice and dtype the quantity from which on `above` serves."""

FORCED: dict[str, float] = {}
"""Limits that come before all others: see `forced`."""


def limit(name: str, dtype: str = DTYPES[0]) -> float:
    """The limit of a choice for a dtype. ValueError if the user's table is broken."""
    if name in FORCED:
        return FORCED[name]
    by_dtype = limits()[name]
    return by_dtype.get(dtype, by_dtype[DTYPES[0]])


def engines_limit(engine: str, choice: str) -> float:
    """The limit of a choice that the compiler makes for an engine. Without one, the form below it
    serves everywhere.
    """
    name = f"{engine}.{choice}"
    return limit(name) if name in CHOICES else math.inf


def settled(name: str) -> bool:
    """Whether the limit was measured on this machine, or chosen, so that nothing need be tried."""
    return name in FORCED or switched_off() or name in users_limits()


def switched_off() -> bool:
    """Whether plain formulations are to serve everywhere."""
    return os.environ.get(VARIABLE) == OFF


@contextmanager
def forced(**given: float) -> Iterator[None]:
    """Context manager: programs compiled inside take these limits, such as `torch__windows=0.0`."""
    before = dict(FORCED)
    FORCED.update({name.replace("__", "."): limit for name, limit in given.items()})
    try:
        yield
    finally:
        FORCED.clear()
        FORCED.update(before)


@cache
def limits() -> Limits:
    """The limits in force in this process."""
    if switched_off():
        return {name: {DTYPES[0]: choice.without_table} for name, choice in CHOICES.items()}
    return {**LIMITS, **users_limits()}


@cache
def users_limits() -> Limits:
    """The limits of the user's table; none if there is no such file."""
    file = path()
    if not os.environ.get(VARIABLE) and not os.path.exists(file):
        return {}
    # Imported here: few users have a table.
    import json

    try:
        with open(file, encoding="utf-8") as stream:
            table = json.load(stream)
        return checked(table)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{file} is not a table of kernels ({error}): write it again with `backplane bench "
            f"--kernels`, remove it, or set {VARIABLE}={OFF}"
        ) from error


def path() -> str:
    """The user's table: the file that the environment names, or the one beside `keras.json`."""
    if (given := os.environ.get(VARIABLE)) and given != OFF:
        return given
    return os.path.join(os.path.dirname(keras_json.path()), FILE)


def checked(table: Any) -> Limits:
    """The limits of a table as it was read from a file. ValueError if it is no such table."""
    if not isinstance(table, dict) or table.get("version") != VERSION:
        raise ValueError(f"its version is not {VERSION}")
    choices = table.get("choices", {})
    if not isinstance(choices, dict):
        raise ValueError(f"its choices are no object but {choices!r}")
    by_name: dict[str, dict[str, float]] = {}
    for name, by_dtype in choices.items():
        if name not in CHOICES:
            raise ValueError(f"there is no choice {name!r}")
        if not isinstance(by_dtype, dict) or DTYPES[0] not in by_dtype:
            raise ValueError(f"{name!r} has no limit for {DTYPES[0]}")
        by_name[name] = {dtype: _number(name, row) for dtype, row in by_dtype.items()}
    return by_name


def _number(name: str, row: Any) -> float:
    """The limit of a row; null stands for infinity, which JSON lacks."""
    number = row.get("limit", row) if isinstance(row, dict) else row
    number = math.inf if number is None else number
    if type(number) not in (int, float) or not number >= 0:
        raise ValueError(f"the limit of {name!r} is no number from 0 on")
    return float(number)
