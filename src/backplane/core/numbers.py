"""A description of the numbers in an array, in the same words on every engine."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Numbers(NamedTuple):
    """Facts about an array; `low`, `high` and `mean` of the finite numbers, or None without any."""

    shape: tuple[int, ...]
    dtype: str
    low: float | None
    high: float | None
    mean: float | None
    nans: int
    infs: int

    @property
    def bad(self) -> int:
        """The number of elements that are NaN or infinite."""
        return self.nans + self.infs

    def __str__(self) -> str:
        kind = f"{self.dtype} {self.shape}"
        if self.low is None or self.high is None or self.mean is None:
            known = "" if self.bad else ", empty"
        else:
            known = f", min {self.low:.6g}, max {self.high:.6g}, mean {self.mean:.6g}"
        return f"{kind}{known}{f', {self.trouble}' if self.bad else ''}"

    @property
    def trouble(self) -> str:
        """The counts of NaN and of infinite elements, as text; empty if all are finite."""
        counts = ((self.nans, "NaN"), (self.infs, "Inf"))
        return ", ".join([f"{count} {name}" for count, name in counts if count])


def numbers(array: np.ndarray) -> Numbers:
    """The facts about an array."""
    shape, dtype = array.shape, array.dtype.name
    if array.dtype.kind in "biu":
        wide, nans, infs = array.astype(np.int64 if array.dtype.kind == "b" else array.dtype), 0, 0
    else:
        wide = array.astype(np.float64)
        nans, infs = int(np.isnan(wide).sum()), int(np.isinf(wide).sum())
        wide = wide[np.isfinite(wide)] if nans or infs else wide
    if not wide.size:
        return Numbers(shape, dtype, None, None, None, nans, infs)
    return Numbers(
        shape, dtype, wide.min().item(), wide.max().item(), wide.mean().item(), nans, infs
    )


def complaint(
    message: str, has_nan: object, has_inf: object, line: tuple[str, int] | None = None
) -> FloatingPointError:
    """The error of `K.check_numerics`. It names the emitted `line` where no traceback will."""
    kind = "Inf and NaN" if has_nan and has_inf else "NaN" if has_nan else "Inf"
    at = f" [{line[0]}:{line[1]}]" if line else ""
    return FloatingPointError(f"{message or 'K.check_numerics'}: the tensor has {kind}{at}")


def check(array: np.ndarray, message: str) -> None:
    """Raise what `K.check_numerics` raises if a number is NaN or infinite."""
    if array.dtype.kind not in "biu" and not np.isfinite(array).all():
        raise complaint(message, np.isnan(array).any(), np.isinf(array).any())


class Style(NamedTuple):
    """The style in which values are printed: the arguments of `K.print_tensor`."""

    summarize: int | None = None
    format: str | None = None
    summary: bool = False


def show(array: np.ndarray, message: str, style: tuple[Any, ...]) -> None:
    """Print a message and an array, as `K.print_tensor` does."""
    summarize, form, summary = Style(*style)
    if summary:
        print(message, numbers(np.asarray(array)))
        return
    options: dict[str, Any] = {}
    if summarize is not None:
        edge = summarize if summarize >= 0 else max(array.size, 1)
        options |= {"threshold": 0 if summarize >= 0 else array.size + 1, "edgeitems": edge}
    if form is not None:
        options["formatter"] = {"all": lambda x: format(x, form)}
    print(message, np.array2string(np.asarray(array), **options) if options else array)
