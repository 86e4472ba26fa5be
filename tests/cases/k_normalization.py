"""Batch normalization."""

from __future__ import annotations

import numpy as np

from cases.record import case, floats, positive


def along(p, x, axis):
    if p is None or np.ndim(p) != 1:
        return p
    return p.reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])


def normalized(x, mean, var, beta, gamma, axis=-1, epsilon=1e-3):
    mean, var, beta, gamma = (along(p, x, axis) for p in (mean, var, beta, gamma))
    y = (x - mean) / np.sqrt(var + epsilon)
    y = y if gamma is None else y * gamma
    return y if beta is None else y + beta


for shape, axis, n in (((4, 3), -1, 3), ((2, 3, 4), 1, 3), ((2, 3, 3, 2), -1, 2)):
    case(
        "batch_normalization",
        floats(*shape),
        floats(n),
        positive(n),
        floats(n),
        floats(n),
        oracle=normalized,
        id=f"{len(shape)}{axis}",
        smooth=True,
        batch=(0,),
        axis=axis,
    )
case(
    "batch_normalization",
    floats(2, 3, 4, 2),
    floats(1, 3, 1, 1),
    positive(1, 3, 1, 1),
    None,
    None,
    oracle=normalized,
    id="wide",
    batch=(0,),
    axis=1,
    epsilon=0.5,
)


def in_training(x, gamma, beta, axes, epsilon=1e-3):
    axes = tuple(axes)
    wide = [n if i not in axes else 1 for i, n in enumerate(x.shape)]
    mean, var = x.mean(axes), x.var(axes)
    y = (x - mean.reshape(wide)) / np.sqrt(var.reshape(wide) + epsilon)
    y = y if gamma is None else y * gamma.reshape(wide)
    return (y if beta is None else y + beta.reshape(wide)), mean, var


for shape, axes, kept in (
    ((5, 3), [0], (3,)),
    ((2, 3, 4, 2), (0, 2, 3), (3,)),
    ((3, 2, 4), [0, 1], (4,)),
):
    case(
        "normalize_batch_in_training",
        floats(*shape),
        positive(*kept),
        floats(*kept),
        axes,
        oracle=in_training,
        id=f"{len(shape)}{len(axes)}{kept}",
        smooth=True,
        batch=(0,),
    )
case(
    "normalize_batch_in_training",
    floats(4, 3),
    None,
    None,
    [0],
    oracle=in_training,
    id="plain",
    epsilon=0.5,
)
