"""The noise of an evaluation: how far rounding may move the results of primitives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from backplane.core.spec import is_float

UNIT = {"float64": 4e-15, "float32": 2.4e-7, "float16": 2e-3, "bfloat16": 1.6e-2}
"""The noise, relative to a value: some units in the last place."""
TINY = {"float64": 2.3e-308, "float32": 1.2e-38, "float16": 6.2e-5, "bfloat16": 1.2e-38}
"""Engines may take smaller numbers for 0."""
LARGEST = {"float64": 1.79e308, "float32": 3.4e38, "float16": 65520.0, "bfloat16": 3.38e38}
"""Larger numbers may be infinite."""
DIGITS = {"float64": 20, "float32": 14, "float16": 6, "bfloat16": 3}
"""Results with so few binary digits after the point are exact in all likelihood."""
SLACK = 16
"""An engine may be so many times as far away as the noise has moved an element."""

EXACT = frozenset(
    "max min maximum minimum neg abs sign floor round relu relu_grad where clip reshape"
    " broadcast_to transpose expand_dims squeeze concat slice slice_grad flip pad gather head"
    " dynamic_slice dynamic_slice_grad identity stop_gradient print check_windows max_pool"
    " max_pool_take pick place full eye top_k stack to_dense to_sparse repeat tile".split()
)
"""Primitives whose results are elements of their operands, or small whole numbers."""
ADDING = frozenset(
    "sum sum_to mean matmul matmul_add conv conv_bias conv_input_grad conv_kernel_grad cumsum"
    " avg_pool avg_pool_grad scatter_add".split()
)
"""Primitives with intermediate results: their operands are moved too."""
BASIC = frozenset("add sub mul mul_no_nan div sqrt cast mod floordiv".split())
"""Operations that are exact whenever their result can be held."""
COMPOSED = frozenset(
    "softmax log_softmax logsumexp prod cumprod pow mod floordiv max_pool_grad tanh_grad"
    " sigmoid_grad softmax_grad normalize_grad adam_update momentum_update gradient_update"
    " rows_update average_update".split()
)
"""The same, and even whole numbers lead to intermediate results that are rounded."""
RELATIVE_TO_ONE = frozenset("log_softmax logsumexp ctc_loss sin cos".split())
"""Functions with an error that is relative to 1: they take the logarithm of a sum of about 1, or
the remainder of a division by π."""
NEVER = None
NOISE = np.random.default_rng(0).uniform(-1, 1, 1 << 20)


class Noise:
    """Moves values at random, if there is a generator of random numbers."""

    rng: np.random.Generator | None
    keeps_halves = False
    """Whether float16 results stay in float32, which does not overflow, from one to the next."""

    def range(self, dtype: str) -> str:
        """The dtype in whose range results of `dtype` are held."""
        return "float32" if self.keeps_halves and dtype == "float16" else dtype

    def flushed(self, value: Any, dtype: str) -> Any:
        """`value`, where numbers below the normal ones may be 0."""
        if self.rng is None or not is_float(dtype):
            return value
        small = (np.abs(value) < TINY[self.range(dtype)]) & (value != 0)
        if not small.any():
            return value
        return np.where(small & (self.noise(np.shape(value)) < 0), 0.0 * value, value)

    def noise(self, shape: tuple[int, ...]) -> np.ndarray:
        """Numbers between -1 and 1: a part of a long list, because drawing them takes longer than
        all the rest.
        """
        assert self.rng is not None
        count = math.prod(shape)
        start = int(self.rng.integers(max(1, len(NOISE) - count)))
        part = NOISE[start : start + count]
        return (part if len(part) == count else np.resize(NOISE, count)).reshape(shape)

    def chosen(self, shape: tuple[int, ...]) -> np.ndarray:
        """Where an engine makes use of a freedom: everywhere, or at random elements."""
        assert self.rng is not None
        return self.noise(shape) < self.rng.choice([0.0, 1.0])

    def settled(
        self, name: str, value: Any, dtype: str, times: float = 1.0, factors: Sequence[Any] = ()
    ) -> Any:
        """A result as its dtype holds it: too large numbers are infinite, and rounding is noise,
        so many times as large as that of one operation. A product of `factors` is exact only where
        they have few digits.
        """
        if not is_float(dtype):
            return value
        value = np.asarray(value, "float64")
        if dtype != "float64":
            large = np.abs(value) > LARGEST[self.range(dtype)]
            # Compilers may keep more than 16 bits, and fuse a product with a sum: of all elements.
            if self.rng is not None and (dtype == "float16" or name == "mul"):
                large &= ~self.chosen(value.shape)
            value = np.where(large, np.sign(value) * np.inf, value)
        if self.rng is None:
            return value
        zero = value == 0
        if zero.any():  # engines differ in the sign of zeros
            value = np.where(zero & (self.noise(value.shape) < 0), -value, value)
        if name in EXACT:
            return value
        if name == "exp":  # Kernels that scale by a power of 2 may overflow too early.
            large = (value > LARGEST[self.range(dtype)] / 2) & ~self.chosen(value.shape)
            value = np.where(large, np.inf, value)
        if name in RELATIVE_TO_ONE:
            value = value + self.noise(value.shape) * UNIT[dtype]
        # Kernels for normalization subtract a mean that is scaled already.
        adding = name in ADDING and name != "mean"
        digits = 0 if adding else DIGITS[dtype] if name in BASIC else NEVER
        return self.moved(value, dtype, digits, times, factors)

    def moved(
        self,
        value: Any,
        dtype: str,
        digits: int | None,
        times: float = 1.0,
        factors: Sequence[Any] = (),
    ) -> Any:
        """`value` with noise, but for numbers that need no more than `digits` binary digits after
        the point, and few before it, and whose `factors` have few digits.
        """
        if not is_float(dtype) or self.rng is None:
            return value
        value = np.asarray(value, "float64")
        noise = self.noise(value.shape) * UNIT[dtype] * times
        moved = value * (1 + noise)
        # Numbers of 16 bits are often equal, or whole, where more precise ones are not.
        if self.range(dtype) == "float16" and self.rng.random() < 0.5:
            moved = moved.astype("float16").astype("float64")
        if digits is not NEVER:
            exact = is_short(value, dtype, digits)
            for factor in factors:
                exact = exact & is_short(np.asarray(factor), dtype)
            moved = np.where(exact, value, moved)
        size = np.abs(value)
        if not (size > LARGEST[self.range(dtype)] / 2).any():
            return self.flushed(moved, dtype)
        edge = np.abs(size / LARGEST[self.range(dtype)] - 1) < 0.01
        return np.where(edge & (noise > 0), np.sign(value) * np.inf, self.flushed(moved, dtype))


def is_short(value: np.ndarray, dtype: str, digits: int | None = None) -> np.ndarray:
    """Which numbers need no more than so many binary digits after the point, and few before it."""
    if not is_float(dtype):
        return np.ones(value.shape, bool)
    scaled = value * 2.0 ** (DIGITS[dtype] if digits is None else digits)
    return (scaled == np.round(scaled)) & (np.abs(scaled) < 2.0 ** DIGITS[dtype] * 4)
