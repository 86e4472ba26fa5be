"""Unmodified classic Keras from PyPI on Backplane, in environments of its own."""

import json
from pathlib import Path

import numpy as np
import pytest

from backplane.engines import installed
from backplane.known_engines import ENGINES
from interop.environments import locked, python_with, run

SCRIPTS = Path(__file__).parent / "classic"
LATEST = "2.3.1"
LATEST_1 = "1.2.2"
OLDER = ("2.2.5", "2.2.4", "2.1.6", "2.0.9", "1.1.2", "1.0.8")
SLOW = {"theano", "jax", "tensorflow"}
"""Engines that spend long on compiling what the programs need."""

TOLERANCE = 1e-4
"""Of losses near 1, after 50 steps of float32."""


def programs(release):
    """The names of the programs; importing them would import Keras."""
    files = SCRIPTS.glob("programs_1_*.py" if release < "2" else "programs.py")
    lines = [line for f in sorted(files) for line in f.read_text(encoding="utf-8").splitlines()]
    return [line[4:-9] for line in lines if line.startswith("def ") and line.endswith("(folder):")]


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
                    python_with(release), SCRIPTS / "run.py", file,
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


def engines():
    for engine in ENGINES:
        missing = not installed(engine)
        marks = [pytest.mark.skipif(missing, reason=f"{engine} is not installed")]
        marks += [pytest.mark.slow] if engine in SLOW else []
        yield pytest.param(engine, marks=marks)


def latest():
    """The last release of Keras 2 and that of Keras 1, each with every engine and program."""
    for release in (LATEST, LATEST_1):
        for engine in engines():
            quick = release == LATEST or engine.values[0] == "numpy"
            marks = engine.marks if quick else [*engine.marks, pytest.mark.slow]
            for program in programs(release):
                yield pytest.param(release, engine.values[0], program, marks=marks)


def older():
    """Every release on an engine that computes at once and on one that compiles graphs. What the
    releases ask of K differs; what K asks of an engine does not, and the latest release runs on all
    of them.
    """
    for release in OLDER:
        for engine in engines():
            if engine.values[0] in ("numpy", "cntk"):
                for program in programs(release):
                    marks = [*engine.marks, pytest.mark.slow]
                    yield pytest.param(release, engine.values[0], program, marks=marks)


@pytest.mark.parametrize(("release", "engine_name", "program"), [*latest(), *older()])
def test_the_same_numbers_on_every_engine(results, release, engine_name, program):
    found = check(results(release, engine_name)[program])
    reference = check(results(release, "numpy")[program])
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


def test_names_that_keras_takes_from_tensorflow_only(tmp_path):
    script(
        tmp_path,
        """
from keras import backend as K
assert K.image_dim_ordering() == "tf"
x = K.placeholder((2,))
assert K.get_session().run(x + 1.0, {x: [1, 2]}).tolist() == [2, 3]
K.set_learning_phase(1)
K.clear_session()
assert K.eval(K.in_train_phase(K.ones(()), K.zeros(()))) == 0
""",
    )


def test_models_inside_loops(tmp_path):
    """A model that is called on the rows of a loop asks them for attributes that only what a layer
    returned has."""
    script(
        tmp_path,
        """
import numpy as np
from keras import backend as K
from keras import layers as L
from keras.models import Model, Sequential
inner = Sequential([L.Dense(4, input_shape=(3,)), L.Dropout(0.5), L.Dense(2)])
x = L.Input((5, 3))
y = L.TimeDistributed(inner)(x)
rows = L.Lambda(lambda t: K.map_fn(inner, t[:, 0]), output_shape=(2,))
model = Model(x, [y, L.TimeDistributed(L.Dropout(0.5))(y)])
model.compile("sgd", "mse")
value = np.random.RandomState(0).normal(size=(2, 5, 3))
model.train_on_batch(value, [np.ones((2, 5, 2))] * 2)
wanted = np.stack([inner.predict(value[:, i]) for i in range(5)], 1)
for found in model.predict(value):
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
last, _, _ = K.rnn(lambda t, s: (inner(t), []), K.variable(value), [], unroll=True)
np.testing.assert_allclose(K.eval(last), wanted[:, -1], rtol=1e-5, atol=1e-6)
""",
    )


