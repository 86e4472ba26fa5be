"""What the documents leave to the engines: the results that an engine may have beside the exact one."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from backplane.core.graph import Tensor
from backplane.core.spec import is_float, is_integer
from backplane.ops.reduction import log_softmax
from fuzz.noise import EXACT, LARGEST, SLACK, TINY, UNIT, Noise

JUMPS = frozenset("floordiv mod floor round sign equal not_equal less less_equal".split())
"""Operations that jump between near operands."""
POLES = frozenset("div pow log".split())
"""Operations that jump where an operand is 0."""
KEEPING = frozenset(
    "cast div branch identity stop_gradient reshape broadcast_to transpose expand_dims squeeze slice"
    " flip tile repeat".split()
)
"""Operations that leave the zeros of their first operand, or move them."""


class Freedoms(Noise):
    """Draws one of the results that engines may have.

    Attributes:
        drawn: The tensors that depend on random numbers, which are others in each evaluation.
        number: Which of the evaluations this is.
    """

    drawn: set[Tensor]
    number: int

    @abstractmethod
    def computed(self, node: Tensor, operands: list[Any]) -> Any:
        """The primitive in float64."""

    def beyond(self, node: Tensor, operands: list[Any], exact: Mapping[Tensor, Any]) -> list[Any]:
        """Operands that an engine may have behind a jump: they are up to `SLACK` times as far from
        the exact ones as noise has moved them. One that may thereby be 0 is 0 now and then.
        """
        assert node.op is not None
        moved = dict(zip(node.inputs, operands, strict=True))
        for t, value in moved.items():
            near = exact.get(t)
            if near is None or np.shape(near) != np.shape(value) or not is_float(t.spec.dtype):
                continue
            far = np.nan_to_num(value - near, posinf=0.0, neginf=0.0) * SLACK
            jumps = node.op.name in JUMPS and self.rng.random() < 0.75
            other = near + far * self.noise(far.shape) if jumps else value
            vanishing = (np.abs(far) >= np.abs(near)) & (self.noise(far.shape) < 0)
            vanishing &= t not in self.drawn  # Another number was drawn, and is no rounding error.
            moved[t] = np.where(far == 0, value, np.where(vanishing, 0.0, other))
        found = [moved[t] for t in node.inputs]
        if node.op.name != "mod":
            return found
        # Between jumps the remainder follows its operands: there they keep the noise they have.
        jumps = np.floor(found[0] / found[1]) != np.floor(operands[0] / operands[1])
        return [np.where(jumps, new, old) for new, old in zip(found, operands, strict=True)]

    def overflowing(self, node: Tensor, operands: list[Any], found: Any) -> Any:
        """`found`, with random elements where an intermediate result may be too large."""
        most = LARGEST[self.range(node.spec.dtype)]
        wide = [v for v in operands if np.asarray(v).dtype.kind == "f"]
        assert self.rng is not None
        assert node.op is not None
        kinds = self.rng.permutation([np.nan, np.inf, 0.0])[: self.rng.integers(1, 4)]
        if node.op.name.startswith(("conv", "matmul")) and not all(
            np.isfinite(v).all() for v in wide
        ):
            # Infinity · 0, and NaN · 0 where an engine multiplies with the zeros of a padding. In
            # each second evaluation it does not, so that a maximum of such results is open too.
            if self.number % 2:
                return 100 * self.noise(np.shape(found))
            return self.rng.choice(kinds, np.shape(found))
        if node.op.name in ("prod", "cumprod"):
            free = _depends_on_order(wide[0], math.log(most), **node.params)
            kinds = [*kinds, -np.inf]
            return np.where(free, self.rng.choice(kinds, np.shape(found)), found)
        if all(np.max(np.abs(v), initial=0.0, where=np.isfinite(v)) < most**0.25 for v in wide):
            return found
        # ONNX Runtime may leave out the conversion to float16 between two operations in float32.
        if node.spec.dtype == "float16" and self.rng.random() < 0.5:
            return found
        sizes = [np.abs(v) if np.asarray(v).dtype.kind == "f" else v for v in operands]
        # A mean is a sum first.
        terms = np.size(wide[0]) / max(np.size(found), 1) if node.op.name == "mean" else 1
        large = ~(np.abs(self.computed(node, sizes)) < most / 4 / max(terms, 1))
        return np.where(large, self.rng.choice(kinds, np.shape(found)), found)

    def distributed(
        self, node: Tensor, operands: list[Any], exact: Mapping[Tensor, Any], found: Any
    ) -> Any:
        """`found`, with random elements where the products with both terms of a difference
        overflow: kernels for normalization compute `x * scale + (bias - mean * scale)`.
        """
        for t, scale in zip(node.inputs, reversed(operands), strict=True):
            terms = t.inputs if t.op is not None and t.op.name == "sub" else ()
            large: Any = False
            for term in terms:
                size = np.abs(np.asarray(exact.get(term, 0.0)))
                product = np.where(np.isfinite(size), size, 0.0) * np.abs(scale)
                large = large | (product > LARGEST[self.range(node.spec.dtype)])
            if np.any(large):
                kinds = self.chosen(np.shape(found)), self.chosen(np.shape(found))
                lost = np.where(kinds[0], np.nan, np.where(kinds[1], np.inf, -np.inf))
                found = np.where(large & self.chosen(np.shape(found)), lost, found)
        return found

    def scored_twice(self, node: Tensor, scores: Any, found: Any) -> Any:
        """`found`, as if computed scores were other ones where they are exponentiated than where
        the largest is looked for: XLA computes them twice, and may round them differently.
        """
        if node.inputs[0].op is None:
            return found
        sizes = np.nan_to_num(np.abs(scores), posinf=0.0)
        most = np.max(sizes, axis=node.params["axis"], keepdims=True, initial=0.0)
        apart = self.noise(np.shape(found)) * UNIT[node.spec.dtype] * most
        moved = found + apart if node.op is log_softmax else found * (1 + apart)
        # The exponential of such a difference may be infinite. In each second evaluation it is not,
        # because NaN would hide what other freedoms lead to.
        if self.number % 2:
            return moved
        lost = (most * UNIT[node.spec.dtype] > 1) & self.chosen(np.shape(found))
        return np.where(lost, np.nan, moved)

    def pooled(self, node: Tensor, x: Any, found: list[Any]) -> list[Any]:
        """`found`, as if some engines passed over NaN, or began with the lowest number. The maximum
        of a window with NaN may be at any of its elements.
        """
        assert self.rng is not None
        if self.rng.random() < 0.5:
            lowest = self.rng.choice([-np.inf, -LARGEST[node.inputs[0].spec.dtype]])
            found = self.computed(node, [np.where(np.isnan(x) | np.isneginf(x), lowest, x)])
        lost = self.computed(node, [np.isnan(x).astype("float64")])[0] > 0
        anywhere = self.computed(node, [self.noise(np.shape(x))])[1]
        return [found[0], np.where(lost, anywhere, found[1])]

    def open(self, name: str, node: Tensor, operands: list[Any], found: Any) -> Any:
        """`found`, with random elements where the documents leave the result to the engine."""
        kind = np.asarray(operands[0]).dtype.kind if operands else ""
        for names, fits, rule in RULES:
            if name in names and fits(node.spec.dtype, kind):
                return rule(self, node, operands, found)
        return found

    def maybe(self, free: Any, other: Any, found: Any) -> Any:
        """`found`, or `other` at random elements of those that are free."""
        return np.where(free & (self.noise(np.shape(found)) < 0), other, found)

    def drawn_where(self, free: Any, dtype: str, found: Any, below: int | None = None) -> Any:
        """`found`, or any integers where the result is free."""
        if not np.any(free):
            return found
        assert self.rng is not None
        info = np.iinfo(dtype)
        wide = "int64" if info.min else "uint64"
        drawn = self.rng.integers(info.min // 2, info.max // 2, np.shape(found), dtype=wide)
        drawn = drawn.astype(dtype)
        special = self.rng.choice(np.array([0, info.min, info.max], dtype), drawn.shape)
        drawn = np.where(self.noise(drawn.shape) < 0, drawn, special)
        if self.rng.random() < 0.25:  # Some give all of them the same number, such as 0.
            drawn = np.full(drawn.shape, self.rng.choice(special.ravel()), dtype)
        return np.where(free, drawn if below is None else abs(drawn) % below, found)


Rule = Callable[[Freedoms, Tensor, list[Any], Any], Any]
Fits = Callable[[str, str], bool]
RULES: list[tuple[Sequence[str], Fits, Rule]] = []
"""Names of primitives, for which dtypes of the result and kinds of the first operand, and what the
engines may give."""


def _of(*names: str, fits: Fits = lambda dtype, kind: True) -> Callable[[Rule], Rule]:
    def keep(rule: Rule) -> Rule:
        RULES.append((names, fits, rule))
        return rule

    return keep


@_of("cast", fits=lambda dtype, kind: is_integer(dtype) and kind == "f")
def _overflowing_cast(own: Freedoms, node: Tensor, operands: list[Any], found: Any) -> Any:
    info, x = np.iinfo(node.spec.dtype), np.asarray(operands[0])
    free = ~((x > float(info.min) - 1) & (x < float(info.max)))
    # What is a whole number but for roundings, such as a tangent of 1, is one or is cut.
    whole = np.round(np.where(free, 0.0, x))
    unit = UNIT.get(node.inputs[0].spec.dtype, 0.0)
    near = (x != whole) & (np.abs(x - whole) <= 8 * unit * np.abs(whole))
    found = own.maybe(near & ~free, whole.astype(node.spec.dtype), found)
    return own.drawn_where(free, node.spec.dtype, found)


@_of("cast", fits=lambda dtype, kind: dtype == "bool" and kind == "f")
def _cast_to_bool(own: Freedoms, node: Tensor, operands: list[Any], found: Any) -> Any:
    """What is 0 but for roundings, such as slopes of a sum of probabilities, is 0 or not."""
    return own.maybe(np.abs(operands[0]) < 8 * UNIT[node.inputs[0].spec.dtype], False, found)


@_of("floordiv", "mod", fits=lambda dtype, kind: is_integer(dtype))
def _division_by_zero(own: Freedoms, node: Tensor, operands: list[Any], found: Any) -> Any:
    return own.drawn_where(np.asarray(operands[1]) == 0, node.spec.dtype, found)


@_of("pow", fits=lambda dtype, kind: is_integer(dtype))
def _power_of_integers(own: Freedoms, node: Tensor, operands: list[Any], found: Any) -> Any:
    exact = np.power(np.asarray(operands[0], "float64"), operands[1])
    info = np.iinfo(node.spec.dtype)
    free = (np.asarray(operands[1]) < 0) | (exact > info.max) | (exact < info.min)
    return own.drawn_where(free, node.spec.dtype, found)


@_of("mod")
def _remainder(own: Freedoms, node: Tensor, operands: list[Any], found: Any) -> Any:
    """PyTorch's kernel gives NaN where the quotient overflows."""
    over = np.abs(operands[0]) / LARGEST[node.spec.dtype] > np.abs(operands[1])
    return own.maybe(over, np.nan, found)


