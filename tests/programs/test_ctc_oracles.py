"""CTC at the size of real use, against PyTorch's loss and TensorFlow's loss and decoders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backplane import backend as K

SAMPLES, TIME, CLASSES, LABELS = 8, 40, 11, 9


@pytest.fixture
def batch() -> dict[str, np.ndarray]:
    """Predictions, labels with repetitions, and lengths such that all labels fit."""
    rng = np.random.default_rng(4)
    logits = rng.normal(0, 2, (SAMPLES, TIME, CLASSES))
    pred = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    labels = rng.integers(0, CLASSES - 1, (SAMPLES, LABELS))
    labels[:, 3] = labels[:, 2]
    return {
        "pred": pred,
        "labels": labels.astype("int32"),
        "steps": rng.integers(2 * LABELS, TIME + 1, (SAMPLES, 1)).astype("int32"),
        "counts": rng.integers(1, LABELS + 1, (SAMPLES, 1)).astype("int32"),
    }


def cost_and_gradient(batch: dict[str, np.ndarray], dtype: str) -> list[np.ndarray]:
    labels = K.placeholder(shape=(None, None), dtype="int32")
    pred = K.placeholder(shape=(None, None, CLASSES), dtype=dtype)
    lengths = [K.placeholder(shape=(None, 1), dtype="int32") for _ in range(2)]
    loss = K.ctc_batch_cost(labels, pred, *lengths)
    assert K.int_shape(loss) == (None, 1)
    (grad,) = K.gradients(loss, [pred])
    f = K.function([labels, pred, *lengths], [loss, grad])
    found: list[np.ndarray] = f([batch["labels"], batch["pred"], batch["steps"], batch["counts"]])
    return found


def test_cost_equals_torch(engine: Any, batch: dict[str, np.ndarray]) -> None:
    torch = pytest.importorskip("torch")
    found, grad = cost_and_gradient(batch, "float64")
    pred = torch.tensor(batch["pred"], requires_grad=True)
    logs = torch.log_softmax(torch.log(pred + K.epsilon()), -1).transpose(0, 1)
    loss = torch.nn.functional.ctc_loss(
        logs,
        torch.tensor(batch["labels"]),
        torch.tensor(batch["steps"][:, 0]),
        torch.tensor(batch["counts"][:, 0]),
        blank=CLASSES - 1,
        reduction="none",
    )
    loss.sum().backward()
    np.testing.assert_allclose(found[:, 0], loss.detach().numpy(), rtol=1e-11)
    wanted = pred.grad.numpy()
    np.testing.assert_allclose(grad, wanted, rtol=1e-9, atol=1e-10 * np.abs(wanted).max())
    late = np.arange(TIME) >= batch["steps"]
    assert late.any()
    assert not grad[late].any()


def test_cost_equals_tensorflow(engine: Any, batch: dict[str, np.ndarray]) -> None:
    tf = pytest.importorskip("tensorflow")
    found, grad = cost_and_gradient(batch, "float32")
    pred = tf.constant(batch["pred"], "float32")
    with tf.GradientTape() as tape:
        tape.watch(pred)
        loss = tf.nn.ctc_loss(
            batch["labels"],
            tf.math.log(pred + K.epsilon()),
            batch["counts"][:, 0],
            batch["steps"][:, 0],
            logits_time_major=False,
            blank_index=CLASSES - 1,
        )
    np.testing.assert_allclose(found[:, 0], loss.numpy(), rtol=2e-5)
    wanted = tape.gradient(loss, pred).numpy()
    np.testing.assert_allclose(grad, wanted, rtol=1e-3, atol=1e-4 * np.abs(wanted).max())


def test_a_probability_that_is_no_number_gives_no_number(engine: Any) -> None:
    """In the sample that it belongs to."""
    pred = np.full((2, 3, 3), 1 / 3, "float32")
    pred[0, 1, 0] = np.nan
    y = K.placeholder(shape=(2, 3, 3))
    loss = K.ctc_batch_cost(np.array([[1], [1]]), y, np.array([3, 3]), np.array([1, 1]))
    found, grad = K.function([y], [loss, K.gradients(loss, [y])[0]])([pred])
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1]).all()
    assert np.isnan(grad[0]).any()
    assert np.isfinite(grad[1]).all()


def test_scores_that_are_no_numbers_give_no_number(engine: Any) -> None:
    """Whether the labels fit into the steps, do not, or there are none."""
    x = K.placeholder((3, 4, 3))
    labels = np.array([[0, 1], [0, 0], [1, 0]])
    loss = K.ctc_batch_cost(labels, K.softmax(x), np.array([4, 2, 3]), np.array([2, 2, 0]))
    scores = np.random.default_rng(0).normal(size=(3, 4, 3)).astype("float32")
    scores[:, 0, 1] = np.nan
    assert np.isnan(K.function([x], [loss])([scores])[0]).all()


def test_a_label_of_probability_zero_does_not_fit(engine: Any) -> None:
    pred = np.full((2, 3, 3), 1 / 3)
    pred[0, :, 1] = 0
    pred[1, 0, 1] = 0
    y = K.placeholder(shape=(2, 3, 3), dtype="float64")
    epsilon = K.epsilon()
    K.set_epsilon(0.0)
    try:
        loss = K.ctc_batch_cost(np.array([[1], [1]]), y, np.array([3, 3]), np.array([1, 1]))
    finally:
        K.set_epsilon(epsilon)
    found, grad = K.function([y], [loss, K.gradients(loss, [y])[0]])([pred])
    # Label in the second, the third or both steps, a blank in the others.
    np.testing.assert_allclose(found, [[np.inf], [-np.log(3 / 18)]], rtol=1e-12)
    assert not grad[0, 0].any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_second_derivatives_equal_differences(engine: Any, dtype: str) -> None:
    """The gradient of a function of the gradient, in which each sample's loss counts otherwise."""
    rng = np.random.default_rng(6)
    labels, steps, counts = np.array([[1, 1], [0, 2]]), np.array([5, 4]), np.array([2, 1])
    y = K.placeholder(shape=(2, 5, 4), dtype=dtype)
    weights, direction = (rng.normal(size=s).astype(dtype) for s in ((2, 1), (2, 5, 4)))
    loss = K.sum(K.square(K.ctc_batch_cost(labels, K.softmax(y), steps, counts)) * weights)
    (slope,) = K.gradients(loss, [y])
    (curve,) = K.gradients(K.sum(slope * direction), [y])
    f = K.function([y], [slope, curve])
    x, h = rng.normal(size=(2, 5, 4)).astype(dtype), 1e-5 if dtype == "float64" else 1e-2
    _, found = f([x])
    ahead, behind = (f([x + sign * h * direction])[0] for sign in (1, -1))
    near = 1e-7 if dtype == "float64" else 5e-3
    np.testing.assert_allclose(found, (ahead - behind) / (2 * h), atol=near * np.abs(found).max())


