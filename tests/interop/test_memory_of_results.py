"""Whose memory the results of K functions are: who may write to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from backplane import backend as K

A = np.arange(6, dtype="float32").reshape(2, 3) + 1

KEEPING: dict[str, Callable[[Any], Any]] = {
    "cast": lambda x: K.cast(x, "float32"),
    "identity": K.identity,
    "stop_gradient": K.stop_gradient,
    "reshape": lambda x: K.reshape(x, (3, 2)),
    "flatten": K.flatten,
    "batch_flatten": K.batch_flatten,
    "transpose": K.transpose,
    "permute_dimensions": lambda x: K.permute_dimensions(x, (1, 0)),
    "expand_dims": K.expand_dims,
    "squeeze": lambda x: K.squeeze(K.expand_dims(x, 0), 0),
    "slice": lambda x: K.slice(x, (0, 0), (1, 3)),
    "reverse": lambda x: K.reverse(x, 0),
    "tile once": lambda x: K.tile(x, 1),
    "repeat once": lambda x: K.repeat_elements(x, 1, 0),
    "concatenate one": lambda x: K.concatenate([x]),
    "stack one": lambda x: K.stack([x]),
    "sum over nothing": lambda x: K.sum(x, axis=[]),
    "dropout of nothing": lambda x: K.dropout(x, 0.0),
    "clip to nothing": lambda x: K.clip(x, None, None),
}
"""Elements of the operand as they are."""

NEW: dict[str, Callable[[Any], Any]] = {
    "relu": K.relu,
    "abs": K.abs,
    "exp": K.exp,
    "square": K.square,
    "softmax": K.softmax,
    "maximum": lambda x: K.maximum(x, x),
    "clip": lambda x: K.clip(x, 0, 100),
    "round": K.round,
    "pow": lambda x: K.pow(x, 2),
    "cast": lambda x: K.cast(K.cast(x, "float16"), "float32"),
    "bias_add": lambda x: K.bias_add(x, np.zeros(3, "float32")),
    "sum": lambda x: K.sum(x, axis=0),
    "mean of one": lambda x: K.mean(K.expand_dims(x), axis=-1),
    "max": lambda x: K.max(K.expand_dims(x, 0), axis=0),
    "cumsum": K.cumsum,
    "dot": lambda x: K.dot(x, np.eye(3, dtype="float32")),
    "concatenate": lambda x: K.concatenate([x, x]),
    "stack": lambda x: K.stack([x, x]),
    "gather": lambda x: K.gather(x, [0, 1]),
    "tile": lambda x: K.tile(x, (2, 1)),
    "repeat_elements": lambda x: K.repeat_elements(x, 2, 0),
    "zeros_like": K.zeros_like,
    "switch": lambda x: K.switch(K.greater(x, 2), x, x),
    "padding": lambda x: K.temporal_padding(K.expand_dims(x)),
}


def add_in_place(y: Any) -> None:
    """`y += 100`, for what follows from it in other objects."""
    y += 100


def unchanged(array: Any) -> None:
    np.testing.assert_array_equal(array, A)


@pytest.mark.parametrize("name", NEW)
def test_new_elements_have_memory_of_their_own(engine, name):
    if engine.name == "theano":
        native: Any = A.copy()
    else:
        native = engine.from_numpy(A.copy())
    y = NEW[name](native)
    assert y is not native
    add_in_place(y)
    unchanged(K.eval(native))
    y = NEW[name](native)
    before = K.eval(y)
    add_in_place(native)
    np.testing.assert_array_equal(K.eval(y), before)


STRETCHED: dict[str, Callable[[Any], Any]] = {
    "tile": lambda x: K.tile(x, (3, 1)),
    "tile of one": lambda x: K.tile(K.slice(x, (0, 0), (1, 3)), (3, 1)),
    "repeat": lambda x: K.repeat(x, 4),
    "transpose": lambda x: K.permute_dimensions(K.repeat(x, 4), (2, 0, 1)),
    "part": lambda x: K.slice(K.repeat(x, 4), (0, 1, 0), (2, 2, 1)),
    "zeros": lambda x: K.reshape(K.repeat(x[:, :1], 4), (2, 4)),
    "function": lambda x: K.sum(K.square(K.repeat(x, 4)), axis=0),
}
"""Elements of the operand, some of them several times."""


@pytest.mark.parametrize("name", STRETCHED)
def test_elements_that_occur_several_times_are_written_one_by_one(engine, name):
    native: Any = A.copy() if engine.name == "theano" else engine.from_numpy(A.copy())
    y = STRETCHED[name](native)
    before = K.eval(y)
    add_in_place(y)  # On NumPy and PyTorch the same object.
    unchanged(K.eval(native))
    np.testing.assert_array_equal(K.eval(STRETCHED[name](native)), before)


CONSTANT: dict[str, Callable[[Any], Any]] = {
    "zeros of a scalar": lambda x: K.zeros_like(K.sum(x)),
    "ones": K.ones_like,
    "sum of zeros": lambda x: K.sum(K.zeros_like(x)),
    "shape": K.shape,
    "part of a shape": lambda x: K.reshape(K.shape(x)[1:], (1, 1)),
    "product of sizes": lambda x: K.prod(K.shape(x)),
    "table": lambda x: K.transpose(K.constant(A)) if K.ndim(x) else x,
    "one of two": lambda x: K.switch(K.constant(True), K.constant(A), K.constant(-A)),
}
"""What is known from the shape of the operand alone."""


@pytest.mark.parametrize("name", CONSTANT)
def test_a_constant_is_never_written_to_by_way_of_a_result(engine, name):
    native: Any = A.copy() if engine.name == "theano" else engine.from_numpy(A.copy())
    y = CONSTANT[name](native)
    before = K.eval(y)
    add_in_place(y)
    np.testing.assert_array_equal(K.eval(CONSTANT[name](native)), before)


@pytest.mark.parametrize("name", KEEPING)
def test_a_variable_is_never_written_to_by_way_of_a_result(engine, name):
    f = KEEPING[name]
    v, c = K.variable(A), K.constant(A)
    if "eager" in engine.capabilities or engine.name == "cntk":
        add_in_place(K.eager(f)(v))
        unchanged(K.get_value(v))
        K.function([], [], updates=[K.update(v, v * 1.0)])([])
        add_in_place(K.eager(f)(v))
        unchanged(K.get_value(v))
        add_in_place(K.eager(f)(c))
        unchanged(K.eval(c))
        kept = K.eager(f)(v)
        before = K.eval(kept)
        K.function([], [], updates=[K.update(v, v * 2.0)])([])
        np.testing.assert_array_equal(K.eval(kept), before)
        K.set_value(v, A)
    add_in_place(K.eval(f(v)))
    unchanged(K.get_value(v))


def test_a_variable_around_a_function_is_not_written_to(engine):
    if "eager" not in engine.capabilities:
        return
    v, native = K.variable(A), engine.from_numpy(np.float32(1.0) * np.ones(()))
    chosen = K.switch(K.greater(native, 0), lambda: v, lambda: v)
    add_in_place(chosen)
    unchanged(K.get_value(v))


@pytest.mark.parametrize("name", KEEPING)
def test_what_functions_give_is_the_callers_own(engine, name):
    x, c, f = K.placeholder((2, 3)), K.constant(A), KEEPING[name]
    given = A.copy()
    results = K.function([x], [f(x), f(x), f(c)])([given])
    assert not np.shares_memory(results[0], results[1])
    for y in results:
        add_in_place(y)
    unchanged(given)
    unchanged(K.eval(c))
    if engine.name != "theano":
        native = engine.from_numpy(A.copy())
        add_in_place(K.eval(native))
        add_in_place(K.function([x], [f(x)])([native])[0])
        unchanged(K.eval(native))


def test_values_are_copied_into_variables_and_constants(engine):
    sources = [lambda: A.copy()]
    if engine.name != "theano":
        sources.append(lambda: engine.from_numpy(A.copy()))
    for source in sources:
        array = source()
        v = K.variable(array)
        add_in_place(array)
        unchanged(K.get_value(v))
        array, v = source(), K.zeros((2, 3))
        K.set_value(v, array)
        add_in_place(array)
        unchanged(K.get_value(v))
    array = A.copy()
    c = K.constant(array)
    add_in_place(array)
    unchanged(K.eval(c))


@pytest.mark.parametrize("name", ["reshape", "transpose", "expand_dims", "slice", "cast"])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_arranging_copies_nothing(library, name):
    """What the libraries themselves do with views, K does without copies too."""
    with K.engine(library):
        native = A.copy() if library == "numpy" else pytest.importorskip("torch").from_numpy(A)
        y = KEEPING[name](native)
        assert np.shares_memory(np.asarray(y), np.asarray(native))