@_of("div")
def _quotient(own: Freedoms, node: Tensor, operands: list[Any], found: Any) -> Any:
    """XLA may multiply by the reciprocal, and take a denormal one for 0."""
    return own.maybe(np.abs(operands[1]) > 1 / TINY[node.spec.dtype], 0.0 * found, found)


@_of("pow")
def _power(own: Freedoms, node: Tensor, operands: list[Any], found: Any) -> Any:
    """An exponent that is large, or near a whole number, may be one on an engine. Some take
    pow(x, 0.5) for the root of x, also where x is −∞.
    """
    x, exponent = np.asarray(operands[0]), np.asarray(operands[1])
    unit = UNIT[node.spec.dtype] * np.maximum(np.abs(exponent), 1.0)
    whole = (unit > 0.1) | (np.abs(exponent - np.round(exponent)) < SLACK * unit)
    free = np.isnan(found) & (x < 0) & (whole | np.isneginf(x))
    return own.maybe(free, np.abs(x) ** exponent, found)


@_of("equal", "not_equal", "less", "less_equal", fits=lambda dtype, kind: kind == "f")
def _comparison(own: Freedoms, node: Tensor, operands: list[Any], found: Any) -> Any:
    """Numbers that differ by rounding may be equal on an engine."""
    if node.inputs[0].spec.dtype not in UNIT:
        return found
    x, y = map(np.asarray, operands)
    size = np.maximum(np.abs(x), np.abs(y)) * 4 * UNIT[node.inputs[0].spec.dtype]
    return own.maybe((x != y) & (np.abs(x - y) <= size), ~found, found)


