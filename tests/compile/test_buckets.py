"""`f.in_buckets`: feeds padded to a few sizes, and nothing that depends on the padding."""

from __future__ import annotations

import numpy as np
import pytest

from backplane import backend as K
from backplane.compile.program import statistics

LENGTHS = (3, 5, 8, 4, 7, 2, 5)


def stream():
    rng = np.random.default_rng(0)
    for n in LENGTHS:
        mask = np.ones((2, n), "float32")
        mask[1, n - 1 :] = 0
        yield [rng.normal(size=(2, n, 3)).astype("float32"), mask, np.ones((2, 4), "float32")]


def trainer():
    """A recurrent network with a mask. Its outputs are the loss and all states."""
    x, mask, y = K.placeholder((None, None, 3)), K.placeholder((None, None)), K.placeholder((2, 4))
    rng = np.random.default_rng(1)
    w, u = K.variable(rng.normal(0, 0.3, (3, 4))), K.variable(rng.normal(0, 0.3, (4, 4)))

    def step(row, states):
        h = K.tanh(K.dot(row, w) + K.dot(states[0], u))
        return h, [h]

    last, states, _ = K.rnn(step, x, [K.zeros((2, 4))], mask=mask)
    loss = K.mean(K.square(last - y))
    slopes = K.gradients(loss, [w, u])
    updates = [(v, v - 0.1 * g) for v, g in zip((w, u), slopes, strict=True)]
    return K.function([x, mask, y], [loss, states], updates), (w, u)


def test_training_in_buckets_is_training(engine):
    plain, weights = trainer()
    in_buckets, others = trainer()
    in_buckets = in_buckets.in_buckets([4, 8])
    for batch in stream():
        for want, got in zip(plain(batch), in_buckets(batch), strict=True):
            assert want.shape == got.shape
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    for v, w in zip(weights, others, strict=True):
        np.testing.assert_allclose(K.get_value(w), K.get_value(v), rtol=1e-5, atol=1e-6)


def shapes_seen(f, monkeypatch):
    """The shapes of the first input that the function runs on."""
    found, run = [], f._function.__class__.__call__
    monkeypatch.setattr(
        f._function.__class__, "__call__",
        lambda self, values=(): found.append(np.shape(values[0])[1]) or run(self, values),
    )  # fmt: skip
    return found


def test_a_static_engine_sees_few_sizes(engine, monkeypatch):
    f, _ = trainer()
    bucketed = f.in_buckets(4, check=False)
    found = shapes_seen(f, monkeypatch)
    for batch in stream():
        bucketed(batch)
    static = "static" in engine.capabilities
    assert found == ([4, 8, 8, 4, 8, 4, 8] if static else [*LENGTHS])


def test_what_depends_on_the_padding_is_refused(engine):
    x, w = K.placeholder((None, None)), K.variable([1.0])
    f = K.function([x], [K.sum(x, axis=1), K.mean(x)]).in_buckets([4])
    f([np.ones((2, 4))])  # Nothing is padded, so nothing is wrong.
    with pytest.raises(ValueError, match="output 1 depends on the padding"):
        f([np.ones((2, 3))])
    g = K.function([x], [], [(w, w + K.mean(x))]).in_buckets([4])
    with pytest.raises(ValueError, match=r"the new value of .* depends on the padding"):
        g([np.ones((2, 3))])
    assert K.get_value(w).tolist() == [1.0]


def test_what_depends_on_the_padding_is_refused_beside_infinities(engine):
    x = K.placeholder((None, None))
    f = K.function([x], [K.stack([K.mean(x), K.sum(x) / 0, K.log(-K.sum(x))])])
    with pytest.raises(ValueError, match="output 0 depends on the padding"):
        f.in_buckets([4])([np.ones((2, 3))])
    g = K.function([x], [K.stack([K.sum(x), K.sum(x) / 0, K.log(-K.sum(x))])])
    found = g.in_buckets([4])([np.ones((2, 3))])[0]
    np.testing.assert_array_equal(found, [6, np.inf, np.nan])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_compared_as_such(engine, dtype):
    if dtype in engine.missing_dtypes:
        return
    x = K.placeholder((None, None), dtype=dtype)
    value = np.random.default_rng(0).uniform(size=(2, 71))
    f = K.function([x], [K.sum(x * 1.7, axis=1) / K.cast(0, dtype), K.sum(x * 1.7, axis=1)])
    want, got = f([value]), f.in_buckets(128)([value])
    for a, b in zip(want, got, strict=True):
        np.testing.assert_allclose(b.astype(float), a.astype(float), rtol=1e-2)


@pytest.mark.parametrize("check", [True, False])
def test_a_size_that_several_inputs_share_is_cut(engine, check):
    x, y, mask = [K.placeholder((None, None)) for _ in range(3)]
    loss = K.sum(K.square(x - y) * mask, axis=1)
    f = K.function([x, y, mask], [loss, loss / K.sum(mask, axis=1), x + y])
    feeds = [np.full((3, 2), 2.0), np.ones((3, 2)), np.ones((3, 2))]
    for want, got in zip(f(feeds), f.in_buckets({0: 4}, check=check)(feeds), strict=True):
        np.testing.assert_array_equal(got, want)


def test_several_axes_and_inputs_have_buckets_of_their_own(engine):
    x, y = K.placeholder((None, None)), K.placeholder((None, None))
    f = K.function([x, y], [K.dot(x, K.transpose(y)), x + 1, K.sum(y)])
    g = f.in_buckets({0: [2, 8], 1: 5})
    a, b = np.ones((3, 4)), np.ones((1, 4))
    for want, got in zip(f([a, b]), g([a, b]), strict=True):
        np.testing.assert_allclose(got, want)


def test_single_values_stay_single():
    x = K.placeholder((None, None))
    f = K.function(x, K.sum(x, axis=1)).in_buckets([4])
    assert f(np.ones((2, 3))).tolist() == [3.0, 3.0]


def test_the_check_compiles_once():
    x = K.placeholder((None, None))
    f = K.function([x], [K.sum(x, axis=1)]).in_buckets([4, 8])
    f([np.ones((2, 3))])
    before = statistics.compilations
    for n in (1, 2, 5, 6):
        f([np.ones((2, n))])
    assert statistics.compilations == before


def test_bad_buckets_are_refused():
    x = K.placeholder((None, None))
    f = K.function([x], [K.sum(x, axis=1)])
    for sizes in ([], 0, [4, "8"], [4, -1], [2.5], 2.5, None, True, np.array([4.0])):
        with pytest.raises(ValueError, match="sizes must be whole numbers"):
            f.in_buckets(sizes)
    with pytest.raises(ValueError, match="axis must be a whole number"):
        f.in_buckets({-1: [4]})
    assert f.in_buckets(np.arange(4, 12, 4))([np.ones((2, 3))])[0].tolist() == [3, 3]
    assert f.in_buckets({np.int64(1): np.int32(4)})([np.ones((2, 3))])[0].tolist() == [3, 3]
    with pytest.raises(ValueError, match="no input has an unknown size at axis 2"):
        f.in_buckets({2: [4]})
    with pytest.raises(ValueError, match="size 9 of axis 1 is larger than the largest bucket, 8"):
        f.in_buckets([4, 8])([np.ones((2, 9))])


def test_random_numbers_cannot_be_compared():
    x = K.placeholder((None, None))
    f = K.function([x], [K.sum(K.dropout(x, 0.5), axis=1)])
    with pytest.raises(ValueError, match="check=False"):
        f.in_buckets([4])
    assert f.in_buckets([4], check=False)([np.ones((2, 3))])[0].shape == (2,)
