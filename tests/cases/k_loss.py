"""Crossentropies and in_top_k."""

from __future__ import annotations

import numpy as np

from cases.record import case, floats, ints, positive, simplex, unit, values

EPSILON = 1e-7


def log_softmax(x, axis):
    return (
        x
        - x.max(axis, keepdims=True)
        - np.log(np.exp(x - x.max(axis, keepdims=True)).sum(axis, keepdims=True))
    )


def categorical(target, output, from_logits=False, axis=-1):
    if from_logits:
        return -(target * log_softmax(output, axis)).sum(axis)
    scaled = output / output.sum(axis, keepdims=True)
    return -(target * np.log(np.clip(scaled, EPSILON, 1 - EPSILON))).sum(axis)


for axis, shape in ((-1, (4, 3)), (1, (2, 3, 4)), (-2, (2, 3, 4)), (0, (3,))):
    for from_logits in (False, True):
        case(
            "categorical_crossentropy",
            simplex(*shape),
            floats(*shape) if from_logits else simplex(*shape),
            oracle=categorical,
            id=f"{len(shape)}{axis}{from_logits}",
            smooth=True,
            from_logits=from_logits,
            axis=axis,
        )
case(
    "categorical_crossentropy",
    values([[1.0, 0.0, 0.0]] * 2),
    values([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
    oracle=categorical,
    id="certain",
    grad=False,
    # log(1 - 1e-7) is all rounding in float32.
    tolerance={"float32": 1e-4},
)
case(
    "categorical_crossentropy",
    values([[1.0, 0.0], [0.0, 2.0]]),
    values([[2.0, 6.0], [3.0, 1.0]]),
    oracle=categorical,
    id="unscaled",
    errors=[
        (
            (floats(2, 3), floats(2, 3)),
            {"axis": 2},
            ValueError,
            r"K\.categorical_crossentropy: .*axis",
        ),
    ],
)


def softmaxed(K, target, x):
    return K.categorical_crossentropy(target, K.softmax(x))


case(
    "categorical_crossentropy",
    values([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]),
    values([[50.0, -60.0, 2.0], [1.0, 2.0, 3.0]]),
    fn=softmaxed,
    oracle=lambda target, x: categorical(target, x, True),
    id="of-softmax",
    # A native softmax has forgotten what it was made from.
    eager=False,
)


def sparse(target, output, from_logits=False, axis=-1):
    scores = output if from_logits else np.log(np.clip(output, EPSILON, 1 - EPSILON))
    picked = np.moveaxis(log_softmax(scores, axis), axis, -1)
    labels = target.astype(int).reshape(picked.shape[:-1])
    return -np.take_along_axis(picked, labels[..., None], -1)[..., 0]


for axis, shape, labels in ((-1, (4, 3), (4,)), (-1, (4, 3), (4, 1)), (1, (2, 3, 4), (2, 4))):
    for from_logits in (False, True):
        case(
            "sparse_categorical_crossentropy",
            ints(*labels, high=3),
            floats(*shape) if from_logits else simplex(*shape),
            oracle=sparse,
            id=f"{labels}{axis}{from_logits}".replace(" ", ""),
            smooth=True,
            from_logits=from_logits,
            axis=axis,
        )


def binary(target, output, from_logits=False):
    if from_logits:
        return np.maximum(output, 0) - output * target + np.log1p(np.exp(-abs(output)))
    p = np.clip(output, EPSILON, 1 - EPSILON)
    return -target * np.log(p) - (1 - target) * np.log1p(-p)


case("binary_crossentropy", unit(3, 4), unit(3, 4), oracle=binary, smooth=True)
case("binary_crossentropy", unit(3, 4), floats(3, 4), oracle=binary, smooth=True, from_logits=True)
case("binary_crossentropy", ints(3, 4, high=2), unit(3, 4), oracle=binary, id="labels")
case(
    "binary_crossentropy",
    values([[0.0, 1.0], [0.0, 1.0]]),
    values([[100.0, -100.0], [-100.0, 100.0]]),
    oracle=binary,
    id="far",
    from_logits=True,
)


def ignoring(target, output, from_logits=False, axis=-1, ignore_class=None):
    kept = target.astype(int) != ignore_class
    losses = sparse(np.where(kept, target, 0), output, from_logits, axis)
    return np.where(kept, losses, 0.0)


VOID = [[0, 255, 2], [1, 1, 255]]
for from_logits in (False, True):
    case(
        "sparse_categorical_crossentropy",
        values(VOID),
        floats(2, 3, 4) if from_logits else simplex(2, 3, 4),
        oracle=ignoring,
        id=f"ignored-{from_logits}",
        smooth=True,
        from_logits=from_logits,
        ignore_class=255,
    )
case(
    "sparse_categorical_crossentropy",
    values([[0, -1], [2, 1]]),
    floats(2, 3, 2),
    oracle=ignoring,
    id="ignored-first",
    smooth=True,
    from_logits=True,
    axis=1,
    ignore_class=-1,
    errors=[
        (
            (ints(2), floats(2, 3)),
            {"ignore_class": 0.5},
            TypeError,
            r"K\.sparse_categorical_crossentropy: ignore_class",
        )
    ],
)
case(
    "sparse_categorical_crossentropy",
    values([1, 0], "uint8"),
    simplex(2, 3),
    oracle=ignoring,
    id="ignored-none",
    ignore_class=-1,
)


def binary_focal(
    target, output, apply_class_balancing=False, alpha=0.25, gamma=2.0, from_logits=False
):
    p = 1 / (1 + np.exp(-output)) if from_logits else output
    happened = target * p + (1 - target) * (1 - p)
    losses = (1 - happened) ** gamma * binary(target, output, from_logits)
    weight = target * alpha + (1 - target) * (1 - alpha)
    return losses * weight if apply_class_balancing else losses


case("binary_focal_crossentropy", unit(3, 4), unit(3, 4), oracle=binary_focal, smooth=True)
case(
    "binary_focal_crossentropy",
    unit(3, 4),
    floats(3, 4),
    oracle=binary_focal,
    smooth=True,
    from_logits=True,
    apply_class_balancing=True,
    alpha=0.7,
    gamma=1.5,
)
case(
    "binary_focal_crossentropy",
    ints(3, 4, high=2),
    unit(3, 4),
    oracle=binary_focal,
    id="labels",
    apply_class_balancing=True,
    gamma=0,
)


def categorical_focal(target, output, alpha=0.25, gamma=2.0, from_logits=False, axis=-1):
    p = np.exp(log_softmax(output, axis)) if from_logits else output
    p = np.clip(p / p.sum(axis, keepdims=True), EPSILON, 1 - EPSILON)
    alpha = np.asarray(alpha)
    if alpha.ndim:
        alpha = np.moveaxis(np.broadcast_to(alpha, (*[1] * (p.ndim - 1), alpha.size)), -1, axis)
    return -(alpha * (1 - p) ** gamma * target * np.log(p)).sum(axis)


for axis, shape in ((-1, (4, 3)), (1, (2, 3, 4)), (-2, (2, 3, 4))):
    for from_logits in (False, True):
        case(
            "categorical_focal_crossentropy",
            simplex(*shape),
            floats(*shape) if from_logits else positive(*shape),
            oracle=categorical_focal,
            id=f"{len(shape)}{axis}{from_logits}",
            smooth=True,
            from_logits=from_logits,
            axis=axis,
        )
case(
    "categorical_focal_crossentropy",
    simplex(2, 3, 4),
    positive(2, 3, 4),
    oracle=categorical_focal,
    id="weighted",
    smooth=True,
    alpha=[0.1, 0.2, 0.7],
    gamma=0.5,
    axis=1,
    errors=[
        (
            (floats(2, 3), floats(2, 4)),
            {},
            ValueError,
            r"K\.categorical_focal_crossentropy: target has shape \(2, 3\), so 3 classes",
        ),
        (
            (floats(2, 3), floats(2, 3)),
            {"axis": 2},
            ValueError,
            r"K\.categorical_focal_crossentropy: axis",
        ),
    ],
)
case(
    "in_top_k",
    values([[0.3, 0.3, 0.3, 0.2], [0.1, 0.4, 0.2, 0.3], [0.1, 0.4, 0.2, 0.3]], "float32"),
    values([2, 0, 3]),
    2,
    oracle=lambda p, t, k: np.array([True, False, True]),
    errors=[
        ((floats(2, 3), floats(2), 1), {}, TypeError, r"K\.in_top_k: targets"),
        ((floats(2, 3), ints(2, 2), 1), {}, ValueError, r"K\.in_top_k: .*targets"),
    ],
)