@_of("sub", fits=lambda dtype, kind: dtype == "float16")
def _difference(own: Freedoms, node: Tensor, operands: list[Any], found: Any) -> Any:
    """ONNX Runtime may read one operand before it is rounded to 16 bits, the other after."""
    if not any(map(_is_rounded, node.inputs)):
        return found
    size = np.maximum(np.abs(operands[0]), np.abs(operands[1]))
    near = (np.abs(found) <= UNIT["float16"] * size) & np.isfinite(size)
    return found + np.where(near, size * own.noise(np.shape(size)) / 2**13, 0.0)


@_of("relu_grad")
def _slope_of_nan(own: Freedoms, node: Tensor, operands: list[Any], found: Any) -> Any:
    """The result of which it is the gradient is no number."""
    return own.maybe(np.isnan(operands[1]), operands[0], found)


@_of("mul", "mul_no_nan")
def _product_with_mask(own: Freedoms, node: Tensor, operands: list[Any], found: Any) -> Any:
    """XLA chooses by a bool that was cast, and so passes over NaN."""
    free = np.isnan(found) & own.chosen(np.shape(found))
    for t, x in zip(node.inputs, operands, strict=True):
        if _is_mask(t):
            found = np.where(free & (np.asarray(x) == 0), 0.0, found)
    return found


