"""`backplane run`: scripts whose `keras.backend` is ours. And the other commands."""

import os
import subprocess
import sys

import pytest

from interop.environments import python_with

OLD = """
import sys
from keras import backend as K
import keras.backend
import keras.backend as KB
import keras.backend.tensorflow_backend as KTF
from keras.backend.common import _EPSILON, floatx
from keras.backend import placeholder
import helper

assert K is KB is keras.backend, (K, KB)
assert KTF.get_session() is K.get_session()
assert (_EPSILON, floatx()) == (1e-7, "float32")
assert __name__ == "__main__"
x = placeholder(shape=(None, 2))
f = K.function([x], [K.sum(x, axis=-1) * helper.TWO])
print(sys.argv[1:], f([[[1.0, 2.0]]])[0].tolist(), K.backend())
assert not any(name.startswith("keras.src") for name in sys.modules), "Keras 3 was loaded"
"""


@pytest.fixture
def run(tmp_path):
    def run(text, *arguments, python=sys.executable, **environment):
        (tmp_path / "helper.py").write_text("TWO = 2.0")
        script = tmp_path / "script.py"
        script.write_text(text, encoding="utf-8")
        env = {**os.environ, "KERAS_HOME": str(tmp_path), "KERAS_BACKEND": "numpy", **environment}
        command = [str(python), "-m", "backplane", "run", str(script), *arguments]
        return subprocess.run(command, env=env, capture_output=True, text=True)

    return run


def test_an_old_script(run):
    done = run(OLD, "--verbose", "-n", "3")
    assert done.stdout == "['--verbose', '-n', '3'] [6.0] numpy\n", done.stderr


def test_names_that_numpy_has_removed(run):
    text = "import numpy as np\nfrom keras import backend as K\n"
    done = run(text + "print(K.eval(K.sum(np.ones((2,), dtype=np.float) * K.ones((2,)))))")
    assert done.stdout == "2.0\n", done.stderr


def test_without_any_keras(run):
    hide = "import keras\nkeras._installed = None\nkeras.__path__ = []\n"
    done = run(hide + OLD)
    assert done.returncode == 0, done.stderr
    done = run(hide + "keras.layers")
    assert "no Keras is installed" in done.stderr.splitlines()[-1]


@pytest.mark.slow
def test_the_rest_is_the_installed_keras(run):
    pytest.importorskip("torch")
    text = """
from keras import backend as K
from keras.layers import Dense
import keras
assert keras.__version__ >= "3"
assert keras.backend is K and K.__name__ == "backplane.backend"
model = keras.Sequential([keras.Input((3,)), Dense(2)])
print(model.output_shape)
"""
    done = run(text, KERAS_BACKEND="torch")
    assert done.stdout == "(None, 2)\n", done.stderr


@pytest.mark.slow
def test_an_installed_classic_keras(run):
    text = """
import sys; sys.modules["tensorflow"] = None
import numpy as np
from keras import backend as K
from keras.layers import Dense
from keras.models import Sequential
model = Sequential([Dense(2, input_shape=(3,))])
model.compile("sgd", "mse")
model.train_on_batch(np.ones((4, 3)), np.ones((4, 2)))
print(K.backend(), K.int_shape(model.output))
"""
    done = run(text, python=python_with("2.3.1"))
    assert done.stdout == "backplane.numpy (None, 2)\n", done.stderr


def test_errors_keep_their_status(run):
    assert run("import sys; sys.exit(3)").returncode == 3
    assert "ZeroDivisionError" in run("1 / 0").stderr
