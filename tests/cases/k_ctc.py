"""CTC: the loss, both decoders, labels as a sparse tensor; against brute force over all paths."""

from __future__ import annotations

import functools
import itertools
import operator
from typing import Any

import numpy as np

from backplane.backend._call import api
from backplane.core.registry import primitive
from backplane.ops.lift import as_tensor
from cases.record import case, floats, ints, simplex, unit, values

EPSILON = 1e-7


def collapsed(path: Any, blank: int) -> tuple[int, ...]:
    """A path without repetitions, then without blanks."""
    return tuple(k for k, _ in itertools.groupby(path) if k != blank)


def sequences(rows: np.ndarray) -> dict[tuple[int, ...], float]:
    """The probability of every label sequence, summed over all paths."""
    p = rows + EPSILON
    p = p / p.sum(-1, keepdims=True)
    found: dict[tuple[int, ...], float] = {}
    for path in itertools.product(range(p.shape[1]), repeat=len(p)):
        labels = collapsed(path, p.shape[1] - 1)
        found[labels] = found.get(labels, 0.0) + float(np.prod(p[range(len(p)), path]))
    return found


def cost(y_true: Any, y_pred: Any, input_length: Any, label_length: Any) -> np.ndarray:
    """`ctc_batch_cost` by brute force."""
    losses = []
    lengths = zip(np.ravel(input_length), np.ravel(label_length), strict=True)
    for labels, rows, (steps, count) in zip(np.asarray(y_true), y_pred, lengths, strict=True):
        # The blank, or what lies beyond it, ends the labels.
        blank = np.shape(rows)[-1] - 1
        ended = itertools.takewhile(functools.partial(operator.gt, blank), labels[: int(count)])
        labels = tuple(int(k) for k in ended)
        p = sequences(np.asarray(rows, "float64")[: int(steps)]).get(labels, 0.0)
        losses.append([-np.log(p) if p else np.inf])
    return np.array(losses)


# --- ctc_batch_cost -------------------------------------------------------------------------------


def costs(id: str, labels: Any, pred: Any, steps: Any, counts: Any, **options: Any) -> None:
    case(
        "ctc_batch_cost",
        values(labels),
        pred,
        values(steps),
        values(counts),
        id=id,
        oracle=cost,
        smooth=True,
        **options,
    )


costs("one", [[1, 0]], unit(1, 4, 3), [[4]], [[2]])
costs("repeated", [[1, 1]], unit(1, 4, 3), [[4]], [[2]])
costs("tight", [[1, 1]], unit(1, 3, 3), [[3]], [[2]])
costs("lengths", [[1, 0], [0, 0], [2, 1]], simplex(3, 4, 4), [[4], [3], [2]], [[2], [1], [2]])
costs("padded-labels", [[1, -1], [3, 9]], unit(2, 4, 4), [[4], [4]], [[1], [0]])
costs("vectors", [[1, 0], [0, 1]], unit(2, 3, 3), [3, 2], [2, 1])
costs("float-labels", np.array([[1.9, 0.2]]), unit(1, 3, 3), [[3.0]], [[2.0]], grad=(1,))
costs("ended-by-blank", [[1, 3, 3], [3, 3, 9]], unit(2, 4, 4), [[4], [4]], [[3], [3]])
costs("no-labels", [[0], [0]], unit(2, 3, 2), [[3], [0]], [[0], [0]])
costs("only-blank", np.zeros((2, 0), "int32"), unit(2, 3, 2), [[3], [2]], [[0], [0]])
# A difference of infinite losses is no number.
costs("no-path", [[1, 1], [1, 0]], unit(2, 2, 3), [[2], [2]], [[2], [2]], grad=False)
costs("zero-length", [[1, 1], [1, 0]], unit(2, 2, 3), [[0], [2]], [[2], [2]], grad=False)
costs("not-normalised", [[0, 1]], floats(1, 4, 3, low=1, high=9), [[4]], [[2]])
case(
    "ctc_batch_cost",
    values([[0, 1, 0]]),
    values(np.zeros((1, 5, 4))),
    values([[5]]),
    values([[2]]),
    id="uniform",
    oracle=np.array([[3.3761237]]),
    grad=False,
    tolerance={"float32": 1e-6, "float64": 1e-7},  # as many digits as are stated
)
case(
    "ctc_batch_cost",
    values([[2, 2, 1]]),
    values(np.zeros((1, 4, 4))),
    values([[4]]),
    values([[3]]),
    id="stated",
    oracle=np.array([[-np.log(0.25**4)]]),
    grad=False,
)
_NO_CLASS = np.array([[np.nan]] * 5)
case(
    "ctc_batch_cost",
    values([[3, 0], [-1, 0], [0, 0], [0, 0], [0, 0]]),
    unit(5, 4, 4),
    values([[4], [4], [5], [-1], [4]]),
    values([[2], [1], [1], [0], [3]]),
    id="no-class",
    oracle=lambda *_: _NO_CLASS,
    grad=False,
    errors=[
        (
            [ints(2, 3), unit(2, 3), ints(2), ints(2)],
            {},
            ValueError,
            r"K\.ctc_batch_cost: y_pred .*3 axes",
        ),
        (
            [ints(2), unit(2, 3, 4), ints(2), ints(2)],
            {},
            ValueError,
            r"K\.ctc_batch_cost: y_true .*2 axes",
        ),
        (
            [ints(3, 2), unit(2, 3, 4), ints(2), ints(2)],
            {},
            ValueError,
            r"K\.ctc_batch_cost: y_true .*3 samples.*2",
        ),
        (
            [ints(2, 2), unit(2, 3, 4), ints(3), ints(2)],
            {},
            ValueError,
            r"K\.ctc_batch_cost: input_length",
        ),
        (
            [ints(2, 2), unit(2, 3, 4), ints(2), ints(2, 2)],
            {},
            ValueError,
            r"K\.ctc_batch_cost: label_length",
        ),
    ],
)