@_of("argmax", "argmin", fits=lambda dtype, kind: kind == "f")
def _position_of_nan(own: Freedoms, node: Tensor, operands: list[Any], found: Any) -> Any:
    x, axis = np.asarray(operands[0]), node.params["axis"]
    free = np.isnan(x).any(axis=axis)
    return own.drawn_where(free, node.spec.dtype, found, below=max(1, x.shape[axis]))


def _depends_on_order(
    x: Any,
    most: float,
    *,
    axes: Any = (),
    axis: int = 0,
    keepdims: bool = True,
    reverse: bool = False,
) -> Any:
    """Where a product overflows or vanishes if the elements are multiplied in some order."""
    sizes = np.nan_to_num(np.log(np.clip(np.abs(x), 1e-320, 1e300)))
    up, down = (
        np.sum(part, axis=axes or axis, keepdims=keepdims)
        for part in (np.maximum(sizes, 0), np.minimum(sizes, 0))
    )
    return ((up > 0.9 * most) & (down < 0)) | ((down < -0.9 * most) & (up > 0))


def _is_rounded(t: Tensor) -> bool:
    """Whether it holds results that were rounded, maybe in another order."""
    if t.op is None:
        return False
    return t.op.name not in EXACT or any(map(_is_rounded, t.inputs))


def _is_mask(t: Tensor) -> bool:
    """Whether it is a bool that was cast, or a product or an arrangement of such elements."""
    if t.op is None:
        return False
    if t.op.name == "cast" and t.inputs[0].spec.dtype == "bool":
        return True
    masks = map(_is_mask, t.inputs)
    return (
        any(masks) if t.op.name in ("mul", "mul_no_nan") else t.op.name in KEEPING and next(masks)
    )
