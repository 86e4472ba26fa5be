"""What must be true of two processes of PyTorch, beside what `mesh.checks` has for all engines."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh

from backplane import backend as K
from backplane import engines
from backplane.engines.torch.mesh import parts

PAIR = {"batch": 2}


def check_layouts_that_are_lost() -> None:
    x = K.placeholder((None, 4))
    with K.set_mesh(PAIR):
        f = K.function([x], [K.reverse(x, axes=0)])
    values = np.arange(16.0).reshape(4, 4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = [f([values])[0] for _ in range(2)]
    for y in found:
        np.testing.assert_array_equal(y, values[::-1])
    # One process tells it, once.
    assert len(caught) == (dist.get_rank() == 0)
    for told in caught:
        assert told.filename == __file__
        assert "K.reverse(x, axes=0)" in str(told.message)
        assert "(4, 4) in the layout ('batch', None)" in str(told.message)


def check_usual_layouts_are_kept() -> None:
    x = K.placeholder((None, 4, 6))
    w = K.variable(np.ones((6, 6)))

    def step(row: Any, states: list[Any]) -> Any:
        new = K.tanh(K.dot(row, w) + states[0])
        return new, [new]

    last, _, _ = K.rnn(step, x, [K.zeros_like(x[:, 0])])
    loss = K.mean(K.square(K.softmax(last)))
    with K.set_mesh(PAIR), warnings.catch_warnings():
        warnings.simplefilter("error")
        K.function([x], [loss, *K.gradients(loss, [w])])([np.ones((8, 4, 6))])


def check_loops_add_up_gradients_once() -> None:
    """However many steps there are, and however many rows. So it is for kernels, too."""

    def exchanges(rows: int, steps: int, inner: tuple[int, ...]) -> int:
        x = K.placeholder((rows, steps, *inner, 4))
        w, b = K.ones((*[3 for _ in inner], 4, 4)), K.zeros((4,))
        apply = partial(K.conv1d, padding="same") if inner else K.dot

        def step(row: Any, states: list[Any]) -> Any:
            new = K.tanh(K.bias_add(apply(row, w) + apply(states[0], w), b))
            return new, [new]

        last, _, _ = K.rnn(step, x, [K.zeros_like(x[:, 0])])
        K.shard(x, ("batch", *[None for _ in x.shape[1:]]))
        f = K.function([x], K.gradients(K.sum(last), [w, b]))
        with pytest.MonkeyPatch.context() as patch:
            calls: list[int] = []
            moved = parts.moved
            count = lambda x, a, b, mesh: (calls.append(a != b), moved(x, a, b, mesh))[1]  # noqa: E731
            patch.setattr(parts, "moved", count)
            f([np.ones((rows, steps, *inner, 4))])
        return sum(calls)

    with K.set_mesh(PAIR):
        for rows, inner in ((2048, ()), (8, (6,))):
            assert exchanges(rows, 3, inner) == exchanges(rows, 9, inner) < 9


def check_other_programs() -> None:
    with K.set_mesh(PAIR):
        x = K.ones((4,))
        y = K.exp(x) if dist.get_rank() else K.log(x)
        with pytest.raises(ValueError, match=r"program of a function differs between process"):
            K.eval(y)


def check_other_meshes() -> None:
    name = "columns" if dist.get_rank() else "rows"
    with pytest.raises(ValueError, match=r"different meshes: process \d has \{'(rows|columns)'"):
        K.set_mesh({name: 2})
    assert K.get_mesh() is None


def check_too_many_devices() -> None:
    with pytest.raises(ValueError, match=r"4 devices, and there are 2 processes.*torchrun"):
        K.set_mesh({"batch": 4})


def check_batches_in_parts_of_parts() -> None:
    x = K.placeholder((None, 4))

    def training() -> tuple[Any, Any]:
        w = K.variable(np.ones((4, 4)))
        loss = K.mean(K.square(K.dot(x, w)))
        step = w - 0.1 * K.gradients(loss, [w])[0]
        return w, K.function([x], [loss], updates=[(w, step)], accumulate=2, precision="bfloat16")

    values = np.random.default_rng(0).normal(size=(8, 4))
    w, train = training()
    expected = train([values])[0], K.get_value(w)
    with K.set_mesh(PAIR), warnings.catch_warnings():
        warnings.simplefilter("error")
        w, train = training()
        found = train([values])[0], K.get_value(w)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-2)


def check_tables_of_which_each_process_has_a_part() -> None:
    indices = K.placeholder((None, 3), dtype="int32")
    table = np.arange(24.0, dtype="float32").reshape(6, 4)
    table[2, 1] = np.nan
    with K.set_mesh(PAIR), warnings.catch_warnings():
        warnings.simplefilter("error")
        w = K.shard(K.variable(table), ("batch", None))
        rows = K.gather(w, K.shard(indices, (None, None)))
        slope = K.gradients(K.sum(K.square(rows)), [w])[0]
        f = K.function([indices], [rows], updates=[(w, w - slope)])
    given = np.array([[0, 5, -1], [3, 3, 1]], "int32")
    np.testing.assert_array_equal(f([given])[0], table[given])
    expected = table.copy()
    np.subtract.at(expected, given, 2 * table[given])
    np.testing.assert_array_equal(K.get_value(w), expected)
    for beyond in (6, -7):
        with pytest.raises(IndexError, match="an index is out of range"):
            f([np.full((2, 3), beyond, "int32")])


def check_tensors_that_users_have_split() -> None:
    mesh = init_device_mesh("cpu", (2,))
    values = np.arange(12.0, dtype="float32").reshape(6, 2)
    x = K.placeholder((None, 2))
    with K.set_mesh(PAIR):
        f = K.function([x], [2 * x])
    for place in (Shard(0), Replicate()):
        given = distribute_tensor(torch.from_numpy(values), mesh, [place])
        np.testing.assert_array_equal(f([given])[0], 2 * values)


def check_compiling_is_refused() -> None:
    with K.set_mesh(PAIR):
        f = K.function([], [K.ones((2,)) * K.variable(1.0)], compile=True)
        with pytest.raises(ValueError, match="on a mesh, PyTorch has no option `compile`"):
            f([])


def check_a_mesh_of_the_same_axes_is_the_same() -> None:
    assert all(K.set_mesh(PAIR) is not None for _ in range(2))
    engine = engines.current()
    assert engine.on_mesh(engines.for_programs().mesh) is engines.for_programs()
    K.set_mesh(None)


ALL: dict[str, Callable[[], None]] = {
    name.removeprefix("check_"): function
    for name, function in list(globals().items())
    if name.startswith("check_")
}
