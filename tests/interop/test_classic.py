"""Unmodified classic Keras from PyPI on Backplane, in environments of its own."""

import json
from pathlib import Path

import numpy as np
import pytest

from backplane import engines
from backplane.engines import installed
from backplane.known_engines import ENGINES
from interop.environments import locked, python_with, run

SCRIPTS = Path(__file__).parent / "classic"
LATEST = "2.3.1"
LATEST_1 = "1.2.2"
OLDER = ("2.2.5", "2.2.4", "2.1.6", "2.0.9", "1.1.2", "1.0.8")
OLDEST = ("2.0.9", "1.0.8")
REFERENCE = "numpy"
"""The engine whose numbers are the expected ones."""

TOLERANCE = 1e-4
"""Of losses near 1, after 50 steps of float32."""


def programs(release):
    """The names of the programs; importing them would import Keras."""
    larger = ["programs_larger.py"] if release == LATEST else []
    patterns = ["programs_1_*.py"] if release < "2" else ["programs.py", *larger]
    files = [file for pattern in patterns for file in SCRIPTS.glob(pattern)]
    lines = [line for f in sorted(files) for line in f.read_text(encoding="utf-8").splitlines()]
    return [line[4:-9] for line in lines if line.startswith("def ") and line.endswith("(folder):")]


def chosen(release, engine):
    """The programs that run on an engine. What the older releases ask of K differs; what K asks of
    an engine does not. So each program for the last Keras 1 runs on the reference and, by turns,
    on two other engines.
    """
    names = programs(release)
    if release != LATEST_1 or engine == REFERENCE:
        return names
    others = [name for name in ENGINES if name != REFERENCE]
    place, groups = others.index(engine), len(others) // 2
    return names[place % groups :: groups]


@pytest.fixture
def results(tmp_path_factory):
    """What the programs return, by release and engine: run once for all test processes."""
    shared = tmp_path_factory.getbasetemp()
    if shared.name.startswith("popen-"):  # That of one of the processes of pytest-xdist.
        shared = shared.parent

    def found(release, engine):
        file = shared / f"{release}-{engine}.json"
        with locked(file.with_suffix(".lock")):
            if not file.exists():
                folder = tmp_path_factory.mktemp("classic")
                run(
                    python_with(release), SCRIPTS / "run.py", file, *chosen(release, engine),
                    backend=f"backplane.{engine}", folder=folder,
                )  # fmt: skip
        return json.loads(file.read_text())

    return found


def script(folder, text, backend="backplane.numpy", release=LATEST, **environment):
    """Run a few lines with Keras imported; what they print."""
    file = folder / "script.py"
    start = "import sys; sys.modules['tensorflow'] = None\nimport backplane.interop.classic\n"
    file.write_text(start + text, encoding="utf-8")
    return run(python_with(release), file, backend=backend, folder=folder, **environment)


def check(result):
    """The numbers of a program that ran through."""
    assert not isinstance(result, str), result
    assert np.isfinite(result).all()
    return np.array(result)


def cases(releases, names):
    """Each release with each engine and program. What is quick is the reference with Keras 2."""
    for release in releases:
        for name in names:
            marks = [pytest.mark.skipif(not installed(name), reason=f"{name} is not installed")]
            if (release, name) != (LATEST, REFERENCE):
                marks.append(pytest.mark.slow)
            for program in chosen(release, name):
                yield pytest.param(release, name, program, marks=marks)


def graphs_only():
    """An engine that runs nothing at once, so that all goes through graphs."""
    found = (n for n in reversed(ENGINES) if installed(n))
    return [next(n for n in found if "eager" not in engines.get(n).capabilities)]


# The last releases of Keras 2 and Keras 1 run on all engines, and the oldest ones on one that knows
# graphs only, too.
CASES = [
    *cases((LATEST, LATEST_1), ENGINES),
    *cases(OLDER, [REFERENCE]),
    *cases(OLDEST, graphs_only()),
]