case(
    "ctc_batch_cost",
    unit(3, 2, 3),
    id="nothing-to-learn",
    batch=False,
    grad=False,
    fn=lambda K, pred: K.ctc_batch_cost([[1, 1], [-5, 0], [1, 0]], pred, [2, 2, 0], [2, 1, 0]),
    oracle=np.array([[np.inf], [np.nan], [0]]),
    kinks=[((np.full((3, 2, 3), 0.25),), (np.zeros((3, 2, 3)),))],
)


# --- ctc_decode -----------------------------------------------------------------------------------


def padded(rows: Any, width: int | None = None) -> np.ndarray:
    width = max([len(r) for r in rows], default=0) if width is None else width
    return np.array([[*r, *[-1] * (width - len(r))] for r in rows], "int64").reshape(
        len(rows), width
    )


def greedy(y_pred: Any, input_length: Any, **_: Any) -> list[np.ndarray]:
    found, scores = [], []
    for rows, n in zip(y_pred, np.ravel(input_length).astype(int), strict=True):
        found.append(collapsed(rows[:n].argmax(-1), rows.shape[-1] - 1))
        scores.append([-np.log(rows[:n].max(-1) + EPSILON).sum()])
    return [padded(found), np.array(scores)]


def beam(y_pred: Any, input_length: Any, top_paths: int = 1, **_: Any) -> list[np.ndarray]:
    """All sequences by their probability, which a wide beam must find."""
    rows: list[list[tuple[int, ...]]] = [[] for _ in range(top_paths)]
    scores = []
    for y, n in zip(np.asarray(y_pred, "float64"), np.ravel(input_length).astype(int), strict=True):
        ranked = sorted(sequences(y[:n]).items(), key=lambda item: -item[1])[:top_paths]
        ranked += [((), 0.0)] * (top_paths - len(ranked))
        for k, (labels, _) in enumerate(ranked):
            rows[k].append(labels)
        with np.errstate(divide="ignore"):
            scores.append(np.log([p for _, p in ranked]))
    return [*[padded(r) for r in rows], np.array(scores)]


def decoded(id: str, pred: Any, lengths: Any, oracle: Any, **options: Any) -> None:
    case(
        "ctc_decode",
        pred,
        values(lengths),
        id=id,
        oracle=_cut(oracle),
        fn=_padding_cut,
        grad=False,
        **options,
    )


def _padding_cut(K: Any, *args: Any, **options: Any) -> Any:
    """How far the sequences are padded is up to the engine: here it is as many columns as steps."""
    paths, scores = K.ctc_decode(*args, **options)
    return [*[_all_steps(p, args[0]) for p in paths], scores]


@api
def _all_steps(path: Any, y_pred: Any) -> Any:
    path, steps = as_tensor(path), as_tensor(y_pred).spec.shape[1]
    wider = primitive("pad")(path, padding=((0, 0), (0, steps)), value=-1)
    return wider[:, :steps]


def _cut(oracle: Any) -> Any:
    def widened(y_pred: Any, *args: Any, **options: Any) -> Any:
        *paths, scores = oracle(y_pred, *args, **options)
        steps = y_pred.shape[1]
        return [*[padded(list(p.tolist()), steps) for p in paths], scores]

    return widened


def peaked(*rows: Any, classes: int = 4) -> np.ndarray:
    return np.array([[[0.85 if c == k else 0.05 for c in range(classes)] for k in r] for r in rows])


