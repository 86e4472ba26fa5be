"""Random numbers from a key.

ONNX' own generators take their seed when a session is made, not when it runs. So samples are hashes
of a counter, by the finalizer of SplitMix64: a word of 64 bits in nine operations, where Threefry
takes a hundred for the portable `random_bits`.

Source: Steele, Lea and Flood (2014), "Fast splittable pseudorandom number generators", OOPSLA,
doi:10.1145/2660193.2660195; constants of Stafford's variant 13.
"""

from __future__ import annotations

import math

from backplane.engines.onnxruntime.builder import Shape, Size, Symbol, ints, node, number, vector
from backplane.engines.onnxruntime.sizes import as_scalar_of_int64, filled, total
from backplane.engines.table import Table

TABLE = Table()

_GOLDEN = 0x9E3779B97F4A7C15
_FACTORS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LAST = 31


def _word(value: int) -> Symbol:
    return number(value, "uint64")


def _shifted(x: Symbol, count: int) -> Symbol:
    return node("BitShift", x, _word(count), direction="RIGHT")


def _mixed(x: Symbol) -> Symbol:
    for count, factor in _FACTORS:
        x = node("Mul", node("BitwiseXor", x, _shifted(x, count)), _word(factor))
    return node("BitwiseXor", x, _shifted(x, _LAST))


def _words(key: Symbol, count: Size) -> Symbol:
    """A vector of `count` random words of 64 bits."""
    pairs = key.cast("uint64").reshape((2, 2))
    high = node("BitShift", node("Gather", pairs, ints(1), axis=1), _word(32), direction="LEFT")
    seed, place = (
        node("Gather", node("Add", high, node("Gather", pairs, ints(0), axis=1)), ints(i), axis=0)
        for i in (0, 1)
    )
    # Where the sequence begins is a hash of the key, so that sequences of near keys lie far apart.
    start = _mixed(node("Add", _mixed(node("Add", seed, _word(_GOLDEN))), place))
    steps = node("Range", *[as_scalar_of_int64(n) for n in (0, count, 1)])
    counter = node("Mul", steps.cast("uint64"), _word(_GOLDEN))
    return _mixed(node("Add", counter, start.reshape((1,))))


def _fraction(bits: Symbol, kept: int, dtype: str, offset: float = 0.0) -> Symbol:
    """A number of `kept` bits as a fraction in [0, 1), moved by `offset` of its last place."""
    x = bits.cast(dtype)
    if offset:
        x = node("Add", x, number(offset, dtype))
    return node("Mul", x, number(2.0**-kept, dtype))


def _halves(words: Symbol, kept: int) -> list[Symbol]:
    """Two numbers of `kept` bits, at most 32, from each word."""
    low = node("BitwiseAnd", words, _word((1 << kept) - 1))
    return [_shifted(words, 64 - kept), low]


def _half(count: Size) -> Size:
    return (count + 1) // 2


def _joined(parts: list[Symbol], count: Size, shape: tuple[Size, ...]) -> Symbol:
    """Two vectors, together at least `count` long, as a tensor of a shape."""
    both = node("Concat", *parts, axis=0)
    return node("Slice", both, ints(0), vector([count]), ints(0)).reshape(shape)


_KEPT = {"float16": 11, "float32": 24}
"""Bits of a sample: as many as the significand holds."""


@TABLE.add("random_uniform")
def random_uniform(key: Symbol, *dims: Symbol, shape: Shape, dtype: str) -> Symbol:
    """Uniform samples from [0, 1)."""
    wanted = filled(shape, dims)
    count = total(wanted)
    if dtype == "float64":
        return _fraction(_shifted(_words(key, count), 11), 53, dtype).reshape(wanted)
    kept = _KEPT[dtype]
    parts = [_fraction(x, kept, dtype) for x in _halves(_words(key, _half(count)), kept)]
    return _joined(parts, count, wanted)


@TABLE.add("random_normal")
def random_normal(key: Symbol, *dims: Symbol, shape: Shape, dtype: str) -> Symbol:
    """Normal samples, two from two uniform ones (Box and Muller 1958)."""
    wanted = filled(shape, dims)
    count = total(wanted)
    half = _half(count)
    if dtype == "float64":
        # Eleven bits of a word are left over; a float holds 53.
        words, work, kept = _shifted(_words(key, half * 2), 11), dtype, (53, 53)
        first, second = (
            node("Slice", words, vector([a]), vector([b]), ints(0))
            for a, b in ((0, half), (half, half * 2))
        )
    else:
        words, work, kept = _words(key, half), "float32", (31, 24)
        first, second = (_shifted(x, 32 - n) for x, n in zip(_halves(words, 32), kept, strict=True))
    radius = _fraction(first, kept[0], work, 0.5)
    radius = node("Sqrt", node("Mul", node("Log", radius), number(-2, work)))
    angle = _fraction(second, kept[1], work)
    angle = node("Mul", angle, number(2 * math.pi, work))
    parts = [node("Mul", radius, node(op, angle)) for op in ("Cos", "Sin")]
    return _joined(parts, count, wanted).cast(dtype)