def decode(pred: np.ndarray, steps: np.ndarray, **options: Any) -> list[np.ndarray]:
    y = K.placeholder(shape=(None, None, pred.shape[-1]), dtype=pred.dtype.name)
    lengths = K.placeholder(shape=(None,), dtype="int32")
    paths, scores = K.ctc_decode(y, lengths, **options)
    found: list[np.ndarray] = K.function([y, lengths], [*paths, scores])([pred, steps])
    return found


def same_labels(found: np.ndarray, wanted: np.ndarray) -> None:
    """Equal, the width included."""
    np.testing.assert_array_equal(found, wanted)


def test_greedy_equals_tensorflow(engine: Any, batch: dict[str, np.ndarray]) -> None:
    tf = pytest.importorskip("tensorflow")
    pred, steps = batch["pred"].astype("float32"), batch["steps"][:, 0]
    found, score = decode(pred, steps)
    logs = np.log(pred.transpose(1, 0, 2) + np.float32(K.epsilon()))
    (wanted,), likelihood = tf.nn.ctc_greedy_decoder(logs, steps)
    same_labels(found, tf.sparse.to_dense(wanted, -1).numpy())
    np.testing.assert_allclose(score, likelihood.numpy(), rtol=1e-5)


def test_beam_without_pruning_equals_tensorflow(engine: Any) -> None:
    """A beam with a place for every sequence: 2 labels in 6 steps make 127."""
    tf = pytest.importorskip("tensorflow")
    pred = np.random.default_rng(2).dirichlet([1, 1, 1], (10, 6)).astype("float32")
    steps = np.array([6, 6, 6, 6, 5, 5, 4, 3, 2, 2], "int32")
    *found, score = decode(pred, steps, greedy=False, beam_width=127, top_paths=3)
    logs = np.log(pred.transpose(1, 0, 2) + np.float32(K.epsilon()))
    wanted, likelihood = tf.nn.ctc_beam_search_decoder(logs, steps, 127, 3)
    np.testing.assert_allclose(score, likelihood.numpy(), rtol=1e-5)
    for path, labels in zip(found, wanted, strict=True):
        same_labels(path, tf.sparse.to_dense(labels, -1).numpy())


def prefix_search(rows: np.ndarray, width: int) -> list[tuple[float, tuple[int, ...]]]:
    """The search as in textbooks, over a dict of prefixes: (blank end, label end) of each."""
    p = rows.astype("float64") + K.epsilon()
    p /= p.sum(-1, keepdims=True)
    beam: dict[tuple[int, ...], np.ndarray] = {(): np.array([1.0, 0.0])}
    for row in p:
        new: dict[tuple[int, ...], np.ndarray] = {}
        for labels, ends in beam.items():
            again = ends[1] * row[labels[-1]] if labels else 0.0
            new[labels] = new.get(labels, 0) + np.array([ends.sum() * row[-1], again])
            for c in range(len(row) - 1):
                before = ends[0] if labels[-1:] == (c,) else ends.sum()
                longer = (*labels, c)
                new[longer] = new.get(longer, 0) + np.array([0.0, before * row[c]])
        beam = dict(sorted(new.items(), key=lambda item: -item[1].sum())[:width])
    return [(float(np.log(ends.sum())), labels) for labels, ends in beam.items()]