_PEAKS = peaked([0, 0, 3, 0, 1, 3], [3] * 6, [2, 1, 1, 3, 1, 2])
decoded("greedy-stated", values(_PEAKS), [6, 6, 6], greedy)
# All in one shape: JAX compiles each operation of a decoder for each shape, as its results have
# sizes of their own.
decoded("greedy", unit(3, 6, 4), [5, 2, 0], greedy)
decoded("greedy-column", unit(3, 6, 4), [[5], [4], [6]], greedy)
decoded("greedy-ties", values(np.full((3, 6, 4), 0.25)), [3, 2, 6], greedy)
decoded("greedy-nothing", values(peaked(*[[3] * 6] * 3)), [2, 6, 2], greedy)
_OPTIONS = {"greedy": False, "beam_width": 64}
decoded("beam", unit(3, 4, 4), [4, 0, 3], beam, top_paths=3, **_OPTIONS)
decoded("beam-of-simplex", simplex(3, 4, 4), [4, 2, 3], beam, top_paths=4, **_OPTIONS)
decoded(
    "beam-peaks", values(peaked([0, 2, 0, 1], [1, 1, 2, 1], classes=3)), [4, 4], beam, **_OPTIONS
)
decoded("beam-repeats", floats(2, 5, 2, low=0.4, high=0.6), [5, 4], beam, top_paths=3, **_OPTIONS)
decoded("beam-only-blank", unit(2, 3, 1), [3, 2], beam, **_OPTIONS)
decoded(
    "beam-narrow",
    values([[[0.9, 0.06, 0.04], [0.03, 0.9, 0.07], [0.04, 0.9, 0.06]]]),
    [3],
    beam,
    greedy=False,
    beam_width=3,
    tolerance={"float32": 0.01, "float64": 0.01},
)


def merged(y_pred: Any, input_length: Any, **options: Any) -> list[np.ndarray]:
    *paths, scores = beam(y_pred, input_length, **options)
    short = [[[k for k, _ in itertools.groupby(r) if k >= 0] for r in p.tolist()] for p in paths]
    return [*[padded(p) for p in short], scores]


decoded(
    "beam-merged",
    values(peaked([0, 2, 0, 2], [1, 2, 1, 0], classes=3)),
    [4, 4],
    merged,
    top_paths=2,
    merge_repeated=True,
    **_OPTIONS,
)
case(
    "ctc_decode",
    values([[[0.1, 0.6, 0.3], [0.3, 0.1, 0.6]]]),
    values([2]),
    id="beam-stated",
    fn=lambda K, *a: K.ctc_decode(*a, greedy=False, beam_width=10, top_paths=4)[1],
    oracle=np.array([[-0.7985, -1.7148, -1.7148, -1.7148]]),
    grad=False,
    tolerance={"float32": 5e-5, "float64": 5e-5},  # as many digits as are stated
)
case(
    "ctc_decode",
    values(_PEAKS),
    values([6, 6, 6]),
    id="errors",
    grad=False,
    fn=lambda K, *a, **k: K.ctc_decode(*a, **k)[1],
    errors=[
        ([unit(2, 3), ints(2)], {}, ValueError, r"K\.ctc_decode: y_pred .*3 axes"),
        ([unit(2, 3, 4), ints(3)], {}, ValueError, r"K\.ctc_decode: input_length"),
        ([unit(2, 3, 4), ints(2, 2)], {}, ValueError, r"K\.ctc_decode: input_length"),
        (
            [unit(2, 3, 4), ints(2)],
            {"greedy": False, "beam_width": 2, "top_paths": 3},
            ValueError,
            r"K\.ctc_decode: top_paths .*2, got 3",
        ),
        (
            [unit(2, 3, 4), ints(2)],
            {"greedy": False, "top_paths": 0},
            ValueError,
            r"K\.ctc_decode: top_paths",
        ),
        (
            [unit(2, 3, 4), ints(2)],
            {"greedy": False, "beam_width": 2.5},
            TypeError,
            r"K\.ctc_decode: beam_width",
        ),
    ],
)
case(
    "ctc_decode",
    unit(2, 4, 3),
    id="score-gradient",
    smooth=True,
    batch=True,
    fn=lambda K, y: [K.ctc_decode(y, [4, 3])[1], K.ctc_decode(y, [4, 3], False, 30, 2)[1]],
    oracle=lambda y: [greedy(y, [4, 3])[1], beam(y, [4, 3], 2)[-1]],
)


# --- ctc_label_dense_to_sparse --------------------------------------------------------------------


def _entries(K: Any, labels: Any, lengths: Any) -> Any:
    """The sum of the values and of the row and column numbers, and the shape."""
    sparse = K.ctc_label_dense_to_sparse(labels, lengths)
    return [K.sum(sparse.values), _counted_from_1(sparse.indices), sparse.dense_shape]


@api
def _counted_from_1(indices: Any) -> Any:
    return primitive("sum")(as_tensor(indices) + 1, axes=(0,), keepdims=False)


def _entries_oracle(labels: Any, lengths: Any) -> Any:
    here = np.arange(labels.shape[1]) < np.asarray(lengths).reshape(-1, 1)
    where = np.argwhere(here) + 1
    return [labels[here].sum(dtype=labels.dtype), where.sum(0), np.array(labels.shape)]


case(
    "ctc_label_dense_to_sparse",
    ints(3, 4),
    values([2, 0, 9]),
    fn=_entries,
    oracle=_entries_oracle,
    errors=[
        ([ints(3), ints(3)], {}, ValueError, r"K\.ctc_label_dense_to_sparse: labels"),
        ([ints(3, 2), ints(2)], {}, ValueError, r"K\.ctc_label_dense_to_sparse: label_lengths"),
    ],
)
case(
    "ctc_label_dense_to_sparse",
    floats(2, 3),
    values([[1], [3]]),
    fn=_entries,
    id="floats",
    oracle=_entries_oracle,
    smooth=True,
)
