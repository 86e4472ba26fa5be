"""Attention as one node, for engines that have a kernel for it, however it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane import engines
from backplane.compile import passes
from backplane.core.graph import toposort
from backplane.ops.groups import attention
from core.evaluate import leaf

RNG = np.random.default_rng(11)
KEYS, WIDTH = 128, 8
FAR = np.triu(np.full((3, KEYS), -1e9, "float32"), 1)
SEEN = FAR == 0

Form = Callable[..., Any]


def scores(q: Any, k: Any) -> Any:
    return K.batch_dot(q, k, axes=(2, 2))


def plain(q: Any, k: Any, v: Any) -> Any:
    return K.batch_dot(K.softmax(scores(q, k)), v)


def divided(q: Any, k: Any, v: Any) -> Any:
    return K.batch_dot(K.softmax(scores(q, k) / np.sqrt(WIDTH)), v, axes=(2, 1))


def scaled_query(q: Any, k: Any, v: Any) -> Any:
    return K.matmul(K.softmax(K.matmul(0.25 * q, K.permute_dimensions(k, (0, 2, 1)))), v)


def scaled_with_bias(q: Any, k: Any, v: Any) -> Any:
    return K.batch_dot(K.softmax((FAR + scores(q, k)) * 0.5), v)


def several_masks(q: Any, k: Any, v: Any) -> Any:
    mask = K.cast(K.greater(K.sum(k, axis=2), 0), "float32")
    found = FAR + scores(q, k) / 4 - 1e9 * (1 - K.expand_dims(mask, 1))
    return K.batch_dot(K.softmax(found + K.constant(FAR) * 0.5), v)


def chosen(q: Any, k: Any, v: Any) -> Any:
    return K.batch_dot(K.softmax(K.where(K.constant(SEEN, "bool"), scores(q, k), -1e9)), v)


def cast(q: Any, k: Any, v: Any) -> Any:
    """As `Attention` of Keras writes it."""
    found = 0.5 * scores(q, k) - 1e9 * K.cast(K.constant(~SEEN[None], "bool"), "float32")
    return K.batch_dot(K.softmax(K.cast(K.greater(K.sum(v), 1e3), "float32") * 2 + found), v)


def switched(q: Any, k: Any, v: Any) -> Any:
    found = 0.5 * scores(q, k) + FAR
    hidden = K.constant(~SEEN[None], "bool")
    return K.batch_dot(K.softmax(K.switch(hidden, -1e9 * K.ones_like(found), found)), v)


def einsum(q: Any, k: Any, v: Any) -> Any:
    weights = K.softmax(K.einsum("btd,bsd->bts", q, k) * WIDTH**-0.5)
    return K.einsum("bts,bsd->btd", weights, v)


def by_hand(q: Any, k: Any, v: Any) -> Any:
    found = scores(q, k) / 3 + FAR
    e = K.exp(found - K.max(found, axis=-1, keepdims=True))
    return K.batch_dot(e / K.sum(e, axis=-1, keepdims=True), v)


def of_products(q: Any, k: Any, v: Any) -> Any:
    """Scores by contents and by places, as of relative positions."""
    return K.batch_dot(K.softmax(scores(q, k) + scores(q * 2, K.tanh(k))), v)


def turned(q: Any, k: Any, v: Any) -> Any:
    """Keys and values with their width first."""
    k, v = (K.permute_dimensions(t + 1, (0, 2, 1)) for t in (k, v))
    return K.batch_dot(K.softmax(K.batch_dot(q, k) * 0.5), v, axes=(2, 2))


FORMS = [
    plain, divided, scaled_query, scaled_with_bias, several_masks, chosen, cast, switched, einsum,
    by_hand, of_products, turned,
]  # fmt: skip


# --- what is no attention -------------------------------------------------------------------------


def read_twice(q: Any, k: Any, v: Any) -> Any:
    weights = K.softmax(scores(q, k))
    return K.batch_dot(weights, v) + K.sum(weights)


def scores_read(q: Any, k: Any, v: Any) -> Any:
    found = scores(q, k)
    return K.batch_dot(K.softmax(found), v) + K.sum(found)


def dropped(q: Any, k: Any, v: Any) -> Any:
    return K.batch_dot(K.dropout(K.softmax(scores(q, k)), 0.5, seed=3), v)


def multiplied(q: Any, k: Any, v: Any) -> Any:
    return K.batch_dot(K.softmax(scores(q, k) * K.constant(SEEN, "float32")), v)


def by_columns(q: Any, k: Any, v: Any) -> Any:
    return K.batch_dot(K.softmax(scores(q, k), axis=1), v)


def without_maximum(q: Any, k: Any, v: Any) -> Any:
    e = K.exp(scores(q, k))
    return K.batch_dot(e / K.sum(e, axis=-1, keepdims=True), v)


def other_maximum(q: Any, k: Any, v: Any) -> Any:
    found = scores(q, k)
    e = K.exp(found - K.max(found, axis=1, keepdims=True))
    return K.batch_dot(e / K.sum(e, axis=-1, keepdims=True), v)


def barely_hidden(q: Any, k: Any, v: Any) -> Any:
    return K.batch_dot(K.softmax(K.where(K.constant(SEEN, "bool"), scores(q, k), -3.0)), v)


def capped(q: Any, k: Any, v: Any) -> Any:
    return K.batch_dot(K.softmax(K.tanh(scores(q, k))), v)


def larger_bias(q: Any, k: Any, v: Any) -> Any:
    bias = K.constant(RNG.normal(size=(4, 3, KEYS)))
    return K.matmul(K.softmax(K.matmul(q[0], K.transpose(k[0])) + bias), v[:4])


def transposed(q: Any, k: Any, v: Any) -> Any:
    weights = K.permute_dimensions(K.softmax(scores(k, q)), (0, 2, 1))
    return K.batch_dot(weights, v)


NEAR = [
    read_twice, scores_read, dropped, multiplied, by_columns, without_maximum, other_maximum,
    barely_hidden, capped, larger_bias, transposed,
]  # fmt: skip


@pytest.fixture(autouse=True)
def joining() -> Iterator[Any]:
    """An engine that has the kernel, in force. Others keep the programs as they are."""
    for engine in map(engines.get, filter(engines.installed, engines.names())):
        if attention.name in engine.table:
            with K.engine(engine.name):
                yield engine
            return
    pytest.skip("no installed engine has the kernel")


def operands(batch: int | None = None, keys: int | None = KEYS, dtype: str = "float32") -> Any:
    return [leaf(batch, n, WIDTH, dtype=dtype) for n in (3, keys, keys)]


def joined(outputs: list[Any], engine: Any) -> int:
    """How many such nodes a program of the engine has."""
    found = passes.optimized(outputs, passes.Job(engine)).outputs
    return [node.op for node in toposort(found)].count(attention)


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    return [RNG.normal(size=shape).astype("float32") for shape in shapes]


def both(form: Form, given: list[Any], data: list[Any]) -> tuple[Any, Any]:
    """The results with and without the pass."""
    found = K.function(given, [form(*given)])(data)[0]
    with passes.without("join_groups"):
        return found, K.function(given, [form(*given)])(data)[0]


def same(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("batch", [None, 4, 1])
def test_each_form_is_one_node(joining: Any, form: Form, batch: int | None) -> None:
    y = form(*operands(batch))
    assert joined([y], joining) == 1
    found = toposort(passes.optimized([y], passes.Job(joining)).outputs)
    present = {node.op.name for node in found if node.op}
    assert present.isdisjoint(("softmax", "exp"))
    assert ("matmul" in present) == (form is of_products)


@pytest.mark.parametrize("form", NEAR)
def test_near_misses_stay_what_they_are(joining: Any, form: Form) -> None:
    assert joined([form(*operands(4))], joining) == 0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_dtypes_and_few_keys_stay(joining: Any, dtype: str) -> None:
    assert joined([plain(*operands(dtype=dtype))], joining) == 0
    assert joined([plain(*operands(keys=5))], joining) == 0
    assert joined([plain(*operands(keys=None))], joining) == 1


def test_gradients_and_tapes_go_without(joining: Any) -> None:
    given = operands()
    y = divided(*given)
    slopes = K.gradients(K.sum(y), given)
    assert joined([y, *slopes], joining) == 0
    for job in (passes.Job(joining, keep_stops=True), passes.Job(joining, loops=True)):
        found = toposort(passes.optimized([y], job).outputs)
        assert attention not in [t.op for t in found]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("batch", [2, 0])
def test_values_are_those_of_what_was_written(form: Form, batch: int) -> None:
    shapes = [(batch, n, WIDTH) for n in (3, KEYS, KEYS)]
    same(*both(form, operands(), arrays(*shapes)))


@pytest.mark.parametrize("keys", [1, 5, 127, 128, 513, 1100])
def test_keys_of_unknown_number(keys: int) -> None:
    shapes = [(2, n, WIDTH) for n in (3, keys, keys)]
    same(*both(divided, operands(keys=None), arrays(*shapes)))


# --- heads ----------------------------------------------------------------------------------------


def heads(q: Any, k: Any, v: Any) -> Any:
    """(samples, steps, heads · width), with the heads made part of the batch."""

    def split(x: Any) -> Any:
        x = K.reshape(x, (-1, K.int_shape(x)[1], 2, WIDTH // 2))
        x = K.permute_dimensions(x, (0, 2, 1, 3))
        return K.reshape(x, (-1, K.int_shape(x)[2], WIDTH // 2))

    y = K.batch_dot(K.softmax(scores(split(q), split(k)) / 2 + FAR[None]), split(v))
    y = K.permute_dimensions(K.reshape(y, (-1, 2, 3, WIDTH // 2)), (0, 2, 1, 3))
    return K.reshape(y, (-1, 3, WIDTH))


def test_heads_stay_apart_from_the_batch(joining: Any) -> None:
    y = heads(*operands())
    found = toposort(passes.optimized([y], passes.Job(joining)).outputs)
    (node,) = [t for t in found if t.op is attention]
    assert node.spec.shape == (None, 2, 3, WIDTH // 2)
    assert [t.op.name for t in found if t.op is not None].count("reshape") == 4


def test_values_of_heads() -> None:
    same(*both(heads, operands(), arrays(*[(2, n, WIDTH) for n in (3, KEYS, KEYS)])))


def test_masks_of_heads_that_are_no_heads() -> None:
    """A bias for each sample and head keeps both in one axis."""
    given = [*[leaf(None, n, 2, WIDTH) for n in (3, KEYS, KEYS)], leaf(None, 1, KEYS)]

    def form(q: Any, k: Any, v: Any, bias: Any) -> Any:
        q, k, v = (
            K.reshape(K.permute_dimensions(t, (0, 2, 1, 3)), (-1, n, WIDTH))
            for t, n in ((q, 3), (k, KEYS), (v, KEYS))
        )
        return K.reshape(K.batch_dot(K.softmax(scores(q, k) + bias), v), (-1, 2, 3, WIDTH))

    data = arrays(*[(2, n, 2, WIDTH) for n in (3, KEYS, KEYS)])
    for rows in (4, 1):
        same(*both(form, given, [*data, *arrays((rows, 1, KEYS))]))


# --- what kernels treat otherwise -----------------------------------------------------------------


def biased(q: Any, k: Any, v: Any, bias: Any) -> Any:
    return K.batch_dot(K.softmax(scores(q, k) / 2 + bias), v)


def hidden(q: Any, k: Any, v: Any, bias: Any) -> Any:
    return K.batch_dot(K.softmax(K.where(K.greater(bias, 0), scores(q, k), -1e9)), v)


@pytest.mark.parametrize("form", [biased, hidden])
@pytest.mark.parametrize("keys", [KEYS, 513, 530])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e12])
def test_infinities_and_nan_stay_what_they_are(form: Form, keys: int, value: float) -> None:
    given = [*operands(keys=None), leaf(3, None, dtype="float32")]
    call = K.function(given, [form(*given)])
    with passes.without("join_groups"):
        plain = K.function(given, [form(*given)])
    for operand in range(4):
        for place in (0, keys // 2, -1, slice(None), slice(-2, None), slice(0, 512)):
            data = arrays((1, 3, WIDTH), (1, keys, WIDTH), (1, keys, WIDTH), (3, keys))
            if operand == 3:
                data[3][1, place] = value
            else:
                data[operand][0, place if operand else 1, :2] = value
            np.testing.assert_allclose(
                call(data)[0], plain(data)[0], rtol=1e-4, atol=1e-5, err_msg=f"{operand} {place}"
            )


@pytest.mark.parametrize("value", [-np.inf, -1e9, float(np.finfo("float32").min)])
@pytest.mark.parametrize("form", [biased, hidden])
def test_rows_that_see_nothing(form: Form, value: float) -> None:
    given = [*operands(), leaf(3, KEYS, dtype="float32")]
    data = arrays((2, 3, WIDTH), (2, KEYS, WIDTH), (2, KEYS, WIDTH), (3, KEYS))
    data[3][1] = value
    same(*both(form, given, data))


@pytest.mark.parametrize("hides", [-np.inf, -1e38, -2e3])
def test_rows_that_a_mask_hides(hides: float) -> None:
    """All values weigh alike there, or the row is NaN."""
    given = [*operands(), leaf(3, KEYS, dtype="float32")]

    def form(q: Any, k: Any, v: Any, bias: Any) -> Any:
        return K.batch_dot(K.softmax(K.where(K.greater(bias, 0), scores(q, k), hides)), v)

    data = arrays((2, 3, WIDTH), (2, KEYS, WIDTH), (2, KEYS, WIDTH), (3, KEYS))
    data[3][1] = -1
    same(*both(form, given, data))


def test_what_a_mask_hides_does_not_matter() -> None:
    """Hidden scores may be infinite or NaN."""
    given = [*operands(), leaf(3, KEYS, dtype="float32")]
    data = arrays((2, 3, WIDTH), (2, KEYS, WIDTH), (2, KEYS, WIDTH), (3, KEYS))
    data[3][:, :5] = -1
    wanted = K.function(given, [hidden(*given)])(data)[0]
    for value in (np.nan, np.inf, 3e38):
        data[1][:, 2] = value
        np.testing.assert_allclose(
            K.function(given, [hidden(*given)])(data)[0], wanted, rtol=2e-5, atol=2e-5
        )


def test_scores_below_the_number_that_hides_others() -> None:
    given = [*operands(), leaf(3, KEYS, dtype="float32")]

    def form(q: Any, k: Any, v: Any, bias: Any) -> Any:
        return K.batch_dot(K.softmax(K.where(K.greater(bias, 0), scores(q, k), -2000.0)), v)

    data = arrays((2, 3, WIDTH), (2, KEYS, WIDTH), (2, KEYS, WIDTH), (3, KEYS))
    data[0][:, 1], data[1] = -1000, abs(data[1])
    same(*both(form, given, data))


def test_sizes_that_do_not_fit_are_errors() -> None:
    given = operands(keys=None)
    call = K.function(given, [plain(*given)])
    for shapes in (
        [(2, 3, WIDTH), (2, 130, WIDTH), (2, 131, WIDTH)],
        [(2, 3, WIDTH), (3, 130, WIDTH), (3, 130, WIDTH)],
    ):
        with pytest.raises(ValueError, match="matmul"):
            call(arrays(*shapes))


@pytest.mark.parametrize("sizes", [(0, 3, KEYS), (2, 0, KEYS), (2, 3, 0)])
def test_without_samples_queries_or_keys(sizes: tuple[int, int, int]) -> None:
    batch, rows, keys = sizes
    given = [leaf(None, None, WIDTH, dtype="float32") for _ in range(3)]
    shapes = [(batch, n, WIDTH) for n in (rows, keys, keys)]
    same(*both(plain, given, arrays(*shapes)))


def test_a_bias_may_make_the_batch_larger() -> None:
    given = [*operands(keys=None), leaf(None, 3, KEYS, dtype="float32")]
    data = arrays((1, 3, WIDTH), (1, KEYS, WIDTH), (4, KEYS, WIDTH), (4, 3, KEYS))
    same(*both(biased, given, data))
