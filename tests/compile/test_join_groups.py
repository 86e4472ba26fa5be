"""Groups: GELU, SiLU and normalization, however they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane.compile import passes
from backplane.compile.fuse.groups import groups_in
from backplane.compile.passes.join_groups import join_groups
from backplane.core.graph import Tensor, toposort
from backplane.core.hooks import HOOKS
from backplane.ops.groups import (
    gelu,
    gelu_grad,
    hard_silu,
    hard_silu_grad,
    normalize,
    normalize_grad,
    silu,
    silu_grad,
)
from backplane.ops.shaping import reshape

rng = np.random.default_rng(7)
X = rng.normal(size=(4, 6, 8)).astype("float32")
GAMMA, BETA = rng.normal(size=(2, 8)).astype("float32")
WEIGHTS = rng.normal(size=X.shape).astype("float32")


def plain_tanh(x: Any) -> Any:
    return 0.5 * x * (1.0 + K.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * K.pow(x, 3))))


def factored_tanh(x: Any) -> Any:
    return x * (K.tanh(0.7978845608 * x * (1 + 0.044715 * x * x)) + 1) / 2


def of_a_sum(x: Any) -> Any:
    return plain_tanh(x + 0.25)


def plain_erf(x: Any) -> Any:
    return 0.5 * x * (1.0 + K.erf(x / np.sqrt(2.0)))


def share_first(x: Any) -> Any:
    return (0.5 + 0.5 * K.erf(0.7071067811865476 * x)) * x


def swish(x: Any) -> Any:
    return K.sigmoid(x) * x


def hard_swish(x: Any) -> Any:
    return x * K.relu(x + 3.0, max_value=6.0) / 6.0


def by_hard_sigmoid(x: Any) -> Any:
    return x * (K.relu(3.0 + x, max_value=6.0) * (1.0 / 6.0))


def rows(x: Any, gamma: Any, beta: Any) -> Any:
    centred = x - K.mean(x, axis=-1, keepdims=True)
    variance = K.mean(K.square(centred), axis=-1, keepdims=True)
    return centred / K.sqrt(variance + 1e-5) * gamma + beta


def combined_parameters(x: Any, gamma: Any, beta: Any) -> Any:
    mean, variance = K.mean(x, -1, keepdims=True), K.var(x, -1, keepdims=True)
    scale = K.pow(variance + 1e-3, -0.5) * gamma
    return x * scale + (beta - mean * scale)


def without_parameters(x: Any, gamma: Any, beta: Any) -> Any:
    return rows(x, 1.0, 0.0) + gamma * K.tanh(beta)


def batch(x: Any, gamma: Any, beta: Any) -> Any:
    return K.normalize_batch_in_training(x, gamma, beta, [0, 1])[0]


def batch_with_vectors(x: Any, gamma: Any, beta: Any) -> Any:
    """The moments are read by others too, as for moving averages."""
    mean, variance = K.mean(x, [0, 1]), K.var(x, [0, 1])
    y = K.batch_normalization(x, mean, variance, beta, gamma)
    return y + K.sum(mean) + K.sum(variance)


def channel_groups(x: Any, gamma: Any, beta: Any) -> Any:
    """As Keras 3 writes it."""
    y = K.reshape(x, (-1, 6, 2, 4))
    mean, variance = (f(y, [1, 3], keepdims=True) for f in (K.mean, K.var))
    scale = K.pow(variance + 1e-3, -0.5) * K.reshape(gamma, (1, 1, 2, 4))
    y = y * scale + (K.reshape(beta, (1, 1, 2, 4)) - mean * scale)
    return K.reshape(y, (-1, 6, 8))


def channel_groups_with_vectors(x: Any, gamma: Any, beta: Any) -> Any:
    y = K.reshape(x, (-1, 6, 2, 4))
    y -= K.mean(y, [1, 3], keepdims=True)
    y /= K.sqrt(K.mean(K.square(y), [1, 3], keepdims=True) + 1e-3)
    return K.reshape(y, (-1, 6, 8)) * gamma + beta


GELUS = [plain_tanh, factored_tanh, of_a_sum, plain_erf, share_first]
HARD = [hard_swish, by_hard_sigmoid]
NORMALIZATIONS = [rows, combined_parameters, without_parameters, batch, batch_with_vectors]
NORMALIZATIONS += [channel_groups, channel_groups_with_vectors]


def operands(form: Callable[..., Any]) -> list[Any]:
    x = K.placeholder((None, 6, 8))
    return [x] if form in (*GELUS, swish, *HARD) else [x, K.variable(GAMMA), K.variable(BETA)]


def training(form: Callable[..., Any], x: Any) -> list[Any]:
    """The value, its gradients, and of some forms gradients of a gradient."""
    given = [x, *operands(form)[1:]]
    y = form(*given)
    slopes = K.gradients(K.sum(K.square(y) * K.constant(WEIGHTS)), given)
    twice = form in (plain_tanh, rows)
    return [y, *slopes, *(K.gradients(K.sum(K.square(slopes[0])), given) if twice else [])]


def numbers(forms: Sequence[Callable[..., Any]]) -> list[tuple[str, np.ndarray]]:
    """All forms in one program."""
    x = K.placeholder((None, 6, 8))
    named = [(f.__name__, t) for f in forms for t in training(f, x)]
    found = K.function([x], [t for _, t in named])([X])
    return [(name, value) for (name, _), value in zip(named, found, strict=True)]


@contextmanager
def as_written(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Neither gradients nor programs know of groups."""
    with monkeypatch.context() as patch, passes.without("join_groups"):
        patch.setitem(HOOKS, "groups", lambda order: [])
        yield