@pytest.mark.parametrize("width", [1, 2, 4, 30])
@pytest.mark.parametrize("classes", [3, 7])
def test_beam_equals_the_textbook(engine: Any, width: int, classes: int) -> None:
    """Prefixes are dropped and found again, and must stay one. (TensorFlow, too, prunes, but while
    it is still adding candidates, and does not extend some of those it drops.)"""
    paths = min(width, 4)
    pred = np.random.default_rng(11).dirichlet([0.7] * classes, (12, 25))
    steps = np.array([25] * 10 + [7, 0], "int32")
    *found, score = decode(pred, steps, greedy=False, beam_width=width, top_paths=paths)
    for sample, count in enumerate(steps):
        wanted = prefix_search(pred[sample, :count], width)[:paths]
        for k, (likelihood, labels) in enumerate(wanted):
            assert tuple(found[k][sample][found[k][sample] >= 0]) == labels
            assert score[sample, k] == pytest.approx(likelihood, rel=1e-9)
        assert np.isneginf(score[sample, len(wanted) :]).all()


def test_width_is_that_of_the_longest(engine: Any) -> None:
    """As in TensorFlow."""
    pred = np.full((2, 5, 3), 0.1, "float32")
    pred[:, :, 2] = 0.8
    pred[0, 1] = [0.8, 0.1, 0.1]
    found, _ = decode(pred, np.array([5, 5]))
    np.testing.assert_array_equal(found, [[0], [-1]])
    found, _ = decode(pred[1:], np.array([5]))
    assert found.shape == (1, 0)
    (path,), _ = K.ctc_decode(pred, np.array([5, 5]))
    assert path.shape == (2, 1)


def test_sparse_labels(engine: Any) -> None:
    sparse = K.ctc_label_dense_to_sparse(np.array([[0, 1, 0, 0], [2, 2, 1, 0]]), np.array([2, 3]))
    indices, values, shape = (
        engine.to_numpy(t) for t in (sparse.indices, sparse.values, sparse.dense_shape)
    )
    assert indices.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [1, 2]]
    assert values.tolist() == [0, 1, 2, 2, 1]
    assert shape.tolist() == [2, 4]
    assert indices.dtype == shape.dtype == "int64"


def test_training_reduces_the_loss(engine: Any, batch: dict[str, np.ndarray]) -> None:
    """A linear network under CTC, and what it reads afterwards."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 12, 6)).astype("float32")
    w = K.variable(rng.normal(0, 0.1, (6, 4)))
    inputs = K.placeholder(shape=(None, 12, 6))
    pred = K.softmax(K.dot(inputs, w))
    loss = K.mean(
        K.ctc_batch_cost(np.array([[0, 1, 2], [2, 2, 0]]), pred, [[12], [12]], [[3], [2]])
    )
    (g,) = K.gradients(loss, [w])
    train = K.function([inputs], [loss], updates=[K.update_sub(w, 0.5 * g)])
    losses = [train([x])[0] for _ in range(60)]
    assert losses[-1] < 0.3 * losses[0]
    assert np.isfinite(losses).all()


@pytest.mark.parametrize(
    ("steps", "classes", "margin"), [(1, 2, 20), (3, 3, 18), (6, 4, 16), (12, 6, 17), (8, 5, 12)]
)
def test_confident_predictions_keep_their_digits(
    engine: Any, steps: int, classes: int, margin: float
) -> None:
    """Losses that are no larger than the rounding of a probability near 1."""
    logits = np.zeros((2, steps, classes))
    logits[:, :, -1] = margin  # blanks, behind one label
    labels = np.array([[0], [1 % (classes - 1)]])
    logits[:, 0] = 0
    logits[[0, 1], 0, labels[:, 0]] = margin
    shares = np.exp(logits - margin)
    shares = (shares / shares.sum(axis=-1, keepdims=True)).astype("float32")
    lengths, counts = [[steps]] * 2, [[1]] * 2

    def losses(dtype: str) -> list[np.ndarray]:
        y = K.placeholder((2, steps, classes), dtype=dtype)
        cost = K.ctc_batch_cost(labels, y, lengths, counts)
        return K.function([y], [cost, *K.gradients(K.sum(cost), [y])])([shares.astype(dtype)])

    with K.engine("numpy"):
        wanted = losses("float64")
    for dtype, tolerance in (("float32", 1e-5), ("float64", 1e-12)):
        for found, want in zip(losses(dtype), wanted, strict=True):
            atol = tolerance * np.abs(want).max()
            np.testing.assert_allclose(found, want, rtol=tolerance, atol=atol)
