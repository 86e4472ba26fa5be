"""What must be true on an engine that sees several devices.

An engine's tests start a process with virtual devices and run these functions there: `python -m
devices.checks ENGINE FILE` writes to a JSON file what failed.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane import engines
from compile.training import adam, cnn, mlp

LARGE = 1 << 16
"""Elements of a weight: what is copied in the size of one is counted."""


@contextmanager
def counted(engine: Any) -> Iterator[Counter[str]]:
    """Count the large arrays that go to an engine, and those that come back."""
    found = Counter[str]()
    inside, outside = engine.from_numpy, engine.to_numpy

    def from_numpy(array: Any, *dtype: Any) -> Any:
        found["in"] += np.size(array) >= LARGE
        return inside(array, *dtype)

    def to_numpy(value: Any) -> Any:
        array = outside(value)
        found["out"] += np.size(array) >= LARGE
        return array

    engine.from_numpy, engine.to_numpy = from_numpy, to_numpy
    try:
        yield found
    finally:
        del engine.from_numpy, engine.to_numpy


def second() -> Any:
    """The engine on its second device."""
    return engines.current().on_device(K.list_devices()[1])


def check_names() -> None:
    names = K.list_devices()
    assert len(names) == 3
    kind = names[0].partition(":")[0]
    for spelling in (f"{kind}:1", f"/{kind.upper()}:1", f"/device:{kind}:1"):
        with K.device(spelling):
            assert K.variable(1.0).home is second()
    with K.device(kind):
        assert K.variable(1.0).home.device == f"{kind}:0"
    with pytest.raises(ValueError, match=rf"K\.device: .* no device 'gpu:9'; it has {names[0]}, "):
        K.device("gpu:9").__enter__()


def check_training_stays_on_the_device() -> None:
    """Weights go there once, the slots of the optimizer too, and nothing comes back."""
    rng = np.random.default_rng(0)
    x = K.placeholder((None, 256))
    with K.device(K.list_devices()[1]):
        w = K.variable(rng.normal(size=(256, 256)) * 0.05)
    m = K.zeros((256, 256))
    y = K.tanh(K.dot(x, w))
    loss = K.mean(K.square(y - 1.0))
    (g,) = K.gradients(loss, [w])
    new_m = 0.9 * m + 0.1 * g
    with counted(second()) as copies:
        train = K.function([x], [loss], [(m, new_m), (w, w - 10.0 * new_m)])
        decay = K.function([], [], [(w, 0.999 * w)])
        test = K.function([x], [K.mean(y * y)])
        data = rng.normal(size=(8, 256)).astype("float32")
        losses = []
        for _ in range(4):
            losses.append(train([data])[0])
            decay([])
            test([data])
            K.eval(K.sum(w))
    assert losses[-1] < losses[0]
    assert (copies["in"], copies["out"]) == (2, 0)
    for v in (w, m):
        assert list(v.values) == [second()]
    assert np.isfinite(K.get_value(w)).all()


def check_equal_results() -> None:
    """Training gives the same on each device, with random numbers, and after `K.set_value`."""
    found = []
    for name in K.list_devices()[:2]:
        for build in (mlp, cnn):
            K.set_random_seed(3)
            with K.device(name):
                net = build()
                noise = K.sum(K.random_normal(K.shape(net.output), seed=1)) * 1e-3
                f = K.function(net.inputs, [net.loss + noise], adam(net), accumulate=2)
            K.set_value(net.weights[0], 0.5 * K.get_value(net.weights[0]))
            found.append([f(net.feed)[0] for _ in range(3)])
    np.testing.assert_allclose(found[:2], found[2:], rtol=1e-6)


def check_functions_without_variables() -> None:
    x = K.placeholder((None, 3))
    with K.device(K.list_devices()[1]):
        f = K.function([x], [2.0 * x + K.constant([1.0, 2.0, 3.0])])
    assert f._function.plan.engine is second()
    np.testing.assert_array_equal(f([[[1.0, 1.0, 1.0]]])[0], [[3.0, 4.0, 5.0]])
    assert K.function([x], [x])._function.plan.engine is engines.current()


def check_values_of_other_devices_are_moved() -> None:
    first, here = engines.current().on_device(K.list_devices()[0]), second()
    x = K.placeholder((None, 3))
    with K.device(here.device):
        f = K.function([x], [x * K.variable([1.0, 2.0, 3.0])])
    value = first.from_numpy(np.ones((2, 3), "float32"))
    np.testing.assert_array_equal(f([value])[0], [[1.0, 2.0, 3.0]] * 2)


def check_different_devices_are_refused() -> None:
    names, x = K.list_devices(), K.placeholder((2,))
    with K.device(names[1]):
        a = K.variable([1.0, 2.0], name="a")
    with K.device(names[2]):
        b = K.variable([1.0, 2.0], name="b")
    message = rf"K\.function 'f': everything must be on one device.*'a' on {names[1]}.*'b' on"
    with pytest.raises(ValueError, match=message):
        K.function([x], [x + a + b], name="f")
    with K.device(names[0]), pytest.raises(ValueError, match=r"the function on .*'a' on"):
        K.function([x], [x + a])


def check_other_engines_copy() -> None:
    with K.device(K.list_devices()[1]):
        a = K.variable([1.0, 2.0])
        with K.engine("numpy"):
            f = K.function([], [2.0 * a])
    np.testing.assert_array_equal(f([])[0], [2.0, 4.0])
    with K.engine("numpy"):
        np.testing.assert_array_equal(K.eval(3.0 * a), [3.0, 6.0])


CHECKS: dict[str, Callable[[], None]] = {
    name.removeprefix("check_"): check
    for name, check in globals().items()
    if name.startswith("check_")
}


def main(engine: str, file: str) -> None:
    """Run all checks on an engine, whose devices are there already."""
    found = {}
    for name, check in CHECKS.items():
        found[name] = ""
        try:
            with K.engine(engine):
                check()
        except Exception:  # noqa: BLE001 - whatever it is, it is reported
            found[name] = traceback.format_exc()
    Path(file).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
