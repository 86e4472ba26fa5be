"""What documents 003 and 004 give as "Numpy implementation", and the definitions they hide.

Each row is a call and what NumPy makes of the same arrays. Where an implementation contradicts the
text around it, `docs/compatibility.md` says which holds; such rows have the values on which both
agree, and a test of their own for the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from backplane import backend as K

RNG = np.random.default_rng(3)
X = RNG.uniform(-3, 3, (2, 3, 4)).astype("float32")
Y = RNG.uniform(-3, 3, (2, 3, 4)).astype("float32")
Y[0, 0] = X[0, 0]
POSITIVE = np.abs(X) + 0.25
WIDE = np.linspace(-4, 4, 33, dtype="float32").reshape(3, 11)


class Row(NamedTuple):
    call: Callable[..., Any]
    numpy: Callable[..., Any]
    arrays: tuple[np.ndarray, ...]


ROWS: dict[str, Row] = {}


def row(name: str, numpy: Callable[..., Any], *arrays: np.ndarray, **kwargs: Any) -> None:
    """`K.name` on `arrays` with `kwargs` equals `numpy` on the same."""
    shown = ",".join(f"{k}={v}" for k, v in kwargs.items())
    ROWS[f"{name}({shown})-{len(ROWS)}"] = Row(
        lambda *xs: getattr(K, name)(*xs, **kwargs), lambda *xs: numpy(*xs, **kwargs), arrays
    )


def several(axis: Any) -> Any:
    return tuple(axis) if isinstance(axis, list) else axis


def reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, axis=None, keepdims=False: function(x, axis=several(axis), keepdims=keepdims)


def log_sum_exp(x: np.ndarray, axis: Any = None, keepdims: bool = False) -> Any:
    return np.log(np.exp(x.astype("float64")).sum(several(axis), keepdims=keepdims))


for name, function in {
    "max": np.max, "min": np.min, "sum": np.sum, "prod": np.prod, "var": np.var, "std": np.std,
    "mean": np.mean,
}.items():  # fmt: skip
    for axis in (None, 1, -1, [0, 2]):
        row(name, reduction(function), X, axis=axis)
        row(name, reduction(function), X, axis=axis, keepdims=True)
for axis in (None, 1, [0, 2]):
    row("logsumexp", log_sum_exp, X, axis=axis)
    row("any", reduction(np.any), X > 2, axis=axis)
    row("all", reduction(np.all), X > -2, axis=axis, keepdims=True)
for axis in (0, 1, -1):
    row("cumsum", np.cumsum, X, axis=axis)
    row("cumprod", np.cumprod, X, axis=axis)
    row("argmax", np.argmax, X, axis=axis)
    row("argmin", np.argmin, X, axis=axis)
row("argmax", lambda x: np.argmax(x, axis=-1), X)
row("cumsum", lambda x: np.cumsum(x, axis=0), X)


def no_nan_sqrt(x: np.ndarray) -> np.ndarray:
    return np.where(x < 0, 0, np.sqrt(np.abs(x)))


row("sqrt", no_nan_sqrt, X)
row("pow", lambda x, a: x**a, X, a=3)
row("pow", lambda x, a: x**a, POSITIVE, a=0.5)
row("clip", lambda x, min_value, max_value: np.clip(x, -1, 2), X, min_value=-1.0, max_value=2)
for name, function in {
    "equal": np.equal, "not_equal": np.not_equal, "greater": np.greater, "less": np.less,
    "greater_equal": np.greater_equal, "less_equal": np.less_equal, "maximum": np.maximum,
    "minimum": np.minimum,
}.items():  # fmt: skip
    row(name, function, X, Y)

row("transpose", np.transpose, X)
row("dot", np.dot, X, Y.transpose(0, 2, 1))
row("dot", np.dot, X[0], Y[1].T)
row("dot", np.dot, X, Y[0].T)
row("gather", lambda reference, indices: reference[indices], X, np.array([[1, 0], [1, 1]], "int32"))
ROWS["stack"] = Row(
    lambda *x: K.concatenate([K.stack(x), K.stack(x, axis=0)]),
    lambda *x: np.concatenate([np.stack(x)] * 2, -1),
    (X, Y),
)
ROWS["stack(axis=1)"] = Row(lambda *x: K.stack(x, axis=1), lambda *x: np.stack(x, axis=1), (X, Y))
for axes in (1, [0, 2], (0, 1)):
    row("reverse", lambda x, axes: np.flip(x, several(axes)), X, axes=axes)
row("slice", lambda x, start, size: x[0:1, 1:3, 2:4], X, start=[0, 1, 2], size=[1, 2, 2])
row("count_params", np.size, X)

row("relu", lambda x: np.maximum(x, 0), WIDE)
for alpha, limit, threshold in (
    (0.1, None, 0.0),
    (0.0, 2.0, 0.0),
    (0.2, 3.0, 0.5),
    (-0.5, None, 1),
):

    def relu(x: np.ndarray, alpha: float, max_value: float | None, threshold: float) -> np.ndarray:
        above = np.clip(x * (x >= threshold), 0, np.inf if max_value is None else max_value)
        return alpha * (x - threshold) * (x < threshold) + above

    row("relu", relu, WIDE, alpha=alpha, max_value=limit, threshold=threshold)
for alpha in (1.0, 0.5):
    row("elu", lambda x, alpha: np.where(x > 0, x, alpha * (np.exp(x) - 1)), WIDE, alpha=alpha)


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    y = np.exp(x - x.max(axis, keepdims=True))
    return y / y.sum(axis, keepdims=True)


for axis in (-1, 0, 1):
    row("softmax", softmax, X, axis=axis)
    row(
        "l2_normalize",
        lambda x, axis: x / np.sqrt((x**2).sum(axis, keepdims=True)),
        X,
        axis=axis,
    )
row("softplus", lambda x: np.log(1 + np.exp(x)), WIDE)
row("softsign", lambda x: x / (1 + np.abs(x)), WIDE)
row("sigmoid", lambda x: 1 / (1 + np.exp(-x)), WIDE)
row("hard_sigmoid", lambda x: np.clip(0.2 * x + 0.5, 0, 1), WIDE)
row("tanh", np.tanh, WIDE)

for maker in ("zeros_like", "ones_like"):
    row(maker, getattr(np, maker), X)
    row(maker, getattr(np, maker), X, dtype="float64")


@pytest.mark.parametrize("name", ROWS)
def test_equals_numpy(engine: object, name: str) -> None:
    call, numpy, arrays = ROWS[name]
    expected = np.asarray(numpy(*arrays))
    result = call(*[K.constant(a, dtype=a.dtype.name) for a in arrays])
    found = np.asarray(K.eval(result))
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)
    if expected.dtype.kind == "b":
        assert found.dtype == bool


def test_shape_rank_and_dtype_of_a_value() -> None:
    x = K.variable(X)
    assert K.int_shape(x) == X.shape
    assert K.ndim(x) == X.ndim
    assert K.dtype(x) == X.dtype.name
    np.testing.assert_array_equal(K.eval(x), X)


@pytest.mark.parametrize("dtype", [None, "float64", "int32"])
def test_creation(engine: object, dtype: str | None) -> None:
    for found, expected in (
        (K.zeros((2, 3), dtype), np.zeros((2, 3))),
        (K.ones((2, 3), dtype), np.ones((2, 3))),
        (K.eye(3, dtype), np.eye(3)),
        (K.eye((2, 3), dtype), np.eye(2, 3)),
        (K.eye([3, 2], dtype), np.eye(3, 2)),
    ):
        assert K.is_variable(found)
        value = K.eval(found)
        assert value.dtype.name == (dtype or K.floatx())
        np.testing.assert_array_equal(value, expected)


def test_random_variables(engine: object) -> None:
    uniform = K.eval(K.random_uniform_variable((40, 50), low=2, high=6, dtype="float64", seed=1))
    assert uniform.shape == (40, 50)
    assert uniform.dtype == np.float64
    assert uniform.min() >= 2
    assert uniform.max() < 6
    assert abs(uniform.mean() - 4) < 0.1
    normal = K.eval(K.random_normal_variable((40, 50), mean=1, scale=3, dtype="float64", seed=1))
    assert normal.shape == (40, 50)
    assert abs(normal.mean() - 1) < 0.3
    assert abs(normal.std() - 3) < 0.2


@pytest.mark.parametrize("shape", [(2,), (2, 3), (2, 3, 4)])
def test_switch(engine: object, shape: tuple[int, ...]) -> None:
    """The condition's axes are the first ones of the expressions'."""
    condition = np.array([0, 1, 1, 0, 1, 0], "int32")[: int(np.prod(shape[:2]))].reshape(shape[:2])
    a, b = RNG.normal(size=(2, *shape)).astype("float32")
    wide = condition.reshape(condition.shape + (1,) * (len(shape) - condition.ndim)).astype(bool)
    found = K.eval(K.switch(K.constant(condition, dtype="int32"), K.constant(a), K.constant(b)))
    np.testing.assert_array_equal(found, np.where(wide, a, b))


# --- the definitions that document 003 only names ("Show the Numpy implementation") -------------


@pytest.mark.parametrize(
    ("x", "y", "axes"),
    [
        ((4, 3), (4, 3), 1),
        ((4, 2, 3), (4, 3, 5), (2, 1)),
        ((4, 2, 3), (4, 5, 3), (2, 2)),
        ((4, 3), (4, 5, 3), (1, 2)),
        ((4, 3, 2), (4, 3), 1),
        ((4, 2, 3), (4, 3, 5), None),
        ((4, 2, 3, 5), (4, 5, 6), None),
    ],
)
def test_batch_dot(engine: object, x: Any, y: Any, axes: Any) -> None:
    """An inner product of each pair of examples, along the given axes."""
    a, b = RNG.normal(size=x).astype("float32"), RNG.normal(size=y).astype("float32")
    if axes is None:
        ax, ay = len(x) - 1, len(y) - 1 if len(y) == 2 else len(y) - 2
    else:
        ax, ay = (axes, axes) if isinstance(axes, int) else axes
    expected = np.stack([np.tensordot(u, v, (ax - 1, ay - 1)) for u, v in zip(a, b, strict=True)])
    if expected.ndim == 1:
        expected = expected[:, None]
    found = K.batch_dot(K.constant(a), K.constant(b), axes=axes)
    assert K.int_shape(found) == expected.shape
    np.testing.assert_allclose(K.eval(found), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("unroll", [False, True])
def test_rnn(engine: object, backwards: bool, masked: bool, unroll: bool) -> None:
    """A loop over time; where an example is masked its state and output stay as they were."""
    x = RNG.normal(size=(3, 5, 2)).astype("float32")
    w, u = RNG.normal(size=(2, 4)).astype("float32"), RNG.normal(size=(4, 4)).astype("float32")
    constant = RNG.normal(size=(3, 4)).astype("float32")
    mask = np.array([[1, 1, 1, 1, 1], [0, 1, 0, 1, 0], [1, 1, 1, 0, 0]], bool)

    state = np.ones((3, 4), "float32")
    output = np.zeros((3, 4), "float32")
    outputs = []
    for t in reversed(range(5)) if backwards else range(5):
        new = np.tanh(x[:, t] @ w + state @ u + constant)
        keep = mask[:, t, None] if masked else np.ones((3, 1), bool)
        output, state = np.where(keep, 2 * new, output), np.where(keep, new, state)
        outputs.append(output)

    def step(x_t: Any, states: Any) -> Any:
        h, c = states
        new = K.tanh(K.dot(x_t, K.constant(w)) + K.dot(h, K.constant(u)) + c)
        return 2.0 * new, [new]

    last, every, states = K.rnn(
        step,
        K.constant(x),
        [K.ones((3, 4))],
        go_backwards=backwards,
        mask=K.constant(mask, dtype="bool") if masked else None,
        constants=[K.constant(constant)],
        unroll=unroll,
        input_length=5,
    )
    np.testing.assert_allclose(K.eval(last), output, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(K.eval(every), np.stack(outputs, 1), rtol=1e-5, atol=1e-5)
    assert len(states) == 1
    np.testing.assert_allclose(K.eval(states[0]), state, rtol=1e-5, atol=1e-5)


def test_dropout(engine: object) -> None:
    """A share of the entries is zero, and the others are scaled up for it."""
    x = K.constant(RNG.uniform(1, 2, (100, 80)))
    found = K.eval(K.dropout(x, 0.25, seed=7)) / K.eval(x)
    kept = found != 0
    np.testing.assert_allclose(found[kept], 1 / 0.75, rtol=1e-6)
    assert abs(kept.mean() - 0.75) < 0.03
    rows = K.eval(K.dropout(x, 0.5, noise_shape=(100, 1), seed=7)) != 0
    assert (rows == rows[:, :1]).all()


@pytest.mark.parametrize("rank", [2, 3, 4, 5])
@pytest.mark.parametrize("first", [False, True])
def test_bias_add(engine: object, rank: int, first: bool) -> None:
    """A vector goes along the channels; the other bias has the shape of an example."""
    channels, spatial = 4, (2, 3, 2)[: rank - 2]
    x = RNG.normal(size=(2, channels, *spatial) if first else (2, *spatial, channels))
    x = x.astype("float32")
    data_format = "channels_first" if first else "channels_last"
    vector = np.arange(channels, dtype="float32")
    along = (1, channels, *(1,) * len(spatial)) if first else (channels,)
    found = K.bias_add(K.constant(x), K.constant(vector), data_format)
    np.testing.assert_allclose(K.eval(found), x + vector.reshape(along), rtol=1e-6)
    bias = np.arange(np.prod(spatial) * channels, dtype="float32").reshape(*spatial, channels)
    full = bias.reshape(1, channels, *spatial) if first else bias[None]
    found = K.bias_add(K.constant(x), K.constant(bias), data_format)
    np.testing.assert_allclose(K.eval(found), x + full, rtol=1e-6)


# --- where an implementation and the text around it disagree, the text holds --------------------


def test_relu_at_its_threshold_and_below_a_negative_one() -> None:
    """f(x) = x for threshold <= x: the implementation also clips at 0 what lies above."""
    x = K.constant([-2.0, -1.0, -0.5, 0.5])
    np.testing.assert_array_equal(K.eval(K.relu(x, threshold=0.5)), [0, 0, 0, 0.5])
    np.testing.assert_array_equal(K.eval(K.relu(x, threshold=-1.0)), [0, -1, -0.5, 0.5])


def test_likes_keep_the_dtype(engine: object) -> None:
    """ "None uses the dtype of x": the implementation has floatx() there."""
    x = K.constant([1, 2], dtype="int32")
    assert K.dtype(K.zeros_like(x)) == K.dtype(K.ones_like(x)) == "int32"
    assert K.eval(K.ones_like(x)).dtype == np.int32


def test_a_zero_vector_has_no_direction(engine: object) -> None:
    """The implementation of l2_normalize divides by zero, and takes the last axis for None."""
    np.testing.assert_array_equal(
        K.eval(K.l2_normalize(K.zeros((2, 3)), axis=-1)), np.zeros((2, 3))
    )
    x = K.l2_normalize(K.constant(X))
    np.testing.assert_allclose(np.sqrt((K.eval(x) ** 2).sum()), 1, rtol=1e-6)


def test_switch_selects(engine: object) -> None:
    """The implementation multiplies and adds, so that a NaN that is not selected shows through."""
    found = K.switch(K.constant([1, 0]), K.constant([1.0, np.nan]), K.constant([np.nan, 2.0]))
    np.testing.assert_array_equal(K.eval(found), [1, 2])


def test_large_arguments_do_not_overflow(engine: object) -> None:
    x = K.constant([-1000.0, 0.0, 1000.0])
    np.testing.assert_allclose(K.eval(K.softplus(x)), [0, np.log(2), 1000], rtol=1e-6)
    np.testing.assert_array_equal(K.eval(K.sigmoid(x)), [0, 0.5, 1])
    np.testing.assert_allclose(K.eval(K.logsumexp(x + x)), 2000, rtol=1e-6)


def test_dropout_drops_in_test_phase_too() -> None:
    """Layers ask for the phase: `K.in_train_phase(dropped, x)`."""
    x = K.ones((50, 50))
    assert (K.eval(K.dropout(x, 0.5, seed=1)) == 0).any()
    phased = K.in_train_phase(K.dropout(x, 0.5, seed=1), x)
    f = K.function([K.learning_phase()], [phased])
    assert (f([0])[0] == 1).all()
    assert (f([1])[0] == 0).any()
