"""Slices that are all of a tensor as one node, for engines that have a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane import engines
from backplane.compile import passes
from backplane.compile.passes.peephole import peephole_lowered
from backplane.core.graph import toposort
from backplane.ops.indexing import slice as take_slice
from backplane.ops.indexing import split
from core.evaluate import leaf

RNG = np.random.default_rng(3)


@pytest.fixture
def joining() -> Any:
    """An engine that has the kernel."""
    installed = map(engines.get, filter(engines.installed, engines.names()))
    for engine in installed:
        if split.name in engine.table:
            return engine
    pytest.skip("no installed engine has the kernel")


def counted(outputs: list[Any], engine: Any) -> tuple[int, int]:
    """How many splits and slices a program of the engine has."""
    ops = [node.op for node in toposort(peephole_lowered(outputs, engine))]
    return ops.count(split), ops.count(take_slice)


def equal_parts(x: Any) -> list[Any]:
    return [x[:, 4:6], x[:, :2], x[:, 2:4]]


def unequal_parts(x: Any) -> list[Any]:
    return [x[:, -1:], x[:, 0:3], x[:, 3:5]]


def of_a_middle_axis(x: Any) -> list[Any]:
    y = K.stack([x, 2 * x], axis=2)
    return [y[:, :4], y[:, 4:]]


def along_two_axes(x: Any) -> list[Any]:
    y = K.stack([x, 2 * x], axis=2)
    return [y[:, :4], y[:, 4:], y[..., :1], y[..., 1:]]


def read_twice(x: Any) -> list[Any]:
    return [x[:, :3], K.tanh(x[:, :3]), x[:, 3:] + x[:, 3:]]


FORMS = [equal_parts, unequal_parts, of_a_middle_axis, along_two_axes, read_twice]


@pytest.mark.parametrize("form", FORMS)
def test_parts_of_all_of_an_axis_are_joined(joining: Any, form: Callable[..., Any]) -> None:
    x = leaf(None, 6)
    assert counted(passes.optimized(form(x), passes.Job(joining)).outputs, joining) == (
        2 if form is along_two_axes else 1,
        0,
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rows", [3, 0])
def test_values_are_those_of_slices(engine: Any, form: Callable[..., Any], rows: int) -> None:
    x = K.placeholder((None, 6))
    given = RNG.normal(size=(rows, 6))
    found = K.function([x], form(x))([given])
    with passes.without("peephole"):
        wanted = K.function([x], form(x))([given])
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("form", [equal_parts, unequal_parts])
@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "uint16", "int64", "bool"])
def test_parts_of_any_dtype(engine: Any, form: Callable[..., Any], dtype: str) -> None:
    given = RNG.integers(0, 3, (4, 6)).astype(dtype)
    x = K.placeholder((4, 6), dtype=dtype)
    for got, want in zip(K.function([x], form(x))([given]), form(given), strict=True):
        np.testing.assert_array_equal(got, want)


def test_the_gates_of_a_loop_and_their_gradients(engine: Any) -> None:
    x, u = K.placeholder((None, 5, 6)), K.variable(RNG.normal(size=(2, 6)))

    def step(row: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        a, b, c = equal_parts(row + K.dot(states[0], u))
        h = K.sigmoid(a) * K.tanh(b) + K.sigmoid(c) * states[0]
        return h, [h]

    def numbers() -> list[Any]:
        y = K.rnn(step, x, [K.zeros_like(x[:, 0, :2])])[1]
        return K.function([x], [y, *K.gradients(K.sum(K.square(y)), [x, u])])([data])

    data = RNG.normal(size=(3, 5, 6))
    found = numbers()
    with passes.without("peephole"):
        wanted = numbers()
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_other_slices_stay(joining: Any) -> None:
    x, unknown = leaf(4, 6), leaf(4, None)
    for parts in (
        [x[:, :3]],
        [x[:, :3], x[:, 4:]],
        [x[:, :3], x[:, 2:]],
        [x[:, ::2], x[:, 1::2]],
        [x[:2], x[2:]],  # These share the memory of x.
        [x[:2, :3], x[2:, 3:]],
        [unknown[:, :3], unknown[:, 3:]],
    ):
        assert counted(parts, joining)[0] == 0


def test_sizes_must_fit() -> None:
    with pytest.raises(ValueError, match=r"split: sizes \(2, 3\) of axis 1"):
        split(leaf(4, 6), axis=1, sizes=(2, 3))


def test_without_a_kernel_parts_are_slices() -> None:
    x = leaf(4, 6, 2)
    parts = split(x, axis=1, sizes=(1, 3, 2))
    given = RNG.normal(size=(4, 6, 2))
    with K.engine("numpy"):
        found = K.function([x], parts)([given])
    for got, want in zip(found, np.split(given, [1, 4], 1), strict=True):
        np.testing.assert_array_equal(got, want)