def ops_in(outputs: list[Tensor]) -> list[Any]:
    return [node.op for node in toposort(outputs) if node.op is not None]


def test_values_and_gradients_are_those_of_what_was_written(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    check([plain_tanh, swish, batch_with_vectors, channel_groups], monkeypatch)


def test_so_are_those_of_all_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    check([*GELUS, swish, *HARD, *NORMALIZATIONS], monkeypatch)


def check(forms: Sequence[Callable[..., Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    found = numbers(forms)
    with as_written(monkeypatch):
        wanted = numbers(forms)
    for (name, got), (_, want) in zip(found, wanted, strict=True):
        tolerance = 2e-5 * np.abs(want).max()
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("form", [*GELUS, swish, *HARD, *NORMALIZATIONS])
def test_each_form_is_recognized_and_computed_once(form: Callable[..., Any]) -> None:
    given = operands(form)
    y = form(*given)
    (slope,) = K.gradients(K.sum(K.square(y)), given[:1])
    present = ops_in(join_groups([y, slope]))
    forward, backward = (gelu, gelu_grad) if form in GELUS else (normalize, normalize_grad)
    forward, backward = (silu, silu_grad) if form is swish else (forward, backward)
    forward, backward = (hard_silu, hard_silu_grad) if form in HARD else (forward, backward)
    assert (present.count(forward), present.count(backward)) == (1, 1)


def test_scale_and_shift_behind_a_reshape_are_those_of_the_group() -> None:
    """Unless others read what lies between, or the shapes do not fit."""
    x, gamma, beta = operands(rows)
    y = channel_groups_with_vectors(x, gamma, beta)
    slopes = K.gradients(K.sum(K.square(y)), [x, gamma, beta])
    joined = toposort(join_groups([y, *slopes]))
    (node,) = [t for t in joined if t.op is normalize]
    assert [t.shape for t in node.inputs] == [(None, 6, 2, 4), (2, 4), (2, 4)]
    (merged,) = [t for t in toposort([y]) if t.op is reshape and t.shape == (None, 6, 8)]
    for outputs in ([y, merged], [y, K.exp(merged)]):
        (node,) = [t for t in toposort(join_groups(outputs)) if t.op is normalize]
        assert len(node.inputs) == 1
    plain = merged.inputs[0]
    for other in (
        merged * beta[:1] + beta,
        merged * K.constant(np.ones((6, 8), "float32")) + beta,
        K.reshape(plain, (-1, 12, 4)) * beta[:4] + gamma[:4],
        K.reshape(plain, (-1, 3, 16)) * K.concatenate([beta, gamma]) + K.concatenate([gamma, beta]),
        merged * merged + beta,
        merged + beta,
    ):
        (node,) = [t for t in toposort(join_groups([other])) if t.op is normalize]
        assert len(node.inputs) == 1


def test_one_vector_may_be_scale_and_shift(monkeypatch: pytest.MonkeyPatch) -> None:
    def same(x: Any, gamma: Any, beta: Any) -> Any:
        return channel_groups_with_vectors(x, gamma, gamma) + beta

    check([same], monkeypatch)


def test_what_looks_alike_is_left_alone() -> None:
    x = K.placeholder((8, 8))
    columns = x - K.mean(x, axis=1)  # The means of rows, subtracted from columns.
    spread = K.mean(K.square(x - K.mean(x, axis=1, keepdims=True)), axis=1, keepdims=True)
    no_epsilon = (x - K.mean(x, 1, keepdims=True)) / K.sqrt(K.var(x, 1, keepdims=True))
    constant_mean = K.stop_gradient(K.mean(x, 1, keepdims=True))
    for y in (
        columns / K.sqrt(spread + 1e-5),
        no_epsilon,
        (x - constant_mean) / K.sqrt(K.mean(K.square(x - constant_mean), 1, keepdims=True) + 1e-5),
        0.5 * x * (1 + K.tanh(0.8 * (x + 0.044715 * K.pow(x, 3)))),
        0.5 * x * (1 + K.tanh(x)),
        x * (1 + K.erf(x / np.sqrt(2.0))),
        x * K.sigmoid(2.0 * x),
        x * K.relu(x + 3.0, max_value=6.0) / 5.0,
        x * K.relu(x + 2.0, max_value=6.0) / 6.0,
        x * K.relu(x + 3.0, max_value=5.0) / 6.0,
        K.sigmoid(x) * K.tanh(x),
    ):
        assert groups_in(toposort([y])) == []


def test_inner_tensors_have_their_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    def slopes() -> list[Any]:
        x = K.constant(X)
        mean = K.mean(x, -1, keepdims=True)
        variance = K.mean(K.square(x - mean), -1, keepdims=True)
        y = (x - mean) / K.sqrt(variance + 1e-5)
        return [K.eval(g) for g in K.gradients(K.sum(y * y * y), [variance, x])]

    found = slopes()
    with as_written(monkeypatch):
        wanted = slopes()
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)


def test_a_curve_that_others_read_stays() -> None:
    x = K.placeholder((None, 8))
    curve = K.erf(x / np.sqrt(2.0))
    y = 0.5 * x * (1 + curve)
    assert gelu not in ops_in(join_groups([y, curve]))
    found = K.function([x], [y, curve])([X[0]])
    np.testing.assert_allclose(found[0], 0.5 * X[0] * (1 + found[1]), rtol=1e-5, atol=1e-6)


def test_parameters_may_depend_on_the_moments() -> None:
    x = K.placeholder((None, 8))
    mean = K.mean(x, 1, keepdims=True)
    y = (x - mean) / K.sqrt(K.var(x, 1, keepdims=True) + 1e-5) * K.exp(mean) + mean
    found = K.function([x], [y])([X[0]])[0]
    m, v = X[0].mean(1, keepdims=True), X[0].var(1, keepdims=True)
    np.testing.assert_allclose(found, (X[0] - m) / np.sqrt(v + 1e-5) * np.exp(m) + m, rtol=1e-4)


def test_normalization_inside_of_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    def losses() -> list[Any]:
        gamma, beta = K.variable(GAMMA), K.variable(BETA)

        def step(x: Any, states: list[Any]) -> tuple[Any, list[Any]]:
            h = plain_erf(rows(x + states[0], gamma, beta))
            return h, [h]

        x = K.placeholder((None, 6, 8))
        y = K.rnn(step, x, [K.zeros_like(x[:, 0])])[1]
        slopes = K.gradients(K.sum(y * K.constant(WEIGHTS)), [x, gamma, beta])
        return K.function([x], [y, *slopes])([X])

    found = losses()
    with as_written(monkeypatch):
        wanted = losses()
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4 * np.abs(want).max())


@pytest.mark.parametrize("between", [plain_erf, plain_tanh, lambda x: 0.5 * x, K.tanh])
def test_groups_that_a_residual_connection_joins(
    between: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Norms after the blocks, as in BERT: the end of each is a term of what the next one takes."""
    x, gamma, beta = K.placeholder(X.shape), K.variable(GAMMA), K.variable(BETA)
    kernel = K.constant(np.eye(8) + 0.1)
    y = x
    for _ in range(4):
        y = rows(y + between(K.dot(y, kernel)), gamma, beta)
    y = rows(between(y), gamma, beta)
    found = [group.op for group in groups_in(toposort([y]))]
    gelus = 5 if between in (plain_erf, plain_tanh) else 0
    assert (found.count(normalize), found.count(gelu)) == (5, gelus)
    slopes = K.gradients(K.sum(y * WEIGHTS), [x, gamma, beta])
    joined = K.function([x], [y, *slopes])([X])
    with as_written(monkeypatch):
        slopes = K.gradients(K.sum(y * WEIGHTS), [x, gamma, beta])
        wanted = K.function([x], [y, *slopes])([X])
    for a, b in zip(joined, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4 * np.abs(b).max())
