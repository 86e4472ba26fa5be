"""Functions of NumPy and of the engines' libraries that are called on our tensors themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor.tensor as pt
import pytest
import scipy.sparse
import tensorflow as tf
import torch
import torch.nn.functional as F

from backplane import backend as K

X = np.random.default_rng(0).uniform(-1, 1, (2, 3)).astype("float32")
W = np.random.default_rng(1).uniform(-1, 1, (3, 2)).astype("float32")


def computed(x: Any, *tensors: Any) -> list[np.ndarray]:
    """The values of tensors for `X`."""
    return K.function([x], list(tensors))([X])


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x)
    return e / e.sum(1, keepdims=True)


@pytest.fixture
def x() -> Any:
    return K.placeholder((None, 3))


@pytest.fixture
def w() -> Any:
    return K.variable(W)


class TestTensorFlow:
    @pytest.fixture(autouse=True)
    def in_force(self) -> Iterator[None]:
        with K.engine("tensorflow"):
            yield

    def test_values(self, x, w):
        ys = {
            tf.nn.softmax(x, axis=1): softmax(X),
            tf.concat([x, x * 2], 0): np.concatenate([X, 2 * X]),
            tf.where(x > 0, x, tf.zeros_like(x)): np.where(X > 0, X, 0),
            tf.reduce_sum(tf.square(x), axis=-1): np.square(X).sum(-1),
            tf.matmul(x, w): X @ W,
            tf.einsum("ij,jk->ki", x, w): (X @ W).T,
            tf.stack([x, x], axis=1): np.stack([X, X], 1),
            tf.cond(K.sum(w) > 100, lambda: x, lambda: -x): -X,
            tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=x): np.log1p(np.exp(-X))
            + X * (1 - X),
            tf.split(x, 3, axis=1)[1]: X[:, 1:2],
            K.tf.sin(x): np.sin(X),
        }
        for found, wanted in zip(computed(x, *ys), ys.values(), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)

    def test_shapes(self, x):
        image = K.reshape(x, (-1, 1, 3, 1))
        assert K.int_shape(tf.image.resize(image, (4, 6))) == (None, 4, 6, 1)
        assert K.int_shape(tf.shape(x)) == (2,)
        assert K.int_shape(tf.boolean_mask(x, x[:, 0] > 0)) == (None, 3)
        x.set_shape((2, 3))
        assert K.int_shape(x) == (2, 3)
        with pytest.raises(ValueError, match="contradicts the shape"):
            x.set_shape([2, 4])

    def test_gradients_reach_variables(self, x, w):
        y = tf.reduce_sum(tf.tanh(tf.matmul(x, w)))
        (g,) = K.gradients(y, [w])
        (gg,) = K.gradients(K.sum(g * g), [x])
        slope = 1 - np.tanh(X @ W) ** 2
        found = computed(x, g, gg)
        np.testing.assert_allclose(found[0], X.T @ slope, rtol=1e-4)
        exact = K.gradients(K.sum(K.tanh(K.dot(x, w))), [w])[0]
        (wanted,) = K.gradients(K.sum(exact * exact), [x])
        np.testing.assert_allclose(found[1], computed(x, wanted)[0], rtol=1e-4)

    def test_operators_keep_the_rule_of_k(self, x, w):
        assert isinstance(tf.constant(2.0) * w, tf.Tensor)
        assert computed(x, tf.constant(2.0) - x)[0][0, 0] == 2 - X[0, 0]

    def test_a_dropout_has_values_and_no_gradient(self, x):
        y = tf.nn.dropout(x, 0.5)
        assert set(np.unique(np.isclose(computed(x, y)[0], 2 * X))) <= {True, False}
        with pytest.raises(ValueError, match=r"K\.dropout"):
            K.gradients(y, [x])

    def test_in_loops(self, x, w):
        step = lambda row, states: (tf.matmul(row, w), states)  # noqa: E731
        _, outputs, _ = K.rnn(step, K.expand_dims(x, 0), [])
        found = computed(x, outputs, *K.gradients(K.sum(outputs), [w]))
        np.testing.assert_allclose(found[0][0], X @ W, rtol=1e-5)
        np.testing.assert_allclose(found[1], X.sum(0)[:, None] * np.ones((1, 2)), rtol=1e-5)

    def test_errors_are_tensorflows(self, w):
        with pytest.raises(ValueError, match=r"fails on stand-ins(.|\n)*Dimensions must be equal"):
            tf.matmul(w, w)


class TestPyTorch:
    @pytest.fixture(autouse=True)
    def in_force(self) -> Iterator[None]:
        with K.engine("torch"):
            yield

    def test_values(self, x, w):
        layer = torch.nn.Linear(3, 2)
        ys = {
            torch.softmax(x, 1): softmax(X),
            F.softmax(x, dim=1): softmax(X),
            torch.cat([x, x * 2], 0): np.concatenate([X, 2 * X]),
            torch.where(x > 0, x, torch.zeros_like(x)): np.where(X > 0, X, 0),
            torch.matmul(x, w): X @ W,
            torch.split(x, 1, dim=1)[1]: X[:, 1:2],
            layer(x): layer(torch.tensor(X)).detach().numpy(),
            torch.tensor(2.0) * x: 2 * X,
            torch.tensor(0.5) < x: X > 0.5,
        }
        for found, wanted in zip(computed(x, *ys), ys.values(), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
        assert K.eval(torch.sin(K.variable(1.0))) == pytest.approx(np.sin(1))

    def test_gradients_reach_variables(self, x, w):
        y = torch.sum(torch.tanh(torch.matmul(x, w)))
        found = computed(x, *K.gradients(y, [w]))
        np.testing.assert_allclose(found[0], X.T @ (1 - np.tanh(X @ W) ** 2), rtol=1e-4)

    def test_operators_keep_the_rule_of_k(self, w):
        assert isinstance(torch.tensor(2.0) * w, torch.Tensor)

    def test_old_autograd_functions(self, x):
        class Cube(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, a: Any) -> Any:
                ctx.save_for_backward(a)
                return a**3

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return g * 7 * ctx.saved_tensors[0]

        y = K.native(Cube.apply, x)
        found = computed(x, y, *K.gradients(y, [x]))
        np.testing.assert_allclose(found[0], X**3, rtol=1e-5)
        np.testing.assert_allclose(found[1], 7 * X, rtol=1e-5)

    def test_compiled_programs(self, x, w):
        y = torch.softmax(torch.matmul(x, w), 1)
        (g,) = K.gradients(K.sum(y * y), [w])
        wanted = computed(x, y, g)
        compiled = K.function([x], [y, g], compile={"backend": "aot_eager"})([X])
        for a, b in zip(compiled, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)

    def test_a_dropout_draws_anew(self, x):
        y = F.dropout(x, 0.5)
        f = K.function([x], [y])
        assert any((f([X])[0] != f([X])[0]).any() for _ in range(5))
        with pytest.raises(ValueError, match=r"K\.dropout"):
            K.gradients(y, [x])


def test_pytensor(x, w):
    with K.engine("theano"):
        chosen = pt.switch(x > 0, x, 0.0)
        total = K.sum(chosen * 2)
        product = pt.dot(x, w)
        found = computed(
            x, total, *K.gradients(total, [x]), product, *K.gradients(pt.sum(product), [w]),
            pt.concatenate([x, x], axis=0), K.square(pt.special.softmax(x, axis=1)), K.T.exp(x),
        )  # fmt: skip
    wanted = [
        2 * np.maximum(X, 0).sum(), 2 * (X > 0), X @ W, X.sum(0)[:, None] * np.ones((1, 2)),
        np.concatenate([X, X]), softmax(X) ** 2, np.exp(X),
    ]  # fmt: skip
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_jax_takes_tensors_inside_of_its_functions_only(x, w):
    for call in (
        jnp.sin,
        lambda t: jnp.stack([t, t]),
        jax.nn.softmax,
        lambda t: jnp.where(t, t, 0),
    ):
        with pytest.raises(TypeError, match=r"K\.native"):
            call(x)
    with K.engine("jax"):
        assert computed(x, jnp.ones(3) * x)[0].shape == (2, 3)
        rows = lambda a: jax.lax.map(lambda row: jnp.dot(row, w), a)  # noqa: E731
        y = K.native(lambda a: rows(a) + K.sum(w) * w[0, 0] + jnp.stack([w, w]).sum(), x)
        found = computed(x, y, *K.gradients(K.sum(y), [w]))
    np.testing.assert_allclose(found[0], X @ W + W.sum() * W[0, 0] + 2 * W.sum(), rtol=1e-5)
    slope = X.sum(0)[:, None] + 4 * (W[0, 0] + 2) * np.ones((3, 2))
    slope[0, 0] += 4 * W.sum()
    np.testing.assert_allclose(found[1], slope, rtol=1e-5)


def test_sizes_computed_from_known_ones_are_known_to_tensorflow():
    with K.engine("tensorflow"):
        x = K.placeholder((None, None, 2, 4))
        sizes = [n or K.shape(x)[i] for i, n in enumerate(K.int_shape(x))]
        y = tf.reshape(x, [*sizes[:2], K.prod(sizes[2:])])
        assert K.int_shape(y) == (None, None, 8)
        assert tf.reshape(x, [K.prod(K.shape(x)[:3]), 4]).shape.as_list() == [None, 4]
        (found,) = K.function([x], [K.dot(y, K.ones((8, 1)))])([np.ones((2, 3, 2, 4))])
        np.testing.assert_array_equal(found, np.full((2, 3, 1), 8))


def test_ranks_that_depend_on_unknown_sizes():
    with K.engine("tensorflow"):
        lengths = K.placeholder((None, 1), dtype="int32")
        y = tf.squeeze(lengths)
        assert K.int_shape(y) == (None,)
        assert K.function([lengths], [y * 2])([[[3], [4]]])[0].tolist() == [6, 8]


class TestSparseTensorsOfTensorFlow:
    """Functions that take and give a `tf.SparseTensor`: K sees one as its parts."""

    @pytest.fixture(autouse=True)
    def in_force(self) -> Iterator[None]:
        with K.engine("tensorflow"):
            yield

    def test_made_reordered_and_made_dense_again(self, x):
        # The affinity of the nearest neighbours, as spectral networks write it.
        values, places = tf.nn.top_k(x, 2)
        rows = tf.tile(tf.reshape(tf.range(tf.shape(x)[0]), [-1, 1]), [1, 2])
        pairs = tf.stack([tf.reshape(rows, [-1]), tf.reshape(places, [-1])], axis=1)
        entries = tf.SparseTensor(
            indices=tf.cast(pairs, "int64"),
            values=tf.reshape(values, [-1]),
            dense_shape=tf.cast(tf.shape(x), "int64"),
        )
        assert K.is_sparse(entries)
        assert entries.get_shape().as_list() == [None, None]
        ordered = tf.sparse.reorder(entries)
        dense = tf.sparse.to_dense(ordered)
        (slopes,) = K.gradients(K.sum(K.square(dense)), [x])
        wanted = np.where(X.min(1, keepdims=True) == X, 0, X)
        sums = tf.sparse.reduce_sum(ordered, axis=1)
        found = computed(x, dense, K.to_dense(entries), K.sum(ordered, axis=1), sums, slopes)
        np.testing.assert_allclose(found[0], wanted)
        np.testing.assert_allclose(found[1], wanted)
        np.testing.assert_allclose(found[2], wanted.sum(1), rtol=1e-6)
        np.testing.assert_allclose(found[3], wanted.sum(1), rtol=1e-6)
        np.testing.assert_allclose(found[4], 2 * wanted)

    def test_decoded_labels_and_their_edit_distance(self):
        # The error rate of labels: a decoder of TensorFlow beside labels of K.
        y = K.placeholder((None, None, 4))
        labels, lengths = K.placeholder((None, None), dtype="int32"), K.placeholder((None,))
        steps = tf.fill([tf.shape(y)[0]], tf.shape(y)[1])
        (decoded,), _ = tf.nn.ctc_greedy_decoder(tf.transpose(y, [1, 0, 2]), steps)
        truth = K.ctc_label_dense_to_sparse(labels, K.cast(lengths, "int32"))
        wrong = tf.edit_distance(tf.cast(decoded, "int32"), truth, normalize=True)
        f = K.function([y, labels, lengths], [wrong])
        scores = 9.0 * np.eye(4)[[[0, 0, 3, 1], [2, 3, 2, 3]]]
        found = f([scores, [[0, 1, 0], [2, 1, 2]], [2, 3]])[0]
        np.testing.assert_allclose(found, [0, 1 / 3], rtol=1e-6)

    def test_sparse_placeholders_and_variables(self, w):
        a = K.placeholder((None, 3), sparse=True)
        y = tf.sparse.sparse_dense_matmul(a, w)
        (slopes,) = K.gradients(K.sum(y), [w])
        data = np.where(X > 0, X, 0)
        found = K.function([a], [y, slopes])([scipy.sparse.csr_matrix(data)])
        np.testing.assert_allclose(found[0], data @ W, rtol=1e-5)
        np.testing.assert_allclose(found[1], np.repeat(data.sum(0)[:, None], 2, 1), rtol=1e-6)

    def test_in_arithmetic_they_are_dense(self, x):
        entries = K.native(tf.sparse.from_dense, x)
        twice = K.native(lambda s: tf.sparse.add(s, s), entries)
        results = [twice, entries * 2, 1 - entries, entries + entries, K.dot(entries, K.eye(3))]
        wanted = [2 * X, 2 * X, 1 - X, 2 * X, X]
        for found, want in zip(computed(x, *map(K.to_dense, results)), wanted, strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-6)
        assert computed(x, entries)[0].tolist() == X.tolist()

    def test_of_values(self):
        made = K.native(tf.sparse.from_dense, tf.constant(X))
        assert isinstance(made, tf.SparseTensor)
        labels = K.ctc_label_dense_to_sparse(tf.constant([[3, 1], [2, 0]]), tf.constant([2, 1]))
        assert tf.sparse.to_dense(labels).numpy().tolist() == [[3, 1], [2, 0]]
        assert K.is_sparse(labels)
        assert K.to_dense(labels).numpy().tolist() == [[3, 1], [2, 0]]


def test_what_tensors_of_tensorflow_have_besides(x):
    assert x.get_shape().as_list() == [None, 3]
    assert x.shape[1] == 3
    assert (x * 2.0).op.name == "mul"
    with pytest.raises(AttributeError, match="there is no global graph"):
        _ = x.graph
    assert not hasattr(x, "_keras_history")
    x.graph = "somebody's own"
    assert x.graph == "somebody's own"


def test_a_graph_runs_on_the_engine_of_its_functions(x):
    y = tf.sin(x)
    with K.engine("numpy"), pytest.raises(TypeError, match="cannot run on 'numpy'"):
        computed(x, y)
    with K.engine("tensorflow"):
        np.testing.assert_allclose(computed(x, y)[0], np.sin(X), rtol=1e-5)
