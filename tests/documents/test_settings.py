"""Settings, names and the session, as the documents show them; see test_examples.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import waiting
from backplane import backend as K
from backplane.known_engines import ENGINES, spelled
from documents.covering import covers

VALUES = np.array([[1, 2], [3, 4]])


# --- settings -----------------------------------------------------------------------------------


@covers("epsilon", "set_epsilon")
def test_epsilon() -> None:
    """1e-07; 000 has 1e-08."""
    assert K.epsilon() == 1e-07
    K.set_epsilon(1e-05)
    assert K.epsilon() == 1e-05


@covers("floatx", "set_floatx")
def test_floatx() -> None:
    assert K.floatx() == "float32"
    K.set_floatx("float16")
    assert K.floatx() == "float16"
    with pytest.raises(ValueError, match="int32"):
        K.set_floatx("int32")


@covers("cast_to_floatx")
def test_cast_to_floatx() -> None:
    arr = np.array([1.0, 2.0], dtype="float64")
    assert arr.dtype == np.dtype("float64")
    new_arr = K.cast_to_floatx(arr)
    np.testing.assert_array_equal(new_arr, [1.0, 2.0])
    assert new_arr.dtype == np.dtype("float32")


@covers("image_data_format", "set_image_data_format")
def test_image_data_format() -> None:
    K.set_image_data_format("channels_first")
    assert K.image_data_format() == "channels_first"
    K.set_image_data_format("channels_last")
    assert K.image_data_format() == "channels_last"
    with pytest.raises(ValueError, match="channels"):
        K.set_image_data_format("channels first")


@covers("image_dim_ordering", "set_image_dim_ordering")
def test_image_dim_ordering_of_000() -> None:
    K.set_image_data_format("channels_first")
    with pytest.warns(DeprecationWarning, match="Keras 1"):
        assert K.image_dim_ordering() == "th"
    with pytest.warns(DeprecationWarning, match="Keras 1"):
        K.set_image_dim_ordering("tf")
    with pytest.warns(DeprecationWarning, match="Keras 1"):
        assert K.image_dim_ordering() == "tf"
    assert K.image_data_format() == "channels_last"


def run_python(code: str, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if k not in ("KERAS_BACKEND", "KERAS_HOME")}
    env |= {"KERAS_HOME": str(home), **environment}
    command = [sys.executable, "-W", "ignore", "-c", code]
    return waiting.run(command, env=env)


@covers("engine")
def test_another_engine_for_a_while(engine: Any) -> None:
    with K.engine(engine.name):
        assert K.function([], [K.ones((2,))])._function.plan.engine is engine


@covers("backend")
def test_the_environment_overrides_the_file(engine: Any, tmp_path: Path) -> None:
    """`KERAS_BACKEND=tensorflow python -c "from keras import backend"`."""
    (tmp_path / "keras.json").write_text('{"backend": "no_such_backend"}', encoding="utf-8")
    code = "from backplane import backend; print(backend.backend())"
    ran = run_python(code, tmp_path, KERAS_BACKEND=engine.name)
    title = ENGINES[engine.name].title if engine.name in ENGINES else engine.name
    assert f"Using {title} backend" in ran.stderr
    assert ran.stdout == f"{engine.name}\n"


@pytest.mark.parametrize(
    ("given", "name"),
    [("NumPy", "numpy"), (" numpy", "numpy"), ("PyTensor", "pytensor"), ("tf", "tensorflow")],
)
def test_engines_by_the_names_that_people_write(given: str, name: str) -> None:
    assert spelled(given) == name


@pytest.mark.parametrize("place", ["KERAS_BACKEND", "keras.json"])
def test_a_misspelt_engine_is_answered_with_the_engines(place: str, tmp_path: Path) -> None:
    given = {"KERAS_BACKEND": "nunpy"} if place == "KERAS_BACKEND" else {}
    (tmp_path / "keras.json").write_text('{"backend": "nunpy"}', encoding="utf-8")
    ran = run_python("from backplane import backend", tmp_path, **given)
    asked = str(tmp_path / "keras.json") if place == "keras.json" else place
    assert f"{asked} asks for the backend 'nunpy', which is neither an engine nor" in ran.stderr
    assert "did you mean 'numpy'" in ran.stderr
    assert "theano, cntk" in ran.stderr


@pytest.mark.parametrize(
    ("text", "data_format"),
    [
        ('"image_data_format": "channels_first"', "channels_first"),
        ('"image_dim_ordering": "th"', "channels_first"),
        ('"image_dim_ordering": "tf"', "channels_last"),
    ],
)
def test_keras_json(text: str, data_format: str, tmp_path: Path) -> None:
    """The files of 000 and of the others, here with a setting changed."""
    (tmp_path / "keras.json").write_text(
        f'{{ {text}, "epsilon": 1e-05, "floatx": "float64", "backend": "numpy" }}', encoding="utf-8"
    )
    code = (
        "import json; from backplane import backend as K; "
        "print(json.dumps([K.image_data_format(), K.epsilon(), K.floatx(), K.backend()]))"
    )
    ran = run_python(code, tmp_path)
    assert json.loads(ran.stdout) == [data_format, 1e-05, "float64", "numpy"], ran.stderr


def test_backend(engine: Any) -> None:
    assert isinstance(K.backend(), str)


# --- names and the session ----------------------------------------------------------------------


@covers("get_uid", "reset_uids")
def test_uids() -> None:
    assert K.get_uid("dense") == 1
    assert K.get_uid("dense") == 2
    K.reset_uids()
    assert K.get_uid("dense") == 1


@covers("clear_session")
def test_clear_session() -> None:
    """004's second example, with the names that layers take."""
    for _ in range(10):
        K.get_uid("dense")
    K.set_learning_phase(1)
    assert K.learning_phase() == 1
    K.clear_session()
    assert K.get_uid("dense") == 1
    assert K.int_shape(K.learning_phase()) == ()


@covers("learning_phase", "set_learning_phase", spec=True)
def test_learning_phase() -> None:
    phase = K.learning_phase()
    assert (K.int_shape(phase), K.dtype(phase)) == ((), "bool")
    assert phase.name.startswith("keras_learning_phase")
    for value in (0, 1):
        K.set_learning_phase(value)
        assert K.learning_phase() == value
    with pytest.raises(ValueError, match="0 or 1"):
        K.set_learning_phase(2)


@covers("name_scope", "manual_variable_initialization", "py_all", "py_sum", "set_session")
def test_name_scope_and_flags() -> None:
    """Named by 001; manual_variable_initialization takes a Python boolean."""
    with K.name_scope("block"):
        assert K.variable(1.0, name="w").name.startswith("block/w")
    K.manual_variable_initialization(True)
    K.manual_variable_initialization(False)
    assert K.py_all([True, 1])
    assert K.py_sum([1, 2], 3) == 6
    K.set_session(K.get_session())


@covers("symbolic", "eager")
def test_decorators(engine: object) -> None:
    """004: `symbolic` enters the graph, `eager` leaves it."""

    @K.symbolic
    def build(x: Any) -> Any:
        return K.sum(x)

    @K.eager
    def compute(x: Any) -> Any:
        return K.sum(x)

    assert K.is_tensor(build(VALUES))
    assert K.eval(build(VALUES)) == 10
    assert float(compute(K.variable(VALUES))) == 10
