"""Mixed precision: what runs in which dtype, training, and the scale of the loss."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane.compile.passes import without
from compile.training import Net, adam, cnn, lstm, mlp, trained
from documents.covering import covers

LOW = ("float16", "bfloat16")


def has(engine: Any, dtype: str) -> bool:
    return dtype not in engine.missing_dtypes


@pytest.mark.parametrize("dtype", LOW)
@pytest.mark.parametrize("build", [mlp, cnn, lstm])
def test_training_reaches_the_same_loss(engine: Any, build: Any, dtype: str) -> None:
    if not has(engine, dtype):
        with pytest.raises(NotImplementedError, match=rf"{engine.name!r} has no {dtype}"):
            trained(build, 1, precision=dtype)
        return
    _, plain = trained(build, 20)
    weights, low = trained(build, 20, precision=dtype)
    assert plain[-1] < 0.9 * plain[0]
    assert low[-1] == pytest.approx(plain[-1], rel=0.01)
    assert all(w.dtype == "float32" for w in weights)


@covers("mixed_precision", spec=True, gradient=True)
def test_products_are_low_and_sums_are_not(engine: Any) -> None:
    net = mlp()
    with K.mixed_precision("float16"), without("peephole", "tiling", "optimizer_steps"):
        f = K.function(net.inputs, [net.loss, net.output], adam(net))
        text = f.source()
    dtypes = re.findall(r"# (\w+) (\w+)", text)
    found: dict[str, set[str]] = {}
    for name, dtype in dtypes:
        found.setdefault(name, set()).add(dtype)
    assert found["matmul"] == {"float16"}
    assert found["relu"] == {"float16"}
    for name in ("sum", "mean", "log", "sqrt", "softmax"):
        assert found.get(name, {"float32"}) == {"float32"}, name
    assert [y.dtype.name for y in f(net.feed)] == ["float32", "float32"]
    assert K.floatx() == "float32"
    assert "float16" not in K.function(net.inputs, [net.loss]).source()


def test_results_are_those_of_rounded_operands(engine: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(4, 8)).astype("float32"), rng.normal(size=(8, 3)).astype("float32")
    x = K.placeholder((None, 8))
    y = K.exp(K.dot(x, K.variable(b)))
    found = K.function([x], [y], precision="float16")([a])[0]
    rounded = a.astype("float16").astype("float32") @ b.astype("float16").astype("float32")
    np.testing.assert_allclose(found, np.exp(rounded), rtol=2e-2)


def test_a_bound_that_is_not_exact_keeps_float32(engine: Any) -> None:
    """1 − 1e-7 would be 1 in float16, and the loss of a certain prediction infinite."""
    x = K.placeholder((None, 4))
    p = K.sigmoid(K.dot(x, K.variable(np.full((4, 1), 100.0))))
    loss = K.mean(K.binary_crossentropy(K.zeros_like(p), p))
    f = K.function([x], [loss, *K.gradients(loss, [x])], precision="float16")
    assert all(np.isfinite(y).all() for y in f([np.ones((2, 4))]))


def test_new_values_are_computed_in_float32(engine: Any) -> None:
    """An average of activations whose share is too small for float16."""
    x, v = K.placeholder((1, 4)), K.variable(np.ones((1, 4)))
    h = K.relu(K.dot(x, K.variable(np.eye(4))))
    f = K.function([x], [], [(v, v + 1e-4 * h)], precision="float16")
    f([np.ones((1, 4))])
    np.testing.assert_allclose(K.get_value(v), 1.0001, rtol=1e-6)


def test_other_dtypes_stay(engine: Any) -> None:
    x = K.placeholder((None, 3), dtype="float64")
    i = K.placeholder((None, 3), dtype="int32")
    f = K.function(
        [x, i], [K.dot(x, K.variable(np.eye(3), dtype="float64")), i + 1], precision="float16"
    )
    found = f([[[0.1, 0.2, 0.3]], [[1, 2, 3]]])
    assert [y.dtype.name for y in found] == ["float64", "int32"]
    np.testing.assert_allclose(found[0], [[0.1, 0.2, 0.3]], rtol=1e-12)


# --- the scale of the loss ------------------------------------------------------------------------


def tiny(loss: float) -> Net:
    """A net whose gradients are below the numbers of float16 by themselves."""
    x = K.placeholder((None, 4))
    w, v = K.variable(np.ones((4, 4))), K.variable(np.ones((4, 1)))
    y = K.mean(K.dot(K.relu(K.dot(x, w)), v)) * loss
    return Net([x], y, y, [w, v], [np.ones((2, 4), "float32")])


def step(net: Net, **options: Any) -> tuple[Any, list[np.ndarray]]:
    slopes = K.gradients(net.loss, net.weights)
    updates = [(w, w - g) for w, g in zip(net.weights, slopes, strict=True)]
    f = K.function(net.inputs, [*slopes], updates, **options)
    return f, f(net.feed)


def test_small_gradients_survive(engine: Any) -> None:
    _, plain = step(tiny(1e-8))
    assert all((g > 0).all() for g in plain)
    for scale in (None, 2.0**12, "dynamic"):
        f, found = step(tiny(1e-8), precision="float16", loss_scale=scale)
        for a, b in zip(plain, found, strict=True):
            np.testing.assert_allclose(b, a, rtol=2e-3)
        assert K.get_value(f.loss_scale) == (2.0**12 if scale == 2.0**12 else 2.0**15)


def test_a_step_without_finite_gradients_changes_nothing(engine: Any) -> None:
    net = tiny(1e-6)
    x, count = net.inputs[0], K.variable(0.0)
    slopes = K.gradients(net.loss, net.weights)
    updates = [(w, w - 1e-3 * g) for w, g in zip(net.weights, slopes, strict=True)]
    updates += [K.update_add(count, 1.0)]
    scale = {"initial": 2.0**10, "steps": 2}
    f = K.function([x], [net.loss], updates, precision="float16", loss_scale=scale)
    before, scales = [K.get_value(w) for w in net.weights], []
    good, bad = net.feed, [np.full((2, 4), np.inf, "float32")]
    for feed in (bad, bad, good, good, good, bad, good):
        f(feed)
        scales.append(int(np.log2(K.get_value(f.loss_scale))))
        if len(scales) == 2:
            pairs = zip(net.weights, before, strict=True)
            assert all((K.get_value(w) == b).all() for w, b in pairs)
    assert scales == [9, 8, 8, 9, 9, 8, 8]
    assert K.get_value(count) == 4.0


def test_a_dynamic_scale_grows_and_counts(engine: Any) -> None:
    net = tiny(1e-6)
    f, _ = step(net, precision="float16", loss_scale={"initial": 4.0, "steps": 2})
    scales = [K.get_value(f.loss_scale).item()]
    for _ in range(4):
        f(net.feed)
        scales.append(K.get_value(f.loss_scale).item())
    assert scales == [4.0, 8.0, 8.0, 16.0, 16.0]


def test_wrong_arguments() -> None:
    x = K.placeholder((2,))
    with pytest.raises(ValueError, match="mixed_precision: dtype must be one of"):
        K.mixed_precision("float64").__enter__()
    for wrong in (0, -1.0, "static", {"steps": 0}, {"size": 3}, [1]):
        with pytest.raises(ValueError, match=r"K\.function: loss_scale must be"):
            K.function([x], [x], precision="float16", loss_scale=wrong)
    with pytest.raises(ValueError, match=r"K\.function: loss_scale needs a precision"):
        K.function([x], [x], loss_scale=2.0)


def test_gradients_that_cannot_be_scaled() -> None:
    net = tiny(1.0)
    (first,) = K.gradients(net.loss, net.weights[:1])
    (second,) = K.gradients(K.sum(K.square(first)), net.weights[1:])
    w, v = net.weights
    updates = [(w, w - first), (v, v - second)]
    with pytest.raises(ValueError, match="computed from other gradients"):
        K.function(net.inputs, [], updates, precision="float16")
    K.function(net.inputs, [], updates, precision="float16", loss_scale=1)(net.feed)


def test_dtypes_that_an_engine_has_not_are_refused_by_name(engine):
    x = K.placeholder((3,), dtype="bfloat16")
    f = K.function([x], [K.cast(K.relu(x) * 2, "float32")])
    if "bfloat16" in engine.missing_dtypes:
        with pytest.raises(NotImplementedError, match=f"{engine.name!r} has no bfloat16"):
            f([[-1.0, 0.5, 2.0]])
    else:
        assert f([[-1.0, 0.5, 2.0]])[0].tolist() == [0.0, 1.0, 4.0]