def test_names_of_tensors_begin_with_their_layers(tmp_path):
    script(
        tmp_path,
        """
from keras import layers as L
from keras.models import Sequential
model = Sequential([L.LSTM(3, input_shape=(4, 2), name="first"), L.Dense(2, name="second")])
assert [t.output.name.split("/")[0] for t in model.layers] == ["first", "second"]
""",
    )


def test_models_in_files_in_memory(tmp_path):
    script(
        tmp_path,
        """
import h5py
import numpy as np
from keras.layers import Dense
from keras.models import Sequential, load_model
model = Sequential([Dense(2, input_shape=(3,))])
with h5py.File("never written", driver="core", backing_store=False) as file:
    model.save(file)
    same = load_model(file)
    assert len(file.fid.get_file_image()) > 1000
np.testing.assert_allclose(same.predict(np.ones((1, 3))), model.predict(np.ones((1, 3))))
""",
    )


@pytest.mark.parametrize(("release", "shape"), [(LATEST, (2, 3, 4, 3, 6)), ("2.2.4", (2, 3, 4, 6))])
def test_batch_dot_is_that_of_the_release(tmp_path, release, shape):
    """Before 2.3, products on TensorFlow took two axes for those of the samples."""
    script(
        tmp_path,
        f"""
import numpy as np
from keras import backend as K
x, y = np.arange(120.0).reshape(2, 3, 4, 5), np.arange(180.0).reshape(2, 3, 6, 5)
found = K.batch_dot(K.variable(x), K.variable(y), [3, 3])
assert K.int_shape(found) == {shape}
paired = np.einsum("shac,shbc->shab", x, y)
wanted = paired if found.ndim == 4 else np.einsum("shac,stbc->shatb", x, y)
np.testing.assert_allclose(K.eval(found), wanted, rtol=1e-5)
turned = K.batch_dot(K.variable(x.swapaxes(2, 3)), K.variable(y.swapaxes(2, 3)), axes=2)
np.testing.assert_allclose(K.eval(turned), wanted, rtol=1e-5)
if found.ndim == 4:
    mixed = K.batch_dot(K.variable(x[..., 0]), K.variable(y[:, :, :4]), [2, 2])
    np.testing.assert_allclose(K.eval(mixed), np.einsum("sha,shac->shc", x[..., 0], y[:, :, :4]))
    documented = K.batch_dot(K.variable(y), K.variable(x[:, :, 0]), [3, 2])
    np.testing.assert_allclose(K.eval(documented), np.einsum("shac,stc->shat", y, x[:, :, 0]))
rows = K.batch_dot(K.ones((2, 3)), K.ones((2, 3)), axes=1)
assert K.eval(rows).tolist() == [[3], [3]]
""",
        release=release,
    )


def test_a_program_is_told_another_name(tmp_path):
    """Many programs refuse every backend but Keras' own."""
    text = """
from keras import backend as K
from keras.layers import Dense
from keras.models import Sequential
assert K.backend() == "tensorflow", K.backend()
model = Sequential([Dense(2, input_shape=(3,))])
model.compile("adam", "mse")  # Keras itself would ask for tf here.
"""
    for release in (LATEST, "2.1.6"):
        script(tmp_path, text, release=release, BACKPLANE_KERAS_NAME="tensorflow")


def test_a_layer_that_computes_the_loss(tmp_path):
    """It gives a scalar, and says that it gives one number per sample: so do detectors' losses."""
    script(
        tmp_path,
        """
import numpy as np
from keras import backend as K
from keras.layers import Dense, Input, Lambda
from keras.models import Model
x, t = Input((3,)), Input((2,))
y = Dense(2)(x)
loss = Lambda(lambda a: K.mean(K.square(a[0] - a[1])), output_shape=(1,), name="loss")([y, t])
assert K.int_shape(loss) == (None, 1)
model = Model([x, t], loss)
model.compile("sgd", {"loss": lambda y_true, y_pred: y_pred})
data = [np.ones((4, 3)), np.ones((4, 2))]
losses = [model.train_on_batch(data, np.zeros(4)) for _ in range(5)]
assert losses[-1] < losses[0]
""",
    )
