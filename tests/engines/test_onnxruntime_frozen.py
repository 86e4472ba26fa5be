"""ONNX Runtime: sessions in which variables that stay the same are constants."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import pytest

import waiting
from backplane import backend as K
from backplane import engines
from backplane.compile import passes
from backplane.engines.onnxruntime.fast import frozen
from backplane.engines.onnxruntime.fast.frozen import Settling

rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The third call with the same values finds the session."""
    monkeypatch.setattr(frozen, "CALLS", 0)
    with engines.use("cntk"):
        yield


def program(f: Any) -> Any:
    """What the compiled call runs."""
    return f._function.call.__globals__["run"]


def is_frozen(f: Any) -> bool:
    values = program(f).values
    return values is not None and values.call is not None and not values.gone


def settle(f: Any, *inputs: Any) -> Any:
    """The results of the session with constants."""
    for _ in range(2):
        f([*inputs])
    assert is_frozen(f)
    return f([*inputs])[0]


def scaled(size: int = 4) -> tuple[Any, Any]:
    """A variable of ones, and x times that."""
    x, w = K.placeholder((size,)), K.variable(np.ones(size))
    return w, K.function([x], [x * w])


# --- results -------------------------------------------------------------------------------------


def network() -> tuple[list[Any], Any]:
    """Convolutions of one element, strided, and by channel, normalization, bounded rectifiers."""
    shapes = [(3, 3, 3, 8), (1, 1, 8, 12), (1, 1, 12, 12), (3, 3, 12, 1)]
    kernels = [K.variable(0.3 * rng.normal(size=s)) for s in shapes]
    x = y = K.placeholder((None, 8, 8, 3))
    for kernel, strides in zip(kernels, (1, 1, 2, 1), strict=True):
        n = K.int_shape(kernel)[-1]
        if n == 1:
            y = K.depthwise_conv2d(y, kernel, padding="same")
            continue
        y = K.conv2d(y, kernel, strides=(strides, strides), padding="same")
        stats = [K.variable(rng.uniform(0.5, 1.5, n)) for _ in range(4)]
        y = K.relu(K.batch_normalization(y, *stats), max_value=6.0)
    return [x], y


def norms() -> tuple[list[Any], Any]:
    """A normalization, products and a softmax, as transformers have them."""
    x = K.placeholder((None, 5, 16))
    w, v, gain = (K.variable(rng.normal(size=s)) for s in ((16, 16), (16,), (16,)))
    centred = x - K.mean(x, axis=-1, keepdims=True)
    y = centred / K.sqrt(K.mean(K.square(centred), axis=-1, keepdims=True) + 1e-5) * gain - v
    attention = K.softmax(K.batch_dot(K.dot(y, w), y, axes=[2, 2]))
    return [x], K.batch_dot(attention, y)


