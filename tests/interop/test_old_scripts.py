"""`backplane run`: scripts whose `keras.backend` is ours. And the other commands."""

import os
import subprocess
import sys

import pytest

import waiting
from backplane.interop import generation
from interop.environments import python_with
from lean import lean

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
    def run(text, *arguments, python=sys.executable, options=(), needed=(), **environment):
        (tmp_path / "helper.py").write_text("TWO = 2.0")
        script = tmp_path / "script.py"
        script.write_text(text, encoding="utf-8")
        env = {**os.environ, "KERAS_HOME": str(tmp_path), "HOME": str(tmp_path)}
        env |= {"KERAS_BACKEND": "numpy", **environment}
        command = [str(python), "-m", "backplane", "run", *options, str(script), *arguments]
        return waiting.run(command, env=lean(env, *needed), stdin=subprocess.DEVNULL)

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
    done = run(hide + "from keras.layers import Dense")
    assert "pip install keras" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "text",
    [
        "from keras.engine.topology import Layer",
        "from keras.layers import CuDNNLSTM",
        "import keras\nkeras.layers.CuDNNLSTM(3)",
        "from keras.layers import Dense\nDense(3, init='uniform')",
        "from tensorflow.keras.layers import CuDNNGRU",
    ],
)
def test_what_keras_3_lacks_is_answered_with_keras_2(run, text):
    done = run(f"from keras import backend as K\n{text}\n", options=["--keras", "2"])
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("The script was written for Keras 2, and Keras 3.")
    assert "pip install keras==2.3.1" in last


def test_other_errors_of_a_script_are_left_alone(run):
    done = run("import keras\nkeras.layers\n1 / 0\n")
    assert done.stderr.splitlines()[-1] == "ZeroDivisionError: division by zero"


NAMES_OF_NUMPY = """
import sys
import numpy as np
from numpy import float_, product
from keras import backend as K
assert K.cast_to_floatx([1]).astype(np.float).dtype == float_ and np.int is int
assert np.asscalar(np.ones(1)) == 1 and product([2, 3]) == np.cumproduct([2, 3])[-1] == 6
assert np.in1d([[1, 2]], [2]).tolist() == [False, True] and np.rank([[1]]) == 2
assert np.trapz([1, 2]) == 1.5 and np.alltrue([1]) and np.Inf == np.PINF == -np.NINF
sys.path.insert(0, sys.argv[1])
import installed
print(installed.FOUND, hasattr(np, "no_such_name"))
"""


def test_names_that_numpy_removed_are_there_for_scripts_alone(run, tmp_path):
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "installed.py").write_text("import numpy\nFOUND = hasattr(numpy, 'float_')")
    done = run(NAMES_OF_NUMPY, str(library))
    assert done.stdout == "False False\n", done.stderr


def test_keras_of_tensorflow(run):
    text = """
import sys
from tensorflow.keras import backend as K
from tensorflow.keras.backend import ones
from keras import backend
assert K.dot is backend.dot and ones is K.ones is backend.ones and "tensorflow" not in sys.modules
print(K.eval(K.ones((2,))))
"""
    done = run(text)
    assert done.stdout == "[1. 1.]\n", done.stderr


def test_what_keras_of_tensorflow_defined_otherwise(run):
    text = """
import numpy as np
from tensorflow.keras import backend as K
import keras.backend
p = np.zeros((1, 4, 3), "float32")
p[0, :, 0] = 1
for k in (K, keras.backend):
    print(k.eval(k.ctc_decode(p, [4])[0][0]).tolist())
x, w = np.arange(6.0).reshape(1, 2, 3), np.ones((2, 4, 1))
print(K.local_conv1d(x, w, (2,), (1,), "channels_first").tolist())
print(K.eval(K.print_tensor(K.constant(np.arange(9.0)), "x")).sum())
print(K.experimental.is_tf_random_generator_enabled(), K.RandomGenerator(1)._rng_type)
with K.learning_phase_scope(1):
    print(K.learning_phase())
from tensorflow.keras.backend import *
print(float(K.eval(binary_focal_crossentropy(K.ones((1,)), K.ones((1,))))[0]) < 1e-6)
"""
    done = run(text)
    assert done.stdout.splitlines() == [
        "[[0, -1, -1, -1]]", "[[0]]", "[[[8.0, 12.0]]]", "x [0. 1. 2. ... 6. 7. 8.]", "36.0",
        "True stateful", "1", "True",
    ], done.stdout + done.stderr  # fmt: skip


