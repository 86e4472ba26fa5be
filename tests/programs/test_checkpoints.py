"""K.save_state and K.load_state: one engine's state on another, torn files, failures in writing."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from backplane import backend as K
from backplane import engines
from documents.covering import covers

DTYPES = ("bool", "int8", "uint16", "int64", "float16", "bfloat16", "float32", "float64")


def model() -> tuple:
    x, y = K.placeholder((None, 3)), K.placeholder((None, 1))
    w, v = K.variable(np.ones((3, 1)), name="w"), K.zeros((3, 1), name="momentum")
    loss = K.mean(K.square(K.dot(x, w) - y))
    step = 0.9 * v - 0.1 * K.gradients(loss, [w])[0]
    return {"w": w, "momentum": v}, K.function([x, y], [loss], updates=[(v, step), (w, w + step)])


def losses(train, count: int) -> list[float]:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 3)), rng.normal(size=(8, 1))
    return [float(train([x, y])[0]) for _ in range(count)]


@covers("save_state", "load_state")
def test_training_resumes_where_it_stopped(engine, tmp_path):
    weights, train = model()
    losses(train, 3)
    K.save_state(tmp_path / "state", weights)
    expected = losses(train, 3)
    again, resumed = model()
    K.load_state(tmp_path / "state", again)
    assert losses(resumed, 3) == expected


def test_a_state_of_another_engine(engine, tmp_path):
    weights, train = model()
    losses(train, 2)
    K.save_state(tmp_path / "state", weights)
    expected = losses(train, 3)
    with engines.use("numpy"):
        again, resumed = model()
        K.load_state(tmp_path / "state", again)
        np.testing.assert_allclose(losses(resumed, 3), expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_and_shapes(dtype, tmp_path):
    import ml_dtypes  # noqa: F401 - NumPy knows bfloat16 by it.

    arrays = [np.ones((2, 3), dtype), np.zeros((0, 2), dtype), np.array(1, dtype)]
    variables = {f"v{i}": K.variable(a, dtype=dtype) for i, a in enumerate(arrays)}
    K.save_state(tmp_path / "state", variables)
    found = K.load_state(tmp_path / "state")
    for name, array in zip(variables, arrays, strict=True):
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert (found[name] == array).all()


def test_other_libraries_read_it(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    K.save_state(tmp_path / "state", {"v": K.variable([1.0, 2.0])})
    assert safetensors.load_file(tmp_path / "state")["v"].tolist() == [1.0, 2.0]


# What does not fit -----------------------------------------------------------------------------


def test_nothing_changes_if_one_does_not_fit(tmp_path):
    K.save_state(tmp_path / "state", {"a": K.ones((2,)), "b": K.ones((3,))})
    a, b = K.zeros((2,)), K.zeros((2,))
    with pytest.raises(ValueError, match=r"'b' is float32 \(3,\) in the file, .* float32 \(2,\)"):
        K.load_state(tmp_path / "state", {"a": a, "b": b})
    with pytest.raises(ValueError, match=r"has no 'c'; it holds a, b"):
        K.load_state(tmp_path / "state", {"a": a, "c": b})
    with pytest.raises(ValueError, match=r"float64"):
        K.load_state(tmp_path / "state", {"a": K.zeros((2,), dtype="float64")})
    assert K.get_value(a).tolist() == [0.0, 0.0]


def test_names(tmp_path):
    v = K.ones((1,), name="v")
    K.save_state(tmp_path / "state", [v])
    assert list(K.load_state(tmp_path / "state", [v])) == [v.name]
    (tmp_path / "state").unlink()
    with pytest.raises(ValueError, match=rf"K\.save_state: two variables are called '{v.name}'"):
        K.save_state(tmp_path / "state", [v, v])
    with pytest.raises(TypeError, match=r"K\.save_state: variables must be a list of variables"):
        K.save_state(tmp_path / "state", [np.ones(1)])
    with pytest.raises(TypeError, match=r"K\.save_state: variables must be .* got Variable"):
        K.save_state(tmp_path / "state", v)
    with pytest.raises(TypeError, match=r"K\.save_state: variables must be .* got NoneType"):
        K.save_state(tmp_path / "state", None)
    with pytest.raises(
        ValueError, match=r"K\.save_state: .* no value can have the name '__metadata__'"
    ):
        K.save_state(tmp_path / "state", {"__metadata__": v})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("cut", [0, 7, 40, -1])
def test_a_torn_file(cut, tmp_path):
    K.save_state(tmp_path / "state", {"v": K.ones((4,))})
    content = (tmp_path / "state").read_bytes()
    (tmp_path / "state").write_bytes(content[:cut])
    with pytest.raises(ValueError, match=r"state' is damaged"):
        K.load_state(tmp_path / "state")


def test_an_altered_file(tmp_path):
    K.save_state(tmp_path / "state", {"v": K.ones((4,))})
    content = bytearray((tmp_path / "state").read_bytes())
    content[-1] ^= 1
    (tmp_path / "state").write_bytes(content)
    with pytest.raises(ValueError, match=r"state' was altered"):
        K.load_state(tmp_path / "state")


def test_every_altered_byte_is_noticed(tmp_path):
    """In the header too: names, shapes, places and the checksum itself."""
    K.save_state(tmp_path / "state", {"v": K.ones((2,))})
    content = (tmp_path / "state").read_bytes()
    whole = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert "v" in whole
    for i in range(len(content)):
        altered = bytearray(content)
        altered[i] ^= 0x15
        (tmp_path / "state").write_bytes(altered)
        with pytest.raises(ValueError, match=r"K\.load_state"):
            K.load_state(tmp_path / "state")


def test_the_last_complete_file_of_a_folder(tmp_path):
    for i in range(3):
        path = tmp_path / f"step-{i}"
        K.save_state(path, {"v": K.variable([float(i)])})
        os.utime(path, ns=(i, i))
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.warns(UserWarning, match=r"step-2' is damaged"):
        found = K.load_state(tmp_path)
    assert found["v"].tolist() == [1.0]
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"no complete state"):
        K.load_state(tmp_path / "empty")


def test_a_folder_that_is_not_there(tmp_path):
    path = tmp_path / "missing" / "state"
    with pytest.raises(FileNotFoundError) as caught:
        K.save_state(path, {"v": K.variable([1.0])})
    assert caught.value.filename == str(path)


def test_a_file_of_a_folder_that_goes_meanwhile(tmp_path, monkeypatch):
    for i in range(2):
        K.save_state(tmp_path / f"step-{i}", {"v": K.variable([float(i)])})
        os.utime(tmp_path / f"step-{i}", ns=(i, i))
    read = Path.read_bytes

    def going(file):
        if file.name == "step-1":
            file.unlink()
        return read(file)

    monkeypatch.setattr(Path, "read_bytes", going)
    with pytest.warns(UserWarning, match=r"step-1'; the file before it is tried"):
        assert K.load_state(tmp_path)["v"].tolist() == [0.0]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_while_writing_keeps_the_old_file(step, tmp_path, monkeypatch):
    v = K.variable([1.0])
    K.save_state(tmp_path / "state", {"v": v})
    K.set_value(v, [2.0])

    def fail(*_):
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail)
        with pytest.raises(OSError, match="the disk is full"):
            K.save_state(tmp_path / "state", {"v": v})
    assert [p.name for p in tmp_path.iterdir()] == ["state"]
    assert K.load_state(tmp_path / "state")["v"].tolist() == [1.0]
