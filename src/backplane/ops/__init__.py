"""The primitives by theme. Importing this package declares them all and sets the operators.

Arguments are canonical here: axes are sorted tuples of non-negative integers, operands have equal
dtypes. The friendly forms are those of `backplane.backend`.
"""

from backplane.ops import (
    control,
    convolution,
    creation,
    effects,
    elementwise,
    indexing,
    linear,
    operators,
    pooling,
    random,
    reduction,
    shaping,
    sparse,
    updates,
)

__all__ = [
    "control",
    "convolution",
    "creation",
    "effects",
    "elementwise",
    "indexing",
    "linear",
    "operators",
    "pooling",
    "random",
    "reduction",
    "shaping",
    "sparse",
    "updates",
]
