"""PyTorch with an accelerator, by one that computes no values: where programs run, and steps that
wait for none.
"""

import json
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
import torch

from backplane import backend as K
from backplane.core.spec import Spec
from backplane.engines.programs import Program
from backplane.engines.torch import ENGINE, devices
from backplane.engines.torch.fast import updates
from engines.lowerings import lowering
from mesh.processes import run_all


def test_programs_on_a_fake_accelerator(tmp_path):
    (ended,) = run_all([["-m", "devices.fake_accelerator", str(tmp_path / "found")]], {}, 300)
    assert ended.code == 0, ended.output
    found = json.loads((tmp_path / "found").read_text())
    looking = [name for name, failure in found.items() if failure == "looks at values"]
    failed = {name: text for name, text in found.items() if text and name not in looking}
    assert not failed, failed
    assert len(looking) < len(found) / 20


def test_keras_3_takes_the_accelerator(tmp_path):
    """As Keras on PyTorch does, though PyTorch's default device is the CPU."""
    (ended,) = run_all([["-m", "devices.fake_keras", str(tmp_path / "found")]], {}, 300)
    assert ended.code == 0, ended.output
    found = json.loads((tmp_path / "found").read_text())
    there = ["meta"]
    assert found == {"weights": there, "slots": there, "results": 2 * there, "chosen": "cpu"}


def test_programs_follow_their_inputs_to_their_device(monkeypatch: pytest.MonkeyPatch) -> None:
    # The device `meta` has shapes and no values, and is everywhere.
    monkeypatch.setattr(devices, "ACCELERATED", True)
    key = ENGINE.from_numpy(np.array([1, 2, 3, 4], np.uint32))
    full = lowering(ENGINE, "full", shape=(3,), value=1.0, dtype="float32")
    seen = []

    def function(x: Any, y: Any, words: Any) -> tuple[Any, ...]:
        seen.append(words.device.type)
        return (x + y + full(),)

    specs = [Spec((3,), "float32")] * 2
    run = ENGINE.compile(Program(function, [*specs, Spec((4,), "uint32")], specs[:1]))
    assert run(torch.ones(3, device="meta"), torch.ones(3), key)[0].is_meta
    assert run(torch.ones(3), torch.ones(3), key)[0].is_cpu
    assert seen == ["cpu", "cpu"]


def test_only_programs_that_make_tensors_are_told_the_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Some make them of what the host computes with sizes."""
    told = []
    monkeypatch.setattr(devices, "ACCELERATED", True)
    monkeypatch.setattr(devices, "following_inputs", lambda f, makes, _: told.append(makes) or f)
    x, twos = K.placeholder((None,)), np.full(3, 2.0)
    with K.engine("torch"):
        for result, value in ((x + x, 4.0), (x + K.cast(K.shape(x)[0], "float32"), 5.0)):
            np.testing.assert_array_equal(K.function([x], [result])([twos])[0], [value] * 3)
    assert told == [False, True]


def test_new_values_go_to_the_default_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "ACCELERATED", True)
    with torch.device("meta"):
        assert ENGINE.from_numpy(np.zeros(2)).is_meta
        assert ENGINE.feed(np.zeros(2)).is_meta


@pytest.mark.parametrize("sizes", [(), (1,), (7,), (3, 5), (2, 0)])
def test_random_words_of_accelerators(sizes):
    from backplane.engines.arrays.random import TABLE as PORTABLE
    from backplane.engines.torch.fast import threefry

    key = np.array([1, 2**32 - 5, 7, 2**31], "uint32")
    expected = PORTABLE["random_bits"].function(key, shape=sizes)
    place = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    found = threefry.bits(torch.from_numpy(key), sizes, place).cpu().numpy()
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def descent(v, g, rate):
    return [(v, v - rate * g)]


def momentum(v, g, rate, nesterov=False):
    m = K.zeros(K.int_shape(v), dtype=K.dtype(v))
    new = 0.9 * m - rate * g
    return [(m, new), (v, v + 0.9 * new - rate * g if nesterov else v + new)]


def nesterov(v, g, rate):
    return momentum(v, g, rate, nesterov=True)


def adam(v, g, rate):
    a, b = [K.zeros(K.int_shape(v), dtype=K.dtype(v)) for _ in range(2)]
    new_a, new_b = 0.9 * a + 0.1 * g, 0.99 * b + 0.01 * K.square(g)
    return [(a, new_a), (b, new_b), (v, v - rate * new_a / (K.sqrt(new_b) + 1e-7))]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("step", [descent, momentum, nesterov, adam])
def test_rates_that_stay_tensors(step, dtype, monkeypatch):
    """As on an accelerator, where asking for their numbers would wait for the device."""

    def trained():
        rate, table = K.variable(0.1, dtype=dtype), K.variable(np.ones((4, 3)), dtype=dtype)
        w, rows = K.variable(np.eye(3), dtype=dtype), K.placeholder((None,), dtype="int32")
        loss = K.sum(K.square(K.dot(K.gather(table, rows), w) - 2.0))
        slopes = K.gradients(loss, [w, table])
        changes = [
            u for v, g in zip([w, table], slopes, strict=True) for u in step(v, g, rate * 0.5)
        ]
        f = K.function([rows], [loss], [*changes, (rate, 0.9 * rate)])
        return [f([[0, 2, 2]])[0] for _ in range(4)], f.source()

    with K.engine("torch"):
        expected, source = trained()
        assert (
            f"{step.__name__.replace('descent', 'gradient').replace('nesterov', 'momentum')}_update"
            in source
        )
        monkeypatch.setattr(updates, "_rate", lambda x: x)
        found, _ = trained()
    np.testing.assert_allclose(found, expected, rtol=1e-6)