@pytest.mark.parametrize(("release", "engine_name", "program"), CASES)
def test_the_same_numbers_on_every_engine(results, release, engine_name, program):
    found = check(results(release, engine_name)[program])
    reference = check(results(release, REFERENCE)[program])
    np.testing.assert_allclose(found, reference, rtol=TOLERANCE, atol=TOLERANCE)


SAVED = """
import sys
import numpy as np
from keras import layers as L
from keras.models import Sequential
model = Sequential([L.Conv2D(3, 3, input_shape=(6, 6, 2)), L.BatchNormalization(), L.Flatten()])
model.add(L.Reshape((8, 6)))
model.add(L.Bidirectional(L.LSTM(4, recurrent_activation="sigmoid")))
model.add(L.Dense(2))
model.compile("adam", "mse")
x = np.random.RandomState(0).normal(size=(4, 6, 6, 2))
"""


@pytest.mark.parametrize("old", ["numpy", "torch"])
def test_weights_saved_under_another_engine(tmp_path, old):
    pytest.importorskip("torch")
    new = {"numpy": "torch", "torch": "numpy"}[old]
    write = SAVED + "model.fit(x, x[:, 0, 0], verbose=0)\nmodel.save_weights('weights.h5')\n"
    show = "print(model.predict(x).ravel().tolist())"
    first = script(tmp_path, write + show, f"backplane.{old}")
    second = script(
        tmp_path, SAVED + "model.load_weights('weights.h5')\n" + show, f"backplane.{new}"
    )
    np.testing.assert_allclose(json.loads(first), json.loads(second), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_weights_go_to_an_older_release(tmp_path):
    write = SAVED + "model.save_weights('weights.h5')\n"
    read = SAVED + "model.load_weights('weights.h5')\n"
    show = "print(model.predict(x).ravel().tolist())"
    first = script(tmp_path, write + show)
    second = script(tmp_path, read + show, release="2.1.6")
    np.testing.assert_allclose(json.loads(first), json.loads(second), rtol=1e-5, atol=1e-6)


def test_settings_are_those_of_keras(tmp_path):
    script(
        tmp_path,
        """
from keras import backend as K
from backplane import backend as B
assert K.backend() == B.backend() == "backplane.numpy"
assert K.floatx.__module__ == "keras.backend.common"
K.set_floatx("float64"); K.set_epsilon(1e-3); K.set_image_data_format("channels_first")
assert (B.floatx(), B.epsilon(), B.image_data_format()) == ("float64", 1e-3, "channels_first")
assert K.zeros((2,)).dtype == "float64"
B.set_floatx("float32")
assert K.floatx() == "float32"
""",
    )


@pytest.mark.skipif(not installed("tensorflow"), reason="without TensorFlow")
def test_functions_of_tensorflow_in_models(tmp_path):
    file = SCRIPTS / "lambdas.py"
    printed = run(python_with(LATEST), file, backend="backplane.tensorflow", folder=tmp_path)
    assert float(printed) < 0.2


def test_leaked_names(tmp_path):
    script(
        tmp_path,
        """
from keras import backend as K
import keras.backend.tensorflow_backend as KTF
assert K.tensorflow_backend is KTF
assert KTF._get_available_gpus() == []
x = KTF.placeholder((2,))
assert KTF.get_session().run(x + 1.0, {x: [1, 2]}).tolist() == [2, 3]
KTF.set_session(KTF.get_session()); KTF.clear_session()
assert K.tensorflow_backend._to_tensor([1, 2], "float32").dtype == "float32"
assert not K.tensorflow_backend._is_tf_1()
assert KTF.epsilon is K.epsilon
try:
    KTF.tf
except AttributeError as error:
    assert "TensorFlow itself" in str(error)
else:
    raise AssertionError
""",
    )


def test_the_configured_engine(tmp_path):
    (tmp_path / "keras.json").write_text('{"backend": "numpy"}')
    text = "from keras import backend as K\nprint(K.backend(), K.eval(K.ones((1,))))"
    assert script(tmp_path, text, "backplane.backend") == "backplane.backend [1.]\n"


@pytest.mark.parametrize("release", [LATEST, pytest.param("2.1.6", marks=pytest.mark.slow)])
def test_nothing_outlives_a_model(tmp_path, release):
    """Under a module name Keras never clears the session: what is dropped must go by itself."""
    script(
        tmp_path,
        """
import gc
import numpy as np
from backplane.core.graph import Tensor
from keras import layers as L
from keras.models import Sequential

def once():
    model = Sequential([L.Dense(4, input_shape=(3,)), L.Dropout(0.5), L.Dense(2)])
    model.compile("adam", "mse", metrics=["mae"])
    model.fit(np.ones((4, 3)), np.ones((4, 2)), verbose=0)
    model.predict(np.ones((4, 3)))

def alive():
    gc.collect()
    return sum(isinstance(o, Tensor) for o in gc.get_objects())

once()
before = alive()
for _ in range(5):
    once()
assert alive() <= before + 5, (before, alive())
""",
        release=release,
    )


def test_the_shim_puts_back_what_is_missing_and_nothing_else(tmp_path):
    script(
        tmp_path,
        """
import collections.abc, inspect
import h5py, numpy as np, yaml
assert collections.Mapping is collections.abc.Mapping and not hasattr(collections, "Hashable")
assert np.Inf == np.inf and np.string_ is np.bytes_
assert np.bool(1) is True or np.bool is np.bool_
assert inspect.getargspec(lambda a, b=2, *c, **d: 0) == (["a", "b"], "c", "d", (2,))
assert yaml.load("[1, 2]") == yaml.load("[1, 2]", Loader=yaml.SafeLoader) == [1, 2]
import importlib, backplane.interop.classic
importlib.reload(backplane.interop.classic)
with h5py.File("file.h5", "w") as file:
    file.attrs["text"], file.attrs["list"] = "one", ["two", "three"]
    file.attrs["none"], file.attrs["number"] = [], 4
    assert file.attrs["text"] == "one" and file.attrs["text"].decode("utf8") == "one"
    assert [name.decode() for name in file.attrs["list"]] == ["two", "three"]
    assert file.attrs["none"].tolist() == [] and file.attrs["number"] == 4
""",
    )


@pytest.mark.parametrize(
    "release", [LATEST, LATEST_1, pytest.param("2.1.6", marks=pytest.mark.slow)]
)
def test_engines_by_their_plain_names(tmp_path, release):
    show = "from keras import backend as K; print(K.backend(), K.eval(K.ones((1,))))"
    assert script(tmp_path, show, "NumPy", release) == "backplane.numpy [1.]\n"
    # Keras 1 looks for the file in a folder of the home folder.
    for folder in (tmp_path, tmp_path / ".keras"):
        folder.mkdir(exist_ok=True)
        (folder / "keras.json").write_text('{"backend": "numpy"}')
    shown = show + "; from backplane import config; print(config.choose_engine(bool).name)"
    assert script(tmp_path, shown, "", release) == "backplane.backend [1.]\nnumpy\n"


def test_settings_are_those_of_keras_1(tmp_path):
    script(
        tmp_path,
        """
from keras import backend as K
from backplane import backend as B
import keras.backend.theano_backend as KTH
assert K.floatx.__module__ == "keras.backend.common"
K.set_floatx("float64"); K.set_epsilon(1e-3); K.set_image_dim_ordering("th")
assert (B.floatx(), B.epsilon(), B.image_data_format()) == ("float64", 1e-3, "channels_first")
B.set_image_data_format("channels_last")
assert K.image_dim_ordering() == KTH.image_dim_ordering() == "tf"
assert not hasattr(K, "less") and hasattr(K, "lesser")
""",
        release=LATEST_1,
    )


def test_kernels_of_theano_are_converted(tmp_path):
    script(
        tmp_path,
        """
import numpy as np
from keras.utils.np_utils import convert_kernel
kernel = np.arange(24.0).reshape(2, 2, 2, 3)
assert (convert_kernel(kernel, "tf") == kernel[::-1, ::-1]).all()
assert (convert_kernel(kernel, "th") == kernel[:, :, ::-1, ::-1]).all()
""",
        release=LATEST_1,
    )