@pytest.mark.slow
def test_layers_of_keras_of_tensorflow(run):
    pytest.importorskip("torch")
    text = """
from tensorflow.keras import backend as K
from tensorflow.keras.layers import Dense, Input
from tensorflow.keras.models import Model
from tensorflow.keras.preprocessing.image import ImageDataGenerator
i = Input((3,))
model = Model(i, Dense(1, kernel_initializer="ones")(i))
slope = K.function([model.input], K.gradients(model.output, model.input))
print(slope([[[1.0, 2.0, 3.0]]])[0].tolist())
"""
    done = run(text, KERAS_BACKEND="torch", needed=["tensorflow"])
    assert done.stdout == "[[1.0, 1.0, 1.0]]\n", done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "import tensorflow as tf\nimport tensorflow.keras\nK = tf.keras.backend\n",
        "from tensorflow import keras\nK = keras.backend\n",
        "import tensorflow.keras as keras\nfrom tensorflow.keras import backend as K\n",
    ],
)
def test_keras_of_tensorflow_beside_tensorflow(run, text):
    pytest.importorskip("tensorflow")
    done = run(f"{text}print(K.__name__, K.eval(K.zeros((1,))))", KERAS_BACKEND="tensorflow")
    assert done.stdout == "tensorflow.keras.backend [0.]\n", done.stderr


@pytest.mark.slow
def test_keras_of_tensorflow_is_an_installed_classic_keras(run):
    text = """
import sys; sys.modules["tensorflow"] = None
from tensorflow.keras import backend as K
from tensorflow.keras.layers import Dense, Input
import keras
assert K.dot is keras.backend.dot and Dense is keras.layers.Dense
print(K.backend(), K.int_shape(Dense(2)(Input((3,)))))
"""
    done = run(text, python=python_with("2.3.1"))
    assert done.stdout == "backplane.numpy (None, 2)\n", done.stderr


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
    assert run("input()").stderr.splitlines()[-1].startswith("EOFError")


def test_errors_begin_in_the_script(run):
    lines = run("def f():\n    return 1 / 0\nf()").stderr.splitlines()
    assert [line.split(", ")[1] for line in lines if "File" in line] == ["line 3", "line 2"]
    lines = run("1 +").stderr.splitlines()
    assert len([line for line in lines if "File" in line]) == 1


KERAS_1 = """
from keras import backend as K
import keras.backend.theano_backend as KTH
from keras.backend.common import _EPSILON
import numpy as np

output, target = K.variable([[0.25, 0.75]]), K.variable([[0.0, 1.0]])
loss = K.eval(K.categorical_crossentropy(output, target))
np.testing.assert_allclose(loss, -np.log(0.75), rtol=1e-5)
images = K.conv2d(K.ones((1, 2, 6, 6)), K.ones((3, 2, 3, 3)), (1, 1), "same", dim_ordering="th")
assert KTH is K and _EPSILON == 1e-7
print(K.int_shape(images), K.eval(K.lesser(target, 0.5)).tolist(), K.__name__)
"""


def test_a_script_for_keras_1(run):
    done = run(KERAS_1)
    assert done.stdout == "(1, 3, 6, 6) [[True, False]] backplane.keras1\n", done.stderr
    line = "Written for Keras 1 (dim_ordering, lesser, th; --keras chooses another): "
    assert line + "K is backplane.keras1." in done.stderr.splitlines()
    # Today's order of the arguments: the loss of a wrong target.
    done = run(KERAS_1, options=["--keras", "2"])
    assert "Written for Keras 2 (--keras): K is backplane.backend." in done.stderr
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1, "from keras.layers import Dense, merge\nx = merge([a, b], mode='sum')"),
        (1, "import keras.backend\nkeras.backend.image_dim_ordering()"),
        (1, "import keras\nmodel.fit(x, y, nb_epoch=3)"),
        (1, "from keras.backend import lesser"),
        (
            1,
            "from keras.engine import Layer\nclass A(Layer):\n def get_output_shape_for(s): 1",
        ),
        (2, "from keras import backend as K"),
        (2, "from keras.layers import Conv2D\nConv2D(3, (3, 3), padding='same')"),
        (2, "import keras\nmodel.fit(x, y, epochs=3, nb_epoch=3)"),
        (2, "from tensorflow.keras import backend as K\nK.image_data_format()"),
        (2, "import numpy as np, keras\nnp.pack(1)"),
        (3, "import keras\nfrom keras import ops\nops.sum(x)"),
        (3, "import keras\nkeras.saving.load_model(p)"),
        (3, "import keras_core"),
        (None, "import numpy as np\nf(nb_epoch=1)"),
        (None, "from . import keras"),
        (None, "print 'Python 2'"),
    ],
)
def test_the_generation_of_a_script(number, text):
    found = generation.of_script(text)
    assert (found and found.number) == number, found


@pytest.mark.slow
def test_an_installed_keras_1(run):
    text = """
import sys; sys.modules["tensorflow"] = None
import numpy as np
from keras import backend as K
from keras.layers import Convolution2D, Flatten
from keras.models import Sequential
model = Sequential([Convolution2D(2, 3, 3, border_mode="same", input_shape=(4, 4, 1)), Flatten()])
model.compile("sgd", "mse")
model.fit(np.ones((4, 4, 4, 1)), np.ones((4, 32)), nb_epoch=1, verbose=0)
print(K.backend(), K.int_shape(model.output), hasattr(K, "lesser"), hasattr(K, "less"))
"""
    done = run(text, python=python_with("1.2.2"))
    assert done.stdout == "backplane.numpy (None, 32) True False\n", done.stderr
