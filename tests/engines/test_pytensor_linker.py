"""PyTensor's linker of ours: memory, branches, depth, and operations that it does not know."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pytensor")
import pytensor
import pytensor.tensor as pt
from pytensor.ifelse import ifelse

from backplane import backend as K
from backplane import engines
from backplane.engines.pytensor.fast.linker import ARRAYS

rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def on_pytensor() -> Iterator[None]:
    with engines.use("theano"):
        yield


def floats(*shape: int) -> np.ndarray:
    return rng.uniform(-1, 1, shape).astype("float32")


def test_operands_are_not_written_to() -> None:
    x = K.placeholder((3, 4))
    w = K.variable(floats(3, 4))
    shared = x * w
    outputs = [shared, K.exp(shared) + x, K.tanh(shared * shared) * w, -x, K.square(x + 1) - x]
    f = K.function([x], outputs, updates=[(w, w * 0.5 + K.exp(w))])
    a, before = floats(3, 4), K.get_value(w)
    kept = a.copy()
    found = f([a])
    np.testing.assert_array_equal(a, kept)
    wanted = [
        a * before,
        np.exp(a * before) + a,
        np.tanh((a * before) ** 2) * before,
        -a,
        (a + 1) ** 2 - a,
    ]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(K.get_value(w), before * 0.5 + np.exp(before), rtol=1e-6)


def test_a_result_takes_over_dead_memory() -> None:
    x = pt.tensor("x", shape=(2, 3), dtype="float32")
    addresses = []

    class Spy(pytensor.graph.op.Op):  # type: ignore[misc]
        __props__ = ()

        def make_node(self, x: Any) -> Any:
            return pytensor.graph.basic.Apply(self, [x], [x.type()])

        def perform(self, node: Any, inputs: Any, storage: Any) -> None:
            addresses.append(inputs[0].ctypes.data)
            storage[0][0] = inputs[0]

    y = pt.exp(x)
    f = pytensor.function([x], pt.sum(pt.tanh(pt.neg(y))), mode=ARRAYS)
    assert "out=" in source_of(f)
    # What another operation may keep hold of is not written to.
    g = pytensor.function([x], [pt.tanh(y), Spy()(y)], mode=ARRAYS)
    assert "out=" not in source_of(g)
    a = floats(2, 3)
    np.testing.assert_allclose(f(a), np.tanh(-np.exp(a)).sum(), rtol=1e-5)
    tanh, spied = g(a)
    np.testing.assert_allclose(spied, np.exp(a), rtol=1e-6)
    np.testing.assert_allclose(tanh, np.tanh(np.exp(a)), rtol=1e-6)
    assert addresses == [spied.ctypes.data]


def source_of(f: Any) -> str:
    """The names that a linked program loads, keyword arguments included."""
    code = f.vm.jit_fn.__closure__
    programs = [cell.cell_contents for cell in code if callable(cell.cell_contents)]
    program = next(p for p in programs if getattr(p, "__name__", "") == "program")
    return " ".join(f"{name}=" for part in program.__code__.co_consts if isinstance(part, tuple)
                    for name in part)  # fmt: skip


def test_only_the_branch_taken_runs(capsys: pytest.CaptureFixture[str]) -> None:
    c, x = K.placeholder((), dtype="bool"), K.placeholder((2,))
    y = K.switch(
        c,
        lambda: K.print_tensor(x, "then"),
        lambda: K.switch(K.sum(x) > 0, lambda: K.print_tensor(x * 2, "inner"), lambda: x * 3),
    )
    f = K.function([c, x], [y])
    for given, value, said in [(True, 1, "then"), (False, 1, "inner"), (False, -1, "")]:
        f([np.array(given), np.full(2, value, "float32")])
        assert capsys.readouterr().out.partition(" ")[0] == said


def test_branches_nest_deeply() -> None:
    x = K.placeholder(())

    def nested(y: Any, depth: int) -> Any:
        if not depth:
            return y
        return K.switch(x > depth - 1.0, lambda: nested(y + 1.0, depth - 1), lambda: y)

    f = K.function([x], [nested(x, 30)])
    assert f([np.float32(40)])[0] == 70
    assert f([np.float32(3)])[0] == 3


def test_branches_of_pytensor_s_own_in_a_program() -> None:
    values = pytensor.shared(np.float32([3, 1, 2]), shape=(3,))
    x = K.placeholder((3,))
    f = K.function([x], [x + ifelse(pt.gt(values[0], 0), values * 2, values * 3)])
    np.testing.assert_array_equal(f([np.zeros(3)])[0], [6, 2, 4])
    values.set_value(np.float32([-1, 1, 1]))
    np.testing.assert_array_equal(f([np.zeros(3)])[0], [-3, 3, 3])


def test_deep_graphs_need_no_deep_recursion() -> None:
    x = K.placeholder((2, 3))
    w = K.variable(np.eye(3))
    y = x
    for _ in range(sys.getrecursionlimit() // 2):
        y = K.tanh(K.dot(y, w))
    gradient = K.function([x], K.gradients(K.sum(y), [w]))([floats(2, 3)])[0]
    assert gradient.shape == (3, 3)


def test_operations_without_a_call_of_ours_run_by_their_own() -> None:
    values = pytensor.shared(np.float32([3, 1, 2]), shape=(3,))
    x = K.placeholder((3,))
    f = K.function([x], [x + pt.sort(values)])
    np.testing.assert_array_equal(f([np.zeros(3)])[0], [1, 2, 3])
    values.set_value(np.float32([9, 8, 7]))
    np.testing.assert_array_equal(f([np.zeros(3)])[0], [7, 8, 9])


def test_floating_point_errors_are_silent() -> None:
    x = K.placeholder((2,))
    np.testing.assert_array_equal(K.function([x], [1 / x])([[0, -0.0]])[0], [np.inf, -np.inf])


def test_unknown_sizes_broadcast_at_run_and_back() -> None:
    x, y = K.placeholder((None, 2)), K.placeholder((None, 2))
    loss = K.sum(x * y)
    f = K.function([x, y], [loss, *K.gradients(loss, [x, y])])
    for rows in (1, 3):
        a, b = floats(3, 2), floats(rows, 2)
        total, dx, dy = f([a, b])
        np.testing.assert_allclose(total, (a * b).sum(), rtol=1e-5)
        np.testing.assert_allclose(dx, np.broadcast_to(b, a.shape), rtol=1e-6)
        np.testing.assert_allclose(dy, a.sum(0, keepdims=True) if rows == 1 else a, rtol=1e-5)