def recurrence() -> tuple[list[Any], Any]:
    x, w = K.placeholder((None, 5, 6)), K.variable(rng.normal(size=(6, 6)))
    start = K.zeros_like(x[:, 0])

    def step(row: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        h = K.tanh(row + K.dot(states[0], w) - w[0])
        return h, [h]

    return [x], K.rnn(step, x, [start])[0]


@pytest.mark.parametrize("build", [network, norms, recurrence])
def test_results_are_those_of_the_program(build: Callable[[], tuple[list[Any], Any]]) -> None:
    inputs, y = build()
    value = rng.normal(size=(3, *K.int_shape(inputs[0])[1:])).astype("float32")
    f = K.function(inputs, [y])
    first = f([value])[0]
    found = settle(f, value)
    np.testing.assert_allclose(found, first, rtol=1e-4, atol=1e-5 * np.abs(first).max())
    np.testing.assert_array_equal(settle(f, value), found)


def test_convolutions_of_one_element() -> None:
    kernel, bias = K.variable(rng.normal(size=(1, 1, 3, 4))), K.variable(rng.normal(size=4))
    x = K.placeholder((None, None, None, 3))
    value = rng.normal(size=(2, 7, 6, 3)).astype("float32")
    wanted = np.einsum("bhwc,cn->bhwn", value, K.get_value(kernel)[0, 0])
    for strides in (1, 2, 3):
        for padding in ("same", "valid"):
            y = K.conv2d(x, kernel, strides=(strides, strides), padding=padding)
            f = K.function([x], [K.bias_add(y, bias)])
            part = wanted[:, ::strides, ::strides] + K.get_value(bias)
            np.testing.assert_allclose(f([value])[0], part, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(settle(f, value), part, rtol=1e-4, atol=1e-5)


def test_nan_passes_through_bounded_rectifiers() -> None:
    inputs, y = network()
    f = K.function(inputs, [y])
    value = np.ones((2, 8, 8, 3), "float32")
    settle(f, value)
    value[1, 4, 4] = np.nan
    found = f([value])[0]
    assert np.isfinite(found[0]).all()
    assert np.isnan(found[1]).any()


def test_an_error_names_its_line() -> None:
    table, i = K.variable(rng.normal(size=(4, 2))), K.placeholder((None,), dtype="int32")
    f = K.function([i], [K.gather(table, i) * 2.0])
    settle(f, [1, 3])
    with pytest.raises(IndexError, match=r"K\.gather") as told:
        f([[1, 9]])
    assert any("test_onnxruntime_frozen.py" in note for note in told.value.__notes__)
    assert is_frozen(f)


# --- new values ----------------------------------------------------------------------------------


def test_new_values_count_at_once(tmp_path: Path) -> None:
    w, f = scaled()
    add = K.function([], [], updates=[K.update_add(w, np.ones(4))])
    K.save_state(tmp_path / "state.npz", {"w": w})

    def load() -> None:
        K.load_state(tmp_path / "state.npz", {"w": w})

    value = 1.0
    changes: list[tuple[Callable[[], Any], Callable[[float], float]]] = [
        (lambda: K.set_value(w, np.full(4, 7.0)), lambda _: 7.0),
        (lambda: add([]), lambda old: old + 1.0),
        (lambda: K.batch_set_value([(w, np.full(4, 3.0))]), lambda _: 3.0),
        (load, lambda _: 1.0),
    ]
    for change, new in changes:
        assert settle(f, np.ones(4)).tolist() == [value] * 4
        change()
        value = new(value)
        assert f([np.ones(4)])[0].tolist() == [value] * 4
        program(f).patience = 0


def test_each_function_has_a_session_of_its_own() -> None:
    """Programs of equal structure are one program."""
    (w, f), (_, g) = scaled(), scaled()
    K.set_value(w, np.full(4, 5.0))
    for _ in range(3):
        assert f([np.ones(4)])[0].tolist() == [5.0] * 4
        assert g([np.ones(4)])[0].tolist() == [1.0] * 4
    assert is_frozen(f)
    assert is_frozen(g)


def test_the_next_session_waits_longer() -> None:
    w, f = scaled()
    settle(f, np.ones(4))
    assert program(f).patience == 0
    program(f).patience = 1
    K.set_value(w, np.zeros(4))
    for _ in range(2):
        f([np.ones(4)])
        assert not is_frozen(f)
    settle(f, np.ones(4))
    assert program(f).patience == 2


def test_nobody_reads_old_weights_while_others_train() -> None:
    x, w = K.placeholder((64,)), K.variable(np.zeros(64))
    f = K.function([x], [K.max(x * w), K.min(x * w)])
    add = K.function([], [], updates=[K.update_add(w, np.ones(64))])
    done, steps, failures = threading.Event(), [0], list[Any]()

    def predict() -> None:
        while not done.is_set():
            before = steps[0]
            high, low = f([np.ones(64, "float32")])
            if high != low or high < before:
                failures.append((before, high, low))

    threads = [threading.Thread(target=predict) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for i in range(1, 101):
            add([]) if i % 2 else K.set_value(w, np.full(64, i))
            steps[0] = i
            for _ in range(3):  # so many calls make a session
                assert float(f([np.ones(64, "float32")])[0]) == i
            program(f).patience = 0
    finally:
        done.set()
        waiting.joined(*threads)
    assert not failures


# --- memory --------------------------------------------------------------------------------------


def test_what_is_replaced_is_freed() -> None:
    w, f = scaled(2000)
    settle(f, np.ones(2000))
    old = ref(w.values[engines.get("cntk")])
    K.set_value(w, np.zeros(2000))
    assert old() is None
    f([np.ones(2000)])
    assert program(f).values.call is None


def test_a_session_goes_with_its_function() -> None:
    gc.disable()
    try:
        w, f = scaled(2000)
        settle(f, np.ones(2000))
        session, array = ref(program(f).values.call), ref(w.values[engines.get("cntk")])
        del w, f
        K.clear_session()
        assert session() is None
        assert array() is None
    finally:
        gc.enable()


def test_large_tables_stay_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frozen, "LARGE", 1000)
    table, w = K.variable(rng.normal(size=(100, 4))), K.variable(rng.normal(size=(4, 4)))
    i = K.placeholder((None,), dtype="int32")
    f = K.function([i], [K.dot(K.gather(table, i), w)])
    first = f([[3, 5]])[0]
    np.testing.assert_allclose(settle(f, [3, 5]), first, rtol=1e-5)
    assert len(program(f).positions) == 1
    monkeypatch.setattr(frozen, "MOST_BYTES", 10)
    assert not isinstance(program(scaled_and_called()), Settling)


def scaled_and_called() -> Any:
    _, f = scaled()
    f([np.ones(4)])
    return f


# --- where there is none -------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_other_floats_have_none(dtype: str) -> None:
    x, w = K.placeholder((4,), dtype=dtype), K.variable(np.full(4, 1 / 3), dtype=dtype)
    f = K.function([x], [x * w])
    for _ in range(4):
        found = f([np.ones(4)])[0]
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.full(4, 1 / 3, dtype))
    assert not isinstance(program(f), Settling)


def test_it_can_be_switched_off() -> None:
    assert isinstance(program(scaled_and_called()), Settling)
    with passes.without("freeze"):
        assert not isinstance(program(scaled_and_called()), Settling)
    x, w = K.placeholder((4,)), K.variable(np.ones(4))
    f = K.function([x], [x * w], freeze=False)
    f([np.ones(4)])
    assert not isinstance(program(f), Settling)


def test_functions_that_train_have_none() -> None:
    x, w = K.placeholder((4,)), K.variable(np.ones(4))
    step = K.function([x], [K.sum(x * w)], updates=[K.update_sub(w, 0.1 * x * w)])
    step([np.ones(4)])
    assert not isinstance(program(step), Settling)


def test_calls_of_python_have_none() -> None:
    w, x = K.variable(np.ones(4)), K.placeholder((4,))
    f = K.function([x], [K.native(np.sort, x * w) + w])
    for _ in range(4):
        assert f([[3, 1, 2, 0]])[0].tolist() == [1, 2, 3, 4]
    assert program(f).values.call is None
