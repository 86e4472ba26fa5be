"""What must be true on a mesh of `DEVICES` devices, on every engine that has them.

An engine's tests start a process, or several of them, and run these functions there, in all
processes alike: `python -m mesh.checks ENGINE FILE NAME…` writes to a JSON file what failed.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from functools import cache, partial
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import waiting
from backplane import backend as K
from backplane import engines
from backplane.engines.layouts import LayoutWarning
from mesh.programs import PROGRAMS, losses

DEVICES = int(os.environ.get("MESH_DEVICES", "8"))
LONG = int(os.environ.get("MESH_STEPS", "100"))
"""Steps of training by rows and columns, and at most so many by rows."""
ROWS = {"batch": DEVICES}
GRID = {"batch": DEVICES // 2, "model": 2}


@cache
def alone(name: str) -> Any:
    """The losses on one device. The first process finds them for all."""
    with K.set_mesh(ROWS):
        engine = engines.for_programs()
    found = np.zeros(LONG, "float32")
    if engine.process == 0:
        found = losses(name, None, LONG)
    found = engine.everyone(found)[0]
    assert np.abs(np.diff(found)).min() > 0  # It learns, so the losses tell something.
    return found


def equal_losses(name: str, mesh: dict[str, int], steps: int) -> None:
    with warnings.catch_warnings():
        if name == "transformer" and "model" in mesh:  # It joins the axes of rows and heads.
            warnings.simplefilter("ignore", LayoutWarning)
        np.testing.assert_allclose(losses(name, mesh, steps), alone(name)[:steps], rtol=1e-5)


def check_the_engines_own_generator() -> None:
    expected = losses("mlp", None, steps=5, portable=False)
    np.testing.assert_allclose(losses("mlp", GRID, steps=5, portable=False), expected, rtol=1e-5)


def check_the_last_batch_may_be_smaller() -> None:
    x = K.placeholder((None, 2))
    with K.set_mesh(ROWS):
        f = K.function([x], [K.sum(x, axis=1), K.mean(x)])
    for rows in (16, 13, 1, 0, 8):
        values = np.arange(2.0 * rows, dtype="float32").reshape(rows, 2)
        sums, mean = f([values])
        np.testing.assert_array_equal(sums, values.sum(1))
        assert rows == 0 or mean == values.mean()


def check_values_of_split_variables() -> None:
    with K.set_mesh(GRID):
        values = np.arange(24.0, dtype="float32").reshape(4, 6)
        w = K.shard(K.variable(values), ("batch", "model"))
        f = K.function([], [K.sum(w)], updates=[K.update_add(w, K.ones((4, 6)))])
        assert f([])[0] == values.sum()
        np.testing.assert_array_equal(K.get_value(w), values + 1)
        np.testing.assert_array_equal(K.eval(w * 2), 2 * (values + 1))
        K.set_value(w, values)
        assert f([])[0] == values.sum()
        K.shard(w, (None, None))
        assert f([])[0] == values.sum() + 24
    np.testing.assert_array_equal(K.get_value(w), values + 2)
    # A function without a mesh goes on from there.
    K.function([], [], updates=[K.update_add(w, K.ones((4, 6)))])([])
    np.testing.assert_array_equal(K.get_value(w), values + 3)
    assert f([])[0] == values.sum() + 72


def check_variables_that_are_only_written() -> None:
    with K.set_mesh(ROWS):
        w = K.shard(K.zeros((8, 2)), ("batch", None))
        x = K.placeholder((None, 2))
        K.function([x], [], updates=[(w, 2 * x)])([np.ones((8, 2))])
        np.testing.assert_array_equal(K.get_value(w), np.full((8, 2), 2))


def check_sizes_that_do_not_divide() -> None:
    x = K.placeholder((None, 2))
    with K.set_mesh(ROWS):
        inside = K.function([x], [K.shard(x * 2, ("batch", None))])
        np.testing.assert_array_equal(inside([np.ones((8, 2))])[0], np.full((8, 2), 2))
        with pytest.raises(ValueError, match=r"K\.shard: axis 0 has 9 elements.*'batch'.*mesh"):
            inside([np.ones((9, 2))])
        fed = K.function([K.shard(K.placeholder((None, 2), name="x"), ("batch", None))], [])
        with pytest.raises(ValueError, match=r"input 0 \('x'\): axis 0 has 9 elements"):
            fed([np.ones((9, 2))])
        with pytest.raises(ValueError, match=r"K\.shard: axis 0 has 3 elements"):
            K.shard(K.zeros((3,)), ("batch",))
    w = K.shard(K.variable(np.zeros((3,)), name="w"), ("batch",))
    with K.set_mesh(ROWS), pytest.raises(ValueError, match=r"variable 'w'.*3 elements"):
        K.function([], [w * 2])


def check_axes_that_the_mesh_lacks() -> None:
    y = K.shard(K.ones((8,)) * 2, ("rows",))
    with (
        K.set_mesh(ROWS),
        pytest.raises(ValueError, match=r"no axis of the mesh .* is called 'rows'"),
    ):
        K.eval(y)


def check_loops_and_branches() -> None:
    x, n = K.placeholder((None, 4, 8)), K.placeholder((), dtype="int32")
    w = K.variable(np.full((8, 8), 0.1))

    def step(row: Any, states: list[Any]) -> Any:
        new = K.tanh(K.shard(K.dot(row, w), ("batch", None)) + states[0])
        return new, [new]

    last, _, _ = K.rnn(step, x, [K.zeros_like(x[:, 0])])
    loss = K.sum(K.switch(K.greater(n, 0), K.square(last), last))
    outputs = [last, *K.gradients(loss, [w, x])]
    values = [np.random.default_rng(0).normal(size=(16, 4, 8)), np.array(1)]
    expected = K.function([x, n], outputs)(values)
    with K.set_mesh(GRID):
        found = K.function([x, n], outputs)(values)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def check_operations_across_the_parts() -> None:
    """Operations that need what other devices hold, such as the neighbours of an image."""
    image, kernel = K.placeholder((8, 8, 8, 2)), K.variable(np.full((3, 3, 2, 4), 0.1))
    rows = K.reshape(image, (64, 16))
    outputs = [
        K.conv2d(image, kernel, padding="same"), K.pool2d(image, (3, 3), (2, 2), "same"),
        K.reverse(image, axes=1), K.cumsum(image, axis=1), K.softmax(image, axis=1),
        K.reshape(image, (16, 8, 8)), K.permute_dimensions(image, (2, 0, 3, 1)),
        K.argmax(image, axis=1), K.std(image, axis=(1, 2)), K.gather(rows, [3, 60, 3]),
        K.concatenate([rows, rows[::-1]], axis=0), K.resize_images(image, 2, 2, "channels_last"),
        K.dot(rows, K.transpose(rows)), K.in_top_k(rows, K.argmax(rows), 3),
        *K.gradients(K.sum(K.square(K.conv2d(image, kernel, strides=(2, 2)))), [image, kernel]),
    ]  # fmt: skip
    values = [np.random.default_rng(0).normal(size=(8, 8, 8, 2))]
    expected = K.function([image], outputs)(values)
    for layout in ((None, "batch", "model", None), (None, None, ("batch", "model"), None)):
        with K.set_mesh(GRID), warnings.catch_warnings():
            warnings.simplefilter("ignore", LayoutWarning)
            K.shard(image, layout)
            found = K.function([image], outputs)(values)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def check_layouts_that_are_lost() -> None:
    """The first process tells which line of the program has operands gathered, once."""
    x, w = K.placeholder((None, 4)), K.variable(np.ones((4, 4)))
    with K.set_mesh(ROWS):
        first = engines.for_programs().process == 0
        programs = [K.function([x], [K.cumsum(x, axis=0)])]
        programs.append(K.function([x], [K.mean(x)], [(w, w + K.cumsum(x, axis=0)[:4])]))
    values = np.arange(8.0 * DEVICES).reshape(2 * DEVICES, 4)
    for f in programs:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                f([values])
        told = [str(w.message) for w in caught if "'cumsum' cannot keep" in str(w.message)]
        assert len(told) == first
        for warning in caught:
            assert isinstance(warning.message, LayoutWarning)
            assert warning.filename == __file__
            assert "K.cumsum(x, axis=0)" in str(warning.message)


def check_parts_that_are_moved() -> None:
    """It is told, unless `K.shard` has parts moved, or they go to neighbours only."""
    x = K.placeholder((None, 2 * DEVICES))
    for build, told in (
        (lambda: K.reverse(x, axes=0), ["flip"]),
        (lambda: K.concatenate([x, x], axis=0), ["concat"]),
        # The result has a size that the mesh does not divide, so it is whole.
        (lambda: K.exp(x[1:]) * 2, ["slice"]),
        (lambda: K.shard(K.exp(x), (None, "batch")), []),
        (lambda: K.shard(K.exp(x), (None, None)), []),
    ):
        with K.set_mesh(ROWS), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            first = engines.for_programs().process == 0
            K.function([x], [build()])([np.ones((4 * DEVICES, 2 * DEVICES))])
        found = [str(w.message).split("'")[1] for w in caught if w.category is LayoutWarning]
        assert found == told * first, caught


def check_usual_layouts_are_kept() -> None:
    """A recurrent net and its gradient, dropout, slices of features, split weights, a table."""
    x, indices = K.placeholder((None, 4, 8)), K.placeholder((None,), dtype="int32")
    w = K.variable(np.full((8, 8), 0.1))

    def step(row: Any, states: list[Any]) -> Any:
        new = K.tanh(K.dot(row, w) + K.dot(states[0], w))
        return new, [new]

    with K.set_mesh(GRID), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = K.shard(K.variable(np.ones((2 * DEVICES, 8))), ("batch", None))
        wide = K.shard(K.variable(np.ones((8, 8))), (None, "model"))
        held = K.shard(K.variable(np.ones((8, 8))), ("batch", None))
        last, _, _ = K.rnn(step, x, [K.zeros_like(x[:, 0])])
        h = K.dropout(last, 0.3) + K.dot(K.gather(table, indices), held)
        loss = K.mean(K.square(K.dot(K.softmax(h), wide)))
        weights = [w, table, wide, held]
        slopes = K.gradients(loss, weights)
        updates = [(v, v - g) for v, g in zip(weights, slopes, strict=True)]
        f = K.function([x, indices], [loss, K.max(h, axis=1)], updates)
        rows = 2 * DEVICES
        f([np.ones((rows, 4, 8)), np.zeros(rows)])
    told = [str(w.message) for w in caught if w.category is LayoutWarning]
    assert not told, "\n".join(told)


def check_wide_and_whole_numbers() -> None:
    for dtype in ("float64", "int64", "int32", "float16", "bool"):
        x = K.placeholder((None, 2), dtype=dtype)
        with K.set_mesh(ROWS):
            f = K.function([x], [K.sum(K.cast(x, "float64")), K.reverse(x, axes=1)])
        values = np.arange(16).reshape(8, 2).astype(dtype)
        total, turned = f([values])
        assert total == values.sum(dtype="float64")
        assert turned.dtype == dtype
        np.testing.assert_array_equal(turned, values[:, ::-1])


def check_reading_ahead() -> None:
    x = K.placeholder((None, 2))
    with K.set_mesh(ROWS):
        f = K.function([x], [K.sum(x)])
        found = [y.item() for (y,) in f.map([[np.full((8, 2), i)] for i in range(4)])]
    assert found == [0, 16, 32, 48]


def check_native_values_are_fed() -> None:
    engine = engines.current()
    x = K.placeholder((None, 2))
    with K.set_mesh(ROWS):
        f = K.function([x], [K.sum(x, axis=0)])
    for rows in (8, 3):
        value = engine.from_numpy(np.ones((rows, 2), "float32"))
        np.testing.assert_array_equal(f([value])[0], [rows, rows])


def check_one_function_in_two_threads() -> None:
    w = K.zeros((8,))
    with K.set_mesh(ROWS):
        f = K.function([], [], updates=[K.update_add(w, K.ones((8,)))])
    threads = [threading.Thread(target=lambda: [f([]) for _ in range(20)]) for _ in range(2)]
    for thread in threads:
        thread.start()
    waiting.joined(*threads)
    np.testing.assert_array_equal(K.get_value(w), np.full(8, 40))


def check_debugging_and_profiles() -> None:
    x = K.placeholder((None, 2))
    with K.set_mesh(ROWS):
        f = K.function([x], [K.log(x)])
    with pytest.raises(FloatingPointError, match="log"), K.debug():
        f([np.full((8, 2), -1.0)])
    assert [row[0] for row in f.profile(np.ones((8, 2))).by("op")] == ["log"]
    with K.set_mesh(ROWS):
        checked = K.function([x], [K.check_numerics(K.log(x), "here")])
    with pytest.raises(FloatingPointError, match="here: the tensor has NaN"):
        checked([np.concatenate([np.ones((7, 2)), np.full((1, 2), -1.0)])])
    np.testing.assert_array_equal(checked([np.ones((8, 2))])[0], np.zeros((8, 2)))


def check_a_state_moves_to_other_meshes(folder: Path) -> None:
    def model() -> tuple[Any, Any]:
        w = K.variable(np.ones((8, 4)))
        if K.get_mesh():
            K.shard(w, ("batch", "model"))
        x = K.placeholder((None, 8))
        loss = K.mean(K.square(K.dot(x, w)))
        (slope,) = K.gradients(loss, [w])
        return w, K.function([x], [loss], updates=[(w, w - 0.1 * slope)])

    values = np.random.default_rng(0).normal(size=(8, 8))
    w, train = model()
    expected = [train([values])[0] for _ in range(6)]
    found: list[Any] = []
    turned = {"batch": GRID["model"], "model": GRID["batch"]}
    for i, mesh in enumerate((GRID, turned, None)):
        with K.set_mesh(mesh):
            w, train = model()
            if i:
                K.load_state(folder / f"state-{i}", {"w": w})
            found += [train([values])[0] for _ in range(2)]
            if mesh is not None:  # Else each process would write the same file.
                K.save_state(folder / f"state-{i + 1}", {"w": w})
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def check_states_in_parts(folder: Path) -> None:
    """What several processes hold in parts is saved in parts. Processes read what they need."""
    values = np.arange(8.0 * DEVICES, dtype="float32").reshape(8, DEVICES)
    turned = {"batch": GRID["model"], "model": GRID["batch"]}
    good, bad = folder / "parts" / "good", folder / "parts" / "bad"
    good.parent.mkdir(exist_ok=True)
    with K.set_mesh(GRID):
        engine = engines.for_programs()
        w = K.shard(K.variable(values, dtype="bfloat16"), ("batch", "model"))
        b, whole = K.shard(K.variable(values[0]), ("batch",)), K.variable(3.0)
        state = {"w": w, "b": b, "whole": whole}
        for file in (bad, good, good):
            K.function([], [], updates=[K.update_add(w, K.ones_like(w)), (b, 2 * b)])([])
            K.save_state(file, state)
    saved = {"w": values + 3, "b": 8 * values[0], "whole": 3.0}
    parts = sorted(Path(f"{good}.parts").glob("*"))
    processes = len(engine.everyone(np.zeros(1)))
    assert len(parts) == (processes if processes > 1 else 0)
    if parts:
        assert {part.name[:16] for part in parts} == {parts[0].name[:16]}  # of the last state
    for mesh in (GRID, turned, None):
        with K.set_mesh(mesh):
            w = K.shard(K.variable(0 * values, dtype="bfloat16"), ("batch", "model"))
            b = K.shard(K.variable(0 * values[0]), ("model",))
            found = K.load_state(good, {"w": w, "b": b})
            assert found["whole"] == 3.0
            assert ("w" in found) == (mesh is None or not parts)
            K.function([], [], updates=[K.update_add(b, K.ones_like(b))])([])
            np.testing.assert_array_equal(K.get_value(b), saved["b"] + 1)
            np.testing.assert_array_equal(K.get_value(w), saved["w"].astype("bfloat16"))
    for name, value in K.load_state(good).items():
        np.testing.assert_array_equal(value, np.asarray(saved[name]).astype(value.dtype))
    if parts:
        _refuses_bad_parts(engine, good, bad, values)


def _refuses_bad_parts(engine: Any, good: Path, bad: Path, values: np.ndarray) -> None:
    """All processes refuse a state, one part of which is bad, and find the last good one."""
    part = min(Path(f"{bad}.parts").iterdir())
    with K.set_mesh(GRID):
        w = K.shard(K.variable(0 * values, dtype="bfloat16"), ("batch", "model"))
        for i, words in enumerate(("was altered", "is damaged", "is missing")):
            if engine.process == 0:
                content = part.read_bytes()
                part.write_bytes((content[:-1] + bytes([content[-1] ^ 1]), content[:-2])[i % 2])
                if i == 2:
                    part.unlink()
                os.utime(good, ns=(1, 1))
            engine.everyone(np.zeros(1))
            with pytest.raises(ValueError, match=rf"{part.name}' {words}, a part of the state"):
                K.load_state(bad, {"w": w})
            with pytest.warns(UserWarning, match=rf"{part.name}' {words}.*file before it is tried"):
                K.load_state(bad.parent, {"w": w})
            np.testing.assert_array_equal(K.get_value(w), (values + 3).astype("bfloat16"))
            engine.everyone(np.zeros(1))  # Before the file changes again.
        with pytest.raises(ValueError, match=r"K\.save_state: the list of names differs between"):
            K.save_state(bad, {f"w{engine.process}": w})
        with pytest.raises(OSError, match=r"nowhere|process \d has failed"):
            K.save_state(bad.parent / f"nowhere-{engine.process}" / "state", {"w": w})


BY_ROWS = {f"{name} by rows": partial(equal_losses, name, ROWS, min(20, LONG)) for name in PROGRAMS}
BY_GRID = {
    f"{name} by rows and columns": partial(equal_losses, name, GRID, LONG) for name in PROGRAMS
}
OTHERS: dict[str, Callable[..., None]] = {
    name.removeprefix("check_"): function
    for name, function in list(globals().items())
    if name.startswith("check_")
}
CHECKS: dict[str, Callable[..., None]] = {**BY_ROWS, **BY_GRID, **OTHERS}


def failure(check: Callable[..., None], folder: Path) -> str:
    """What a check raises; nothing if it passes."""
    K.clear_session()
    K.set_random_seed(None)
    try:
        check(**({"folder": folder} if "folder" in signature(check).parameters else {}))
    except BaseException:  # noqa: BLE001 - each check is told for itself
        return traceback.format_exc()
    return ""


def main(engine: str, file: str, *names: str) -> None:
    """Run checks, by default all of them."""
    with K.engine(engine):
        found = {n: failure(CHECKS[n], Path(file).parent) for n in names or CHECKS}
    Path(file).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
